//! One entry of a border node, copied out, and how entries are made.
//!
//! The table of the codes is in [`crate::node`].

use crate::cell::Cell;
use crate::key::{
    FINGERPRINTS, Fence, RANK_LONG, Rest, SLICE_BYTES, SlotPosition, fingerprint, slice_of,
    suffix_of,
};

/// The code of a cell is this and its fingerprint.
const CELL_CODE: u8 = 32;
const _: () = assert!(CELL_CODE > RANK_LONG && CELL_CODE.checked_add(FINGERPRINTS - 1).is_some());

/// One entry of a border node, copied out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) slice: u64,
    pub(crate) tail: u64,
    pub(crate) code: Code,
    pub(crate) value: u64,
}

/// How long the key is, or the fingerprint of its cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) u8);

impl Code {
    /// The code of the cell of a long key.
    pub(crate) fn of_cell(suffix: &[u8]) -> Self {
        Code(CELL_CODE + fingerprint(suffix))
    }

    #[inline]
    pub(crate) fn is_cell(self) -> bool {
        self.0 >= CELL_CODE
    }

    #[inline]
    pub(crate) fn rank(self) -> u8 {
        self.0.min(RANK_LONG)
    }

    pub(crate) fn is_known(self) -> bool {
        self.0 < RANK_LONG || self.is_cell()
    }
}

impl Entry {
    /// Nothing.
    pub(crate) const EMPTY: Entry = Entry { slice: 0, tail: 0, code: Code(0), value: 0 };

    /// An entry for `rest`, the key from this layer on. The tree owns a cell that this makes.
    pub(crate) fn make(rest: &[u8], value: u64) -> Self {
        let SlotPosition { slice, tail, rank } = SlotPosition::of(rest);
        if rank < RANK_LONG {
            return Entry { slice, tail, code: Code(rank), value };
        }
        let suffix = suffix_of(rest);
        Entry { slice, tail, code: Code::of_cell(suffix), value: Cell::make(suffix, value) }
    }

    /// An entry of a layer that begins after the slice, for a key of which tail and suffix are left
    /// there.
    pub(crate) fn make_after_slice(tail: u64, suffix: &[u8], value: u64) -> Self {
        if suffix.len() > SLICE_BYTES {
            let (head, suffix) = suffix.split_at(SLICE_BYTES);
            let (code, value) = (Code::of_cell(suffix), Cell::make(suffix, value));
            return Entry { slice: tail, tail: slice_of(head), code, value };
        }
        let code = Code((SLICE_BYTES + suffix.len()) as u8);
        Entry { slice: tail, tail: slice_of(suffix), code, value }
    }

    /// The same entry in a layer that begins after the slice, for a key that continues after the
    /// slice and has no cell.
    pub(crate) fn after_slice(&self) -> Entry {
        Entry { slice: self.tail, tail: 0, code: Code(self.code.0 - SLICE_BYTES as u8), ..*self }
    }

    pub(crate) fn position(&self) -> SlotPosition {
        SlotPosition { slice: self.slice, tail: self.tail, rank: self.code.rank() }
    }

    /// The greatest fence that is not after it.
    pub(crate) fn fence(&self) -> Fence {
        self.position().fence()
    }

    pub(crate) fn has_cell(&self) -> bool {
        self.code.is_cell()
    }

    /// The cell, if the entry has one.
    ///
    /// # Safety
    /// The entry was in a node, and its cell is not freed during `'g`: the caller has validated the
    /// version under which it was copied and is covered since before, or holds the lock.
    #[inline]
    pub(crate) unsafe fn cell<'g>(&self) -> Option<Cell<'g>> {
        // SAFETY: as the caller promises.
        self.has_cell().then(|| unsafe { Cell::of(self.value) })
    }

    /// Appends the bytes of the key from this layer on, without those of the cell.
    #[inline]
    pub(crate) fn append_to(&self, key: &mut Vec<u8>) {
        let mut bytes = [0; 2 * SLICE_BYTES];
        bytes[..SLICE_BYTES].copy_from_slice(&self.slice.to_be_bytes());
        bytes[SLICE_BYTES..].copy_from_slice(&self.tail.to_be_bytes());
        key.extend_from_slice(&bytes[..usize::from(self.code.0).min(2 * SLICE_BYTES)]);
    }

    /// Whether `rest`, another key, comes after the entry.
    ///
    /// # Safety
    /// As for [`Entry::cell`].
    pub(crate) unsafe fn is_before(&self, rest: &Rest<'_>) -> bool {
        if self.position() != rest.position {
            return self.position() < rest.position;
        }
        // SAFETY: as the caller promises.
        let cell = unsafe { self.cell() };
        cell.is_some_and(|cell| cell.suffix() < rest.suffix())
    }
}

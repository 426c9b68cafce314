//! A place in a block, both ways.
//!
//! Forward, a step decodes one entry onto the key of the last one. Backward there is nothing to
//! decode from, so the entries from the restart before are decoded at once and kept as a *group*;
//! further steps back only copy a key out of it. Whether an entry has the user key of the one
//! before is known within a group. So the group before is decoded when the first entry of one is
//! reached, and has that entry as its last. A step forward stays in the group as long as it goes.
//!
//! The cursor holds no block, so that its owner can hold block and cursor side by side. All calls
//! between two placements must pass the same block.

use super::{Block, Damage, Entry, Result, SHARES_TOO_MUCH};
use crate::key::{Comparator, TRAILER_BYTES};
use std::ops::Range;

/// An entry of a block, with its key put together.
#[derive(Debug, Default)]
pub(crate) struct BlockCursor {
    /// The internal key.
    key: Padded,
    value: Range<usize>,
    at: usize,
    next: usize,
    /// Whether the entry here has the user key of the one that the last step forward left.
    repeats: bool,
    /// Whether the entry before may have the user key of this one. `false` is certain.
    may_repeat_before: bool,
    /// The sequence number of all entries, in the place of that in the block.
    sequence: Option<u64>,
    group: Group,
}

/// Some neighbouring entries.
#[derive(Debug, Default)]
struct Group {
    keys: Padded,
    entries: Vec<Grouped>,
    /// Which of them the cursor is at, if there are any.
    place: usize,
}

#[derive(Clone, Debug)]
struct Grouped {
    key: Range<usize>,
    value: Range<usize>,
    at: usize,
    /// Whether it has the user key of the one before. Unknown of the first, for which it is `true`.
    may_repeat_before: bool,
}

impl BlockCursor {
    /// A cursor that shows all entries with this sequence number, if there is one.
    pub(crate) fn new(sequence: Option<u64>) -> Self {
        BlockCursor { sequence, ..BlockCursor::default() }
    }

    /// The internal key here.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.key.bytes()
    }

    /// Where the entry here begins in the block.
    #[inline]
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Where the value here is in the block.
    #[inline]
    pub(crate) fn value(&self) -> Range<usize> {
        self.value.clone()
    }

    /// Whether the entry here has the user key of the one that the last step forward left, also if
    /// that was the last of another block.
    #[inline]
    pub(crate) fn repeats(&self) -> bool {
        self.repeats
    }

    /// Whether the entry before this one may have its user key. `false` is certain.
    #[inline]
    pub(crate) fn may_repeat_before(&self) -> bool {
        self.may_repeat_before
    }

    /// Goes to the first entry. A block has one.
    pub(crate) fn seek_first(&mut self, block: &Block) -> Result<()> {
        self.group.entries.clear();
        let entry = block.entry(0)?;
        if entry.shared > 0 {
            return Err(Damage { at: 0, what: SHARES_TOO_MUCH });
        }
        self.set(block, 0, entry);
        self.may_repeat_before = true;
        Ok(())
    }

    /// Goes to the last entry.
    pub(crate) fn seek_last(&mut self, block: &Block) -> Result<()> {
        self.back(block, block.entries_end).map(|_| ())
    }

    /// Goes to the first entry that is not before the user key with this trailer, as the block has
    /// it; `false` if all are, and the cursor is nowhere then.
    pub(crate) fn seek(
        &mut self,
        block: &Block,
        order: &Comparator,
        user: &[u8],
        trailer: u64,
    ) -> Result<bool> {
        self.group.entries.clear();
        let key = self.key.start(user.len() + TRAILER_BYTES);
        let found = block.seek(order, user, trailer, key);
        self.key.end();
        let Some((at, entry)) = found? else { return Ok(false) };
        self.value = entry.value;
        (self.at, self.next) = (at, entry.next);
        (self.repeats, self.may_repeat_before) = (false, true);
        self.show_sequence(entry.trailer);
        Ok(true)
    }

    /// Goes one entry on; `false` at the end, and the cursor stays.
    #[inline]
    pub(crate) fn next(&mut self, block: &Block) -> Result<bool> {
        if self.next >= block.entries_end {
            return Ok(false);
        }
        if !self.group.entries.is_empty() {
            self.group.place += 1;
            if self.group.place < self.group.entries.len() {
                self.take_grouped();
                self.repeats = self.may_repeat_before;
                return Ok(true);
            }
            self.group.entries.clear();
        }
        self.decode(block)?;
        Ok(true)
    }

    /// Goes one entry back; `false` at the beginning, and the cursor stays.
    #[inline]
    pub(crate) fn prev(&mut self, block: &Block) -> Result<bool> {
        if self.at == 0 {
            return Ok(false);
        }
        let Group { entries, place, .. } = &mut self.group;
        if entries.is_empty() || *place == 0 {
            return self.back(block, self.at);
        }
        *place -= 1;
        let first = &entries[0];
        if *place == 0 && first.at > 0 {
            // The group before is needed soon, and tells now whether the first entry repeats a key.
            let end = first.value.end;
            return self.back(block, end);
        }
        self.take_grouped();
        Ok(true)
    }

    /// Decodes the entry at `next`, onto the key here.
    #[inline]
    fn decode(&mut self, block: &Block) -> Result<()> {
        let at = self.next;
        let entry = block.entry(at)?;
        if entry.shared > self.key.len.saturating_sub(TRAILER_BYTES) {
            return Err(Damage { at, what: SHARES_TOO_MUCH });
        }
        self.set(block, at, entry);
        Ok(())
    }

    /// Shows an entry, which shares its bytes with the key here.
    #[inline(always)]
    fn set(&mut self, block: &Block, at: usize, entry: Entry<'_>) {
        let Entry { shared, suffix, trailer, value, next } = entry;
        // Keys that differ do so in the first byte that is not shared, but for those of restarts.
        let user_bytes = self.key.len.saturating_sub(TRAILER_BYTES);
        let rest = &self.key.bytes()[shared..user_bytes.max(shared)];
        self.repeats =
            rest.len() == suffix.len() && rest.first() == suffix.first() && rest == suffix;
        self.may_repeat_before = self.repeats;
        let end_bytes = suffix.len() + TRAILER_BYTES;
        self.key.replace_end(shared, &block.bytes[value.start - end_bytes..], end_bytes);
        self.value = value;
        (self.at, self.next) = (at, next);
        self.show_sequence(trailer);
    }

    /// Puts the sequence number of all entries in the place of that of the block.
    #[inline]
    fn show_sequence(&mut self, trailer: u64) {
        if let Some(sequence) = self.sequence {
            let shown = (sequence << 8 | trailer & 0xff).to_le_bytes();
            let end = self.key.len;
            self.key.bytes[end - TRAILER_BYTES..end].copy_from_slice(&shown);
        }
    }

    /// Groups the entries from a restart up to the entry that ends at `end`, and goes to that. It
    /// has one before it in the group, unless it is the first of the block.
    fn back(&mut self, block: &Block, end: usize) -> Result<bool> {
        // After a seek, nobody has asked for what is before its entry.
        let is_sought = self.group.entries.is_empty();
        let mut low = 0;
        let mut high = block.restarts;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if block.restart(middle)? < end {
                low = middle;
            } else {
                high = middle;
            }
        }
        if is_sought {
            block.prefetch_between(block.restart(low)?, end);
        }
        self.group(block, low, end)?;
        if low > 0 && self.group.entries.len() == 1 {
            self.group(block, low - 1, end)?;
        }
        self.group.place = self.group.entries.len() - 1;
        self.may_repeat_before |= self.group.place == 0;
        Ok(true)
    }

    /// Decodes the entries from a restart up to `end` into the group.
    fn group(&mut self, block: &Block, restart: usize, end: usize) -> Result<()> {
        self.group.keys.len = 0;
        self.group.entries.clear();
        self.key.len = 0;
        self.next = block.restart(restart)?;
        while self.next < end {
            self.decode(block)?;
            let Group { keys, entries, .. } = &mut self.group;
            let key_at = keys.len;
            keys.replace_end(key_at, &self.key.bytes, self.key.len);
            entries.push(Grouped {
                key: key_at..keys.len,
                value: self.value.clone(),
                at: self.at,
                may_repeat_before: self.repeats || entries.is_empty(),
            });
        }
        if self.group.entries.is_empty() || self.next != end {
            self.group.entries.clear();
            return Err(Damage { at: end, what: "a restart that is not at an entry" });
        }
        Ok(())
    }

    #[inline]
    fn take_grouped(&mut self) {
        let entry = &self.group.entries[self.group.place];
        self.key.replace_end(0, &self.group.keys.bytes[entry.key.start..], entry.key.len());
        self.value = entry.value.clone();
        (self.at, self.next) = (entry.at, entry.value.end);
        self.may_repeat_before = entry.may_repeat_before;
    }
}

/// Bytes that are copied at once, whatever a key needs of them.
const PIECE_BYTES: usize = 32;

/// Bytes with room behind them, so that a short end can be written as one piece of a fixed size,
/// and without a call.
#[derive(Debug, Default)]
struct Padded {
    bytes: Vec<u8>,
    /// How many of them count.
    len: usize,
}

impl Padded {
    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Replaces what is behind the first `kept` bytes by the first `len` bytes of `source`. It may
    /// copy more of it, into the room.
    #[inline]
    fn replace_end(&mut self, kept: usize, source: &[u8], len: usize) {
        debug_assert!(kept <= self.len);
        if len <= PIECE_BYTES
            && let Some(piece) = source.first_chunk::<PIECE_BYTES>()
            && let Some(room) = self.bytes.get_mut(kept..kept + PIECE_BYTES)
        {
            room.copy_from_slice(piece);
            self.len = kept + len;
        } else {
            self.replace_long_end(kept, &source[..len]);
        }
    }

    #[cold]
    fn replace_long_end(&mut self, kept: usize, end: &[u8]) {
        self.len = kept + end.len();
        if self.bytes.len() < self.len + PIECE_BYTES {
            self.bytes.resize((self.len + PIECE_BYTES).next_multiple_of(2 * PIECE_BYTES), 0);
        }
        self.bytes[kept..self.len].copy_from_slice(end);
    }

    /// The bytes as a vector, to be written anew up to [`Self::end`], about so many.
    fn start(&mut self, bytes: usize) -> &mut Vec<u8> {
        self.bytes.clear();
        self.bytes.reserve(bytes + 3 * PIECE_BYTES);
        &mut self.bytes
    }

    fn end(&mut self) {
        self.len = self.bytes.len();
        self.bytes.resize((self.len + PIECE_BYTES).next_multiple_of(2 * PIECE_BYTES), 0);
    }
}

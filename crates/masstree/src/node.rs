//! Border and interior nodes, and the only code that turns a handle into a reference to one.
//!
//! ```text
//!   border    line 0     version parent incarnation permutation low high stale code[15]
//!             lines 1-6  slice[15] value[15] tail[15]
//!   interior  5 lines    version parent incarnation count separator[24] child[25]
//! ```
//!
//! A border node holds the entries of its layer with `low <= slice < high`. `high` 0 stands for no
//! bound; it is free for that, because no range ends at slice 0. In an interior node, child `i` has
//! the slices from separator `i - 1` on and below separator `i`.
//!
//! | code | the entry | tail | value |
//! |---|---|---|---|
//! | 0..=16 | a key of this length from this layer on | its second slice | the value |
//! | 17 | a longer key | its second slice | a cell: the value, and what follows the tail |
//! | 18 | all keys that continue after slice and tail | their second slice | a node of their layer |
//! | 19 | all keys that continue after the slice | 0 | a node of their layer |
//!
//! All entries of a slice are in one node. Of one slice and tail, at most one entry has a code
//! above 16; of a slice with code 19, no other entry has a code above 8.
//!
//! **Nodes are never unmapped** while their tree exists, and the memory of a node is only ever
//! reused for nodes of its kind. So a reader may follow any handle that it has read from a node,
//! however old: it reaches a node. The version tells whether it is the right one, because version
//! counters continue from one incarnation of the memory to the next. Hence nodes are not retired
//! like values, but reused at once. `incarnation` counts the incarnations.
//!
//! **Writers.** Everything is written under the node's lock, with two exceptions. `parent` is
//! written under the lock of the parent, old or new. The `value` of a layer may change to a newer
//! root of that layer, under the lock but without a mark.
//!
//! **Readers.** The version is an optimistic lock (a seqlock), and all fields are atomics. A reader
//! takes a stable version, reads, and validates before it follows a word as a handle of a layer or
//! as a pointer. It may follow handles of children and parents before it validates.
//!
//! **Reused slots.** A slot that was live since the last mark is *stale*: a reader may still read
//! it under an older permutation. Filling it needs the mark `inserting`; filling another slot needs
//! none.

use crate::cell::Cell;
use crate::key::{RANK_LONG, SLICE_BYTES, SlotPosition, slice_of};
use crate::permutation::{Permutation, WIDTH};
use crate::simd;
use Ordering::{Acquire, Relaxed, Release};
use keyrack_concurrent::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use keyrack_concurrent::{Locked, UNIT_BYTES, VersionLock};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};

/// Separators of an interior node; it has one more child.
pub(crate) const INTERIOR_WIDTH: usize = 24;

/// Keys of this length and below are in the node, whole.
const LENGTH_MAX: u8 = 16;
const CELL_CODE: u8 = 17;
const LONG_LAYER_CODE: u8 = 18;
const SHORT_LAYER_CODE: u8 = 19;
pub(crate) const CODE_MAX: u8 = SHORT_LAYER_CODE;

/// The first fields of both kinds of node. No node has the handle 0.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Head {
    version: VersionLock,
    parent: AtomicU32,
    incarnation: AtomicU32,
}

#[repr(C, align(64))]
pub(crate) struct Border {
    head: Head,
    permutation: AtomicU64,
    low: AtomicU64,
    high: AtomicU64,
    /// One bit a slot; only under the lock.
    stale: AtomicU16,
    code: [AtomicU8; WIDTH],
    slice: [AtomicU64; WIDTH],
    value: [AtomicU64; WIDTH],
    tail: [AtomicU64; WIDTH],
}

#[repr(C, align(64))]
pub(crate) struct Interior {
    head: Head,
    count: AtomicU32,
    separator: [AtomicU64; INTERIOR_WIDTH],
    child: [AtomicU32; INTERIOR_WIDTH + 1],
}

pub(crate) const BORDER_LINES: usize = size_of::<Border>() / LINE_BYTES;
pub(crate) const INTERIOR_LINES: usize = size_of::<Interior>() / LINE_BYTES;
const LINE_BYTES: usize = 64;
const _: () = assert!(UNIT_BYTES == LINE_BYTES && BORDER_LINES == 7 && INTERIOR_LINES == 5);

/// One entry of a border node, copied out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) slice: u64,
    pub(crate) tail: u64,
    pub(crate) code: u8,
    pub(crate) value: u64,
}

/// A node of a tree that lives at least as long as `'t`.
pub(crate) struct Ref<'t, T> {
    pointer: NonNull<T>,
    lifetime: PhantomData<&'t T>,
}

pub(crate) type NodeRef<'t> = Ref<'t, Head>;
pub(crate) type BorderRef<'t> = Ref<'t, Border>;
pub(crate) type InteriorRef<'t> = Ref<'t, Interior>;

/// A node by its kind.
pub(crate) enum Kind<'t> {
    Border(BorderRef<'t>),
    Interior(InteriorRef<'t>),
}

/// Where the nodes of a tree are: unit 0 of the range that handles count from.
#[derive(Clone, Copy)]
pub(crate) struct Space<'t> {
    base: *const u8,
    lifetime: PhantomData<&'t ()>,
}

impl<T> Clone for Ref<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ref<'_, T> {}

impl<T> PartialEq for Ref<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.pointer == other.pointer
    }
}

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.get()
    }
}

impl<'t, T> Ref<'t, T> {
    #[inline]
    fn get(self) -> &'t T {
        // SAFETY: the node's memory is mapped as long as its tree, it began as zeros, which all
        // fields may be, and all fields are atomics, so shared references are all that anybody has.
        unsafe { self.pointer.as_ref() }
    }

    fn cast<U>(self) -> Ref<'t, U> {
        Ref { pointer: self.pointer.cast(), lifetime: PhantomData }
    }
}

impl<'t> Space<'t> {
    /// The space of the arena with this base.
    ///
    /// # Safety
    /// The arena lives as long as `'t`.
    pub(crate) unsafe fn new(base: *const u8) -> Self {
        Space { base, lifetime: PhantomData }
    }

    /// The node behind a handle, or `None` for 0.
    ///
    /// # Safety
    /// The handle is 0, or that of a node of this space.
    #[inline]
    pub(crate) unsafe fn node(self, handle: u32) -> Option<NodeRef<'t>> {
        if handle == 0 {
            return None;
        }
        let pointer = self.base.wrapping_add(handle as usize * UNIT_BYTES).cast_mut();
        NonNull::new(pointer.cast()).map(|pointer| Ref { pointer, lifetime: PhantomData })
    }

    #[inline]
    pub(crate) fn handle(self, node: NodeRef<'t>) -> u32 {
        ((node.pointer.as_ptr() as usize - self.base as usize) / UNIT_BYTES) as u32
    }

    /// The node behind the entry of a layer.
    ///
    /// # Safety
    /// The entry is one that was in a node: the caller has validated the version under which it was
    /// copied, or holds the lock.
    #[inline]
    pub(crate) unsafe fn linked(self, entry: Entry) -> NodeRef<'t> {
        debug_assert!(entry.is_layer());
        // SAFETY: the value of such an entry is a handle.
        let node = unsafe { self.node(entry.value as u32) };
        node.expect("the entry of a layer has a node")
    }
}

impl<'t> NodeRef<'t> {
    #[inline]
    pub(crate) fn version(self) -> &'t VersionLock {
        &self.get().version
    }

    /// The number of incarnations that the memory has had.
    pub(crate) fn incarnation(self) -> u32 {
        self.get().incarnation.load(Relaxed)
    }

    /// Ends the incarnation of the node. Under its lock, once it is marked deleted.
    pub(crate) fn end_incarnation(self) {
        let next = self.incarnation().wrapping_add(1);
        self.get().incarnation.store(next, Relaxed);
        self.get().parent.store(0, Release);
    }

    /// Prefetches the lines of the node that a search reads, so that they arrive together with the
    /// version and not one after the other. A border node has two lines more than an interior one.
    #[inline]
    pub(crate) fn prefetch(self) {
        for line in 0..BORDER_LINES {
            prefetch(self.pointer.as_ptr().cast::<u8>().wrapping_add(line * LINE_BYTES));
        }
    }

    #[inline]
    pub(crate) fn kind(self) -> Kind<'t> {
        // The kind of a node's memory never changes.
        if self.version().load().is_border() {
            Kind::Border(self.cast())
        } else {
            Kind::Interior(self.cast())
        }
    }

    /// The parent, if the node has one. Acquire pairs with [`NodeRef::set_parent`].
    pub(crate) fn parent(self, space: Space<'t>) -> Option<InteriorRef<'t>> {
        // SAFETY: `set_parent` stores a handle of the same space.
        let parent = unsafe { space.node(self.get().parent.load(Acquire)) };
        parent.map(Ref::cast)
    }

    pub(crate) fn set_parent(self, space: Space<'t>, parent: Option<InteriorRef<'t>>) {
        let handle = parent.map_or(0, |parent| space.handle(parent.node()));
        self.get().parent.store(handle, Release);
    }

    /// Waits for the parent's lock. `None` if the node is a root. The node must be locked.
    pub(crate) fn lock_parent(self, space: Space<'t>) -> Option<(InteriorRef<'t>, Locked<'t>)> {
        let mut backoff = keyrack_concurrent::Backoff::new();
        loop {
            let parent = self.parent(space)?;
            if let Some(locked) = self.try_lock_parent(space, parent) {
                return Some((parent, locked));
            }
            backoff.wait();
        }
    }

    /// Locks a parent that was read, if it is not locked. It does not wait: the parent may have
    /// split and the node moved to its new neighbour, or the parent may have a new incarnation.
    /// Under the parent's lock neither can happen any more.
    pub(crate) fn try_lock_parent(
        self,
        space: Space<'t>,
        parent: InteriorRef<'t>,
    ) -> Option<Locked<'t>> {
        let locked = parent.version().try_lock()?;
        let same = self.parent(space) == Some(parent);
        debug_assert!(!same || !locked.version().is_deleted());
        same.then_some(locked)
    }
}

/// Prefetches the line at an address. Any address is allowed: a prefetch neither reads nor faults.
#[inline]
pub(crate) fn prefetch(address: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing, and a bad address has no effect.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{0}]", in(reg) address,
            options(readonly, nostack, preserves_flags));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = address;
}

/// Prefetches the line that a word points to.
pub(crate) fn prefetch_word(word: u64) {
    prefetch(ptr::without_provenance(word as usize));
}

impl<'t> BorderRef<'t> {
    /// The node behind a handle.
    ///
    /// # Safety
    /// The handle is that of a border node of this space, or of memory for one.
    pub(crate) unsafe fn new(space: Space<'t>, handle: u32) -> Self {
        // SAFETY: as the caller promises.
        let node = unsafe { space.node(handle) };
        node.expect("no node has the handle 0").cast()
    }

    /// Begins an incarnation without entries, for slices from `low` on and below `high`. The caller
    /// links the node, and then drops the lock.
    pub(crate) fn begin(self, root: bool, low: u64, high: u64) -> Locked<'t> {
        let mut locked = self.version().lock();
        locked.begin_incarnation(root, true);
        self.publish(Permutation::EMPTY);
        self.low.store(low, Relaxed);
        self.set_high(high);
        self.clear_stale();
        locked
    }

    #[inline]
    pub(crate) fn node(self) -> NodeRef<'t> {
        self.cast()
    }

    #[inline]
    pub(crate) fn version(self) -> &'t VersionLock {
        self.node().version()
    }
}

impl<'t> InteriorRef<'t> {
    /// The node behind a handle.
    ///
    /// # Safety
    /// The handle is that of an interior node of this space, or of memory for one.
    pub(crate) unsafe fn new(space: Space<'t>, handle: u32) -> Self {
        // SAFETY: as the caller promises.
        let node = unsafe { space.node(handle) };
        node.expect("no node has the handle 0").cast()
    }

    /// Begins an incarnation without separators or children. The caller links the node, and then
    /// drops the lock.
    pub(crate) fn begin(self, root: bool) -> Locked<'t> {
        let mut locked = self.version().lock();
        locked.begin_incarnation(root, false);
        self.set_count(0);
        locked
    }

    #[inline]
    pub(crate) fn node(self) -> NodeRef<'t> {
        self.cast()
    }

    #[inline]
    pub(crate) fn version(self) -> &'t VersionLock {
        self.node().version()
    }

    /// Child `index`, or `None` where a reader meets a concurrent change.
    #[inline]
    pub(crate) fn child(self, space: Space<'t>, index: usize) -> Option<NodeRef<'t>> {
        // SAFETY: `set_child` stores handles of the same space. Acquire pairs with it.
        unsafe { space.node(self.get().child[index].load(Acquire)) }
    }

    #[inline]
    pub(crate) fn child_for(self, space: Space<'t>, slice: u64) -> Option<NodeRef<'t>> {
        self.child(space, simd::at_most(&self.get().separator, self.count(), slice))
    }

    pub(crate) fn set_child(self, space: Space<'t>, index: usize, child: Option<NodeRef<'t>>) {
        let handle = child.map_or(0, |child| space.handle(child));
        self.get().child[index].store(handle, Release);
    }

    /// Which child it is. Only under the lock.
    pub(crate) fn index_of(self, space: Space<'t>, child: NodeRef<'t>) -> Option<usize> {
        let handle = space.handle(child);
        (0..=self.count()).find(|&index| self.get().child[index].load(Relaxed) == handle)
    }
}

/// The result of a search for a key in a border node.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Find {
    /// Nothing.
    Absent,
    /// An entry with its slice, tail and rank: its own, or that of another long key.
    Entry(usize, Entry),
    /// The layer that it is in, if it is.
    Layer(usize, Entry),
}

impl Border {
    /// Acquire pairs with [`Border::publish`]: the slots that it makes live are filled.
    #[inline]
    pub(crate) fn permutation(&self) -> Permutation {
        Permutation::from_word(self.permutation.load(Acquire))
    }

    /// Makes the entries of the permutation visible. Only under the lock.
    pub(crate) fn publish(&self, permutation: Permutation) {
        self.permutation.store(permutation.word(), Release);
    }

    pub(crate) fn low(&self) -> u64 {
        self.low.load(Relaxed)
    }

    pub(crate) fn high(&self) -> u64 {
        self.high.load(Relaxed)
    }

    pub(crate) fn set_high(&self, high: u64) {
        self.high.store(high, Relaxed);
    }

    /// Whether `slice` belongs here.
    pub(crate) fn covers(&self, slice: u64) -> bool {
        self.low() <= slice && (self.high() == 0 || slice < self.high())
    }

    /// A copy of a slot. It is consistent only once the version is validated.
    #[inline]
    pub(crate) fn entry(&self, slot: usize) -> Entry {
        Entry {
            slice: self.slice[slot].load(Relaxed),
            tail: self.tail[slot].load(Relaxed),
            code: self.code[slot].load(Relaxed),
            // Pairs with `set_value`: what the value points to was made before.
            value: self.value[slot].load(Acquire),
        }
    }

    /// Fills a slot that is not live to any reader, or while readers wait.
    pub(crate) fn set_entry(&self, slot: usize, entry: Entry) {
        self.slice[slot].store(entry.slice, Relaxed);
        self.tail[slot].store(entry.tail, Relaxed);
        self.code[slot].store(entry.code, Relaxed);
        self.set_value(slot, entry.value);
    }

    /// Exchanges the value of a live slot; readers see the old one or the new one.
    pub(crate) fn set_value(&self, slot: usize, value: u64) {
        self.value[slot].store(value, Release);
    }

    /// Searches the entry at `wanted`.
    #[inline]
    pub(crate) fn find(&self, wanted: SlotPosition) -> Find {
        let permutation = self.permutation();
        let mut slots = simd::equal(&self.slice, wanted.slice);
        while slots != 0 {
            let slot = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            let code = self.code[slot].load(Relaxed);
            let here = match code {
                SHORT_LAYER_CODE => wanted.rank > SLICE_BYTES as u8,
                _ => {
                    self.tail[slot].load(Relaxed) == wanted.tail
                        && code.min(RANK_LONG) == wanted.rank
                }
            };
            if here && permutation.is_live(slot) {
                let entry = self.entry(slot);
                return match code {
                    0..=CELL_CODE => Find::Entry(slot, entry),
                    _ => Find::Layer(slot, entry),
                };
            }
        }
        Find::Absent
    }

    /// How many entries come before `position`. Only under the lock.
    pub(crate) fn index_for(&self, permutation: Permutation, position: SlotPosition) -> usize {
        let comes_before = |slot: usize| {
            let slice = self.slice[slot].load(Relaxed);
            slice < position.slice || slice == position.slice && self.entry(slot).first() < position
        };
        let count = permutation.len();
        // Keys often come in ascending order.
        if count > 0 && comes_before(permutation.slot(count - 1)) {
            return count;
        }
        permutation.slots().take_while(|&slot| comes_before(slot)).count()
    }

    pub(crate) fn is_stale(&self, slot: usize) -> bool {
        self.stale.load(Relaxed) & 1 << slot != 0
    }

    pub(crate) fn set_stale(&self, slot: usize) {
        self.stale.store(self.stale.load(Relaxed) | 1 << slot, Relaxed);
    }

    /// The node is marked: no reader that validates has seen the former contents of the slots.
    pub(crate) fn clear_stale(&self) {
        self.stale.store(0, Relaxed);
    }

    /// Fills an empty node with at most fifteen entries, in ascending order.
    pub(crate) fn fill(&self, entries: &[Entry]) {
        let mut permutation = Permutation::EMPTY;
        for (index, entry) in entries.iter().enumerate() {
            let (next, slot) = permutation.insert(index);
            self.set_entry(slot, *entry);
            permutation = next;
        }
        self.publish(permutation);
    }
}

impl Interior {
    /// Acquire pairs with [`Interior::set_count`]: the children that it makes reachable are there.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        (self.count.load(Acquire) as usize).min(INTERIOR_WIDTH)
    }

    pub(crate) fn set_count(&self, count: usize) {
        self.count.store(count as u32, Release);
    }

    pub(crate) fn separator(&self, index: usize) -> u64 {
        self.separator[index].load(Relaxed)
    }

    pub(crate) fn set_separator(&self, index: usize, separator: u64) {
        self.separator[index].store(separator, Relaxed);
    }
}

impl Entry {
    /// An entry for `rest`, the key from this layer on. The tree owns a cell that this makes.
    pub(crate) fn make(rest: &[u8], value: u64) -> Self {
        let SlotPosition { slice, tail, rank } = SlotPosition::of(rest);
        let value = if rank == RANK_LONG { Cell::make(suffix_of(rest), value) } else { value };
        Entry { slice, tail, code: rank, value }
    }

    /// An entry for the keys that continue after slice and tail.
    pub(crate) fn long_layer(slice: u64, tail: u64, root: u32) -> Self {
        Entry { slice, tail, code: LONG_LAYER_CODE, value: root.into() }
    }

    /// An entry for the keys that continue after the slice.
    pub(crate) fn short_layer(slice: u64, root: u32) -> Self {
        Entry { slice, tail: 0, code: SHORT_LAYER_CODE, value: root.into() }
    }

    /// The position of the entry; of a layer, the first position in it.
    pub(crate) fn first(&self) -> SlotPosition {
        match self.code {
            SHORT_LAYER_CODE => {
                SlotPosition { slice: self.slice, tail: 0, rank: SLICE_BYTES as u8 + 1 }
            }
            code => SlotPosition { slice: self.slice, tail: self.tail, rank: code.min(RANK_LONG) },
        }
    }

    /// The position of the entry; of a layer, the last position in it.
    pub(crate) fn last(&self) -> SlotPosition {
        match self.code {
            SHORT_LAYER_CODE => SlotPosition { slice: self.slice, tail: u64::MAX, rank: RANK_LONG },
            _ => self.first(),
        }
    }

    pub(crate) fn is_layer(&self) -> bool {
        self.code >= LONG_LAYER_CODE
    }

    /// Bytes of the key, from here on, that all keys of the layer share.
    pub(crate) fn layer_bytes(&self) -> usize {
        if self.code == SHORT_LAYER_CODE { SLICE_BYTES } else { 2 * SLICE_BYTES }
    }

    /// The cell, if the entry has one.
    ///
    /// # Safety
    /// The entry was in a node, and its cell is not freed during `'g`: the caller has validated the
    /// version under which it was copied and is covered since before, or holds the lock.
    #[inline]
    pub(crate) unsafe fn cell<'g>(&self) -> Option<Cell<'g>> {
        // SAFETY: as the caller promises.
        (self.code == CELL_CODE).then(|| unsafe { Cell::of(self.value) })
    }

    /// Appends the bytes of the key from this layer on, without those of the cell. For the entry of
    /// a layer, these are the bytes that all keys of the layer share.
    pub(crate) fn append_to(&self, key: &mut Vec<u8>) {
        let mut bytes = [0; 2 * SLICE_BYTES];
        bytes[..SLICE_BYTES].copy_from_slice(&self.slice.to_be_bytes());
        bytes[SLICE_BYTES..].copy_from_slice(&self.tail.to_be_bytes());
        let len = match self.code {
            SHORT_LAYER_CODE => SLICE_BYTES,
            code => code.min(LENGTH_MAX).into(),
        };
        key.extend_from_slice(&bytes[..len]);
    }

    pub(crate) fn has_cell(&self) -> bool {
        self.code == CELL_CODE
    }

    /// Whether its keys are longer than the slice.
    pub(crate) fn exceeds_slice(&self) -> bool {
        self.code > SLICE_BYTES as u8
    }

    /// The same entry in a layer that begins after the slice, for an entry that exceeds the slice
    /// and has no cell.
    pub(crate) fn after_slice(&self) -> Entry {
        let code = match self.code {
            LONG_LAYER_CODE => SHORT_LAYER_CODE,
            code => code - SLICE_BYTES as u8,
        };
        Entry { slice: self.tail, tail: 0, code, ..*self }
    }
}

/// What follows the tail of a long key.
#[inline]
pub(crate) fn suffix_of(rest: &[u8]) -> &[u8] {
    rest.get(2 * SLICE_BYTES..).unwrap_or(&[])
}

/// An entry made of a tail and the bytes after it, in a layer that begins after the slice.
pub(crate) fn entry_after_slice(tail: u64, suffix: &[u8], value: u64) -> Entry {
    if suffix.len() > SLICE_BYTES {
        let value = Cell::make(&suffix[SLICE_BYTES..], value);
        return Entry { slice: tail, tail: slice_of(suffix), code: CELL_CODE, value };
    }
    let code = (SLICE_BYTES + suffix.len()) as u8;
    Entry { slice: tail, tail: slice_of(suffix), code, value }
}

//! Border and interior nodes, and the only code that turns a handle into a reference to one.
//!
//! ```text
//!   border    line 0     version parent prefix permutation low high stale code[15] fences
//!             lines 1-6  slice[15] value[15] tail[15]
//!   interior  5 lines    version parent prefix count separator[24] child[25]
//! ```
//!
//! A border node holds the entries of its layer from the fence `low` on and below the fence `high`.
//! The slice 0 as `high` stands for no bound; it is free for that, because no range ends there. In
//! an interior node, child `i` has what is from separator `i - 1` on and below separator `i`. A
//! separator is a fence: its slice, and a bit beside the count.
//!
//! | code | the entry | tail | value |
//! |---|---|---|---|
//! | 0..=16 | a key of this length from this layer on | its second slice | the value |
//! | 32..=255 | a longer key, with a fingerprint | its second slice | a cell: the value, and what follows the tail |
//!
//! **Layers.** A node with the flag `root` begins a layer. Where it is the child of a node, it has
//! all keys of one slice that continue after it: the slice of the fence before the child, which is
//! one of continuing keys. Keys up to the next separator that do not have the slice are nowhere:
//! the layer is followed by a *gap*. A layer may have a prefix besides (`prefix.rs`): its keys have
//! that after the slice, and keys of the slice without it are nowhere either. The tree begins with
//! a layer, too, which has no slice before it, but may have a prefix. In a layer, all border nodes
//! and roots of further layers are equally deep. The leftmost of these is a border node, which may
//! be empty.
//!
//! **Nodes are never unmapped** while their tree exists, and the memory of a node is only ever
//! reused for nodes of its kind. So a reader may follow any handle that it has read from a node,
//! however old: it reaches a node. The version tells whether it is the right one, because version
//! counters continue from one incarnation of the memory to the next. Hence nodes are not retired
//! like values, but reused at once.
//!
//! **Writers.** Everything is written under the node's lock, except that `parent` is written under
//! the lock of the parent, old or new.
//!
//! **Readers.** The version is an optimistic lock (a seqlock), and all fields are atomics. A reader
//! takes a stable version, reads, and validates before it follows a word as a pointer. It may
//! follow handles of children, parents and prefixes before it validates.
//!
//! **Reused slots.** A slot that was live since the last mark is *stale*: a reader may still read
//! it under an older permutation. Filling it needs the mark `inserting`; filling another slot needs
//! none.

use crate::entry::{Code, Entry};
use crate::key::{Fence, Rest, SlotPosition};
use crate::permutation::{Permutation, WIDTH};
use crate::prefix::Prefix;
use crate::simd;
use Ordering::{Acquire, Relaxed, Release};
use keyrack_concurrent::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};
use keyrack_concurrent::{Locked, UNIT_BYTES, VersionLock};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};

/// Separators of an interior node; it has one more child.
pub(crate) const INTERIOR_WIDTH: usize = 24;

/// The first fields of both kinds of node. No node has the handle 0.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Head {
    version: VersionLock,
    parent: AtomicU32,
    /// Of the layer that begins here; 0 if it has none.
    prefix: AtomicU32,
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
    /// Which of `low` and `high` are fences of continuing keys.
    fences: AtomicU8,
    slice: [AtomicU64; WIDTH],
    value: [AtomicU64; WIDTH],
    tail: [AtomicU64; WIDTH],
}

#[repr(C, align(64))]
pub(crate) struct Interior {
    head: Head,
    /// Eight bits, and one for each separator: whether it is a fence of continuing keys.
    count: AtomicU32,
    separator: [AtomicU64; INTERIOR_WIDTH],
    child: [AtomicU32; INTERIOR_WIDTH + 1],
}

pub(crate) const BORDER_LINES: usize = size_of::<Border>() / LINE_BYTES;
pub(crate) const INTERIOR_LINES: usize = size_of::<Interior>() / LINE_BYTES;
const LINE_BYTES: usize = 64;
const LOW_CONTINUING: u8 = 1;
const HIGH_CONTINUING: u8 = 2;
const COUNT_BITS: u32 = 8;
const _: () = assert!(UNIT_BYTES == LINE_BYTES && BORDER_LINES == 7 && INTERIOR_LINES == 5);

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
        let pointer = self.address(handle).cast_mut();
        NonNull::new(pointer.cast()).map(|pointer| Ref { pointer, lifetime: PhantomData })
    }

    #[inline]
    pub(crate) fn handle(self, node: NodeRef<'t>) -> u32 {
        ((node.pointer.as_ptr() as usize - self.base as usize) / UNIT_BYTES) as u32
    }

    /// The memory of a block.
    pub(crate) fn address(self, handle: u32) -> *const u8 {
        self.base.wrapping_add(handle as usize * UNIT_BYTES)
    }
}

impl<'t> NodeRef<'t> {
    #[inline]
    pub(crate) fn version(self) -> &'t VersionLock {
        &self.get().version
    }

    /// The prefix of the layer that begins here.
    #[inline]
    pub(crate) fn prefix(self, space: Space<'t>) -> Option<Prefix<'t>> {
        let handle = self.prefix_handle();
        // SAFETY: the handle is that of a block for prefixes.
        (handle != 0).then(|| unsafe { Prefix::at(space.address(handle)) })
    }

    #[inline]
    pub(crate) fn prefix_handle(self) -> u32 {
        self.get().prefix.load(Acquire)
    }

    pub(crate) fn set_prefix(self, handle: u32) {
        self.get().prefix.store(handle, Release);
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

    /// Waits for the parent's lock. `None` if the node is the root of the tree. The node must be
    /// locked.
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

    /// Begins an incarnation without entries, from `low` on and below `high`. The caller links the
    /// node, and then drops the lock.
    pub(crate) fn begin(self, root: bool, low: Fence, high: Option<Fence>) -> Locked<'t> {
        let mut locked = self.version().lock();
        locked.begin_incarnation(root, true);
        self.node().set_prefix(0);
        self.publish(Permutation::EMPTY);
        self.set_low(low);
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
        self.node().set_prefix(0);
        self.get().count.store(0, Release);
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

    /// Which child has what is at `fence`, and on up to the next one.
    #[inline]
    pub(crate) fn index_for(self, fence: Fence) -> usize {
        let (count, flags) = self.counts();
        let index = simd::at_most(&self.get().separator, count, fence.slice);
        // Two separators may have the same slice: the second is for continuing keys.
        let beyond = index > 0
            && !fence.continuing
            && flags >> (index - 1) & 1 != 0
            && self.get().separator[index - 1].load(Relaxed) == fence.slice;
        index - usize::from(beyond)
    }

    /// Which child has the greatest keys below `rest`, if any child has.
    pub(crate) fn index_below(self, rest: &[u8]) -> usize {
        let mut index = self.index_for(Rest::of(rest).fence());
        while index > 0 && !self.separator(index - 1).is_below(rest) {
            index -= 1;
        }
        index
    }

    pub(crate) fn set_child(self, space: Space<'t>, index: usize, child: Option<NodeRef<'t>>) {
        let handle = child.map_or(0, |child| space.handle(child));
        self.get().child[index].store(handle, Release);
    }

    /// Removes a child, with the separator before it, or after it if the child is the first.
    pub(crate) fn remove_child(self, space: Space<'t>, index: usize) {
        let count = self.count();
        for at in index..count {
            self.set_child(space, at, self.child(space, at + 1));
        }
        for at in index.max(1)..count {
            self.set_separator(at - 1, self.separator(at));
        }
        self.set_count(count - 1);
    }

    /// Which child it is. Without the lock, it is a guess.
    pub(crate) fn index_of(self, space: Space<'t>, child: NodeRef<'t>) -> Option<usize> {
        let handle = space.handle(child);
        (0..=self.count()).find(|&index| self.get().child[index].load(Relaxed) == handle)
    }
}

/// Where a key may be in a border node, by what the node itself says.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Look {
    /// Nowhere.
    Absent,
    /// It is this entry.
    Key(usize),
    /// It is one of these cells, or none.
    Cells(u32),
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

    /// The first fence. That of a layer's leftmost node is the default.
    pub(crate) fn low(&self) -> Fence {
        let continuing = self.fences.load(Relaxed) & LOW_CONTINUING != 0;
        Fence { slice: self.low.load(Relaxed), continuing }
    }

    /// The fence after the last entry; `None` for a layer's rightmost node.
    pub(crate) fn high(&self) -> Option<Fence> {
        let slice = self.high.load(Relaxed);
        let continuing = self.fences.load(Relaxed) & HIGH_CONTINUING != 0;
        let fence = Fence { slice, continuing };
        (fence != Fence::default()).then_some(fence)
    }

    pub(crate) fn set_low(&self, low: Fence) {
        self.low.store(low.slice, Relaxed);
        self.set_fence(LOW_CONTINUING, low.continuing);
    }

    pub(crate) fn set_high(&self, high: Option<Fence>) {
        // No range ends at the first fence, which stands for no bound.
        let high = high.unwrap_or_default();
        self.high.store(high.slice, Relaxed);
        self.set_fence(HIGH_CONTINUING, high.continuing);
    }

    fn set_fence(&self, bit: u8, set: bool) {
        let others = self.fences.load(Relaxed) & !bit;
        self.fences.store(if set { others | bit } else { others }, Relaxed);
    }

    /// Whether what is at `fence` belongs here.
    #[inline]
    pub(crate) fn covers(&self, fence: Fence) -> bool {
        self.low() <= fence && self.high().is_none_or(|high| fence < high)
    }

    #[inline]
    fn code(&self, slot: usize) -> Code {
        Code(self.code[slot].load(Relaxed))
    }

    /// A copy of a slot. It is consistent only once the version is validated.
    #[inline]
    pub(crate) fn entry(&self, slot: usize) -> Entry {
        Entry {
            slice: self.slice[slot].load(Relaxed),
            tail: self.tail[slot].load(Relaxed),
            code: self.code(slot),
            // Pairs with `set_value`: what the value points to was made before.
            value: self.value[slot].load(Acquire),
        }
    }

    /// Prefetches the cells of the entries.
    pub(crate) fn prefetch_cells(&self) {
        for slot in self.permutation().slots().filter(|&slot| self.code(slot).is_cell()) {
            prefetch_word(self.value[slot].load(Relaxed));
        }
    }

    /// As [`Border::entry`], of a slot with this position.
    #[inline]
    pub(crate) fn entry_at(&self, slot: usize, position: SlotPosition) -> Entry {
        let (slice, tail) = (position.slice, position.tail);
        Entry { slice, tail, code: self.code(slot), value: self.value[slot].load(Acquire) }
    }

    /// Fills a slot that is not live to any reader, or while readers wait.
    pub(crate) fn set_entry(&self, slot: usize, entry: Entry) {
        self.slice[slot].store(entry.slice, Relaxed);
        self.tail[slot].store(entry.tail, Relaxed);
        self.code[slot].store(entry.code.0, Relaxed);
        self.set_value(slot, entry.value);
    }

    /// Exchanges the value of a live slot; readers see the old one or the new one.
    pub(crate) fn set_value(&self, slot: usize, value: u64) {
        self.value[slot].store(value, Release);
    }

    /// Searches `rest`, without a look at cells.
    #[inline(always)]
    pub(crate) fn look(&self, rest: &Rest<'_>) -> Look {
        let (wanted, permutation) = (&rest.position, self.permutation());
        let mut slots = simd::equal(&self.slice, wanted.slice);
        let mut cells = 0;
        while slots != 0 {
            let slot = slots.trailing_zeros() as usize;
            slots &= slots - 1;
            let code = self.code(slot);
            let here = self.tail[slot].load(Relaxed) == wanted.tail && code.rank() == wanted.rank;
            if here && permutation.is_live(slot) {
                if !code.is_cell() {
                    return Look::Key(slot);
                }
                cells |= 1 << slot;
            }
        }
        match cells {
            0 => Look::Absent,
            _ if cells & (cells - 1) == 0 => Look::Cells(cells),
            _ => Look::Cells(self.with_fingerprint(cells, Code::of_cell(rest.suffix()))),
        }
    }

    /// Those of some cells that have this code.
    fn with_fingerprint(&self, mut cells: u32, code: Code) -> u32 {
        let mut left = 0;
        while cells != 0 {
            let slot = cells.trailing_zeros() as usize;
            cells &= cells - 1;
            left |= u32::from(self.code(slot) == code) << slot;
        }
        left
    }

    /// Where a new key of a node without it comes among the entries. Only under the lock.
    pub(crate) fn index_for(&self, permutation: Permutation, rest: &Rest<'_>) -> usize {
        let comes_before = |slot: usize| {
            let slice = self.slice[slot].load(Relaxed);
            // SAFETY: the entry is live, and the node locked.
            let before = || unsafe { self.entry(slot).is_before(rest) };
            slice < rest.position.slice || slice == rest.position.slice && before()
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
    /// The number of separators, and the bits for those of continuing keys. Acquire pairs with
    /// [`Interior::set_count`]: the children that it makes reachable are there.
    #[inline]
    fn counts(&self) -> (usize, u32) {
        let word = self.count.load(Acquire);
        let count = (word & ((1 << COUNT_BITS) - 1)) as usize;
        (count.min(INTERIOR_WIDTH), word >> COUNT_BITS)
    }

    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.counts().0
    }

    /// Only under the lock, as what follows.
    pub(crate) fn set_count(&self, count: usize) {
        let (_, flags) = self.counts();
        self.count.store(flags << COUNT_BITS | count as u32, Release);
    }

    #[inline]
    pub(crate) fn separator(&self, index: usize) -> Fence {
        let (_, flags) = self.counts();
        let slice = self.separator[index].load(Relaxed);
        Fence { slice, continuing: flags >> index & 1 != 0 }
    }

    pub(crate) fn set_separator(&self, index: usize, separator: Fence) {
        self.separator[index].store(separator.slice, Relaxed);
        let word = self.count.load(Relaxed) & !(1 << (COUNT_BITS as usize + index));
        let flag = u32::from(separator.continuing) << (COUNT_BITS as usize + index);
        self.count.store(word | flag, Release);
    }
}

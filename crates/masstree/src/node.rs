//! Border and interior nodes, and the only place where a pointer becomes a reference to one.
//!
//! ```text
//!   border    version parent | permutation low high stale code[15] | slice[15] value[15] tail[15]
//!   interior  version parent | count | separator[15] child[16]
//! ```
//!
//! A border node holds the entries of its layer with `low <= slice < high`; `high` 0 stands for no
//! bound, which no other node needs, because only the leftmost node begins at slice 0. In an
//! interior node, child `i` has the slices from separator `i - 1` on and below separator `i`.
//!
//! | code | the entry | tail | value |
//! |---|---|---|---|
//! | 0..=8 | a key that ends in this slice, so long | | the value |
//! | 9..=16 | a key, so long from this layer on | its second slice | the value |
//! | 17 | a longer key | a blob of what follows the slice | the value |
//! | 18 | all keys that go on behind this slice | | a node of the next layer |
//!
//! At most one entry of a slice has a code above 8. All entries of a slice are in one node.
//!
//! **Who may write.** Everything is written under the node's lock, but for three: `parent` is
//! written under the lock of the parent, old or new; a node that nobody can reach yet belongs to
//! its maker; `value` of a layer may be moved up to a newer root of that layer, under the lock but
//! without a mark.
//!
//! **What readers rely on.** All fields are atomics. A reader takes a stable version, reads, and
//! validates before it follows a word that it has read as a pointer to a blob or a value. Children
//! are followed before: a child slot that a count makes reachable holds null or a node that was
//! linked at some time since the reader pinned, because a vacated slot is set to null before the
//! child is retired, and a new count is stored (Release) after the child that it makes reachable.
//!
//! **Slots used again.** A slot that was live since the last mark is *stale*: a reader may
//! still look at it under an older permutation. Filling it needs the mark `inserting`; filling
//! another slot needs none.

use crate::blob;
use crate::key::{ORDER_LONG, SLICE_BYTES, order_of, slice_of};
use crate::permutation::{Permutation, WIDTH};
use keyrack_concurrent::{Guard, Locked, VersionLock};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::{
    AtomicPtr, AtomicU8, AtomicU16, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Keys of this length and below have their second slice in the node.
const TAIL_CODE_MAX: u8 = 16;
pub(crate) const BLOB_CODE: u8 = 17;
pub(crate) const LAYER_CODE: u8 = 18;

/// What both kinds of node begin with.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Head {
    version: VersionLock,
    parent: AtomicPtr<Head>,
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
    /// Separators; there is one more child.
    count: AtomicU64,
    separator: [AtomicU64; WIDTH],
    child: [AtomicPtr<Head>; WIDTH + 1],
}

/// One entry of a border node, copied out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) slice: u64,
    pub(crate) code: u8,
    pub(crate) tail: u64,
    pub(crate) value: u64,
}

/// A node that stays valid during `'g`: it was reachable while the thread was pinned.
pub(crate) struct Ref<'g, T> {
    pointer: NonNull<T>,
    life: PhantomData<&'g T>,
}

pub(crate) type NodeRef<'g> = Ref<'g, Head>;
pub(crate) type BorderRef<'g> = Ref<'g, Border>;
pub(crate) type InteriorRef<'g> = Ref<'g, Interior>;

/// A node by its kind.
pub(crate) enum Kind<'g> {
    Border(BorderRef<'g>),
    Interior(InteriorRef<'g>),
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

    fn deref(&self) -> &T {
        self.get()
    }
}

impl<'g, T> Ref<'g, T> {
    fn get(self) -> &'g T {
        // SAFETY: whoever made the reference promised that the node lives for 'g. All fields are
        // atomics, so shared references are all that anybody has.
        unsafe { self.pointer.as_ref() }
    }

    fn cast<U>(self) -> Ref<'g, U> {
        Ref { pointer: self.pointer.cast(), life: PhantomData }
    }
}

impl<'g> NodeRef<'g> {
    /// The node behind a pointer of the structure, or `None` for null.
    ///
    /// # Safety
    /// The pointer came from [`NodeRef::as_ptr`], and the node is not freed during `'g`.
    pub(crate) unsafe fn from_ptr(pointer: *mut Head) -> Option<Self> {
        NonNull::new(pointer).map(|pointer| Ref { pointer, life: PhantomData })
    }

    /// The node behind the value of a layer's entry.
    ///
    /// # Safety
    /// The word came from [`NodeRef::as_word`], and the node is not freed during `'g`.
    pub(crate) unsafe fn from_word(word: u64) -> Option<Self> {
        let pointer = ptr::with_exposed_provenance_mut(word as usize);
        // SAFETY: as the caller promises.
        unsafe { Self::from_ptr(pointer) }
    }

    pub(crate) fn as_ptr(self) -> *mut Head {
        self.pointer.as_ptr()
    }

    pub(crate) fn as_word(self) -> u64 {
        self.as_ptr().expose_provenance() as u64
    }

    pub(crate) fn version(self) -> &'g VersionLock {
        &self.get().version
    }

    /// Asks for the lines of the node that a search reads, so that they come while the version is
    /// waited for, not one after the other.
    pub(crate) fn prefetch(self) {
        const LINE_BYTES: usize = 64;
        const LINES: usize = 6;
        for line in 0..LINES {
            prefetch(self.as_ptr().cast::<u8>().wrapping_add(line * LINE_BYTES));
        }
    }

    pub(crate) fn kind(self) -> Kind<'g> {
        // The kind is fixed when the node is made, and every pointer to it was to the whole node.
        if self.version().load().is_border() {
            Kind::Border(self.cast())
        } else {
            Kind::Interior(self.cast())
        }
    }

    /// The parent, if the node has one. Acquire pairs with [`NodeRef::set_parent`].
    pub(crate) fn parent(self) -> Option<NodeRef<'g>> {
        // SAFETY: the parent of a node that was reachable since the pin was so too: it is
        // retired only together with its last child.
        unsafe { NodeRef::from_ptr(self.get().parent.load(Acquire)) }
    }

    pub(crate) fn set_parent(self, parent: InteriorRef<'g>) {
        self.get().parent.store(parent.node().as_ptr(), Release);
    }

    /// Waits for the parent's lock. `None` if the node is a root. The node must be locked.
    pub(crate) fn lock_parent(self) -> Option<(InteriorRef<'g>, Locked<'g>)> {
        loop {
            let parent = self.parent()?;
            let locked = parent.version().lock();
            // The parent may have split, and the node gone to its new neighbour. Under the parent's
            // lock that cannot happen any more.
            if self.parent() == Some(parent) {
                debug_assert!(!locked.version().is_deleted());
                return Some((parent.cast(), locked));
            }
        }
    }

    /// Frees the node once nobody can look at it any more.
    ///
    /// # Safety
    /// The node is unlinked, its entries have gone elsewhere, and it is retired once.
    pub(crate) unsafe fn retire(self, guard: &Guard) {
        let word = self.as_word();
        let free = move || {
            // SAFETY: the node is alive until this runs.
            let node = unsafe { NodeRef::from_word(word) };
            if let Some(node) = node {
                // SAFETY: nobody who could hold it is pinned any more.
                unsafe { node.free() };
            }
        };
        // SAFETY: the caller has unlinked it, it is plain memory, and it is retired once.
        unsafe { guard.retire(free) };
    }

    /// Frees the node, not what its entries own.
    ///
    /// # Safety
    /// Nobody uses it any more.
    pub(crate) unsafe fn free(self) {
        match self.kind() {
            // SAFETY: the caller is the last, and the node came from a box of this type.
            Kind::Border(node) => drop(unsafe { Box::from_raw(node.pointer.as_ptr()) }),
            // SAFETY: as above.
            Kind::Interior(node) => drop(unsafe { Box::from_raw(node.pointer.as_ptr()) }),
        }
    }
}

/// Asks for the line at an address. Any address will do: a prefetch neither reads nor faults.
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing, and of a bad address nothing comes.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Asks for the line that a word points to.
pub(crate) fn prefetch_word(word: u64) {
    prefetch(ptr::without_provenance(word as usize));
}

fn make<'g, T>(node: T) -> Ref<'g, T> {
    let pointer = NonNull::from(Box::leak(Box::new(node)));
    Ref { pointer, life: PhantomData }
}

impl<'g> BorderRef<'g> {
    /// An empty node for slices from `low` on and below `high`. The caller links or frees it.
    pub(crate) fn make(root: bool, low: u64, high: u64) -> Self {
        make(Border {
            head: Head {
                version: VersionLock::new(root, true),
                parent: AtomicPtr::new(ptr::null_mut()),
            },
            permutation: AtomicU64::new(Permutation::EMPTY.word()),
            low: AtomicU64::new(low),
            high: AtomicU64::new(high),
            stale: AtomicU16::new(0),
            code: Default::default(),
            slice: Default::default(),
            value: Default::default(),
            tail: Default::default(),
        })
    }

    pub(crate) fn node(self) -> NodeRef<'g> {
        self.cast()
    }

    pub(crate) fn version(self) -> &'g VersionLock {
        self.node().version()
    }
}

impl<'g> InteriorRef<'g> {
    /// An interior node without separators or children.
    pub(crate) fn make(root: bool) -> Self {
        make(Interior {
            head: Head {
                version: VersionLock::new(root, false),
                parent: AtomicPtr::new(ptr::null_mut()),
            },
            count: AtomicU64::new(0),
            separator: Default::default(),
            child: Default::default(),
        })
    }

    pub(crate) fn node(self) -> NodeRef<'g> {
        self.cast()
    }

    pub(crate) fn version(self) -> &'g VersionLock {
        self.node().version()
    }

    /// Child `index`, or `None` where a reader meets a change under way.
    pub(crate) fn child(self, index: usize) -> Option<NodeRef<'g>> {
        // SAFETY: a reachable slot holds null or a node that was linked since the pin; the header
        // of the module has the argument. Acquire pairs with the Release of `set_child`.
        unsafe { NodeRef::from_ptr(self.get().child[index].load(Acquire)) }
    }

    /// The child for `slice`.
    pub(crate) fn child_for(self, slice: u64) -> Option<NodeRef<'g>> {
        let mut index = 0;
        let count = self.count();
        for at in 0..count {
            index += usize::from(self.get().separator[at].load(Relaxed) <= slice);
        }
        self.child(index)
    }
}

impl Border {
    /// Acquire pairs with [`Border::publish`]: the slots that it makes live are filled.
    pub(crate) fn permutation(&self) -> Permutation {
        Permutation::from_word(self.permutation.load(Acquire))
    }

    /// Makes what the permutation says visible. Only under the lock.
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

    /// Whether `slice` belongs here. Sure under the lock.
    pub(crate) fn covers(&self, slice: u64) -> bool {
        self.low() <= slice && (self.high() == 0 || slice < self.high())
    }

    /// What a slot holds. A copy that is whole only once the version is validated.
    pub(crate) fn entry(&self, slot: usize) -> Entry {
        Entry {
            slice: self.slice[slot].load(Relaxed),
            code: self.code[slot].load(Relaxed),
            tail: self.tail[slot].load(Relaxed),
            // Pairs with `set_value`: what the value points to was made before.
            value: self.value[slot].load(Acquire),
        }
    }

    /// Fills a slot that no reader takes for live, or while readers wait.
    pub(crate) fn set_entry(&self, slot: usize, entry: Entry) {
        self.slice[slot].store(entry.slice, Relaxed);
        self.code[slot].store(entry.code, Relaxed);
        self.tail[slot].store(entry.tail, Relaxed);
        self.set_value(slot, entry.value);
    }

    /// Exchanges the value of a live slot; readers see the old one or the new one.
    pub(crate) fn set_value(&self, slot: usize, value: u64) {
        self.value[slot].store(value, Release);
    }

    /// The position of the entry, or the position where it would be.
    pub(crate) fn position(
        &self,
        permutation: Permutation,
        slice: u64,
        order: u8,
    ) -> Result<usize, usize> {
        for (position, slot) in permutation.slots().enumerate() {
            let found = self.slice[slot].load(Relaxed);
            if found < slice {
                continue;
            }
            if found > slice {
                return Err(position);
            }
            let found = self.code[slot].load(Relaxed).min(ORDER_LONG);
            if found >= order {
                return if found == order { Ok(position) } else { Err(position) };
            }
        }
        Err(permutation.len())
    }

    pub(crate) fn is_stale(&self, slot: usize) -> bool {
        self.stale.load(Relaxed) & 1 << slot != 0
    }

    pub(crate) fn set_stale(&self, slot: usize) {
        self.stale.store(self.stale.load(Relaxed) | 1 << slot, Relaxed);
    }

    /// A mark was made: no reader that validates has seen what was in the slots before.
    pub(crate) fn clear_stale(&self) {
        self.stale.store(0, Relaxed);
    }
}

impl Interior {
    /// Acquire pairs with [`Interior::set_count`]: the children that it makes reachable are there.
    pub(crate) fn count(&self) -> usize {
        (self.count.load(Acquire) as usize).min(WIDTH)
    }

    pub(crate) fn set_count(&self, count: usize) {
        self.count.store(count as u64, Release);
    }

    pub(crate) fn separator(&self, index: usize) -> u64 {
        self.separator[index].load(Relaxed)
    }

    pub(crate) fn set_separator(&self, index: usize, separator: u64) {
        self.separator[index].store(separator, Relaxed);
    }

    pub(crate) fn set_child(&self, index: usize, child: Option<NodeRef<'_>>) {
        self.child[index].store(child.map_or(ptr::null_mut(), NodeRef::as_ptr), Release);
    }

    /// Which child it is. Only under the lock.
    pub(crate) fn index_of(&self, child: NodeRef<'_>) -> Option<usize> {
        (0..=self.count()).find(|&index| self.child[index].load(Relaxed) == child.as_ptr())
    }
}

impl Entry {
    /// An entry for `rest`, the key from this layer on. A blob that it makes is the tree's.
    pub(crate) fn make(rest: &[u8], value: u64) -> Self {
        let (code, tail) = match rest.len() {
            0..=SLICE_BYTES => (rest.len() as u8, 0),
            9..=16 => (rest.len() as u8, slice_of(&rest[SLICE_BYTES..])),
            _ => (BLOB_CODE, blob::make(&rest[SLICE_BYTES..])),
        };
        Entry { slice: slice_of(rest), code, tail, value }
    }

    /// An entry for the keys of a layer.
    pub(crate) fn layer(slice: u64, root: NodeRef<'_>) -> Self {
        Entry { slice, code: LAYER_CODE, tail: 0, value: root.as_word() }
    }

    pub(crate) fn order(&self) -> u8 {
        self.code.min(ORDER_LONG)
    }

    pub(crate) fn is_layer(&self) -> bool {
        self.code == LAYER_CODE
    }

    /// Whether the entry, which has the slice and order of `rest` and is no layer, is its.
    pub(crate) fn matches(&self, rest: &[u8]) -> bool {
        debug_assert!(!self.is_layer() && self.order() == order_of(rest));
        match self.code {
            0..ORDER_LONG => true,
            ORDER_LONG..=TAIL_CODE_MAX => {
                rest.len() == usize::from(self.code) && self.tail == slice_of(&rest[SLICE_BYTES..])
            }
            // SAFETY: the caller has validated the version under which it was copied, is pinned
            // since before, and blobs are retired after they were unlinked.
            _ => unsafe { blob::bytes(self.tail) == &rest[SLICE_BYTES..] },
        }
    }

    /// Appends the bytes of the key from this layer on. The entry is no layer.
    pub(crate) fn append_to(&self, key: &mut Vec<u8>) {
        let slice = self.slice.to_be_bytes();
        match self.code {
            0..ORDER_LONG => key.extend_from_slice(&slice[..self.code.into()]),
            ORDER_LONG..=TAIL_CODE_MAX => {
                key.extend_from_slice(&slice);
                let bytes = usize::from(self.code) - SLICE_BYTES;
                key.extend_from_slice(&self.tail.to_be_bytes()[..bytes]);
            }
            _ => {
                key.extend_from_slice(&slice);
                // SAFETY: as in `matches`.
                key.extend_from_slice(unsafe { blob::bytes(self.tail) });
            }
        }
    }

    /// Frees the blob of the key, if there is one, once nobody can look at it any more. The entry
    /// is unlinked.
    pub(crate) fn retire_tail(&self, guard: &Guard) {
        if self.code == BLOB_CODE {
            let tail = self.tail;
            let free = move || {
                // SAFETY: nobody who could hold the blob is pinned any more.
                unsafe { blob::free(tail) };
            };
            // SAFETY: this thread has unlinked the entry under the lock, and so retires its blob
            // once; a blob is plain memory.
            unsafe { guard.retire(free) };
        }
    }
}

impl Entry {
    /// Frees the blob of the key, if there is one.
    ///
    /// # Safety
    /// Nobody uses it any more.
    pub(crate) unsafe fn free_tail(&self) {
        if self.code == BLOB_CODE {
            // SAFETY: the tail of such an entry is a blob, and the caller is the last.
            unsafe { blob::free(self.tail) };
        }
    }
}

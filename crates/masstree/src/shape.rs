//! The root, the memory of the nodes, and the counts: everything that does not depend on the kind
//! of value.

use crate::key::Fence;
use crate::node::{BORDER_LINES, BorderRef, INTERIOR_LINES, InteriorRef, Kind, NodeRef, Space};
use crate::prefix::{PREFIX_LINES, Prefix, size_of_prefix};
use keyrack_concurrent::atomic::{AtomicBool, AtomicU32, Ordering};
use keyrack_concurrent::{Arena, Counter, Locked, Part, Version};

const BORDER: usize = 0;
const INTERIOR: usize = 1;
/// The first of the sizes of prefixes.
const PREFIX: usize = 2;
const KINDS: usize = PREFIX + PREFIX_LINES.len();

/// The sizes of all kinds of blocks, in lines.
const BLOCK_LINES: [u32; KINDS] = {
    let mut lines = [0; KINDS];
    lines[BORDER] = BORDER_LINES as u32;
    lines[INTERIOR] = INTERIOR_LINES as u32;
    let mut size = 0;
    while size < PREFIX_LINES.len() {
        lines[PREFIX + size] = PREFIX_LINES[size] as u32;
        size += 1;
    }
    lines
};

pub(crate) struct Shape {
    arena: Arena<KINDS>,
    /// The root of the tree. Written under its lock.
    root: AtomicU32,
    /// Whether values may be pointers. Then no value is 0, and a cell with 0 has lost its own.
    pub(crate) pointers: bool,
    /// Whether an entry may own memory beside its node, or ever did.
    owners: AtomicBool,
    pub(crate) keys: Counter,
    pub(crate) layers: Counter,
}

/// Counts of a tree, from [`Tree::stats`](crate::Tree::stats). Estimates while writers are active.
///
/// ```
/// use keyrack_masstree::{Stats, Tree, pin};
///
/// let tree = Tree::<u64>::new();
/// for n in 0..100_u64 {
///     tree.insert(&n.to_be_bytes(), n, &pin());
/// }
/// let Stats { keys, borders, layers, .. } = tree.stats();
/// assert_eq!((keys, layers), (100, 1));
/// assert!((7..=14).contains(&borders), "a border node has up to 15 keys");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Keys.
    pub keys: u64,
    /// Border nodes.
    pub borders: u64,
    /// Interior nodes.
    pub interiors: u64,
    /// Layers, the first included.
    pub layers: u64,
    /// Layers with a prefix: bytes that all of their keys share, besides those that lead to them.
    pub prefixes: u64,
    /// Bytes of node memory, free nodes and prefixes included, without values and the ends of long
    /// keys.
    pub node_bytes: u64,
}

/// May be below zero for a moment, while writers change the stripes of the counter.
fn sum(counter: &Counter) -> u64 {
    counter.sum().try_into().unwrap_or(0)
}

impl Shape {
    /// One empty border node.
    pub(crate) fn new(pointers: bool) -> Self {
        let shape = Shape {
            arena: Arena::new(BLOCK_LINES),
            root: AtomicU32::new(0),
            pointers,
            owners: AtomicBool::new(false),
            keys: Counter::new(),
            layers: Counter::new(),
        };
        let (root, locked) = shape.new_border(true, Fence::default(), None);
        drop(locked);
        shape.root.store(shape.space().handle(root.node()), Ordering::Release);
        shape.layers.add(1);
        shape
    }

    /// Notes that an entry will own memory beside its node.
    #[inline]
    pub(crate) fn note_owner(&self) {
        // Only the drop of the tree reads it, with exclusive access.
        if !self.owners.load(Ordering::Relaxed) {
            self.owners.store(true, Ordering::Relaxed);
        }
    }

    /// Whether no entry has ever owned memory beside its node.
    pub(crate) fn has_no_owners(&mut self) -> bool {
        !*self.owners.get_mut()
    }

    #[inline]
    pub(crate) fn space(&self) -> Space<'_> {
        // SAFETY: the arena lives as long as the borrow of the shape.
        unsafe { Space::new(self.arena.base()) }
    }

    /// The root of the tree and its stable version. `None` if the root was replaced meanwhile.
    #[inline]
    pub(crate) fn top(&self) -> Option<(NodeRef<'_>, Version)> {
        // Acquire pairs with `replace_root`.
        let handle = self.root.load(Ordering::Acquire);
        // SAFETY: roots are nodes of this arena.
        let node = unsafe { self.space().node(handle) }.expect("a tree has a root");
        let version = node.version().stable();
        // A root that went and came back since has another version, which its readers will find.
        (self.root.load(Ordering::Acquire) == handle).then_some((node, version))
    }

    /// Puts `new` in the place of `old`, the root of a layer, in the node above that, which is
    /// locked and marked, or as the root of the tree. Under the lock of `old`.
    pub(crate) fn replace_root<'t>(
        &'t self,
        above: Option<InteriorRef<'t>>,
        old: NodeRef<'t>,
        new: NodeRef<'t>,
    ) {
        new.set_parent(self.space(), above);
        match above {
            Some(above) => {
                let index = above.index_of(self.space(), old);
                let index = index.expect("the root of a layer is a child of the node above");
                above.set_child(self.space(), index, Some(new));
            }
            None => self.root.store(self.space().handle(new), Ordering::Release),
        }
    }

    /// A border node without entries. The caller links it, and then drops the lock.
    pub(crate) fn new_border(
        &self,
        root: bool,
        low: Fence,
        high: Option<Fence>,
    ) -> (BorderRef<'_>, Locked<'_>) {
        // SAFETY: the block is for a border node.
        let node = unsafe { BorderRef::new(self.space(), self.arena.allocate(BORDER)) };
        (node, node.begin(root, low, high))
    }

    /// An interior node without children. The caller links it, and then drops the lock.
    pub(crate) fn new_interior(&self, root: bool) -> (InteriorRef<'_>, Locked<'_>) {
        // SAFETY: the block is for an interior node.
        let node = unsafe { InteriorRef::new(self.space(), self.arena.allocate(INTERIOR)) };
        (node, node.begin(root))
    }

    /// Ends the incarnation of an unlinked node. Its memory may be reused at once.
    pub(crate) fn end(&self, node: NodeRef<'_>, mut locked: Locked<'_>) {
        if !locked.version().is_deleted() {
            locked.mark_deleted();
        }
        self.end_prefix(node.prefix_handle());
        node.set_prefix(0);
        node.set_parent(self.space(), None);
        drop(locked);
        let kind = match node.kind() {
            Kind::Border(_) => BORDER,
            Kind::Interior(_) => INTERIOR,
        };
        self.arena.free(kind, self.space().handle(node));
    }

    /// A prefix of these words, at most as many as one holds; 0 if there are none.
    pub(crate) fn new_prefix(&self, words: &[u64]) -> u32 {
        if words.is_empty() {
            return 0;
        }
        let handle = self.arena.allocate(PREFIX + size_of_prefix(words.len()));
        // SAFETY: the block is for a prefix of this size, and nobody has it yet.
        unsafe { Prefix::write(self.space().address(handle), words) };
        handle
    }

    /// Ends a prefix, if it is one, under the mark of the node that had it.
    pub(crate) fn end_prefix(&self, handle: u32) {
        if handle != 0 {
            // SAFETY: it is a prefix until now.
            let prefix = unsafe { Prefix::at(self.space().address(handle)) };
            self.arena.free(PREFIX + size_of_prefix(prefix.len()), handle);
        }
    }

    /// Where everything but the nodes lies.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let mut parts = self.arena.parts();
        parts.extend(self.keys.parts("count of keys"));
        parts.extend(self.layers.parts("count of layers"));
        parts.push(Part::of("link to the root", &self.root));
        parts.push(Part::of("kind of values", &self.pointers));
        parts.push(Part::of("whether values are owned", &self.owners));
        parts
    }

    /// The number of keys; an estimate while writers are active.
    pub(crate) fn count_keys(&self) -> u64 {
        sum(&self.keys)
    }

    /// The counts. Estimates while writers are active.
    pub(crate) fn stats(&self) -> Stats {
        let live = |kind| self.arena.live(kind).try_into().unwrap_or(0);
        Stats {
            keys: self.count_keys(),
            borders: live(BORDER),
            interiors: live(INTERIOR),
            layers: sum(&self.layers),
            prefixes: (PREFIX..KINDS).map(live).sum(),
            node_bytes: self.bytes(),
        }
    }

    /// Bytes of node memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.arena.bytes()
    }
}

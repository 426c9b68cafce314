//! The root, the memory of the nodes, and the counts: everything that does not depend on the kind
//! of value.

use crate::descent::{Layer, climb};
use crate::node::{BORDER_LINES, BorderRef, INTERIOR_LINES, InteriorRef, Kind, NodeRef, Space};
use keyrack_concurrent::atomic::{AtomicBool, AtomicU32, Ordering};
use keyrack_concurrent::{Arena, Counter, Locked, Part, Version};

const BORDER: usize = 0;
const INTERIOR: usize = 1;

pub(crate) struct Shape {
    arena: Arena<2>,
    /// The root of the first layer. Written under its lock.
    root: AtomicU32,
    /// Whether values may be pointers. Then no value is 0, and a cell with 0 has lost its own.
    pub(crate) pointers: bool,
    /// Whether an entry may own memory beside its node, or ever did.
    owners: AtomicBool,
    pub(crate) keys: Counter,
    pub(crate) layers: Counter,
}

/// Counts of a tree. Estimates while writers are active.
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
    /// Bytes of node memory, free nodes included, without values and the ends of long keys.
    pub node_bytes: u64,
}

impl Shape {
    /// One empty border node.
    pub(crate) fn new(pointers: bool) -> Self {
        let shape = Shape {
            arena: Arena::new([BORDER_LINES as u32, INTERIOR_LINES as u32]),
            root: AtomicU32::new(0),
            pointers,
            owners: AtomicBool::new(false),
            keys: Counter::new(),
            layers: Counter::new(),
        };
        let (root, locked) = shape.new_border(true, 0, 0);
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

    /// The first layer, its root, and the root's stable version. `None` if the root was replaced
    /// meanwhile.
    #[inline]
    pub(crate) fn top(&self) -> Option<(Layer<'_>, NodeRef<'_>, Version)> {
        // Acquire pairs with `replace_root`.
        let handle = self.root.load(Ordering::Acquire);
        // SAFETY: roots are nodes of this arena.
        let node = unsafe { self.space().node(handle) };
        let node = node.expect("a tree has a root");
        let layer = Layer::new(node);
        let (root, version) = climb(self.space(), node)?;
        self.is_top(node, layer).then_some((layer, root, version))
    }

    /// Whether `node` is the root, and has been in the first layer since `layer` was made of it. A
    /// replaced root may have had another incarnation before that, and may be the root again.
    #[inline]
    pub(crate) fn is_top(&self, node: NodeRef<'_>, layer: Layer<'_>) -> bool {
        self.root.load(Ordering::Acquire) == self.space().handle(node) && layer.is_current()
    }

    /// Stores the new root, if `old` was the root of the first layer. Under the lock of `old`.
    pub(crate) fn replace_root(&self, old: NodeRef<'_>, new: NodeRef<'_>) {
        if self.root.load(Ordering::Relaxed) == self.space().handle(old) {
            self.root.store(self.space().handle(new), Ordering::Release);
        }
    }

    /// A border node without entries. The caller links it, and then drops the lock.
    pub(crate) fn new_border(
        &self,
        root: bool,
        low: u64,
        high: u64,
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
        node.end_incarnation();
        drop(locked);
        let kind = match node.kind() {
            Kind::Border(_) => BORDER,
            Kind::Interior(_) => INTERIOR,
        };
        self.arena.free(kind, self.space().handle(node));
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

    /// The counts. Estimates while writers are active.
    pub(crate) fn stats(&self) -> Stats {
        // A sum may be below zero for a moment, while writers change the stripes of the counter.
        let sum = |counter: &Counter| counter.sum().try_into().unwrap_or(0);
        Stats {
            keys: sum(&self.keys),
            borders: self.arena.live(BORDER).try_into().unwrap_or(0),
            interiors: self.arena.live(INTERIOR).try_into().unwrap_or(0),
            layers: sum(&self.layers),
            node_bytes: self.bytes(),
        }
    }

    /// Bytes of node memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.arena.bytes()
    }
}

//! Walking over a range of keys, either way, while others write.
//!
//! The walk holds a stack of layers, and in each a bound: everything on one side of it has been
//! dealt with. One step: descend to the border node at the bound of the top layer, copy the entries
//! beyond the bound, validate. Then, without any lock, visit them, and move the bound to the end of
//! the node. An entry that is a layer moves the bound behind itself and goes on the stack. A layer
//! that is done comes off it.
//!
//! ```text
//!   ascending     bound (slice, order), inclusive      next node: that of `high`
//!   descending    bound (slice, order), exclusive      next node: that of `low - 1`
//! ```
//!
//! Each copy is the node at one moment. The nodes of a layer have disjoint ranges, and the bound
//! only moves on, so no key comes twice or out of order; and the ranges have no gaps, so a key that
//! is there all the while is in one of the copies. Splits and removals move keys between nodes, but
//! never across a bound.
//!
//! Layers live as long as the tree, so the stack stays good when the walk pins again for the next
//! node. Cost beside the entries: one descent for each border node, about ten keys.

use crate::descent::{self, link};
use crate::key::{ORDER_END, ORDER_LONG, SLICE_BYTES, order_of, slice_of};
use crate::node::{BorderRef, Entry, NodeRef};
use crate::permutation::WIDTH;
use crate::tree::Shape;
use keyrack_concurrent::{Backoff, Guard, Version, pin};
use std::ops::ControlFlow;

/// Gets key, value and the guard under which the value may be read.
type Visit<'v> = dyn FnMut(&[u8], u64, &Guard) -> ControlFlow<()> + 'v;

/// A place between entries of a layer.
type Bound = (u64, u8);

const LAST: Bound = (u64::MAX, ORDER_END);

/// A layer under way. The word of its node is good as long as the tree.
struct Level {
    layer: u64,
    bound: Bound,
}

/// A border node at one moment.
pub(crate) struct Copy {
    entries: [Option<Entry>; WIDTH],
    low: u64,
    high: u64,
}

impl Copy {
    /// The node as it was while it had `version`, if it still has.
    pub(crate) fn of(border: BorderRef<'_>, version: Version) -> Option<Self> {
        let mut copy = Copy { entries: [None; WIDTH], low: border.low(), high: border.high() };
        let permutation = border.permutation();
        for (entry, slot) in copy.entries.iter_mut().zip(permutation.slots()) {
            *entry = Some(border.entry(slot));
        }
        border.version().validate(version).then_some(copy)
    }
}

/// Visits `low <= key < high` upward.
pub(crate) fn ascend(shape: &Shape, low: &[u8], high: Option<&[u8]>, visit: &mut Visit<'_>) -> u64 {
    let inside = |key: &[u8]| high.is_none_or(|high| key < high);
    let mut walk = Walk::new(shape, (slice_of(low), order_of(low)));
    while let Some(level) = walk.stack.last() {
        let bound = level.bound;
        let Some(copy) = walk.copy(bound.0) else { break };
        let mut down = false;
        for entry in copy.entries.iter().flatten() {
            if (entry.slice, entry.order()) < bound {
                continue;
            }
            if entry.is_layer() {
                walk.enter(entry, (entry.slice, ORDER_END), |prefix| {
                    let rest = low.strip_prefix(prefix).unwrap_or(&[]);
                    (slice_of(rest), order_of(rest))
                });
                down = true;
                break;
            }
            let key = walk.key(entry);
            if key < low {
                continue;
            }
            if !inside(key) || walk.give(entry, visit).is_break() {
                return walk.visited;
            }
        }
        if !down {
            walk.next((copy.high, 0), copy.high == 0);
        }
    }
    walk.visited
}

/// Visits `low <= key < high` downward.
pub(crate) fn descend(
    shape: &Shape,
    low: &[u8],
    high: Option<&[u8]>,
    visit: &mut Visit<'_>,
) -> u64 {
    // Long keys of the slice of `high` may be below it.
    let below = |rest: &[u8]| match order_of(rest) {
        ORDER_LONG => (slice_of(rest), ORDER_END),
        order => (slice_of(rest), order),
    };
    let mut walk = Walk::new(shape, high.map_or(LAST, below));
    while let Some(level) = walk.stack.last() {
        let bound = level.bound;
        // With order 0 no entry of the slice is wanted.
        let slice = if bound.1 > 0 { Some(bound.0) } else { bound.0.checked_sub(1) };
        let Some(slice) = slice else {
            walk.leave();
            continue;
        };
        let Some(copy) = walk.copy(slice) else { break };
        let mut down = false;
        for entry in copy.entries.iter().rev().flatten() {
            if (entry.slice, entry.order()) >= bound {
                continue;
            }
            if entry.is_layer() {
                walk.enter(entry, (entry.slice, ORDER_LONG), |prefix| {
                    let rest = high.and_then(|high| high.strip_prefix(prefix));
                    rest.map_or(LAST, below)
                });
                down = true;
                break;
            }
            let key = walk.key(entry);
            if high.is_some_and(|high| key >= high) {
                continue;
            }
            if key < low || walk.give(entry, visit).is_break() {
                return walk.visited;
            }
        }
        if !down {
            walk.next((copy.low, 0), copy.low == 0);
        }
    }
    walk.visited
}

struct Walk {
    guard: Guard,
    stack: Vec<Level>,
    /// The slices of the layers above the top one, and behind them the key of an entry.
    key: Vec<u8>,
    visited: u64,
}

impl Walk {
    fn new(shape: &Shape, bound: Bound) -> Self {
        let guard = pin();
        let layer = shape.root(&guard).as_word();
        Walk { guard, stack: vec![Level { layer, bound }], key: Vec::new(), visited: 0 }
    }

    /// How long the part of the key is that the layers above the top one make up.
    fn prefix_len(&self) -> usize {
        self.stack.len().saturating_sub(1) * SLICE_BYTES
    }

    /// A copy of the border node of `slice` in the top layer.
    fn copy(&mut self, slice: u64) -> Option<Copy> {
        self.guard.repin();
        let layer = self.stack.last()?.layer;
        // SAFETY: the first layer's root and links, and so what is on the stack, live as long as
        // the tree.
        let layer: NodeRef<'_> = unsafe { NodeRef::from_word(layer) }?;
        let mut backoff = Backoff::new();
        loop {
            let (border, version) = descent::descend(layer, slice);
            if let Some(copy) = Copy::of(border, version) {
                return Some(copy);
            }
            backoff.wait();
        }
    }

    /// The whole key of an entry of the top layer.
    fn key(&mut self, entry: &Entry) -> &[u8] {
        self.key.truncate(self.prefix_len());
        entry.append_to(&mut self.key);
        &self.key
    }

    /// Visits the entry whose key was made last.
    fn give(&mut self, entry: &Entry, visit: &mut Visit<'_>) -> ControlFlow<()> {
        self.visited += 1;
        visit(&self.key, entry.value, &self.guard)
    }

    /// Goes down into the layer of `entry`; on return the walk goes on from `bound`. The bound in
    /// the layer depends on the bytes of the key that all of the layer have.
    fn enter(&mut self, entry: &Entry, bound: Bound, inner: impl FnOnce(&[u8]) -> Bound) {
        self.key.truncate(self.prefix_len());
        self.key.extend_from_slice(&entry.slice.to_be_bytes());
        if let Some(level) = self.stack.last_mut() {
            level.bound = bound;
        }
        let level = Level { layer: link(*entry).as_word(), bound: inner(&self.key) };
        self.stack.push(level);
    }

    /// Goes on from `bound`, or leaves the layer at its end.
    fn next(&mut self, bound: Bound, end: bool) {
        match self.stack.last_mut() {
            Some(level) if !end => level.bound = bound,
            _ => self.leave(),
        }
    }

    fn leave(&mut self) {
        self.stack.pop();
        self.key.truncate(self.prefix_len());
    }
}

//! Walking over a range of keys, either way, while others write.
//!
//! The walk holds a stack of layers, and in each a bound: everything on one side of it has been
//! dealt with. One step: descend to the border node at the bound of the top layer, copy the entries
//! beyond the bound, validate. Then, without any lock, visit them, and move the bound to the end of
//! the node. An entry that is a layer moves the bound behind itself and goes on the stack. A layer
//! that is done comes off it.
//!
//! ```text
//!   ascending     bound inclusive      next node: that of `high`
//!   descending    bound exclusive      next node: that of `low - 1`
//! ```
//!
//! Each copy is the node at one moment. The nodes of a layer have disjoint ranges, and the bound
//! only moves on, so no key comes twice or out of order; and the ranges have no gaps, so a key that
//! is there all the while is in one of the copies. Splits and removals move keys between nodes, but
//! never across a bound.
//!
//! A layer on the stack may go. Or the layer that the walk comes back from has moved, with others
//! of its slice, into a layer of their own, and the bound is in the midst of that; the rank of the
//! bound tells, since only the side of a layer's entry has it. Then the walk begins again at the
//! root, behind the last key that it has visited.
//!
//! The walk pins again for each node, so that it does not hold back what others have removed. The
//! next node mostly has the same parent, which is kept, so that no descent is needed; its lines are
//! asked for before the entries of this one are visited.

use crate::descent::{Layer, Near};
use crate::key::{Place, RANK_LONG};
use crate::node::{BorderRef, Entry};
use crate::permutation::WIDTH;
use crate::shape::Shape;
use keyrack_concurrent::{Backoff, Guard, Version, pin};
use std::ops::ControlFlow;

/// Gets key, value and the guard under which the value may be read.
type Visit<'v> = dyn FnMut(&[u8], u64, &Guard) -> ControlFlow<()> + 'v;

/// A layer under way.
struct Level<'t> {
    layer: Layer<'t>,
    bound: Place,
    /// Bytes of the key that the layers above make up.
    prefix: usize,
    /// Whether the key at which the walk begins has these bytes.
    edge: bool,
}

/// A border node at one moment.
pub(crate) struct Copy<'t> {
    border: BorderRef<'t>,
    version: Version,
    entries: [Entry; WIDTH],
    count: usize,
    low: u64,
    high: u64,
}

/// Why a walk ended.
enum End {
    /// All was visited, or the visitor broke off.
    Done,
    /// A layer went away: again from the last key on.
    Again,
}

impl<'t> Copy<'t> {
    /// The node as it was while it had `version`, if it still has. Covered by the guard.
    pub(crate) fn of(border: BorderRef<'t>, version: Version, guard: &Guard) -> Option<Self> {
        let copy = guard.protect(|| {
            let nothing = Entry { slice: 0, tail: 0, code: 0, value: 0 };
            let (low, high) = (border.low(), border.high());
            let entries = [nothing; WIDTH];
            let mut copy = Copy { border, version, entries, count: 0, low, high };
            for slot in border.permutation().slots() {
                copy.entries[copy.count] = border.entry(slot);
                copy.count += 1;
            }
            copy
        });
        border.version().validate(version).then_some(copy)
    }

    fn entries(&self) -> &[Entry] {
        &self.entries[..self.count]
    }
}

/// Visits `low <= key < high` upward.
pub(crate) fn ascend(shape: &Shape, low: &[u8], high: Option<&[u8]>, visit: &mut Visit<'_>) -> u64 {
    let mut walk = Walk::new(shape);
    while let End::Again = walk.ascend(low, high, visit) {}
    walk.visited
}

/// Visits `low <= key < high` downward.
pub(crate) fn descend(
    shape: &Shape,
    low: &[u8],
    high: Option<&[u8]>,
    visit: &mut Visit<'_>,
) -> u64 {
    let mut walk = Walk::new(shape);
    while let End::Again = walk.descend(low, high, visit) {}
    walk.visited
}

/// The exclusive bound of the keys below one of which `rest` is left. Long keys with its slice and
/// tail may be below it.
fn below(rest: &[u8]) -> Place {
    let place = Place::of(rest);
    if place.rank == RANK_LONG { place.behind() } else { place }
}

struct Walk<'t> {
    shape: &'t Shape,
    guard: Guard,
    stack: Vec<Level<'t>>,
    /// The parent of the border node that was copied last, if that was in the top layer.
    near: Option<Near<'t>>,
    /// The bytes of the layers above the top one, and behind them the key of an entry.
    key: Vec<u8>,
    /// Whether `key` is the last one that was visited.
    fresh: bool,
    /// The last key that was visited, unless `key` is.
    last: Option<Vec<u8>>,
    visited: u64,
}

impl<'t> Walk<'t> {
    fn new(shape: &'t Shape) -> Self {
        let guard = pin();
        Walk {
            shape,
            guard,
            stack: Vec::with_capacity(4),
            near: None,
            key: Vec::with_capacity(64),
            fresh: false,
            last: None,
            visited: 0,
        }
    }

    /// Begins at the root.
    fn begin(&mut self, bound: Place) {
        let mut backoff = Backoff::new();
        let layer = loop {
            match self.shape.top() {
                Some((layer, ..)) => break layer,
                None => backoff.wait(),
            }
        };
        self.near = None;
        self.stack.clear();
        self.stack.push(Level { layer, bound, prefix: 0, edge: true });
    }

    fn ascend(&mut self, low: &[u8], high: Option<&[u8]>, visit: &mut Visit<'_>) -> End {
        let last = self.last.take();
        let low = last.as_deref().unwrap_or(low);
        let outside = |key: &[u8]| match last {
            Some(_) => key <= low,
            None => key < low,
        };
        self.begin(Place::of(low));
        while let Some(level) = self.stack.last() {
            let bound = level.bound;
            let Some(copy) = self.copy(bound.slice) else { return self.again(&last) };
            self.prefetch(copy.high);
            let mut down = false;
            for entry in copy.entries().iter().filter(|entry| entry.last() >= bound) {
                if entry.is_layer() {
                    // The bound is behind a layer, and that one is in this one now.
                    let moved = entry.first() < bound && bound.rank > RANK_LONG;
                    let behind = entry.last().behind();
                    let inner = |rest: Option<&[u8]>| rest.map_or(Place::default(), Place::of);
                    if moved || !self.enter(&copy, entry, behind, Some(low), inner) {
                        return self.again(&last);
                    }
                    down = true;
                    break;
                }
                let Some(value) = self.read(entry) else { return self.again(&last) };
                if outside(&self.key) {
                    continue;
                }
                if high.is_some_and(|high| *self.key >= *high) || self.give(value, visit).is_break()
                {
                    return End::Done;
                }
            }
            if !down {
                self.next(Place::before(copy.high), copy.high == 0);
            }
        }
        End::Done
    }

    fn descend(&mut self, low: &[u8], high: Option<&[u8]>, visit: &mut Visit<'_>) -> End {
        let last = self.last.take();
        let high = last.as_deref().or(high);
        self.begin(high.map_or(Place::LAST, below));
        while let Some(level) = self.stack.last() {
            let bound = level.bound;
            // At the beginning of a slice no entry of it is wanted.
            let inside = bound > Place::before(bound.slice);
            let slice = if inside { Some(bound.slice) } else { bound.slice.checked_sub(1) };
            let Some(slice) = slice else {
                self.leave();
                continue;
            };
            let Some(copy) = self.copy(slice) else { return self.again(&last) };
            self.prefetch(copy.low.wrapping_sub(1));
            let mut down = false;
            for entry in copy.entries().iter().rev().filter(|entry| entry.first() < bound) {
                if entry.is_layer() {
                    // The bound is before a layer, and that one is in this one now.
                    let moved = entry.last() >= bound && bound.rank == RANK_LONG;
                    let inner = |rest: Option<&[u8]>| rest.map_or(Place::LAST, below);
                    if moved || !self.enter(&copy, entry, entry.first(), high, inner) {
                        return self.again(&last);
                    }
                    down = true;
                    break;
                }
                let Some(value) = self.read(entry) else { return self.again(&last) };
                if high.is_some_and(|high| *self.key >= *high) {
                    continue;
                }
                if *self.key < *low || self.give(value, visit).is_break() {
                    return End::Done;
                }
            }
            if !down {
                self.next(Place::before(copy.low), copy.low == 0);
            }
        }
        End::Done
    }

    /// What was visited counts, also if nothing was since the walk last began again.
    fn again(&mut self, before: &Option<Vec<u8>>) -> End {
        self.keep_last();
        if self.last.is_none() {
            self.last.clone_from(before);
        }
        End::Again
    }

    /// Before `key` becomes another.
    fn keep_last(&mut self) {
        if self.fresh {
            let last = self.last.get_or_insert_default();
            last.clone_from(&self.key);
            self.fresh = false;
        }
    }

    /// A copy of the border node of `slice` in the top layer. `None` if the layer is gone.
    fn copy(&mut self, slice: u64) -> Option<Copy<'t>> {
        self.guard.repin();
        let layer = self.stack.last()?.layer;
        let space = self.shape.space();
        let mut backoff = Backoff::new();
        let mut near = self.near.take();
        loop {
            let neighbour = near.and_then(|near| near.neighbour(space, slice));
            let border = neighbour.or_else(|| {
                near = None;
                layer.descend_near(space, slice, &mut near)
            });
            if let Some((border, version)) = border
                && let Some(copy) = Copy::of(border, version, &self.guard)
            {
                self.near = near;
                return layer.lives().then_some(copy);
            }
            if !layer.lives() {
                return None;
            }
            backoff.wait();
        }
    }

    /// Asks for the lines of the node of `slice`, if it has the same parent.
    fn prefetch(&self, slice: u64) {
        if let Some(near) = self.near {
            near.prefetch(self.shape.space(), slice);
        }
    }

    /// Makes the whole key of an entry of the top layer, and gives its value. `None` if it moved or
    /// was removed since it was copied, and the value is lost.
    #[inline]
    fn read(&mut self, entry: &Entry) -> Option<u64> {
        // SAFETY: the copy was validated, and is covered.
        let cell = unsafe { entry.cell() };
        let value = match cell {
            None => entry.value,
            Some(cell) => match self.guard.protect(|| cell.value()) {
                0 if self.shape.pointers => return None,
                value => value,
            },
        };
        self.fresh = false;
        self.key.truncate(self.stack.last().map_or(0, |level| level.prefix));
        entry.append_to(&mut self.key);
        if let Some(cell) = cell {
            self.key.extend_from_slice(cell.suffix());
        }
        Some(value)
    }

    /// Visits the entry whose key was made last.
    #[inline]
    fn give(&mut self, value: u64, visit: &mut Visit<'_>) -> ControlFlow<()> {
        self.visited += 1;
        self.fresh = true;
        visit(&self.key, value, &self.guard)
    }

    /// Goes down into the layer of `entry`; on return the walk goes on from `bound`. The bound in
    /// the layer depends on the rest there of `start`, the key at which the walk begins, if it is a
    /// key of that layer. Not if the node has changed since it was copied: the layer may be gone.
    fn enter(
        &mut self,
        copy: &Copy<'t>,
        entry: &Entry,
        bound: Place,
        start: Option<&[u8]>,
        inner: impl FnOnce(Option<&[u8]>) -> Place,
    ) -> bool {
        let layer = Layer::of(self.shape.space(), copy.border, copy.version, *entry);
        let Some(layer) = layer else { return false };
        let level = self.stack.last_mut().expect("the entry is of a level of the walk");
        level.bound = bound;
        let prefix = level.prefix;
        let start = start.filter(|_| level.edge).and_then(|start| start.get(prefix..));
        self.keep_last();
        self.near = None;
        self.key.truncate(prefix);
        entry.append_to(&mut self.key);
        let rest = start.and_then(|start| start.strip_prefix(&self.key[prefix..]));
        let (bound, edge) = (inner(rest), rest.is_some());
        self.stack.push(Level { layer, bound, prefix: self.key.len(), edge });
        true
    }

    /// Goes on from `bound`, or leaves the layer at its end.
    fn next(&mut self, bound: Place, end: bool) {
        match self.stack.last_mut() {
            Some(level) if !end => level.bound = bound,
            _ => self.leave(),
        }
    }

    fn leave(&mut self) {
        self.near = None;
        self.stack.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tree;

    /// However often it begins again, and whether or not it has visited anything meanwhile.
    #[test]
    fn a_walk_goes_on_behind_the_last_key_that_it_visited() {
        let tree = Tree::<u64>::new();
        for key in ["before", "of one beginning: 1", "of one beginning: 2"] {
            tree.insert(key.as_bytes(), 0, &pin());
        }
        let mut walk = Walk::new(&tree.shape);
        walk.begin(Place::default());
        let copy = walk.copy(0).unwrap();
        let [before, layer] = copy.entries() else { panic!("{:?}", copy.entries()) };
        let value = walk.read(before).unwrap();
        assert!(walk.give(value, &mut |_, _, _| ControlFlow::Continue(())).is_continue());
        assert!(walk.enter(&copy, layer, Place::LAST, None, |_| Place::default()));
        for _ in 0..2 {
            let last = walk.last.take();
            walk.again(&last);
            assert_eq!(walk.last.as_deref(), Some(&b"before"[..]));
        }
    }
}

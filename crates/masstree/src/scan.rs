//! Scans over a range of keys, in either direction, beside concurrent writers.
//!
//! A scan holds a stack of layers, each with a bound: everything on one side of it is done. The
//! scan descends to the border node at the bound of the top layer, copies the entries beyond the
//! bound, and validates. Then it visits them without any lock, and moves the bound to the end of
//! the node. At an entry that is a layer it moves the bound past the entry and pushes the layer. A
//! finished layer is popped.
//!
//! ```text
//!   ascending     bound inclusive      next node: that of `high`
//!   descending    bound exclusive      next node: that of `low - 1`
//! ```
//!
//! Each copy is the node at one moment. The nodes of a layer have disjoint ranges, and the bound
//! only advances, so no key comes twice or out of order. The ranges have no gaps, so a key that is
//! present throughout is in one of the copies. Splits and removals move keys between nodes, but
//! never across a bound.
//!
//! A layer on the stack may be removed. Or the layer from which the scan returns has moved, with
//! others of its slice, into a layer of their own, and the bound is in the middle of that layer.
//! The rank of the bound shows this, since only the side of a layer's entry has such a rank. In
//! both cases the scan restarts at the root, after the last key that it has visited.
//!
//! The scan pins again for each node, so that it does not delay the reclamation of removed memory.
//! The next node usually has the same parent, which is kept, so no descent is needed. Its lines are
//! prefetched before the entries of the current node are visited.

use crate::descent::{Layer, ParentHint};
use crate::key::{RANK_LONG, SlotPosition};
use crate::node::{BorderRef, Entry};
use crate::permutation::WIDTH;
use crate::shape::Shape;
use keyrack_concurrent::{Backoff, Guard, Version, pin};
use std::ops::ControlFlow;

/// Gets key, value and the guard under which the value may be read.
type Visit<'v> = dyn FnMut(&[u8], u64, &Guard) -> ControlFlow<()> + 'v;

/// A layer of the scan.
struct Level<'t> {
    layer: Layer<'t>,
    bound: SlotPosition,
    /// Bytes of the key that the layers above make up.
    prefix: usize,
    /// Whether the key at which the scan begins has these bytes.
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

/// Why a pass of a scan ended.
enum End {
    /// Everything was visited, or the visitor stopped the scan.
    Done,
    /// A layer was removed: restart after the last key.
    Restart,
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
    let mut scan = Scan::new(shape);
    while let End::Restart = scan.ascend(low, high, visit) {}
    scan.visited
}

/// Visits `low <= key < high` downward.
pub(crate) fn descend(
    shape: &Shape,
    low: &[u8],
    high: Option<&[u8]>,
    visit: &mut Visit<'_>,
) -> u64 {
    let mut scan = Scan::new(shape);
    while let End::Restart = scan.descend(low, high, visit) {}
    scan.visited
}

/// The exclusive bound of the keys below the key whose rest is `rest`. Long keys with its slice and
/// tail may be below it.
fn below(rest: &[u8]) -> SlotPosition {
    let position = SlotPosition::of(rest);
    if position.rank == RANK_LONG { position.after() } else { position }
}

struct Scan<'t> {
    shape: &'t Shape,
    guard: Guard,
    stack: Vec<Level<'t>>,
    /// The parent of the border node that was copied last, if that was in the top layer.
    parent_hint: Option<ParentHint<'t>>,
    /// The bytes of the layers above the top one, followed by the key of an entry.
    key: Vec<u8>,
    /// Whether `key` is the last visited key.
    fresh: bool,
    /// The last visited key, unless `key` is.
    last: Option<Vec<u8>>,
    visited: u64,
}

impl<'t> Scan<'t> {
    fn new(shape: &'t Shape) -> Self {
        let guard = pin();
        Scan {
            shape,
            guard,
            stack: Vec::with_capacity(4),
            parent_hint: None,
            key: Vec::with_capacity(64),
            fresh: false,
            last: None,
            visited: 0,
        }
    }

    /// Begins at the root.
    fn begin(&mut self, bound: SlotPosition) {
        let mut backoff = Backoff::new();
        let layer = loop {
            match self.shape.top() {
                Some((layer, ..)) => break layer,
                None => backoff.wait(),
            }
        };
        self.parent_hint = None;
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
        self.begin(SlotPosition::of(low));
        while let Some(level) = self.stack.last() {
            let bound = level.bound;
            let Some(copy) = self.copy(bound.slice) else { return self.restart(&last) };
            self.prefetch(copy.high);
            let mut down = false;
            for entry in copy.entries().iter().filter(|entry| entry.last() >= bound) {
                if entry.is_layer() {
                    // The bound is after a layer, and that layer is in this one now.
                    let moved = entry.first() < bound && bound.rank > RANK_LONG;
                    let after = entry.last().after();
                    let inner = |rest: Option<&[u8]>| {
                        rest.map_or(SlotPosition::default(), SlotPosition::of)
                    };
                    if moved || !self.enter(&copy, entry, after, Some(low), inner) {
                        return self.restart(&last);
                    }
                    down = true;
                    break;
                }
                let Some(value) = self.read(entry) else { return self.restart(&last) };
                if outside(&self.key) {
                    continue;
                }
                if high.is_some_and(|high| *self.key >= *high)
                    || self.visit_entry(value, visit).is_break()
                {
                    return End::Done;
                }
            }
            if !down {
                self.next(SlotPosition::before(copy.high), copy.high == 0);
            }
        }
        End::Done
    }

    fn descend(&mut self, low: &[u8], high: Option<&[u8]>, visit: &mut Visit<'_>) -> End {
        let last = self.last.take();
        let high = last.as_deref().or(high);
        self.begin(high.map_or(SlotPosition::LAST, below));
        while let Some(level) = self.stack.last() {
            let bound = level.bound;
            // At the beginning of a slice no entry of it is needed.
            let inside = bound > SlotPosition::before(bound.slice);
            let slice = if inside { Some(bound.slice) } else { bound.slice.checked_sub(1) };
            let Some(slice) = slice else {
                self.leave();
                continue;
            };
            let Some(copy) = self.copy(slice) else { return self.restart(&last) };
            self.prefetch(copy.low.wrapping_sub(1));
            let mut down = false;
            for entry in copy.entries().iter().rev().filter(|entry| entry.first() < bound) {
                if entry.is_layer() {
                    // The bound is before a layer, and that layer is in this one now.
                    let moved = entry.last() >= bound && bound.rank == RANK_LONG;
                    let inner = |rest: Option<&[u8]>| rest.map_or(SlotPosition::LAST, below);
                    if moved || !self.enter(&copy, entry, entry.first(), high, inner) {
                        return self.restart(&last);
                    }
                    down = true;
                    break;
                }
                let Some(value) = self.read(entry) else { return self.restart(&last) };
                if high.is_some_and(|high| *self.key >= *high) {
                    continue;
                }
                if *self.key < *low || self.visit_entry(value, visit).is_break() {
                    return End::Done;
                }
            }
            if !down {
                self.next(SlotPosition::before(copy.low), copy.low == 0);
            }
        }
        End::Done
    }

    /// Keeps the last visited key, also if nothing was visited since the last restart.
    fn restart(&mut self, before: &Option<Vec<u8>>) -> End {
        self.keep_last();
        if self.last.is_none() {
            self.last.clone_from(before);
        }
        End::Restart
    }

    /// Saves the last visited key before `key` is overwritten.
    fn keep_last(&mut self) {
        if self.fresh {
            let last = self.last.get_or_insert_default();
            last.clone_from(&self.key);
            self.fresh = false;
        }
    }

    /// A copy of the border node of `slice` in the top layer. `None` if the layer was removed.
    fn copy(&mut self, slice: u64) -> Option<Copy<'t>> {
        self.guard.repin();
        let layer = self.stack.last()?.layer;
        let space = self.shape.space();
        let mut backoff = Backoff::new();
        let mut parent_hint = self.parent_hint.take();
        loop {
            let neighbour = parent_hint.and_then(|parent_hint| parent_hint.neighbour(space, slice));
            let border = neighbour.or_else(|| {
                parent_hint = None;
                layer.descend_with_parent(space, slice, &mut parent_hint)
            });
            if let Some((border, version)) = border
                && let Some(copy) = Copy::of(border, version, &self.guard)
            {
                self.parent_hint = parent_hint;
                return layer.is_current().then_some(copy);
            }
            if !layer.is_current() {
                return None;
            }
            backoff.wait();
        }
    }

    /// Prefetches the lines of the node of `slice`, if it has the same parent.
    fn prefetch(&self, slice: u64) {
        if let Some(parent_hint) = self.parent_hint {
            parent_hint.prefetch(self.shape.space(), slice);
        }
    }

    /// Builds the whole key of an entry of the top layer, and returns its value. `None` if the
    /// entry moved or was removed since it was copied, and the value is lost.
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

    /// Visits the entry whose key was built last.
    #[inline]
    fn visit_entry(&mut self, value: u64, visit: &mut Visit<'_>) -> ControlFlow<()> {
        self.visited += 1;
        self.fresh = true;
        visit(&self.key, value, &self.guard)
    }

    /// Enters the layer of `entry`; on return the scan continues from `bound`. The bound in the
    /// layer follows from `start`, the key at which the scan begins, if that is a key of the layer.
    /// Returns false if the node has changed since it was copied: the layer may be removed.
    fn enter(
        &mut self,
        copy: &Copy<'t>,
        entry: &Entry,
        bound: SlotPosition,
        start: Option<&[u8]>,
        inner: impl FnOnce(Option<&[u8]>) -> SlotPosition,
    ) -> bool {
        let layer = Layer::of(self.shape.space(), copy.border, copy.version, *entry);
        let Some(layer) = layer else { return false };
        let level = self.stack.last_mut().expect("the entry is of a level of the scan");
        level.bound = bound;
        let prefix = level.prefix;
        let start = start.filter(|_| level.edge).and_then(|start| start.get(prefix..));
        self.keep_last();
        self.parent_hint = None;
        self.key.truncate(prefix);
        entry.append_to(&mut self.key);
        let rest = start.and_then(|start| start.strip_prefix(&self.key[prefix..]));
        let (bound, edge) = (inner(rest), rest.is_some());
        self.stack.push(Level { layer, bound, prefix: self.key.len(), edge });
        true
    }

    /// Continues from `bound`, or leaves the layer at its end.
    fn next(&mut self, bound: SlotPosition, end: bool) {
        match self.stack.last_mut() {
            Some(level) if !end => level.bound = bound,
            _ => self.leave(),
        }
    }

    fn leave(&mut self) {
        self.parent_hint = None;
        self.stack.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tree;

    /// This holds for any number of restarts, with or without visits in between.
    #[test]
    fn a_scan_continues_after_the_last_key_that_it_visited() {
        let tree = Tree::<u64>::new();
        for key in ["before", "of one beginning: 1", "of one beginning: 2"] {
            tree.insert(key.as_bytes(), 0, &pin());
        }
        let mut scan = Scan::new(&tree.shape);
        scan.begin(SlotPosition::default());
        let copy = scan.copy(0).unwrap();
        let [before, layer] = copy.entries() else { panic!("{:?}", copy.entries()) };
        let value = scan.read(before).unwrap();
        assert!(scan.visit_entry(value, &mut |_, _, _| ControlFlow::Continue(())).is_continue());
        assert!(scan.enter(&copy, layer, SlotPosition::LAST, None, |_| SlotPosition::default()));
        for _ in 0..2 {
            let last = scan.last.take();
            scan.restart(&last);
            assert_eq!(scan.last.as_deref(), Some(&b"before"[..]));
        }
    }
}

//! Scans over a range of keys, in either direction, beside concurrent writers.
//!
//! A scan has a *cursor*: the interior nodes above a border node, each with its version and the
//! index of the child on the path. It copies the border node and validates. Then it visits the
//! entries without any lock, and moves to the next child of the lowest node that has one more, and
//! there to the first border node (or the last, in descending order). A layer on the way is a child
//! like others; its slice and prefix are added to the bytes that all keys below have.
//!
//! Each copy is the node at one moment. Border nodes have disjoint ranges without gaps but those
//! after layers, where no keys are. While the nodes of the path have their versions, the next child
//! begins where the last one ended. So no key comes twice or out of order, and a key that is
//! present throughout is in one of the copies. If one of the nodes has changed, the cursor is set
//! anew from the root, after the last key that was visited; what came before it is not visited
//! again.
//!
//! The scan pins again for each node, so that it does not delay the reclamation of removed memory.
//! The lines of the next nodes, and the cells of the current one, are prefetched before the entries
//! are visited.

use crate::descent::below;
use crate::entry::Entry;
use crate::key::{Rest, SLICE_BYTES};
use crate::node::{BorderRef, InteriorRef, Kind, NodeRef, prefetch_word};
use crate::permutation::WIDTH;
use crate::shape::Shape;
use keyrack_concurrent::{Backoff, Guard, Version, pin};
use std::cmp::Ordering;
use std::ops::ControlFlow;

/// Gets key, value and the guard under which the value may be read.
type Visit<'v> = dyn FnMut(&[u8], u64, &Guard) -> ControlFlow<()> + 'v;

/// Children beyond the next one that are prefetched.
const AHEAD: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// An interior node of the path.
struct Step<'t> {
    node: InteriorRef<'t>,
    version: Version,
    /// Of the child on the path.
    index: usize,
    /// Bytes of the key that the layers above make up.
    prefix: usize,
}

/// A border node at one moment.
pub(crate) struct Copy {
    entries: [Entry; WIDTH],
    count: usize,
}

/// Where a cursor has come to.
enum At<'t> {
    Border(BorderRef<'t>, Version),
    /// Nothing comes any more.
    End,
    /// A node of the path has changed.
    Changed,
}

impl Copy {
    /// The node as it was while it had `version`, if it still has. Covered by the guard.
    pub(crate) fn of(border: BorderRef<'_>, version: Version, guard: &Guard) -> Option<Self> {
        let copy = guard.protect(|| {
            let mut copy = Copy { entries: [Entry::EMPTY; WIDTH], count: 0 };
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
    Scan::new(shape, Direction::Up).run(Some(low), high, visit)
}

/// Visits `low <= key < high` downward.
pub(crate) fn descend(
    shape: &Shape,
    low: &[u8],
    high: Option<&[u8]>,
    visit: &mut Visit<'_>,
) -> u64 {
    Scan::new(shape, Direction::Down).run(high, Some(low), visit)
}

/// The path to a border node.
struct Cursor<'t> {
    shape: &'t Shape,
    direction: Direction,
    steps: Vec<Step<'t>>,
    /// The bytes that all keys of the node have.
    prefix: Vec<u8>,
}

impl<'t> Cursor<'t> {
    /// To the border node in which the scan begins that starts at `start`: the first that may have
    /// keys from it on, or the last that may have keys below it. `None`: at the end of all keys.
    fn seek(&mut self, start: Option<&[u8]>) -> At<'t> {
        self.steps.clear();
        self.prefix.clear();
        match self.shape.top() {
            Some((root, version)) => self.lead(root, version, start, true),
            None => At::Changed,
        }
    }

    /// From a node down to a border node. `start` is what is left of the key at which the scan
    /// begins; `None` if all keys of the node are in the scan.
    fn lead(
        &mut self,
        mut node: NodeRef<'t>,
        mut version: Version,
        mut start: Option<&[u8]>,
        mut top: bool,
    ) -> At<'t> {
        let space = self.shape.space();
        loop {
            if version.is_root() {
                let inside = self.enter_layer(node, &mut start, top);
                // The slice and the prefix were read after the versions were validated.
                let same = node.version().validate(version)
                    && self.steps.iter().all(|step| step.node.version().validate(step.version));
                if !same {
                    return At::Changed;
                }
                if !inside {
                    return self.next();
                }
            }
            top = false;
            let parent = match node.kind() {
                Kind::Border(border) => return At::Border(border, version),
                Kind::Interior(parent) => parent,
            };
            let index = match (start, self.direction) {
                (Some(start), Direction::Up) => parent.index_for(Rest::of(start).fence()),
                (Some(start), Direction::Down) => parent.index_below(start),
                (None, Direction::Up) => 0,
                (None, Direction::Down) => parent.count(),
            };
            let Some(child) = parent.child(space, index) else { return At::Changed };
            child.prefetch();
            let Some(child_version) = below(parent, version, child) else { return At::Changed };
            let prefix = self.prefix.len();
            self.steps.push(Step { node: parent, version, index, prefix });
            (node, version) = (child, child_version);
        }
    }

    /// Adds what all keys of a layer have. Returns false if the scan begins after them.
    fn enter_layer(&mut self, root: NodeRef<'t>, start: &mut Option<&[u8]>, top: bool) -> bool {
        // It is read under the version of the root, and counts only if that is validated.
        let prefix = root.prefix(self.shape.space());
        if !top {
            let slice = self.slice_before();
            self.prefix.extend(slice.to_be_bytes());
            if let Some(rest) = *start {
                let rest = Rest::of(rest);
                match (rest.position.slice.cmp(&slice), self.direction) {
                    (Ordering::Equal, _) => *start = rest.bytes.get(SLICE_BYTES..),
                    // The scan begins in the gap after the layer.
                    (_, Direction::Up) => return false,
                    (_, Direction::Down) => *start = None,
                }
            }
        }
        let Some(prefix) = prefix else { return true };
        prefix.append_to(&mut self.prefix);
        let Some(rest) = *start else { return true };
        if prefix.leads_to(rest) {
            *start = Some(&rest[prefix.bytes()..]);
            return true;
        }
        match (prefix.compare(rest), self.direction) {
            (Ordering::Greater | Ordering::Equal, Direction::Up)
            | (Ordering::Less, Direction::Down) => {
                *start = None;
                true
            }
            _ => false,
        }
    }

    /// The slice of the last separator before the child on the path, in its layer.
    fn slice_before(&self) -> u64 {
        let layer = self.steps.last().map_or(0, |step| step.prefix);
        let steps = self.steps.iter().rev().take_while(|step| step.prefix == layer);
        let before = steps.map(|step| (step.node, step.index)).find(|(_, index)| *index > 0);
        before.map_or(0, |(node, index)| node.separator(index - 1).slice)
    }

    /// To the border node after the current one.
    fn next(&mut self) -> At<'t> {
        loop {
            let Some(step) = self.steps.last_mut() else { return At::End };
            let next = match self.direction {
                Direction::Up => Some(step.index + 1).filter(|index| *index <= step.node.count()),
                Direction::Down => step.index.checked_sub(1),
            };
            let Some(index) = next else {
                // Whether it was the last child.
                if !step.node.version().validate(step.version) {
                    return At::Changed;
                }
                self.steps.pop();
                continue;
            };
            step.index = index;
            self.prefix.truncate(step.prefix);
            let child = step.node.child(self.shape.space(), index);
            let below =
                child.and_then(|child| Some((child, below(step.node, step.version, child)?)));
            return match below {
                Some((child, version)) => self.lead(child, version, None, false),
                None => At::Changed,
            };
        }
    }

    /// Prefetches the lines of the nodes that come next, if they have the same parent.
    fn prefetch(&self) {
        // A tree of one node has no others.
        let Some(step) = self.steps.last() else { return };
        for ahead in 1..=AHEAD {
            let next = match self.direction {
                Direction::Up => Some(step.index + ahead).filter(|next| *next <= step.node.count()),
                Direction::Down => step.index.checked_sub(ahead),
            };
            let child = next.and_then(|next| step.node.child(self.shape.space(), next));
            // They are under another parent, or nothing comes any more.
            let Some(child) = child else { return };
            child.prefetch();
        }
    }
}

struct Scan<'t> {
    shape: &'t Shape,
    guard: Guard,
    cursor: Cursor<'t>,
    /// The key that was read last.
    key: Vec<u8>,
    /// The key visited last, once the scan has begun anew.
    last: Option<Vec<u8>>,
    visited: u64,
}

impl<'t> Scan<'t> {
    fn new(shape: &'t Shape, direction: Direction) -> Self {
        let guard = pin();
        let (steps, prefix) = (Vec::with_capacity(8), Vec::with_capacity(64));
        let cursor = Cursor { shape, direction, steps, prefix };
        Scan { shape, guard, cursor, key: Vec::with_capacity(64), last: None, visited: 0 }
    }

    /// Visits the keys from `start` to `end`, in the direction of the scan. Returns how many.
    fn run(&mut self, start: Option<&[u8]>, end: Option<&[u8]>, visit: &mut Visit<'_>) -> u64 {
        let mut backoff = Backoff::new();
        while let ControlFlow::Continue(()) = self.pass(start, end, visit) {
            backoff.wait();
        }
        self.visited
    }

    /// From the start, or after the key visited last, until all is done or a node has changed.
    fn pass(
        &mut self,
        start: Option<&[u8]>,
        end: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> ControlFlow<()> {
        let direction = self.cursor.direction;
        let last = self.last.clone();
        // Keys that are not inside yet come before the scan.
        let mut inside = false;
        let is_inside = |key: &[u8]| match (&last, direction) {
            (Some(last), Direction::Up) => key > &last[..],
            (Some(last), Direction::Down) => key < &last[..],
            (None, Direction::Up) => start.is_none_or(|start| key >= start),
            (None, Direction::Down) => start.is_none_or(|start| key < start),
        };
        let is_beyond = |key: &[u8]| match direction {
            Direction::Up => end.is_some_and(|end| key >= end),
            Direction::Down => end.is_some_and(|end| key < end),
        };
        let mut at = self.cursor.seek(last.as_deref().or(start));
        loop {
            let copy = match at {
                At::Border(border, version) => {
                    self.guard.repin();
                    Copy::of(border, version, &self.guard)
                }
                At::End => return ControlFlow::Break(()),
                At::Changed => None,
            };
            let Some(copy) = copy else { return self.keep_last(inside) };
            self.cursor.prefetch();
            for entry in copy.entries().iter().filter(|entry| entry.has_cell()) {
                prefetch_word(entry.value);
            }
            for at in 0..copy.count {
                let index = if direction == Direction::Up { at } else { copy.count - 1 - at };
                let Some(value) = self.read(&copy.entries[index], at == 0) else {
                    return self.keep_last(inside);
                };
                inside = inside || is_inside(&self.key);
                if inside {
                    if is_beyond(&self.key) {
                        return ControlFlow::Break(());
                    }
                    self.visited += 1;
                    visit(&self.key, value, &self.guard)?;
                }
            }
            at = self.cursor.next();
        }
    }

    /// Keeps the key visited last, which is that read last if the pass has come inside the scan.
    fn keep_last(&mut self, inside: bool) -> ControlFlow<()> {
        if inside {
            self.last = Some(self.key.clone());
        }
        ControlFlow::Continue(())
    }

    /// Builds the whole key of an entry, and returns its value. `None` if the entry moved or was
    /// removed since it was copied, and the value is lost.
    #[inline]
    fn read(&mut self, entry: &Entry, first: bool) -> Option<u64> {
        // SAFETY: the copy was validated, and is covered.
        let cell = unsafe { entry.cell() };
        let value = match cell {
            None => entry.value,
            Some(cell) => match self.guard.protect(|| cell.value()) {
                0 if self.shape.pointers => return None,
                value => value,
            },
        };
        if first {
            self.key.clear();
            self.key.extend_from_slice(&self.cursor.prefix);
        } else {
            self.key.truncate(self.cursor.prefix.len());
        }
        entry.append_to(&mut self.key);
        if let Some(cell) = cell {
            self.key.extend_from_slice(cell.suffix());
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tree;
    use crate::races::{CHANGES, among_layers, staying};

    const BOTH: [Direction; 2] = [Direction::Up, Direction::Down];

    /// This holds for any number of passes, with or without visits in between.
    #[test]
    fn a_scan_continues_after_the_last_key_that_it_visited() {
        for direction in BOTH {
            let mut tree = Tree::<u64>::new();
            let put = |key: &[u8]| assert!(tree.insert(key, 0, &pin()).is_none());
            let mut keys = vec![b"before".to_vec(), b"zz, after".to_vec()];
            keys.extend((0..40).map(|n: u8| [&b"of one beginning: "[..], &[n]].concat()));
            keys.iter().for_each(|key| put(key));
            keys.sort();
            if direction == Direction::Down {
                keys.reverse();
            }
            let mut scan = Scan::new(&tree.shape, direction);
            let mut seen = Vec::new();
            let first = scan.pass(None, None, &mut |key, _, _| {
                seen.push(key.to_vec());
                if seen.len() == 1 {
                    // The root, which has the layer as a child, gets another one.
                    put(b"of one gap");
                }
                ControlFlow::Continue(())
            });
            assert!(first.is_continue(), "the root has changed");
            for _ in 0..2 {
                assert_eq!(scan.last.as_ref(), Some(&keys[0]));
                // It has read one that was visited, which may be another one than the last.
                scan.key = b"a key".to_vec();
                assert!(scan.keep_last(false).is_continue(), "a pass that came to no key");
            }
            let rest = scan.pass(None, None, &mut |key, _, _| {
                seen.push(key.to_vec());
                ControlFlow::Continue(())
            });
            assert!(rest.is_break(), "all is done");
            seen.retain(|key| key != b"of one gap");
            assert_eq!((seen.len(), scan.visited), (keys.len(), keys.len() as u64 + 1));
            assert_eq!(seen, keys);
            tree.check().unwrap();
        }
    }

    /// Where a scan is when the tree changes.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Moment {
        /// It has come to the node of this number, and not copied it.
        Before(usize),
        /// It has copied it, and not gone on.
        After(usize),
    }

    /// All keys as a scan sees them while `change` happens, and how many nodes it has come to.
    fn scan_through(
        tree: &Tree<u64>,
        direction: Direction,
        moment: Moment,
        change: fn(&Tree<u64>),
    ) -> (Vec<Vec<u8>>, usize) {
        let mut scan = Scan::new(&tree.shape, direction);
        let (mut keys, mut nodes) = (Vec::<Vec<u8>>::new(), 0);
        let mut at = scan.cursor.seek(None);
        let up = direction == Direction::Up;
        loop {
            let copy = match at {
                At::End => return (keys, nodes),
                At::Changed => None,
                At::Border(border, version) => {
                    if moment == Moment::Before(nodes) {
                        change(tree);
                    }
                    let copy = Copy::of(border, version, &scan.guard);
                    if moment == Moment::After(nodes) {
                        change(tree);
                    }
                    nodes += 1;
                    copy
                }
            };
            let Some(copy) = copy else {
                at = scan.cursor.seek(keys.last().map(|last| &last[..]));
                continue;
            };
            for at in 0..copy.count {
                let index = if up { at } else { copy.count - 1 - at };
                assert!(scan.read(&copy.entries[index], at == 0).is_some());
                let key = &scan.key;
                if keys.last().is_none_or(|last| if up { key > last } else { key < last }) {
                    keys.push(key.clone());
                }
            }
            at = scan.cursor.next();
        }
    }

    /// A cursor stands at a node, or between two, while layers around it change.
    #[test]
    fn a_cursor_goes_on_among_layers_that_change() {
        let stays = staying();
        for (direction, (name, change)) in
            BOTH.into_iter().flat_map(|direction| CHANGES.map(|change| (direction, change)))
        {
            let (all, nodes) =
                scan_through(&among_layers(), direction, Moment::Before(usize::MAX), |_| ());
            assert!(all.len() > stays.len() && nodes > 20);
            for moment in (0..nodes).flat_map(|node| [Moment::Before(node), Moment::After(node)]) {
                let mut tree = among_layers();
                let (mut seen, _) = scan_through(&tree, direction, moment, change);
                if direction == Direction::Down {
                    seen.reverse();
                }
                assert!(seen.is_sorted_by(|a, b| a < b), "{name}, {moment:?}, {direction:?}");
                let missed = stays.iter().find(|key| seen.binary_search(key).is_err());
                assert_eq!(missed, None, "{name}, {moment:?}, {direction:?}");
                tree.check().unwrap();
            }
        }
    }

    /// A cursor has the version of a root, the prefix of which is then divided or goes. What the
    /// node says now does not tell where the scan begins, nor which bytes its keys have.
    #[test]
    fn a_cursor_that_enters_a_layer_compares_under_a_version() {
        let key = |n: u64| [&b"of one beginning: "[..], &n.to_be_bytes()].concat();
        let starts = [key(3), b"of one".to_vec(), b"of two".to_vec(), b"of one beginning".to_vec()];
        for (direction, start) in BOTH.iter().flat_map(|d| starts.iter().map(move |s| (*d, s))) {
            let changes: [fn(&Tree<u64>); 3] = [
                |tree| assert!(tree.insert(b"another key", 1, &pin()).is_none()),
                |tree| assert!(tree.insert(b"of one beginning", 1, &pin()).is_none()),
                |tree| {
                    let keys = (0..40_u64).map(u64::to_be_bytes);
                    let keys = keys.map(|n| [&b"of one beginning: "[..], &n].concat());
                    keys.for_each(|key| assert!(tree.remove(&key, &pin()).is_some()));
                },
            ];
            for change in changes {
                let mut tree = Tree::<u64>::new();
                (0..40).for_each(|n| assert!(tree.insert(&key(n), n, &pin()).is_none()));
                let mut scan = Scan::new(&tree.shape, direction);
                let (root, version) = tree.shape.top().unwrap();
                assert!(root.prefix_handle() != 0);
                change(&tree);
                let at = scan.cursor.lead(root, version, Some(start), true);
                assert!(matches!(at, At::Changed), "{direction:?} from {start:?}");
                tree.check().unwrap();
            }
        }
    }

    /// A cursor has read the next layer from the node above, where a gap before it is filled then.
    /// The slice that comes before the layer is another one's.
    #[test]
    fn a_cursor_that_enters_a_layer_reads_its_slice_under_a_version() {
        let (mut tree, start) = (among_layers(), [30; 8]);
        let mut scan = Scan::new(&tree.shape, Direction::Up);
        // The first layer from there on, and the nodes above it.
        assert!(matches!(scan.cursor.seek(Some(&start)), At::Border(..)));
        let layer = scan.cursor.steps.iter().position(|step| step.prefix > 0).unwrap();
        let child = scan.cursor.steps[layer].node.node();
        scan.cursor.steps.truncate(layer);
        scan.cursor.prefix.clear();
        assert_eq!(scan.cursor.slice_before(), u64::from_be_bytes([30; 8]));
        let version = child.version().stable();
        assert!(version.is_root());
        assert!(tree.insert(&[25; 8], 1, &pin()).is_none());
        assert_ne!(scan.cursor.slice_before(), u64::from_be_bytes([30; 8]));
        assert!(child.version().validate(version), "the layer is not disturbed");
        assert!(matches!(scan.cursor.lead(child, version, None, false), At::Changed));
        tree.check().unwrap();
    }
}

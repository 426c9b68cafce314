//! The path to a border node, and from there to the next one in either direction, beside concurrent
//! writers. Scans, cursors and iterators move along it.
//!
//! A path has the interior nodes above a border node, each with its version and the index of the
//! child. It moves to the next child of the lowest node that has one more, and there to the first
//! border node (or the last, downward). A layer on the way is a child like others; its slice and
//! prefix are added to the bytes that all keys below have.
//!
//! Each [`Copy`] is a border node at one moment. Border nodes have disjoint ranges without gaps but
//! those after layers, where no keys are. While the nodes of the path have their versions, the next
//! child begins where the last one ended. So no key comes twice or out of order, and a key that is
//! present throughout is in one of the copies. If one of the nodes has changed, the path says so,
//! and its owner seeks anew from the last key.
//!
//! The direction may change between two moves: the nodes above a border node are the same in both.

use crate::descent::below;
use crate::entry::Entry;
use crate::key::{Rest, SLICE_BYTES};
use crate::node::{BorderRef, InteriorRef, Kind, NodeRef, prefetch_word};
use crate::permutation::WIDTH;
use crate::shape::Shape;
use keyrack_concurrent::{Guard, Version};
use std::cmp::Ordering;

/// Nodes that are prefetched beyond the current one.
const AHEAD: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
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

/// Where a path has come to.
pub(crate) enum At<'t> {
    Border(BorderRef<'t>, Version),
    /// Nothing comes any more.
    End,
    /// A node of the path has changed.
    Changed,
}

impl Copy {
    /// Of no node.
    pub(crate) const EMPTY: Copy = Copy { entries: [Entry::EMPTY; WIDTH], count: 0 };

    /// The node as it was while it had `version`, if it still has. Covered by the guard.
    pub(crate) fn of(border: BorderRef<'_>, version: Version, guard: &Guard) -> Option<Self> {
        let copy = guard.protect(|| {
            let mut copy = Copy::EMPTY;
            for slot in border.permutation().slots() {
                copy.entries[copy.count] = border.entry(slot);
                copy.count += 1;
            }
            copy
        });
        border.version().validate(version).then_some(copy)
    }

    #[inline]
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries[..self.count]
    }

    /// The entry at which [`Path::prefetch_below`] is due.
    #[inline]
    pub(crate) fn middle(&self) -> usize {
        self.count / 2
    }
}

/// The path to a border node.
pub(crate) struct Path<'t> {
    shape: &'t Shape,
    pub(crate) direction: Direction,
    steps: Vec<Step<'t>>,
    /// The bytes that all keys of the node have.
    prefix: Vec<u8>,
}

impl<'t> Path<'t> {
    /// A path to nowhere yet.
    pub(crate) fn new(shape: &'t Shape, direction: Direction) -> Self {
        let (steps, prefix) = (Vec::with_capacity(8), Vec::with_capacity(64));
        Path { shape, direction, steps, prefix }
    }

    /// To the border node in which the scan begins that starts at `start`: the first that may have
    /// keys from it on, or the last that may have keys below it. `None`: at the end of all keys.
    pub(crate) fn seek(&mut self, start: Option<&[u8]>) -> At<'t> {
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
    pub(crate) fn next(&mut self) -> At<'t> {
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

    /// Prefetches the cells of a copy, and the lines of the nodes that come next.
    pub(crate) fn prefetch(&self, copy: &Copy) {
        self.upcoming().for_each(NodeRef::prefetch);
        for entry in copy.entries().iter().filter(|entry| entry.has_cell()) {
            prefetch_word(entry.value);
        }
    }

    /// Prefetches what the next node points to, if the tree has such keys as `copy`. The lines of
    /// that node were prefetched with the copy; read at once, they would be waited for.
    pub(crate) fn prefetch_below(&self, copy: &Copy) {
        if !copy.entries().iter().any(Entry::has_cell) {
            return;
        }
        match self.upcoming().next().map(NodeRef::kind) {
            Some(Kind::Border(border)) => border.prefetch_cells(),
            Some(Kind::Interior(root)) => {
                let first = if self.direction == Direction::Up { 0 } else { root.count() };
                root.child(self.shape.space(), first).into_iter().for_each(NodeRef::prefetch);
            }
            None => {}
        }
    }

    /// The nodes that come next, as they are called by those of the path, which are not validated.
    fn upcoming(&self) -> impl Iterator<Item = NodeRef<'t>> {
        let children = self.steps.iter().rev().flat_map(|step| {
            (1..=AHEAD).map_while(|ahead| {
                let next = match self.direction {
                    Direction::Up => {
                        Some(step.index + ahead).filter(|next| *next <= step.node.count())
                    }
                    Direction::Down => step.index.checked_sub(ahead),
                };
                step.node.child(self.shape.space(), next?)
            })
        });
        children.take(AHEAD)
    }

    /// Builds the whole key of an entry in `key`, and returns its value. Unless it is the `first`
    /// since the last move, `key` has one of the same node. The guard is that of the copy, and has
    /// not been pinned again. `None` if the entry moved or was removed since it was copied, and the
    /// value is lost; then `key` is as before.
    #[inline]
    pub(crate) fn read(
        &self,
        entry: &Entry,
        first: bool,
        key: &mut Vec<u8>,
        guard: &Guard,
    ) -> Option<u64> {
        // SAFETY: the copy was validated, and is covered.
        let cell = unsafe { entry.cell() };
        let value = match cell {
            None => entry.value,
            Some(cell) => match guard.protect(|| cell.value()) {
                0 if self.shape.pointers => return None,
                value => value,
            },
        };
        if first {
            key.clear();
            key.extend_from_slice(&self.prefix);
        } else {
            key.truncate(self.prefix.len());
        }
        entry.append_to(key);
        if let Some(cell) = cell {
            key.extend_from_slice(cell.suffix());
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tree;
    use crate::races::{CHANGES, among_layers, staying};
    use keyrack_concurrent::pin;

    const BOTH: [Direction; 2] = [Direction::Up, Direction::Down];

    /// Where a path is when the tree changes.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Moment {
        /// It has come to the node of this number, and not copied it.
        Before(usize),
        /// It has copied it, and not gone on.
        After(usize),
    }

    /// All keys as they are seen along a path while `change` happens, and how many nodes it has
    /// come to.
    fn keys_along(
        tree: &Tree<u64>,
        direction: Direction,
        moment: Moment,
        change: fn(&Tree<u64>),
    ) -> (Vec<Vec<u8>>, usize) {
        let (guard, mut path) = (pin(), Path::new(&tree.shape, direction));
        let (mut keys, mut nodes, mut key) = (Vec::<Vec<u8>>::new(), 0, Vec::new());
        let mut at = path.seek(None);
        let up = direction == Direction::Up;
        loop {
            let copy = match at {
                At::End => return (keys, nodes),
                At::Changed => None,
                At::Border(border, version) => {
                    if moment == Moment::Before(nodes) {
                        change(tree);
                    }
                    let copy = Copy::of(border, version, &guard);
                    if moment == Moment::After(nodes) {
                        change(tree);
                    }
                    nodes += 1;
                    copy
                }
            };
            let Some(copy) = copy else {
                at = path.seek(keys.last().map(|last| &last[..]));
                continue;
            };
            for at in 0..copy.count {
                let index = if up { at } else { copy.count - 1 - at };
                let entry = &copy.entries[index];
                assert!(path.read(entry, at == 0, &mut key, &guard).is_some());
                if keys.last().is_none_or(|last| if up { key > *last } else { key < *last }) {
                    keys.push(key.clone());
                }
            }
            at = path.next();
        }
    }

    /// A path stands at a node, or between two, while layers around it change.
    #[test]
    fn a_path_goes_on_among_layers_that_change() {
        let stays = staying();
        for (direction, (name, change)) in
            BOTH.into_iter().flat_map(|direction| CHANGES.map(|change| (direction, change)))
        {
            let (all, nodes) =
                keys_along(&among_layers(), direction, Moment::Before(usize::MAX), |_| ());
            assert!(all.len() > stays.len() && nodes > 20);
            for moment in (0..nodes).flat_map(|node| [Moment::Before(node), Moment::After(node)]) {
                let mut tree = among_layers();
                let (mut seen, _) = keys_along(&tree, direction, moment, change);
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

    /// A path has the version of a root, the prefix of which is then divided or goes. What the
    /// node says now does not tell where the scan begins, nor which bytes its keys have.
    #[test]
    fn a_path_that_enters_a_layer_compares_under_a_version() {
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
                let mut path = Path::new(&tree.shape, direction);
                let (root, version) = tree.shape.top().unwrap();
                assert!(root.prefix_handle() != 0);
                change(&tree);
                let at = path.lead(root, version, Some(start), true);
                assert!(matches!(at, At::Changed), "{direction:?} from {start:?}");
                tree.check().unwrap();
            }
        }
    }

    /// A path has read the next layer from the node above, where a gap before it is filled then.
    /// The slice that comes before the layer is another one's.
    #[test]
    fn a_path_that_enters_a_layer_reads_its_slice_under_a_version() {
        let (mut tree, start) = (among_layers(), [30; 8]);
        let mut path = Path::new(&tree.shape, Direction::Up);
        // The first layer from there on, and the nodes above it.
        assert!(matches!(path.seek(Some(&start)), At::Border(..)));
        let layer = path.steps.iter().position(|step| step.prefix > 0).unwrap();
        let child = path.steps[layer].node.node();
        path.steps.truncate(layer);
        path.prefix.clear();
        assert_eq!(path.slice_before(), u64::from_be_bytes([30; 8]));
        let version = child.version().stable();
        assert!(version.is_root());
        assert!(tree.insert(&[25; 8], 1, &pin()).is_none());
        assert_ne!(path.slice_before(), u64::from_be_bytes([30; 8]));
        assert!(child.version().validate(version), "the layer is not disturbed");
        assert!(matches!(path.lead(child, version, None, false), At::Changed));
        tree.check().unwrap();
    }
}

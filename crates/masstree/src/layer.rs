//! How layers are made, divided and joined.
//!
//! ```text
//!   a border node of one slice      s|a..  s|b..  s|c..    -->  the root of a layer: a..  b..  c..
//!   that all continue with p        sp|a.. sp|b..           -->  with the prefix p:   a..  b..
//!   a key that leaves the prefix    p -> L   and  x..       -->  a layer above: [ x.. | p -> L ]
//!   a key in a gap                  [ s -> L |       ]      -->  [ s -> L | x.. ]
//! ```
//!
//! Keys that begin alike share a border node until that is full, told apart by their cells. If all
//! keys of a full node then have one slice and continue after it, a cut between slices cannot
//! divide them. So the node begins a layer: it leaves behind the slice, and whole words besides
//! that all of its keys have in common, which are kept once, as the prefix of the layer. No key
//! moves to another node, and none of few keys is made. The trie is compressed in this way as "The
//! Adaptive Radix Tree" (ICDE 2013) is, in words in place of bytes, and the words are compared on
//! the way down.
//!
//! A key that does not have a prefix divides it: a layer with two children comes before it. That
//! happens at most once for each word.

use crate::cell::Cell;
use crate::descent::LeafPosition;
use crate::entry::Entry;
use crate::key::{Fence, Rest, SLICE_BYTES, slice_of};
use crate::node::{BorderRef, InteriorRef, NodeRef};
use crate::prefix::{PREFIX_WORDS_MAX, Prefix, common_words};
use crate::shape::Shape;
use crate::split::{Path, add_child};
use keyrack_concurrent::{Guard, Locked, Version};

/// Makes the root of a layer of a full border node whose keys have one slice and continue after it.
/// `next` is the key that found the node full, which is one of them. Returns its leaf position.
pub(crate) fn begin_layer<'t, 'k>(
    shape: &'t Shape,
    border: BorderRef<'t>,
    mut locked: Locked<'t>,
    next: Rest<'k>,
    guard: &Guard,
) -> LeafPosition<'t, 'k> {
    let entries: Vec<Entry> = border.permutation().slots().map(|slot| border.entry(slot)).collect();
    let slice = entries[0].slice;
    // SAFETY: the entries are live, and the node is locked.
    let cells: Vec<Option<Cell<'_>>> =
        entries.iter().map(|entry| unsafe { entry.cell() }).collect();
    // A root keeps its prefix, and puts the slice behind it.
    let mut words: Vec<u64> = Vec::new();
    if locked.version().is_root() {
        words.extend(border.node().prefix(shape.space()).into_iter().flat_map(Prefix::words));
        words.push(slice);
    }
    let mut common = common_of(&entries, &cells, next);
    common.truncate(PREFIX_WORDS_MAX - words.len());
    words.extend(&common);

    let moved: Vec<Entry> =
        entries.iter().zip(&cells).map(|(entry, cell)| after(entry, *cell, common.len())).collect();
    let prefix = shape.new_prefix(&words);
    locked.mark_splitting();
    shape.end_prefix(border.node().prefix_handle());
    border.node().set_prefix(prefix);
    if !locked.version().is_root() {
        locked.set_root();
        shape.layers.add(1);
    }
    border.set_low(Fence::default());
    border.set_high(None);
    border.clear_stale();
    border.fill(&moved);
    let cells: Vec<Cell<'_>> = cells.into_iter().flatten().collect();
    let version = retire_cells(shape, locked, &cells, guard);
    LeafPosition { border, version, rest: next.after((1 + common.len()) * SLICE_BYTES) }
}

/// Whether the full node can be the root of a layer, if all of its keys have one slice and continue
/// after it: it has no other keys to care for, and there is room for the slice.
pub(crate) fn may_begin_layer(shape: &Shape, border: BorderRef<'_>, root: bool, at: Fence) -> bool {
    if !root {
        return border.low() == at;
    }
    border.node().prefix(shape.space()).is_none_or(|prefix| prefix.len() < PREFIX_WORDS_MAX)
}

/// The words after the slice that all entries have and continue after, and `next`.
fn common_of(entries: &[Entry], cells: &[Option<Cell<'_>>], next: Rest<'_>) -> Vec<u64> {
    let tail = entries[0].tail;
    let one_tail = next.position.tail == tail && entries.iter().all(|entry| entry.tail == tail);
    let mut suffixes: Vec<&[u8]> = cells.iter().flatten().map(|cell| cell.suffix()).collect();
    if !one_tail || !next.is_long() || suffixes.len() < entries.len() {
        return Vec::new();
    }
    suffixes.push(next.suffix());
    let more = common_words(suffixes.iter().copied());
    let more = suffixes[0].chunks_exact(SLICE_BYTES).take(more).map(slice_of);
    std::iter::once(tail).chain(more).collect()
}

/// The same key in a layer that begins after the slice and so many words, which it continues after.
fn after(entry: &Entry, cell: Option<Cell<'_>>, words: usize) -> Entry {
    match (cell, words.checked_sub(1)) {
        (Some(cell), None) => Entry::make_after_slice(entry.tail, cell.suffix(), cell.value()),
        (Some(cell), Some(words)) => {
            Entry::make(&cell.suffix()[words * SLICE_BYTES..], cell.value())
        }
        (None, _) => entry.after_slice(),
    }
}

/// Stores an entry for a key that does not have the prefix of the layer with this root, which is
/// locked: puts a layer above, of what the two share.
pub(crate) fn divide_prefix<'t>(
    shape: &'t Shape,
    root: NodeRef<'t>,
    mut locked: Locked<'t>,
    rest: Rest<'_>,
    value: u64,
) {
    let space = shape.space();
    let prefix = root.prefix(space).expect("a key differs from the prefix of a layer that has one");
    let (words, shared) = (prefix.words().collect::<Vec<_>>(), prefix.shared(rest.bytes));
    let inner = Fence { slice: words[shared], continuing: true };
    let rest = rest.after(shared * SLICE_BYTES);
    let (upper, lower) =
        (shape.new_prefix(&words[..shared]), shape.new_prefix(&words[shared + 1..]));
    let mut above = root.lock_parent(space);

    // Nodes are made before the marks, at which readers wait: memory may take long to get.
    let (divided, divided_locked) = shape.new_interior(true);
    divided.node().set_prefix(upper);
    let before = rest.fence() < inner;
    let (first, first_locked) = shape.new_border(false, Fence::default(), Some(inner));
    let children = if before {
        first.fill(&[Entry::make(rest.bytes, value)]);
        vec![(inner, root)]
    } else {
        let (last, last_locked) = shape.new_border(false, rest.fence(), None);
        last.fill(&[Entry::make(rest.bytes, value)]);
        last.node().set_parent(space, Some(divided));
        drop(last_locked);
        vec![(inner, root), (rest.fence(), last.node())]
    };

    locked.mark_splitting();
    if let Some((_, above)) = &mut above {
        above.mark_splitting();
    }
    divided.set_child(space, 0, Some(first.node()));
    first.node().set_parent(space, Some(divided));
    for (at, &(separator, child)) in children.iter().enumerate() {
        divided.set_separator(at, separator);
        divided.set_child(space, at + 1, Some(child));
    }
    divided.set_count(children.len());
    shape.replace_root(above.as_ref().map(|(above, _)| *above), root, divided.node());
    root.set_parent(space, Some(divided));
    shape.end_prefix(root.prefix_handle());
    root.set_prefix(lower);
    shape.layers.add(1);
    shape.keys.add(1);
    drop((first_locked, divided_locked));
}

/// Stores an entry for a key in the gap after a layer, in a border node of its own. `parent`, which
/// is locked, has the root of that layer as a child.
pub(crate) fn fill_gap<'t>(
    shape: &'t Shape,
    parent: InteriorRef<'t>,
    locked: Locked<'t>,
    rest: Rest<'_>,
    value: u64,
) {
    let space = shape.space();
    let index = parent.index_for(rest.fence());
    let layer = parent.child(space, index).expect("a gap is after a layer");
    debug_assert!(layer.version().load().is_root());
    let mut path = Path::from(space, parent, locked);
    let high = path.fence_after(space, index);
    let (border, border_locked) = shape.new_border(false, rest.fence(), high);
    border.fill(&[Entry::make(rest.bytes, value)]);
    path.make_nodes(shape);
    path.mark();
    shape.keys.add(1);
    add_child(shape, layer, None, &mut path, rest.fence(), border.node());
    drop(border_locked);
}

/// Retires cells that were unlinked under the lock, and drops the lock. Their values have moved.
/// Returns the version of the unlocked node.
pub(crate) fn retire_cells(
    shape: &Shape,
    locked: Locked<'_>,
    cells: &[Cell<'_>],
    guard: &Guard,
) -> Version {
    if shape.pointers {
        cells.iter().for_each(|cell| cell.set_value(0));
    }
    // A destructor that runs meanwhile may use the tree.
    let version = locked.unlock();
    for cell in cells {
        // SAFETY: this thread has unlinked it under the lock, and does so once.
        unsafe { cell.retire(guard) };
    }
    version
}

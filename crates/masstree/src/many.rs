//! Many searches, interleaved.
//!
//! A single search waits for memory at every node, because the next address is in a cache line that
//! has not arrived. Searches of different keys are independent, so up to [`CURSORS`] of them are
//! interleaved. Each step prefetches the lines of the next node and yields to the next cursor; when
//! the cursor runs again, the lines have arrived.
//!
//! ```text
//!   cursor  root --> child, asked for --> child ... --> border --> cells, asked for --> done
//! ```
//!
//! The checks are those of `descent.rs`: the child's version first, then the parent's. A cursor
//! that meets a concurrent change leaves the interleaving and searches alone.

use crate::descent::{Descent, Destination, Found, LeafPosition, Next, find_validated, search};
use crate::entry::Entry;
use crate::key::Rest;
use crate::node::{InteriorRef, Look, NodeRef, prefetch_word};
use crate::shape::Shape;
use keyrack_concurrent::Guard;

/// Interleaved searches. More than a processor's outstanding cache misses bring no gain.
const CURSORS: usize = 16;

struct Cursor<'t, 'k> {
    index: usize,
    key: &'k [u8],
    state: State<'t, 'k>,
}

/// Where a cursor continues.
#[derive(Clone, Copy)]
enum State<'t, 'k> {
    Root,
    Child { descent: Descent<'t, 'k>, parent: InteriorRef<'t>, child: NodeRef<'t>, before: u64 },
    Cells(LeafPosition<'t, 'k>),
    Done(Found<'t, 'k>),
    Alone,
}

/// Searches all `keys`, as [`search`] does, and calls `done` with each result, in any order.
/// `wanted` says whether the caller will read the memory that a found word points to.
pub(crate) fn search_many<'t, 'k>(
    shape: &'t Shape,
    keys: impl Iterator<Item = &'k [u8]>,
    guard: &Guard,
    wanted: impl Fn(&Entry) -> bool,
    mut done: impl FnMut(usize, Found<'t, 'k>),
) {
    let mut waiting =
        keys.enumerate().map(|(index, key)| Cursor { index, key, state: State::Root });
    let mut cursors: Vec<_> = waiting.by_ref().take(CURSORS).collect();
    while !cursors.is_empty() {
        let mut at = 0;
        while at < cursors.len() {
            let Some(found) = cursors[at].advance(shape, guard, &wanted) else {
                at += 1;
                continue;
            };
            done(cursors[at].index, found);
            match waiting.next() {
                Some(next) => cursors[at] = next,
                None => drop(cursors.swap_remove(at)),
            }
        }
    }
}

impl<'t, 'k> Cursor<'t, 'k> {
    /// One step of the search. Returns the result at the last step.
    #[inline]
    fn advance(
        &mut self,
        shape: &'t Shape,
        guard: &Guard,
        wanted: impl Fn(&Entry) -> bool,
    ) -> Option<Found<'t, 'k>> {
        let next = match self.state {
            State::Root => Descent::begin(shape, Rest::of(self.key))
                .and_then(|descent| read(shape, descent, guard, wanted)),
            State::Child { mut descent, parent, child, before } => descent
                .enter(parent, child, before)
                .and_then(|()| read(shape, descent, guard, wanted)),
            State::Cells(leaf) => find(&leaf, guard, wanted),
            State::Done(found) => return Some(found),
            State::Alone => return Some(search(shape, self.key, guard)),
        };
        self.state = next.unwrap_or(State::Alone);
        None
    }
}

/// Reads a node and prefetches what the next step needs. `None` at a concurrent change.
#[inline]
fn read<'t, 'k>(
    shape: &'t Shape,
    mut descent: Descent<'t, 'k>,
    guard: &Guard,
    wanted: impl Fn(&Entry) -> bool,
) -> Option<State<'t, 'k>> {
    let leaf = match descent.next(shape.space())? {
        Next::Child { parent, child, before } => {
            child.prefetch();
            return Some(State::Child { descent, parent, child, before });
        }
        Next::Destination(Destination::Leaf(leaf)) => leaf,
        Next::Destination(place) => return Some(State::Done(Found { place, entry: None })),
    };
    let Look::Cells(mut cells) = leaf.border.look(leaf.rest) else {
        return find(&leaf, guard, wanted);
    };
    while cells != 0 {
        prefetch_word(leaf.border.entry(cells.trailing_zeros() as usize).value);
        cells &= cells - 1;
    }
    Some(State::Cells(leaf))
}

/// Finds the key in its border node, and prefetches its value. `None` at a concurrent change.
#[inline]
fn find<'t, 'k>(
    leaf: &LeafPosition<'t, 'k>,
    guard: &Guard,
    wanted: impl Fn(&Entry) -> bool,
) -> Option<State<'t, 'k>> {
    let entry = find_validated(leaf, guard)?;
    if let Some(entry) = entry.filter(wanted) {
        prefetch_word(entry.value);
    }
    Some(State::Done(Found { place: Destination::Leaf(*leaf), entry }))
}

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

use crate::descent::{Descent, Destination, Found, Next, find_looked, search};
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
    stage: Stage,
    /// Changed in place: it is large.
    descent: Option<Descent<'t, 'k>>,
    /// The node that the descent comes to, as [`Next::Child`] has it.
    child: Option<(InteriorRef<'t>, NodeRef<'t>, u64)>,
    found: Option<Found<'t, 'k>>,
}

/// Where a cursor continues.
#[derive(Clone, Copy)]
enum Stage {
    Root,
    Child,
    Cells,
    Done,
    Alone,
}

/// Searches all `keys`, as [`search`] does, and calls `done` with each result, in any order.
/// `wanted` says whether the caller will read the memory that a found word points to.
pub(crate) fn search_many<'t, 'k>(
    shape: &'t Shape,
    keys: impl Iterator<Item = &'k [u8]>,
    guard: &Guard,
    wanted: impl Fn(&Entry) -> bool,
    mut done: impl FnMut(usize, &Found<'t, 'k>),
) {
    let mut waiting = keys.enumerate().map(|(index, key)| Cursor::new(index, key));
    let mut cursors: Vec<_> = waiting.by_ref().take(CURSORS).collect();
    while !cursors.is_empty() {
        let mut at = 0;
        while at < cursors.len() {
            if !cursors[at].advance(shape, guard, &wanted) {
                at += 1;
                continue;
            }
            let found = cursors[at].found.as_ref().expect("the search is done");
            done(cursors[at].index, found);
            match waiting.next() {
                Some(next) => cursors[at] = next,
                None => drop(cursors.swap_remove(at)),
            }
        }
    }
}

impl<'t, 'k> Cursor<'t, 'k> {
    fn new(index: usize, key: &'k [u8]) -> Self {
        Cursor { index, key, stage: Stage::Root, descent: None, child: None, found: None }
    }

    /// One step of the search. Returns whether it is done, and `found` is the result.
    #[inline]
    fn advance(
        &mut self,
        shape: &'t Shape,
        guard: &Guard,
        wanted: impl Fn(&Entry) -> bool,
    ) -> bool {
        let next = match self.stage {
            Stage::Root => {
                self.descent = Descent::begin(shape, Rest::of(self.key));
                self.read(shape, guard, wanted)
            }
            Stage::Child => self.enter().and_then(|()| self.read(shape, guard, wanted)),
            Stage::Cells => self.find(None, guard, wanted),
            Stage::Done => return true,
            Stage::Alone => {
                self.found = Some(search(shape, self.key, guard));
                return true;
            }
        };
        self.stage = next.unwrap_or(Stage::Alone);
        false
    }

    #[inline]
    fn enter(&mut self) -> Option<()> {
        let (parent, child, before) = self.child.expect("the child was read in the last step");
        self.descent.as_mut()?.enter(parent, child, before)
    }

    /// Reads a node and prefetches what the next step needs. `None` at a concurrent change.
    #[inline]
    fn read(
        &mut self,
        shape: &'t Shape,
        guard: &Guard,
        wanted: impl Fn(&Entry) -> bool,
    ) -> Option<Stage> {
        let place = match self.descent.as_mut()?.next(shape.space())? {
            Next::Child { parent, child, before } => {
                child.prefetch();
                self.child = Some((parent, child, before));
                return Some(Stage::Child);
            }
            Next::Destination(place) => place,
        };
        let found = self.found.insert(Found { place, entry: None });
        let Destination::Leaf(leaf) = &found.place else { return Some(Stage::Done) };
        let look = leaf.border.look(&leaf.rest);
        let Look::Cells(mut cells) = look else { return self.find(Some(look), guard, wanted) };
        while cells != 0 {
            let slot = cells.trailing_zeros() as usize;
            prefetch_word(leaf.border.entry_at(slot, leaf.rest.position).value);
            cells &= cells - 1;
        }
        Some(Stage::Cells)
    }

    /// Finds the key in its border node, and prefetches its value. `None` at a concurrent change.
    #[inline]
    fn find(
        &mut self,
        look: Option<Look>,
        guard: &Guard,
        wanted: impl Fn(&Entry) -> bool,
    ) -> Option<Stage> {
        let Some(Found { place: Destination::Leaf(leaf), entry }) = &mut self.found else {
            panic!("a search that looks at entries has come to a leaf position")
        };
        let look = look.unwrap_or_else(|| leaf.border.look(&leaf.rest));
        *entry = find_looked(leaf, look, guard)?;
        if let Some(entry) = entry.filter(wanted) {
            prefetch_word(entry.value);
        }
        Some(Stage::Done)
    }
}

//! Many searches, interleaved.
//!
//! A single search waits for memory at every node, because the next address is in a cache line that
//! has not arrived. Searches of different keys are independent, so up to [`CURSORS`] of them are
//! interleaved. Each step prefetches the lines of the next node and yields to the next cursor; when
//! the cursor runs again, the lines have arrived.
//!
//! ```text
//!   cursor  root --> child, asked for --> child ... --> border --> cell or value, asked for: done
//!                        ^                                |
//!                        +---- root of a layer, asked for-+
//! ```
//!
//! The checks are those of `descent.rs`: the child's version first, then the parent's. A cursor
//! that meets a concurrent change leaves the interleaving and searches alone.

use crate::descent::{Found, Layer, LayerLink, below, enter, find_validated, search};
use crate::key::SlotPosition;
use crate::node::{BorderRef, Entry, Find, InteriorRef, Kind, NodeRef, prefetch_word};
use crate::shape::Shape;
use keyrack_concurrent::{Guard, Version};

/// Interleaved searches. More than a processor's outstanding cache misses bring no gain.
const CURSORS: usize = 16;

struct Cursor<'t, 'k> {
    index: usize,
    key: &'k [u8],
    rest: &'k [u8],
    position: SlotPosition,
    layer: Option<Layer<'t>>,
    link: Option<LayerLink<'t>>,
    state: State<'t>,
}

/// Where a cursor continues.
#[derive(Clone, Copy)]
enum State<'t> {
    Root,
    Child { parent: InteriorRef<'t>, version: Version, child: NodeRef<'t> },
    Layer { link: LayerLink<'t>, entry: Entry },
    Done { border: BorderRef<'t>, version: Version, entry: Option<Entry> },
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
    let mut waiting = keys.enumerate().map(|(index, key)| Cursor {
        index,
        key,
        rest: key,
        position: SlotPosition::of(key),
        layer: None,
        link: None,
        state: State::Root,
    });
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
            State::Root => shape.top().and_then(|(layer, root, version)| {
                self.layer = Some(layer);
                self.enter(shape, root, version, guard, wanted)
            }),
            State::Child { parent, version, child } => below(parent, version, child)
                .and_then(|version| self.enter(shape, child, version, guard, wanted)),
            State::Layer { link, entry } => self.enter_layer(shape, link, entry, guard, wanted),
            State::Done { border, version, entry } => {
                let layer = self.layer.expect("the root was entered before a border was read");
                let link = self.link;
                let (rest, position) = (self.rest, self.position);
                return Some(Found { layer, link, rest, position, border, version, entry });
            }
            State::Alone => return Some(search(shape, self.key, guard, false)),
        };
        self.state = next.unwrap_or(State::Alone);
        None
    }

    /// Reads a node and prefetches what the next step needs. `None` at a concurrent change.
    #[inline]
    fn enter(
        &mut self,
        shape: &'t Shape,
        node: NodeRef<'t>,
        version: Version,
        guard: &Guard,
        wanted: impl Fn(&Entry) -> bool,
    ) -> Option<State<'t>> {
        let border = match node.kind() {
            Kind::Border(border) => border,
            Kind::Interior(parent) => {
                let child = parent.child_for(shape.space(), self.position.slice)?;
                child.prefetch();
                return Some(State::Child { parent, version, child });
            }
        };
        Some(match find_validated(border, version, self.position, guard)? {
            Find::Absent => State::Done { border, version, entry: None },
            Find::Entry(_, entry) => {
                if wanted(&entry) {
                    prefetch_word(entry.value);
                }
                State::Done { border, version, entry: Some(entry) }
            }
            Find::Layer(slot, entry) => {
                // SAFETY: the version is validated.
                unsafe { shape.space().linked(entry) }.prefetch();
                State::Layer { link: LayerLink { border, version, slot }, entry }
            }
        })
    }

    /// Continues from an entry to the root of its layer. `None` at a concurrent change.
    fn enter_layer(
        &mut self,
        shape: &'t Shape,
        link: LayerLink<'t>,
        entry: Entry,
        guard: &Guard,
        wanted: impl Fn(&Entry) -> bool,
    ) -> Option<State<'t>> {
        let (layer, root, version) = enter(shape.space(), link.border, link.version, entry)?;
        (self.layer, self.link) = (Some(layer), Some(link));
        self.rest = &self.rest[entry.layer_bytes()..];
        self.position = SlotPosition::of(self.rest);
        self.enter(shape, root, version, guard, wanted)
    }
}

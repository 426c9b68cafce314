//! Many searches side by side.
//!
//! A search alone waits for memory at every node: the next address is in the line that has not come
//! yet. Searches of different keys do not depend on each other, so up to [`CURSORS`] of them take
//! turns: each step asks for the lines of the next node and leaves the turn; when it comes round,
//! they are there.
//!
//! ```text
//!   cursor  root --> child, asked for --> child ... --> border --> cell or value, asked for: done
//!                        ^                                |
//!                        +---- root of a layer, asked for-+
//! ```
//!
//! The checks are those of `descent.rs`: the child's version first, then the parent's. A cursor
//! that meets a change under way gives up its turns and searches on alone.

use crate::descent::{Found, Layer, Via, below, enter, look, search};
use crate::key::Place;
use crate::node::{BorderRef, Entry, Find, InteriorRef, Kind, NodeRef, prefetch_word};
use crate::shape::Shape;
use keyrack_concurrent::{Guard, Version};

/// Searches under way at a time. More than a processor has misses under way brings nothing.
const CURSORS: usize = 16;

struct Cursor<'t, 'k> {
    index: usize,
    key: &'k [u8],
    rest: &'k [u8],
    place: Place,
    layer: Option<Layer<'t>>,
    via: Option<Via<'t>>,
    step: Step<'t>,
}

/// What the next turn begins with.
#[derive(Clone, Copy)]
enum Step<'t> {
    Root,
    Child { parent: InteriorRef<'t>, version: Version, child: NodeRef<'t> },
    Layer { via: Via<'t>, entry: Entry },
    Done { border: BorderRef<'t>, version: Version, entry: Option<Entry> },
    Alone,
}

/// Searches all `keys`, as [`search`] does, and gives what was found to `done`, in any order.
/// `wanted` says whether memory that the word of a found value points to will be read.
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
        place: Place::of(key),
        layer: None,
        via: None,
        step: Step::Root,
    });
    let mut cursors: Vec<_> = waiting.by_ref().take(CURSORS).collect();
    while !cursors.is_empty() {
        let mut at = 0;
        while at < cursors.len() {
            let Some(found) = cursors[at].turn(shape, guard, &wanted) else {
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
    /// One turn. What was found, once it is known.
    #[inline]
    fn turn(
        &mut self,
        shape: &'t Shape,
        guard: &Guard,
        wanted: impl Fn(&Entry) -> bool,
    ) -> Option<Found<'t, 'k>> {
        let next = match self.step {
            Step::Root => shape.top().and_then(|(layer, root, version)| {
                self.layer = Some(layer);
                self.enter(shape, root, version, guard, wanted)
            }),
            Step::Child { parent, version, child } => below(parent, version, child)
                .and_then(|version| self.enter(shape, child, version, guard, wanted)),
            Step::Layer { via, entry } => self.enter_layer(shape, via, entry, guard, wanted),
            Step::Done { border, version, entry } => {
                let layer = self.layer.expect("the root was entered before a border was read");
                let via = self.via;
                let (rest, place) = (self.rest, self.place);
                return Some(Found { layer, via, rest, place, border, version, entry });
            }
            Step::Alone => return Some(search(shape, self.key, guard, false)),
        };
        self.step = next.unwrap_or(Step::Alone);
        None
    }

    /// Reads a node and asks for the next thing that is needed. `None` if a change is under way.
    #[inline]
    fn enter(
        &mut self,
        shape: &'t Shape,
        node: NodeRef<'t>,
        version: Version,
        guard: &Guard,
        wanted: impl Fn(&Entry) -> bool,
    ) -> Option<Step<'t>> {
        let border = match node.kind() {
            Kind::Border(border) => border,
            Kind::Interior(parent) => {
                let child = parent.child_for(shape.space(), self.place.slice)?;
                child.prefetch();
                return Some(Step::Child { parent, version, child });
            }
        };
        Some(match look(border, version, self.place, guard)? {
            Find::Absent => Step::Done { border, version, entry: None },
            Find::Entry(_, entry) => {
                if wanted(&entry) {
                    prefetch_word(entry.value);
                }
                Step::Done { border, version, entry: Some(entry) }
            }
            Find::Layer(slot, entry) => {
                // SAFETY: the version is validated.
                unsafe { shape.space().link(entry) }.prefetch();
                Step::Layer { via: Via { border, version, slot }, entry }
            }
        })
    }

    /// Goes on from an entry to the root of its layer. `None` if a change is under way.
    fn enter_layer(
        &mut self,
        shape: &'t Shape,
        via: Via<'t>,
        entry: Entry,
        guard: &Guard,
        wanted: impl Fn(&Entry) -> bool,
    ) -> Option<Step<'t>> {
        let (layer, root, version) = enter(shape.space(), via.border, via.version, entry)?;
        (self.layer, self.via) = (Some(layer), Some(via));
        self.rest = &self.rest[entry.layer_bytes()..];
        self.place = Place::of(self.rest);
        self.enter(shape, root, version, guard, wanted)
    }
}

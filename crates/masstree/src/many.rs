//! Many lookups side by side.
//!
//! A lookup alone waits for memory at every node: the next address is in the line that has not come
//! yet. Lookups of different keys do not depend on each other, so up to [`CURSORS`] of them take
//! turns: each step asks for the lines of the next node and leaves the turn; when it comes round,
//! they are there.
//!
//! ```text
//!   cursor  climb --> child, asked for --> child ... --> border --> value, asked for --> given
//!                        ^                                 |
//!                        +--- root of a layer, asked for --+
//! ```
//!
//! The checks are those of `descent.rs`: the child's version first, then the parent's. A cursor
//! that meets a change under way gives up its turns and searches on alone.

use crate::descent::{climb, link, search};
use crate::key::{SLICE_BYTES, order_of, slice_of};
use crate::node::{InteriorRef, Kind, NodeRef, prefetch_word};
use keyrack_concurrent::Version;

/// Lookups under way at a time. More than a processor has misses under way brings nothing.
const CURSORS: usize = 16;

struct Cursor<'g, 'k> {
    index: usize,
    layer: NodeRef<'g>,
    rest: &'k [u8],
    step: Step<'g>,
}

/// What the next turn begins with.
enum Step<'g> {
    Child { parent: InteriorRef<'g>, version: Version, child: NodeRef<'g> },
    Layer,
    Value(u64),
    Absent,
    Alone,
}

/// Gives the value of each key, or `None`, to `found`, in any order. `owns` says whether a value
/// points to memory.
pub(crate) fn search_many<'g>(
    root: NodeRef<'g>,
    keys: &[&[u8]],
    owns: fn(u64) -> bool,
    found: &mut dyn FnMut(usize, Option<u64>),
) {
    let mut waiting = keys.iter().enumerate().map(|(index, key)| Cursor {
        index,
        layer: root,
        rest: key,
        step: Step::Layer,
    });
    let mut cursors: Vec<_> = waiting.by_ref().take(CURSORS).collect();
    while !cursors.is_empty() {
        let mut at = 0;
        while at < cursors.len() {
            let Some(result) = cursors[at].turn(owns) else {
                at += 1;
                continue;
            };
            found(cursors[at].index, result);
            match waiting.next() {
                Some(next) => cursors[at] = next,
                None => drop(cursors.swap_remove(at)),
            }
        }
    }
}

impl<'g> Cursor<'g, '_> {
    /// One turn. The result, once it is known.
    fn turn(&mut self, owns: fn(u64) -> bool) -> Option<Option<u64>> {
        self.step = match self.step {
            Step::Layer => {
                let (node, version) = climb(self.layer);
                self.enter(node, version, owns)
            }
            Step::Child { parent, version, child } => {
                let child_version = child.version().stable();
                if parent.version().validate(version) {
                    self.enter(child, child_version, owns)
                } else {
                    Step::Alone
                }
            }
            Step::Value(raw) => return Some(Some(raw)),
            Step::Absent => return Some(None),
            Step::Alone => {
                let found = search(self.layer, self.rest, false);
                let entry = found.entry.filter(|entry| entry.matches(found.rest));
                return Some(entry.map(|entry| entry.value));
            }
        };
        None
    }

    /// Reads a node and asks for the next thing that is needed.
    fn enter(&mut self, node: NodeRef<'g>, version: Version, owns: fn(u64) -> bool) -> Step<'g> {
        let slice = slice_of(self.rest);
        let border = match node.kind() {
            Kind::Border(border) => border,
            Kind::Interior(parent) => {
                return match parent.child_for(slice) {
                    Some(child) => {
                        child.prefetch();
                        Step::Child { parent, version, child }
                    }
                    None => Step::Alone,
                };
            }
        };
        let permutation = border.permutation();
        let position = border.position(permutation, slice, order_of(self.rest));
        let entry = position.ok().map(|position| border.entry(permutation.slot(position)));
        if !border.version().validate(version) {
            return Step::Alone;
        }
        match entry {
            Some(entry) if entry.is_layer() => {
                self.layer = link(entry);
                self.layer.prefetch();
                self.rest = &self.rest[SLICE_BYTES..];
                Step::Layer
            }
            Some(entry) if entry.matches(self.rest) => {
                if owns(entry.value) {
                    prefetch_word(entry.value);
                }
                Step::Value(entry.value)
            }
            _ => Step::Absent,
        }
    }
}

//! What lies where in a tree at rest, for accounts of the cache lines that operations touch.
//!
//! ```text
//!   border    line 0 "border: version"    lines 1-6 "border: entries"
//!   interior  line 0 "interior: version"  lines 1-4 "interior: children"
//!   root      the same two of any kind, called "root"
//!   prefix    of a layer
//! ```

use crate::node::{BORDER_LINES, INTERIOR_LINES, Kind};
use crate::prefix::Prefix;
use crate::shape::Shape;
use keyrack_concurrent::{Part, UNIT_BYTES};

/// The first line of a node, and the others.
type Names = [&'static str; 2];

const BORDER: Names = ["border: version", "border: entries"];
const INTERIOR: Names = ["interior: version", "interior: children"];
const ROOT: Names = ["root: version", "root: children"];

/// Every line of every node, and everything else that the tree has. O(n).
pub(crate) fn parts(shape: &Shape) -> Vec<Part> {
    let space = shape.space();
    let mut parts = shape.parts();
    let mut pending: Vec<_> = shape.top().map(|(root, _)| root).into_iter().collect();
    while let Some(node) = pending.pop() {
        let (mut names, lines) = match node.kind() {
            Kind::Interior(interior) => {
                let child = |at| interior.child(space, at).expect("a tree at rest is whole");
                pending.extend((0..=interior.count()).map(child));
                (INTERIOR, INTERIOR_LINES)
            }
            Kind::Border(_) => (BORDER, BORDER_LINES),
        };
        parts.extend(node.prefix(space).map(Prefix::part));
        if node.version().load().is_root() {
            names = ROOT;
        }
        let first = Part { bytes: UNIT_BYTES, ..Part::of(names[0], &*node) };
        let rest = (1..lines).map(|line| Part {
            name: names[1],
            address: first.address + line * UNIT_BYTES,
            ..first
        });
        parts.push(first);
        parts.extend(rest);
    }
    parts
}

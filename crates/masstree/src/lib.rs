//! # keyrack-masstree: an ordered index in memory for many threads
//!
//! A B+-tree over whole keys, grown out of "Cache Craftiness for Fast Multicore Key-Value Storage"
//! (EuroSys 2012). A key is cut into slices of eight bytes. A *layer* is a part of the tree whose
//! nodes compare one slice, as a number, at the same offset of the key; its border nodes order keys
//! by two slices and their length, so keys of up to 16 bytes need no layer but the first, however
//! many begin alike.
//!
//! ```text
//!   layer at byte 0         [ "a"            "https://"             "https:/0" ]   24 separators
//!                          /               |                        \
//!     [ border: "10", "1000" ]             |             [ border: "news", "nntp://x" ]
//!                                          |
//!   layer at byte 8               [ "www.exam"     "www.keyr" ]
//!                                /                 |           \
//!           [ border: "a.org/", .. ]               |    [ border: "wiki.org", .. ]
//!                                                  |
//!   layer at byte 24, with the prefix "ack.org/"   [ border: "docs" = value, "download" = value ]
//! ```
//!
//! A border node whose keys all continue after one slice begins a layer when it is full, where the
//! keys differ (`layer.rs`). The root of a layer is a child of the node above like any other, so a
//! search passes through interior nodes until it comes to the one border node that has the key.
//! Each node has an optimistic version lock (a seqlock). Readers take no lock and write no shared
//! memory: they read a node under its version and validate (`descent.rs`). Writers lock the border
//! node; splits and node reclamation also lock its ancestors, from left to right, then upward
//! (`split.rs`, `reclaim.rs`). Nodes come from an arena and are reused at once; the version tells
//! one incarnation from the next (`node.rs`). Values and the ends of long keys are freed after the
//! last reader that could see them has unpinned.
//!
//! | from the paper | here |
//! |---|---|
//! | 32-bit version | 64 bits, so that it cannot wrap |
//! | a layer for each slice that two keys share | for a full node of one slice, after all that its keys share |
//! | a layer is linked from an entry of a border node | from an interior node: one node less on the way |
//! | suffixes in a bag in or beside the node | the second slice in the node, the rest in an immutable cell, told apart by fingerprints |
//! | 15-way interior nodes with pointers | 24 separators and 32-bit handles, in as many lines |
//! | binary search | all slices at once, with vector instructions where the processor has them |
//! | linked list of border nodes | none: a scan keeps its path (`path.rs`) |
//! | split marks bottom-up, readers move right | all nodes of a split are locked, then marked: one step to readers |
//! | values by pointer | numbers and short values in the word |
//! | nodes freed by epochs | nodes reused at once: their memory only ever holds nodes |
//! | one key at a time | `multi_get` and `multi_put` interleave their searches |
//!
//! That a node compares what follows a prefix of its own is from prefix B-trees (R. Bayer and K.
//! Unterauer, 1977); that a path of single children is one step, from "The Adaptive Radix Tree"
//! (ICDE 2013).
//!
//! Known mistakes of other implementations, and how this one avoids them:
//!
//! - a slot reused under an older permutation: `stale` in `node.rs`;
//! - an insert between the removal of a neighbour and the change of a separator: both happen under
//!   locks (`reclaim.rs`);
//! - locks of two layers in both orders: all locks are taken upward;
//! - a permutation published without the lock: never;
//! - a data race on plain memory: all fields are atomics;
//! - a scan that does not end in an empty layer: it moves on at every node (`path.rs`);
//! - emptied nodes and layers that stay: an emptied tree is one node.
//!
//! ```
//! use keyrack_masstree::{Bytes, Tree, pin};
//!
//! let tree = Tree::<Bytes>::new();
//! let guard = pin();
//! assert!(tree.insert(b"key", b"value", &guard).is_none());
//! assert_eq!(&*tree.get(b"key", &guard).unwrap(), b"value");
//! ```

mod blob;
mod block;
#[cfg(doctest)]
mod borrows;
mod cell;
mod change;
mod check;
mod cursor;
mod descent;
mod entry;
mod hint;
mod key;
mod layer;
mod many;
mod node;
mod ordered;
mod parts;
mod path;
mod permutation;
mod prefix;
#[cfg(test)]
mod races;
mod range;
mod reclaim;
mod scan;
mod shape;
mod simd;
mod slot;
mod split;
mod tree;

pub use cursor::Cursor;
pub use hint::Hint;
pub use range::{KeyRange, Range};
pub use shape::Stats;
pub use slot::{Boxed, Bytes, BytesRef, Comparable, Slot};
pub use tree::Tree;

// What operations take and return, so that a program needs no other crate for them.
pub use keyrack_concurrent::{Change, Guard, Part, pin};

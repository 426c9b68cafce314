//! # keyrack-masstree: an ordered index in memory for many threads
//!
//! A trie of B+-trees, after "Cache Craftiness for Fast Multicore Key-Value Storage" (EuroSys
//! 2012). The key is cut into slices of eight bytes. A layer is a B+-tree over one slice as a
//! number; its border nodes order keys by two slices and their length, so keys of up to 16 bytes
//! need no layer but the first, however many begin alike.
//!
//! ```text
//!   layer 0             [ interior: 24 separators ]
//!                      /                           \
//!     [ border "10", "10000000", "1000000001" ]   [ border "user-000" + "00000042" -> layer ]
//!                                                                       |
//!   layer 1                                    [ border "/profile" = value, "/settings" = value ]
//! ```
//!
//! The tree makes a layer when two keys share 16 bytes and continue, or when keys that share 8
//! bytes fill a node. Each node has an optimistic version lock (a seqlock). Readers take no lock
//! and write no shared memory: they read a node under its version and validate (`descent.rs`).
//! Writers lock the border node; splits and node reclamation also lock its ancestors. The lock
//! order is left to right, then upward, and between layers downward (`split.rs`, `reclaim.rs`).
//! Nodes come from an arena and are reused at once; the version tells one incarnation from the
//! next (`node.rs`). Values and the ends of long keys are freed after the last reader that could
//! see them has unpinned.
//!
//! | from the paper | here |
//! |---|---|
//! | 32-bit version | 64 bits, so that it cannot wrap |
//! | a layer for two keys of one slice | for two keys of two slices, or a node full of one slice |
//! | suffixes in a bag in or beside the node | the second slice in the node, the rest in an immutable cell |
//! | 15-way interior nodes with pointers | 24 separators and 32-bit handles, in as many lines |
//! | binary search | all slices at once, with vector instructions where the processor has them |
//! | linked list of border nodes | none: each stores its range, and scans descend again |
//! | split marks bottom-up, readers move right | all nodes of a split are locked, then marked: one step to readers |
//! | values by pointer | numbers and short values in the word |
//! | nodes freed by epochs | nodes reused at once: their memory only ever holds nodes |
//! | one key at a time | `multi_get` and `multi_put` interleave their searches |
//!
//! Known mistakes of other implementations, and how this one avoids them:
//!
//! - a slot reused under an older permutation: `stale` in `node.rs`;
//! - an insert between the removal of a neighbour and the change of a separator: both happen under
//!   locks (`reclaim.rs`);
//! - locks of two layers in both orders: the upper comes first, and a link moves under `try_lock`;
//! - a permutation published without the lock: never;
//! - a data race on plain memory: all fields are atomics;
//! - a scan that does not end in an empty layer: its bound advances at every node (`scan.rs`);
//! - emptied nodes and layers that stay: an emptied tree is one node.
//!
//! ```
//! use keyrack_concurrent::pin;
//! use keyrack_masstree::{Bytes, Tree};
//!
//! let tree = Tree::<Bytes>::new();
//! let guard = pin();
//! assert!(tree.insert(b"key", b"value", &guard).is_none());
//! assert_eq!(&*tree.get(b"key", &guard).unwrap(), b"value");
//! ```

mod blob;
mod block;
mod cell;
mod change;
mod check;
mod descent;
mod engine;
mod hint;
mod key;
mod many;
mod node;
mod parts;
mod permutation;
#[cfg(test)]
mod races;
mod reclaim;
mod scan;
mod shape;
mod simd;
mod slot;
mod split;
mod tree;

pub use engine::engine;
pub use hint::Hint;
pub use shape::Stats;
pub use slot::{Boxed, Bytes, BytesRef, Comparable, Slot};
pub use tree::Tree;

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
//! A layer below is made when two keys share 16 bytes and go on, or when keys that share 8 bytes
//! fill a node. Readers take no lock and write nothing shared: they read a node under its version
//! and validate (`descent.rs`). Writers lock the border node, and for splits and removals of nodes
//! its ancestors, always from left to right and upward, between layers downward (`split.rs`,
//! `unlink.rs`). Nodes live in an arena and are used again at once, which versions tell
//! (`node.rs`); values and the ends of long keys are freed when nobody can look at them any more.
//!
//! | from the paper | here |
//! |---|---|
//! | 32-bit version | 64 bits, so that it cannot come round |
//! | a layer for two keys of one slice | for two keys of two slices, or a node full of one slice |
//! | suffixes in a bag in or beside the node | the second slice in the node, the rest in an immutable cell |
//! | 15-way interior nodes with pointers | 24 separators and 32-bit handles, in as many lines |
//! | search by bisection | all slices at once, by vectors where the processor has them |
//! | linked list of border nodes | none: each knows its range, and scans descend again |
//! | split marks bottom-up, readers move right | all nodes of a split are locked, then marked: one step to readers |
//! | values by pointer | numbers and short values in the word |
//! | nodes freed by epochs | nodes used again at once: their memory never becomes anything else |
//! | one key at a time | `multi_get` and `multi_put` search side by side |
//!
//! What others got wrong, and why it does not happen here: a slot used again under an older
//! permutation (`stale` in `node.rs`); an insert between the removal of a neighbour and the change
//! of a separator (both under locks, `unlink.rs`); locks of two layers in both orders (always the
//! upper first; a link is moved up under `try_lock`); a permutation published without the lock
//! (never); reads of plain memory that is written (all fields are atomics); a scan that does not
//! end in an empty layer (the bound moves on at every step, `scan.rs`); emptied nodes and layers
//! that stay (an emptied tree is one node).
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
mod key;
mod many;
mod near;
mod node;
mod permutation;
#[cfg(test)]
mod races;
mod scan;
mod shape;
mod simd;
mod slot;
mod split;
mod tree;
mod unlink;

pub use change::Change;
pub use engine::engine;
pub use near::Near;
pub use slot::{Boxed, Bytes, BytesRef, Comparable, Slot};
pub use tree::{Stats, Tree};

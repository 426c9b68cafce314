//! # keyrack-masstree: an ordered index in memory for many threads
//!
//! A trie of B+-trees, after "Cache Craftiness for Fast Multicore Key-Value Storage" (EuroSys
//! 2012). The key is cut into slices of eight bytes; a layer is a B+-tree over one slice as a
//! number. Keys that share a slice and go on behind it share a layer below; a layer is made when
//! the second such key comes.
//!
//! ```text
//!   layer 0                 [ interior ]               key "keyrack/alpha", "keyrack/beta", "zoo"
//!                          /            \
//!               [ border "keyrack/" -> layer 1 ]  [ border "zoo" = value ]
//!                                 |
//!   layer 1          [ border "alpha" = value, "beta" = value ]
//! ```
//!
//! Readers take no lock and write nothing shared: they read a node under its version and validate
//! (`descent.rs`). Writers lock the border node, and for splits and removals of nodes its
//! ancestors, always from left to right and upward (`split.rs`, `unlink.rs`). Memory is freed by
//! epochs.
//!
//! | from the paper | here |
//! |---|---|
//! | 32-bit version | 64 bits, so that it cannot come round |
//! | linked list of border nodes | none: each knows its range, and scans descend again |
//! | split marks bottom-up, readers move right | all nodes of a split are locked, then marked: one step to readers |
//! | suffixes in a bag in or beside the node | up to 16 bytes in the entry, else an immutable blob |
//! | values by pointer | values of a word in the word |
//! | emptied layers removed | they keep one node; `stats` counts them |
//!
//! What others got wrong, and why it does not happen here: a slot used again under an older
//! permutation (`stale` in `node.rs`); an insert between the removal of a neighbour and the change
//! of a separator (both under locks, `unlink.rs`); locks downward (never; a link is moved up under
//! `try_lock`); a permutation published without the lock (never); reads of plain memory that is
//! written (all fields are atomics); a scan that does not end in an empty layer (the bound moves on
//! at every step, `scan.rs`).
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
mod check;
mod descent;
mod engine;
mod key;
mod many;
mod node;
mod permutation;
#[cfg(test)]
mod races;
mod scan;
mod slot;
mod split;
mod tree;
mod unlink;

pub use engine::engine;
pub use slot::{Bytes, BytesRef, Slot};
pub use tree::{Change, Stats, Tree};

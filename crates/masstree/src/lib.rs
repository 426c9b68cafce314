//! # keyrack-masstree: an ordered index in memory for many threads
//!
//! A [`Tree`] maps byte strings to values, in the order of the keys. All threads use it by shared
//! reference. Readers take no lock and write no memory that another thread uses, so reads scale
//! with the processors. A writer locks the nodes that it changes, for a few steps.
//!
//! ```
//! use keyrack_masstree::{Bytes, Tree, pin};
//!
//! let tree = Tree::<Bytes>::new();
//! std::thread::scope(|scope| {
//!     for city in ["lima", "oslo", "rome"] {
//!         let tree = &tree;
//!         scope.spawn(move || {
//!             let key = format!("city/{city}");
//!             tree.insert(key.as_bytes(), b"a capital", &pin());
//!         });
//!     }
//! });
//!
//! let guard = pin();
//! let value = tree.get(b"city/oslo", &guard).expect("it was inserted");
//! assert_eq!(&*value, b"a capital");
//!
//! let keys: Vec<Vec<u8>> = tree.range("city/m".."city/z", &guard).map(|(key, _)| key).collect();
//! assert_eq!(keys, [b"city/oslo", b"city/rome"]);
//!
//! // What was removed can be read for as long as the guard lives.
//! let old = tree.remove(b"city/oslo", &guard).expect("it was inserted");
//! assert_eq!(&*old, b"a capital");
//! assert!(tree.get(b"city/oslo", &guard).is_none());
//! ```
//!
//! ## When to choose it
//!
//! Choose it for a large ordered map that many threads read and write: an index of a database, a
//! cache with ranges, a table of names. It suits keys that begin alike, such as paths, addresses of
//! pages and composed keys, because nodes compare what comes after the common bytes.
//!
//! Choose something else if
//!
//! - one thread has the map: `BTreeMap` has keys of any type and needs no guards;
//! - no order is needed: a concurrent hash map is faster;
//! - a scan has to be one point in time, or several keys change as one: that takes a store with
//!   snapshots or transactions;
//! - the data has to survive the process: it is in memory only;
//! - there are thousands of small maps: each takes some 50 KB ([limits](#limits)).
//!
//! ## Guards
//!
//! Operations take a [`Guard`] from [`pin`]. While a guard lives, nothing is freed that its thread
//! has read from a tree, so values are lent and not copied. Pin for an operation or for a batch of
//! them: a guard that lives long delays the freeing of values that were there when it was made.
//!
//! A pin takes about a nanosecond. The compiler refuses a value that outlives its guard or its
//! tree, and a guard that leaves its thread.
//!
//! ## Values
//!
//! | tree | value given | value lent | memory beside the node |
//! |---|---|---|---|
//! | `Tree<u64>` | `u64` | `u64` | none |
//! | [`Tree<Bytes>`](Bytes) | `&[u8]` | [`BytesRef`], which is a `[u8]` | none up to 7 bytes and for 8 to 17 decimal digits; else 8 bytes and the string |
//! | [`Tree<Boxed<T>>`](Boxed) | `T` | `&T` | 8 bytes and `T` |
//!
//! Keys are ordered by unsigned bytes, a prefix before what it begins. Numbers keep their order as
//! `n.to_be_bytes()`.
//!
//! ## Reading in order
//!
//! | call | keys | use |
//! |---|---|---|
//! | [`Tree::range`], [`Tree::prefix`], [`Tree::iter`] | copied | iterators from both ends |
//! | [`Tree::cursor`] | lent until the next move | seek, then move in either direction |
//! | [`Tree::scan`], [`Tree::scan_rev`], [`Tree::scan_prefix`] | lent for a visit | pin by themselves for each node, so that a long scan delays no freeing |
//!
//! ## Costs
//!
//! Operations on one key are O(layers * log n), and the first key of a scan is O(layers^2 * log n),
//! because it checks the nodes above again in each layer. A layer begins only where the keys of a
//! full node go on after eight common bytes. A further key in order is O(1) on average.
//! [`Tree::multi_get`] and [`Tree::multi_put`] overlap the cache misses of many keys, and a
//! [`Hint`] saves the search for keys near the last one.
//!
//! With a million keys and `u64` values, nodes take 31 bytes for each key that is inserted in
//! ascending order, and 40 in random order. A key of more than 16 bytes takes 16 bytes more, and
//! its bytes beyond the first 16 of its layer. Nodes that become empty or nearly so are used again.
//!
//! ## Guarantees
//!
//! - Each operation on one key happens at one moment between its call and its return.
//! - A scan, an iterator and a cursor that moves in one direction see each key at most once and in
//!   order, and every key that is there all the time. They are not one point in time: a key that is
//!   inserted or removed meanwhile may be seen or not.
//! - A reader waits for a writer only during the few steps of one node. A thread that stops between
//!   two operations delays nobody.
//! - A value is dropped once: after it was replaced or removed and no guard protects it, by any
//!   thread, or with the tree. Its destructor may run in an operation on another tree, and must not
//!   panic. Where a closure of an update removes from another tree, destructors must not use the
//!   tree of the closure.
//! - A closure of a caller that panics leaves the tree in order.
//!
//! ## Limits
//!
//! - Keys and values may have any length, also none. The cost of a key grows with its length.
//! - The nodes of all trees of a process have 256 GiB together, or less where the system grants
//!   less address space. A process that has used them ends, as it does without memory.
//! - A tree takes 46 KB itself, the pages of its nodes, and at least 2 MiB of addresses. So a
//!   process can have some 100,000 of them.
//! - It runs on Unix with 64-bit addresses.
//!
//! ## How it works
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
//! | a full node is split | it shares with a neighbour first, if that has room (`balance.rs`) |
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
//! - emptied nodes and layers that stay: an emptied tree is one node, and nearly empty nodes merge
//!   (`merge.rs`).

mod balance;
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
mod merge;
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

//! # keyrack-store: the contract of an ordered key-value store
//!
//! A [`Store`] is shared by all threads; each thread asks it for a [`Session`] and works through
//! that. Keys and values are byte strings. Keys are ordered by unsigned bytes, a proper prefix
//! first. Everything that drives a store (benchmark, server, loader) and everything that is one
//! (our engines, other people's) meets here and nowhere else.
//!
//! ```text
//!   Engine --open(OpenOptions)--> Store --session()--> Session   one a thread
//!                                   |                   get multi_get scan scan_rev
//!                                   |                   put remove update apply(Batch)
//!                                   +-- durability() version() stats() snapshot() data_dir()
//! ```
//!
//! The traits are object-safe on purpose: a virtual call costs 2 ns beside operations of 100 ns
//! and more, and no generic parameter spreads through the programs.
//!
//! **Consistency.** `get`, `put`, `remove` and `update` are linearizable for one key. A [`Batch`]
//! is applied atomically: no reader sees half of it where the engine says so in its documentation,
//! and after a crash all or nothing of it is there. A scan returns each key at most once, in
//! order, and every key that was present during the whole scan; it is one point in time only on a
//! [`Snapshot`].
//!
//! **Errors** come in five kinds that are never mixed, see [`Error`]. Nothing panics on input.
#![forbid(unsafe_code)]

mod batch;
mod contract;
mod engine;
mod error;
mod model;
mod names;
mod option;

pub use batch::{Batch, BatchOp};
pub use contract::{DropFilter, Durability, Removed, Session, Snapshot, Store, Update};
pub use engine::{ANY_KEY, Backend, Engine, EngineOption, OpenOptions, Registry};
pub use error::{Error, Result};
pub use model::ModelStore;
pub use names::{nearest, unknown};
pub use option::{parse_bool, parse_size};

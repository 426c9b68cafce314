//! # keyrack-store: the contract of an ordered key-value store
//!
//! All threads share a [`Store`]; each thread opens a [`Session`] and works through it. Keys and
//! values are byte strings. Keys are ordered by unsigned bytes, a proper prefix first. Drivers of
//! stores (benchmark, server, loader) and engines (our own and other people's) meet only here.
//!
//! ```text
//!   Engine --open(OpenOptions)--> Store --session()--> Session   one for each thread
//!                                   |                   get multi_get scan scan_rev
//!                                   |                   put put_with remove update apply(Batch)
//!                                   +-- info() stats() snapshot() data_dir()
//! ```
//!
//! The traits are object-safe on purpose: a virtual call costs 2 ns beside operations of 100 ns
//! and more, and no generic parameter spreads through the programs.
//!
//! **Consistency.** `get`, `put`, `remove` and `update` are linearizable for one key. A [`Batch`]
//! is atomic: after a crash all or nothing of it is there. Whether readers can see a part of it,
//! the engine documents. A scan returns each key at most once, in order, and every key that was
//! present during the whole scan. It is one point in time only on a [`Snapshot`].
//!
//! **Errors** come in six kinds that are never mixed, see [`Error`]. Nothing panics on input.
#![forbid(unsafe_code)]

mod batch;
mod contract;
mod durability;
mod engine;
mod error;
mod file_set;
mod info;
mod log_feed;
mod model;
mod names;
mod option;
mod replace;

pub use batch::{Batch, BatchOp};
pub use contract::{DropFilter, Removed, Session, Snapshot, Store, Update, WriteOptions};
pub use durability::Durability;
pub use engine::{
    ANY_KEY, AbsentEngine, Backend, Engine, EngineOption, KEY_BYTES, OpenOptions, Registry,
};
pub use error::{Error, Result};
pub use file_set::{
    ContentCheck, FileContent, FileSet, HeldFile, IDENTITY_BYTES_MAX, NewCheck, Unsound,
};
pub use info::StoreInfo;
pub use log_feed::{FeedError, LogEntry, LogFeed, LogPosition, LogReplay, LogSource};
pub use model::ModelStore;
pub use names::{nearest, unknown};
pub use option::{parse_bool, parse_size};

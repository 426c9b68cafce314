//! # keyrack-rowstore: durable rows of columns
//!
//! A row is the value of a key: one value, numbered columns, or named fields, with a version, flags
//! and an expiry. [`Rows`] and [`RowSession`] are the contract; a server needs only these two
//! traits.
//!
//! ```text
//!   session ---> tree (rows in memory) <--- sweeper, eviction
//!      | flush: a batch is one record          |
//!      v                                       v  a fuzzy scan of ranges
//!   logs  <------- read from the starts ---- checkpoint, manifest
//!      '-------------> recovery <---------------'
//! ```
//!
//! [`RowStore`] follows Masstree's durable store, without its known faults. Every record contains
//! whole rows with versions, so a replay does not depend on order, threads and numbers of logs.
//! Removing all rows takes constant time: rows up to a version are dead, and the sweeper removes
//! them later. [`StoreRows`] stores rows in any other store, [`ModelRows`] in a `BTreeMap`, for
//! tests. [`engine`] is the row store as a store of values.
//!
//! | from the paper and its program | here |
//! |---|---|
//! | a log for each core, records in the order of its buffer | a batch is one record, whose LSN is reserved by one addition |
//! | epochs cut all logs at one moment | each log has its own start and its own syncs |
//! | changes of columns, replayed in order | whole rows, replayed in any order |
//! | a checkpoint in memory first, ranges by eight bytes of the key | blocks of 256 KiB, ranges by a sample of keys |
//! | logs grow until the next start | a valid checkpoint releases the segments below its starts |
//! | removals end the recovery | removals have versions, which later rows go on from |
//!
//! ```
//! use keyrack_rowstore::{Options, RowSession, RowStore, Rows};
//! use keyrack_store::Update;
//! use keyrack_vfs::MemFs;
//! use std::path::Path;
//! use std::sync::Arc;
//!
//! let disk = MemFs::new(); // or RealFs
//! let open = || {
//!     let fs = Arc::new(disk.clone());
//!     RowStore::open(fs, Path::new("/rows"), Options::default(), &|_| {})
//! };
//! let store = open()?;
//! let mut session = store.session()?;
//! session.put(b"key", b"value", 0, 0)?;
//! session.update(b"key", &mut |row, new| {
//!     new.columns();
//!     new.push(row.map_or(&b""[..], |row| row.value()));
//!     new.push(b"second");
//!     Update::Put
//! })?;
//! session.flush()?; // from here on it survives the process
//! drop(session);
//! Box::new(store).close()?;
//!
//! let store = open()?;
//! let mut second: Vec<u8> = Vec::new();
//! store.session()?.get(b"key", &mut |row| second.extend(row.column(1).unwrap_or_default()))?;
//! assert_eq!(second, b"second");
//! # Ok::<(), keyrack_store::Error>(())
//! ```
#![forbid(unsafe_code)]

mod checkpoint;
mod cleared;
mod collections;
mod contract;
mod core;
mod engine;
mod error;
mod evict;
mod file_set;
#[cfg(test)]
mod fuzz;
mod garbage;
mod group;
mod keys;
mod maintenance;
mod manifest;
mod memory;
mod model;
mod notifier;
mod options;
mod part;
mod part_check;
mod part_dirs;
mod record;
mod recovery;
mod row;
mod sample;
mod session;
mod sessions;
mod store;
mod store_rows;
mod sweep;
mod user_keys;
mod watermarks;

pub use collections::{Collection, CollectionGuard, Snapshot};
pub use contract::{Position, RowSession, Rows};
pub use engine::{engine, options_of};
pub use model::ModelRows;
pub use options::{CheckpointStep, Eviction, Options};
pub use recovery::{Progress, Recovered};
pub use row::{Kind, Marks, Row, RowBuf};
pub use store::RowStore;
pub use store_rows::StoreRows;

//! # keyrack-flodb: a persistent ordered store
//!
//! A store of keys and values, both of any bytes, in a directory that one process writes to. It is
//! made for programs that write much, read ranges of keys, and must not lose what was acknowledged.
//! Values may be larger than memory together, and a budget says how much memory there is.
//!
//! It is no server, and has no query language, no secondary indexes and no replication.
//!
//! ```
//! use keyrack_flodb::{Db, Options};
//! # let dir = std::env::temp_dir().join(format!("keyrack-flodb-doc-{}", std::process::id()));
//!
//! let db = Db::open(&dir, Options::new())?;
//! db.put(b"fruit/apple", b"red")?;
//! db.put(b"fruit/pear", b"green")?;
//! assert_eq!(db.get(b"fruit/apple")?, Some(b"red".to_vec()));
//! for entry in db.prefix("fruit/").rev() {
//!     let (key, value) = entry?;
//!     println!("{} is {}", key.escape_ascii(), value.escape_ascii());
//! }
//! db.close()?;
//! # keyrack_flodb::Db::destroy(&keyrack_vfs::RealFs, &dir)?;
//! # Ok::<(), keyrack_flodb::Error>(())
//! ```
//!
//! | to | use |
//! |---|---|
//! | open a store, and choose its options | [`Db::open`], [`Options`] |
//! | write one key | [`Db::put`], [`Db::delete`] |
//! | write a key by what it has | [`Db::update`], [`Db::compare_and_swap`], [`Db::fetch_and_add`] |
//! | add to a value without reading it | [`Db::merge`], [`MergeOperator`] |
//! | let a value expire | [`Db::put_with_ttl`], [`Db::expire`] |
//! | let compactions remove or change values | [`CompactionFilter`] |
//! | remove all keys of a range | [`Db::delete_range`] |
//! | write many keys as one | [`Batch`], [`Db::write`] |
//! | read one key, or many | [`Db::get`], [`Db::get_with`] without a copy, [`Db::multi_get`] |
//! | read a range, from either end | [`Db::range`], [`Db::prefix`] |
//! | move a cursor both ways | [`Db::iter`] |
//! | read a moment | [`Db::snapshot`], and the calls that end in `_at` |
//! | read, decide and write as one, over many keys | [`Db::transaction`], [`Db::retry`] |
//! | keep several sets of keys | [`Spaces`], [`KeySpace`], [`SpacesBatch`] |
//! | order keys otherwise | [`Compare`] |
//! | load much that is sorted | [`SstWriter`], [`Db::ingest`] |
//! | follow what is written, from a position on | [`Db::changes`], [`Position`] |
//! | keep up with a writer in another process | [`Db::follow`] |
//! | copy a store beside writers | [`Db::checkpoint`] |
//! | check or repair a closed store | [`verify()`], [`repair()`] |
//! | see what it does | [`Db::metrics`], [`Db::property`], [`Db::stats`] |
//! | hear what it does in the background | [`EventListener`] |
//!
//! A [`Db`] is a handle: clones are cheap, any number of threads use one, and the store closes with
//! the last. Ranges, cursors and snapshots see one moment, and hold up no writer.
//!
//! # What an acknowledged write survives
//!
//! | [`Durability`] | the process is killed | the machine loses power |
//! |---|---|---|
//! | `None`: there is no log | nothing | nothing |
//! | `Os`, the default | everything | what the kernel had written |
//! | `Interval(ms)` | everything | all but the last `ms` milliseconds and the sync in progress |
//! | `Sync` | everything | everything |
//!
//! With [`WriteOptions::sync`] a single write, and all before it, survives a power loss whatever
//! the store's durability is. A batch is there as a whole or not at all, and what a crash takes is
//! always the end of the log: no later write survives without an earlier one.
//!
//! # Errors
//!
//! An [`Error`] has a kind to match on: the caller's mistake, a full disk, the machine, damage with
//! its place, a codec that is not built in, a transaction that has to run again, or that an earlier
//! failure was final. A failed sync, flush or compaction is final: from then on the store only
//! reads, and says why, until it is opened again. A full disk is not: writes are refused until
//! there is space.
//!
//! The pages of the repository go on: `docs/embedding.md` has the calls of other stores beside
//! these, `docs/engines/flodb.md` how all of this works, and `docs/promises.md` the tests of each
//! promise.

mod batch;
mod blob;
mod block;
mod cache;
mod changes;
mod check;
mod checksum;
mod coding;
mod compaction;
mod compaction_filter;
mod compress;
mod cursor;
mod db;
mod division;
mod dump;
mod engine;
mod error;
mod event;
mod expiry;
mod file_cache;
mod file_writer;
mod filter;
mod filter_policy;
mod follower;
mod iterator;
mod key;
mod manifest;
mod memory_budget;
mod memtable;
mod merge;
mod open_blob;
mod open_table;
mod options;
mod position;
mod prefix;
mod prefix_extractor;
mod prefix_filter;
mod range_tombstones;
mod read_state;
mod repair;
mod shipping;
mod snapshot;
mod spaces;
mod sst_writer;
mod stored_options;
mod stored_order;
mod table;
mod transaction;
mod version;

pub use batch::{Batch, BatchWrite};
pub use changes::{Changes, CommittedBatch, TimeMark};
pub use check::{Finding, FindingKind, Report, verify};
pub use compaction_filter::{CompactionFilter, Decision};
pub use compress::Compression;
pub use db::{
    CheckedTables, Db, DropFilter, IngestOptions, Metric, MetricKind, Snapshot, Transfer,
};
pub use dump::{Item, dump};
pub use engine::engine;
pub use error::{Error, Result};
pub use event::{CompactionReason, Event, EventField, EventListener, Outputs, Stall, StallCause};
pub use expiry::{Clock, Expiry};
pub use filter_policy::{FilterBuilder, FilterPolicy, FilterReader, FilterRule};
pub use follower::Follower;
pub use iterator::{Iter, KeyRange, Keys, Range};
// Types of the contract that are part of the signatures here.
pub use key::{Comparator, Compare};
pub use keyrack_concurrent::Change;
pub use keyrack_store::{Durability, FileSet, WriteOptions};
pub use merge::{Append, Counter, MergeOperator, SetUnion};
pub use options::Options;
pub use position::Position;
pub use prefix_extractor::{PrefixExtractor, PrefixRule};
pub use repair::{RepairReport, repair};
pub use spaces::{
    KeySpace, SpaceIter, SpaceWrite, Spaces, SpacesBatch, SpacesChange, SpacesChanges,
    SpacesFollower, SpacesTransaction, SpacesTransactionIter,
};
pub use sst_writer::{SstFile, SstWriter};
pub use table::ReadOptions;
pub use transaction::{
    Isolation, Transaction, TransactionIter, TransactionOptions, TransactionRange,
};

/// The code of the page for those who embed a store is compiled and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
struct Embedding;

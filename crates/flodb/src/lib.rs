//! # keyrack-flodb: a persistent ordered store
//!
//! FloDB's idea (EuroSys 2017) on LevelDB's model: writes go to a log and into a hash level in
//! memory, order is made when somebody needs it, and tables on disk are merged level by level.
//!
//! ```text
//!   put --> log (mapped segments) --> hash level of a memtable      no system call, no order
//!                                          |  full, or an iterator starts
//!                                          v
//!                                     sorted runs of the memtable
//!                                          |  immutable
//!                                          v
//!                                     table of level 0 --> levels 1 to 6
//! ```
//!
//! | from FloDB | here |
//! |---|---|
//! | writes reach no log | the log comes first; `Durability` says what an acknowledged write survives |
//! | one version a key, updated in place | versions are kept as long as a snapshot or an iterator needs them |
//! | keys of eight bytes | any bytes; any order of them |
//! | a thread drains the hash level all the time | it is sorted when it is read in order, or flushed |
//! | scans begin again when a writer interferes | an iterator sees one moment, and stops nobody |
//! | a full hash level sends writes to the skip list | a full memtable is made immutable, and a new one opened |
//!
//! ```
//! use keyrack_flodb::{Db, Options};
//! # let dir = std::env::temp_dir().join(format!("keyrack-flodb-doc-{}", std::process::id()));
//!
//! let db = Db::open(&dir, Options::default())?;
//! db.put(b"key", b"value")?;
//! assert_eq!(db.get(b"key")?.as_deref(), Some(&b"value"[..]));
//! db.close()?;
//! # keyrack_flodb::Db::destroy(&keyrack_vfs::RealFs, &dir)?;
//! # Ok::<(), keyrack_flodb::Error>(())
//! ```

mod batch;
mod blob;
mod block;
mod cache;
mod check;
mod checksum;
mod coding;
mod compaction;
mod compress;
mod cursor;
mod db;
mod division;
mod dump;
mod engine;
mod error;
mod file_cache;
mod file_writer;
mod filter;
mod filter_policy;
mod iterator;
mod key;
mod manifest;
mod memory_budget;
mod memtable;
mod open_blob;
mod open_table;
mod options;
mod prefix;
mod range_tombstones;
mod read_state;
mod repair;
mod snapshot;
mod spaces;
mod sst_writer;
mod stored_options;
mod stored_order;
mod table;
mod version;

pub use batch::Batch;
pub use check::{Finding, FindingKind, Report, verify};
pub use compress::Compression;
pub use db::{CheckedTables, Db, DropFilter, IngestOptions, Snapshot, Transfer};
pub use dump::{Item, dump};
pub use engine::engine;
pub use error::{Error, Result};
pub use filter_policy::{FilterBuilder, FilterPolicy, FilterReader, FilterRule};
pub use iterator::{Iter, KeyRange, Keys, Range};
// Types of the contract that are part of the signatures here.
pub use key::{Comparator, Compare};
pub use keyrack_concurrent::Change;
pub use keyrack_store::{Durability, WriteOptions};
pub use options::Options;
pub use repair::{RepairReport, repair};
pub use spaces::{KeySpace, SpaceIter, Spaces, SpacesBatch};
pub use sst_writer::{SstFile, SstWriter};
pub use table::ReadOptions;

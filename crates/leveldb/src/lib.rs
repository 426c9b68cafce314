//! A reader of the directories that LevelDB writes: what is alive in them, in order.
//!
//! ```text
//!   CURRENT --names--> MANIFEST-NNNNNN --edits--> tables of each level, number of the log
//!                                                    |                      |
//!                      NNNNNN.ldb (or .sst) <--------+                      |
//!                      NNNNNN.log           <-------------------------------+
//!
//!   tables of level 0, levels 1 to 6, logs --merge--> newest version of each key, if it is a value
//! ```
//!
//! It is written from the public description of the format, and reads what every version of LevelDB
//! has written in its own order of keys (bytes): tables of either suffix, blocks that are raw, of
//! Snappy or of Zstandard, logs that nobody has put into tables yet. It changes no file, not even
//! the lock. The store should be closed: what another process does meanwhile is not kept out.
//!
//! Nothing that stands in a file is believed. Every block and record passes its checksum before it
//! is looked at, every offset, length and count is held against what is there before it is used,
//! tables are held against what the manifest says of them, and the sequence numbers of the logs
//! must follow each other. What does not fit is an error with file and offset ([`Mode::Strict`]),
//! or is left out and listed ([`Mode::Lenient`]).
//!
//! | | strict | lenient |
//! |---|---|---|
//! | the newest log, or the manifest, ends within a record | listed in [`Reader::lost`] | the same |
//! | damage in a log | error | the rest of its block of 32 KiB is left out, and listed |
//! | a block, or a whole table, damaged or missing | error | left out, and listed |
//! | damage in the manifest or `CURRENT` | error | error |
//!
//! Where a part is left out, older versions of its keys may show, and keys that were removed may
//! come back.
//!
//! ```
//! use keyrack_leveldb_reader::{Mode, Reader};
//! # let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/levels");
//!
//! let fs = std::sync::Arc::new(keyrack_vfs::RealFs);
//! let mut reader = Reader::open(fs, std::path::Path::new(dir), Mode::Strict)?;
//! let mut entries = 0;
//! while let Some((_key, _value)) = reader.next()? {
//!     entries += 1;
//! }
//! # assert_eq!(entries, 337);
//! # Ok::<(), keyrack_leveldb_reader::Error>(())
//! ```
#![forbid(unsafe_code)]

mod batch;
mod block;
mod coding;
mod error;
#[cfg(test)]
mod fuzz;
mod key;
mod levels;
mod log;
mod manifest;
mod reader;
mod table;

pub use error::{Error, Lost, Result};
pub use reader::{Mode, Reader, Stats};

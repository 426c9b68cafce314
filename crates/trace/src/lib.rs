//! # keyrack-trace: operations as they were, out of a file and into one
//!
//! ```text
//!   verbs --Tape (a worker's)--> blocks --queue--> one thread --zstd--> file        Recorder
//!   file --Bytes (.zst or not)--> blocks or lines --> Record                        Trace
//! ```
//!
//! A [`Record`] is one call of a store: when, what, which keys, how large the values, what came of
//! it. Values themselves are not kept. Traces are our own ([`Format::Keyrack`],
//! `docs/formats/trace.md`), those of RocksDB (binary, or as its analyzer prints them) and those of
//! CacheLib. All are read as a stream: memory does not depend on the size of a file.
//!
//! **Invariant:** what a file says is held against a limit before memory is taken for it, and a
//! block against its checksum before it is looked into.
//!
//! **Invariant:** nothing is passed over in silence. A line that is no row is an error with file
//! and line; an operation that stores do not have is counted by name.

#![forbid(unsafe_code)]

mod bytes;
mod cachelib;
mod codec;
mod error;
#[cfg(test)]
mod fuzz;
mod layout;
mod lines;
mod native;
mod record;
mod recorder;
mod rocksdb;
mod rocksdb_text;
mod skipped;
mod survey;
mod trace;
mod which;

pub use error::{Error, Result};
pub use lines::{Line, Lines};
pub use record::{Entry, Phase, Record, Result as Outcome, Verb, Write};
pub use recorder::{Origin, Recorder, Summary, Tape};
pub use skipped::Skipped;
pub use survey::{Survey, survey};
pub use trace::{Format, Trace};
pub use which::Which;

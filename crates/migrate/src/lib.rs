//! # keyrack-migrate: strings and hashes of other servers and files, moved in and out
//!
//! ```text
//!   files    RDB | append-only | commands | JSON lines --+
//!   servers  replication | SCAN and notifications      --+--events--> Importer --> server
//!            lru_crawler metadump                      --+
//!
//!   server    SCAN  --events--> RespWriter | JsonWriter
//! ```
//!
//! A source reports [`Event`]s; the importer applies them and counts what cannot be moved
//! ([`Report`]). Memory is that of the largest value, and of the keys that have to be read again
//! (at most a million). A hash goes through piece by piece.
//!
//! **Invariant:** what a source says is checked before it becomes a length, a count or a name.
//! Damage is an error with its offset, never a row that is left out.
#![forbid(unsafe_code)]

mod aof;
mod args;
mod client;
mod encode;
mod error;
mod event;
#[cfg(test)]
mod fuzz;
mod importer;
mod input;
mod json;
mod memcached;
mod rdb;
mod redis;
mod replay;
mod report;
mod source;
mod target;
mod unclear;
mod url;

pub use encode::RespWriter;
pub use error::{Error, Result};
pub use event::{Entry, Event, Phase, Progress, Visit};
pub use importer::{Observe, OnConflict, Options};
pub use json::JsonWriter;
pub use redis::Method;
pub use report::{NAMES_MAX, Named, Report};
pub use source::{Source, export, import, read_file};
pub use url::{Protocol, Url};

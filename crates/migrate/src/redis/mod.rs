//! Servers of Redis' protocol as sources.
//!
//! | method | rows | changes meanwhile | needs |
//! |---|---|---|---|
//! | replicate | the snapshot that the server sends a replica | its stream of commands | PSYNC, which managed servers often forbid |
//! | scan | SCAN, then each key | keys that keyspace notifications name are read again | `notify-keyspace-events` with `A` and `K` or `E` |
//! | scan, no changes | SCAN, then each key | none | nothing |
//!
//! The first two are exact: at the end the destination has what the source had at one moment after
//! the rows were read, if writing to the source pauses then; else what it had a moment ago.

mod fetch;
mod replicate;
mod scan;

pub(crate) use fetch::Fetcher;

use crate::error::Result;
use crate::event::Visit;
use crate::url::Url;
use std::sync::atomic::AtomicBool;

/// How the rows of a server are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Replicates; where the server refuses, scans.
    #[default]
    Auto,
    /// As a replica does.
    Replicate,
    /// By SCAN.
    Scan,
}

/// What is read of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) method: Method,
    /// The database.
    pub(crate) db: u32,
    /// Whether what changes meanwhile is read.
    pub(crate) with_changes: bool,
    /// Whether changes are followed until `stop` is set.
    pub(crate) follow: bool,
    pub(crate) stop: &'a AtomicBool,
}

/// Catching up is tried so often while the source goes on writing.
const ROUNDS_MAX: u32 = 10;

/// Reads the rows and their changes. Returns why the server was not replicated, if that was tried
/// and refused.
pub(crate) fn read(url: &Url, plan: &Plan<'_>, visit: Visit<'_>) -> Result<Option<String>> {
    let mut refusal = None;
    if plan.with_changes && plan.method != Method::Scan {
        match replicate::read(url, plan, visit)? {
            None => return Ok(None),
            Some(why) if plan.method == Method::Replicate => {
                return Err(crate::Error::server(&url.name(), format!("PSYNC is refused: {why}")));
            }
            Some(why) => refusal = Some(why),
        }
    }
    scan::read(url, plan, visit)?;
    Ok(refusal)
}

//! The log of a store, entry by entry, for whoever keeps it elsewhere; and the way back.
//!
//! ```text
//!   LogSource --feed(from)--> LogFeed --next--> LogEntry ...     the store that is shipped
//!   LogReplay <--apply-- batch ...                               the store that is restored
//! ```
//!
//! A position is a number that grows with the log and is never used twice. It stands for everything
//! up to there. What a batch holds, the engine alone knows.

use crate::{Error, Result};
use std::fmt;
use std::time::Duration;

/// Where in its log a store is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPosition {
    /// The identity of the log: no other store has it, copies of the store neither.
    pub log_id: u64,
    /// Everything up to here is in the store, and nothing after it.
    pub position: u64,
}

/// An entry of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEntry {
    /// Writes that were applied as one.
    Batch {
        /// Behind it.
        position: u64,
        /// The writes, in the format of the engine.
        payload: Vec<u8>,
    },
    /// Every batch up to the position was applied by that time.
    Time {
        /// Where the mark is.
        position: u64,
        /// Milliseconds since 1970.
        unix_ms: u64,
    },
    /// Something that the log does not hold was added here, such as whole tables.
    Break {
        /// Behind it.
        position: u64,
    },
}

impl LogEntry {
    /// Behind the entry.
    #[must_use]
    pub fn position(&self) -> u64 {
        match self {
            LogEntry::Batch { position, .. }
            | LogEntry::Time { position, .. }
            | LogEntry::Break { position } => *position,
        }
    }
}

/// Why entries cannot be had.
#[derive(Debug)]
pub enum FeedError {
    /// The log does not have what comes after the position: it is not kept any more, or was never
    /// written.
    Gone(String),
    /// The store failed.
    Store(Error),
}

impl fmt::Display for FeedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FeedError::Gone(what) => f.write_str(what),
            FeedError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FeedError {}

/// A store whose log can be read.
pub trait LogSource {
    /// The identity of the log.
    fn log_id(&self) -> u64;

    /// The entries after the position `from`. Only what a power loss does not take back.
    ///
    /// # Errors
    /// [`FeedError`].
    fn feed(&self, from: u64) -> std::result::Result<Box<dyn LogFeed>, FeedError>;
}

/// The entries of a log from a position on, with growing positions.
pub trait LogFeed: Send {
    /// The next entry, if there is one now. Never waits. After an error the next call goes on.
    ///
    /// # Errors
    /// [`FeedError`].
    fn next(&mut self) -> std::result::Result<Option<LogEntry>, FeedError>;

    /// Waits for an entry, for so long at most. Whether there is one.
    ///
    /// # Errors
    /// [`FeedError`].
    fn wait(&mut self, timeout: Duration) -> std::result::Result<bool, FeedError>;
}

/// A store that takes the batches of another one's log, in their order.
pub trait LogReplay {
    /// Applies a batch.
    ///
    /// # Errors
    /// [`Error::Corruption`] if it is none; those of a write.
    fn apply(&mut self, payload: &[u8]) -> Result<()>;

    /// Makes everything durable, and closes the store.
    ///
    /// # Errors
    /// The machine's.
    fn end(self: Box<Self>) -> Result<()>;
}

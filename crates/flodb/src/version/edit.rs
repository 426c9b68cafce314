//! A change of the store's state: which tables come and go, and which counters move on.
//!
//! [`Version::apply`](super::Version::apply) makes the next version of the tables; the manifest
//! keeps the edits durable, and applies the counters.

use super::{FileMeta, StoredOptions};
use crate::blob::BlobMeta;
use std::sync::Arc;

/// What changes. The default changes nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct VersionEdit {
    /// The name of the order of keys: in the first record of a manifest.
    pub(crate) comparator: Option<String>,
    /// The log is replayed from this LSN on.
    pub(crate) log_from: Option<u64>,
    /// All numbers of files given out so far are smaller. The manifest fills it in.
    pub(crate) next_file: Option<u64>,
    /// The largest sequence number that is in a table, if the tables added do not say so.
    pub(crate) last_sequence: Option<u64>,
    /// The identity of the log, once it was begun.
    pub(crate) log_id: Option<u64>,
    /// Whether the log, or a table, may hold a value that expires from now on.
    pub(crate) has_expiries: bool,
    /// The name of the merge operator of the operands that the log, or a table, may hold from now
    /// on.
    pub(crate) merge_operator: Option<String>,
    /// What the store is written with from now on.
    pub(crate) options: Option<StoredOptions>,
    /// New tables and their levels. A table may be deleted from one level and added to another by
    /// one edit: it moves.
    pub(crate) added: Vec<(usize, Arc<FileMeta>)>,
    /// Levels and numbers of tables that go. They go before any are added.
    pub(crate) deleted: Vec<(usize, u64)>,
    /// New blob files. Those that no table refers to any more go by themselves.
    pub(crate) blobs: Vec<BlobMeta>,
    /// Levels, and the user keys after which their next compaction begins.
    pub(crate) pointers: Vec<(usize, Vec<u8>)>,
}

//! A partition that is coming to this server, in memory until it is installed.

use crate::id::Inode;

/// Names and values as they are in the log.
pub(crate) type Records = Vec<(Vec<u8>, Vec<u8>)>;

/// An incoming partition.
#[derive(Debug, Default)]
pub(crate) struct Staged {
    pub(crate) attempt: u64,
    pub(crate) records: Records,
    /// What the records take in a batch, at most.
    pub(crate) bytes: usize,
    /// Large files whose bytes have come.
    pub(crate) contents: Vec<Inode>,
}

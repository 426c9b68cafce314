//! Open directories of a client, and the creates in them that are not sent yet.

use crate::partition::SplitMap;

/// An open directory: a number in the list of a `Tree`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirNumber(pub(crate) usize);

/// A directory that a client has open.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) path: Vec<u8>,
    pub(crate) inode: u128,
    /// Its number at each server.
    pub(crate) at: Vec<Option<u32>>,
    /// How far it has split, as far as is known here.
    pub(crate) map: SplitMap,
    /// Until when the path is known to lead to it.
    pub(crate) until_ns: u64,
}

/// Creates of one directory that are not sent yet.
#[derive(Debug)]
pub(crate) struct CreateBatch {
    pub(crate) dir: DirNumber,
    pub(crate) mode: u32,
    /// Of the directory, for messages.
    pub(crate) path: Vec<u8>,
    pub(crate) names: Vec<Vec<u8>>,
}

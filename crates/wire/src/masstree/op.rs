//! The numbers of the operations. An answer has the number of its request and one.

pub(super) const GET: u64 = 2;
pub(super) const SCAN: u64 = 4;
pub(super) const PUT: u64 = 6;
pub(super) const REPLACE: u64 = 8;
pub(super) const REMOVE: u64 = 10;
pub(super) const CHECKPOINT: u64 = 12;
pub(super) const HANDSHAKE: u64 = 14;

/// The number of an answer to what is no request.
pub(super) const UNKNOWN: i64 = -1;

/// What became of a put: there was no row, or there was one.
pub(super) const INSERTED: u64 = 1;
pub(super) const UPDATED: u64 = 2;

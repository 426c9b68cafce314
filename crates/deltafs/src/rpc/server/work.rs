//! Work that request handlers hand to the background worker.

use crate::id::DirId;
use crate::rpc::txn::record::Transaction;

/// Something that takes calls to other servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A directory may have grown enough to split, or has a split to finish.
    CheckSplit(DirId),
    /// Run a transaction: the id of its operation, and how often it was tried.
    Coordinate(u64, Transaction, u32),
    /// Other servers may not know the decision on a transaction of this server.
    SendDecision(u128),
    /// Another server coordinates a transaction and has not sent its decision.
    AskOutcome(u128),
    /// End the worker.
    Stop,
}

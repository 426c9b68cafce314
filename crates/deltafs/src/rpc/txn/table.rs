//! The transactions that a server takes part in.

use super::record::{PendingTxn, Phase};
use crate::rpc::codec::Transaction;
use crate::rpc::server::error::{RpcError, RpcResult};
use crate::rpc::server::parts::LOCKED;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Pending transactions by their ids.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    pending: Mutex<HashMap<u128, PendingTxn>>,
}

impl Transactions {
    pub(crate) fn pending(&self) -> MutexGuard<'_, HashMap<u128, PendingTxn>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses to follow a path while a transaction of another coordinator locks one of its names:
    /// the decision may have been made already, and this server has not heard it.
    pub(crate) fn admit(&self, path: &[u8]) -> RpcResult {
        let pending = self.pending();
        let locks = |pending: &PendingTxn, name: &[u8]| {
            let Transaction { name: old, to_name: new, .. } = &pending.txn;
            pending.phase == Phase::Prepared && !name.is_empty() && (old == name || new == name)
        };
        let mut names = path.split(|byte| *byte == b'/');
        if names.any(|name| pending.values().any(|pending| locks(pending, name))) {
            Err(RpcError::new("EAGAIN", LOCKED))
        } else {
            Ok(())
        }
    }
}

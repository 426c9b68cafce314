//! Operations: transactions as their clients ask about them.
//!
//! A client that starts a transaction gets the id of an operation at once, and asks for its outcome
//! until it has one.

use crate::rpc::server::error::{RpcError, RpcResult};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Operations whose outcomes are kept, at most.
const OPERATIONS_MAX: usize = 4096;
/// Ids are counted below this bit; the start of the server is above it.
const START_SHIFT: u32 = 32;

/// The operations of a server.
#[derive(Debug)]
pub(crate) struct Operations {
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    last: u64,
    /// `None` while an operation is in progress.
    outcomes: HashMap<u64, Option<RpcResult>>,
}

impl Operations {
    /// The operations of a server that was started for the `start`-th time. No id is used twice: a
    /// client that asks after a restart must not hear the outcome of another operation.
    pub(crate) fn new(start: u64) -> Operations {
        let table = Table { last: start << START_SHIFT, outcomes: HashMap::new() };
        Operations { table: Mutex::new(table) }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts an operation and returns its id. The oldest finished operation is forgotten if there
    /// are too many.
    pub(crate) fn begin(&self) -> RpcResult<u64> {
        let mut table = self.table();
        if table.outcomes.len() >= OPERATIONS_MAX {
            let finished = table.outcomes.iter().filter(|(_, outcome)| outcome.is_some());
            let Some(oldest) = finished.map(|(id, _)| *id).min() else {
                return Err(RpcError::new("EBUSY", "too many renames are under way: come again"));
            };
            table.outcomes.remove(&oldest);
        }
        table.last += 1;
        let id = table.last;
        table.outcomes.insert(id, None);
        Ok(id)
    }

    pub(crate) fn finish(&self, id: u64, outcome: RpcResult) {
        self.table().outcomes.insert(id, Some(outcome));
    }

    /// The outcome of an operation. A client may ask for it more than once.
    pub(crate) fn outcome(&self, id: u64) -> RpcResult {
        match self.table().outcomes.get(&id) {
            Some(None) => Err(RpcError::new("EAGAIN", "it is under way: ask again")),
            Some(Some(outcome)) => outcome.clone(),
            None => Err(RpcError::new("ESTALE", "nobody knows any more what came of it: look")),
        }
    }
}

//! What all threads of a server share: the name space, its partitions, and who works behind.

use super::leases::Leases;
use super::parts::{Part, Parts, Redirect};
use super::split::Staged;
use crate::error::Error;
use crate::id::DirId;
use crate::namespace::Namespace;
use crate::rpc::errno::code_of;
use crate::rpc::error::Error as CallError;
use crate::rpc::txn::record::Transaction;
use crate::rpc::txn::table::Transactions;
use std::collections::HashMap;
use std::sync::mpsc::Sender;
use std::sync::{Mutex, OnceLock};

/// The inside of a server.
#[derive(Debug)]
pub(crate) struct Core {
    /// A dummy has none.
    pub(crate) space: Option<Namespace>,
    pub(crate) parts: Parts,
    /// Partitions that are on their way here.
    pub(crate) staged: Mutex<HashMap<(DirId, u32), Staged>>,
    /// To the thread that works with other servers, once they are known.
    pub(crate) work: OnceLock<Sender<Work>>,
    pub(crate) txns: Transactions,
    /// Only the first server gives any.
    pub(crate) leases: Leases,
}

/// Something to be done with other servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A directory may have grown enough to split, or has a split to finish.
    CheckSplit(DirId),
    /// An operation: a rename, and how often it was tried.
    Coordinate(u64, Transaction, u32),
    /// A rename of ours that the others may not know the end of.
    SendDecision(u128),
    /// A rename of another server, which may have forgotten to tell us.
    AskOutcome(u128),
    /// The end.
    Stop,
}

impl Core {
    pub(crate) fn new(space: Option<Namespace>, parts: Parts, leases: Leases) -> Core {
        let start = space.as_ref().map_or(0, Namespace::epoch);
        let (staged, work) = (Mutex::default(), OnceLock::new());
        let txns = Transactions::new(start);
        Core { space, parts, staged, work, txns, leases }
    }

    /// How far a directory has split, for clients.
    pub(crate) fn map_of(&self, part: &Part) -> Vec<u8> {
        match self.parts.has_all {
            true => self.parts.widest(),
            false => part.read().map.to_bytes(),
        }
    }

    /// Whether a directory may be changed: where leases are given, all have to be back. With `true`
    /// none is given until [`Leases::changed`].
    pub(crate) fn revoke(&self, dir: DirId, client: Option<[u8; 16]>) -> RpcResult {
        match self.parts.server != 0 || self.leases.revoke(dir, client) {
            true => Ok(()),
            false => {
                let words = "leases on the directory are called back, or somebody changes it";
                Err(RpcError::new("EAGAIN", words))
            }
        }
    }

    /// Hands something over. Before the servers have met there is nobody to do it, and no need.
    pub(crate) fn enqueue(&self, work: Work) {
        if let Some(sender) = self.work.get() {
            // A thread that has ended is that of a server that ends.
            let _ = sender.send(work);
        }
    }
}

/// Why a request is not answered with its reply: a code, and words or what else belongs to it.
#[derive(Clone, Debug)]
pub(crate) struct RpcError {
    pub(crate) code: u8,
    pub(crate) fields: Vec<u8>,
}

impl RpcError {
    pub(crate) fn new(errno: &str, words: impl Into<String>) -> RpcError {
        RpcError { code: code_of(errno), fields: words.into().into_bytes() }
    }

    /// What another server has said, or that it said nothing.
    pub(crate) fn from_peer(error: &CallError) -> RpcError {
        match error {
            CallError::Elsewhere { dir, map } => {
                RpcError::redirect(DirId(*dir), Redirect::Elsewhere(map.to_bytes()))
            }
            error => RpcError::new(error.errno(), error.to_string()),
        }
    }

    /// Whether it may go well in a while.
    pub(crate) fn is_retryable(&self) -> bool {
        self.code == code_of("EAGAIN")
    }

    /// For a name of the directory `dir`.
    pub(crate) fn redirect(dir: DirId, redirect: Redirect) -> RpcError {
        match redirect {
            Redirect::Retry(words) => RpcError::new("EAGAIN", words),
            Redirect::Elsewhere(map) => {
                let mut fields = dir.0.to_le_bytes().to_vec();
                fields.extend_from_slice(&map);
                RpcError { code: code_of("EREMOTE"), fields }
            }
        }
    }
}

impl From<Error> for RpcError {
    fn from(error: Error) -> RpcError {
        RpcError::new(error.errno(), error.to_string())
    }
}

impl From<keyrack_flodb::Error> for RpcError {
    fn from(error: keyrack_flodb::Error) -> RpcError {
        RpcError::from(Error::from(error))
    }
}

/// What a request came to.
pub(crate) type RpcResult<T = ()> = Result<T, RpcError>;

//! What all threads of a server share: the name space, its partitions, and who works behind.

use super::leases::Leases;
use super::parts::{Detour, Part, Parts};
use super::split::Staged;
use crate::error::Error;
use crate::id::DirId;
use crate::namespace::Namespace;
use crate::rpc::error::{Error as CallError, code_of};
use crate::rpc::txn::record::Order;
use crate::rpc::txn::table::Renames;
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
    pub(crate) renames: Renames,
    /// Only the first server gives any.
    pub(crate) leases: Leases,
}

/// Something to be done with other servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A directory may have grown enough to split, or has a split to finish.
    Look(DirId),
    /// An errand: a rename, and how often it was tried.
    Rename(u64, Order, u32),
    /// A rename of ours that the others may not know the end of.
    Settle(u128),
    /// A rename of another server, which may have forgotten to tell us.
    Ask(u128),
    /// The end.
    End,
}

impl Core {
    pub(crate) fn new(space: Option<Namespace>, parts: Parts, leases: Leases) -> Core {
        let start = space.as_ref().map_or(0, Namespace::epoch);
        let (staged, work) = (Mutex::default(), OnceLock::new());
        let renames = Renames::of_start(start);
        Core { space, parts, staged, work, renames, leases }
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
    pub(crate) fn take_back(&self, dir: DirId, client: Option<[u8; 16]>) -> Executed {
        match self.parts.server != 0 || self.leases.take_back(dir, client) {
            true => Ok(()),
            false => {
                let words = "leases on the directory are called back, or somebody changes it";
                Err(Refusal::new("EAGAIN", words))
            }
        }
    }

    /// Hands something over. Before the servers have met there is nobody to do it, and no need.
    pub(crate) fn tell(&self, work: Work) {
        if let Some(sender) = self.work.get() {
            // A thread that has ended is that of a server that ends.
            let _ = sender.send(work);
        }
    }
}

/// Why a request is not answered with its reply: a code, and words or what else belongs to it.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) code: u8,
    pub(crate) fields: Vec<u8>,
}

impl Refusal {
    pub(crate) fn new(errno: &str, words: impl Into<String>) -> Refusal {
        Refusal { code: code_of(errno), fields: words.into().into_bytes() }
    }

    /// What another server has said, or that it said nothing.
    pub(crate) fn of_peer(error: &CallError) -> Refusal {
        match error {
            CallError::Elsewhere { dir, map } => {
                Refusal::detour(DirId(*dir), Detour::Elsewhere(map.to_bytes()))
            }
            error => Refusal::new(error.errno(), error.to_string()),
        }
    }

    /// Whether it may go well in a while.
    pub(crate) fn is_later(&self) -> bool {
        self.code == code_of("EAGAIN")
    }

    /// For a name of the directory `dir`.
    pub(crate) fn detour(dir: DirId, detour: Detour) -> Refusal {
        match detour {
            Detour::Later(words) => Refusal::new("EAGAIN", words),
            Detour::Elsewhere(map) => {
                let mut fields = dir.0.to_le_bytes().to_vec();
                fields.extend_from_slice(&map);
                Refusal { code: code_of("EREMOTE"), fields }
            }
        }
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::new(error.errno(), error.to_string())
    }
}

impl From<keyrack_flodb::Error> for Refusal {
    fn from(error: keyrack_flodb::Error) -> Refusal {
        Refusal::from(Error::from(error))
    }
}

/// What a request came to.
pub(crate) type Executed<T = ()> = Result<T, Refusal>;

//! The connections of all loops, for CLIENT LIST and CLIENT KILL.
//!
//! A connection writes what others may want to know of it into a [`Client`] that both hold. What
//! changes with every read is in atomics that only the connection writes, and nobody waits for.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use keyrack_net::Closer;

use crate::redis::table;

/// What others may know of a connection.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) peer: String,
    pub(crate) local: String,
    since_ms: u64,
    last_ms: AtomicU64,
    last_command: AtomicU16,
    /// Commands queued in a transaction, plus one; 0 when there is none.
    pub(crate) queued: AtomicU32,
    pub(crate) watched: AtomicU32,
    pub(crate) protocol: AtomicU8,
    pub(crate) is_killed: AtomicBool,
    /// Ends the connection, once it is on a loop.
    pub(crate) closer: OnceLock<Closer>,
    names: Mutex<Names>,
}

/// What a client calls itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) name: String,
    pub(crate) library: String,
    pub(crate) library_version: String,
}

impl Client {
    pub(crate) fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection: it takes no more requests, and is closed though it says nothing.
    pub(crate) fn kill(&self) {
        self.is_killed.store(true, Relaxed);
        if let Some(closer) = self.closer.get() {
            closer.close();
        }
    }

    /// Notes a read, and the command that was the last in it.
    pub(crate) fn saw(&self, now_ms: u64, command: Option<u16>) {
        self.last_ms.store(now_ms, Relaxed);
        if let Some(command) = command {
            self.last_command.store(command, Relaxed);
        }
    }

    /// The line of CLIENT LIST, without its end.
    pub(crate) fn describe(&self, now_ms: u64, line: &mut String) {
        let queued = self.queued.load(Relaxed);
        let flags = if queued > 0 { "x" } else { "N" };
        let command = table::name_of(self.last_command.load(Relaxed));
        let Names { name, library, library_version } = self.names().clone();
        // Writing to a string does not fail.
        let _ = write!(
            line,
            "id={} addr={} laddr={} fd=-1 name={name} age={} idle={} flags={flags} db=0 sub=0 \
             psub=0 ssub=0 multi={} watch={} cmd={command} user=default redir=-1 resp={} \
             lib-name={library} lib-ver={library_version}",
            self.id,
            self.peer,
            self.local,
            now_ms.saturating_sub(self.since_ms) / 1000,
            now_ms.saturating_sub(self.last_ms.load(Relaxed)) / 1000,
            i64::from(queued) - 1,
            self.watched.load(Relaxed),
            self.protocol.load(Relaxed),
        );
    }
}

/// All connections.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    open: Mutex<BTreeMap<u64, Arc<Client>>>,
    opened: AtomicU64,
}

impl Clients {
    /// Lists a new connection for as long as what is returned lives.
    pub(crate) fn add(self: &Arc<Self>, peer: &str, local: &str, now_ms: u64) -> Listed {
        let client = Arc::new(Client {
            id: self.opened.fetch_add(1, Relaxed) + 1,
            peer: peer.to_owned(),
            local: local.to_owned(),
            since_ms: now_ms,
            last_ms: AtomicU64::new(now_ms),
            last_command: AtomicU16::new(u16::MAX),
            queued: AtomicU32::new(0),
            watched: AtomicU32::new(0),
            protocol: AtomicU8::new(2),
            is_killed: AtomicBool::new(false),
            closer: OnceLock::new(),
            names: Mutex::default(),
        });
        self.open().insert(client.id, Arc::clone(&client));
        Listed { clients: Arc::clone(self), client }
    }

    /// Those that are open, oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Client>> {
        self.open().values().cloned().collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.open().len()
    }

    /// Connections since the start.
    pub(crate) fn opened(&self) -> u64 {
        self.opened.load(Relaxed)
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Client>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's place in the list. Dropped with the connection.
#[derive(Debug)]
pub(crate) struct Listed {
    clients: Arc<Clients>,
    pub(crate) client: Arc<Client>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.clients.open().remove(&self.client.id);
    }
}

//! The connections of all loops, for CLIENT LIST and CLIENT KILL.
//!
//! A connection writes what others may want to know of it into a [`Client`] that both hold. What
//! changes with every read is in atomics that only the connection writes, and no thread waits for.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed,
};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use keyrack_net::Closer;

use crate::redis::table;

/// The facts about a connection that other connections may read.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) peer: String,
    pub(crate) local: String,
    since_ms: u64,
    last_ms: AtomicU64,
    last_command: AtomicU16,
    waiting_bytes: AtomicUsize,
    /// Bytes of the commands queued in a transaction.
    pub(crate) queued_bytes: AtomicUsize,
    /// Commands queued in a transaction, plus one; 0 when there is none.
    pub(crate) queued: AtomicU32,
    pub(crate) watched: AtomicU32,
    pub(crate) protocol: AtomicU8,
    pub(crate) is_killed: AtomicBool,
    /// Ends the connection, once it is on a loop.
    pub(crate) closer: OnceLock<Closer>,
    names: Mutex<Names>,
}

/// The names that a client gives itself.
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

    /// Notes that bytes arrived, before their commands run: CLIENT LIST is one of them.
    pub(crate) fn note_arrival(&self, now_ms: u64) {
        self.last_ms.store(now_ms, Relaxed);
    }

    /// Notes the end of a read: the bytes of it that wait for more, and its last command.
    pub(crate) fn note_read(&self, command: Option<u16>, waiting_bytes: usize) {
        self.waiting_bytes.store(waiting_bytes, Relaxed);
        if let Some(command) = command {
            self.last_command.store(command, Relaxed);
        }
    }

    /// The command of the last read that was carried out, as a place in the table.
    pub(crate) fn last_command(&self) -> Option<u16> {
        Some(self.last_command.load(Relaxed)).filter(|index| usize::from(*index) < table::COUNT)
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
             psub=0 ssub=0 multi={} watch={} qbuf={} multi-mem={} events=r cmd={command} \
             user=default redir=-1 resp={} \
             lib-name={library} lib-ver={library_version}",
            self.id,
            self.peer,
            self.local,
            now_ms.saturating_sub(self.since_ms) / 1000,
            now_ms.saturating_sub(self.last_ms.load(Relaxed)) / 1000,
            i64::from(queued) - 1,
            self.watched.load(Relaxed),
            self.waiting_bytes.load(Relaxed),
            self.queued_bytes.load(Relaxed),
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
            waiting_bytes: AtomicUsize::new(0),
            queued_bytes: AtomicUsize::new(0),
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

    /// Ends a connection: it takes no more requests, is closed though it says nothing, and is no
    /// longer listed.
    pub(crate) fn kill(&self, client: &Client) {
        self.open().remove(&client.id);
        client.is_killed.store(true, Relaxed);
        if let Some(closer) = client.closer.get() {
            closer.close();
        }
    }

    /// The open connections, oldest first.
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

/// A connection's place in the list, which ends with this: when the last reply is written, though
/// the socket may stay open until the client has read it.
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

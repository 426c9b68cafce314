//! What all connections of one life of the server share: where it listens, whether it is about to
//! end, what was counted, and what went wrong first.

use super::speech::Protocol;
use std::collections::BTreeSet;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Different words of refusals that are kept.
const REFUSALS_MAX: usize = 20;

/// Why a connection does not go on.
#[derive(Debug)]
pub(super) enum Stop {
    /// The connection has ended.
    Closed,
    /// The server did something that it must not do.
    Wrong(String),
}

impl From<String> for Stop {
    fn from(what: String) -> Stop {
        Stop::Wrong(what)
    }
}

/// Counts of the whole soak.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Steps that were acknowledged; those of them that wrote.
    pub(super) steps: AtomicU64,
    pub(super) writes: AtomicU64,
    /// Writes that were refused for want of space.
    pub(super) refused: AtomicU64,
    /// Values that somebody else wrote, and that were right.
    pub(super) foreign: AtomicU64,
    /// Keys looked at after a connection began again, in this life of the server or the next.
    pub(super) verified: AtomicU64,
    pub(super) connections: AtomicU64,
    /// Connections that were left without reading what was asked for.
    pub(super) unread: AtomicU64,
}

pub(super) fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Relaxed);
}

/// One life of the server.
pub(super) struct Life<'a> {
    pub(super) addresses: [SocketAddr; 3],
    pub(super) counts: &'a Counts,
    /// Steps of this life.
    pub(super) steps: AtomicU64,
    /// Whether the disk has no space now; whether that was so in this life.
    pub(super) is_full: AtomicBool,
    pub(super) was_full: AtomicBool,
    /// The mean pause of a connection.
    pub(super) pause_ms: u64,
    is_over: Mutex<bool>,
    ended: Condvar,
    trouble: Mutex<Option<String>>,
    /// The words of refusals.
    refusals: Mutex<BTreeSet<String>>,
}

impl<'a> Life<'a> {
    pub(super) fn new(addresses: [SocketAddr; 3], counts: &'a Counts, pause_ms: u64) -> Life<'a> {
        Life {
            addresses,
            counts,
            steps: AtomicU64::new(0),
            is_full: AtomicBool::new(false),
            was_full: AtomicBool::new(false),
            pause_ms,
            is_over: Mutex::new(false),
            ended: Condvar::new(),
            trouble: Mutex::new(None),
            refusals: Mutex::default(),
        }
    }

    /// From now on connections may break.
    pub(super) fn end(&self) {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ended.notify_all();
    }

    pub(super) fn is_over(&self) -> bool {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits so long, or until the end; whether that has come.
    pub(super) fn pause(&self, for_ms: u64) -> bool {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = Duration::from_millis(for_ms);
        let result = self.ended.wait_timeout_while(is_over, wait, |is_over| !*is_over);
        *result.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Notes what went wrong, if it is the first, and ends the life.
    pub(super) fn fail(&self, what: String) {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(what);
        self.end();
    }

    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether a write may be refused: for want of space, in a life in which there was none.
    pub(super) fn may_refuse(&self, refusal: &[u8]) -> bool {
        let refusal = refusal.escape_ascii().to_string();
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        if refusals.len() < REFUSALS_MAX {
            refusals.insert(refusal);
        }
        self.was_full.load(Relaxed)
    }

    pub(super) fn refusals(&self) -> BTreeSet<String> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A new connection.
    ///
    /// # Errors
    ///
    /// `Closed` when the server is gone because the life is over.
    pub(super) fn connect(&self, protocol: Protocol) -> Result<TcpStream, Stop> {
        let stream = match TcpStream::connect(self.addresses[protocol as usize]) {
            Ok(stream) => stream,
            Err(_) if self.is_over() => return Err(Stop::Closed),
            Err(error) => return Err(Stop::Wrong(format!("cannot connect: {error}"))),
        };
        add(&self.counts.connections, 1);
        let stop = |error: std::io::Error| Stop::Wrong(format!("cannot set a socket up: {error}"));
        stream.set_nodelay(true).map_err(stop)?;
        stream.set_read_timeout(Some(crate::support::PATIENCE)).map_err(stop)?;
        stream.set_write_timeout(Some(crate::support::PATIENCE)).map_err(stop)?;
        Ok(stream)
    }
}

//! The handles of a server's loops: each has the loop's mailbox, its waker and its counters.
//!
//! Loops touch shared memory only when a connection comes or goes. The loop that accepts a
//! connection hands it to the loop with the fewest, so a few clients are spread as evenly as many.
//! On a tie it keeps the connection.
//!
//! **Invariants:** the number of open connections never exceeds its maximum: a connection is
//! counted before it is served. Its loop, or the guard of a loop that panicked, releases it. A loop
//! that has ended takes no mail.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::slab::Key;
use crate::socket::Socket;
use crate::stats::{Counters, Stats};
use crate::waker::Waker;

/// An accepted connection on its way to its loop.
#[derive(Debug)]
pub(crate) struct AcceptedSocket {
    pub(crate) socket: Socket,
    pub(crate) listener: usize,
    pub(crate) address: Option<SocketAddr>,
}

#[derive(Debug, Default)]
struct Mailbox {
    accepted: Vec<AcceptedSocket>,
    /// Connections that others want to end.
    endings: Vec<Key>,
    is_closed: bool,
}

/// One loop, as the others see it.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct LoopHandle {
    pub(crate) waker: Waker,
    pub(crate) counters: Counters,
    mailbox: Mutex<Mailbox>,
    /// Connections that it has, or that are in its mail.
    open: AtomicUsize,
}

/// All loops, and what is true of the whole server.
#[derive(Debug)]
pub(crate) struct LoopHandles {
    loops: Box<[LoopHandle]>,
    connections_max: usize,
    /// Locked for writing by an accept with a spare descriptor, for reading by any other accept.
    accepting: RwLock<()>,
    open: AtomicUsize,
    is_stopping: AtomicBool,
    /// When those that are still open are closed. Written before `is_stopping`.
    stop_deadline_ns: AtomicU64,
    panicked: AtomicU64,
}

impl LoopHandles {
    pub(crate) fn new(wakers: Vec<Waker>, connections_max: usize) -> Self {
        let handle = |waker| LoopHandle {
            waker,
            counters: Counters::default(),
            mailbox: Mutex::default(),
            open: AtomicUsize::new(0),
        };
        LoopHandles {
            loops: wakers.into_iter().map(handle).collect(),
            connections_max,
            accepting: RwLock::new(()),
            open: AtomicUsize::new(0),
            is_stopping: AtomicBool::new(false),
            stop_deadline_ns: AtomicU64::new(u64::MAX),
            panicked: AtomicU64::new(0),
        }
    }

    pub(crate) fn handle(&self, index: usize) -> &LoopHandle {
        &self.loops[index]
    }

    /// Held for an accept, so that no loop accepts with a spare descriptor meanwhile.
    pub(crate) fn while_accepting(&self) -> RwLockReadGuard<'_, ()> {
        self.accepting.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Held for an accept with a spare descriptor: no other loop takes what it gives up.
    pub(crate) fn while_no_other_accepts(&self) -> RwLockWriteGuard<'_, ()> {
        self.accepting.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a connection; false when there are as many as there may be.
    pub(crate) fn reserve_connection(&self) -> bool {
        // Relaxed: the count alone is shared.
        let had = self.open.fetch_add(1, Ordering::Relaxed);
        if had >= self.connections_max {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        true
    }

    /// Finds a loop for a connection that has a place; gives it back if that is the one that asks.
    pub(crate) fn assign(&self, from: usize, accepted: AcceptedSocket) -> Option<AcceptedSocket> {
        // Relaxed: a count that is a moment old gives a slightly worse choice.
        let load = |index: usize| self.loops[index].open.load(Ordering::Relaxed);
        let least = (0..self.loops.len()).min_by_key(|index| load(*index)).unwrap_or(from);
        let accepted =
            if load(least) < load(from) { self.loops[least].deliver(accepted)? } else { accepted };
        self.loops[from].open.fetch_add(1, Ordering::Relaxed);
        Some(accepted)
    }

    /// Gives back the place of a connection of this loop.
    pub(crate) fn release_connection(&self, index: usize) {
        self.loops[index].open.fetch_sub(1, Ordering::Relaxed);
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// The loop has ended, by a panic if so said: nothing more is delivered to it.
    pub(crate) fn close_handle(&self, index: usize, is_panic: bool) {
        let handle = &self.loops[index];
        let mut mailbox = handle.mailbox();
        mailbox.is_closed = true;
        mailbox.accepted.clear();
        // A dead loop is never the one with the fewest.
        let left = handle.open.swap(usize::MAX / 2, Ordering::Relaxed);
        self.open.fetch_sub(left, Ordering::Relaxed);
        if is_panic {
            self.panicked.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Tells all loops to end, the latest at `deadline_ns`. May be said again with another.
    pub(crate) fn stop(&self, deadline_ns: u64) {
        self.stop_deadline_ns.store(deadline_ns, Ordering::Relaxed);
        // Release pairs with the Acquire in `stop_deadline_ns`.
        self.is_stopping.store(true, Ordering::Release);
        for handle in &self.loops {
            handle.waker.wake();
        }
    }

    /// The end, if there is to be one.
    pub(crate) fn stop_deadline_ns(&self) -> Option<u64> {
        // Acquire pairs with the Release in `stop`: the deadline is there.
        self.is_stopping
            .load(Ordering::Acquire)
            .then(|| self.stop_deadline_ns.load(Ordering::Relaxed))
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats {
            open: self.open.load(Ordering::Relaxed) as u64,
            loops_panicked: self.panicked.load(Ordering::Relaxed),
            ..Stats::default()
        };
        for handle in &self.loops {
            handle.counters.add_to(&mut stats);
        }
        stats
    }
}

impl LoopHandle {
    /// Puts a connection into the mail; gives it back if the loop has ended.
    fn deliver(&self, accepted: AcceptedSocket) -> Option<AcceptedSocket> {
        let mut mailbox = self.mailbox();
        if mailbox.is_closed {
            return Some(accepted);
        }
        mailbox.accepted.push(accepted);
        self.open.fetch_add(1, Ordering::Relaxed);
        drop(mailbox);
        self.waker.wake();
        None
    }

    pub(crate) fn end_connection(&self, key: Key) {
        let mut mailbox = self.mailbox();
        if !mailbox.is_closed {
            mailbox.endings.push(key);
            drop(mailbox);
            self.waker.wake();
        }
    }

    /// Moves the mail to `accepted` and `endings`.
    pub(crate) fn collect(&self, accepted: &mut Vec<AcceptedSocket>, endings: &mut Vec<Key>) {
        let mut mailbox = self.mailbox();
        accepted.append(&mut mailbox.accepted);
        endings.append(&mut mailbox.endings);
    }

    fn mailbox(&self) -> MutexGuard<'_, Mailbox> {
        // Nothing panics while it is held.
        self.mailbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

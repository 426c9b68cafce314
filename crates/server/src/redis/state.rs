//! The state of a connection between two commands.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use keyrack_net::Charge;
use keyrack_wire::resp::{Protocol, Writer};

use crate::redis::clients::Client;
use crate::redis::counters::{Counters, bump};
use crate::redis::fault::Fault;
use crate::redis::task::Underway;
use crate::store_failures;

/// The state of a connection, beside the bytes it has not understood yet.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) client: Arc<Client>,
    protocol: Protocol,
    pub(crate) is_authenticated: bool,
    pub(crate) auth_failures: u32,
    /// The transaction that is being queued.
    pub(crate) queue: Option<Queue>,
    pub(crate) watched: Watched,
    /// Whether EXEC runs the commands of a transaction.
    pub(crate) is_executing: bool,
    pub(crate) replies: Replies,
    /// A command that is not at its end.
    pub(crate) task: Option<Box<Underway>>,
    /// Bytes of the request that is not whole, beside its input.
    pub(crate) parser_bytes: usize,
    /// Its share of the memory of all connections.
    charge: Charge,
    /// Whether the connection ends after this command.
    pub(crate) is_closing: bool,
}

/// Commands that wait for EXEC, as requests.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) requests: Vec<u8>,
    pub(crate) count: usize,
    /// Whether one of them was refused: EXEC will be too.
    pub(crate) is_broken: bool,
}

/// Keys that must not change before EXEC.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// The versions of their rows.
    pub(crate) versions: BTreeMap<Box<[u8]>, Version>,
    /// The bytes that they are charged.
    pub(crate) bytes: usize,
}

/// The version of a row, 0 without one, and the changes of the fields of a large hash.
pub(crate) type Version = (u64, u64);

/// Bytes that a watched key is charged beside its own: for its place in the map, and the
/// allocation.
pub(crate) const WATCHED_BYTES: usize = 64;

/// Bytes that a connection may keep without a further charge. Each is charged for them from the
/// start.
const UNCOUNTED_BYTES: usize = 1 << 10;

/// Which replies a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replies {
    All,
    None,
    /// CLIENT REPLY SKIP is being answered.
    SkipNext,
    /// The command being answered is the one to skip.
    SkipThis,
}

impl State {
    pub(crate) fn new(client: Arc<Client>, is_authenticated: bool, charge: Charge) -> Self {
        State {
            client,
            protocol: Protocol::Resp2,
            is_authenticated,
            auth_failures: 0,
            queue: None,
            watched: Watched::default(),
            is_executing: false,
            replies: Replies::All,
            task: None,
            parser_bytes: 0,
            charge,
            is_closing: false,
        }
    }

    /// Counts what is kept, and `more` that is about to be. False when there is no memory for it.
    #[inline]
    #[must_use]
    pub(crate) fn count_memory(&mut self, more: usize) -> bool {
        let queue = self.queue.as_ref().map_or(0, |queue| queue.requests.capacity());
        let task = self.task.as_ref().map_or(0, |task| task.work.memory_bytes());
        let kept = self.parser_bytes + self.watched.bytes + queue + task;
        self.charge.set((kept + more).saturating_sub(UNCOUNTED_BYTES))
    }

    #[inline]
    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    pub(crate) fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
        let number = if protocol == Protocol::Resp3 { 3 } else { 2 };
        self.client.protocol.store(number, Relaxed);
    }

    /// Whether commands are carried out as they come, and answered.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.is_authenticated && self.queue.is_none() && self.replies == Replies::All
    }

    /// A command of the transaction was refused: EXEC will be too, and nothing of it is kept.
    pub(crate) fn break_queue(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.is_broken = true;
            queue.requests = Vec::new();
            self.client.queued_bytes.store(0, Relaxed);
        }
    }

    /// Ends a transaction that is being queued, and forgets the watched keys.
    pub(crate) fn end_transaction(&mut self) -> Option<Queue> {
        self.unwatch();
        self.client.queued.store(0, Relaxed);
        self.client.queued_bytes.store(0, Relaxed);
        self.queue.take()
    }

    pub(crate) fn unwatch(&mut self) {
        self.watched = Watched::default();
        self.client.watched.store(0, Relaxed);
    }

    /// Replaces what was written since `place` by an error.
    pub(crate) fn fail(
        &self,
        counters: &Counters,
        fault: &Fault,
        output: &mut Vec<u8>,
        place: usize,
    ) {
        if let Fault::Store(error) = fault {
            store_failures::log(error);
        }
        output.truncate(place);
        bump(&counters.failed, 1);
        self.put_fault(fault, output);
    }

    /// Writes an error.
    #[cold]
    pub(crate) fn put_fault(&self, fault: &Fault, output: &mut Vec<u8>) {
        fault.with_line(|line| Writer::new(output, self.protocol).error(line));
    }

    /// Takes back the reply that begins at `place`, if it is not wanted.
    #[inline]
    pub(crate) fn drop_unwanted_reply(&mut self, output: &mut Vec<u8>, place: usize) {
        if self.replies == Replies::All {
            return;
        }
        output.truncate(place);
        self.replies = match self.replies {
            Replies::None => Replies::None,
            Replies::SkipNext => Replies::SkipThis,
            Replies::SkipThis | Replies::All => Replies::All,
        };
    }
}

//! Requests under way, whose answers are checked as they come: over a connection, or by datagrams.
//!
//! A slot holds what the answer is checked against, in a buffer that is used again: once all slots
//! have been used, a request allocates nothing.

use super::datagram_window::DatagramWindow;
use super::stream_window::StreamWindow;
use keyrack_wire::masstree::{Command, Limits, Reply};
use keyrack_workload::kvtest::{Halt, mismatch};

/// Bytes of the longest answer.
pub(super) const ANSWER_BYTES_MAX: usize = 64 << 20;

pub(super) const LIMITS: Limits = Limits {
    key_bytes_max: 64 << 10,
    value_bytes_max: 16 << 20,
    columns_max: 1 << 16,
    elements_max: 1 << 20,
    message_bytes_max: ANSWER_BYTES_MAX as u64,
};

/// Requests under way.
#[derive(Debug)]
pub(super) enum Window {
    Stream(StreamWindow),
    Datagrams(DatagramWindow),
}

impl Window {
    /// Whether the server went away: what it had acknowledged before is what it has to have kept.
    pub(super) fn is_lost(&self) -> bool {
        match self {
            Window::Stream(window) => window.is_lost(),
            Window::Datagrams(window) => window.is_lost(),
        }
    }

    /// Requests whose answers have come.
    pub(super) fn done(&self) -> u64 {
        match self {
            Window::Stream(window) => window.done(),
            Window::Datagrams(window) => window.done(),
        }
    }

    /// Sends a request whose answer is checked later; `key` and `expected` count for
    /// [`Wanted::Value`] and [`Wanted::Nothing`].
    #[inline]
    pub(super) fn send(
        &mut self,
        command: &Command<'_>,
        wanted: Wanted,
        key: &[u8],
        expected: &[u8],
    ) -> Result<(), Halt> {
        match self {
            Window::Stream(window) => window.send(command, wanted, key, expected),
            Window::Datagrams(window) => window.send(command, wanted, key, expected),
        }
    }

    /// Sends a request and waits for its answer, behind those of all requests before it.
    pub(super) fn ask<R>(
        &mut self,
        command: &Command<'_>,
        read: impl FnOnce(&Reply<'_>) -> R,
    ) -> Result<R, Halt> {
        match self {
            Window::Stream(window) => window.ask(command, read),
            Window::Datagrams(window) => window.ask(command, read),
        }
    }

    /// Waits until no answer is missing.
    pub(super) fn drain(&mut self) -> Result<(), Halt> {
        match self {
            Window::Stream(window) => window.drain(0),
            Window::Datagrams(window) => window.drain(),
        }
    }
}

/// What is known of a request whose answer is missing.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    wanted: Wanted,
    /// The key, and behind it the value that is expected.
    bytes: Vec<u8>,
    key_bytes: usize,
}

/// Which answer a request should have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Any to a put or a replacement.
    #[default]
    Stored,
    /// Any to a removal.
    Removed,
    /// The value of a key, or of a column of its row where one is given.
    Value(Option<u16>),
    /// That there is no such row.
    Nothing,
    /// That a checkpoint has begun.
    Checkpoint,
}

impl Slot {
    /// Makes it that of a new request.
    #[inline]
    pub(super) fn set(&mut self, wanted: Wanted, key: &[u8], expected: &[u8]) {
        self.wanted = wanted;
        if let Wanted::Value(_) | Wanted::Nothing = wanted {
            self.key_bytes = key.len();
            self.bytes.clear();
            self.bytes.extend_from_slice(key);
            self.bytes.extend_from_slice(expected);
        }
    }

    #[inline]
    pub(super) fn check(&self, reply: &Reply<'_>) -> Result<(), Halt> {
        match (self.wanted, reply) {
            (Wanted::Stored, Reply::Stored { .. })
            | (Wanted::Removed, Reply::Removed { .. })
            | (Wanted::Checkpoint, Reply::Checkpoint { .. }) => Ok(()),
            (Wanted::Value(column), Reply::Row { values, .. }) => {
                let found = values.clone().next().flatten();
                let (key, expected) = self.bytes.split_at(self.key_bytes);
                if found == Some(expected) {
                    return Ok(());
                }
                Err(mismatch(column, key, expected, found))
            }
            (Wanted::Nothing, Reply::Row { values, .. }) => match values.clone().next().flatten() {
                None => Ok(()),
                Some(found) => Err(Halt::failed(format!(
                    "key {}: expected nothing, found {}",
                    self.bytes.escape_ascii(),
                    found.escape_ascii()
                ))),
            },
            (_, Reply::Unknown { .. }) => Err(Halt::failed(
                "server: it refuses a request, or cannot answer it in so small a datagram",
            )),
            _ => Err(Halt::failed("server: an answer to another kind of request")),
        }
    }
}

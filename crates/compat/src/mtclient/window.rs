//! Requests in flight, whose answers are checked as they come: over a connection, or by datagrams.

use super::datagram_window::DatagramWindow;
use super::slot::Wanted;
use super::stream_window::StreamWindow;
use keyrack_wire::masstree::{Command, Reply};
use keyrack_workload::kvtest::Halt;

/// Requests in flight.
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

//! One connection of memcached's protocols: what it keeps between two calls of `serve`.

use super::cx::Cx;
use super::output::Cut;
use crate::log::{events, peer_text};
use crate::password::Password;
use std::net::SocketAddr;

/// The last line of a connection at the limit of all connections' memory.
const OUT_OF_MEMORY: &[u8] =
    b"SERVER_ERROR out of memory: connections hold what clients-memory-max allows\r\n";

/// Which protocol a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Dialect {
    #[default]
    Unknown,
    Text,
    Binary,
}

#[derive(Debug, Default)]
pub(crate) struct Connection {
    pub(super) dialect: Dialect,
    pub(super) authenticated: bool,
    /// Where the client is; nothing for a unix socket.
    peer: Option<SocketAddr>,
    /// Bytes still to come that belong to a refused request.
    pub(super) skip: u64,
    /// Keys of the first request in the input that are answered already.
    pub(super) answered: u32,
    /// Bytes of an unfinished line of keys in which its end was looked for.
    pub(super) searched: usize,
    /// The key from which a metadump goes on.
    pub(super) dump: Option<Vec<u8>>,
}

/// How a step of a dialect left the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The input is incomplete: it must hold at least this many bytes from its front.
    Need(usize),
    /// There is more to do after others are served.
    Again,
    /// Close when the output is sent.
    Close,
}

impl Connection {
    /// A connection of a client that must authenticate if there is a password.
    pub(crate) fn new(password: &Password, peer: Option<SocketAddr>) -> Self {
        Connection { authenticated: !password.is_set(), peer, ..Connection::default() }
    }

    /// Notes that the client gave a wrong password, with that name.
    pub(super) fn refused(&self, cx: &Cx<'_>, user: &[u8]) {
        cx.counts.auth_errors.add(1);
        events::auth_refused("memcached", &peer_text(self.peer), user);
    }

    /// Notes that the client broke the protocol, and is disconnected.
    pub(super) fn broke_protocol(&self, cause: &str) {
        events::protocol_error("memcached", &peer_text(self.peer), cause);
    }

    /// Whether the client has authenticated, or need not.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.authenticated
    }

    /// Bytes that it keeps from one iteration to the next.
    pub(crate) fn kept_bytes(&self) -> usize {
        self.dump.as_ref().map_or(0, Vec::capacity)
    }

    /// Forgets what it keeps, since there is no memory for it, and says so before its end. In the
    /// binary protocol every reply names its request, so nothing is said there.
    pub(crate) fn out_of_memory(&mut self, output: &mut Vec<u8>) {
        self.dump = None;
        if self.dialect == Dialect::Text {
            output.extend_from_slice(OUT_OF_MEMORY);
        }
    }

    /// Forgets how far the first request was answered, and says it.
    pub(super) fn resume(&mut self, request: usize) -> Cut {
        Cut { request, keys: std::mem::take(&mut self.answered) }
    }

    /// Drops the bytes of a refused request, of those to come too.
    pub(super) fn skip(&mut self, at: &mut usize, input: &[u8], bytes: u64) {
        let here = usize::try_from(bytes).unwrap_or(usize::MAX).min(input.len() - *at);
        *at += here;
        self.skip = bytes - here as u64;
    }
}

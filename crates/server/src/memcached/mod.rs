//! memcached's three protocols on rows: a connection, and what it works with.
//!
//! ```text
//!   input --wire::parse--> text, meta, binary --> items (what the commands mean) --> RowSession
//!                             |
//!                             +--> output: replies in the order of the requests
//! ```
//!
//! The first byte of a connection says whether it speaks the binary protocol. Meta commands are
//! lines among the others.
//!
//! **Invariant:** one call of `serve` carries out whole requests alone, and stops when the output
//! of the iteration is full; what it leaves in the input it gets again.

mod binary;
mod binary_gets;
mod counts;
mod cx;
mod detail;
mod dump;
mod gets;
mod items;
mod meta;
mod reads;
mod shared;
mod stats;
mod text;

#[cfg(test)]
mod tests;

pub(crate) use counts::Counts;
pub(crate) use cx::Cx;
pub(crate) use shared::{Facts, Shared};

use crate::password::Password;
use gets::{Cut, Output};
use keyrack_net::{Served, Verdict};
use keyrack_wire::memcached::{Limits, Sniffed, sniff};
use std::net::SocketAddr;

/// The last line of a connection at the limit of all connections' memory.
const OUT_OF_MEMORY: &[u8] =
    b"SERVER_ERROR out of memory: connections hold what clients-memory-max allows\r\n";

/// Which protocol a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Dialect {
    #[default]
    Unknown,
    Text,
    Binary,
}

/// One connection.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    dialect: Dialect,
    authenticated: bool,
    /// Where the client is; nothing for a unix socket.
    peer: Option<SocketAddr>,
    /// Bytes still to come that belong to a refused request.
    skip: u64,
    /// Keys of the first request in the input that are answered already.
    answered: u32,
    /// Bytes of an unfinished line of keys in which its end was looked for.
    searched: usize,
    /// The key from which a metadump goes on.
    dump: Option<Vec<u8>>,
}

/// How a step of a dialect left the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Nothing more can be done with the input; it has to hold so many bytes from its front on.
    Need(usize),
    /// There is more to do after others are served.
    Again,
    /// Close when the output is sent.
    Close,
}

impl Connection {
    /// A connection of a client that need not say who it is, or has to.
    pub(crate) fn new(password: &Password, peer: Option<SocketAddr>) -> Self {
        Connection { authenticated: !password.is_set(), peer, ..Connection::default() }
    }

    /// Notes that the client gave a wrong password.
    fn refused(&self, cx: &Cx<'_>) {
        cx.counts.auth_errors.add(1);
        let peer = self.peer.map_or_else(|| "unix".to_owned(), |peer| peer.to_string());
        cx.shared.password.refused("memcached", &peer, cx.now_ms);
    }

    /// Whether the client has said who it is, or need not.
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

    /// Carries out the requests in `input`, and appends the replies to `output`.
    pub(crate) fn serve(&mut self, cx: &mut Cx<'_>, input: &[u8], output: &mut Vec<u8>) -> Served {
        let mut at = usize::try_from(self.skip).unwrap_or(usize::MAX).min(input.len());
        self.skip -= at as u64;
        if self.skip > 0 {
            return served(at, Next::Need(1));
        }
        if self.dialect == Dialect::Unknown && at < input.len() {
            self.dialect = match sniff(&input[at..]) {
                None => return served(at, Next::Need(input.len() - at + 1)),
                Some(Sniffed::Binary) => Dialect::Binary,
                Some(Sniffed::Text) => Dialect::Text,
                Some(_) => {
                    cx.counts.errors.add(1);
                    return served(input.len(), Next::Close);
                }
            };
        }
        let mut out = Output::new(output);
        let limits = if self.authenticated { cx.shared.limits } else { Limits::UNAUTHENTICATED };
        let next = match self.dialect {
            Dialect::Binary => binary::serve(self, cx, &limits, input, &mut at, &mut out),
            _ => text::serve(self, cx, &limits, input, &mut at, &mut out),
        };
        served(at, next)
    }

    /// Forgets how far the first request was answered, and says it.
    fn resume(&mut self, request: usize) -> Cut {
        Cut { request, keys: std::mem::take(&mut self.answered) }
    }

    /// Drops the bytes of a refused request, of those to come too.
    fn skip(&mut self, at: &mut usize, input: &[u8], bytes: u64) {
        let here = usize::try_from(bytes).unwrap_or(usize::MAX).min(input.len() - *at);
        *at += here;
        self.skip = bytes - here as u64;
    }
}

fn served(consumed: usize, next: Next) -> Served {
    match next {
        Next::Need(need) => Served { consumed, verdict: Verdict::Continue, need },
        Next::Again => Served { consumed, verdict: Verdict::Again, need: 0 },
        Next::Close => Served { consumed, verdict: Verdict::Close, need: 0 },
    }
}

//! The contract between the event loops and a protocol: read this first.
//!
//! A loop thread has one [`Worker`] and runs one *iteration* after another:
//!
//! ```text
//!   wait for the kernel
//!   begin_iteration
//!     for every connection that has input: read once, then serve   (once more after Again)
//!   end_iteration -> Durable:     one write for each connection
//!                 -> Wait(token): until is_done(token), the replies of this iteration are
//!                                 deferred, and their connections are not read
//! ```
//!
//! Everything of a worker is called by its own thread, one call at a time, so a worker needs no
//! lock. [`Worker::serve`] gets all bytes that have arrived and not been consumed, executes all
//! complete requests among them, and appends the replies. It keeps no bytes: an incomplete request
//! is given again, from its start, with more behind it.
//!
//! **Invariants:** replies of a connection are sent in the order in which they were appended. What
//! was appended in an iteration that answers `Wait` is not sent before its token is done.

use std::net::SocketAddr;

use crate::closer::Closer;
use crate::endpoint::is_loopback_ip;
use crate::options::Limits;
use crate::stats::CloseReason;
use crate::waker::Waker;

/// A factory of workers, one for each loop thread.
pub trait Service: Send + Sync + 'static {
    /// One thread's part of the service.
    type Worker<'a>: Worker
    where
        Self: 'a;

    /// The worker of the loop with this index, made by its own thread. `waker` makes that loop look
    /// at [`Worker::is_done`] again, from any thread.
    fn worker(&self, index: usize, waker: Waker) -> Self::Worker<'_>;
}

/// One thread's part of a service.
pub trait Worker {
    /// The protocol's state of a connection.
    type Connection;

    /// A client has connected to a listener, an index into
    /// [`Options::listeners`](crate::Options::listeners). May come outside of an iteration.
    /// `limits` holds the ones of the options, and may be changed here and in [`Worker::serve`].
    fn open(&mut self, listener: usize, peer: &Peer, limits: &mut Limits) -> Self::Connection;

    /// The connection just opened is one of the loop's. `closer` ends it, from any thread.
    fn opened(&mut self, connection: &mut Self::Connection, closer: Closer) {
        let _ = (connection, closer);
    }

    /// An iteration begins. `now_ns` counts from an arbitrary origin and never goes back.
    ///
    /// A quick iteration comes where the one before was spent. Its connections are the same, and
    /// each has an iteration that is not quick behind it: what is cheap should be served now, and
    /// the rest left with [`Verdict::Again`].
    fn begin_iteration(&mut self, now_ns: u64, is_quick: bool) {
        let _ = (now_ns, is_quick);
    }

    /// Whether the iteration has carried out as much as one may. Connections that were not served
    /// yet are the first of the next iteration.
    fn is_spent(&self) -> bool {
        false
    }

    /// Executes the complete requests at the beginning of `input`, and appends their replies to
    /// `output`. The worker ignores what `output` already holds.
    fn serve(
        &mut self,
        connection: &mut Self::Connection,
        input: &[u8],
        output: &mut Vec<u8>,
        limits: &mut Limits,
    ) -> Served;

    /// All connections of this iteration were served. May the replies be sent?
    fn end_iteration(&mut self) -> IterationEnd {
        IterationEnd::Durable
    }

    /// Replies are deferred, and [`Worker::is_done`] is about to be asked for them: once an
    /// iteration and after each wake.
    fn poll_deferred(&mut self) {}

    /// May the replies of the iteration that answered `Wait(token)` be sent? Asked in the order of
    /// the iterations, once an iteration and after each wake.
    fn is_done(&self, token: u64) -> bool {
        let _ = token;
        true
    }

    /// The connection is closed, since it needs memory that is not there
    /// ([`Options::memory`](crate::Options::memory)). What the last call of [`Worker::serve`]
    /// appended is dropped, where that was too much. What is appended to `output` is the last that
    /// the client gets. Not called for a client that does not read its replies.
    fn out_of_memory(&mut self, connection: &mut Self::Connection, output: &mut Vec<u8>) {
        let _ = (connection, output);
    }

    /// A connection is closed, and why. May come outside of an iteration.
    fn closed(&mut self, connection: Self::Connection, reason: CloseReason) {
        let _ = reason;
        drop(connection);
    }

    /// A datagram has arrived. What is appended to `reply` goes back as one datagram, if it is not
    /// larger than the listener's limit; nothing appended, nothing sent.
    fn datagram(&mut self, listener: usize, peer: SocketAddr, bytes: &[u8], reply: &mut Vec<u8>) {
        let _ = (listener, peer, bytes, reply);
    }

    /// A client is refused, because there are too many, or no memory for it: the reply to it. The
    /// client gets as much of it as the kernel takes at once. Clients of listeners with TLS get
    /// nothing.
    fn refusal(&self, listener: usize) -> &[u8] {
        let _ = listener;
        &[]
    }
}

/// The outcome of [`Worker::serve`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Bytes of the input that are consumed.
    pub consumed: usize,
    /// The next call needs at least this many bytes, counted from the first that was not consumed.
    /// 0 if that is unknown. More than [`Limits::input_bytes_max`] closes the
    /// connection.
    pub need: usize,
    /// What happens to the connection.
    pub verdict: Verdict,
}

impl Served {
    /// All complete requests are done.
    pub fn all(consumed: usize) -> Self {
        Served { consumed, need: 0, verdict: Verdict::Continue }
    }
}

/// What happens to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on when more bytes have arrived.
    Continue,
    /// There is more to do with the bytes at hand: call again after the others.
    Again,
    /// It is closed when all replies are sent. Bytes that are not consumed are dropped.
    Close,
    /// As `Close`, because there is no memory for the worker's state of it.
    OutOfMemory,
}

/// Whether the replies of an iteration may be sent: the result of [`Worker::end_iteration`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IterationEnd {
    /// They may be sent.
    Durable,
    /// Not before [`Worker::is_done`] says so of this token.
    Wait(u64),
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The address; `None` for Unix sockets, whose clients have none.
    pub address: Option<SocketAddr>,
    /// The address of the server's side; `None` for Unix sockets.
    pub local: Option<SocketAddr>,
    /// Does the connection use TLS?
    pub is_encrypted: bool,
}

impl Peer {
    /// Is the client on this machine?
    pub fn is_local(&self) -> bool {
        self.address.is_none_or(|address| is_loopback_ip(address.ip()))
    }
}

//! One loop's part of the server: its session, its reader slot, and the iteration.
//!
//! ```text
//!   begin_iteration   reads the time once; takes the reader slot
//!   serve             the connection's protocol executes the requests that have arrived
//!   end_iteration     releases the reader slot; flushes once; replies are sent, or deferred
//! ```
//!
//! **Invariant:** what an iteration wrote is flushed before its replies are sent (see `flusher`).

use crate::client::{Client, Connection};
use crate::durations::Kind;
use crate::eviction_log::EvictionLog;
use crate::flusher::Flusher;
use crate::log::{self, LogLevel, events, peer_text};
use crate::metrics::LoopMetrics;
use crate::state::{State, net_stats};
use crate::work::{Counted, Debt, Work};
use crate::{Protocol, ReaderGuard, masstree, memcached, redis, sniff};
use keyrack_measure::{Clock, wall};
use keyrack_net::{
    Charge, CloseReason, Closer, IterationEnd, Limits, LoopMemory, Peer, Served, Verdict, Waker,
};
use keyrack_rowstore::RowSession;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;

/// Bytes of scratch memory that stay from one iteration to the next.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

/// Bytes of a request of a client that has not authenticated.
const INPUT_BYTES_BEFORE_AUTH_MAX: usize = 16 << 10;

/// Bytes of replies that wait for such a client.
const OUTPUT_BYTES_BEFORE_AUTH_MAX: usize = 64 << 10;

/// One loop's part of the server.
pub(crate) struct Worker<'a> {
    state: &'a State,
    index: usize,
    metrics: &'a LoopMetrics,
    session: Counted<'a>,
    work: Rc<Work>,
    /// The reader slot, while an iteration runs.
    reader: Option<ReaderGuard<'a>>,
    flusher: Flusher<'a>,
    redis: redis::Local,
    /// The memory that the protocols keep for the connections of this loop.
    memory: LoopMemory,
    scratch: Vec<u8>,
    evictions: EvictionLog,
    clock: Clock,
    /// The time of the iteration.
    now_ms: u64,
    began_ticks: u64,
    /// Whether this iteration is for small requests.
    is_quick: bool,
}

impl fmt::Debug for Worker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("index", &self.index).finish_non_exhaustive()
    }
}

/// The evictions since the last line are logged at the end.
impl Drop for Worker<'_> {
    fn drop(&mut self) {
        if self.index == 0 {
            self.evictions.write(&**self.state.rows);
        }
    }
}

impl<'a> Worker<'a> {
    /// The worker of loop `index`.
    ///
    /// # Panics
    /// When the store has no session for it: the loop ends, and the server with it.
    pub(crate) fn new(state: &'a State, index: usize, waker: Waker) -> Self {
        let session = match state.rows.session() {
            Ok(session) => session,
            Err(error) => {
                state.control.fail(error.to_string());
                panic!("no session: {error}");
            }
        };
        let now_ms = wall::unix_ms();
        let work = Rc::new(Work::default());
        Worker {
            state,
            index,
            metrics: &state.loops[index],
            session: Counted::new(session, Rc::clone(&work)),
            work,
            reader: None,
            flusher: Flusher::new(state, index, waker),
            redis: redis::Local::new(index, now_ms ^ (index as u64) << 56),
            memory: LoopMemory::new(&state.clients_memory),
            scratch: Vec::new(),
            evictions: EvictionLog::default(),
            clock: Clock::calibrated(),
            now_ms,
            began_ticks: 0,
            is_quick: false,
        }
    }

    fn connection(&self, protocol: Protocol, peer: &Peer) -> Connection {
        match protocol {
            Protocol::Mixed => Connection::Mixed(*peer, None),
            Protocol::Memcached => {
                self.state.memcached.counts[self.index].total_connections.add(1);
                let password = &self.state.memcached.password;
                let connection = memcached::Connection::new(password, peer.address);
                Connection::Memcached(connection, self.memory.charge())
            }
            Protocol::Masstree => {
                let connection = Box::new(masstree::Connection::new());
                Connection::Masstree(connection, self.memory.charge())
            }
            Protocol::Resp => {
                let (peer, local) = (peer_text(peer.address), peer_text(peer.local));
                // Connections open between iterations: the time of the last may be long ago.
                let now_ms = wall::unix_ms();
                let (shared, memory) = (&self.state.redis, &self.memory);
                let connection = redis::Connection::new(shared, memory, &peer, &local, now_ms);
                Connection::Redis(Box::new(connection))
            }
        }
    }

    /// Finds out what a connection of a mixed listener speaks. The answer to its input, if it
    /// cannot be served yet, or at all.
    fn recognize(&self, connection: &mut Connection, input: &[u8]) -> Option<Served> {
        let Connection::Mixed(peer, closer) = connection else { return None };
        let Some(protocol) = sniff::protocol(input) else {
            return Some(Served { consumed: 0, need: input.len() + 1, verdict: Verdict::Continue });
        };
        if protocol == Protocol::Masstree && self.state.memcached.password.is_set() {
            // The protocol has no way to authenticate.
            events::auth_refused("masstree", &peer_text(peer.address), b"");
            return Some(Served { consumed: input.len(), need: 0, verdict: Verdict::Close });
        }
        let (peer, closer) = (*peer, closer.take());
        *connection = self.connection(protocol, &peer);
        if let Some(closer) = closer {
            connection.closes_by(closer);
        }
        None
    }

    fn serve_memcached(
        &mut self,
        connection: &mut memcached::Connection,
        charge: &mut Charge,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Served {
        let counts = &self.state.memcached.counts[self.index];
        let mut cx = memcached::Cx {
            rows: &mut self.session,
            work: &self.work,
            now_ms: self.now_ms,
            shared: &self.state.memcached,
            counts,
            batch: [0; Kind::COUNT],
            scratch: &mut self.scratch,
        };
        let begun = output.len();
        let began_ticks = self.clock.ticks();
        let mut served = connection.serve(&mut cx, input, output);
        let batch = cx.batch;
        let taken = self.clock.ns_between(began_ticks, self.clock.ticks());
        self.metrics.memcached_ns.record(&batch, taken);
        if !charge.set(connection.kept_bytes()) {
            connection.out_of_memory(output);
            served.verdict = Verdict::OutOfMemory;
        }
        counts.bytes_read.add(served.consumed as u64);
        counts.bytes_written.add((output.len() - begun) as u64);
        counts.conn_yields.add(u64::from(served.verdict == Verdict::Again));
        served
    }

    fn serve_redis(
        &mut self,
        connection: &mut redis::Connection,
        rows_wait: bool,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Served {
        let state = self.state;
        let mut cx = redis::Context {
            session: &mut self.session,
            work: &self.work,
            rows_wait,
            store: &**state.rows,
            reader: self.reader.get_or_insert_with(|| state.readers.enter(self.index)),
            shared: &state.redis,
            local: &mut self.redis,
            now_ms: self.now_ms,
        };
        connection.serve(&mut cx, input, output)
    }

    fn serve_masstree(
        &mut self,
        connection: &mut masstree::Connection,
        charge: &mut Charge,
        input: &[u8],
        output: &mut Vec<u8>,
    ) -> Served {
        let began_ticks = self.clock.ticks();
        let before = self.metrics.masstree.by_kind();
        let mut served = self.with_masstree(|cx| connection.serve(cx, input, output));
        let batch = self.metrics.masstree.since(before);
        let taken = self.clock.ns_between(began_ticks, self.clock.ticks());
        self.metrics.masstree_ns.record(&batch, taken);
        if !charge.set(connection.kept_bytes()) {
            connection.out_of_memory(output);
            served.verdict = Verdict::OutOfMemory;
        }
        served
    }

    /// Lends `run` what Masstree's messages work with.
    fn with_masstree<R>(&mut self, run: impl FnOnce(&mut masstree::Cx<'_>) -> R) -> R {
        let state = self.state;
        run(&mut masstree::Cx {
            rows: &mut self.session,
            work: &self.work,
            limits: &state.masstree,
            counts: &self.metrics.masstree,
            thread: self.index as u32,
            checkpoint: &|| {
                state.control.begin_checkpoint();
            },
            scratch: &mut self.scratch,
        })
    }
}

/// Logs why a connection was closed.
fn log_closed(client: &Client, reason: CloseReason) {
    let (protocol, peer) = (client.connection.protocol().clients(), &*client.peer_text());
    match reason {
        CloseReason::Oversized => events::request_too_large(protocol, peer),
        CloseReason::Memory => events::clients_memory_full(protocol, peer),
        CloseReason::StalledOutput => events::output_stalled(protocol, peer),
        CloseReason::Request | CloseReason::FirstRequest => events::request_late(protocol, peer),
        CloseReason::Tls => events::tls_failed(protocol, peer),
        _ => {}
    }
    events::connection_closed(protocol, peer, reason.name());
}

impl keyrack_net::Worker for Worker<'_> {
    type Connection = Client;

    fn open(&mut self, listener: usize, peer: &Peer, limits: &mut Limits) -> Client {
        let protocol = self.state.protocols.get(listener).copied().unwrap_or(Protocol::Mixed);
        if self.state.memcached.password.is_set() && protocol != Protocol::Masstree {
            limits.input_bytes_max = INPUT_BYTES_BEFORE_AUTH_MAX;
            limits.output_bytes_max = OUTPUT_BYTES_BEFORE_AUTH_MAX;
        }
        let connection = self.connection(protocol, peer);
        let client = Client { connection, debt: Debt::default(), peer: peer.address };
        if log::is_on(LogLevel::Debug) {
            events::connection_opened(protocol.clients(), &client.peer_text());
        }
        client
    }

    fn opened(&mut self, client: &mut Client, closer: Closer) {
        client.connection.closes_by(closer);
    }

    fn begin_iteration(&mut self, _: u64, is_quick: bool) {
        self.is_quick = is_quick;
        self.work.begin_iteration(is_quick);
        self.began_ticks = self.clock.ticks();
        self.now_ms = wall::unix_ms();
        // The guard of the iteration before, if that had no end.
        self.reader = None;
        self.reader = Some(self.state.readers.enter(self.index));
        self.session.at(self.now_ms);
        if self.index == 0 {
            self.evictions.poll(&**self.state.rows, self.now_ms);
        }
        let flushed = self.state.memcached.flush_if_due(&mut self.session, self.now_ms);
        if let Err(error) = flushed {
            events::flush_all_failed(&error.to_string());
        }
    }

    fn serve(
        &mut self,
        client: &mut Client,
        input: &[u8],
        output: &mut Vec<u8>,
        limits: &mut Limits,
    ) -> Served {
        let Client { connection, debt, peer } = client;
        let is_light = debt.is_light(self.now_ms) && !self.work.is_iteration_spent();
        let rows_wait = self.is_quick && !is_light;
        if rows_wait && !matches!(connection, Connection::Redis(_)) {
            return Served { consumed: 0, need: 0, verdict: Verdict::Again };
        }
        self.work.begin_slice();
        let spent_before = self.work.spent();
        if let Some(served) = self.recognize(connection, input) {
            return served;
        }
        let served = match connection {
            Connection::Mixed(..) => return Served::all(0),
            Connection::Memcached(connection, charge) => {
                self.serve_memcached(connection, charge, input, output)
            }
            Connection::Redis(connection) => self.serve_redis(connection, rows_wait, input, output),
            Connection::Masstree(connection, charge) => {
                let served = self.serve_masstree(connection, charge, input, output);
                if connection.broke_protocol {
                    let cause = "a message that is none, or none that may come then";
                    events::protocol_error("masstree", &peer_text(*peer), cause);
                }
                served
            }
        };
        // The replies may need the memory that is kept no longer.
        self.memory.trim();
        debt.add(self.work.spent() - spent_before, self.now_ms);
        let state = self.state;
        if limits.input_bytes_max < state.request_bytes_max && connection.is_authenticated() {
            limits.input_bytes_max = state.request_bytes_max;
            limits.output_bytes_max = state.output_bytes_max;
        }
        served
    }

    fn out_of_memory(&mut self, client: &mut Client, output: &mut Vec<u8>) {
        client.connection.out_of_memory(output);
    }

    fn is_spent(&self) -> bool {
        self.work.is_iteration_spent()
    }

    fn closed(&mut self, client: Client, reason: CloseReason) {
        if reason.is_failure() || log::is_on(LogLevel::Debug) {
            log_closed(&client, reason);
        }
        if let Connection::Memcached(..) = client.connection {
            self.state.memcached.counts[self.index].closed_connections.add(1);
        }
        drop(client);
        self.memory.trim();
    }

    fn end_iteration(&mut self) -> IterationEnd {
        self.reader = None;
        if self.scratch.capacity() > SCRATCH_BYTES_MAX {
            self.scratch = Vec::new();
        }
        let end = self.flusher.end_iteration(&mut self.session);
        let taken = self.clock.ns_between(self.began_ticks, self.clock.ticks());
        self.metrics.iteration_ns.record(taken);
        end
    }

    fn poll_deferred(&mut self) {
        self.flusher.poll(&mut self.session);
    }

    fn is_done(&self, token: u64) -> bool {
        self.flusher.is_done(token)
    }

    fn datagram(&mut self, _: usize, _: SocketAddr, bytes: &[u8], reply: &mut Vec<u8>) {
        self.with_masstree(|cx| masstree::datagram(cx, bytes, reply));
    }

    fn refusal(&self, listener: usize) -> &[u8] {
        let protocol = self.state.protocols.get(listener);
        let open = net_stats(&self.state.loops_handle).open;
        events::connection_refused(protocol.map_or("mixed", |protocol| protocol.clients()), open);
        match protocol {
            Some(Protocol::Memcached) => b"ERROR Too many open connections\r\n",
            Some(Protocol::Resp) => b"-ERR max number of clients reached\r\n",
            _ => b"",
        }
    }
}

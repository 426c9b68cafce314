//! One loop's part of the server: its session, its reader slot, and the iteration.
//!
//! ```text
//!   begin_iteration   reads the time once; takes the reader slot
//!   serve             the connection's protocol executes the requests that have arrived
//!   end_iteration     releases the reader slot; flushes once; replies are sent, or deferred
//! ```
//!
//! **Invariant:** what an iteration wrote is flushed before its replies are sent. A flush that
//! fails because the disk is full is tried again, and nothing is sent meanwhile; one that fails for
//! good ends the server.

use crate::metrics::LoopMetrics;
use crate::state::State;
use crate::work::{Counted, Debt, Work};
use crate::{Protocol, ReaderGuard, masstree, memcached, redis, sniff};
use keyrack_measure::{Clock, wall};
use keyrack_net::{Charge, Closer, IterationEnd, Limits, LoopMemory, Peer, Served, Verdict, Waker};
use keyrack_rowstore::{Position, RowSession, Rows};
use keyrack_store::Error;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of scratch memory that stay from one iteration to the next.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

/// Bytes of a request of a client that has not said who it is.
const INPUT_BYTES_BEFORE_AUTH_MAX: usize = 16 << 10;

/// Bytes of replies that wait for such a client.
const OUTPUT_BYTES_BEFORE_AUTH_MAX: usize = 64 << 10;

/// One loop's part of the server.
pub(crate) struct Worker<'a> {
    state: &'a State,
    index: usize,
    waker: Waker,
    session: RefCell<Counted<'a>>,
    work: Rc<Work>,
    /// This iteration is for small requests.
    is_quick: bool,
    reader: Option<ReaderGuard<'a>>,
    metrics: Arc<LoopMetrics>,
    redis: redis::Local,
    /// What the protocols keep for the connections of this loop.
    memory: LoopMemory,
    scratch: Vec<u8>,
    clock: Clock,
    now_ms: u64,
    began_ticks: u64,
    /// The iteration that is under way or was the last.
    number: u64,
    /// Iterations whose replies wait: which, and for what; nothing while it is not known for what.
    waiting: RefCell<VecDeque<(u64, Option<Position>)>>,
    /// Whether the last flush failed.
    is_behind: Cell<bool>,
    evictions: Evictions,
}

/// What the first loop has said about evictions in the log.
#[derive(Debug, Default)]
struct Evictions {
    said: u64,
    next_look_ms: u64,
}

/// Time between two lines about evictions.
const EVICTIONS_EVERY_MS: u64 = 10_000;

impl Evictions {
    /// Says how many rows were evicted since the last time, if any were.
    fn look(&mut self, rows: &dyn Rows, now_ms: u64) {
        self.next_look_ms = now_ms + EVICTIONS_EVERY_MS;
        rows.stats(&mut |name, total| {
            let total = total as u64;
            if name == "evicted" && total > self.said {
                let rows = total - self.said;
                tracing::info!(rows, total, "memory-max is reached: rows were evicted");
                self.said = total;
            }
        });
    }
}

impl fmt::Debug for Worker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("index", &self.index).finish_non_exhaustive()
    }
}

/// A connection, and what it has cost lately.
#[derive(Debug)]
pub(crate) struct Client {
    connection: Connection,
    debt: Debt,
}

/// A connection, and what it speaks.
#[derive(Debug)]
enum Connection {
    /// It has said nothing yet.
    Mixed(Peer, Option<Closer>),
    Memcached(memcached::Connection, Charge),
    Redis(Box<redis::Connection>),
    Masstree(Box<masstree::Connection>, Charge),
}

impl Connection {
    /// Notes what ends it from elsewhere. Redis' clients alone can ask for that.
    fn closes_by(&mut self, by: Closer) {
        match self {
            Connection::Mixed(_, closer) => *closer = Some(by),
            Connection::Redis(connection) => connection.closes_by(by),
            Connection::Memcached(..) | Connection::Masstree(..) => {}
        }
    }

    fn protocol(&self) -> Protocol {
        match self {
            Connection::Mixed(..) => Protocol::Mixed,
            Connection::Memcached(..) => Protocol::Memcached,
            Connection::Redis(_) => Protocol::Resp,
            Connection::Masstree(..) => Protocol::Masstree,
        }
    }
}

/// The evictions since the last look are said at the end.
impl Drop for Worker<'_> {
    fn drop(&mut self) {
        if self.index == 0 {
            self.evictions.look(&**self.state.rows, self.now_ms);
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
            waker,
            session: RefCell::new(Counted::new(session, Rc::clone(&work))),
            work,
            is_quick: false,
            reader: None,
            metrics: Arc::clone(&state.loops[index]),
            redis: redis::Local::new(index, now_ms ^ (index as u64) << 56),
            memory: LoopMemory::new(&state.clients_memory),
            scratch: Vec::new(),
            clock: Clock::calibrated(),
            now_ms,
            began_ticks: 0,
            number: 0,
            waiting: RefCell::default(),
            is_behind: Cell::new(false),
            evictions: Evictions::default(),
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
                let text = |address: Option<SocketAddr>| {
                    address.map_or_else(|| "unix".to_owned(), |address| address.to_string())
                };
                let (peer, local) = (text(peer.address), text(peer.local));
                // Connections open between iterations: the time of the last one may be long ago.
                let now_ms = wall::unix_ms();
                let (shared, memory) = (&self.state.redis, &self.memory);
                let connection = redis::Connection::new(shared, memory, &peer, &local, now_ms);
                Connection::Redis(Box::new(connection))
            }
        }
    }

    /// Says that a connection is closed at the limit of the memory of all, if not too many were
    /// lately.
    #[cold]
    fn say_out_of_memory(&self, protocol: Protocol) {
        if let Some(unsaid) = self.state.out_of_memory.admit(self.now_ms) {
            let protocol = protocol.name();
            tracing::warn!(protocol, unsaid, "clients-memory-max is reached: closed a connection");
        }
    }

    /// Flushes, and says for what the replies have to wait.
    fn flush(&self) -> Result<Option<Position>, Error> {
        let mut session = self.session.borrow_mut();
        let position = session.flush()?;
        Ok((!session.is_durable(position)).then_some(position))
    }

    /// What a failed flush leads to.
    fn flush_failed(&self, error: &Error) {
        self.metrics.flushes_failed.add(1);
        if matches!(error, Error::Io { .. }) {
            if !self.is_behind.replace(true) {
                tracing::error!(%error, "cannot write the log; replies wait until it can be");
            }
            self.state.syncer.retry(&self.waker);
        } else {
            self.state.control.fail(error.to_string());
        }
    }

    /// Tries again what could not be flushed. The iterations that wait know then what they wait
    /// for.
    fn try_again(&self) {
        if !self.is_behind.get() {
            return;
        }
        match self.flush() {
            Ok(position) => {
                self.is_behind.set(false);
                tracing::info!("the log can be written again");
                for (_, waits_for) in self.waiting.borrow_mut().iter_mut() {
                    *waits_for = waits_for.or(Some(position.unwrap_or_default()));
                }
                if let Some(position) = position {
                    self.state.syncer.want(self.index, position, &self.waker);
                }
            }
            Err(error) => self.flush_failed(&error),
        }
    }
}

impl keyrack_net::Worker for Worker<'_> {
    type Connection = Client;

    fn open(&mut self, listener: usize, peer: &Peer, limits: &mut Limits) -> Client {
        let protocol = self.state.protocols.get(listener).copied().unwrap_or(Protocol::Mixed);
        if self.state.memcached.password.is_set() && protocol != Protocol::Masstree {
            limits.input_bytes_max = INPUT_BYTES_BEFORE_AUTH_MAX;
            limits.output_bytes_max = OUTPUT_BYTES_BEFORE_AUTH_MAX;
        }
        Client { connection: self.connection(protocol, peer), debt: Debt::default() }
    }

    fn opened(&mut self, client: &mut Client, closer: Closer) {
        client.connection.closes_by(closer);
    }

    fn begin_iteration(&mut self, _: u64, is_quick: bool) {
        self.is_quick = is_quick;
        self.work.begin_iteration(is_quick);
        self.number += 1;
        self.began_ticks = self.clock.ticks();
        self.now_ms = wall::unix_ms();
        // The guard of the iteration before, if that had no end.
        self.reader = None;
        self.reader = Some(self.state.readers.enter(self.index));
        let mut session = self.session.borrow_mut();
        session.at(self.now_ms);
        if self.index == 0 && self.now_ms >= self.evictions.next_look_ms {
            self.evictions.look(&**self.state.rows, self.now_ms);
        }
        if let Err(error) = self.state.memcached.flush_if_due(&mut *session, self.now_ms) {
            tracing::error!(%error, "a delayed flush_all failed");
        }
    }

    fn serve(
        &mut self,
        client: &mut Client,
        input: &[u8],
        output: &mut Vec<u8>,
        limits: &mut Limits,
    ) -> Served {
        let Client { connection, debt } = client;
        let is_light = debt.is_light(self.now_ms) && !self.work.is_iteration_spent();
        let rows_wait = self.is_quick && !is_light;
        if rows_wait && !matches!(connection, Connection::Redis(_)) {
            return Served { consumed: 0, need: 0, verdict: Verdict::Again };
        }
        self.work.begin_slice();
        let spent_before = self.work.spent();
        if let Connection::Mixed(peer, closer) = connection {
            let Some(protocol) = sniff::protocol(input) else {
                return Served { consumed: 0, need: input.len() + 1, verdict: Verdict::Continue };
            };
            if protocol == Protocol::Masstree && self.state.memcached.password.is_set() {
                // It cannot say the password.
                return Served { consumed: input.len(), need: 0, verdict: Verdict::Close };
            }
            let (peer, closer) = (*peer, closer.take());
            *connection = self.connection(protocol, &peer);
            if let Some(closer) = closer {
                connection.closes_by(closer);
            }
        }
        let state = self.state;
        let mut session = self.session.borrow_mut();
        let (served, is_authenticated) = match connection {
            Connection::Mixed(..) => return Served::all(0),
            Connection::Memcached(connection, charge) => {
                let mut cx = memcached::Cx {
                    rows: &mut *session,
                    work: &self.work,
                    now_ms: self.now_ms,
                    shared: &state.memcached,
                    counts: &state.memcached.counts[self.index],
                    scratch: &mut self.scratch,
                };
                let begun = output.len();
                let mut served = connection.serve(&mut cx, input, output);
                if !charge.set(connection.kept_bytes()) {
                    connection.out_of_memory(output);
                    served.verdict = Verdict::OutOfMemory;
                }
                let counts = &state.memcached.counts[self.index];
                counts.bytes_read.add(served.consumed as u64);
                counts.bytes_written.add((output.len() - begun) as u64);
                counts.conn_yields.add(u64::from(served.verdict == Verdict::Again));
                (served, connection.is_authenticated())
            }
            Connection::Redis(connection) => {
                let reader = self.reader.get_or_insert_with(|| state.readers.enter(self.index));
                let mut cx = redis::Context {
                    session: &mut *session,
                    work: &self.work,
                    rows_wait,
                    store: &**state.rows,
                    reader,
                    shared: &state.redis,
                    local: &mut self.redis,
                    now_ms: self.now_ms,
                };
                let served = connection.serve(&mut cx, input, output);
                (served, connection.is_authenticated())
            }
            Connection::Masstree(connection, charge) => {
                let mut cx = masstree::Cx {
                    rows: &mut *session,
                    work: &self.work,
                    limits: &state.masstree,
                    counts: &self.metrics.masstree,
                    thread: self.index as u32,
                    checkpoint: &|| {
                        state.control.begin_checkpoint();
                    },
                    scratch: &mut self.scratch,
                };
                let mut served = connection.serve(&mut cx, input, output);
                if !charge.set(connection.kept_bytes()) {
                    connection.out_of_memory(output);
                    served.verdict = Verdict::OutOfMemory;
                }
                (served, true)
            }
        };
        // What is kept no longer may be needed for the replies.
        self.memory.trim();
        if served.verdict == Verdict::OutOfMemory {
            drop(session);
            self.say_out_of_memory(connection.protocol());
        }
        debt.add(self.work.spent() - spent_before, self.now_ms);
        if is_authenticated && limits.input_bytes_max < state.request_bytes_max {
            limits.input_bytes_max = state.request_bytes_max;
            limits.output_bytes_max = state.output_bytes_max;
        }
        served
    }

    fn out_of_memory(&mut self, client: &mut Client, output: &mut Vec<u8>) {
        self.say_out_of_memory(client.connection.protocol());
        match &mut client.connection {
            Connection::Mixed(..) => {}
            Connection::Memcached(connection, _) => connection.out_of_memory(output),
            Connection::Redis(connection) => connection.out_of_memory(output),
            Connection::Masstree(connection, _) => connection.out_of_memory(output),
        }
    }

    fn is_spent(&self) -> bool {
        self.work.is_iteration_spent()
    }

    fn closed(&mut self, client: Client) {
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
        self.try_again();
        let flushed = self.flush();
        let taken = self.clock.ns_between(self.began_ticks, self.clock.ticks());
        self.metrics.iteration_ns.record(taken);
        let waits_for = match flushed {
            Ok(None) => return IterationEnd::Durable,
            Ok(Some(position)) => {
                self.state.syncer.want(self.index, position, &self.waker);
                Some(position)
            }
            Err(error) => {
                self.flush_failed(&error);
                None
            }
        };
        self.metrics.iterations_waited.add(1);
        self.waiting.borrow_mut().push_back((self.number, waits_for));
        IterationEnd::Wait(self.number)
    }

    fn is_done(&self, token: u64) -> bool {
        self.try_again();
        let mut waiting = self.waiting.borrow_mut();
        let session = self.session.borrow();
        while let Some((_, Some(position))) = waiting.front() {
            if !session.is_durable(*position) {
                break;
            }
            waiting.pop_front();
        }
        waiting.front().is_none_or(|(number, _)| *number > token)
    }

    fn datagram(&mut self, _: usize, _: SocketAddr, bytes: &[u8], reply: &mut Vec<u8>) {
        let state = self.state;
        let mut cx = masstree::Cx {
            rows: &mut *self.session.borrow_mut(),
            work: &self.work,
            limits: &state.masstree,
            counts: &self.metrics.masstree,
            thread: self.index as u32,
            checkpoint: &|| {
                state.control.begin_checkpoint();
            },
            scratch: &mut self.scratch,
        };
        masstree::datagram(&mut cx, bytes, reply);
    }

    fn refusal(&self, listener: usize) -> &[u8] {
        match self.state.protocols.get(listener) {
            Some(Protocol::Memcached) => b"ERROR Too many open connections\r\n",
            Some(Protocol::Resp) => b"-ERR max number of clients reached\r\n",
            _ => b"",
        }
    }
}

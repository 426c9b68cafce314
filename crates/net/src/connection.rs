//! One connection: its bytes, its phase, its times; and what a step does with it.
//!
//! ```text
//!            Close, Oversized, end of input,
//!   Open ---------- shutdown ---------------> Flushing ---- all sent ----> Lingering ---> closed
//!    |                                            |      (end was seen) ------------------^  ^
//!    +--------------------- errors, timeouts -----+-----------------------------------------+
//! ```
//!
//! A connection *lingers* after the last reply: its writing side is shut, and what still comes is
//! read and dropped until the client's end. Closed at once, with bytes unread, the kernel would
//! reset the connection, and the client might lose the very reply that explains the end.
//!
//! Bytes go from the socket into memory that all connections of the loop share, and are served from
//! there. Only what is left of an incomplete request is copied to the connection. Next time, a
//! small rest is put in front of the shared memory again; a large one grows where it is:
//!
//! ```text
//!   rest <= CARRY_BYTES_MAX      shared:  | rest | read .....          |
//!   rest above                   its own: | rest .......... | read ... |
//! ```
//!
//! **Invariants:** a connection with no incomplete request and no unsent reply holds no buffer. A
//! rest is not larger than twice what has arrived, whatever length the client claims. What it holds
//! after a step is counted ([`crate::ClientMemory`]); a connection for which that is too much loses
//! what the step has appended, and is closed.

use crate::buffer::{Buffer, Pool};
use crate::memory::{Charge, LoopMemory};
use crate::options::{Limits, Timeouts};
use crate::output::Output;
use crate::service::{Served, Verdict, Worker};
use crate::socket::{Filled, Rest, Socket};
use crate::stats::{CloseReason, Counters};
use crate::transport::Transport;
use crate::wheel;

const READ_BYTES: usize = 64 << 10;
/// The largest rest that is carried through the shared memory.
const CARRY_BYTES_MAX: usize = 16 << 10;
const LARGE_READ_BYTES_MAX: usize = 1 << 20;
/// Bytes that every connection is charged: its state in the loop and in the protocol, and its first
/// bytes of buffers. So a small request is served even when no more memory is left.
pub(crate) const CONNECTION_BYTES: usize = 8 << 10;
/// Bytes of buffers that are among these.
const FIRST_BUFFER_BYTES: usize = 2 << 10;
/// How long a connection lingers.
const LINGER_NS: u64 = 2_000_000_000;

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Requests are served.
    Open,
    /// No more requests; it ends when all replies are sent.
    Flushing(CloseReason),
    /// No more replies; what comes is dropped until then.
    Lingering { reason: CloseReason, until_ns: u64 },
}

/// The buffers that the connections of a loop share for their steps.
#[derive(Debug)]
pub(crate) struct SharedBuffers {
    scratch: Vec<u8>,
    cipher: Vec<u8>,
    pub(crate) pool: Pool,
}

impl SharedBuffers {
    /// With a pool of at most `pool_bytes_max`.
    pub(crate) fn new(memory: &LoopMemory, pool_bytes_max: usize) -> Self {
        SharedBuffers {
            scratch: Vec::with_capacity(CARRY_BYTES_MAX + READ_BYTES),
            cipher: Vec::with_capacity(READ_BYTES),
            pool: Pool::new(pool_bytes_max, memory.charge()),
        }
    }

    /// Reads and drops the bytes of a socket, with at most `reads_max` reads.
    pub(crate) fn empty(&mut self, socket: &Socket, reads_max: usize) {
        for _ in 0..reads_max {
            self.scratch.clear();
            let filled = socket.fill(&mut self.scratch);
            if !matches!(filled, Ok(Filled { rest: Rest::More | Rest::Short, .. })) {
                return;
            }
        }
    }
}

/// One connection, with what its protocol knows of it.
#[derive(Debug)]
pub(crate) struct Connection<C> {
    pub(crate) state: C,
    pub(crate) transport: Transport,
    pub(crate) limits: Limits,
    pub(crate) output: Output,
    /// Its share of the memory of all connections.
    charge: Charge,
    pub(crate) phase: Phase,
    /// The rest of an incomplete request, or what a worker left for later.
    input: Buffer,
    /// The least bytes with which a request can be complete.
    need: usize,
    /// May the socket have something to read?
    pub(crate) is_readable: bool,
    /// Has the kernel announced the end? Then even a short read is not the last one.
    pub(crate) is_hung_up: bool,
    /// Was the end read?
    is_ended: bool,
    /// Has the worker left something for later?
    is_again: bool,
    /// Is it in the queue of the next iteration?
    pub(crate) is_queued: bool,
    /// Is it in the list of those whose replies of this iteration are to be sent?
    pub(crate) is_touched: bool,
    /// Do its replies wait for a token?
    pub(crate) is_deferred: bool,
    /// Is the kernel asked to tell when the socket has room?
    pub(crate) awaits_room: bool,
    /// Was a request completed?
    is_greeted: bool,
    opened_ns: u64,
    last_read_ns: u64,
    /// Since when a request is incomplete.
    request_since_ns: Option<u64>,
    /// Since when replies wait without a byte sent.
    pub(crate) stalled_since_ns: Option<u64>,
    /// The tick of its reminder.
    pub(crate) tick: u64,
}

/// The cost of an idle connection, without the kernel's part and its protocol's.
const _: () = assert!(size_of::<Connection<()>>() <= 256);

impl<C> Connection<C> {
    /// `charge` holds what the connection costs from the start.
    pub(crate) fn new(
        state: C,
        transport: Transport,
        charge: Charge,
        limits: Limits,
        now_ns: u64,
    ) -> Self {
        Connection {
            state,
            transport,
            limits,
            output: Output::default(),
            charge,
            phase: Phase::Open,
            input: Buffer::default(),
            need: 0,
            is_readable: false,
            is_hung_up: false,
            is_ended: false,
            is_again: false,
            is_queued: false,
            is_touched: false,
            is_deferred: false,
            awaits_room: false,
            is_greeted: false,
            opened_ns: now_ns,
            last_read_ns: now_ns,
            request_since_ns: None,
            stalled_since_ns: None,
            tick: wheel::NEVER,
        }
    }

    /// Is there something that a step would do?
    pub(crate) fn can_step(&self) -> bool {
        match self.phase {
            Phase::Open => {
                !self.is_deferred
                    && self.output.len() <= self.limits.output_bytes_max
                    && (self.is_again || self.is_readable)
            }
            Phase::Flushing(_) => false,
            Phase::Lingering { .. } => self.is_readable,
        }
    }

    /// Are there complete requests, or parts of replies, that a worker has left for later?
    pub(crate) fn is_busy(&self) -> bool {
        self.is_again
    }

    /// Is there anything for the end of the iteration?
    pub(crate) fn wants_to_send(&self) -> bool {
        !self.output.is_empty()
            || matches!(self.phase, Phase::Flushing(_))
            || self.transport.has_own_output()
    }

    /// Since when a request is incomplete.
    pub(crate) fn request_since_ns(&self) -> Option<u64> {
        self.request_since_ns
    }

    /// One read, or what is left of the last one, and what the worker makes of it.
    ///
    /// # Errors
    /// Why the connection is to be closed at once.
    pub(crate) fn step<W: Worker<Connection = C>>(
        &mut self,
        worker: &mut W,
        buffers: &mut SharedBuffers,
        counters: &Counters,
        now_ns: u64,
    ) -> Result<(), CloseReason> {
        if let Phase::Lingering { reason, .. } = self.phase {
            return self.discard(reason, buffers);
        }
        self.output.borrow(&mut buffers.pool);
        let before = self.output.tail().len();
        if self.is_again {
            self.serve_input(worker, now_ns);
        } else if self.input.len() <= CARRY_BYTES_MAX {
            self.read_shared(worker, buffers, counters, now_ns)?;
        } else {
            self.read_own(worker, buffers, counters, now_ns)?;
        }
        if self.is_ended && !self.is_again && self.phase == Phase::Open {
            self.phase = Phase::Flushing(CloseReason::Peer);
        }
        self.output.return_if_empty(&mut buffers.pool);
        if self.count_memory(&mut buffers.pool) {
            return Ok(());
        }
        self.give_up(worker, before, buffers)
    }

    /// Counts what the connection holds. False when it is more than it may.
    pub(crate) fn count_memory(&mut self, pool: &mut Pool) -> bool {
        if self.charge.set(self.held_bytes()) {
            return true;
        }
        pool.clear();
        self.output.shrink();
        self.charge.set(self.held_bytes())
    }

    fn held_bytes(&self) -> usize {
        let buffers = self.input.capacity() + self.output.capacity();
        CONNECTION_BYTES
            + self.transport.memory_bytes()
            + buffers.saturating_sub(FIRST_BUFFER_BYTES)
    }

    /// It is closed: what it holds is free.
    pub(crate) fn release_memory(&mut self) {
        self.input = Buffer::default();
        self.charge.clear();
    }

    /// There is no memory for what the connection holds: it ends, with its input and what was
    /// appended since the output's tail had `before` bytes.
    #[cold]
    fn give_up<W: Worker<Connection = C>>(
        &mut self,
        worker: &mut W,
        before: usize,
        buffers: &mut SharedBuffers,
    ) -> Result<(), CloseReason> {
        if self.awaits_room {
            // It does not read what it would have to be told.
            return Err(CloseReason::Memory);
        }
        self.output.cut(before);
        self.end(CloseReason::Memory);
        worker.out_of_memory(&mut self.state, self.output.tail());
        if self.count_memory(&mut buffers.pool) { Ok(()) } else { Err(CloseReason::Memory) }
    }

    fn read_shared<W: Worker<Connection = C>>(
        &mut self,
        worker: &mut W,
        buffers: &mut SharedBuffers,
        counters: &Counters,
        now_ns: u64,
    ) -> Result<(), CloseReason> {
        let SharedBuffers { scratch, cipher, .. } = buffers;
        scratch.clear();
        scratch.extend_from_slice(self.input.pending());
        let filled = self.transport.fill(scratch, cipher, counters)?;
        self.note(filled.count, filled.rest, now_ns);
        if filled.count == 0 {
            return Ok(());
        }
        if scratch.len() < self.need {
            self.input.set(scratch);
            self.request_since_ns.get_or_insert(now_ns);
            return Ok(());
        }
        let served = worker.serve(&mut self.state, scratch, self.output.tail(), &mut self.limits);
        self.input.set(&scratch[served.consumed..]);
        self.apply(served, now_ns);
        Ok(())
    }

    fn read_own<W: Worker<Connection = C>>(
        &mut self,
        worker: &mut W,
        buffers: &mut SharedBuffers,
        counters: &Counters,
        now_ns: u64,
    ) -> Result<(), CloseReason> {
        let wanted = self.need.saturating_sub(self.input.len());
        self.input.make_room(wanted.clamp(READ_BYTES, LARGE_READ_BYTES_MAX), READ_BYTES);
        if !self.count_memory(&mut buffers.pool) {
            let before = self.output.tail().len();
            return self.give_up(worker, before, buffers);
        }
        let filled = self.transport.fill(self.input.tail(), &mut buffers.cipher, counters)?;
        self.note(filled.count, filled.rest, now_ns);
        if filled.count > 0 && self.input.len() >= self.need {
            self.serve_input(worker, now_ns);
        }
        Ok(())
    }

    fn serve_input<W: Worker<Connection = C>>(&mut self, worker: &mut W, now_ns: u64) {
        let input = self.input.pending();
        let served = worker.serve(&mut self.state, input, self.output.tail(), &mut self.limits);
        self.input.consume(served.consumed);
        self.input.fit();
        self.apply(served, now_ns);
    }

    /// Draws the conclusions from what the worker said; the input is what it has left.
    fn apply(&mut self, served: Served, now_ns: u64) {
        let left = self.input.len();
        self.is_again = served.verdict == Verdict::Again;
        self.is_greeted |= served.consumed > 0;
        if left == 0 {
            self.request_since_ns = None;
        } else if served.consumed > 0 || self.request_since_ns.is_none() {
            self.request_since_ns = Some(now_ns);
        }
        match served.verdict {
            Verdict::Again => self.need = 0,
            Verdict::Close => self.end(CloseReason::Worker),
            Verdict::OutOfMemory => self.end(CloseReason::Memory),
            Verdict::Continue => {
                self.need = served.need.max(left + 1);
                if self.need > self.limits.input_bytes_max && (left > 0 || served.need > 0) {
                    self.end(CloseReason::Oversized);
                }
            }
        }
    }

    /// No more requests: the connection closes when its replies are sent.
    pub(crate) fn end(&mut self, reason: CloseReason) {
        self.phase = Phase::Flushing(reason);
        self.is_again = false;
        self.input = Buffer::default();
        self.request_since_ns = None;
    }

    /// Ends the connection for a shutdown, unless complete requests wait to be served.
    pub(crate) fn end_unless_busy(&mut self) {
        if self.phase == Phase::Open && !self.is_again {
            self.end(CloseReason::Shutdown);
        }
    }

    fn note(&mut self, count: usize, rest: Rest, now_ns: u64) {
        if count > 0 {
            self.last_read_ns = now_ns;
        }
        match rest {
            Rest::More => {}
            Rest::Short => self.is_readable = self.is_hung_up,
            Rest::Nothing => {
                self.is_readable = false;
                self.is_hung_up = false;
            }
            Rest::End => {
                self.is_readable = false;
                self.is_ended = true;
            }
        }
    }

    /// Reads and drops. The end of the client, or a failure, ends the lingering.
    pub(crate) fn discard(
        &mut self,
        reason: CloseReason,
        buffers: &mut SharedBuffers,
    ) -> Result<(), CloseReason> {
        buffers.scratch.clear();
        let Ok(filled) = self.transport.socket.fill(&mut buffers.scratch) else {
            return Err(reason);
        };
        self.note(0, filled.rest, 0);
        if self.is_ended { Err(reason) } else { Ok(()) }
    }

    /// All replies are sent: the writing side is shut. Does the connection linger?
    pub(crate) fn begin_lingering(
        &mut self,
        reason: CloseReason,
        counters: &Counters,
        now_ns: u64,
    ) -> bool {
        self.transport.finish(counters);
        self.phase = Phase::Lingering { reason, until_ns: now_ns.saturating_add(LINGER_NS) };
        !self.is_ended
    }

    /// The next moment at which the connection is closed if nothing happens, and why.
    pub(crate) fn deadline(&self, timeouts: &Timeouts) -> Option<(u64, CloseReason)> {
        if let Phase::Lingering { reason, until_ns } = self.phase {
            return Some((until_ns, reason));
        }
        let has_output = !self.output.is_empty() || self.is_deferred;
        let opened_ns = (!self.is_greeted).then_some(self.opened_ns);
        let idle_since_ns = (!has_output).then_some(self.last_read_ns);
        // A request is late only while the loop is willing to read the rest of it.
        let request_ns = if self.is_again || has_output { None } else { self.request_since_ns };
        [
            (opened_ns, timeouts.first_request, CloseReason::FirstRequest),
            (request_ns, timeouts.request, CloseReason::Request),
            (idle_since_ns, timeouts.idle, CloseReason::Idle),
            (self.stalled_since_ns, timeouts.stalled_output, CloseReason::StalledOutput),
        ]
        .into_iter()
        .filter_map(|(since_ns, timeout, reason)| {
            let timeout_ns = u64::try_from(timeout?.as_nanos()).unwrap_or(u64::MAX);
            Some((since_ns?.saturating_add(timeout_ns), reason))
        })
        .min_by_key(|(at_ns, _)| *at_ns)
    }
}

//! One thread: its connections, its draws, its clock, its account.
//!
//! ```text
//!   turn:  arrivals that are due   -> requests behind the outputs of their connections
//!          wait                       at most until the next arrival
//!          one reading of the clock -> when all replies of this turn were received
//!          ready sockets            -> read once, parse, account, refill
//!          each output              -> one reading of the clock, one write
//! ```
//!
//! Send first, arm later: a socket is armed for writing only when it did not take all. At depth 1
//! a request costs a write, a read, and its share of a wait.
//!
//! In an open loop a connection's schedule says when its next request is due. While the connection
//! has `depth` requests under way nothing is drawn; afterwards the schedule goes on where it was,
//! so that the queue has no limit and no memory. Nothing is left out.
//!
//! **Invariant:** between two waits nothing is allocated for a request, once buffers have their
//! size.

mod connection;
mod draw;
mod feed;
mod lane;
mod poller;
mod repair;
mod reply;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};

use keyrack_measure::{Clock, reduce_timer_slack, usage};
use keyrack_net::Stream;

use crate::account::{Account, Live, ThreadUse, Window};
use crate::arrival::Stream as Draws;
use crate::error::{Error, Result};
use crate::plan::{Plan, Waiting};
use crate::target::{Keys, Kind, Request, encode};
use connection::{Connection, Flight, Trouble, flags};
use feed::{Feed, Kept};
use lane::{Lane, NEVER, Walk};
use poller::Poller;
use repair::open;

/// Requests under way on a connection while it loads, and the bytes that may wait for it.
const LOAD_DEPTH: usize = 1024;
const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// An adaptive thread sleeps until so long before something is due.
const SPIN_NS: u64 = 50_000;
/// While a connection is made again, the thread looks at that so often.
const RECONNECT_LOOK_NS: u64 = 5_000_000;
/// Between two attempts to make a connection again.
const RECONNECT_PAUSE_NS: u64 = 100_000_000;
/// Under `--skip`, arrivals later than the first are left out until the next is less late than the
/// second.
const SKIP_ABOVE_NS: u64 = 5_000_000;
const SKIP_TO_NS: u64 = 4_000_000;
/// Gaps between sends that are kept for the test of the schedule.
const GAPS_MAX: usize = 1 << 14;
/// Samples that go to the writer of `--save` together.
const SAMPLES: usize = 4096;
/// Loading without a reply for so long has failed.
const LOAD_PATIENCE_NS: u64 = 60_000_000_000;

/// A latency, for `--save`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// When it was intended, in nanoseconds from the start of the measurement.
    pub start_ns: u64,
    /// The headline latency.
    pub latency_ns: u64,
}

/// What a thread is to do.
#[derive(Debug, Clone)]
pub(crate) struct Phase {
    /// Writes its part of the records instead of making requests.
    pub(crate) is_load: bool,
    /// The tick at which all begin.
    pub(crate) start: u64,
    /// How long.
    pub(crate) length_ns: u64,
    /// Requests a second over all threads; 0 is a closed loop.
    pub(crate) rate: f64,
    /// Requests of this thread.
    pub(crate) budget: Option<u64>,
    /// Which phase of its process.
    pub(crate) number: u32,
    /// Where samples go.
    pub(crate) samples: Option<SyncSender<Vec<Sample>>>,
}

/// What a thread has to say after a phase.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) account: Account,
    pub(crate) used: ThreadUse,
    pub(crate) windows: Vec<Window>,
    pub(crate) gaps_ns: Vec<u64>,
    pub(crate) troubles: Vec<String>,
    pub(crate) loaded: u64,
    /// When the last reply came, in ticks.
    pub(crate) last_reply: u64,
    /// Is every connection gone?
    pub(crate) is_dead: bool,
}

/// A connection made again, by a thread of its own.
type Remade = (usize, io::Result<Stream>);

/// One thread's everything.
pub(crate) struct Worker<'p> {
    plan: &'p Plan,
    thread: usize,
    clock: Clock,
    live: Arc<Live>,
    stop: Arc<AtomicBool>,
    poller: Poller,
    connections: Vec<Connection>,
    lanes: Vec<Lane>,
    /// Connections with something due: when, and which.
    timers: BinaryHeap<Reverse<(u64, usize)>>,
    ready: Vec<poller::Ready>,
    remade: (Sender<Remade>, Receiver<Remade>),
    remaking: usize,
    account: Account,
    done: Done,
    phase: Phase,
    /// May requests be drawn?
    is_drawing: bool,
    drawn: u64,
    has_purged: bool,
    last_send: u64,
    /// Ticks between a reply and the next request of a connection, under `--moderate`.
    moderation: u64,
    samples: Vec<Sample>,
    feed: Option<Feed>,
    kept: Kept,
    /// Connections that have something to send besides the one that is looked at.
    touched: Vec<usize>,
    key: Vec<u8>,
    value: Vec<u8>,
    many: Keys,
}

impl<'p> Worker<'p> {
    /// Connects to the servers of thread `thread`.
    ///
    /// # Errors
    /// The first connection that cannot be made.
    pub(crate) fn new(
        plan: &'p Plan,
        thread: usize,
        clock: Clock,
        live: Arc<Live>,
        stop: Arc<AtomicBool>,
    ) -> Result<Worker<'p>> {
        if plan.settings.affinity {
            pin(thread);
        }
        reduce_timer_slack();
        let mut worker = Worker {
            plan,
            thread,
            clock,
            live,
            stop,
            poller: Poller::new().map_err(Error::machine("make an epoll"))?,
            connections: Vec::new(),
            lanes: Vec::new(),
            timers: BinaryHeap::new(),
            ready: Vec::new(),
            remade: channel(),
            remaking: 0,
            account: Account::default(),
            done: Done::default(),
            phase: Phase {
                is_load: false,
                start: 0,
                length_ns: 0,
                rate: 0.0,
                budget: None,
                number: 0,
                samples: None,
            },
            is_drawing: false,
            drawn: 0,
            has_purged: false,
            last_send: 0,
            moderation: 0,
            samples: Vec::new(),
            feed: None,
            kept: Kept::default(),
            touched: Vec::new(),
            key: Vec::new(),
            value: Vec::new(),
            many: Keys::default(),
        };
        worker.connect()?;
        Ok(worker)
    }

    fn connect(&mut self) -> Result<()> {
        let plan = self.plan;
        let settings = &plan.settings;
        let count = plan.connections() as u32;
        let mut index = plan.connections_before(self.thread) as u32;
        for server in plan.servers_of(self.thread) {
            for _ in 0..settings.connections {
                let stream = open(plan, server).map_err(|cause| Error::Server {
                    server: plan.servers[server].name.clone(),
                    cause,
                })?;
                let token = self.connections.len();
                self.poller.add(&stream, token).map_err(Error::machine("watch a socket"))?;
                let protocol = settings.protocol;
                self.connections.push(Connection::new(stream, server, protocol, settings.verify));
                let stream = Draws {
                    seed: settings.seed,
                    agent: settings.agent,
                    thread: self.thread as u32,
                    connection: token as u32,
                };
                self.lanes.push(Lane::new(plan, stream, index, count)?);
                index += 1;
            }
        }
        Ok(())
    }

    /// Carries out a phase.
    ///
    /// # Errors
    /// What the machine refuses. What servers do is in [`Done`].
    pub(crate) fn run(&mut self, phase: Phase) -> Result<Done> {
        self.begin(phase)?;
        let cpu_ns = usage::thread_cpu_ns();
        self.clock.wait_until(self.phase.start);
        let end = match self.phase.is_load {
            true => NEVER,
            false => self.phase.start.saturating_add(self.clock.ticks_of_ns(self.phase.length_ns)),
        };
        let drain = self.clock.ticks_of_ns((self.plan.settings.drain_s * 1e9) as u64);
        let mut deadline = end.saturating_add(drain);
        let mut patience = self.phase.start;
        for connection in 0..self.connections.len() {
            self.pump(connection);
        }
        loop {
            let now = self.clock.ticks();
            if self.is_drawing && (now >= end || self.stop.load(Ordering::Relaxed)) {
                self.is_drawing = false;
                deadline = now.saturating_add(drain).max(deadline.min(end.saturating_add(drain)));
                if self.stop.load(Ordering::Relaxed) {
                    deadline = now.saturating_add(drain.min(self.clock.ticks_of_ns(100_000_000)));
                    self.lanes.iter_mut().for_each(|lane| lane.due = NEVER);
                }
                self.note_backlog(end.min(now));
            }
            self.release(now);
            if self.is_idle() || now >= deadline || self.is_dead() {
                break;
            }
            if self.phase.is_load {
                patience = patience.max(self.done.last_reply);
                if self.clock.ns_between(patience, now) > LOAD_PATIENCE_NS {
                    break;
                }
            }
            let wait_ns = self.wait_ns(now, if self.is_drawing { end } else { deadline });
            self.look(wait_ns)?;
        }
        self.give_up(self.clock.ticks());
        Ok(self.finish(cpu_ns))
    }

    /// One wait, and what it brought.
    fn look(&mut self, wait_ns: u64) -> Result<()> {
        let ready = self.poller.wait(wait_ns).map_err(Error::machine("wait for sockets"))?;
        self.ready.clear();
        self.ready.extend_from_slice(ready);
        let now = self.clock.ticks();
        for at in 0..self.ready.len() {
            let ready = self.ready[at];
            if ready.is_readable {
                self.receive(ready.token, now);
            }
            self.pump(ready.token);
        }
        if self.remaking > 0 {
            while let Ok((connection, remade)) = self.remade.1.try_recv() {
                self.remaking -= 1;
                self.take_over(connection, remade);
            }
        }
        Ok(())
    }

    fn begin(&mut self, phase: Phase) -> Result<()> {
        self.phase = phase;
        self.account = Account::default();
        self.done = Done::default();
        self.timers.clear();
        (self.is_drawing, self.drawn, self.has_purged) = (!self.phase.is_load, 0, false);
        self.last_send = 0;
        if !self.phase.is_load {
            // Each phase replays from the start.
            let threads = self.plan.settings.threads as u32;
            self.feed = Feed::open(self.plan, self.thread as u32, threads)
                .map_err(|error| Error::Usage(error.to_string()))?;
        }
        self.moderation = match self.plan.settings.moderate && self.phase.rate > 0.0 {
            true => {
                let gap_ns = self.plan.connections() as f64 * 1e9 / self.phase.rate;
                self.clock.ticks_of_ns(gap_ns as u64)
            }
            false => 0,
        };
        let per_server = self.plan.settings.connections;
        for (at, (lane, connection)) in self.lanes.iter_mut().zip(&mut self.connections).enumerate()
        {
            lane.begin(self.plan, &self.phase, &self.clock)?;
            (connection.received_bytes, connection.written_bytes) = (0, 0);
            lane.load = Walk::default();
            lane.purge = Walk::default();
            // The first connection to a server loads this thread's part.
            if self.phase.is_load && at % per_server == 0 {
                let (first, step) = self.plan.place_at(self.thread, connection.server);
                lane.load = Walk::new(first, step, self.plan.records);
            }
        }
        Ok(())
    }

    /// Lets connections send whose timers have come.
    #[inline]
    fn release(&mut self, now: u64) {
        while let Some(Reverse((tick, connection))) = self.timers.peek().copied() {
            if tick > now {
                break;
            }
            self.timers.pop();
            self.lanes[connection].is_timed = false;
            self.pump(connection);
        }
    }

    /// How long the thread may sleep.
    #[inline]
    fn wait_ns(&self, now: u64, limit: u64) -> u64 {
        if self.plan.settings.waiting == Waiting::Spin {
            return 0;
        }
        let timer = self.timers.peek().map_or(NEVER, |Reverse((tick, _))| *tick);
        let wait_ns = match timer.min(limit) {
            NEVER => u64::MAX,
            tick => self.clock.ns_between(now, tick),
        };
        let wait_ns = if self.remaking > 0 { wait_ns.min(RECONNECT_LOOK_NS) } else { wait_ns };
        match self.plan.settings.waiting {
            Waiting::Adaptive => wait_ns.saturating_sub(SPIN_NS),
            _ => wait_ns,
        }
    }

    /// Is nothing left to do?
    fn is_idle(&self) -> bool {
        if self.is_drawing && !self.is_spent() {
            return false;
        }
        let is_spent = self.is_spent();
        let lanes = self.lanes.iter().zip(&self.connections);
        lanes.clone().all(|(lane, connection)| {
            !connection.is_alive()
                || (connection.flights.is_empty()
                    && connection.queue.is_empty()
                    && !connection.has_output()
                    && lane.load.is_over()
                    && (lane.due == NEVER || is_spent))
        }) && self.remaking == 0
    }

    /// Has the thread drawn as many requests as it may, or as there are?
    #[inline]
    fn is_spent(&self) -> bool {
        self.phase.budget.is_some_and(|budget| self.drawn >= budget)
            || self.feed.as_ref().is_some_and(|feed| feed.is_over && feed.ahead.is_none())
    }

    fn is_dead(&self) -> bool {
        self.remaking == 0 && !self.connections.iter().any(Connection::is_alive)
    }

    /// Puts as many requests on a connection as may be under way, and sends them.
    fn pump(&mut self, at: usize) {
        if !self.connections[at].is_alive() {
            return;
        }
        let depth = if self.phase.is_load { LOAD_DEPTH } else { self.plan.settings.depth };
        while self.connections[at].flights.len() < depth {
            let Some(flight) = self.next(at) else { break };
            self.launch(at, flight);
        }
        if self.connections[at].has_output() || self.connections[at].unstamped > 0 {
            self.flush(at);
        }
        while let Some(other) = self.touched.pop() {
            self.flush(other);
        }
    }

    /// Do latencies count from an intended start?
    #[inline]
    fn is_open(&self) -> bool {
        self.phase.rate > 0.0 || self.feed.as_ref().is_some_and(Feed::is_paced)
    }

    /// Writes a request behind a connection's output.
    #[inline]
    fn launch(&mut self, at: usize, flight: Flight) {
        let plan = self.plan;
        let (lane, connection) = (&mut self.lanes[at], &mut self.connections[at]);
        self.key.clear();
        if flight.flags & flags::KEPT_KEY != 0 {
            self.key.extend_from_slice(self.kept.key(flight.key));
        } else {
            plan.keys.append(flight.key, &mut self.key);
        }
        let mut request = Request::new(flight.kind, &self.key, &[]);
        if flight.kind == Kind::Mget {
            self.many.clear();
            self.many.push(&self.key);
            for _ in 1..flight.size {
                self.value.clear();
                plan.keys.append(lane.draw_key(), &mut self.value);
                self.many.push(&self.value);
            }
            request.keys = Some(&self.many);
        } else if flight.kind.has_value() {
            request.value = if plan.settings.verify {
                self.value.clear();
                lane.nonce = lane.nonce.wrapping_add(1);
                let size = flight.size as usize;
                plan.values.append_checked(&self.key, lane.nonce, size, &mut self.value);
                &self.value
            } else {
                plan.values.plain(flight.size as usize, &mut lane.offset)
            };
        }
        request.number = match (flight.kind, &self.feed) {
            (Kind::Cas, Some(feed)) => feed.token(&self.key),
            _ => 1,
        };
        request.ttl_s = flight.ttl_s;
        request.opaque = connection.next_opaque();
        request.assoc = plan.settings.assoc;
        encode(plan.settings.protocol, connection.output(), &request);
        connection.flights.push_back(flight);
        connection.unstamped += 1;
        if flight.flags & (flags::LOAD | flags::PURGE) == 0 {
            self.account.depth.record(connection.flights.len() as u64);
        }
    }

    /// Sends what a connection has, by one reading of the clock.
    #[inline]
    fn flush(&mut self, at: usize) {
        let connection = &mut self.connections[at];
        let count = connection.unstamped as u64;
        if count > 0 {
            let now = self.clock.ticks();
            connection.stamp(now);
            if self.phase.rate > 0.0 && self.done.gaps_ns.len() < GAPS_MAX {
                if self.last_send > 0 {
                    self.done.gaps_ns.push(self.clock.ns_between(self.last_send, now));
                    let more = (count - 1).min(GAPS_MAX as u64) as usize;
                    self.done.gaps_ns.extend(std::iter::repeat_n(0, more));
                }
                self.last_send = now;
            }
        }
        match connection.flush() {
            Ok(None) => {}
            Ok(Some(is_armed)) => {
                if let Some(stream) = &connection.stream
                    && let Err(cause) = self.poller.arm_write(stream, at, is_armed)
                {
                    self.lose(at, Trouble::Broken(cause));
                }
            }
            Err(trouble) => self.lose(at, trouble),
        }
    }

    /// Reads what has come on a connection, and accounts for it.
    fn receive(&mut self, at: usize, now: u64) {
        loop {
            if !self.connections[at].is_alive() {
                return;
            }
            let filled = self.connections[at].fill();
            // Replies that came before the end are replies.
            let digested = self.digest(at, now);
            match (filled, digested) {
                (_, Err(trouble)) | (Err(trouble), Ok(())) => return self.lose(at, trouble),
                (Ok(true), Ok(())) => {}
                (Ok(false), Ok(())) => return,
            }
        }
    }

    /// How long the queue was when the measurement ended.
    fn note_backlog(&mut self, end: u64) {
        let due = self.lanes.iter().map(|lane| lane.due_before(end, &self.phase, &self.clock));
        self.account.counts.backlog = due.sum();
    }

    fn finish(&mut self, cpu_ns: u64) -> Done {
        self.send_samples();
        self.phase.samples = None;
        for (at, (lane, connection)) in self.lanes.iter_mut().zip(&self.connections).enumerate() {
            self.account.counts.received_bytes += connection.received_bytes;
            self.account.counts.sent_bytes += connection.written_bytes;
            if lane.window.accesses > 0 {
                self.done.windows.push(reply::window(self.thread, at, &mut lane.window));
            }
        }
        let now = self.clock.ticks();
        let mut done = std::mem::take(&mut self.done);
        if let Some(feed) = self.feed.take() {
            if let Some((flight, ..)) = &feed.ahead {
                self.kept.release(flight);
            }
            if feed.counts().faults_total() > 0 {
                done.troubles.push(format!("trace: {}", feed.counts()));
            }
        }
        done.is_dead = self.is_dead();
        done.account = std::mem::take(&mut self.account);
        done.used = ThreadUse {
            cpu_s: usage::thread_cpu_ns().saturating_sub(cpu_ns) as f64 / 1e9,
            wall_s: self.clock.ns_between(self.phase.start, now) as f64 / 1e9,
        };
        done
    }
}

/// Ties the calling thread to the processor that is its turn, among those that it may use.
#[cfg(target_os = "linux")]
fn pin(thread: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else { return };
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).collect();
    if let Some(cpu) = processors.get(thread % processors.len().max(1)) {
        let mut one = CpuSet::new();
        one.set(*cpu);
        // A thread that cannot be tied runs where the kernel puts it.
        let _ = sched_setaffinity(None, &one);
    }
}

#[cfg(not(target_os = "linux"))]
fn pin(_: usize) {}

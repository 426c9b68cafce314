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

mod connect;
mod connection;
mod draw;
mod in_flight;
mod memory;
mod node;
mod plain;
mod poller;
mod reconnect;
mod reply;
mod route;
mod send;
mod setup;
mod tier;
mod trace_source;
mod transport;
mod workload;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender};

use keyrack_measure::{Clock, usage};

use crate::account::{Account, Live, ThreadUse, Window};
use crate::error::{Error, Result};
use crate::plan::{Plan, Waiting};
use crate::target::{Keys, Template};
use connect::BackgroundEvent;
use connection::Connection;
use node::Node;
use poller::Poller;
use route::Router;
use trace_source::{KeyTable, TraceSource};
use workload::{ConnectionWorkload, NEVER};

/// Bytes that may wait for a connection while it loads.
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
    /// Does the rate follow the ramp of the plan?
    pub(crate) is_ramped: bool,
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
    /// How many connections there are, of a thread that has just connected.
    pub(crate) connections: usize,
}

/// One thread's everything.
pub(crate) struct Worker<'p> {
    plan: &'p Plan,
    thread: usize,
    clock: Clock,
    live: Arc<Live>,
    stop: Arc<AtomicBool>,
    poller: Poller,
    /// Are there connections in shared memory?
    has_memory: bool,
    /// Waits for those so far.
    iterations: u32,
    connections: Vec<Connection>,
    workloads: Vec<ConnectionWorkload>,
    /// Connections with something due: when, and which.
    timers: BinaryHeap<Reverse<(u64, usize)>>,
    ready: Vec<poller::Ready>,
    /// From threads that make connections, or ask for the map of a cluster.
    events: (Sender<BackgroundEvent>, Receiver<BackgroundEvent>),
    reconnecting: usize,
    /// Where connections lead.
    nodes: Vec<Node>,
    /// How nodes of a cluster are connected to.
    seed: Option<Node>,
    /// Which node has which keys, where that is told apart.
    router: Option<Router>,
    account: Account,
    done: Done,
    phase: Phase,
    /// May requests be drawn?
    is_drawing: bool,
    drawn: u64,
    has_purged: bool,
    last_send: u64,
    /// The server takes no requests without a password, or not of this user.
    refusal: Option<Error>,
    /// Ticks between two requests of a connection, under `--moderate`.
    moderation: u64,
    samples: Vec<Sample>,
    trace: Option<TraceSource>,
    trace_keys: KeyTable,
    /// Connections that have something to send besides the one that is looked at.
    touched: Vec<usize>,
    /// Connections that a reply on another one gave something to send.
    woken: Vec<usize>,
    key: Vec<u8>,
    value: Vec<u8>,
    many: Keys,
    /// Requests of which only the key, and the value, differ.
    lookup: Option<Template>,
    store: Option<Template>,
    /// Is the phase one of lookups alone, in a closed loop?
    is_plain: bool,
    depths: plain::Depths,
}

impl Worker<'_> {
    /// Carries out a phase.
    ///
    /// # Errors
    /// What the machine refuses. What servers do is in [`Done`].
    pub(crate) fn run(&mut self, phase: Phase) -> Result<Done> {
        self.begin(phase)?;
        let cpu_ns = usage::thread_cpu_ns();
        self.clock.wait_until(self.phase.start);
        let end = if self.phase.is_load {
            NEVER
        } else {
            self.phase.start.saturating_add(self.clock.ticks_of_ns(self.phase.length_ns))
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
                    self.workloads.iter_mut().for_each(|workload| workload.due = NEVER);
                }
                self.note_backlog(end.min(now));
            }
            self.fire_timers(now);
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
            self.poll_once(wait_ns)?;
            if let Some(refusal) = self.refusal.take() {
                // No thread has a better answer to expect.
                self.stop.store(true, Ordering::Relaxed);
                return Err(refusal);
            }
        }
        self.count_unanswered(self.clock.ticks());
        Ok(self.finish(cpu_ns))
    }

    /// One wait, and what it brought.
    fn poll_once(&mut self, wait_ns: u64) -> Result<()> {
        if self.has_memory {
            self.wait_for_memory(wait_ns)?;
        } else {
            let ready = self.poller.wait(wait_ns).map_err(Error::machine("wait for sockets"))?;
            self.ready.clear();
            self.ready.extend_from_slice(ready);
        }
        let now = self.clock.ticks();
        for at in 0..self.ready.len() {
            let ready = self.ready[at];
            if ready.is_readable {
                self.receive(ready.token, now);
            }
            self.pump(ready.token);
            while let Some(other) = self.woken.pop() {
                self.pump(other);
            }
        }
        if self.awaits_background() {
            while let Ok(events) = self.events.1.try_recv() {
                match events {
                    BackgroundEvent::Reconnected(connection, made) => {
                        self.reconnecting -= 1;
                        self.install(connection, made);
                    }
                    BackgroundEvent::Topology(topology) => self.receive_topology(topology),
                }
            }
        }
        Ok(())
    }

    /// Lets connections send whose timers have come.
    #[inline]
    fn fire_timers(&mut self, now: u64) {
        while let Some(Reverse((tick, connection))) = self.timers.peek().copied() {
            if tick > now {
                break;
            }
            self.timers.pop();
            self.workloads[connection].is_timed = false;
            self.wake(connection);
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
        let wait_ns =
            if self.awaits_background() { wait_ns.min(RECONNECT_LOOK_NS) } else { wait_ns };
        match self.plan.settings.waiting {
            Waiting::Adaptive => wait_ns.saturating_sub(SPIN_NS),
            _ => wait_ns,
        }
    }

    /// Is there a thread that finds something out for us?
    #[inline]
    fn awaits_background(&self) -> bool {
        self.reconnecting > 0 || self.router.as_ref().is_some_and(|router| router.is_refreshing)
    }

    /// Is nothing left to do?
    fn is_idle(&self) -> bool {
        if self.is_drawing && !self.is_spent() {
            return false;
        }
        let is_spent = self.is_spent();
        let is_quiet = |connection: &Connection| {
            connection.in_flight.is_empty()
                && connection.queue.is_empty()
                && !connection.has_output()
        };
        let is_over = |workload: &ConnectionWorkload| {
            workload.load.is_over() && (workload.due == NEVER || is_spent)
        };
        let mut workloads = self.workloads.iter().zip(&self.connections);
        // Where keys say where they go, a workload draws for connections beside its own.
        let is_over = match &self.router {
            Some(router) => {
                router.ahead.iter().all(Option::is_none)
                    && workloads.all(|(workload, connection)| {
                        is_over(workload) && (!connection.is_alive() || is_quiet(connection))
                    })
            }
            None => workloads.all(|(workload, connection)| {
                !connection.is_alive() || (is_quiet(connection) && is_over(workload))
            }),
        };
        is_over && self.reconnecting == 0
    }

    /// Has the thread drawn as many requests as it may, or as there are?
    #[inline]
    fn is_spent(&self) -> bool {
        self.phase.budget.is_some_and(|budget| self.drawn >= budget)
            || self.trace.as_ref().is_some_and(|trace| trace.is_over && trace.ahead.is_none())
    }

    fn is_dead(&self) -> bool {
        self.reconnecting == 0 && !self.connections.iter().any(Connection::is_alive)
    }

    /// Reads what has come on a connection, and accounts for it.
    fn receive(&mut self, at: usize, now: u64) {
        loop {
            if !self.connections[at].is_alive() {
                return;
            }
            let filled = self.connections[at].fill();
            // Replies that came before the end are replies.
            let read = self.read_replies(at, now);
            match (filled, read) {
                (_, Err(trouble)) | (Err(trouble), Ok(())) => return self.lose(at, trouble),
                (Ok(true), Ok(())) => {}
                (Ok(false), Ok(())) => return,
            }
        }
    }

    /// How long the queue was when the measurement ended.
    fn note_backlog(&mut self, end: u64) {
        let due = self
            .workloads
            .iter()
            .map(|workload| workload.due_before(end, &self.phase, &self.clock));
        let placed = self.router.as_ref().map_or(0, |router| {
            let queued = self.connections.iter().map(|connection| connection.queue.len());
            queued.sum::<usize>() + router.ahead.iter().flatten().count()
        });
        self.account.counts.backlog = due.sum::<u64>() + placed as u64;
    }

    fn finish(&mut self, cpu_ns: u64) -> Done {
        self.send_samples();
        let depth = &mut self.account.depth;
        self.depths.drain(|under_way, count| depth.record_n(under_way, count));
        self.phase.samples = None;
        for (at, (workload, connection)) in
            self.workloads.iter_mut().zip(&self.connections).enumerate()
        {
            self.account.counts.received_bytes += connection.received_bytes;
            self.account.counts.sent_bytes += connection.written_bytes;
            if workload.window.accesses > 0 {
                self.done.windows.push(reply::window(self.thread, at, &mut workload.window));
            }
        }
        let now = self.clock.ticks();
        let mut done = std::mem::take(&mut self.done);
        if let Some(trace) = self.trace.take() {
            if let Some((request, ..)) = &trace.ahead {
                self.trace_keys.release(request);
            }
            if trace.counts().faults_total() > 0 {
                done.troubles.push(format!("trace: {}", trace.counts()));
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

//! The beginning of a thread and of each phase: connections, workloads, what is due first.

use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;

use keyrack_measure::{Clock, reduce_timer_slack};
use keyrack_wire::outcome::Kind;

use super::connection::Connection;
use super::poller::Poller;
use super::trace_source::{KeyTable, TraceSource};
use super::workload::{ConnectionWorkload, StridedIndexes};
use super::{Done, Phase, Worker, plain};
use crate::account::{Account, Live};
use crate::arrival::Stream as Draws;
use crate::error::{Error, Result};
use crate::plan::Plan;
use crate::target::{Keys, Template};

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
            has_memory: plan.servers.iter().any(|server| server.is_shared),
            iterations: 0,
            connections: Vec::new(),
            workloads: Vec::new(),
            timers: BinaryHeap::new(),
            ready: Vec::new(),
            events: channel(),
            reconnecting: 0,
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
                is_ramped: false,
            },
            is_drawing: false,
            drawn: 0,
            has_purged: false,
            last_send: 0,
            refusal: None,
            moderation: 0,
            samples: Vec::new(),
            trace: None,
            trace_keys: KeyTable::default(),
            touched: Vec::new(),
            woken: Vec::new(),
            nodes: Vec::new(),
            seed: None,
            router: None,
            key: Vec::new(),
            value: Vec::new(),
            many: Keys::default(),
            lookup: template(plan, Kind::Get),
            store: template(plan, Kind::Set),
            is_plain: false,
            depths: plain::Depths::default(),
        };
        worker.connect()?;
        Ok(worker)
    }

    fn connect(&mut self) -> Result<()> {
        self.discover_nodes()?;
        let settings = &self.plan.settings;
        let mut index = self.plan.connections_before(self.thread) as u32;
        let servers = match self.router {
            Some(_) => (0..self.nodes.len()).collect(),
            None => self.plan.servers_of(self.thread),
        };
        for server in servers {
            for client in 0..settings.connections {
                let stream = self.open(server)?;
                let at = self.connections.len();
                self.poller.add(&stream, at).map_err(Error::machine("watch a socket"))?;
                let protocol = settings.protocol;
                self.connections.push(Connection::new(stream, server, protocol, settings.verify));
                let workload = match self.router {
                    Some(_) => self.workload_of(client, at)?,
                    None => {
                        let stream = Draws {
                            seed: settings.seed,
                            agent: settings.agent,
                            thread: self.thread as u32,
                            connection: at as u32,
                        };
                        ConnectionWorkload::new(
                            self.plan,
                            stream,
                            index,
                            self.plan.sources() as u32,
                        )?
                    }
                };
                self.workloads.push(workload);
                index += 1;
            }
        }
        Ok(())
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Gets ready for a phase.
    pub(super) fn begin(&mut self, phase: Phase) -> Result<()> {
        self.phase = phase;
        self.account = Account::default();
        self.done = Done::default();
        self.timers.clear();
        (self.is_drawing, self.drawn, self.has_purged) = (!self.phase.is_load, 0, false);
        self.last_send = 0;
        self.is_plain = self.lookup.is_some() && plain::is_plain(self.plan, &self.phase);
        if !self.phase.is_load {
            // Each phase replays from the start.
            let threads = self.plan.settings.threads as u32;
            self.trace = TraceSource::open(self.plan, self.thread as u32, threads)?;
        }
        self.moderation = if self.plan.settings.moderate && self.phase.rate > 0.0 {
            let gap_ns = self.plan.sources() as f64 * 1e9 / self.phase.rate;
            self.clock.ticks_of_ns(gap_ns as u64)
        } else {
            0
        };
        let per_server = self.plan.settings.connections;
        for (at, (workload, connection)) in
            self.workloads.iter_mut().zip(&mut self.connections).enumerate()
        {
            workload.begin(self.plan, &self.phase, &self.clock)?;
            (connection.received_bytes, connection.written_bytes) = (0, 0);
            workload.load = StridedIndexes::default();
            workload.purge = StridedIndexes::default();
            // The first connection to a server loads this thread's part; where keys say where they
            // go, the first of all.
            if self.phase.is_load && self.router.is_some() {
                if at == 0 {
                    let (first, step) = (self.thread as u64, self.plan.settings.threads as u64);
                    workload.load = StridedIndexes::new(first, step, self.plan.records);
                }
            } else if self.phase.is_load && at % per_server == 0 {
                let (first, step) = self.plan.place_at(self.thread, connection.server);
                workload.load = StridedIndexes::new(first, step, self.plan.records);
            }
        }
        Ok(())
    }
}

/// The request of a kind, where all of them are alike but for the key and the bytes of the value.
fn template(plan: &Plan, kind: Kind) -> Option<Template> {
    let settings = &plan.settings;
    let key_bytes = plan.keys.fixed_len().filter(|_| settings.assoc.is_none())?;
    if kind.has_value() && settings.verify {
        return None;
    }
    let value_bytes = if kind.has_value() { plan.sizes.fixed()? as usize } else { 0 };
    let mut key = vec![0; key_bytes];
    plan.keys.write(0, &mut key);
    let ttl_s = if kind.has_value() { settings.ttl_s } else { 0 };
    Template::new(settings.protocol, kind, &key, value_bytes, ttl_s)
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    #[test]
    fn a_thread_is_tied_to_a_processor_that_it_may_use() {
        let tied = std::thread::spawn(|| {
            let allowed = sched_getaffinity(None).unwrap();
            let last = (0..CpuSet::MAX_CPU).rfind(|cpu| allowed.is_set(*cpu)).unwrap();
            let mut one = CpuSet::new();
            one.set(last);
            sched_setaffinity(None, &one).unwrap();
            super::pin(5);
            (sched_getaffinity(None).unwrap(), one)
        });
        let (found, expected) = tied.join().unwrap();
        assert!((0..CpuSet::MAX_CPU).all(|cpu| found.is_set(cpu) == expected.is_set(cpu)));
    }
}

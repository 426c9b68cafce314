//! What a simulated world is made of: disks, servers, messages on their way, and events in time.

use super::model::Model;
use crate::rpc::server::service::{Connection, Service};
use crate::rpc::server::worker::{BackgroundWorker, Work};
use keyrack_vfs::{FaultFs, MemFs};
use keyrack_workload::Rng;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

/// Nanoseconds of a millisecond.
pub(super) const MS: u64 = 1_000_000;

/// Crashes and partitions of one world, at most.
pub(super) const MISCHIEF_MAX: u32 = 25;

/// Somebody who makes calls in the world.
pub(super) trait Act: Send {
    /// Makes the next call. An error says what was wrong with its answer.
    fn act(&mut self) -> Result<(), String>;

    fn is_done(&self) -> bool;

    /// The tree that is right, and how many calls were answered and were not.
    fn outcome(&self) -> (&Model, [u64; 2]);
}

/// What may happen to messages and servers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    /// Of datagrams that are lost, and that come twice.
    pub(super) lost: f64,
    /// Of messages of connections that break there.
    pub(super) breaks: f64,
    /// The longest that a message takes.
    pub(super) delay_ms_max: u64,
    /// About how often a server crashes, and somebody cannot reach a server, in ms; 0 is never.
    pub(super) mischief_ms: u64,
}

/// Who has one end of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Who {
    Client(usize),
    /// A server, and which of its lives.
    Server(usize, u64),
}

#[derive(Debug)]
pub(super) enum Event {
    ToServer(u64, Vec<u8>),
    ToClient(u64, Vec<u8>),
    Break(u64),
    /// A server works with the others.
    Background(usize, u64),
    Act(usize),
    Mischief,
    Start(usize),
}

pub(super) struct Node {
    pub(super) disk: MemFs,
    /// The disk as the server of this life has it.
    pub(super) faulty: FaultFs,
    pub(super) life: u64,
    pub(super) service: Option<Arc<Service>>,
    pub(super) worker: Option<BackgroundWorker>,
    pub(super) work: Option<Receiver<Work>>,
    pub(super) again_ns: u64,
}

pub(super) struct LineState {
    pub(super) who: Who,
    pub(super) server: usize,
    pub(super) life: u64,
    pub(super) is_datagrams: bool,
    pub(super) connection: Connection,
    pub(super) input: Vec<u8>,
    pub(super) inbox: VecDeque<Vec<u8>>,
    pub(super) is_broken: bool,
    /// When the last message that was sent arrives, there and back: streams keep their order.
    pub(super) last_ns: [u64; 2],
}

pub(super) struct State {
    pub(super) rng: Rng,
    pub(super) faults: Faults,
    pub(super) nodes: Vec<Node>,
    pub(super) lines: HashMap<u64, LineState>,
    pub(super) actors: Vec<Option<Box<dyn Act>>>,
    pub(super) events: BTreeMap<(u64, u64), Event>,
    pub(super) sequence: u64,
    pub(super) cuts: HashMap<(Who, usize), u64>,
    /// How often mischief may still happen: who waits for quiet finds it in the end.
    pub(super) mischief_left: u32,
    /// Servers that wait for one another.
    pub(super) busy: usize,
    pub(super) crashes: u64,
    pub(super) failure: Option<String>,
}

impl State {
    pub(super) fn push(&mut self, at_ns: u64, event: Event) {
        self.sequence += 1;
        self.events.insert((at_ns, self.sequence), event);
    }

    pub(super) fn is_dead(&self, who: Who) -> bool {
        matches!(who, Who::Server(node, life) if self.nodes[node].life != life)
    }

    pub(super) fn is_cut(&self, who: Who, server: usize, now_ns: u64) -> bool {
        self.cuts.get(&(who, server)).is_some_and(|until_ns| *until_ns > now_ns)
    }

    /// When a message arrives that leaves now.
    pub(super) fn arrival(&mut self, line: u64, way: usize, now_ns: u64) -> u64 {
        let delay_ns = self.rng.range(10_000, self.faults.delay_ms_max.max(1) * MS);
        let Some(line) = self.lines.get_mut(&line) else { return now_ns };
        let at_ns = now_ns + delay_ns;
        if line.is_datagrams {
            return at_ns;
        }
        line.last_ns[way] = line.last_ns[way].max(at_ns);
        line.last_ns[way]
    }

    /// Sends one way, 0 to the server, 1 back; or loses it.
    pub(super) fn send(&mut self, number: u64, way: usize, bytes: &[u8], now_ns: u64) {
        let Some(line) = self.lines.get(&number) else { return };
        let is_datagrams = line.is_datagrams;
        let event = |bytes: &[u8]| match way {
            0 => Event::ToServer(number, bytes.to_vec()),
            _ => Event::ToClient(number, bytes.to_vec()),
        };
        let at_ns = self.arrival(number, way, now_ns);
        if is_datagrams {
            if !self.rng.chance(self.faults.lost) {
                self.push(at_ns, event(bytes));
            }
            if self.rng.chance(self.faults.lost) {
                let at_ns = self.arrival(number, way, now_ns);
                self.push(at_ns, event(bytes));
            }
            return;
        }
        let breaks = self.rng.chance(self.faults.breaks);
        if !breaks || self.rng.chance(0.5) {
            self.push(at_ns, event(bytes));
        }
        if breaks {
            let at_ns = self.arrival(number, way, now_ns);
            self.push(at_ns, Event::Break(number));
        }
    }
}

//! A world of servers and clients in one thread: messages, clocks, crashes, all decided by a seed.
//!
//! ```text
//!   events by time    a message arrives | a connection breaks | a server works with the others
//!                     a client makes its next call | a server crashes | a server starts
//! ```
//!
//! The code is that of the real servers and clients; only sockets, clock and threads are not there.
//! Where real code would wait, for bytes or for time, the next events take place, one within the
//! other: what another client does then lies between the request and the answer of the first. Time
//! goes only by events. A client begins no call while a server waits for another: what lies within
//! such a wait are the messages that were on their way.
//!
//! **Invariant:** the lock of the world is not held while the code of a server or client runs.

use super::state::{Act, Event, Faults, LineState, MISCHIEF_MAX, MS, Node, State, Who};
use crate::id::LogId;
use crate::inner::TimeSource;
use crate::namespace::Namespace;
use crate::open::Settings;
use crate::quota::Quota;
use crate::rpc::client::connection::{Client, ClientOptions};
use crate::rpc::client::network::{Line, Network};
use crate::rpc::lease_clock::LeaseClock;
use crate::rpc::server::background::unfinished;
use crate::rpc::server::options::ServeOptions;
use crate::rpc::server::service::{Connection, Service};
use crate::rpc::server::worker::BackgroundWorker;
use keyrack_net::{Endpoint, Limits, Verdict, Worker as _};
use keyrack_vfs::{FaultFs, Fs, MemFs};
use keyrack_workload::Rng;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Bytes of a datagram.
pub(super) const DATAGRAM_BYTES: usize = 60_000;

/// All of it.
pub(super) struct World {
    state: Mutex<State>,
    now: Arc<AtomicU64>,
    split_at: u64,
    segment_bytes: u64,
}

/// Bytes of a segment of a server's log, unless a test wants it to be full soon.
const SEGMENT_BYTES: u64 = 256 << 10;

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").finish_non_exhaustive()
    }
}

impl World {
    /// Servers that have met, and nobody else.
    pub(super) fn new(seed: u64, servers: usize, split_at: u64, faults: Faults) -> Arc<World> {
        World::with_segments(seed, (servers, split_at, SEGMENT_BYTES), faults)
    }

    /// The same, with segments of so many bytes.
    pub(super) fn with_segments(
        seed: u64,
        (servers, split_at, segment_bytes): (usize, u64, u64),
        faults: Faults,
    ) -> Arc<World> {
        let node = |_| {
            let disk = MemFs::new();
            let faulty = FaultFs::new(Arc::new(disk.clone()));
            Node { disk, faulty, life: 0, service: None, worker: None, work: None, again_ns: 0 }
        };
        let state = State {
            rng: Rng::from_seed(seed),
            faults,
            nodes: (0..servers).map(node).collect(),
            lines: HashMap::new(),
            actors: Vec::new(),
            events: BTreeMap::new(),
            sequence: 0,
            cuts: HashMap::new(),
            mischief_left: MISCHIEF_MAX,
            busy: 0,
            crashes: 0,
            failure: None,
        };
        let now = Arc::new(AtomicU64::new(1_000_000 * MS));
        let world = Arc::new(World { state: Mutex::new(state), now, split_at, segment_bytes });
        (0..servers).for_each(|server| world.start(server));
        world
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn now_ns(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    /// How often a server has crashed.
    pub(super) fn crashes(&self) -> u64 {
        self.state().crashes
    }

    /// Whether something may go wrong.
    pub(super) fn has_faults(&self) -> bool {
        let faults = self.state().faults;
        faults.lost + faults.breaks > 0.0 || faults.mischief_ms > 0
    }

    /// How many events there were.
    pub(super) fn events(&self) -> u64 {
        self.state().sequence
    }

    /// What may happen from here on.
    pub(super) fn set_faults(&self, faults: Faults) {
        let mut state = self.state();
        state.faults = faults;
        state.cuts.clear();
    }

    /// Ends all servers. The world and its parts know each other, and would stay for ever.
    pub(super) fn end(&self) {
        let gone = {
            let mut state = self.state();
            state.events.clear();
            state.actors.clear();
            std::mem::take(&mut state.nodes)
        };
        drop(gone);
    }

    /// The name spaces of all servers that are up.
    pub(super) fn spaces(&self) -> Vec<Namespace> {
        let state = self.state();
        let services = state.nodes.iter().filter_map(|node| node.service.as_ref());
        services.filter_map(|service| service.core.space.clone()).collect()
    }

    /// The disk of a server, in its present life.
    pub(super) fn disk(&self, server: usize) -> FaultFs {
        self.state().nodes[server].faulty.clone()
    }

    /// The connections of a client or a server.
    pub(super) fn client(self: &Arc<World>, who: Who, options: ClientOptions) -> Client {
        let servers = self.state().nodes.len();
        let at = |server| format!("127.0.0.1:{}", server + 1).parse::<Endpoint>().unwrap();
        let endpoints = (0..servers).map(at).collect();
        Client::over(Arc::new(Access { world: Arc::clone(self), who }), endpoints, options)
    }

    /// What leases are told by.
    pub(super) fn lease_clock(&self) -> LeaseClock {
        LeaseClock::Given(Arc::clone(&self.now))
    }

    fn start(self: &Arc<World>, server: usize) {
        let (fs, life, servers) = {
            let state = self.state();
            let node = &state.nodes[server];
            let fs: Arc<dyn Fs> = Arc::new(node.faulty.clone());
            (fs, node.life, state.nodes.len())
        };
        let mut settings = Settings {
            log: Some(LogId::from_bits(server as u64 + 1)),
            time: TimeSource::Given(Arc::clone(&self.now)),
            // More than there are: for the count.
            quota: Quota { names: Some(1 << 40), ..Quota::default() },
            ..Settings::default()
        };
        settings.store.compaction_threads = 0;
        settings.store.memtable_bytes = 1 << 20;
        settings.store.segment_bytes = self.segment_bytes;
        settings.store.cache_bytes = 0;
        let space = Namespace::open_in(fs, Path::new("/log"), settings).unwrap();
        let options = ServeOptions {
            datagrams: vec![("127.0.0.1:0".parse().unwrap(), DATAGRAM_BYTES)],
            server: server as u32,
            servers: servers as u32,
            split_at: self.split_at,
            lease_clock: self.lease_clock(),
            ..ServeOptions::default()
        };
        let epoch = space.epoch() as u32;
        let service = Service::new(Some(space), options, epoch).unwrap();
        let (sender, receiver) = channel();
        service.core.work.set(sender).unwrap();
        let options = ClientOptions {
            timeout: Duration::from_secs(5),
            lease_clock: self.lease_clock(),
            ..ClientOptions::default()
        };
        let peers = self.client(Who::Server(server, life), options);
        let core = Arc::clone(&service.core);
        let unfinished = unfinished(&core).unwrap();
        let worker = BackgroundWorker::new(core, peers, unfinished);
        let now_ns = self.now_ns();
        let mut state = self.state();
        let node = &mut state.nodes[server];
        node.service = Some(Arc::new(service));
        node.worker = Some(worker);
        node.work = Some(receiver);
        state.push(now_ns + MS, Event::Background(server, life));
    }

    /// Its process ends, as by kill -9: what it has written is there, what it knew is not.
    pub(super) fn crash(&self, server: usize, down_ns: u64) {
        let now_ns = self.now_ns();
        let mut state = self.state();
        let node = &mut state.nodes[server];
        if node.service.is_none() {
            return;
        }
        node.disk = node.disk.process_crash_image();
        node.faulty = FaultFs::new(Arc::new(node.disk.clone()));
        node.life += 1;
        let gone = (node.service.take(), node.worker.take(), node.work.take());
        for line in state.lines.values_mut().filter(|line| line.server == server) {
            line.is_broken |= !line.is_datagrams;
        }
        state.crashes += 1;
        state.push(now_ns + down_ns, Event::Start(server));
        drop(state);
        drop(gone);
    }

    /// Lets actors make their calls until all are done, and mischief happen meanwhile.
    pub(super) fn run(
        self: &Arc<World>,
        actors: Vec<Box<dyn Act>>,
    ) -> Result<Vec<Box<dyn Act>>, String> {
        let count = actors.len();
        {
            let now_ns = self.now_ns();
            let mut state = self.state();
            state.actors = actors.into_iter().map(Some).collect();
            (0..count).for_each(|actor| state.push(now_ns + MS, Event::Act(actor)));
            if state.faults.mischief_ms > 0 {
                state.push(now_ns + MS, Event::Mischief);
            }
        }
        let limit_ns = self.now_ns() + 100_000_000 * MS;
        loop {
            {
                let mut state = self.state();
                if let Some(failure) = state.failure.take() {
                    return Err(failure);
                }
                if state
                    .actors
                    .iter()
                    .all(|actor| actor.as_ref().is_some_and(|actor| actor.is_done()))
                {
                    return Ok(state.actors.drain(..).flatten().collect());
                }
            }
            if self.now_ns() > limit_ns {
                return Err("it does not come to an end".to_owned());
            }
            self.step(u64::MAX);
        }
    }

    /// Lets time go by.
    pub(super) fn pass(self: &Arc<World>, ms: u64) {
        let until_ns = self.now_ns() + ms * MS;
        while self.now_ns() < until_ns {
            self.step(until_ns);
        }
    }

    /// The next event, or none until then.
    fn step(self: &Arc<World>, until_ns: u64) {
        let event = {
            let mut state = self.state();
            match state.events.first_entry() {
                Some(first) if first.key().0 <= until_ns => {
                    let (at_ns, event) = (first.key().0, first.remove());
                    self.now.fetch_max(at_ns, Ordering::Relaxed);
                    event
                }
                _ => {
                    self.now.fetch_max(until_ns, Ordering::Relaxed);
                    return;
                }
            }
        };
        match event {
            Event::ToServer(line, bytes) => self.to_server(line, bytes),
            Event::ToClient(line, bytes) => self.to_client(line, bytes),
            Event::Break(line) => {
                if let Some(line) = self.state().lines.get_mut(&line) {
                    line.is_broken = true;
                }
            }
            Event::Background(server, life) => self.run_background(server, life),
            Event::Act(actor) => self.act(actor),
            Event::Mischief => self.mischief(),
            Event::Start(server) => self.start(server),
        }
    }

    fn to_server(&self, number: u64, bytes: Vec<u8>) {
        let now_ns = self.now_ns();
        let mut state = self.state();
        let Some(line) = state.lines.get(&number) else { return };
        let (who, server, is_datagrams) = (line.who, line.server, line.is_datagrams);
        if state.is_cut(who, server, now_ns) {
            // A connection sends again by itself.
            if !is_datagrams {
                state.push(now_ns + 50 * MS, Event::ToServer(number, bytes));
            }
            return;
        }
        let node = &state.nodes[server];
        let is_same = node.life == line.life;
        let Some(service) = node.service.clone().filter(|_| is_datagrams || is_same) else {
            if let Some(line) = state.lines.get_mut(&number) {
                line.is_broken |= !is_datagrams;
            }
            return;
        };
        let Some(line) = state.lines.get_mut(&number) else { return };
        let mut connection = std::mem::take(&mut line.connection);
        let mut input = std::mem::take(&mut line.input);
        drop(state);
        let mut output = Vec::new();
        let mut is_closed = false;
        let mut worker = service.new_loop();
        if is_datagrams {
            let from = "127.0.0.1:9".parse().unwrap();
            worker.datagram(0, from, &bytes, &mut output);
        } else {
            input.extend_from_slice(&bytes);
            loop {
                let mut limits = Limits { input_bytes_max: 4 << 20, output_bytes_max: 8 << 20 };
                let turn = worker.serve(&mut connection, &input, &mut output, &mut limits);
                input.drain(..turn.consumed);
                match turn.verdict {
                    Verdict::Again => {}
                    Verdict::Continue => break,
                    _ => {
                        is_closed = true;
                        break;
                    }
                }
            }
        }
        let mut state = self.state();
        if let Some(line) = state.lines.get_mut(&number) {
            (line.connection, line.input) = (connection, input);
            line.is_broken |= is_closed;
        }
        if !output.is_empty() {
            state.send(number, 1, &output, now_ns);
        }
    }

    fn to_client(&self, number: u64, bytes: Vec<u8>) {
        let now_ns = self.now_ns();
        let mut state = self.state();
        let Some(line) = state.lines.get(&number) else { return };
        if state.is_cut(line.who, line.server, now_ns) {
            if !line.is_datagrams {
                state.push(now_ns + 50 * MS, Event::ToClient(number, bytes));
            }
            return;
        }
        if let Some(line) = state.lines.get_mut(&number).filter(|line| !line.is_broken) {
            line.inbox.push_back(bytes);
        }
    }

    fn run_background(&self, server: usize, life: u64) {
        let now_ns = self.now_ns();
        let (mut worker, work, is_time) = {
            let mut state = self.state();
            let node = &mut state.nodes[server];
            if node.life != life {
                return;
            }
            let Some(worker) = node.worker.take() else {
                // It waits for an answer, further out.
                return state.push(now_ns + MS, Event::Background(server, life));
            };
            let work = node.work.as_ref().and_then(|work| work.try_recv().ok());
            let is_time = node.again_ns <= now_ns;
            if is_time {
                node.again_ns = now_ns + 20 * MS;
            }
            state.busy += 1;
            (worker, work, is_time)
        };
        let is_idle = work.is_none();
        match work {
            Some(work) => worker.perform(work),
            None if is_time => worker.retry_waiting(),
            None => {}
        }
        let mut state = self.state();
        state.busy -= 1;
        if state.nodes[server].life == life {
            state.nodes[server].worker = Some(worker);
            let pause_ns = if is_idle { 20 * MS } else { MS / 10 };
            let at_ns = self.now_ns() + pause_ns;
            state.push(at_ns, Event::Background(server, life));
        }
    }

    fn act(self: &Arc<World>, number: usize) {
        {
            let now_ns = self.now_ns();
            let mut state = self.state();
            if state.busy > 0 {
                // It might wait for a server that could not go on before it came back. Calls that
                // are on their way arrive meanwhile.
                return state.push(now_ns + MS, Event::Act(number));
            }
        }
        let taken = self.state().actors.get_mut(number).and_then(Option::take);
        let Some(mut actor) = taken else { return };
        let done = actor.act();
        let now_ns = self.now_ns();
        let mut state = self.state();
        if let Err(failure) = done {
            state.failure.get_or_insert(failure);
        } else if !actor.is_done() {
            let at_ns = now_ns + state.rng.range(MS / 10, 20 * MS);
            state.push(at_ns, Event::Act(number));
        }
        state.actors[number] = Some(actor);
    }

    /// A server crashes, or somebody cannot reach one for a while.
    fn mischief(&self) {
        let now_ns = self.now_ns();
        let crash = {
            let mut state = self.state();
            let every_ms = state.faults.mischief_ms;
            if every_ms == 0 || state.mischief_left == 0 {
                return;
            }
            state.mischief_left -= 1;
            let at_ns = now_ns + state.rng.range(MS, 2 * every_ms * MS);
            state.push(at_ns, Event::Mischief);
            let (servers, actors) = (state.nodes.len() as u64, state.actors.len() as u64);
            let server = state.rng.below(servers) as usize;
            let lasts_ns = state.rng.range(MS, 2000 * MS);
            match state.rng.below(3) {
                0 => Some((server, lasts_ns)),
                1 => {
                    let who = Who::Client(state.rng.below(actors.max(1)) as usize);
                    state.cuts.insert((who, server), now_ns + lasts_ns);
                    None
                }
                _ => {
                    let other = state.rng.below(servers) as usize;
                    let who = Who::Server(other, state.nodes[other].life);
                    state.cuts.insert((who, server), now_ns + lasts_ns);
                    None
                }
            }
        };
        if let Some((server, down_ns)) = crash {
            self.crash(server, down_ns);
        }
    }
}

/// The network as one of them has it.
#[derive(Debug)]
struct Access {
    world: Arc<World>,
    who: Who,
}

impl Network for Access {
    fn connect(&self, server: usize, is_datagrams: bool) -> io::Result<Box<dyn Line>> {
        // It takes a while, so that who tries again and again lets time go by.
        self.world.pass(1);
        let now_ns = self.world.now_ns();
        let mut state = self.world.state();
        if state.is_dead(self.who) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let node = &state.nodes[server];
        let life = node.life;
        if !is_datagrams && (node.service.is_none() || state.is_cut(self.who, server, now_ns)) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        state.sequence += 1;
        let number = state.sequence;
        let line = LineState {
            who: self.who,
            server,
            life,
            is_datagrams,
            connection: Connection::default(),
            input: Vec::new(),
            inbox: VecDeque::new(),
            is_broken: false,
            last_ns: [0; 2],
        };
        state.lines.insert(number, line);
        let patience_ns = 0;
        let (world, who) = (Arc::clone(&self.world), self.who);
        Ok(Box::new(End { world, who, number, patience_ns }))
    }

    fn now_ns(&self) -> u64 {
        self.world.now_ns()
    }

    fn pause(&self, pause: Duration) {
        self.world.pass(pause.as_millis().max(1) as u64);
    }
}

/// A client's end of a line.
#[derive(Debug)]
struct End {
    world: Arc<World>,
    who: Who,
    number: u64,
    patience_ns: u64,
}

impl Line for End {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let now_ns = self.world.now_ns();
        let mut state = self.world.state();
        if state.is_dead(self.who) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        if state.lines.get(&self.number).is_none_or(|line| line.is_broken) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        state.send(self.number, 0, bytes, now_ns);
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let until_ns = self.world.now_ns() + self.patience_ns;
        loop {
            {
                let mut state = self.world.state();
                if state.is_dead(self.who) {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                let Some(line) = state.lines.get_mut(&self.number) else {
                    return Err(io::ErrorKind::NotConnected.into());
                };
                if let Some(mut bytes) = line.inbox.pop_front() {
                    let count = bytes.len().min(buffer.len());
                    buffer[..count].copy_from_slice(&bytes[..count]);
                    if count < bytes.len() && !line.is_datagrams {
                        line.inbox.push_front(bytes.split_off(count));
                    }
                    return Ok(count);
                }
                if line.is_broken {
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
            }
            if self.world.now_ns() >= until_ns {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            self.world.step(until_ns);
        }
    }

    fn set_patience(&mut self, patience: Duration) -> io::Result<()> {
        self.patience_ns = patience.as_nanos() as u64;
        Ok(())
    }
}

impl Drop for End {
    /// What is on its way to the server still arrives; nobody waits for the answer.
    fn drop(&mut self) {
        if let Ok(mut state) = self.world.state.lock()
            && let Some(line) = state.lines.get_mut(&self.number)
        {
            line.inbox.clear();
        }
    }
}

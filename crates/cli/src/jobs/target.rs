//! What the benchmark runs against: a name space in this process, or servers.

use super::bench::{Phase, Plan};
use super::names::{self, NAME_BYTES};
use keyrack_deltafs::calls::{Answer, Bulk, ClientOptions, Request, Transport, Tree};
use keyrack_deltafs::{Dir, IfExists, Namespace, Settings, User};
use keyrack_measure::{Clock, Histogram};
use keyrack_vfs::RealFs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The user of the benchmark, as in the original.
const USER: u32 = 1;
/// Permission bits of its files.
const FILE_MODE: u32 = 0o660;
/// Permission bits of its directories.
const DIR_MODE: u32 = 0o777;
/// Datagrams of clients, in bytes: what fits a packet of Ethernet.
const DATAGRAM_BYTES: usize = 1432;

/// A place to make files in.
pub(super) enum Target {
    Local { space: Namespace, user: User, dir: Option<Dir> },
    Remote { tree: Box<Tree>, path: Vec<u8> },
}

/// What a phase of one rank came to.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) start_ns: u64,
    pub(super) end_ns: u64,
    pub(super) ops: u64,
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
    pub(super) latency_ns: Histogram,
}

fn user() -> User {
    User::new(USER, USER)
}

impl Target {
    /// Opens the name space of a rank, or finds the servers.
    pub(super) fn open(plan: &Plan, rank: u32) -> Result<Target, String> {
        if !plan.is_local {
            let transport = match plan.is_udp {
                true => Transport::Datagrams { bytes_max: DATAGRAM_BYTES },
                false => Transport::Stream,
            };
            let options = ClientOptions {
                transport,
                user: user(),
                token: plan.token.clone(),
                timeout: plan.timeout,
                ..ClientOptions::default()
            };
            let tree = Tree::discover(plan.server.clone(), options);
            let tree = Box::new(tree.map_err(|error| error.to_string())?);
            return Ok(Target::Remote { tree, path: Vec::new() });
        }
        let dir = plan.rank_dir(rank);
        let opened = if plan.use_existing {
            Namespace::open_read_only(&[dir], Settings::default())
        } else {
            destroy(&dir)?;
            let settings = Settings {
                store: plan.store.options.clone(),
                root_mode: 0o777,
                ..Settings::default()
            };
            Namespace::open(dir, settings)
        };
        let space = opened.map_err(|error| error.to_string())?;
        Ok(Target::Local { space, user: user(), dir: None })
    }

    /// Makes the directory of the rank, or finds it. One that is there already is fine.
    pub(super) fn prepare(&mut self, plan: &Plan, rank: u32) -> Result<(), String> {
        let path = names::directory(plan.is_shared, rank);
        match self {
            Target::Local { space, user, dir } => {
                let caller = space.by(user);
                let opened = match plan.use_existing {
                    true => caller.dir(&path),
                    false => caller.mkdir(&path, DIR_MODE).or_else(|_| caller.dir(&path)),
                };
                *dir = Some(opened.map_err(|error| error.to_string())?);
            }
            Target::Remote { tree, path: at } => {
                // Another rank may have made it at one server and not yet at all: whoever finds it
                // there opens it behind the next barrier.
                let prepared = match plan.use_existing {
                    true => tree.open(&path).map(|_| ()),
                    false => tree.mkdir(&path, DIR_MODE),
                };
                match prepared {
                    Err(error) if error.errno() != "EEXIST" => return Err(error.to_string()),
                    _ => *at = path,
                }
            }
        }
        Ok(())
    }

    /// Runs a phase over files with these numbers.
    pub(super) fn run(
        &mut self,
        plan: &Plan,
        phase: Phase,
        numbers: &[u64],
        done: &AtomicU64,
    ) -> Result<Measured, String> {
        match self {
            Target::Local { space, user, dir } => {
                let Some(dir) = dir else { return Err("the directory is not open".to_owned()) };
                local(plan, phase, numbers, done, (&*space, &*user, &*dir))
            }
            Target::Remote { tree, path } if plan.is_bulk && phase == Phase::Insert => {
                bulk(plan, tree, path, numbers, done)
            }
            Target::Remote { tree, path } => {
                let path = path.clone();
                Remote { plan, phase, tree, done }.run(&path, numbers)
            }
        }
    }

    /// The name space, if it is in this process.
    pub(super) fn space(&self) -> Option<&Namespace> {
        match self {
            Target::Local { space, .. } => Some(space),
            Target::Remote { .. } => None,
        }
    }

    /// Ends the use.
    pub(super) fn close(self) -> Result<(), String> {
        match self {
            Target::Local { space, .. } => space.close().map_err(|error| error.to_string()),
            Target::Remote { .. } => Ok(()),
        }
    }
}

/// Removes a store, whole; nothing else.
pub(super) fn destroy(dir: &Path) -> Result<(), String> {
    use keyrack_vfs::Fs as _;
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", dir.display());
    RealFs.create_dir_all(dir).map_err(|error| failed(&error))?;
    keyrack_flodb::Db::destroy(&RealFs, dir).map_err(|error| failed(&error))
}

/// Keeps count of a phase.
struct Counter<'a> {
    clock: Clock,
    measured: Measured,
    done: &'a AtomicU64,
    aborts: bool,
}

impl Counter<'_> {
    fn new(done: &AtomicU64, aborts: bool) -> Counter<'_> {
        let measured = Measured {
            start_ns: Clock::vdso().ticks(),
            end_ns: 0,
            ops: 0,
            errors: 0,
            first_error: None,
            latency_ns: Histogram::new(),
        };
        Counter { clock: Clock::calibrated(), measured, done, aborts }
    }

    fn ok(&mut self, ticks: u64, ops: u64) {
        self.measured.latency_ns.record_n(self.clock.ns(ticks), ops);
        self.measured.ops += ops;
        // Relaxed: a count for people.
        self.done.store(self.measured.ops, Ordering::Relaxed);
    }

    fn failed(&mut self, why: String) -> Result<(), String> {
        if self.aborts {
            return Err(why);
        }
        self.measured.errors += 1;
        self.measured.first_error.get_or_insert(why);
        Ok(())
    }

    fn end(mut self) -> Measured {
        self.measured.end_ns = Clock::vdso().ticks();
        self.measured
    }
}

fn local(
    plan: &Plan,
    phase: Phase,
    numbers: &[u64],
    done: &AtomicU64,
    (space, user, dir): (&Namespace, &User, &Dir),
) -> Result<Measured, String> {
    let caller = space.by(user);
    let mut counter = Counter::new(done, plan.abort_on_errors);
    let mut before = counter.clock.ticks();
    for number in numbers {
        let name = names::name(*number);
        let result = match phase {
            Phase::Insert if plan.is_checked => {
                caller.create_at(dir, &name, FILE_MODE, IfExists::Fail).map(|_| ())
            }
            Phase::Insert => caller.create_unchecked_at(dir, &name, FILE_MODE),
            Phase::Stat => caller.stat_at(dir, &name).map(|_| ()),
        };
        let now = counter.clock.ticks();
        match result {
            Ok(()) => counter.ok(now.saturating_sub(before), 1),
            Err(error) => counter.failed(error.to_string())?,
        }
        before = now;
        if phase == Phase::Insert {
            plan.write_data(&name)?;
        }
    }
    if phase == Phase::Insert {
        space.flush().map_err(|error| error.to_string())?;
    }
    Ok(counter.end())
}

/// Files that are made here, and handed to the servers as tables.
fn bulk(
    plan: &Plan,
    tree: &mut Tree,
    path: &[u8],
    numbers: &[u64],
    done: &AtomicU64,
) -> Result<Measured, String> {
    let failed = |error: keyrack_deltafs::calls::Error| error.to_string();
    let dir = tree.open(path).map_err(failed)?;
    let mut counter = Counter::new(done, plan.abort_on_errors);
    let mut bulk = Bulk::new(tree, dir);
    let mut before = counter.clock.ticks();
    for number in numbers {
        bulk.add(tree, &names::name(*number)).map_err(failed)?;
        let now = counter.clock.ticks();
        counter.ok(now.saturating_sub(before), 1);
        before = now;
    }
    bulk.commit(tree, &plan.db, &user(), FILE_MODE).map_err(failed)?;
    Ok(counter.end())
}

/// A phase against servers: a window of calls, sent in bursts.
struct Remote<'a> {
    plan: &'a Plan,
    phase: Phase,
    tree: &'a mut Tree,
    done: &'a AtomicU64,
}

impl Remote<'_> {
    fn run(mut self, path: &[u8], numbers: &[u64]) -> Result<Measured, String> {
        let failed = |error: keyrack_deltafs::calls::Error| error.to_string();
        let plan = self.plan;
        let is_batched = plan.batch.is_some() && self.phase == Phase::Insert;
        let batch = plan.batch.filter(|_| is_batched).unwrap_or(1).max(1);
        let dir = self.tree.open(path).map_err(failed)?;
        let servers = self.tree.client().servers();
        let mut counter = Counter::new(self.done, plan.abort_on_errors);
        // When each ticket was given out, and how many names it has.
        let mut tickets: Vec<(u64, u32)> = Vec::with_capacity(numbers.len() / batch + servers);
        let mut behind: Vec<(u32, Vec<[u8; NAME_BYTES]>)> = vec![(0, Vec::new()); servers];
        let (mut next, mut under_way) = (0, 0);
        let mut turn = 0;
        loop {
            while under_way < plan.depth && next < numbers.len() {
                let name = names::name(numbers[next]);
                next += 1;
                let (server, at) = self.tree.place(dir, &name).map_err(failed)?;
                let ticket = tickets.len() as u64;
                if is_batched {
                    let waiting = &mut behind[server];
                    waiting.0 = at;
                    waiting.1.push(name);
                    if waiting.1.len() < batch {
                        continue;
                    }
                    let all = std::mem::take(&mut waiting.1);
                    self.send_batch(server, at, &all, ticket)?;
                    tickets.push((counter.clock.ticks(), all.len() as u32));
                } else {
                    let request = match self.phase {
                        Phase::Insert => {
                            Tree::create_request(at, &name, FILE_MODE, plan.is_checked)
                        }
                        Phase::Stat => Request::Stat { dir: at, name: &name },
                    };
                    tickets.push((counter.clock.ticks(), 1));
                    self.tree.client().submit(server, &request, ticket).map_err(failed)?;
                }
                under_way += 1;
                if self.phase == Phase::Insert {
                    plan.write_data(&name)?;
                }
            }
            if next == numbers.len() {
                // What is left of the batches.
                for (server, (at, all)) in behind.iter_mut().enumerate() {
                    let (at, all) = (*at, std::mem::take(all));
                    if !all.is_empty() {
                        let ticket = tickets.len() as u64;
                        self.send_batch(server, at, &all, ticket)?;
                        tickets.push((counter.clock.ticks(), all.len() as u32));
                        under_way += 1;
                    }
                }
            }
            if under_way == 0 {
                break;
            }
            for server in 0..servers {
                self.tree.client().flush(server).map_err(failed)?;
            }
            // Half a window goes out again at once, so that neither side waits for each call.
            let keep = if next < numbers.len() { plan.depth / 2 } else { 0 };
            while under_way > keep {
                turn = (turn + 1) % servers;
                if self.tree.client().under_way(turn) == 0 {
                    continue;
                }
                let mut refused = None;
                let visit = &mut |answer: Answer<'_>| {
                    under_way -= 1;
                    let (began, names) = tickets[answer.ticket as usize];
                    let ticks = counter.clock.ticks().saturating_sub(began);
                    if let Err(error) = settle(&mut counter, answer, ticks, names) {
                        refused.get_or_insert(error);
                    }
                };
                self.tree.client().drain(turn, visit).map_err(failed)?;
                if let Some(why) = refused {
                    return Err(why);
                }
            }
        }
        Ok(counter.end())
    }

    fn send_batch(
        &mut self,
        server: usize,
        at: u32,
        names: &[[u8; NAME_BYTES]],
        ticket: u64,
    ) -> Result<(), String> {
        let list: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
        let request = Tree::create_many_request(at, list, FILE_MODE, self.plan.is_checked);
        let sent = self.tree.client().submit(server, &request, ticket);
        sent.map_err(|error| error.to_string())
    }
}

/// Files an answer: of one call, or of a batch name by name.
fn settle(
    counter: &mut Counter<'_>,
    answer: Answer<'_>,
    ticks: u64,
    names: u32,
) -> Result<(), String> {
    use keyrack_deltafs::calls::Reply;
    if names == 1 && answer.is_done() && answer.tag != 9 {
        counter.ok(ticks, 1);
        return Ok(());
    }
    match answer.reply() {
        Ok(Reply::Codes(codes)) => {
            let good = codes.iter().filter(|code| **code == 0).count();
            counter.ok(ticks, good as u64);
            let bad = codes.len() - good;
            (0..bad).try_for_each(|_| counter.failed(format!("{bad} names of a batch failed")))
        }
        Ok(_) => {
            counter.ok(ticks, 1);
            Ok(())
        }
        Err(error) => counter.failed(error.to_string()),
    }
}

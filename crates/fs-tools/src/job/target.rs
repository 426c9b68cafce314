//! What the benchmark runs against: a name space in this process, or servers.

use super::bench::{Phase, Plan};
use super::remote::Remote;
use super::{behind, names};
use keyrack_deltafs::rpc::{Bulk, ClientOptions, Transport, Tree};
use keyrack_deltafs::{Dir, IfExists, Namespace, Settings, User};
use keyrack_measure::{Clock, Histogram};
use keyrack_vfs::RealFs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// The user of the benchmark, as in the original.
const USER: u32 = 1;
/// Permission bits of its files.
pub(super) const FILE_MODE: u32 = 0o660;
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
            let mut options = ClientOptions {
                transport,
                user: user(),
                token: plan.token.clone(),
                timeout: plan.timeout,
                write_behind: plan.create_behind,
                ..ClientOptions::default()
            };
            options.connect.tls = plan.tls.clone();
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
            Target::Remote { tree, path }
                if plan.create_behind.is_some() && phase == Phase::Insert =>
            {
                behind::create(plan, tree, path, numbers, done)
            }
            Target::Remote { tree, path } => {
                Remote::new(plan, phase, tree, path, done)?.run(numbers)
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
pub(super) struct Counter<'a> {
    pub(super) clock: Clock,
    measured: Measured,
    done: &'a AtomicU64,
    aborts: bool,
}

impl Counter<'_> {
    pub(super) fn new(done: &AtomicU64, aborts: bool) -> Counter<'_> {
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

    pub(super) fn ok(&mut self, ticks: u64, ops: u64) {
        self.measured.latency_ns.record_n(self.clock.ns(ticks), ops);
        self.measured.ops += ops;
        // Relaxed: a count for people.
        self.done.store(self.measured.ops, Ordering::Relaxed);
    }

    pub(super) fn failed(&mut self, why: String) -> Result<(), String> {
        if self.aborts {
            return Err(why);
        }
        self.measured.errors += 1;
        self.measured.first_error.get_or_insert(why);
        Ok(())
    }

    /// Operations that were counted as good have failed after all.
    pub(super) fn failed_later(&mut self, count: u64, why: String) -> Result<(), String> {
        self.measured.ops = self.measured.ops.saturating_sub(count);
        self.measured.errors += count.saturating_sub(1);
        self.failed(why)
    }

    pub(super) fn end(mut self) -> Measured {
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
    let failed = |error: keyrack_deltafs::rpc::Error| error.to_string();
    let dir = tree.open(path).map_err(failed)?;
    let mut counter = Counter::new(done, plan.abort_on_errors);
    let mut bulk = Bulk::new(dir);
    let mut before = counter.clock.ticks();
    for number in numbers {
        bulk.add(&names::name(*number)).map_err(failed)?;
        let now = counter.clock.ticks();
        counter.ok(now.saturating_sub(before), 1);
        before = now;
    }
    bulk.commit(tree, &plan.db, &user(), FILE_MODE).map_err(failed)?;
    Ok(counter.end())
}

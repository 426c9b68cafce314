//! What the ranks of a job run against: a name space in this process, or servers.

use super::counter::{Counter, Measured};
use super::local::{FILE_MODE, LocalDir};
use super::names::{self, Name};
use super::plan::{Clients, Phase};
use super::remote::Remote;
use super::write_behind;
use crate::job::{destroy, in_words};
use keyrack_deltafs::rpc::{Bulk, ClientOptions, Transport, Tree};
use keyrack_deltafs::{Dir, Namespace, Settings, User};
use keyrack_measure::Clock;
use std::sync::atomic::AtomicU64;

/// The user of the benchmark, as in the original.
const USER: u32 = 1;
/// Permission bits of its directories.
const DIR_MODE: u32 = 0o777;
/// Datagrams of clients, in bytes: what fits a packet of Ethernet.
const DATAGRAM_BYTES: usize = 1432;

/// A place to make files in.
pub(super) enum Target {
    Local { space: Namespace, user: User, dir: Option<Dir> },
    Remote { tree: Box<Tree>, path: Vec<u8> },
}

fn user() -> User {
    User::new(USER, USER)
}

impl Target {
    /// Opens the name space of a rank, or finds the servers.
    pub(super) fn open(plan: &Clients, rank: u32) -> Result<Target, String> {
        if !plan.is_local {
            let transport = if plan.is_udp {
                Transport::Datagrams { bytes_max: DATAGRAM_BYTES }
            } else {
                Transport::Stream
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
            let tree = Box::new(tree.map_err(in_words)?);
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
        let space = opened.map_err(in_words)?;
        Ok(Target::Local { space, user: user(), dir: None })
    }

    /// Makes the directory of the rank, or finds it. One that is there already is fine.
    pub(super) fn prepare(&mut self, plan: &Clients, rank: u32) -> Result<(), String> {
        let number = if plan.is_shared { 0 } else { u64::from(rank) };
        let path = [&b"/"[..], &names::name(number)].concat();
        match self {
            Target::Local { space, user, dir } => {
                let caller = space.by(user);
                let opened = if plan.use_existing {
                    caller.dir(&path)
                } else {
                    caller.mkdir(&path, DIR_MODE).or_else(|_| caller.dir(&path))
                };
                *dir = Some(opened.map_err(in_words)?);
            }
            Target::Remote { tree, path: at } => {
                // Another rank may have made it at one server and not yet at all: whoever finds it
                // there opens it behind the next barrier.
                let prepared = if plan.use_existing {
                    tree.open(&path).map(|_| ())
                } else {
                    tree.mkdir(&path, DIR_MODE)
                };
                match prepared {
                    Err(error) if error.errno() != "EEXIST" => return Err(error.to_string()),
                    _ => *at = path,
                }
            }
        }
        Ok(())
    }

    /// Runs a phase over files with these names.
    pub(super) fn run(
        &mut self,
        plan: &Clients,
        phase: Phase,
        names: &[Name],
        done: &AtomicU64,
    ) -> Result<Measured, String> {
        let counter = Counter::new(Clock::calibrated(), done, plan.abort_on_errors);
        match self {
            Target::Local { space, user, dir } => {
                let Some(dir) = dir else { return Err("the directory is not open".to_owned()) };
                let local = LocalDir { space, user, dir };
                let log = space.stores()[0].dir();
                let measured = match phase {
                    Phase::Insert => local.create(counter, names, (plan.is_checked, &[]), |name| {
                        Ok(plan.write_data(name)?)
                    }),
                    Phase::Stat => local.stat(counter, names, (None, log)),
                };
                measured.map_err(in_words)
            }
            Target::Remote { tree, path } if plan.is_bulk && phase == Phase::Insert => {
                bulk(plan, tree, path, names, counter)
            }
            Target::Remote { tree, path }
                if plan.create_behind.is_some() && phase == Phase::Insert =>
            {
                write_behind::create(plan, tree, path, names, counter)
            }
            Target::Remote { tree, path } => {
                Remote::new(plan, phase, tree, path, counter)?.run(names)
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
            Target::Local { space, .. } => space.close().map_err(in_words),
            Target::Remote { .. } => Ok(()),
        }
    }
}

/// Files that are made here, and handed to the servers as tables.
fn bulk(
    plan: &Clients,
    tree: &mut Tree,
    path: &[u8],
    names: &[Name],
    mut counter: Counter<'_>,
) -> Result<Measured, String> {
    let dir = tree.open(path).map_err(in_words)?;
    let mut bulk = Bulk::new(dir).with_tables(plan.bulk.options.clone());
    counter.each(names, |name| bulk.add(name), |_| Ok(())).map_err(in_words)?;
    bulk.commit(tree, &plan.db, &user(), FILE_MODE).map_err(in_words)?;
    Ok(counter.end())
}

//! What servers left half done when they crashed, settled without starting them: for who merges or
//! reads their logs.
//!
//! ```text
//!   a split    the target has the partition     the source's half goes
//!              it has not                      the split never began
//!   a rename   its coordinator has decided     all do their parts
//!              it has not                      all let go
//! ```
//!
//! It is what the servers do when they come back, with direct calls in the place of messages. Logs
//! with nothing half done are not written to, and if no log has anything none is.

use super::record::Phase;
use crate::error::{Error, Result};
use crate::id::DirId;
use crate::namespace::Namespace;
use crate::open::Settings;
use crate::record::{Key, parse_key};
use crate::rpc::lease_clock::LeaseClock;
use crate::rpc::server::core::Core;
use crate::rpc::server::leases::Leases;
use crate::rpc::server::parts::{Parts, State};
use keyrack_flodb::{Db, Options};
use keyrack_vfs::Fs;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Which server wrote a log, and of how many.
type Identity = (u32, u32);

fn open(fs: &Arc<dyn Fs>, dir: &Path) -> Result<Db> {
    let options = Options { create_if_missing: false, compaction_threads: 0, ..Options::default() };
    Ok(Db::open_read_only_in(Arc::clone(fs), dir, options)?)
}

fn identity(db: &Db) -> Result<Option<Identity>> {
    let record = db.get(&Key::entry(DirId::SYSTEM, b"server"))?;
    // Who wrote it was no server of several.
    let Some(record) = record.filter(|record| !record.is_empty()) else { return Ok(None) };
    let (words, rest) = record.as_chunks::<4>();
    let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
    let is_sane = words.len() == 2 && rest.is_empty() && words[0] < words[1];
    if is_sane {
        Ok(Some((words[0], words[1])))
    } else {
        Err(Error::Corruption {
            path: db.dir().to_owned(),
            what: "the record of which server wrote the log is damaged".to_owned(),
        })
    }
}

/// Refuses logs of several servers when that of one of them is not among them: what it had would be
/// missing without a word.
pub(crate) fn check_all_are_here(logs: &[Db]) -> Result<()> {
    let mut here: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for log in logs {
        if let Some((server, servers)) = identity(log)? {
            here.entry(servers).or_default().insert(server);
        }
    }
    for (servers, here) in here {
        if let Some(absent) = (0..servers).find(|server| !here.contains(server)) {
            let names: Vec<String> =
                logs.iter().map(|log| log.dir().display().to_string()).collect();
            return Err(Error::Usage(format!(
                "{}: the log of server {absent} of {servers} is missing; name those of all of them",
                names.join(", ")
            )));
        }
    }
    Ok(())
}

/// Whether a server left something half done in the log that is open.
pub(crate) fn has_unfinished(db: &Db) -> Result<bool> {
    let mut iter = db.iter()?;
    iter.seek(&Key::entry(DirId::SYSTEM, b"move"))?;
    while let Some((key, value)) = iter.entry() {
        let Some((DirId::SYSTEM, name)) = parse_key(key) else { break };
        if name.starts_with(b"move") || State::splits(name, value) {
            return Ok(true);
        }
        iter.next()?;
    }
    Ok(false)
}

/// Whether the servers that wrote these logs left something half done.
///
/// # Errors
/// [`Error::Usage`] if the log of one of them is not among these; a log cannot be read.
pub fn needs_recovery(fs: &Arc<dyn Fs>, logs: &[PathBuf]) -> Result<bool> {
    let logs: Vec<Db> = logs.iter().map(|log| open(fs, log)).collect::<Result<_>>()?;
    check_all_are_here(&logs)?;
    for log in &logs {
        if has_unfinished(log)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Settles what the servers that wrote these logs left half done. Whether there was anything.
///
/// # Errors
/// Those of [`needs_recovery`], and of opening, among them that a server still runs.
pub fn recover(fs: &Arc<dyn Fs>, logs: &[PathBuf]) -> Result<bool> {
    if !needs_recovery(fs, logs)? {
        return Ok(false);
    }
    let mut cores: Vec<Core> = Vec::new();
    for log in logs {
        // A log that no server wrote has nothing half done; those of all servers are here.
        let Some((server, servers)) = identity(&open(fs, log)?)? else { continue };
        let space = Namespace::open_in(Arc::clone(fs), log, Settings::default())?;
        let parts = Parts::new(servers, server, false, u64::MAX);
        let leases = Leases::new(&LeaseClock::Machine, Duration::ZERO, false);
        cores.push(Core::new(Some(space), parts, leases));
    }
    cores.sort_by_key(|core| core.parts.server);
    let servers = cores.first().map_or(0, |core| core.parts.placement.servers());
    let is_one_set = cores.len() == servers as usize
        && cores.iter().all(|core| core.parts.placement.servers() == servers);
    if !is_one_set {
        let names: Vec<String> = logs.iter().map(|log| log.display().to_string()).collect();
        return Err(Error::Usage(format!(
            "{}: servers left something half done, and not all are of the same {servers} servers",
            names.join(", ")
        )));
    }
    finish_splits(&cores)?;
    finish_txns(&cores)?;
    for core in cores {
        if let Some(space) = core.space {
            space.close()?;
        }
    }
    Ok(true)
}

fn finish_splits(cores: &[Core]) -> Result<()> {
    for core in cores {
        for dir in core.unfinished_splits()? {
            core.finish_splits(dir, &|split| {
                let target = &cores[core.parts.placement.home(dir.0, split.to) as usize];
                match &target.space {
                    Some(space) => Ok(target.parts.get(space, dir)?.read().map.has(split.to)),
                    None => Ok(false),
                }
            })?;
        }
    }
    Ok(())
}

fn finish_txns(cores: &[Core]) -> Result<()> {
    for core in cores {
        core.restore_txns()?;
    }
    let phase = |core: &Core, id| core.txns.pending().get(&id).map(|pending| pending.phase);
    for core in cores {
        let numbers: Vec<u128> = core.txns.pending().keys().copied().collect();
        for id in numbers {
            // It was settled with its coordinator a moment ago.
            let Some(pending) = core.txns.pending().get(&id).cloned() else { continue };
            let coordinator = cores.get(pending.coordinator as usize).ok_or_else(|| {
                let path = core.space().inner.store_path().to_owned();
                let what = format!("a rename has the coordinator {}", pending.coordinator);
                Error::Corruption { path, what }
            })?;
            let commits = phase(coordinator, id) == Some(Phase::Decided);
            // The coordinator first: what it keeps says to all others what was decided.
            let others = cores.iter().filter(|other| other.parts.server != pending.coordinator);
            for core in [coordinator].into_iter().chain(others) {
                if let Some(space) = &core.space {
                    core.finish_txn(space, id, commits)?;
                }
            }
            if let Some(space) = coordinator.space.as_ref().filter(|_| commits) {
                coordinator.forget_txn(space, id)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! Phases that the original does not have: listing the directory, resuming a listing in the middle,
//! and removing what was made. Each checks what it gets.

use super::counter::{Counter, Measured};
use super::local::LocalDir;
use super::names::Name;
use keyrack_deltafs::{Error, Result};
use std::path::Path;

/// Entries of a page.
const PAGE: usize = 1024;
/// Listings that are resumed in a phase, at most.
const RESUMED_MAX: usize = 10_000;

fn wrong(log: &Path, what: String) -> Error {
    Error::Corruption { path: log.to_owned(), what }
}

/// Lists the directory from the beginning to the end, with facts: an operation is an entry. Its
/// time is that of its page, divided among the entries.
pub(super) fn list(
    local: &LocalDir<'_>,
    mut counter: Counter<'_>,
    made: Option<u64>,
    log: &Path,
) -> Result<Measured> {
    let fs = local.caller();
    let mut last = counter.clock.ticks();
    let mut after: Option<Vec<u8>> = None;
    loop {
        let page = fs.list_plus_at(local.dir, after.as_deref(), PAGE)?;
        let now = counter.clock.ticks();
        let count = page.entries.len() as u64;
        counter.ok((now - last) / count.max(1), count);
        last = now;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let measured = counter.end();
    match made {
        Some(made) if made != measured.ops => {
            let ops = measured.ops;
            Err(wrong(log, format!("a listing has {ops} entries, {made} were made")))
        }
        _ => Ok(measured),
    }
}

/// Resumes a listing after names of the directory, for a page each: an operation is that.
pub(super) fn resume(
    local: &LocalDir<'_>,
    mut counter: Counter<'_>,
    names: &[Name],
    log: &Path,
) -> Result<Measured> {
    let fs = local.caller();
    let names = &names[..names.len().min(RESUMED_MAX)];
    let resume = |name: &Name| {
        let page = fs.list_plus_at(local.dir, Some(name), PAGE)?;
        match page.entries.first() {
            Some(entry) if entry.name[..] <= name[..] => {
                Err(wrong(log, "a listing that was resumed went back".to_owned()))
            }
            _ => Ok(()),
        }
    };
    counter.each(names, resume, |_| Ok(()))?;
    Ok(counter.end())
}

/// Removes the files.
pub(super) fn remove(
    local: &LocalDir<'_>,
    mut counter: Counter<'_>,
    names: &[Name],
    log: &Path,
) -> Result<Measured> {
    let fs = local.caller();
    counter.each(names, |name| fs.unlink_at(local.dir, name), |_| Ok(()))?;
    local.space.flush()?;
    let measured = counter.end();
    match names.first().map(|name| fs.stat_at(local.dir, name)) {
        Some(Ok(_)) => Err(wrong(log, "a file that was removed exists".to_owned())),
        Some(Err(Error::NotFound(_))) | None => Ok(measured),
        Some(Err(error)) => Err(error),
    }
}

//! Phases that the original does not have: listing the directory, taking a listing up again in the
//! middle, and removing what was made. Each checks what it gets.

use super::{ID, Plan, Rank, Took, timed};
use keyrack_deltafs::{Caller, Error, User};
use keyrack_measure::{Clock, Histogram};

/// Entries of a page.
const PAGE: usize = 1024;
/// Listings that are taken up again in a phase, at most.
const RESUMED_MAX: usize = 10_000;

fn wrong(plan: &Plan, rank: &Rank, what: String) -> Error {
    Error::Corruption { path: plan.log(rank.rank), what }
}

/// Lists the directory from the beginning to the end, with facts: an operation is an entry. Its
/// time is that of its page, divided among the entries.
pub(super) fn list(plan: &Plan, rank: &Rank, clock: &Clock) -> keyrack_deltafs::Result<Took> {
    let user = User::new(ID, ID);
    let fs: Caller<'_> = rank.space.by(&user);
    let mut latency_ns = Histogram::new();
    let start = clock.ticks();
    let mut last = start;
    let mut ops = 0;
    let mut after: Option<Vec<u8>> = None;
    loop {
        let page = fs.list_plus_at(&rank.dir, after.as_deref(), PAGE)?;
        let now = clock.ticks();
        let count = page.entries.len() as u64;
        let each = clock.ns_between(last, now) / count.max(1);
        page.entries.iter().for_each(|_| latency_ns.record(each));
        last = now;
        ops += count;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let end = clock.ticks();
    let made = plan.writes * plan.write_phases;
    if !plan.existing && ops != made {
        return Err(wrong(plan, rank, format!("a listing has {ops} entries, {made} were made")));
    }
    Ok(Took { start, end, ops, latency_ns })
}

/// Takes a listing up again behind names of the directory, for a page each: an operation is that.
pub(super) fn resume(
    plan: &Plan,
    rank: &Rank,
    clock: &Clock,
    names: &[[u8; 12]],
) -> keyrack_deltafs::Result<Took> {
    let user = User::new(ID, ID);
    let fs = rank.space.by(&user);
    let names = &names[..names.len().min(RESUMED_MAX)];
    let op = |name: &[u8]| {
        let page = fs.list_plus_at(&rank.dir, Some(name), PAGE)?;
        match page.entries.first() {
            Some(entry) if entry.name[..] <= *name => {
                Err(wrong(plan, rank, "a listing that was taken up again went back".to_owned()))
            }
            _ => Ok(()),
        }
    };
    timed(clock, names, op, || Ok(()))
}

/// Removes the files.
pub(super) fn remove(
    plan: &Plan,
    rank: &Rank,
    clock: &Clock,
    names: &[[u8; 12]],
) -> keyrack_deltafs::Result<Took> {
    let user = User::new(ID, ID);
    let fs = rank.space.by(&user);
    let took = timed(clock, names, |name| fs.unlink_at(&rank.dir, name), || rank.space.flush())?;
    match names.first().map(|name| fs.stat_at(&rank.dir, name)) {
        Some(Ok(_)) => Err(wrong(plan, rank, "a file that was removed is there".to_owned())),
        Some(Err(Error::NotFound(_))) | None => Ok(took),
        Some(Err(error)) => Err(error),
    }
}

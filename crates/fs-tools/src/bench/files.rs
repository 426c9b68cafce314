//! The phases that the original has: files are made, and asked for.

use super::{ID, Plan, Rank, Took};
use keyrack_deltafs::{Caller, IfExists, User};
use keyrack_measure::{Clock, Histogram};

/// Runs `op` for each name, with a reading of the clock between two.
pub(super) fn timed(
    clock: &Clock,
    names: &[[u8; 12]],
    mut op: impl FnMut(&[u8]) -> keyrack_deltafs::Result<()>,
    end: impl FnOnce() -> keyrack_deltafs::Result<()>,
) -> keyrack_deltafs::Result<Took> {
    let mut latency_ns = Histogram::new();
    let start = clock.ticks();
    let mut last = start;
    for name in names {
        op(name)?;
        let now = clock.ticks();
        latency_ns.record(clock.ns_between(last, now));
        last = now;
    }
    end()?;
    Ok(Took { start, end: clock.ticks(), ops: names.len() as u64, latency_ns })
}

pub(super) fn insert(
    plan: &Plan,
    rank: &Rank,
    clock: &Clock,
    names: &[[u8; 12]],
) -> keyrack_deltafs::Result<Took> {
    let user = User::new(ID, ID);
    let fs: Caller<'_> = rank.space.by(&user);
    let data = vec![b'x'; plan.data_bytes];
    let op = |name: &[u8]| match (plan.unchecked, data.is_empty()) {
        (true, true) => fs.create_unchecked_at(&rank.dir, name, 0o660),
        (_, true) => fs.create_at(&rank.dir, name, 0o660, IfExists::Fail).map(|_| ()),
        (_, false) => fs.create_with_at(&rank.dir, name, 0o660, &data).map(|_| ()),
    };
    timed(clock, names, op, || rank.space.flush())
}

pub(super) fn stats(
    plan: &Plan,
    rank: &Rank,
    clock: &Clock,
    names: &[[u8; 12]],
) -> keyrack_deltafs::Result<Took> {
    let user = User::new(ID, ID);
    let fs = rank.space.by(&user);
    let size = plan.data_bytes as u64;
    let op = |name: &[u8]| match fs.stat_at(&rank.dir, name)? {
        stat if stat.size == size => Ok(()),
        stat => Err(keyrack_deltafs::Error::Corruption {
            path: plan.log(rank.rank),
            what: format!("a file has {} bytes, {size} were written", stat.size),
        }),
    };
    timed(clock, names, op, || Ok(()))
}

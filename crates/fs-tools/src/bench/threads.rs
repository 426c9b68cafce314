//! The client of DeltaFS' benchmark with its file system in the process: ranks are threads.
//!
//! ```text
//!   rank = thread, with the log DB/r<rank>     prepare: the directory
//!   for each write phase: create n names       ==insert    : us/op, Mop/s, s, ops
//!   for each read phase:  stat them, shuffled  ==fstats    : us/op, Mop/s, s, ops
//!   if asked for:         list, resume, remove ==list      : and so on
//! ```
//!
//! Flags, names of files and the lines with `==` are those of `deltafs_bm_cli`, as in its public
//! benchmark guide; behind each such line come what it does not tell: percentiles, CPU time of all
//! threads, bytes on disk. As there, us/op adds up the seconds of all ranks, Mop/s is over the time
//! from the first start to the last end, and the flush of each log is in the time of its rank.
//!
//! Under a launcher of ranks each process has that many threads. Process P of T threads has the
//! logs from `DB/r<P * T>` on, and rank 0 prints the sums of all.
//!
//! What differs: a log that is there is refused, not removed; and what the header says of
//! durability is what an acknowledged create survives.

use super::counter::{Counter, Measured};
use super::in_process::InProcess;
use super::local::LocalDir;
use super::names::{self, Name};
use super::{mdtest, walks};
use crate::job::Document;
use crate::job::result::PhaseResult;
use keyrack_console::{DONE, Failure, Outcome};
use keyrack_deltafs::job::{Fold, Job, Rendezvous};
use keyrack_deltafs::{Dir, Namespace, Settings, User};
use keyrack_measure::{Clock, Histogram, usage};
use keyrack_vfs::{Fs, RealFs};
use serde_json::json;
use std::ops::Range;
use std::sync::Barrier;
use std::sync::atomic::AtomicU64;

/// The user and the group of all files, as in the original.
const ID: u32 = 1;

/// What a phase does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Insert,
    Stat,
    List,
    Resume,
    Remove,
}

impl Phase {
    fn name(self) -> &'static str {
        match self {
            Phase::Insert => "insert",
            Phase::Stat => "fstats",
            Phase::List => "list",
            Phase::Resume => "resume",
            Phase::Remove => "remove",
        }
    }

    /// Whether the phase is about the names of one phase of creates.
    fn is_write(self) -> bool {
        matches!(self, Phase::Insert | Phase::Remove)
    }
}

/// A rank with its log.
struct Rank {
    rank: u32,
    space: Namespace,
    dir: Dir,
}

/// Measures in this process; with `mdtest`, the phases of mdtest in one log.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
pub fn measure_in_process(
    plan: &InProcess,
    mdtest: Option<&mdtest::Wishes>,
    json: Option<&str>,
) -> Outcome {
    let mut document = Document::new("bench", json);
    let mut job = Job::join(&Rendezvous::default()).map_err(in_job)?;
    document.begin(job.is_root()).map_err(Failure::Usage)?;
    let done = check_logs(plan, &job).and_then(|()| match mdtest {
        Some(_) if job.size() > 1 => Err(Failure::Usage(format!(
            "--mdtest measures one process, and the launcher started {}; start one",
            job.size()
        ))),
        Some(wishes) => mdtest::run(plan, wishes, &User::new(ID, ID), &mut document),
        None => run(plan, &mut job, &mut document),
    });
    let done = match done {
        Ok(status) => job.leave().map(|()| status).map_err(in_job),
        Err(failure) => {
            job.abort(failure.message());
            Err(failure)
        }
    };
    let status = match &done {
        Ok(status) => *status,
        Err(failure) => {
            document.error(failure.message());
            failure.status()
        }
    };
    let ended = document.end("keyrack fs bench", status);
    done.map(|_| ended)
}

fn in_job(error: keyrack_deltafs::job::Error) -> Failure {
    Failure::Failed(error.to_string())
}

/// The ranks that are threads of this process, among those of all.
fn own_ranks(plan: &InProcess, job: &Job) -> Range<u32> {
    let first = job.rank() * plan.ranks;
    first..first + plan.ranks
}

/// Prints, in the first process alone.
fn say(job: &Job, text: &str) {
    if job.is_root() {
        keyrack_console::print(text);
    }
}

/// Refuses logs of an earlier run, unless they are to be used.
fn check_logs(plan: &InProcess, job: &Job) -> Result<(), Failure> {
    RealFs.create_dir_all(&plan.db)?;
    for log in own_ranks(plan, job).map(|rank| plan.log(rank)) {
        if !plan.existing && RealFs.exists(&log.join("CURRENT"))? {
            return Err(Failure::Usage(format!(
                "{}: there is a log already; remove it, or go on with --use_existing_fs=1",
                log.display()
            )));
        }
    }
    Ok(())
}

fn open(plan: &InProcess, rank: u32) -> Result<Rank, Failure> {
    let mut store = plan.store.clone();
    store.create_if_missing = !plan.existing;
    let quota = plan.quota;
    let settings = Settings { store, root_mode: 0o777, quota, ..Settings::default() };
    let space = Namespace::open(plan.log(rank), settings)?;
    let user = User::new(ID, ID);
    let (fs, path) = (space.by(&user), plan.dir(rank));
    let dir = if plan.existing { fs.dir(&path)? } else { fs.mkdir(&path, 0o777)? };
    Ok(Rank { rank, space, dir })
}

fn run(plan: &InProcess, job: &mut Job, document: &mut Document) -> Outcome {
    let all = plan.ranks.saturating_mul(job.size());
    let header = plan.header(all);
    document.header(&header);
    for (name, value) in [
        ("ranks", json!(all)),
        ("n", json!(plan.n)),
        ("share_dir", json!(plan.shared)),
        ("skip_fs_checks", json!(plan.unchecked)),
        ("durability", json!(plan.durability)),
        ("data_bytes", json!(plan.data_bytes)),
        ("pause_seconds", json!(plan.pause_s)),
    ] {
        document.put(name, value);
    }
    say(job, &header.end());
    say(job, "preparing run...\n");
    let ranks: Vec<Rank> =
        own_ranks(plan, job).map(|rank| open(plan, rank)).collect::<Result<_, Failure>>()?;
    let stop = keyrack_console::flag()?;
    // Readings of several processes are compared with each other.
    let clock = if job.size() > 1 { Clock::vdso() } else { Clock::calibrated() };
    let creates = (0..plan.write_phases).map(|round| (Phase::Insert, round));
    let stats = (0..plan.read_phases).map(|round| (Phase::Stat, round));
    let lists =
        (0..plan.list_phases).flat_map(|round| [(Phase::List, round), (Phase::Resume, round)]);
    let rounds = if plan.removes { plan.write_phases } else { 0 };
    let removes = (0..rounds).map(|round| (Phase::Remove, round));
    let phases = creates.chain(stats).chain(lists).chain(removes);
    for (index, (phase, round)) in phases.enumerate() {
        keyrack_console::check(&stop)?;
        if index > 0 && plan.pause_s > 0 {
            say(job, &format!("sleeping for {} seconds...\n", plan.pause_s));
            let pause = clock.ticks_of_ns(plan.pause_s.saturating_mul(1_000_000_000));
            clock.wait_until(clock.ticks() + pause);
        }
        measure(plan, job, (&ranks, &clock), (phase, round), document)?;
    }
    for rank in ranks {
        rank.space.close()?;
    }
    Ok(DONE)
}

/// The names of a rank in a phase. All have the rank in them, so that no two ranks have one.
fn names_of(plan: &InProcess, rank: u32, (phase, round): (Phase, u64)) -> Vec<Name> {
    let seed = 1000 * u64::from(rank) + round + if phase.is_write() { 0 } else { 1 << 32 };
    let count = if phase.is_write() { plan.writes } else { plan.reads };
    // From the second phase of creates on the names are new.
    let first = if phase.is_write() { round * plan.n } else { 0 };
    let ids = names::ids(plan.n, count, plan.shuffled.then_some(seed));
    ids.into_iter().map(|id| names::name(names::number(plan.shared, rank, first + id))).collect()
}

/// One phase of one rank.
fn run_rank(
    plan: &InProcess,
    rank: &Rank,
    clock: Clock,
    phase: Phase,
    names: &[Name],
) -> keyrack_deltafs::Result<Measured> {
    let user = User::new(ID, ID);
    let local = LocalDir { space: &rank.space, user: &user, dir: &rank.dir };
    let log = plan.log(rank.rank);
    let done = AtomicU64::new(0);
    let counter = Counter::new(clock, &done, true);
    match phase {
        Phase::Insert => {
            let data = vec![b'x'; plan.data_bytes];
            local.create(counter, names, (!plan.unchecked, &data), |_| Ok(()))
        }
        Phase::Stat => local.stat(counter, names, (Some(plan.data_bytes as u64), &log)),
        Phase::List => {
            let made = (!plan.existing).then_some(plan.writes * plan.write_phases);
            walks::list(&local, counter, made, &log)
        }
        Phase::Resume => walks::resume(&local, counter, names, &log),
        Phase::Remove => walks::remove(&local, counter, names, &log),
    }
}

/// Runs `work` in a thread for each rank, with its number and a barrier of all.
pub(super) fn in_threads<R: Send>(
    ranks: usize,
    work: impl Fn(usize, &Barrier) -> keyrack_deltafs::Result<R> + Sync,
) -> keyrack_deltafs::Result<Vec<R>> {
    let (work, barrier) = (&work, &Barrier::new(ranks));
    let done: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..ranks).map(|rank| scope.spawn(move || work(rank, barrier))).collect();
        let joined = threads.into_iter().map(|thread| match thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    });
    done.into_iter().collect()
}

/// One phase of all ranks, printed and put into the document.
fn measure(
    plan: &InProcess,
    job: &mut Job,
    (ranks, clock): (&[Rank], &Clock),
    (phase, round): (Phase, u64),
    document: &mut Document,
) -> Result<(), Failure> {
    job.barrier().map_err(in_job)?;
    let before = usage::process();
    let measured = in_threads(ranks.len(), |index, barrier| {
        let rank = &ranks[index];
        let names = names_of(plan, rank.rank, (phase, round));
        barrier.wait();
        run_rank(plan, rank, clock.share(), phase, &names)
    });
    let after = usage::process();
    let cpu_ns = (after.user_ns + after.system_ns) - (before.user_ns + before.system_ns);
    let summed = sum_up(plan, job, &measured?, (phase, cpu_ns, after.peak_rss_kib));
    // The first process alone has the sums.
    let Some((result, bytes, memory_kib)) = summed? else { return Ok(()) };
    keyrack_console::print(&result.text_in_process(bytes, memory_kib));
    let mut value = result.json();
    value["bytes_on_disk"] = bytes.into();
    value["peak_rss_kib"] = memory_kib.into();
    document.push("phases", value);
    Ok(())
}

/// The result of all processes, bytes on disk, and memory of the largest one.
fn sum_up(
    plan: &InProcess,
    job: &mut Job,
    measured: &[Measured],
    (phase, cpu_ns, memory_kib): (Phase, u64, u64),
) -> Result<Option<(PhaseResult, u64, u64)>, Failure> {
    let first = measured.iter().map(|rank| rank.start_ns).min().unwrap_or(0);
    let last = measured.iter().map(|rank| rank.end_ns).max().unwrap_or(0);
    let ops = measured.iter().map(|rank| rank.ops).sum();
    let spent_ns = measured.iter().map(|rank| rank.end_ns - rank.start_ns).sum();
    let mut latency_ns = Histogram::new();
    measured.iter().for_each(|rank| latency_ns.merge(&rank.latency_ns));
    let first = job.fold(&[first], Fold::Min).map_err(in_job)?[0];
    let most = job.fold(&[last, memory_kib], Fold::Max).map_err(in_job)?;
    let sums = job.fold(&[ops, spent_ns, cpu_ns], Fold::Sum).map_err(in_job)?;
    let Some(latency_ns) = job.merge(&latency_ns).map_err(in_job)? else { return Ok(None) };
    let result = PhaseResult {
        name: phase.name(),
        ops: sums[0],
        failed: 0,
        spent_ns: sums[1],
        wall_ns: most[0].saturating_sub(first),
        cpu_ns: sums[2],
        latency_ns: Some(latency_ns),
    };
    Ok(Some((result, RealFs.size_recursive(&plan.db)?, most[1])))
}

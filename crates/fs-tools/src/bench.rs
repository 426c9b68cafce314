//! `keyrack fs bench`: the client of DeltaFS' benchmark with its file system in the process.
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
//! What differs: a log that is there is refused, not removed; and what the header says of
//! durability is what an acknowledged create survives.

mod files;
mod mdtest;
mod names;
mod phase;
mod plan;
mod walks;

use super::{flag, option, text};
use crate::job::Document;
use clap::{ArgMatches, Command};
use files::timed;
use keyrack_console::{Failure, Outcome};
use keyrack_deltafs::{Dir, Namespace, Settings, User};
use keyrack_measure::{Clock, Histogram, usage};
use keyrack_vfs::{Fs, RealFs};
use phase::{Phase, Took};
use plan::Plan;
use serde_json::json;
use std::sync::Barrier;

/// The user and the group of all files, as in the original.
const ID: u32 = 1;
const RANKS_MAX: u64 = 1024;

pub(super) fn command() -> Command {
    let flags: [(&'static str, &'static str, &'static str, &'static str); 20] = [
        ("n", "N", "8", "Names for each rank"),
        ("ranks", "N", "1", "Ranks, each a thread with a log of its own"),
        ("writes", "N", "", "Creates for each rank and phase [default: n]"),
        ("reads", "N", "", "Stats for each rank and phase [default: n]"),
        ("write_phases", "N", "1", "How often names are created; from the second on they are new"),
        ("read_phases", "N", "1", "How often names are read"),
        (
            "list_phases",
            "N",
            "0",
            "How often the directory is listed, whole and from the middle on",
        ),
        ("remove_phase", "0|1", "0", "Remove the files at the end"),
        ("step_interval", "SECONDS", "5", "Pause between phases"),
        ("share_dir", "0|1", "0", "All ranks in one directory, or each in its own"),
        ("random_order", "0|1", "1", "Shuffle the names"),
        ("skip_fs_checks", "0|1", "1", "Create without asking whether the name is there"),
        ("use_existing_fs", "0|1", "0", "Go on with the logs that are there"),
        ("fs_use_local", "0|1", "1", "1: the file system is in the ranks"),
        ("bk", "0|1", "0", "Bulk insertion: not in this version"),
        ("batched_writes", "0|1", "0", "Batches to servers: not in this version"),
        ("data_size", "BYTES", "0", "Bytes of each file, at most 3901"),
        ("disable_compaction", "0|1", "1", "Leave tables as they are flushed"),
        ("compression", "0|1", "1", "Snappy"),
        ("db", "DIR", "/tmp/deltafs_bm", "Where the logs are"),
    ];
    let args = flags.into_iter().map(|(name, value, default, help)| match default {
        "" => option(name, value, help),
        _ => option(name, value, help).default_value(default),
    });
    Command::new("bench")
        .about("Measure creates and stats in this process, with the flags of deltafs_bm_cli")
        .after_help(super::STATUSES)
        .args(args)
        .arg(
            option("durability", "none|os|interval:MS|sync", "What a create survives")
                .default_value("os"),
        )
        .arg(flag("mdtest", "The phases and the table of mdtest instead, in one log"))
        .arg(option("iterations", "N", "Of mdtest, how often").default_value("1"))
        .arg(
            option("stride", "N", "Of mdtest, whose entries a rank looks at: so many further on")
                .default_value("1"),
        )
        .args(super::quota::args())
        .arg(option("json", "FILE", "Write the results there too"))
}

/// A rank with its log.
struct Rank {
    rank: u64,
    space: Namespace,
    dir: Dir,
}

pub(super) fn run(matches: &ArgMatches) -> Outcome {
    let plan = Plan::of(matches)?;
    let mut document = Document::new("bench", text(matches, "json"));
    document.begin(true).map_err(Failure::Usage)?;
    let done = run_plan(&plan, matches, &mut document);
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

fn run_plan(plan: &Plan, matches: &ArgMatches, document: &mut Document) -> Outcome {
    let is_mdtest = matches.get_flag("mdtest");
    let mut ranks = Vec::new();
    let user = User::new(ID, ID);
    RealFs.create_dir_all(&plan.db)?;
    for rank in 0..plan.ranks {
        let log = plan.log(rank);
        if !plan.existing && RealFs.exists(&log.join("CURRENT"))? {
            return Err(Failure::Usage(format!(
                "{}: there is a log already; remove it, or go on with --use_existing_fs=1",
                log.display()
            )));
        }
    }
    if is_mdtest {
        let number = |name| Ok::<_, Failure>(super::find::number(matches, name)?.unwrap_or(1));
        let wishes =
            mdtest::Wishes { iterations: number("iterations")?.max(1), stride: number("stride")? };
        return mdtest::run(plan, &wishes, document);
    }
    let (header, object) = plan.header();
    document.put("header", object);
    for (name, value) in [
        ("ranks", json!(plan.ranks)),
        ("n", json!(plan.n)),
        ("share_dir", json!(plan.shared)),
        ("skip_fs_checks", json!(plan.unchecked)),
        ("durability", json!(plan.durability)),
        ("data_bytes", json!(plan.data_bytes)),
        ("pause_seconds", json!(plan.pause_s)),
    ] {
        document.put(name, value);
    }
    keyrack_console::print(&header);
    keyrack_console::print("preparing run...\n");
    for rank in 0..plan.ranks {
        let mut store = plan.store.clone();
        store.create_if_missing = !plan.existing;
        let quota = plan.quota;
        let settings = Settings { store, root_mode: 0o777, quota, ..Settings::default() };
        let space = Namespace::open(plan.log(rank), settings)?;
        let fs = space.by(&user);
        let path = plan.dir(rank);
        let dir = if plan.existing { fs.dir(&path)? } else { fs.mkdir(&path, 0o777)? };
        ranks.push(Rank { rank, space, dir });
    }
    let stop = keyrack_console::flag()?;
    let clock = Clock::calibrated();
    let mut is_first = true;
    let creates = (0..plan.write_phases).map(|phase| ("insert", phase));
    let stats = (0..plan.read_phases).map(|phase| ("fstats", phase));
    let lists = (0..plan.list_phases).flat_map(|phase| [("list", phase), ("resume", phase)]);
    let removes = (0..if plan.removes { plan.write_phases } else { 0 }).map(|p| ("remove", p));
    for (name, phase) in creates.chain(stats).chain(lists).chain(removes) {
        keyrack_console::check(&stop)?;
        if !std::mem::take(&mut is_first) && plan.pause_s > 0 {
            keyrack_console::print(&format!("sleeping for {} seconds...\n", plan.pause_s));
            let until =
                clock.ticks() + clock.ticks_of_ns(plan.pause_s.saturating_mul(1_000_000_000));
            clock.wait_until(until);
        }
        let done = measure(plan, &ranks, &clock, name, phase)?;
        keyrack_console::print(&done.text());
        document.push("phases", done.json());
    }
    for rank in ranks {
        rank.space.close()?;
    }
    Ok(keyrack_console::DONE)
}

fn measure(
    plan: &Plan,
    ranks: &[Rank],
    clock: &Clock,
    name: &'static str,
    phase: u64,
) -> Result<Phase, Failure> {
    let barrier = Barrier::new(ranks.len());
    let before = usage::process();
    let took: Vec<keyrack_deltafs::Result<Took>> = std::thread::scope(|scope| {
        let threads: Vec<_> = ranks
            .iter()
            .map(|rank| {
                let (barrier, clock) = (&barrier, clock.share());
                scope.spawn(move || {
                    let names = names::names(plan, rank.rank, name, phase);
                    barrier.wait();
                    match name {
                        "insert" => files::insert(plan, rank, &clock, &names),
                        "list" => walks::list(plan, rank, &clock),
                        "resume" => walks::resume(plan, rank, &clock, &names),
                        "remove" => walks::remove(plan, rank, &clock, &names),
                        _ => files::stats(plan, rank, &clock, &names),
                    }
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| match thread.join() {
            Ok(took) => took,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    });
    let after = usage::process();
    let took: Vec<Took> = took.into_iter().collect::<keyrack_deltafs::Result<_>>()?;
    let ops: u64 = took.iter().map(|took| took.ops).sum();
    let start = took.iter().map(|took| took.start).min().unwrap_or(0);
    let end = took.iter().map(|took| took.end).max().unwrap_or(0);
    let sum_ns: u64 = took.iter().map(|took| clock.ns_between(took.start, took.end)).sum();
    let seconds = clock.ns_between(start, end) as f64 / 1e9;
    let mut latency_ns = Histogram::new();
    took.iter().for_each(|took| latency_ns.merge(&took.latency_ns));
    let cpu_ns = (after.user_ns + after.system_ns) - (before.user_ns + before.system_ns);
    let per_op = |ns: u64| ns as f64 / 1000.0 / ops.max(1) as f64;
    Ok(Phase {
        name,
        us_per_op: per_op(sum_ns),
        mops: if seconds > 0.0 { ops as f64 / seconds / 1e6 } else { 0.0 },
        seconds,
        ops,
        latency_ns,
        cpu_us_per_op: per_op(cpu_ns),
        bytes: RealFs.size_recursive(&plan.db)?,
        memory_kib: after.peak_rss_kib,
    })
}

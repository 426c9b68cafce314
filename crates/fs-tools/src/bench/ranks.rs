//! The benchmark of DeltaFS: each rank makes files, waits, and asks for each of its files.
//!
//! ```text
//!   prepare    mkdir, or lstat of what is there
//!   insert     names of the rank, shuffled          write_phases times
//!   fstats     the same names, shuffled again       read_phases times
//! ```
//!
//! Against servers calls are kept under way, `depth` at most, and sent in bursts; at 1 each waits
//! for its answer. What is printed has the shapes of the original, and behind each result what it
//! leaves out: latencies, and processor time of the ranks.

use super::counter::Measured;
use super::names::{self, Name};
use super::plan::{Clients, Phase};
use super::progress::{Monitor, Progress};
use super::target::Target;
use crate::job::result::{PhaseResult, RankResult};
use crate::job::{Document, Totals, in_words};
use keyrack_deltafs::job::{Error as JobError, Fold, Job};
use keyrack_measure::{Clock, usage};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Prints, on rank 0 alone.
fn say(job: &Job, text: &str) {
    if job.is_root() {
        keyrack_console::print(text);
    }
}

/// Runs the benchmark as one rank of the job; rank 0 prints. Returns the exit status.
///
/// # Errors
/// One line if the run cannot go on.
pub fn measure_clients(
    plan: &Clients,
    job: &mut Job,
    document: &mut Document,
) -> Result<u8, String> {
    if plan.writes > plan.count || plan.reads > plan.count {
        return Err("writes and reads are at most n: no name is made twice".to_owned());
    }
    let header = plan.header(job);
    document.header(&header);
    document.put("pause_seconds", plan.interval.as_secs());
    if plan.is_local {
        document.put("durability", plan.store.durability());
    }
    say(job, &header.end());
    plan.make_data_dir().map_err(in_words)?;
    let mut target = Target::open(plan, job.rank())?;
    say(job, "preparing run...\n");
    job.barrier().map_err(in_words)?;
    target.prepare(plan, job.rank())?;
    let done = Arc::new(AtomicU64::new(0));
    let monitor = Monitor::start(plan, job.rank(), &done)?;
    let mut failures = 0;
    let phases = (0..plan.write_phases)
        .map(|_| Phase::Insert)
        .chain((0..plan.read_phases).map(|_| Phase::Stat));
    for (index, phase) in (0_u32..).zip(phases) {
        // The original sleeps for no time, too, and says so.
        if index > 0 && (plan.store.is_of_original() || !plan.interval.is_zero()) {
            say(job, &format!("sleeping for {} seconds...\n", plan.interval.as_secs()));
            let clock = Clock::vdso();
            clock.wait_until(clock.ticks() + plan.interval.as_nanos() as u64);
        }
        failures += run_phase(plan, job, (&mut target, &done), (index, phase), document)?;
    }
    drop(monitor);
    if let Some(space) = target.space() {
        let totals = Totals::of(space.stores());
        document.put("store", totals.json());
        say(job, &totals.text());
    }
    target.close()?;
    Ok(if failures > 0 { keyrack_console::NO } else { keyrack_console::DONE })
}

/// One phase of one rank. Returns how many operations of all ranks failed.
fn run_phase(
    plan: &Clients,
    job: &mut Job,
    (target, done): (&mut Target, &Arc<AtomicU64>),
    (index, phase): (u32, Phase),
    document: &mut Document,
) -> Result<u64, String> {
    let wanted = if phase == Phase::Insert { plan.writes } else { plan.reads };
    let rank = job.rank();
    let seed = plan.is_random.then(|| 1000 * u64::from(rank) + u64::from(index));
    let names: Vec<Name> = names::ids(plan.count, wanted, seed)
        .into_iter()
        .map(|id| names::name(names::number(plan.is_shared, rank, id)))
        .collect();
    done.store(0, Ordering::Relaxed);
    job.barrier().map_err(in_words)?;
    let cpu = usage::process();
    let thread_cpu_ns = usage::thread_cpu_ns();
    let measured = {
        let _progress = Progress::start(job, wanted, done);
        target.run(plan, phase, &names, done)?
    };
    let after = usage::process();
    let cpu_ns = after.user_ns + after.system_ns - cpu.user_ns - cpu.system_ns;
    let thread_cpu_ns = usage::thread_cpu_ns() - thread_cpu_ns;
    report(plan, job, phase, &measured, (cpu_ns, thread_cpu_ns), document).map_err(in_words)
}

/// Adds up what the ranks measured, and prints it. How many operations failed.
fn report(
    plan: &Clients,
    job: &mut Job,
    phase: Phase,
    measured: &Measured,
    (cpu_ns, thread_cpu_ns): (u64, u64),
    document: &mut Document,
) -> keyrack_deltafs::job::Result<u64> {
    let spent_ns = measured.end_ns.saturating_sub(measured.start_ns);
    let mut ranks = Vec::new();
    if plan.shows_ranks {
        let mine = [measured.ops, spent_ns, thread_cpu_ns].map(u64::to_le_bytes).concat();
        for (rank, bytes) in job.gather(&mine)?.into_iter().flatten().enumerate() {
            let result = RankResult::from_bytes(rank, &bytes);
            let result = result.ok_or(JobError::Protocol { rank: rank as u32 })?;
            keyrack_console::print(&result.text());
            ranks.push(result.json());
        }
    }
    let sums = [measured.ops, measured.errors, spent_ns, cpu_ns];
    let sums = job.fold(&sums, Fold::Sum)?;
    let first = job.fold(&[measured.start_ns], Fold::Min)?[0];
    let last = job.fold(&[measured.end_ns], Fold::Max)?[0];
    let latency = job.merge(&measured.latency_ns)?;
    let why = job.gather(measured.first_error.as_deref().unwrap_or_default().as_bytes())?;
    if let (Some(latency), Some(why)) = (latency, why) {
        let result = PhaseResult {
            name: if phase == Phase::Insert { "insert" } else { "fstats" },
            ops: sums[0],
            failed: sums[1],
            spent_ns: sums[2],
            wall_ns: last.saturating_sub(first),
            cpu_ns: sums[3],
            latency_ns: Some(latency),
        };
        keyrack_console::print(&result.text());
        let mut value = result.json();
        if plan.shows_ranks {
            value["ranks"] = json!(ranks);
        }
        document.push("phases", value);
        if let Some(first) = why.iter().find(|why| !why.is_empty()) {
            let first = String::from_utf8_lossy(first);
            let what = format!("{} failed: {first}", sums[1]);
            document.error(&what);
            keyrack_console::refuse("keyrack fs bench", &what);
        }
    }
    Ok(sums[1])
}

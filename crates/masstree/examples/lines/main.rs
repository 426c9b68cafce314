//! How many cache lines travel between processors for each operation of the index, on two threads
//! and, by a replay, on up to 64.
//!
//! ```text
//!   cargo run --release -p keyrack-masstree --example lines
//! ```
//!
//! It needs `valgrind`, and takes some minutes. The program records itself: see
//! [`keyrack_testkit::lines`] for how, and for the model of the replay.
//!
//! The emulator sees no prefetch. A descent prefetches the seven lines of a node before it reads
//! its version, so the replay has them in front of the first read of the version of every node but
//! the first.
#![expect(clippy::print_stdout, reason = "an example is its own program")]

mod phases;

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use keyrack_testkit::lines::{
    Access, Costs, Kind, Operation, Outcome, Phase, is_traced, record, replay,
};
use phases::{INSERT, KINDS, THREADS};
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

/// An access that is no transfer has its share of the instructions: a get takes about 110 ns.
const COSTS: Costs = Costs { access_ns: 2, transfer_ns: 100, reads_in_turn: false };
/// Lines that a descent prefetches.
const PREFETCHED: u64 = 7;
const WIDTHS: [usize; 6] = [2, 4, 8, 16, 32, 64];

fn main() -> ExitCode {
    if is_traced() {
        phases::perform_all();
        return ExitCode::SUCCESS;
    }
    let program = std::env::current_exe().expect("a program has a path");
    let recording = match record(&program, &[]) {
        Ok(recording) => recording,
        Err(error) => {
            println!("lines: {error}");
            return ExitCode::from(2);
        }
    };
    let (account, replayed) = recording.phases.split_first().expect("phases were performed");
    print_account(account);
    let widths = WIDTHS.map(|width| width.to_string());
    println!("\n| operations | alone | {} |", widths.join(" | "));
    println!("|---|---|{}", "---|".repeat(WIDTHS.len()));
    let replayed: Vec<Phase> = replayed.iter().map(with_prefetches).collect();
    let outcomes: Vec<Outcome> = replayed.iter().map(print_rates).collect();
    for (phase, outcome) in replayed.iter().zip(&outcomes) {
        print_lines(phase, outcome);
    }
    ExitCode::SUCCESS
}

/// The lines of each kind of operation on two threads.
fn print_account(phase: &Phase) {
    println!("| operation | count | lines read | lines written | of them touched by the other |");
    println!("|---|---|---|---|---|");
    let is_split = |operation: &Operation| {
        let mut lines = operation.accesses.iter().map(|access| access.line);
        operation.kind == INSERT && lines.any(|line| is_memory(phase.name_of(line)))
    };
    for (kind, name) in KINDS.iter().enumerate() {
        for (splits, with) in [(false, ""), (true, " with a split")] {
            let account =
                phase.account(|operation| operation.kind == kind && is_split(operation) == splits);
            if account.operations > 0 {
                println!("| {name}{with} | {account} |");
            }
        }
    }
}

/// Whether a line is where new nodes come from.
fn is_memory(name: &str) -> bool {
    name.contains("arena: lock")
}

fn is_version(name: &str) -> bool {
    name.contains(": version")
}

/// The phase with the prefetches of descents.
fn with_prefetches(phase: &Phase) -> Phase {
    let mut with = phase.clone();
    for operation in &mut with.operations {
        let mut seen = BTreeSet::new();
        let mut is_new = false;
        let mut accesses = Vec::with_capacity(2 * operation.accesses.len());
        for access in &operation.accesses {
            let name = phase.name_of(access.line);
            // A node that the operation has just allocated was not prefetched.
            is_new |= is_memory(name);
            let is_first = is_version(name) && seen.insert(access.line);
            if is_first && seen.len() > 1 && !is_new {
                let lines = access.line..access.line + PREFETCHED;
                accesses.extend(lines.map(|line| Access { line, kind: Kind::Prefetch }));
            }
            accesses.push(*access);
        }
        operation.accesses = accesses;
    }
    with
}

fn run(phase: &Phase, threads: usize) -> Outcome {
    let is_lock = |line| is_version(phase.name_of(line)) || is_memory(phase.name_of(line));
    replay(phase, threads, COSTS, &is_lock)
}

/// Transfers for each operation, and how many times as fast as one thread all are together. Returns
/// the outcome of all threads.
fn print_rates(phase: &Phase) -> Outcome {
    let alone = run(phase, 1).rate;
    let outcomes = WIDTHS.map(|threads| run(phase, threads));
    let cell =
        |outcome: &Outcome| format!("{:.2}, {:.1}x", outcome.transfers(), outcome.rate / alone);
    let cells = outcomes.each_ref().map(cell).join(" | ");
    println!("| {} | {:.0} ns | {cells} |", phase.name, 1e9 / alone);
    let [.., all] = outcomes;
    all
}

/// What is transferred and waited for on all threads.
fn print_lines(phase: &Phase, outcome: &Outcome) {
    let operations = outcome.operations as f64;
    let mut named: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    let mut hottest = (0, 0);
    for (line, traffic) in &outcome.lines {
        let sums = named.entry(phase.name_of(*line)).or_default();
        *sums = (sums.0 + traffic.transfers, sums.1 + traffic.waits_ns);
        hottest = hottest.max((traffic.waits_ns, *line));
    }
    let mut named: Vec<_> = named.into_iter().collect();
    named.sort_by_key(|(_, (_, waits))| std::cmp::Reverse(*waits));
    println!("\n{}, {THREADS} threads:", phase.name);
    for (name, (transfers, waits_ns)) in named.iter().take(6) {
        let (transfers, waits) = (*transfers as f64 / operations, *waits_ns as f64 / operations);
        println!("  {transfers:8.3} transfers {waits:8.1} ns  {name}");
    }
    let share = hottest.0 as f64 / operations;
    println!("  the line most waited for: {} with {share:.1} ns", phase.name_of(hottest.1));
}

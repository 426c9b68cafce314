//! Soak: what random tests do in CI, for as long as one has.
//!
//! ```text
//!   fuzz      each codec of each protocol: ten million messages, whole and damaged
//!   servers   servers of name spaces and their clients in worlds of faults: ten thousand seeds
//!   serve     the server under a thousand connections, kills and full disks
//!   engines   each engine beside the model, seed after seed, until all are done or the time is up
//! ```
//!
//! The fuzzers are the tests of `keyrack-wire` whose names hold `fuzz`, in the profile of tests;
//! how many messages they make is a variable. For the engines one run is
//! `keyrack bench --selftest --backend ENGINE --seed N`, so a failure replays by typing the line
//! that was printed. The clock is looked at between runs: a run that has begun is finished.

use std::time::{Duration, Instant};

use crate::options::Options;
use crate::output::{complain, say};
use crate::smoke::{Runner, build};
use crate::stage::{Outcome, Stop, run, shown, stage};
use crate::workspace::Workspace;

/// Messages that each fuzzer of a protocol makes.
const MESSAGES: u64 = 10_000_000;

/// By which the fuzzers are told how many.
const FUZZ_VARIABLE: &str = "KEYRACK_FUZZ";

/// Worlds that servers of name spaces are put into.
const SIMULATIONS: u64 = 10_000;

/// By which the simulation is told how many.
const SIMULATIONS_VARIABLE: &str = "KEYRACK_SIMULATIONS";

/// Minutes of the server's soak when none are given.
const SERVE_MINUTES_DEFAULT: u64 = 2;

/// By which the server's soak is told its minutes.
const SERVE_MINUTES_VARIABLE: &str = "KEYRACK_SOAK_MINUTES";

const SEEDS: u64 = 64;

/// Minutes when none are given.
const MINUTES_DEFAULT: u64 = 10;

/// The first seed when none is given.
const FIRST_DEFAULT: u64 = 1;

/// `cargo xtask soak`.
///
/// # Errors
/// `Stage` when a message did harm, or an engine and the model disagreed under any seed.
pub(crate) fn command(workspace: &Workspace, options: &Options) -> Outcome {
    let minutes = options.number("--minutes").unwrap_or(MINUTES_DEFAULT);
    let first = options.number("--first").unwrap_or(FIRST_DEFAULT);
    stage("fuzz", || fuzz(workspace, options.number("--messages").unwrap_or(MESSAGES)))?;
    stage("servers", || simulate(workspace))?;
    let serve_minutes = options.number("--serve-minutes").unwrap_or(SERVE_MINUTES_DEFAULT);
    stage("serve", || serve(workspace, serve_minutes))?;
    let binary = stage("release build", || build(workspace))?;
    let runner = Runner::new(workspace, &binary)?;
    let engines = runner.engines()?;
    let limit = Duration::from_secs(minutes.saturating_mul(60));
    let started = Instant::now();
    let result = soak(&engines, first, &mut || started.elapsed() >= limit, &mut |engine, seed| {
        let seed = seed.to_string();
        runner.expect_success(&["bench", "--selftest", "--backend", engine, "--seed", &seed])
    })?;
    say(&format!("soaked: {} of {SEEDS} seeds from {first}", result.seeds));
    if result.failures == 0 {
        return Ok(());
    }
    Err(Stop::Stage(format!("{} runs disagreed with the model", result.failures)))
}

/// Sends hostile messages to the codecs of every protocol.
fn fuzz(workspace: &Workspace, messages: u64) -> Outcome {
    let mut command = workspace.cargo(&["test"]);
    command.args(["-p", "keyrack-wire", "--test", "tests", "fuzz"]);
    command.env(FUZZ_VARIABLE, messages.to_string());
    say(&format!("{FUZZ_VARIABLE}={messages} {}", shown(&command)));
    run(&mut command)
}

/// Puts servers of name spaces and their clients into one world of faults after another.
fn simulate(workspace: &Workspace) -> Outcome {
    let mut command = workspace.cargo(&["test"]);
    command.args(["-p", "keyrack-deltafs", "--lib", "simulation"]);
    command.env(SIMULATIONS_VARIABLE, SIMULATIONS.to_string());
    say(&format!("{SIMULATIONS_VARIABLE}={SIMULATIONS} {}", shown(&command)));
    run(&mut command)
}

/// Puts the server under a thousand connections, kills and full disks.
fn serve(workspace: &Workspace, minutes: u64) -> Outcome {
    let mut command = workspace.cargo(&["test"]);
    command.args(["-p", "keyrack-cli", "--test", "cli", "serve::soak", "--", "--nocapture"]);
    command.env(SERVE_MINUTES_VARIABLE, minutes.to_string());
    say(&format!("{SERVE_MINUTES_VARIABLE}={minutes} {}", shown(&command)));
    run(&mut command)
}

#[derive(Debug, PartialEq, Eq)]
struct Soaked {
    /// Seeds under which every engine was run.
    seeds: u64,
    failures: u64,
}

/// Seeds outside, engines inside: when the time is up every engine has had the same seeds, but for
/// those of the last one. A failure is counted and the soak goes on.
fn soak(
    engines: &[String],
    first: u64,
    is_over: &mut dyn FnMut() -> bool,
    run: &mut dyn FnMut(&str, u64) -> Outcome,
) -> Outcome<Soaked> {
    let mut soaked = Soaked { seeds: 0, failures: 0 };
    for index in 0..SEEDS {
        for engine in engines {
            if is_over() {
                return Ok(soaked);
            }
            match run(engine, first.wrapping_add(index)) {
                Ok(()) => {}
                Err(Stop::Stage(line)) => {
                    complain(&format!("xtask: {line}"));
                    soaked.failures += 1;
                }
                Err(stop) => return Err(stop),
            }
        }
        soaked.seeds += 1;
    }
    Ok(soaked)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engines() -> Vec<String> {
        vec!["btree".into(), "skiplist".into()]
    }

    #[test]
    fn every_engine_gets_every_seed_and_failures_do_not_stop_it() {
        let mut runs = Vec::new();
        let soaked = soak(&engines(), 5, &mut || false, &mut |engine, seed| {
            runs.push((engine.to_string(), seed));
            if engine == "skiplist" && seed == 6 {
                return Err(Stop::Stage("disagreed".into()));
            }
            Ok(())
        });
        assert_eq!(soaked.ok(), Some(Soaked { seeds: 64, failures: 1 }));
        assert_eq!(runs.len(), 128);
        assert_eq!(runs[0], ("btree".into(), 5));
        assert_eq!(runs[127], ("skiplist".into(), 68));
    }

    #[test]
    fn no_run_starts_after_the_time_is_up() {
        let mut looks = 0;
        let mut is_over = || {
            looks += 1;
            looks > 3
        };
        let mut runs = 0;
        let soaked = soak(&engines(), 1, &mut is_over, &mut |_, _| {
            runs += 1;
            Ok(())
        });
        assert_eq!(runs, 3);
        assert_eq!(soaked.ok(), Some(Soaked { seeds: 1, failures: 0 }));
    }

    #[test]
    fn a_binary_that_cannot_start_ends_the_soak() {
        let soaked =
            soak(&engines(), 1, &mut || false, &mut |_, _| Err(Stop::Broken("gone".into())));
        assert!(matches!(soaked, Err(Stop::Broken(_))));
    }
}

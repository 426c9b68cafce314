//! All checks over one engine, with a line of report for each.

use crate::comparison::compare_random;
use crate::concurrent::compare_concurrent;
use crate::golden::check_scripts;
use crate::synced::check_synced;
use keyrack_store::{Result, Store};
use std::fmt::Display;

/// Threads of the concurrent check.
const THREADS: u32 = 4;

/// Checks the engine that `open` opens a fresh store of: golden scripts, synced puts, `operations`
/// random operations, and a quarter as many in each of four threads. Gives one line for each
/// outcome to `report` and returns whether all passed.
pub fn selftest(
    open: &dyn Fn() -> Result<Box<dyn Store>>,
    seed: u64,
    operations: u64,
    report: &mut dyn FnMut(&str),
) -> bool {
    let scripts = check_scripts(open);
    for note in &scripts.notes {
        report(&format!("note: {note}"));
    }
    for failure in &scripts.failed {
        report(&format!("FAILED script {}\n{}", failure.script, failure.diff.trim_end()));
    }
    report(&format!("scripts: {} passed, {} failed", scripts.passed, scripts.failed.len()));

    let random = |store: &dyn Store| {
        compare_random(store, seed, operations).map(|stats| {
            format!(
                "{} operations as the model, {} rows scanned, {} keys at the end",
                stats.operations, stats.rows, stats.keys
            )
        })
    };
    let concurrent = |store: &dyn Store| {
        compare_concurrent(store, seed, THREADS, operations.div_ceil(4)).map(|stats| {
            format!(
                "{} operations in {THREADS} threads, {} counted, {} batches",
                stats.operations, stats.increments, stats.batches
            )
        })
    };
    let synced = run(open, "synced put", &check_synced, report);
    let random = run(open, "random", &random, report);
    let concurrent = run(open, "concurrent", &concurrent, report);
    scripts.failed.is_empty() && synced && random && concurrent
}

/// One check over a fresh store, which is closed afterwards.
fn run<E: Display>(
    open: &dyn Fn() -> Result<Box<dyn Store>>,
    name: &str,
    check: &dyn Fn(&dyn Store) -> std::result::Result<String, E>,
    report: &mut dyn FnMut(&str),
) -> bool {
    let outcome = open().map_err(|error| format!("cannot open the store: {error}"));
    let outcome = outcome.and_then(|store| {
        let words = check(store.as_ref()).map_err(|error| error.to_string())?;
        store.close().map_err(|error| format!("cannot close the store: {error}"))?;
        Ok(words)
    });
    match outcome {
        Ok(words) => {
            report(&format!("{name}: {words}"));
            true
        }
        Err(words) => {
            report(&format!("FAILED {name}\n{words}"));
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_store::ModelStore;

    #[test]
    fn the_model_passes_and_says_so_in_four_lines() {
        let mut lines = Vec::new();
        let open = || Ok(Box::new(ModelStore::new()) as Box<dyn Store>);
        assert!(selftest(&open, 5, 400, &mut |line| lines.push(line.to_owned())));
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert!(lines[0].ends_with(" passed, 0 failed"), "{lines:?}");
        assert_eq!(lines[1], "synced put: refused, as the store has none");
        assert!(lines[2].starts_with("random: 400 operations as the model"), "{lines:?}");
        assert!(lines[3].starts_with("concurrent: 400 operations in 4 threads"), "{lines:?}");
    }

    #[test]
    fn a_store_that_does_not_open_fails() {
        let mut lines = Vec::new();
        let open = || Err(keyrack_store::Error::usage("no such place"));
        assert!(!selftest(&open, 5, 10, &mut |line| lines.push(line.to_owned())));
        assert!(lines.iter().all(|line| !line.contains("passed, 0 failed")), "{lines:?}");
    }
}

//! Overhead: how many instructions does the harness spend on a unit, and is that still within what
//! it may spend?
//!
//! ```text
//! for each budget    valgrind ... keyrack bench WORKLOAD --backend null --ops N    -> I(N)
//!                    the same with --ops 2N                                        -> I(2N)
//!                    (I(2N) - I(N)) / N  <=  the budget?
//! ```
//!
//! The null engine does nothing, so what is left is the harness. Start, load and end are the same
//! in both runs and cancel. Instructions and not nanoseconds, since they come out alike on a busy
//! machine: repeated on one machine they differ by less than 1 %. What they cannot see (cache
//! misses, stalls) `keyrack bench --overhead` shows on a quiet one.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::output::{complain, say};
use crate::stage::{Outcome, Stop, shown};
use crate::workspace::Workspace;

/// What a unit of one workload may cost.
#[derive(Debug)]
struct Budget {
    workload: &'static str,
    /// Instructions a unit: a quarter above what was counted when the number was last set, which
    /// leaves room for another C library or processor and none for a call that allocates or locks.
    instructions_max: u64,
}

/// One workload of each kind, as in `docs/results.md`.
const BUDGETS: &[Budget] = &[
    // A Lua function that builds its keys by `string.format`; counted 5335. Nearly all of it is
    // Lua and `printf`.
    Budget { workload: "workloads/mixed.lua", instructions_max: 6670 },
    // A Lua function over native sources; counted 1450.
    Budget { workload: "workloads/mixed-native.lua", instructions_max: 1810 },
    // No Lua while the clock runs; counted 307.
    Budget { workload: "workloads/mixed-declarative.lua", instructions_max: 384 },
];

/// Units of the shorter run. What varies from run to run, some ten thousand instructions of
/// waiting, is then less than one instruction a unit.
const UNITS: u64 = 50_000;

/// Counts every workload and compares.
///
/// # Errors
/// `Stage` when a workload is over its budget or does not run, `Broken` when `valgrind` cannot be
/// started or does not count.
pub(crate) fn run_all(workspace: &Workspace, valgrind: &Path, binary: &Path) -> Outcome {
    let count = |units: u64, workload: &str| -> Outcome<u64> {
        let mut command = Command::new(valgrind);
        command
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(binary)
            .args(["bench", workload, "--backend", "null", "--ops", &units.to_string()])
            .args(["--items", "1000", "--probe", "none", "--progress", "none"])
            .current_dir(workspace.root())
            .stdin(Stdio::null());
        let line = shown(&command);
        let output = command
            .output()
            .map_err(|error| Stop::Broken(format!("cannot start `{line}`: {error}")))?;
        let talk = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            talk.lines().for_each(|line| complain(&format!("   | {line}")));
            return Err(Stop::Stage(format!("`{line}` did not succeed ({})", output.status)));
        }
        collected(&talk).ok_or_else(|| Stop::Broken(format!("`{line}` counted nothing")))
    };
    say(&format!("{:<34}{:>18}{:>10}", "workload", "instructions/unit", "budget"));
    let mut over = Vec::new();
    for budget in BUDGETS {
        let Budget { workload, instructions_max } = budget;
        let (once, twice) = (count(UNITS, workload)?, count(2 * UNITS, workload)?);
        let spent = per_unit(once, twice, UNITS).ok_or_else(|| {
            Stop::Broken(format!("{workload}: {twice} instructions for twice the units of {once}"))
        })?;
        say(&format!("{workload:<34}{spent:>18}{instructions_max:>10}"));
        over.extend(budget.excess(spent));
    }
    if over.is_empty() { Ok(()) } else { Err(Stop::Stage(over.join("; "))) }
}

impl Budget {
    /// What is wrong with so many instructions, if anything.
    fn excess(&self, spent: u64) -> Option<String> {
        let Budget { workload, instructions_max } = self;
        (spent > *instructions_max).then(|| {
            format!("a unit of {workload} takes {spent} instructions, {instructions_max} may be")
        })
    }
}

/// The sum in callgrind's last words: `==123== Collected : 1234`.
fn collected(talk: &str) -> Option<u64> {
    let mut lines = talk.lines().filter(|line| line.starts_with("=="));
    let sum = lines.find_map(|line| line.split_once("Collected :"))?.1;
    sum.trim().parse().ok()
}

/// Instructions a unit, rounded, of two runs of `units` and twice as many; `None` where the longer
/// one did not take more.
fn per_unit(once: u64, twice: u64, units: u64) -> Option<u64> {
    let more = twice.checked_sub(once).filter(|more| *more > 0)?;
    Some((more + units / 2) / units)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    const TALK: &str = "==7== Callgrind, a call-graph generating cache profiler\n\
                        Collected : 5\n\
                        ==7== Events    : Ir\n\
                        ==7== Collected : 281841693\n\
                        ==7== \n";

    #[test]
    fn the_sum_is_found_among_what_else_is_said() {
        assert_eq!(collected(TALK), Some(281_841_693));
        assert_eq!(collected("==7== Collected : many\n"), None);
        assert_eq!(collected("the program says: Collected : 5\n"), None);
        assert_eq!(collected(""), None);
    }

    #[test]
    fn what_both_runs_share_cancels() {
        assert_eq!(per_unit(1_000_000 + 50 * 307, 1_000_000 + 100 * 307, 50), Some(307));
        assert_eq!(per_unit(10, 10 + 50 * 3 + 25, 50), Some(4), "to the nearest");
        assert_eq!(per_unit(10, 10 + 50 * 3 + 24, 50), Some(3), "to the nearest");
        assert_eq!(per_unit(10, 10, 50), None);
        assert_eq!(per_unit(10, 9, 50), None);
    }

    #[test]
    fn a_budget_may_be_spent_to_the_last_instruction() {
        let budget = Budget { workload: "w.lua", instructions_max: 384 };
        assert_eq!(budget.excess(384), None);
        assert_eq!(
            budget.excess(385).as_deref(),
            Some("a unit of w.lua takes 385 instructions, 384 may be")
        );
    }

    /// A stand-in for valgrind that has counted `start` and so many instructions for each unit.
    fn judged(test: &str, per_unit: u64) -> Outcome {
        let scratch = Scratch::new(test);
        let script = format!(
            "while [ $# -gt 0 ]; do [ \"$1\" = --ops ] && ops=$2; shift; done\n\
             echo \"==1== Collected : $((77777 + {per_unit} * ops))\" >&2"
        );
        let valgrind = scratch.program("valgrind", &script);
        run_all(&Workspace::at(scratch.path()), &valgrind, Path::new("keyrack"))
    }

    #[test]
    fn every_workload_over_its_budget_is_named() {
        let least = BUDGETS.iter().map(|budget| budget.instructions_max).min().expect("some");
        assert!(judged("overhead-fits", least).is_ok());
        let Err(Stop::Stage(line)) = judged("overhead-little", least + 1) else {
            panic!("passed");
        };
        assert_eq!(line.matches("takes").count(), 1, "{line}");
        let Err(Stop::Stage(line)) = judged("overhead-much", 1 << 20) else {
            panic!("passed");
        };
        for budget in BUDGETS {
            assert!(line.contains(budget.workload), "{line}");
        }
    }

    #[test]
    fn a_tool_that_does_not_count_is_broken_and_a_run_that_fails_is_no() {
        let scratch = Scratch::new("overhead-broken");
        let workspace = Workspace::at(scratch.path());
        let silent = scratch.program("silent", "exit 0");
        let outcome = run_all(&workspace, &silent, Path::new("keyrack"));
        assert!(matches!(&outcome, Err(Stop::Broken(line)) if line.contains("counted nothing")));
        let outcome = run_all(&workspace, Path::new("/no/such/tool"), Path::new("keyrack"));
        assert!(matches!(outcome, Err(Stop::Broken(_))));
        let failing = scratch.program("failing", "echo '==1== Collected : 5' >&2; exit 1");
        let outcome = run_all(&workspace, &failing, Path::new("keyrack"));
        assert!(matches!(&outcome, Err(Stop::Stage(line)) if line.contains("did not succeed")));
    }
}

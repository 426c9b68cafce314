//! Ranks as processes: this test program, started again by launchers.

use keyrack_deltafs::job::{Fold, Job, Launch, Outcome, Rendezvous};
use std::process::Command;
use std::time::Duration;

/// Says to the rank what it is for.
const PART: &str = "KEYRACK_TEST_PART";

/// Not a test of its own: what each rank runs. Without a part it has nothing to do.
#[test]
fn a_rank() {
    let Ok(part) = std::env::var(PART) else { return };
    let mut job = Job::join(&Rendezvous::default()).unwrap();
    let rank = u64::from(job.rank());
    match (part.as_str(), rank) {
        ("sum", _) => {
            let size = u64::from(job.size());
            assert_eq!(job.fold(&[rank], Fold::Sum).unwrap(), [size * (size - 1) / 2]);
            job.finish().unwrap();
        }
        ("exit", 1) => std::process::exit(9),
        ("vanish", 1) => std::process::exit(0),
        ("abort", 1) => job.abort("enough of it"),
        ("signal", 1) => {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
                .unwrap();
        }
        // The others wait for one that does not come.
        _ => {
            let error = job.barrier().unwrap_err();
            assert!(error.to_string().starts_with("rank 1 "), "{error}");
            std::process::exit(3);
        }
    }
}

fn command() -> Vec<String> {
    let program = std::env::current_exe().unwrap().display().to_string();
    [&program, "job::a_rank", "--exact", "--quiet"].map(str::to_owned).to_vec()
}

fn launched(ranks: u32, part: &str) -> Outcome {
    let environment = vec![(PART.to_owned(), part.to_owned())];
    let grace = Duration::from_secs(20);
    Launch { ranks, command: command(), environment, grace }.start().unwrap().wait()
}

#[test]
fn processes_of_our_launcher_find_each_other() {
    for ranks in [1, 4] {
        assert_eq!(launched(ranks, "sum"), Outcome::Done);
    }
}

#[test]
fn a_rank_that_fails_ends_the_job_and_is_named() {
    for part in ["exit", "vanish", "abort", "signal"] {
        let outcome = launched(3, part);
        let Outcome::Failed { how, .. } = &outcome else { panic!("{part}: {outcome:?}") };
        assert!(!how.is_empty());
        // Others that have noticed may end before the launcher looks at rank 1.
        if let Outcome::Failed { rank, how } = outcome
            && rank == 1
        {
            let expected = match part {
                "exit" => "ended with status 9",
                "vanish" => "ended without leaving the job",
                "abort" => "enough of it",
                _ => "was ended by signal 9",
            };
            let left = "ended without leaving the job";
            assert!(how.contains(expected) || part == "abort" && how == left, "{part}: {how}");
        }
    }
}

#[test]
fn a_program_that_is_not_there_is_an_error_with_its_name() {
    let launch = Launch {
        ranks: 2,
        command: vec!["/nowhere/at-all".to_owned()],
        environment: Vec::new(),
        grace: Duration::from_secs(1),
    };
    let error = launch.start().unwrap_err().to_string();
    assert!(error.contains("/nowhere/at-all"), "{error}");
    let none = Launch { ranks: 0, command: command(), ..launch };
    assert!(none.start().is_err());
}

#[test]
fn processes_of_mpich_find_each_other() {
    let mpirun = "mpirun.mpich";
    if Command::new(mpirun).arg("--version").output().is_err() {
        let what = "processes_of_mpich_find_each_other: there is no mpirun.mpich on this machine";
        assert!(std::env::var_os("CI").is_none(), "{what}");
        println!("SKIPPED {what}");
        return;
    }
    let output = Command::new(mpirun)
        .args(["-np", "4", "-env", PART, "sum"])
        .args(command())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

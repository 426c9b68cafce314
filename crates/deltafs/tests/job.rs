//! Ranks as processes: this test program, started again by launchers.

use keyrack_deltafs::job::{Exchange, Fold, Job, Launch, Outcome, Rendezvous};
use keyrack_vfs::{Fs, RealFs};
use std::process::Command;
use std::time::Duration;

/// Says to the rank what it is for.
pub(crate) const PART: &str = "KEYRACK_TEST_PART";

/// Not a test of its own: what each rank runs. Without a part it has nothing to do.
#[test]
fn a_rank() {
    let Ok(part) = std::env::var(PART) else { return };
    if part == "nested" {
        return assert_eq!(launched(2, "sum"), Outcome::Done);
    }
    let joined = Job::join(&Rendezvous::default());
    if part == "no server" {
        let error = joined.unwrap_err().to_string();
        assert!(error.contains("PMIx_Init of libpmix.so.2 failed"), "{error}");
        return assert!(error.contains("set KEYRACK_FS_RENDEZVOUS"), "{error}");
    }
    let mut job = joined.unwrap();
    let rank = u64::from(job.rank());
    match (part.as_str(), rank) {
        ("sum" | "directory" | "pmix", _) => {
            match part.as_str() {
                "directory" => assert_eq!(job.exchange(), Exchange::Directory),
                "pmix" => assert_eq!(job.exchange(), Exchange::Pmix),
                _ => {}
            }
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

/// Whether that program is here. One that is missing is said, and fails where `CI` is set.
pub(crate) fn has_program(test: &str, program: &str) -> bool {
    let is_here = Command::new(program).arg("--version").output().is_ok();
    if !is_here {
        let what = format!("{test}: there is no {program} on this machine");
        assert!(std::env::var_os("CI").is_none(), "{what}");
        println!("SKIPPED {what}");
    }
    is_here
}

/// Runs ranks under a launcher, with the variable that says to them what they are for.
#[track_caller]
pub(crate) fn runs(launcher: &mut Command) {
    let output = launcher.args(command()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

#[test]
fn processes_of_mpich_find_each_other() {
    if has_program("processes_of_mpich_find_each_other", "mpirun.mpich") {
        runs(Command::new("mpirun.mpich").args(["-np", "4", "-env", PART, "sum"]));
    }
}

fn open_mpi(ranks: &str, part: &str) -> Command {
    let mut launcher = Command::new("mpirun.openmpi");
    launcher.args(["--allow-run-as-root", "--oversubscribe", "-np", ranks, "-x", PART]);
    launcher.env(PART, part);
    launcher
}

/// Its ranks meet through its server, without a directory, or in the directory that is given.
#[test]
fn processes_of_open_mpi_find_each_other() {
    if !has_program("processes_of_open_mpi_find_each_other", "mpirun.openmpi") {
        return;
    }
    runs(open_mpi("4", "pmix").args(["-x", "TMPDIR=/nowhere/at-all"]));
    let dir = tempfile::tempdir().unwrap();
    let meeting = format!("KEYRACK_FS_RENDEZVOUS={}", dir.path().display());
    runs(open_mpi("4", "directory").args(["-x", &meeting]));
    assert!(RealFs.list(dir.path()).unwrap().is_empty());
    // Our launcher hides from its ranks those that Open MPI has made of it.
    runs(&mut open_mpi("2", "nested"));
}

/// The variables of a server that has gone.
#[test]
fn a_server_of_pmix_that_is_gone_is_an_error_with_its_remedy() {
    let test = "a_server_of_pmix_that_is_gone_is_an_error_with_its_remedy";
    if !has_program(test, "mpirun.openmpi") {
        return;
    }
    let [program, arguments @ ..] = &command()[..] else { panic!("no program") };
    let mut rank = Command::new(program);
    rank.args(arguments).env(PART, "no server").envs([
        ("OMPI_COMM_WORLD_RANK", "0"),
        ("OMPI_COMM_WORLD_SIZE", "2"),
        ("PMIX_RANK", "0"),
        ("PMIX_NAMESPACE", "gone"),
        ("PMIX_SERVER_URI41", "gone.0;tcp4://127.0.0.1:1"),
    ]);
    let output = rank.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

//! All jobs, on one, two and three threads over one map: they end, and report what they should.

use super::super::{End, Halt, Job, Lcg, Row, Value, job, jobs};
use super::fake::{Fake, Shared, count};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Small sizes for jobs that take theirs from parameters.
const SMALL: &str = "partsize=50 parts=2 records=40 gets=100 rangesize=30 file=urls.txt";

struct Ran {
    result: Result<(), Halt>,
    row: Option<Row>,
    notices: Vec<String>,
}

/// Runs `jobs` one after the other on each of `threads` threads over one map.
fn run(names: &[&str], threads: u32, limit: u64, expire_after: u64) -> Vec<Ran> {
    let shared = Shared::new();
    let mut randoms = vec![Lcg::default(); threads as usize];
    let mut ran = Vec::new();
    for (place, name) in names.iter().enumerate() {
        shared.rearm();
        let job = job(name).unwrap();
        ran = std::thread::scope(|scope| {
            let mut handles = Vec::new();
            for (id, random) in randoms.iter_mut().enumerate() {
                let mut client = Fake::new(&shared, (id as u32, threads)).param(SMALL);
                client.limit = limit;
                client.expire_after = expire_after;
                client.first = place == 0;
                let shared = Arc::clone(&shared);
                handles.push(scope.spawn(move || {
                    let result = job.run(&mut client, random);
                    if result.is_err() {
                        shared.stop.store(true, Ordering::Relaxed);
                    }
                    Ran { result, row: client.row, notices: client.notices }
                }));
            }
            handles.into_iter().map(|handle| handle.join().unwrap()).collect()
        });
    }
    ran
}

fn names(row: &Row) -> Vec<&str> {
    row.fields().iter().map(|(name, _)| name.as_str()).collect()
}

/// What has to run before a job on the same map.
fn sequence(job: &Job) -> Vec<&'static str> {
    match job.name {
        "rscale" => vec!["ruscale_init", "rscale"],
        name => vec![name],
    }
}

#[test]
fn every_job_ends_and_reports_on_one_two_and_three_threads() {
    for job in jobs() {
        for threads in 1..=3 {
            if (job.name == "conflictscan1" && threads == 1)
                || (job.name == "bdb" && threads > 1)
                || (job.name == "rscale" && threads == 1)
            {
                continue;
            }
            let what = format!("{} on {threads}", job.name);
            let ran = run(&sequence(job), threads, 40, 3000);
            for (id, ran) in ran.iter().enumerate() {
                assert_eq!(ran.result, Ok(()), "{what}, thread {id}");
                let row = ran.row.as_ref().unwrap();
                assert_eq!(row.get("errors"), None, "{what}, thread {id}");
                assert_ne!(row.get("ok"), Some(&Value::Flag(false)), "{what}, thread {id}");
            }
        }
    }
}

#[test]
fn rows_have_the_fields_of_the_tester_in_its_order() {
    let both = ["puts", "puts_per_sec", "gets", "gets_per_sec", "ops", "ops_per_sec"].as_slice();
    let expected: [(&str, &[&str]); 19] = [
        ("rw1", both),
        ("rw1puts", &["puts", "puts_per_sec"]),
        ("rw1long", both),
        ("rw1b", both),
        ("rw2", &["puts", "gets", "ops", "ops_per_sec"]),
        ("rw3", both),
        ("same", &["puts", "puts_per_sec"]),
        ("rwsmall24", &["ops", "ops_per_sec"]),
        ("rwsep24", &["ops", "ops_per_sec"]),
        ("wd1", &["putpos", "ops", "ops_per_sec"]),
        ("wd3", &["rangesize", "first", "rounds", "rounds_per_sec", "ops", "ops_per_sec"]),
        ("wscale", &["puts", "puts_per_sec"]),
        ("ruscale_init", &["puts", "puts_per_sec"]),
        ("bdb", &["ops", "ops_per_sec"]),
        ("wcol1", &["total", "puts", "puts_per_sec"]),
        ("rcol1", &["total", "gets", "gets_per_sec"]),
        ("scan1", &["ok", "scansteps"]),
        ("splitremove1", &["ok", "rounds"]),
        ("url", &["puts", "removes", "gets", "gets_per_sec", "ops", "ops_per_sec"]),
    ];
    for (name, fields) in expected {
        let ran = run(&[name], 1, 40, 3000);
        assert_eq!(names(ran[0].row.as_ref().unwrap()), fields, "{name}");
    }
    let ran = run(&["conflictscan1"], 2, 40, 3000);
    let scanner = ["keylen", "prefixlen", "scansize", "scans", "aborts"];
    assert_eq!(names(ran[0].row.as_ref().unwrap()), scanner);
    assert_eq!(names(ran[1].row.as_ref().unwrap()), ["rangesize", "inserts", "removes"]);
    assert!(names(run(&["scan1"], 2, 40, 3000)[1].row.as_ref().unwrap()).is_empty());
}

#[test]
fn a_limit_is_one_operation_less_than_what_is_done() {
    let row = run(&["rw1"], 1, 40, u64::MAX).remove(0).row.unwrap();
    assert_eq!((count(&row, "puts"), count(&row, "gets"), count(&row, "ops")), (41, 41, 82));
    let row = run(&["wcol1"], 1, 40, u64::MAX).remove(0).row.unwrap();
    assert_eq!(count(&row, "puts"), 40);
    let row = run(&["rw1"], 1, u64::MAX, 100).remove(0).row.unwrap();
    assert_eq!((count(&row, "puts"), count(&row, "gets")), (100, 100));
}

/// The end of the time leaves a job that only time ends, and cuts one that a limit ends too.
#[test]
fn the_end_of_a_job_is_what_the_table_says() {
    for job in jobs().iter().filter(|job| job.end == End::LimitOrTime) {
        let ran = run(&[job.name], 1, 40, u64::MAX);
        assert_eq!(ran[0].result, Ok(()), "{}", job.name);
    }
    for job in jobs().iter().filter(|job| job.end == End::Count) {
        let ran = run(&[job.name], 1, 40, 0);
        assert_eq!(ran[0].result, Ok(()), "{}", job.name);
    }
}

#[test]
fn removers_of_wd1_follow_their_writers() {
    for name in ["wd1", "wd1m1", "wd1m2"] {
        let ran = run(&[name], 4, 3000, u64::MAX);
        let rows: Vec<&Row> = ran.iter().map(|ran| ran.row.as_ref().unwrap()).collect();
        for pair in rows.chunks(2) {
            assert!(count(pair[1], "removepos") <= count(pair[0], "putpos"), "{name}: {rows:?}");
            assert_eq!(count(pair[0], "ops"), 3001);
        }
    }
    // So small a limit that what the remover waits for is never put.
    for limit in [0, 15, 16] {
        let ran = run(&["wd1"], 2, limit, u64::MAX);
        assert!(ran.iter().all(|ran| ran.result == Ok(())), "{limit}");
    }
}

#[test]
fn jobs_for_several_threads_say_so_on_one() {
    let notices = run(&["wd1"], 1, 40, 100).remove(0).notices;
    assert!(notices[0].contains("two threads or more"), "{notices:?}");
    let ran = run(&["conflictscan1"], 1, 40, 100);
    assert!(ran[0].result.as_ref().unwrap_err().to_string().contains("two threads or more"));
    let ran = run(&["bdb"], 2, 40, 100);
    assert!(ran[0].notices[0].contains("one thread alone"), "{:?}", ran[0].notices);
}

#[test]
fn a_reader_of_columns_puts_them_where_nobody_has() {
    for name in ["rcol1", "rcol1o1", "rcol1o2"] {
        let ran = run(&[name], 2, 40, 100);
        assert!(ran[0].notices[0].starts_with("warning: nothing has been put yet"), "{name}");
        assert_eq!(count(ran[1].row.as_ref().unwrap(), "gets"), 40);
        let ran = run(&[&name.replacen('r', "w", 1), name], 2, 40, 100);
        assert_eq!(ran[0].result, Ok(()));
        assert!(ran[0].notices.is_empty(), "{name}: {:?}", ran[0].notices);
        // Another column, or none: what is missing is found.
        let ran = run(&["rw1puts", name], 1, 40, 100);
        let failure = ran[0].result.as_ref().unwrap_err().to_string();
        assert!(failure.contains("found nothing"), "{name}: {failure}");
    }
}

#[test]
fn a_stop_ends_every_job_at_once() {
    for job in jobs() {
        let shared = Shared::new();
        shared.stop.store(true, Ordering::Relaxed);
        let mut client = Fake::new(&shared, (0, 2)).param(SMALL);
        assert_eq!(job.run(&mut client, &mut Lcg::default()), Err(Halt::Stopped), "{}", job.name);
    }
}

#[test]
fn parameters_that_make_no_sense_are_failures_in_words() {
    let table = [
        ("wd3", "rangesize=x", "parameter rangesize: 'x' is not a whole number"),
        ("wd3", "nkeys=-1", "parameter nkeys: '-1' is not a whole number"),
        ("bdb", "records=0", "parameter records: 0 is not in 1..=4294967295"),
        ("uscale", "partsize=4294967296", "parameter partsize: 4294967296 is not in"),
        ("conflictscan1", "prefixlen=9", "parameter prefixlen: 9 is not in 1..=8"),
        ("conflictscan1", "rangelen=0", "parameter rangelen: 0 is not in 1..=8"),
        ("conflictscan1", "rangelen=1 rangesize=256", "256 keys do not fit into 1 bytes"),
        ("conflictscan1", "scansize=100", "scansize: 100 is not below the rangesize of 100"),
    ];
    for (name, params, expected) in table {
        let mut client = Fake::new(&Shared::new(), (0, 2)).param(params);
        let halt = job(name).unwrap().run(&mut client, &mut Lcg::default()).unwrap_err();
        assert!(halt.to_string().contains(expected), "{name}: {halt}");
    }
}

#[test]
fn url_without_a_file_says_what_it_needs() {
    let mut client = Fake::new(&Shared::new(), (0, 1));
    job("url").unwrap().run(&mut client, &mut Lcg::default()).unwrap();
    let row = client.row.unwrap();
    assert_eq!(row.get("ok"), Some(&Value::Flag(false)));
    assert_eq!(names(&row), ["ok", "error"]);
}

/// Parameters that the table names are the ones that jobs ask for: the harness refuses others.
#[test]
fn jobs_ask_for_the_parameters_of_the_table() {
    for job in jobs() {
        let mut asked = BTreeSet::new();
        // With parameters some are not asked for, since others decide.
        for params in ["", SMALL] {
            for id in 0..2 {
                let mut client = Fake::new(&Shared::new(), (id, 2)).param(params);
                client.limit = 10;
                client.expire_after = 0;
                if job.name == "bdb" || job.name == "ruscale_init" {
                    client.shared_stop();
                }
                let _ = job.run(&mut client, &mut Lcg::default());
                asked.extend(client.asked.take());
            }
        }
        let known: BTreeSet<String> = job.params.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(asked, known, "{}", job.name);
        assert!(job.files.iter().all(|file| job.params.contains(file)), "{}", job.name);
    }
}

/// A follower that comes late finds the key that it waits to see go, of the next round. It would
/// wait for the leader and the leader for it.
#[test]
fn a_late_follower_of_splitremove1_joins_the_next_round() {
    let shared = Shared::new();
    let put = |key: &str| {
        shared.tree.lock().unwrap().insert(key.as_bytes().to_vec(), b"1".to_vec());
    };
    ["0000000000000226", "1", "2"].iter().for_each(|key| put(key));
    let mut client = Fake::new(&shared, (1, 2));
    // Its sign comes back, as the leader of the next round puts it.
    client.put_again = Some(b"1".to_vec());
    client.expire_after = 1000;
    job("splitremove1").unwrap().run(&mut client, &mut Lcg::default()).unwrap();
    let row = client.row.unwrap();
    assert!(count(&row, "rounds") > 10, "{row:?}");
}

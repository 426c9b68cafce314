//! Checks of the checks: a map with one planted lie, which each job that verifies has to find.

use super::super::{Halt, Lcg, Value, job};
use super::fake::{Fake, Lie, Shared};

/// What a lie did to a run: the words in which it was found, or `None` where it was not.
fn found(name: &str, params: &str, id: u32, lie: Lie, before: &[&str]) -> Option<String> {
    let shared = Shared::new();
    let mut random = Lcg::default();
    let job = |name: &str| job(name).unwrap();
    for writer in before {
        // Half of them by another thread, where a job reads what several have put.
        for id in [0, 1] {
            let mut client = Fake::new(&shared, (id, 2)).param(params);
            client.limit = 200;
            job(writer).run(&mut client, &mut Lcg::default()).unwrap();
        }
    }
    let mut client = Fake::new(&shared, (id, 2)).param(params);
    client.limit = 200;
    client.expire_after = 2000;
    client.first = before.is_empty();
    client.lie = lie;
    match job(name).run(&mut client, &mut random) {
        Err(Halt::Failed(text)) => Some(text.into_string()),
        Err(other) => panic!("{name}: {other}"),
        Ok(()) => {
            let row = client.row.unwrap_or_default();
            let ok = row.get("ok") != Some(&Value::Flag(false));
            match row.get("errors") {
                Some(Value::List(errors)) => {
                    assert!(!ok, "{name}");
                    Some(errors[0].clone())
                }
                None => {
                    assert!(ok, "{name}");
                    None
                }
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}

const READERS: [&str; 16] = [
    "rw1",
    "rw1fixed",
    "rw1long",
    "rw1b",
    "rw1fixedb",
    "rw2",
    "rw2g90",
    "rw2g98",
    "rw2fixed",
    "rw2fixedg90",
    "rw2fixedg98",
    "rw3",
    "rw4",
    "rw4fixed",
    "bdb",
    "wd3",
];

const SMALL: &str = "records=50 gets=200 partsize=50 parts=2 file=urls.txt";

#[test]
fn a_lost_write_a_lost_answer_and_a_wrong_value_are_found_by_every_reader() {
    for name in READERS {
        assert_eq!(found(name, SMALL, 0, Lie::None, &[]), None, "{name}");
        for number in [0, 1, 2] {
            let lies = [
                (Lie::DropWrite(number), "found nothing"),
                (Lie::LoseAnswer(number), "found nothing"),
                (Lie::WrongValue(number), "?\""),
            ];
            for (lie, words) in lies {
                // The gets of one run need not draw a key that was lost early.
                let text = found(name, SMALL, 0, lie, &[]);
                let text = text.unwrap_or_else(|| panic!("{name} does not find {lie:?}"));
                assert!(text.contains("expected \"") && text.contains(words), "{name}: {text}");
            }
        }
    }
}

#[test]
fn what_another_job_has_put_is_checked_too() {
    let after = [
        ("rscale", "ruscale_init"),
        ("rcol1", "wcol1"),
        ("rcol1o1", "wcol1o1"),
        ("rcol1o2", "wcol1o2"),
    ];
    for (name, writer) in after {
        for id in [0, 1] {
            assert_eq!(found(name, SMALL, id, Lie::None, &[writer]), None, "{name}");
            for lie in [Lie::LoseAnswer(7), Lie::WrongValue(7)] {
                let text = found(name, SMALL, id, lie, &[writer]);
                assert!(
                    text.is_some_and(|text| text.contains("found nothing") || text.contains("?\"")),
                    "{name} {lie:?}"
                );
            }
        }
    }
    // Those that put what they read lose it like others.
    let text = found("rcol1", SMALL, 0, Lie::DropWrite(9), &[]).unwrap();
    assert!(text.starts_with("column 0 of key \"") && text.ends_with("found nothing"), "{text}");
}

#[test]
fn batches_insist_on_one_answer_for_each_key() {
    for name in ["rw1b", "rw1fixedb"] {
        let text = found(name, SMALL, 0, Lie::AnswerTwice, &[]).unwrap();
        assert!(text.contains("expected one answer, found two"), "{name}: {text}");
        let text = found(name, SMALL, 0, Lie::SkipPlace, &[]).unwrap();
        assert!(text.contains("found nothing"), "{name}: {text}");
        for number in [31, 32, 33, 200] {
            assert!(found(name, SMALL, 0, Lie::DropWrite(number), &[]).is_some(), "{name}");
        }
    }
}

#[test]
fn urls_that_were_not_removed_are_checked() {
    assert_eq!(found("url", SMALL, 0, Lie::None, &[]), None);
    // Of 13 inserts the first 10 are removed again.
    for number in 10..13 {
        let text = found("url", SMALL, 0, Lie::DropWrite(number), &[]).unwrap();
        assert!(text.contains("http://f.example/"), "{text}");
    }
    for lie in [Lie::WrongValue(1), Lie::LoseAnswer(2)] {
        assert!(found("url", SMALL, 0, lie, &[]).is_some(), "{lie:?}");
    }
}

#[test]
fn presence_is_checked_by_wd3_and_by_the_queues() {
    let table = [
        ("wd3", 0, Lie::KeepKey(3), "expected nothing, found"),
        ("wd3", 0, Lie::RefuseInsert(3), "expected to insert"),
        ("wd3", 0, Lie::DropWrite(3), "found nothing"),
        ("conflictscan1", 1, Lie::DropWrite(3), "expected to remove it, found it gone"),
        ("conflictscan1", 1, Lie::RefuseInsert(120), "expected to insert"),
    ];
    for (name, id, lie, words) in table {
        assert_eq!(found(name, "", id, Lie::None, &[]), None, "{name}");
        let text = found(name, "", id, lie, &[]).unwrap_or_else(|| panic!("{name} {lie:?}"));
        assert!(text.contains(words), "{name}: {text}");
    }
}

#[test]
fn a_lost_a_doubled_and_a_wrong_row_are_found_by_every_scan() {
    for name in ["scan1", "scan1q80", "rscan1", "rscan1q80"] {
        assert_eq!(found(name, "", 0, Lie::None, &[]), None, "{name}");
        // The last of the 100 rows of a scan is not lost: the next scan begins with it.
        assert_eq!(found(name, "", 0, Lie::LoseRow(99), &[]), None, "{name}");
        for row in [0, 1, 50, 98] {
            let lies = [
                (Lie::LoseRow(row), "missing"),
                (Lie::DoubleRow(row), "expected"),
                (Lie::WrongRow(row), "with value"),
                (Lie::StrangeRow(row), "unexpected key \"strange\""),
            ];
            for (lie, words) in lies {
                let text = found(name, "", 0, lie, &[]);
                let text = text.unwrap_or_else(|| panic!("{name} does not find {lie:?}"));
                assert!(text.contains(words), "{name} {lie:?}: {text}");
            }
        }
        for number in [0, 1, 199] {
            let text = found(name, "", 0, Lie::DropWrite(number), &[]).unwrap();
            assert!(text.contains("missing"), "{name}: {text}");
        }
    }
}

#[test]
fn scans_of_queues_are_in_order() {
    let shared = Shared::new();
    let put = |n: u8| {
        let key = [0, 0, 0, 1, 0, 0, 0, n];
        shared.tree.lock().unwrap().insert(key.to_vec(), key.to_vec());
    };
    (0..30).for_each(put);
    let run = |lie| {
        let mut client = Fake::new(&shared, (0, 2));
        client.expire_after = 50;
        client.lie = lie;
        shared.rearm();
        job("conflictscan1").unwrap().run(&mut client, &mut Lcg::default())
    };
    assert_eq!(run(Lie::None), Ok(()));
    let halt = run(Lie::DoubleRow(5)).unwrap_err();
    assert!(halt.to_string().starts_with("scan: got "), "{halt}");
}

/// A follower that has seen the trigger and then misses it has found the fault that the job is
/// for.
#[test]
fn a_trigger_that_goes_away_is_found_by_splitremove1() {
    let shared = Shared::new();
    shared.tree.lock().unwrap().insert(b"0000000000000226".to_vec(), b"227".to_vec());
    let mut client = Fake::new(&shared, (1, 2));
    client.expire_after = 50;
    client.lie = Lie::LoseAnswer(6);
    job("splitremove1").unwrap().run(&mut client, &mut Lcg::default()).unwrap();
    let row = client.row.unwrap();
    assert_eq!(row.get("ok"), Some(&Value::Flag(false)));
    let expected = "key 0000000000000226 missing after 0 rounds, counter 2";
    assert_eq!(row.get("errors"), Some(&Value::List(vec![expected.to_owned()])));
}

/// Errors of a scan are listed up to a number, which ends the job before its time.
#[test]
fn a_thousand_errors_are_enough() {
    let shared = Shared::new();
    let mut client = Fake::new(&shared, (0, 1));
    client.limit = 2000;
    client.lie = Lie::WrongRow(0);
    job("scan1").unwrap().run(&mut client, &mut Lcg::default()).unwrap();
    let row = client.row.unwrap();
    let Some(Value::List(errors)) = row.get("errors") else { panic!("{row:?}") };
    assert_eq!(errors.len(), 1001);
    assert_eq!(errors.last().unwrap(), "too many errors, giving up");
}

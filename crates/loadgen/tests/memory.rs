//! Runs over shared memory: what the client counts is what the responder counted, and a responder
//! that is gone is said.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use keyrack_loadgen::account::Report;
use keyrack_loadgen::plan::{Settings, Waiting};
use keyrack_loadgen::respond::{self, Responder, ResponderKind};
use keyrack_loadgen::target::Protocol;
use tempfile::TempDir;

use crate::support::{load, patiently, settings, try_load};

/// A responder at `shm:PATH`, in a directory of its own.
fn responder(kind: &str) -> (Responder, PathBuf, TempDir) {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("shm");
    let settings = respond::Settings {
        endpoints: Vec::new(),
        shared: vec![path.clone()],
        ..respond::Settings::on_loopback(ResponderKind::parse(kind).unwrap())
    };
    (Responder::start(&settings).unwrap(), path, directory)
}

fn over(path: &std::path::Path) -> Settings {
    settings(&format!("shm:{}", path.display()))
}

fn answered(report: &Report) -> u64 {
    let counts = &report.account.counts;
    assert_eq!(counts.unanswered + report.account.errors.total(), 0, "{report:?}");
    counts.ops
}

#[test]
fn both_sides_count_the_same() {
    for kind in ["null", "fault:"] {
        let (responder, path, _directory) = responder(kind);
        let mut asked = 0;
        for (protocol, waiting, connections, depth) in [
            (Protocol::Text, Waiting::Block, 1, 1),
            (Protocol::Binary, Waiting::Block, 3, 16),
            (Protocol::Meta, Waiting::Adaptive, 2, 1),
            (Protocol::Resp3, Waiting::Spin, 2, 64),
        ] {
            let report = load(Settings {
                protocol,
                waiting,
                connections,
                depth,
                update: 0.3,
                // Larger than the rest of a ring again and again.
                valuesize: "30000".to_owned(),
                ..over(&path)
            });
            assert_eq!(report.account.counts.ops, 1000);
            assert_eq!(
                report.account.tally(keyrack_loadgen::target::Class::Read).response.count()
                    + report.account.tally(keyrack_loadgen::target::Class::Update).response.count(),
                1000
            );
            // The loader wrote 100 records; RESP3 says HELLO on each connection.
            asked += answered(&report) + 100;
            asked += if protocol == Protocol::Resp3 { connections as u64 } else { 0 };
        }
        assert_eq!(responder.shutdown().unwrap().requests, asked, "{kind}");
        assert!(!path.exists(), "{kind}");
    }
}

#[test]
fn a_rate_and_the_queue_of_a_law_hold_over_memory() {
    let (_responder, path, _directory) = responder("oracle:fixed:300");
    let report =
        load(Settings { rate: 1000.0, time_s: 0.5, queries: 0, drain_s: 60.0, ..over(&path) });
    assert_eq!(answered(&report), report.account.counts.offered);
    assert!(report.account.all().service.min().unwrap() >= 300_000, "the distribution holds");
}

#[test]
fn values_are_verified_over_memory() {
    // A responder answers with bytes of its own, which are none that were stored.
    let (_responder, path, _directory) = responder("null");
    let report = load(Settings { verify: true, ..over(&path) });
    assert_eq!(report.account.counts.verified, 1000);
    let corrupt = report.account.errors.count(keyrack_loadgen::target::ErrorClass::Corrupt);
    assert_eq!(corrupt, 1000, "{report:?}");
}

#[test]
fn a_responder_that_goes_is_named_and_one_that_comes_back_is_found() {
    for reconnect in [false, true] {
        let (responder, path, _directory) = responder("null");
        let stop = Arc::new(AtomicBool::new(false));
        let run = std::thread::spawn({
            let settings = Settings { time_s: 60.0, queries: 0, reconnect, ..over(&path) };
            let stop = Arc::clone(&stop);
            move || crate::support::try_load_until(settings, stop).unwrap()
        });
        patiently("the run is under way", || responder.counts().requests > 500);
        let before = responder.shutdown().unwrap().requests;
        let mut again = None;
        if reconnect {
            let settings = respond::Settings {
                endpoints: Vec::new(),
                shared: vec![path.clone()],
                ..respond::Settings::on_loopback(ResponderKind::Null)
            };
            let back = again.insert(Responder::start(&settings).unwrap());
            patiently("the run goes on", || back.counts().requests > 500);
            // Relaxed: the flag publishes nothing.
            stop.store(true, Ordering::Relaxed);
        }
        let report = run.join().unwrap();
        drop(again);
        let counts = &report.account.counts;
        assert_eq!((counts.broken, counts.reconnects), (1, u64::from(reconnect)), "{report:?}");
        let troubles = report.troubles.join("\n");
        assert!(troubles.contains("shm:") && troubles.contains("closed"), "{troubles}");
        // What was answered until then is there; the reply to the last may have been lost.
        assert!(counts.ops + 100 + 1 >= before, "{} of {before}", counts.ops);
    }
}

#[test]
fn nobody_at_the_path_is_an_error_with_the_path() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("none");
    let message = try_load(over(&path), None).unwrap_err().to_string();
    assert!(message.contains("shm:") && message.contains("cannot connect"), "{message}");
}

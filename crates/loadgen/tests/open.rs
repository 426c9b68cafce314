//! The open loop: what the rate called for is accounted for, also when the server stands still.

use crate::support::{Manners, Small, load, settings, try_load};
use keyrack_loadgen::account::Report;
use keyrack_loadgen::control::Ramp;
use keyrack_loadgen::plan::{Settings, Waiting};

const RATE: f64 = 2000.0;

fn open(address: &str, change: impl FnOnce(&mut Settings)) -> Report {
    let mut settings =
        Settings { rate: RATE, time_s: 1.0, queries: 0, drain_s: 5.0, ..settings(address) };
    change(&mut settings);
    load(settings)
}

#[test]
fn arrivals_follow_the_seed_not_the_server() {
    let offered = |depth: usize, waiting: Waiting| {
        let small = Small::start(Manners::default());
        let report = open(&small.address, |s| (s.depth, s.waiting) = (depth, waiting));
        let counts = &report.account.counts;
        assert_eq!(counts.ops + counts.unanswered + counts.unsent, counts.offered);
        assert_eq!(counts.unsent, 0);
        counts.offered
    };
    let first = offered(1, Waiting::Block);
    // Six standard deviations of a Poisson count.
    assert!((first as f64 - RATE).abs() < 6.0 * RATE.sqrt(), "{first}");
    assert_eq!(first, offered(64, Waiting::Block));
    assert_eq!(first, offered(4, Waiting::Adaptive));
}

/// A server stands still once, for a tenth of the run: a tenth of the requests wait, from nothing
/// to the whole length alike. So the 95th percentile is half of it and the 99th nine tenths,
/// whatever the depth; and the service time at depth 1 shows one slow request.
///
/// Less than that is wrong whatever happens. More is not: the machine may stand still as well.
#[test]
fn a_freeze_shows_in_response_times_as_theory_has_it() {
    const FREEZE_MS: u64 = 200;
    for depth in [1, 64] {
        let manners = Manners { freeze_at: Some((1000, FREEZE_MS)), ..Manners::default() };
        let small = Small::start(manners);
        let report = open(&small.address, |s| {
            (s.time_s, s.depth, s.connections) = (2.0, depth, 1);
            s.iadist = "fixed".to_owned();
        });
        let all = report.account.all();
        let ms = |ns: Option<u64>| ns.unwrap() as f64 / 1e6;
        let freeze_ms = FREEZE_MS as f64;
        let [p95, p99] = [95.0, 99.0].map(|p| ms(all.response.percentile(p)));
        assert!(p95 > 0.93 * 0.5 * freeze_ms, "depth {depth}: p95 {p95} ms");
        assert!(p99 > 0.93 * 0.9 * freeze_ms, "depth {depth}: p99 {p99} ms");
        // One request saw it, not a tenth of them.
        assert!(depth > 1 || ms(all.service.percentile(95.0)) < p95);
    }
}

#[test]
fn what_is_not_answered_is_counted_with_what_is_known() {
    let small = Small::start(Manners { freeze_at: Some((200, 60_000)), ..Manners::default() });
    let report = open(&small.address, |s| (s.drain_s, s.time_s, s.depth) = (1.5, 0.5, 4));
    let counts = &report.account.counts;
    assert_eq!(counts.ops, 199, "{report:?}");
    assert_eq!(counts.unanswered, 4);
    assert_eq!(counts.offered, counts.ops + counts.unanswered + counts.unsent);
    assert_eq!(counts.backlog, counts.unsent);
    let all = report.account.all();
    assert_eq!(all.response.count(), counts.offered, "nothing is left out");
    assert!(all.response.max().unwrap() >= 1_500_000_000, "as long as we waited");
}

#[test]
fn skipping_leaves_arrivals_out_and_says_so() {
    let small = Small::start(Manners { freeze_at: Some((200, 100)), ..Manners::default() });
    let report = open(&small.address, |s| s.skip = true);
    let counts = &report.account.counts;
    assert!(counts.skipped > 50, "{counts:?}");
    assert!(counts.ops + counts.skipped > 1700);
}

#[test]
fn the_warm_up_is_not_counted() {
    let small = Small::start(Manners::default());
    let report = open(&small.address, |s| (s.warmup_s, s.time_s) = (0.3, 0.3));
    let gets = small.shared.gets.load(std::sync::atomic::Ordering::Relaxed);
    let counts = &report.account.counts;
    assert!(counts.ops < gets, "{} of {gets}", counts.ops);
    assert!((counts.offered as f64) < 0.3 * RATE + 6.0 * (0.3 * RATE).sqrt());
}

#[test]
fn seconds_sum_to_the_whole() {
    let small = Small::start(Manners::default());
    let report = open(&small.address, |s| s.time_s = 1.5);
    assert_eq!(report.series.len(), 2, "{:?}", report.series);
    let ops: u64 = report.series.iter().map(|second| second.ops).sum();
    assert_eq!(ops, report.account.counts.ops);
}

#[test]
fn a_ramp_is_the_rate_and_its_end_the_end() {
    let small = Small::start(Manners::default());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("samples");
    let ramp = Ramp::parse("0,0\n1.2,2000\n").unwrap();
    for (connections, depth) in [(1, 1), (3, 16)] {
        let ramped = Settings {
            ramp: Some(ramp.clone()),
            time_s: 0.0,
            queries: 0,
            drain_s: 5.0,
            connections,
            depth,
            ..settings(&small.address)
        };
        let report = try_load(ramped, Some(&path)).unwrap();
        let counts = &report.account.counts;
        assert_eq!((report.window_s, report.offered_rate), (1.2, Some(1000.0)));
        // Six standard deviations of a Poisson count, here and below.
        assert!((counts.offered as f64 - 1200.0).abs() < 6.0 * 1200f64.sqrt(), "{counts:?}");
        assert_eq!((counts.ops, counts.unsent), (counts.offered, 0), "{counts:?}");
        // A quarter of all in the first half.
        let text = std::fs::read_to_string(&path).unwrap();
        let starts: Vec<f64> =
            text.lines().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
        let first = starts.iter().copied().fold(f64::MAX, f64::min);
        let early = starts.iter().filter(|start| **start < first + 0.6).count() as f64;
        assert!((early - 300.0).abs() < 6.0 * 300f64.sqrt() + 30.0, "{early} of {counts:?}");
        let offered = report.series.iter().map(|second| second.offered_per_s.unwrap());
        assert!(offered.is_sorted(), "{:?}", report.series);
    }
}

/// A server that stands still under a ramp: what was due meanwhile waits, and is in the account.
#[test]
fn a_ramp_leaves_nothing_out() {
    let small = Small::start(Manners { freeze_at: Some((100, 200)), ..Manners::default() });
    let ramp = Ramp::staircase("500:1500:500:0.2").unwrap();
    let report = open(&small.address, |s| {
        (s.rate, s.time_s, s.ramp) = (0.0, 0.0, Some(ramp));
        s.iadist = "fixed".to_owned();
    });
    let counts = &report.account.counts;
    assert_eq!((counts.offered, counts.ops), (600, 600), "{report:?}");
    let p90 = report.account.all().response.percentile(90.0).unwrap();
    assert!(p90 > 100_000_000, "those that waited count from when they were due: {p90} ns");
}

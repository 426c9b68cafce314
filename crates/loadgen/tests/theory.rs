//! What a run reports, against what must come out: the queue of an oracle, and a server that stands
//! still for a tenth of the time.
//!
//! Waiting times of a queue hang together, so a percentile needs many requests, and a processor
//! that nobody else uses. Both tests are short unless they are told otherwise; then they say how
//! close they came.
//!
//! | variable | |
//! |---|---|
//! | `KEYRACK_QUEUE_S=250` | each queue for so many seconds, slower, and within 3 % |
//! | `KEYRACK_FREEZE_S=10` | so long a run, a tenth of it frozen, and within 5 % |

use keyrack_loadgen::account::Report;
use keyrack_loadgen::plan::{Settings, Waiting};
use keyrack_loadgen::respond::{self, Manner, Responder, theory};
use tempfile::TempDir;

use crate::support::{Manners, Small, load, settings};

/// The seconds that a variable asks for.
fn seconds(name: &str) -> Option<f64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number of seconds"))
}

/// A percentile of the responses, in microseconds.
fn response_us(report: &Report, p: f64) -> f64 {
    report.account.all().response.percentile(p).unwrap() as f64 / 1e3
}

/// One server that serves one request after the other, half of the time: exponential service times,
/// and times that are all the same. Over shared memory, where the way costs next to nothing.
#[test]
fn percentiles_are_those_of_the_queue_in_front_of_an_oracle() {
    let asked_s = seconds("KEYRACK_QUEUE_S");
    // What the machine adds does not grow with it.
    let service_us: f64 = if asked_s.is_some() { 1000.0 } else { 500.0 };
    let rate_per_us = 0.5 / service_us;
    type Theory<'a> = &'a dyn Fn(f64) -> f64;
    let cases: [(String, Theory<'_>); 2] = [
        (format!("oracle:exponential:{}", 1.0 / service_us), &|q| {
            theory::mm1_response(rate_per_us, 1.0 / service_us, q)
        }),
        (format!("oracle:fixed:{service_us}"), &|q| {
            theory::md1_response(rate_per_us, service_us, q)
        }),
    ];
    for (manner, expected) in cases {
        let mut worst: f64 = 0.0;
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("shm");
        let _responder = Responder::start(&respond::Settings {
            endpoints: Vec::new(),
            shared: vec![path.clone()],
            ..respond::Settings::on_loopback(Manner::parse(&manner).unwrap())
        })
        .unwrap();
        let report = load(Settings {
            rate: rate_per_us * 1e6,
            time_s: asked_s.unwrap_or(0.5),
            queries: 0,
            depth: 4096,
            waiting: Waiting::Spin,
            drain_s: 60.0,
            ..settings(&format!("shm:{}", path.display()))
        });
        let counts = &report.account.counts;
        assert_eq!((counts.ops, counts.unsent), (counts.offered, 0), "{manner}");
        for p in [50.0, 90.0, 99.0] {
            let (found, expected) = (response_us(&report, p), expected(p / 100.0));
            let off = 100.0 * (found / expected - 1.0);
            println!("{manner} p{p}: {found:.0} us, in theory {expected:.0}: {off:+.2} %");
            // Few requests say little; a machine that stands still says too much.
            assert!(asked_s.is_some() || found > 0.5 * expected, "{manner} p{p}: {found} us");
            worst = worst.max(off.abs());
        }
        assert!(asked_s.is_none() || worst < 3.0, "{manner}: {worst} %");
    }
}

/// A server stands still once, for a tenth of the run: a tenth of the requests wait, from nothing
/// to the whole length alike. So the 95th percentile is half of it and the 99th nine tenths,
/// whatever the depth.
#[test]
fn a_freeze_of_a_tenth_is_in_the_percentiles_whatever_the_depth() {
    const RATE: f64 = 1000.0;
    let asked_s = seconds("KEYRACK_FREEZE_S");
    let time_s = asked_s.unwrap_or(1.0);
    for depth in [1, 64] {
        let freeze_ms = (time_s * 100.0) as u64;
        // Half-way.
        let freeze_at = Some(((RATE * time_s / 2.0) as u64, freeze_ms));
        let small = Small::start(Manners { freeze_at, ..Manners::default() });
        let report = load(Settings {
            rate: RATE,
            time_s,
            queries: 0,
            depth,
            drain_s: 60.0,
            iadist: "fixed".to_owned(),
            ..settings(&small.address)
        });
        for (p, share) in [(95.0, 0.5), (99.0, 0.9)] {
            let found = response_us(&report, p) / 1e3;
            let expected = share * freeze_ms as f64;
            let off = 100.0 * (found / expected - 1.0);
            println!("depth {depth} p{p}: {found:.1} ms, in theory {expected:.1}: {off:+.2} %");
            // Less than that is wrong whatever happens; more is not.
            assert!(off > -7.0, "depth {depth} p{p}: {found} ms");
            assert!(asked_s.is_none() || off.abs() < 5.0, "depth {depth} p{p}: {off} %");
        }
    }
}

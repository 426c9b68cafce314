//! What a run reports, against what must come out: the queue of an oracle, and a server that stands
//! still for a tenth of the time.
//!
//! Waiting times of a queue hang together, so a percentile needs many requests. Both tests are
//! short unless they are told otherwise; then they say how close they came.
//!
//! | variable | |
//! |---|---|
//! | `KEYRACK_QUEUE_S=250` | the queues for so many seconds, more and slower ones, and within 3 % |
//! | `KEYRACK_FREEZE_S=10` | so long a run, a tenth of it frozen, and within 5 % |

use keyrack_loadgen::account::Report;
use keyrack_loadgen::plan::{Loading, Settings};
use keyrack_loadgen::respond::{self, Responder, ResponderKind, theory};

use crate::support::{Manners, Small, load, settings};

/// The seconds that a variable asks for.
fn seconds(name: &str) -> Option<f64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number of seconds"))
}

/// A percentile of the responses, in microseconds.
fn response_us(report: &Report, p: f64) -> f64 {
    report.account.all().response.percentile(p).unwrap() as f64 / 1e3
}

/// Servers that serve one request after the other: exponential service times, and times that are
/// all the same. Each has a queue and a connection of its own, so that many requests are seen
/// although each takes long, next to what a machine with two processors adds to one.
#[test]
fn percentiles_are_those_of_the_queue_in_front_of_an_oracle() {
    let asked_s = seconds("KEYRACK_QUEUE_S");
    let (queues, service_us) = if asked_s.is_some() { (32, 20_000.0) } else { (4, 2000.0) };
    type Theory = fn(f64, f64, f64) -> f64;
    let cases: [(String, f64, Theory); 2] = [
        (format!("oracle:exponential:{}", 1.0 / service_us), 0.5, |rate, service, q| {
            theory::mm1_response(rate, 1.0 / service, q)
        }),
        // Half loaded, half of the requests would not wait: the 50th percentile would lie where the
        // distribution jumps.
        (format!("oracle:fixed:{service_us}"), 0.6, theory::md1_response),
    ];
    for (kind, busy, expected) in cases {
        let rate_per_us = busy / service_us;
        let mut worst: f64 = 0.0;
        let responders: Vec<Responder> = (0..queues)
            .map(|seed| {
                let kind = ResponderKind::parse(&kind).unwrap();
                let settings = respond::Settings { seed, ..respond::Settings::on_loopback(kind) };
                Responder::start(&settings).unwrap()
            })
            .collect();
        let servers = responders.iter().map(|responder| responder.addresses()[0].to_string());
        let report = load(Settings {
            servers: servers.collect(),
            rate: rate_per_us * 1e6 * queues as f64,
            time_s: asked_s.unwrap_or(0.5),
            queries: 0,
            depth: 4096,
            loading: Loading::No,
            drain_s: 60.0,
            ..settings("")
        });
        let counts = &report.account.counts;
        assert_eq!((counts.ops, counts.unsent), (counts.offered, 0), "{kind}");
        println!("{kind}: {} requests", counts.ops);
        for p in [50.0, 90.0, 99.0] {
            let (found, expected) =
                (response_us(&report, p), expected(rate_per_us, service_us, p / 100.0));
            let off = 100.0 * (found / expected - 1.0);
            println!("{kind} p{p}: {found:.0} us, in theory {expected:.0}: {off:+.2} %");
            // Few requests say little; a machine that stands still says too much.
            assert!(asked_s.is_some() || found > 0.5 * expected, "{kind} p{p}: {found} us");
            worst = worst.max(off.abs());
        }
        assert!(asked_s.is_none() || worst < 3.0, "{kind}: {worst} %");
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

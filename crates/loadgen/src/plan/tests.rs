//! Contradictions, and who has which part.

use super::*;
use crate::control::Ramp;
use crate::route::Sharding;
use crate::target::{Credentials, Protocol};
use keyrack_vfs::MemFs;

fn settings() -> Settings {
    Settings { servers: vec!["127.0.0.1:1".to_owned()], ..Settings::default() }
}

fn plan(change: impl FnOnce(&mut Settings)) -> Result<Plan> {
    let mut settings = settings();
    change(&mut settings);
    Plan::new(settings, &MemFs::new())
}

fn ramp(text: &str) -> Option<Ramp> {
    Some(Ramp::parse(text).unwrap())
}

#[test]
fn contradictions_are_named() {
    type Change = fn(&mut Settings);
    let cases: [(Change, &str); 26] = [
        (|s| s.servers.clear(), "--server"),
        (|s| s.threads = 0, "--threads"),
        (|s| s.connections = 513, "--connections"),
        (|s| s.depth = 0, "--depth"),
        (|s| s.time_s = 0.0, "--time"),
        (|s| s.time_s = f64::NAN, "--time"),
        (|s| s.rate = -1.0, "--qps"),
        (|s| s.update = 1.5, "--update"),
        (|s| s.records = 0, "--records"),
        (|s| s.keysize = "251".to_owned(), "250"),
        (|s| s.valuesize = "sometimes".to_owned(), "--valuesize"),
        (|s| s.iadist = "sometimes".to_owned(), "--iadist"),
        (|s| s.assoc = Some(4), "--redis"),
        (|s| s.delete90 = true, "--getset"),
        (|s| s.skip = true, "--qps"),
        (|s| s.prefix = "a b".to_owned(), "prefix"),
        (|s| s.sharding = Sharding::Cluster, "--cluster needs --redis"),
        (|s| s.sharding = Sharding::Tiers, "--tier needs two servers, and there are 1"),
        (|s| (s.sharding, s.roundrobin) = (Sharding::Ketama, true), "--shard and --roundrobin"),
        (|s| (s.sharding, s.mget) = (Sharding::Modula, 2), "--shard and --mget"),
        (
            |s| {
                s.sharding = Sharding::Tiers;
                s.servers.push("127.0.0.1:2".to_owned());
            },
            "--getset",
        ),
        (|s| (s.ramp, s.rate) = (ramp("0,1"), 1.0), "--ramp and --qps"),
        (|s| (s.ramp, s.time_s) = (ramp("0,1"), 0.0), "--time"),
        (|s| (s.ramp, s.time_s) = (ramp("0,0\n9,0\n10,1"), 8.0), "no request is due"),
        (|s| s.prefix = "x".repeat(250), "--prefix included"),
        (
            |s| {
                s.credentials = Some(Credentials { user: String::new(), password: "x".to_owned() });
            },
            "--username",
        ),
    ];
    for (change, word) in cases {
        let message = plan(change).expect_err(word).to_string();
        assert!(message.contains(word), "no {word:?} in {message:?}");
        assert_eq!(message.lines().count(), 1, "{message:?}");
    }
    assert!(plan(|s| s.time_s = 0.5).is_ok(), "fractions of a second are a time");
    assert!(plan(|s| s.iadist = "exponential".to_owned()).is_ok());
    let redis = |s: &mut Settings| {
        s.protocol = Protocol::Resp2;
        s.keysize = "251".to_owned();
    };
    assert!(plan(redis).is_ok(), "Redis takes longer keys");
}

#[test]
fn servers_are_dealt_to_threads() {
    let dealt = |servers: usize, threads: usize, roundrobin: bool| {
        let plan = plan(|s| {
            s.servers = (1..=servers).map(|port| format!("127.0.0.1:{port}")).collect();
            (s.threads, s.roundrobin) = (threads, roundrobin);
        })
        .unwrap();
        (0..threads).map(|thread| plan.servers_of(thread)).collect::<Vec<_>>()
    };
    assert_eq!(dealt(2, 2, false), [[0, 1], [0, 1]]);
    assert_eq!(dealt(3, 2, true), [vec![0, 2], vec![1]]);
    assert_eq!(dealt(2, 2, true), [[0], [1]]);
    assert_eq!(dealt(2, 3, true), [[0], [1], [0]]);
}

#[test]
fn each_record_of_a_server_has_one_thread() {
    for (servers, threads, roundrobin) in [(1, 3, false), (2, 3, true), (3, 2, true), (2, 2, false)]
    {
        let plan = plan(|s| {
            s.servers = (1..=servers).map(|port| format!("127.0.0.1:{port}")).collect();
            (s.threads, s.roundrobin) = (threads, roundrobin);
        })
        .unwrap();
        for server in 0..servers {
            let mut owners = vec![0; 100];
            for thread in (0..threads).filter(|thread| plan.servers_of(*thread).contains(&server)) {
                let (first, step) = plan.place_at(thread, server);
                (first..100).step_by(step as usize).for_each(|record| owners[record as usize] += 1);
            }
            assert!(owners.iter().all(|count| *count == 1), "server {server}: {owners:?}");
        }
    }
}

#[test]
fn shared_keys_have_one_stream_of_requests_a_client() {
    let two = |sharding: Sharding| {
        plan(|s| {
            s.servers.push("127.0.0.1:2".to_owned());
            (s.sharding, s.threads, s.connections, s.records) = (sharding, 2, 3, 1001);
        })
        .unwrap()
    };
    let apart = two(Sharding::None);
    assert_eq!((apart.sources(), apart.records, apart.records_total()), (12, 500, 1000));
    let shared = two(Sharding::Ketama);
    assert_eq!((shared.sources(), shared.records, shared.records_total()), (6, 1001, 1001));
}

#[test]
fn a_ramp_says_how_long_and_how_much() {
    let ramped = |time_s: f64| {
        let plan = plan(|s| (s.ramp, s.time_s) = (ramp("0,100\n10,300"), time_s)).unwrap();
        (plan.settings.time_s, plan.settings.rate)
    };
    assert_eq!(ramped(0.0), (10.0, 200.0));
    assert_eq!(ramped(5.0), (5.0, 150.0));
    assert_eq!(ramped(20.0), (20.0, 250.0), "the last rate holds on");
}

#[test]
fn a_number_of_requests_is_shared_without_rest() {
    for (queries, threads) in [(1, 3), (10, 3), (7, 7), (100, 1)] {
        let plan = plan(|s| (s.queries, s.threads) = (queries, threads)).unwrap();
        let sum: u64 = (0..threads).filter_map(|thread| plan.budget_of(thread)).sum();
        assert_eq!(sum, queries);
    }
    assert_eq!(plan(|_| ()).unwrap().budget_of(0), None);
}

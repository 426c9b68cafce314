//! Servers that share the keys: each key has one server, whoever asks.

use std::sync::atomic::Ordering;

use crate::support::{Manners, Small, load, settings};
use keyrack_loadgen::plan::{Filling, Settings};
use keyrack_loadgen::route::Sharding;

fn three() -> [Small; 3] {
    std::array::from_fn(|_| Small::start(Manners::default()))
}

fn over(smalls: &[Small], sharding: Sharding) -> Settings {
    let servers = smalls.iter().map(|small| small.address.clone()).collect();
    Settings { servers, sharding, records: 300, ..settings("") }
}

#[test]
fn each_record_is_on_one_server_and_found_there() {
    for sharding in [Sharding::Ketama, Sharding::Modula] {
        for (threads, connections, depth) in [(1, 1, 1), (2, 3, 8)] {
            let smalls = three();
            let base = Settings { threads, connections, depth, ..over(&smalls, sharding) };
            let report = load(Settings { update: 0.1, ..base });
            let counts = &report.account.counts;
            let told = format!("{sharding:?} -T {threads} -c {connections} -d {depth}: {report:?}");
            assert_eq!(report.loaded, 300, "{told}");
            assert_eq!((counts.ops, counts.misses), (1000, 0), "{told}");
            assert_eq!(report.account.errors.total(), 0, "{told}");
            let held = smalls.each_ref().map(|small| small.shared.data.lock().unwrap().len());
            assert_eq!(held.iter().sum::<usize>(), 300, "{told}");
            assert!(held.iter().all(|records| *records > 50), "{held:?}");
            let asked = smalls.each_ref().map(|small| small.shared.gets.load(Ordering::Relaxed));
            assert!(asked.iter().all(|gets| *gets > 100), "{asked:?}");
        }
    }
}

/// A popular key makes its server busy: that is what sharding is measured for.
#[test]
fn popularity_is_of_keys_and_not_of_servers() {
    let smalls = three();
    let hot = "hotspot:0.003,1".to_owned();
    let report = load(Settings { popularity: hot, depth: 4, ..over(&smalls, Sharding::Ketama) });
    assert_eq!(report.account.counts.misses, 0, "{report:?}");
    let asked = smalls.each_ref().map(|small| small.shared.gets.load(Ordering::Relaxed));
    assert_eq!(asked.iter().filter(|gets| **gets > 0).count(), 1, "{asked:?}");
}

#[test]
fn a_rate_is_that_of_all_servers_together() {
    let smalls = three();
    let report = load(Settings {
        rate: 2000.0,
        time_s: 0.5,
        queries: 0,
        connections: 2,
        drain_s: 5.0,
        filling: Filling::GetSet,
        prefix: "tenant:".to_owned(),
        ..over(&smalls, Sharding::Modula)
    });
    let counts = &report.account.counts;
    // Six standard deviations of a Poisson count.
    assert!((counts.offered as f64 - 1000.0).abs() < 6.0 * 1000f64.sqrt(), "{counts:?}");
    assert_eq!(counts.ops, counts.offered, "{counts:?}");
    assert_eq!((counts.misses, counts.unsent), (0, 0));
}

/// Behind a server that stands still, requests for the others go on under a rate: each waits at its
/// own server's connection, and all are in the account.
#[test]
fn a_shard_that_stands_still_holds_only_its_own_requests() {
    let freeze = Manners { freeze_at: Some((1, 60_000)), ..Manners::default() };
    let smalls = [Small::start(Manners::default()), Small::start(freeze)];
    let report = load(Settings {
        rate: 1000.0,
        time_s: 0.3,
        queries: 0,
        drain_s: 1.0,
        ..over(&smalls, Sharding::Ketama)
    });
    let counts = &report.account.counts;
    assert_eq!(counts.offered, counts.ops + counts.unanswered + counts.unsent, "{counts:?}");
    assert_eq!(counts.unanswered, 1, "{counts:?}");
    assert!(counts.ops > 80 && counts.unsent > 80, "about half each: {counts:?}");
    assert_eq!(report.account.all().response.count(), counts.offered, "nothing is left out");
    assert!(counts.backlog > 80, "{counts:?}");
}

#[test]
fn a_shard_that_dies_is_named_and_its_requests_are_counted() {
    let dying = Manners { close_after: Some(50), ..Manners::default() };
    let smalls = [Small::start(Manners::default()), Small::start(dying)];
    let report = load(Settings { depth: 2, ..over(&smalls, Sharding::Modula) });
    let counts = &report.account.counts;
    let errors = report.account.errors.total();
    assert_eq!(counts.offered, 1000, "{report:?}");
    assert_eq!(counts.ops + counts.unsent + errors, 1000, "{report:?}");
    assert!(report.troubles[0].contains(&smalls[1].address), "{:?}", report.troubles);
    assert!(counts.ops > 300, "the other goes on: {counts:?}");

    let smalls = [
        Small::start(Manners::default()),
        Small::start(Manners { close_after: Some(50), ..Manners::default() }),
    ];
    let report = load(Settings { reconnect: true, ..over(&smalls, Sharding::Modula) });
    let counts = &report.account.counts;
    assert_eq!((counts.reconnects, counts.unsent), (1, 0), "{report:?}");
    assert_eq!(counts.ops, 999, "{report:?}");
}

#[test]
fn nine_tenths_of_shards_are_removed() {
    let smalls = three();
    let report = load(Settings {
        filling: Filling::GetSet,
        delete90: true,
        threads: 2,
        connections: 2,
        records: 3000,
        ..over(&smalls, Sharding::Ketama)
    });
    let purged = report.account.counts.purged;
    assert!(purged.abs_diff(2700) < 110, "removed {purged}");
    let deletes: u64 =
        smalls.iter().map(|small| small.shared.deletes.load(Ordering::Relaxed)).sum();
    assert_eq!(deletes, purged);
}

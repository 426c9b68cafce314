//! Two servers as tiers: a cache in front of a cache.

use std::sync::atomic::Ordering;

use crate::support::{Manners, Real, Small, load, settings};
use keyrack_loadgen::plan::{Filling, Loading, Settings};
use keyrack_loadgen::route::Sharding;

fn over(first: &str, second: &str) -> Settings {
    Settings {
        servers: vec![first.to_owned(), second.to_owned()],
        sharding: Sharding::Tiers,
        filling: Filling::GetSetOrSet,
        ..settings("")
    }
}

#[test]
fn what_the_first_tier_misses_is_found_in_the_second_and_copied() {
    for (depth, connections) in [(1, 1), (4, 2)] {
        let (first, second) = (Small::start(Manners::default()), Small::start(Manners::default()));
        let report = load(Settings { depth, connections, ..over(&first.address, &second.address) });
        let counts = &report.account.counts;
        assert_eq!(report.account.errors.total(), 0, "{report:?}");
        // Loaded into the second alone.
        assert_eq!((report.loaded, counts.ops, counts.misses), (100, 1000, 0), "{report:?}");
        let gets = |small: &Small| small.shared.gets.load(Ordering::Relaxed);
        let sets = |small: &Small| small.shared.sets.load(Ordering::Relaxed);
        assert_eq!((gets(&first), gets(&second)), (1000, counts.tier_misses));
        assert_eq!((sets(&first), sets(&second)), (counts.copies, 100));
        assert_eq!(counts.copies, counts.tier_misses, "each was copied");
        // Once a key, and again where a lookup of it was under way before the copy.
        assert!(counts.tier_misses >= 95, "{counts:?}");
        assert_eq!(report.account.all().response.count(), 1000, "a lookup has one latency");
        let loading = Loading::No;
        let again =
            Settings { depth, connections, loading, ..over(&first.address, &second.address) };
        let again = load(again).account.counts;
        // All but those that were never asked for are in the first tier now.
        assert!(again.tier_misses <= 5 && again.misses == 0, "{again:?}");
    }
}

#[test]
fn what_both_miss_is_stored_in_both_and_stores_go_through() {
    let (first, second) = (Small::start(Manners::default()), Small::start(Manners::default()));
    let cold = Loading::No;
    let report =
        load(Settings { loading: cold, update: 0.3, ..over(&first.address, &second.address) });
    let counts = &report.account.counts;
    assert_eq!(counts.fills, counts.misses, "{counts:?}");
    assert!(counts.tier_misses >= counts.misses, "{counts:?}");
    let direct = counts.sets - counts.fills;
    assert_eq!(counts.copies, counts.tier_misses + direct, "{counts:?}");
    let held = |small: &Small| {
        let data = small.shared.data.lock().unwrap();
        let mut keys: Vec<Vec<u8>> = data.keys().cloned().collect();
        keys.sort();
        keys
    };
    assert_eq!(held(&first), held(&second));
}

/// The first tier is too small: it drops records, without a word, and they are found again.
#[test]
fn a_small_memcached_before_a_large_one() {
    let (Some(first), Some(second)) =
        (Real::memcached(&["-m", "1", "-I", "512k"]), Real::memcached(&[]))
    else {
        return;
    };
    let report = load(Settings {
        valuesize: "10000".to_owned(),
        records: 1500,
        queries: 4000,
        depth: 4,
        verify: true,
        ..over(&first.address, &second.address)
    });
    let counts = &report.account.counts;
    assert_eq!((report.account.errors.total(), counts.misses), (0, 0), "{report:?}");
    assert!(counts.tier_misses > 1500, "more than once a record: {counts:?}");
    assert_eq!(counts.verified, counts.gets, "{counts:?}");
}

#[test]
fn a_rate_over_two_tiers_is_served_whole() {
    let (first, second) = (Small::start(Manners::default()), Small::start(Manners::default()));
    let report = load(Settings {
        rate: 1000.0,
        time_s: 0.3,
        queries: 0,
        drain_s: 5.0,
        ..over(&first.address, &second.address)
    });
    let counts = &report.account.counts;
    assert_eq!((counts.ops, counts.misses), (counts.offered, 0), "{counts:?}");
    assert_eq!((counts.unsent, counts.unanswered), (0, 0));
    assert_eq!(report.account.all().response.count(), counts.offered);
}

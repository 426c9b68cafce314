//! The closed loop: as many requests under way as allowed, and every one accounted for.

use std::sync::atomic::Ordering;

use crate::support::{Manners, Small, load, load_seen, settings, try_load};
use keyrack_loadgen::plan::{Filling, Loading, Settings};
use keyrack_loadgen::target::{Class, ErrorClass};

#[test]
fn every_request_is_made_and_counted_once() {
    for (threads, connections, depth, queries) in
        [(1, 1, 1, 1), (1, 1, 16, 1000), (2, 3, 4, 1001), (2, 2, 64, 5), (3, 1, 1, 2)]
    {
        let small = Small::start(Manners::default());
        let report = load(Settings {
            threads,
            connections,
            depth,
            queries,
            update: 0.25,
            ..settings(&small.address)
        });
        let counts = &report.account.counts;
        let told = format!("-T {threads} -c {connections} -d {depth} -N {queries}: {report:?}");
        assert_eq!(counts.offered, queries, "{told}");
        assert_eq!(counts.ops, queries, "{told}");
        assert_eq!(counts.gets + counts.sets, queries, "{told}");
        assert_eq!((counts.misses, report.account.errors.total()), (0, 0), "{told}");
        assert_eq!(small.shared.gets.load(Ordering::Relaxed), counts.gets, "{told}");
        // The loader writes each record once, whoever many threads there are.
        assert_eq!(small.shared.sets.load(Ordering::Relaxed), counts.sets + 100, "{told}");
        assert_eq!(report.loaded, 100);
        let all = report.account.all();
        assert_eq!(all.response.count(), queries);
        assert!(report.account.depth.max().unwrap() <= depth as u64);
        assert!(report.rate() > 0.0 && report.window_s > 0.0);
    }
}

#[test]
fn what_is_seen_while_it_goes_on_ends_with_nothing_under_way() {
    for close_after in [None, Some(500)] {
        let small = Small::start(Manners { close_after, ..Manners::default() });
        let (report, seen) = load_seen(Settings {
            threads: 2,
            depth: 16,
            queries: 2000,
            update: 0.25,
            ..settings(&small.address)
        });
        let told = format!("close_after {close_after:?}: {report:?}");
        assert_eq!(seen.outstanding, 0, "{told}");
        assert_eq!(seen.ops, report.account.counts.ops, "{told}");
        for class in Class::ALL {
            let latency = &seen.classes[class as usize];
            assert_eq!(latency.count(), report.account.tally(class).response.count(), "{told}");
        }
        assert_eq!(seen.latency.count(), seen.ops, "{told}");
        assert_eq!(close_after.is_some(), seen.errors > 0, "{told}");
    }
}

#[test]
fn updates_have_their_share() {
    let small = Small::start(Manners::default());
    let run = |update: f64| {
        let report = load(Settings {
            update,
            queries: 4000,
            depth: 32,
            loading: Loading::No,
            ..settings(&small.address)
        });
        report.account.counts.sets
    };
    assert_eq!(run(0.0), 0);
    assert_eq!(run(1.0), 4000);
    // Six standard deviations of a binomial count around its mean.
    assert!(run(0.5).abs_diff(2000) < 190);
}

#[test]
fn the_same_seed_makes_the_same_requests() {
    let keys = |seed: u64| {
        let small = Small::start(Manners::default());
        let misses = Settings {
            seed,
            filling: Filling::GetSet,
            loading: Loading::No,
            queries: 50,
            records: 1000,
            ..settings(&small.address)
        };
        load(misses);
        let data = small.shared.data.lock().unwrap();
        let mut keys: Vec<Vec<u8>> = data.keys().cloned().collect();
        keys.sort();
        keys
    };
    assert_eq!(keys(7), keys(7));
    assert_ne!(keys(7), keys(8));
}

#[test]
fn misses_are_filled_with_the_size_that_was_drawn() {
    let small = Small::start(Manners::default());
    let report = load(Settings {
        filling: Filling::GetSet,
        loading: Loading::No,
        valuesize: "77".to_owned(),
        prefix: "tenant:".to_owned(),
        records: 50,
        depth: 4,
        misswindow: 100,
        ..settings(&small.address)
    });
    let counts = &report.account.counts;
    assert_eq!(counts.gets, 1000);
    assert!(counts.misses >= 50, "each record missed at least once: {counts:?}");
    assert_eq!(counts.fills, counts.misses);
    assert_eq!(counts.ops, counts.gets + counts.fills);
    let data = small.shared.data.lock().unwrap();
    assert_eq!(data.len(), 50);
    assert!(data.iter().all(|(key, value)| key.starts_with(b"tenant:") && value.len() == 77));
    let (gets, misses) = report
        .windows
        .iter()
        .fold((0, 0), |(gets, misses), window| (gets + window.gets, misses + window.misses));
    assert_eq!((gets, misses), (counts.gets, counts.misses), "windows sum to the whole");
    assert_eq!(report.windows.len(), 10);
    assert_eq!(report.windows.last().unwrap().gets_so_far, 1000);
}

#[test]
fn successes_alone_can_be_recorded() {
    let small = Small::start(Manners::default());
    let report = load(Settings {
        successful: true,
        loading: Loading::No,
        update: 0.5,
        records: 400,
        ..settings(&small.address)
    });
    let counts = &report.account.counts;
    assert!(counts.misses > 0);
    assert_eq!(counts.ops, 1000 - counts.misses);
    assert_eq!(report.account.tally(Class::Read).response.count(), counts.gets - counts.misses);
}

#[test]
fn nine_tenths_are_removed_half_way() {
    let small = Small::start(Manners::default());
    small.shared.data.lock().unwrap().insert(b"other".to_vec(), b"stays".to_vec());
    let report = load(Settings {
        filling: Filling::GetSet,
        delete90: true,
        connections: 3,
        threads: 2,
        records: 5000,
        queries: 2000,
        depth: 8,
        ..settings(&small.address)
    });
    let counts = &report.account.counts;
    assert!(counts.purged.abs_diff(4500) < 130, "removed {}", counts.purged);
    // What had just been written again, or not yet removed, may differ between the two counts.
    assert_eq!(small.shared.deletes.load(Ordering::Relaxed), counts.purged);
    assert!(small.shared.data.lock().unwrap().contains_key(b"other".as_slice()));
    assert_eq!(counts.ops, counts.gets + counts.fills, "removals are not operations");
    assert!(counts.misses > 500, "misses afterwards: {}", counts.misses);
}

#[test]
fn many_keys_in_one_lookup() {
    let small = Small::start(Manners::default());
    let report = load(Settings { mget: 10, queries: 100, records: 50, ..settings(&small.address) });
    let counts = &report.account.counts;
    assert_eq!((counts.ops, counts.gets, counts.misses), (100, 1000, 0));
}

#[test]
fn values_are_verified() {
    let small = Small::start(Manners::default());
    let checked = Settings { verify: true, ..settings(&small.address) };
    let report = load(checked.clone());
    assert_eq!(report.account.counts.verified, 1000);
    assert_eq!(report.account.errors.total(), 0, "{report:?}");
    for value in small.shared.data.lock().unwrap().values_mut() {
        value[150] ^= 1;
    }
    let report = load(Settings { loading: Loading::No, ..checked });
    assert_eq!(report.account.errors.count(ErrorClass::Corrupt), 1000);
}

#[test]
fn several_servers_have_their_parts() {
    for roundrobin in [false, true] {
        let smalls = [Small::start(Manners::default()), Small::start(Manners::default())];
        let report = load(Settings {
            servers: smalls.iter().map(|small| small.address.clone()).collect(),
            roundrobin,
            threads: 3,
            records: 200,
            ..settings("")
        });
        assert_eq!(report.loaded, 200);
        assert_eq!(report.account.counts.misses, 0);
        for small in &smalls {
            assert_eq!(small.shared.sets.load(Ordering::Relaxed), 100, "each record once");
            assert!(small.shared.gets.load(Ordering::Relaxed) > 0);
        }
    }
}

#[test]
fn replies_in_single_bytes_are_replies() {
    let small = Small::start(Manners { drips: true, ..Manners::default() });
    let report = load(Settings {
        depth: 8,
        queries: 60,
        verify: true,
        records: 10,
        valuesize: "40".to_owned(),
        ..settings(&small.address)
    });
    let counts = &report.account.counts;
    assert_eq!((counts.ops, counts.misses, counts.verified), (60, 0, 60));
}

#[test]
fn large_values_pass_both_ways() {
    let small = Small::start(Manners::default());
    for verify in [false, true] {
        let report = load(Settings {
            valuesize: "1500000".to_owned(),
            records: 3,
            queries: 20,
            update: 0.5,
            depth: 4,
            verify,
            ..settings(&small.address)
        });
        let counts = &report.account.counts;
        assert_eq!((counts.ops, counts.misses, report.account.errors.total()), (20, 0, 0));
        assert!(counts.received_bytes > counts.gets * 1_500_000);
    }
}

#[test]
fn a_server_that_closes_is_named_and_counted() {
    let small = Small::start(Manners { close_after: Some(300), ..Manners::default() });
    let report = load(Settings { depth: 4, ..settings(&small.address) });
    assert_eq!(report.account.errors.count(ErrorClass::Closed), 4, "{report:?}");
    assert_eq!(report.account.counts.broken, 1);
    assert!(report.account.counts.ops >= 296, "what was measured is kept");
    assert!(report.troubles[0].contains(&small.address), "{:?}", report.troubles);

    let again = load(Settings { reconnect: true, ..settings(&small.address) });
    assert_eq!(again.account.counts.ops, 1000, "no more than one close: {again:?}");
}

#[test]
fn a_broken_connection_is_made_again() {
    let small = Small::start(Manners { close_after: Some(300), ..Manners::default() });
    let report = load(Settings { reconnect: true, depth: 4, ..settings(&small.address) });
    let counts = &report.account.counts;
    assert_eq!((counts.broken, counts.reconnects), (1, 1), "{report:?}");
    assert_eq!(counts.offered, 1000);
    assert_eq!(counts.ops, 996, "what was under way is lost");
}

#[test]
fn other_protocols_are_named() {
    for manners in [
        Manners { garbage_at: Some(5), ..Manners::default() },
        Manners { has_banner: true, ..Manners::default() },
    ] {
        let small = Small::start(manners);
        let report = load(Settings { loading: Loading::No, ..settings(&small.address) });
        assert!(report.account.errors.count(ErrorClass::Protocol) >= 1, "{report:?}");
        assert!(report.troubles[0].contains("does not speak memcached"), "{:?}", report.troubles);
    }
}

#[test]
fn nobody_there_is_an_error_with_the_address() {
    let error = try_load(settings("127.0.0.1:1"), None).unwrap_err().to_string();
    assert!(error.contains("127.0.0.1:1") && error.contains("refused"), "{error}");
}

#[test]
fn samples_are_written_for_each_lookup() {
    let small = Small::start(Manners::default());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("samples");
    let report = try_load(
        Settings { update: 0.3, queries: 10_000, depth: 32, ..settings(&small.address) },
        Some(&path),
    )
    .unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count() as u64, report.account.counts.gets);
    let sum_us: f64 =
        text.lines().map(|line| line.split(' ').nth(1).unwrap().parse::<f64>().unwrap()).sum();
    let response = &report.account.tally(Class::Read).response;
    assert!((sum_us * 1e3 / response.sum() as f64 - 1.0).abs() < 1e-3);
}

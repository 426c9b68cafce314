//! Requests out of files.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;

use crate::support::{Manners, Real, Small, load, settings, try_load};
use keyrack_loadgen::plan::{Filling, Loading, Settings, TraceFile};
use keyrack_loadgen::route::Sharding;
use keyrack_loadgen::target::{Class, Protocol};
use keyrack_loadgen::trace::Format;
use keyrack_vfs::RealFs;
use tempfile::TempDir;

fn file(dir: &TempDir, text: &str) -> PathBuf {
    let path = dir.path().join("trace.csv");
    std::fs::write(&path, text).unwrap();
    path
}

fn traced(address: &str, path: PathBuf, format: Format) -> Settings {
    let trace = TraceFile { fs: Arc::new(RealFs), path, format, speed: None, is_loop: false };
    Settings {
        trace: Some(trace),
        queries: 0,
        loading: Loading::No,
        connections: 2,
        threads: 2,
        ..settings(address)
    }
}

#[test]
fn every_row_is_a_request_and_the_end_ends_it() {
    let dir = TempDir::new().unwrap();
    let mut text = String::new();
    for row in 0..600 {
        let op = if row % 3 == 0 { 2 } else { 1 };
        writeln!(text, "{row},0,{op},key{},{}", row % 50, 10 + row % 7).unwrap();
    }
    let path = file(&dir, &text);
    let small = Small::start(Manners::default());
    let settings = traced(&small.address, path, Format::Numbers);
    let report = load(Settings { depth: 4, ..settings.clone() });
    let counts = &report.account.counts;
    assert_eq!((counts.gets, counts.sets, counts.ops), (400, 200, 600), "{report:?}");
    // Requests for a key keep their order: each value has the size of the last row that wrote it.
    let data = small.shared.data.lock().unwrap();
    for (key, value) in data.iter() {
        let number: usize = std::str::from_utf8(&key[3..]).unwrap().parse().unwrap();
        let last = (0..600).rev().find(|row| row % 50 == number && row % 3 == 0).unwrap();
        assert_eq!(value.len(), 10 + last % 7, "key{number}");
    }
    drop(data);
    small.shared.data.lock().unwrap().clear();
    let filled = load(Settings { filling: Filling::GetSet, ..settings });
    let counts = &filled.account.counts;
    assert_eq!((counts.gets, counts.misses, counts.fills), (600, 50, 50), "{filled:?}");
}

#[test]
fn times_pace_a_trace() {
    let dir = TempDir::new().unwrap();
    // Four seconds of a hundred rows each, sixteen times as fast.
    let rows = (0..400).map(|row| format!("{},k{},2,3,1,get,0\n", 100 + row / 100, row % 9));
    let path = file(&dir, &rows.collect::<String>());
    let small = Small::start(Manners::default());
    let mut settings = traced(&small.address, path, Format::Twitter);
    settings.trace.as_mut().unwrap().speed = Some(16.0);
    let report = load(settings);
    assert_eq!(report.account.counts.ops, 400);
    assert!(report.window_s > 3.9 / 16.0, "{}", report.window_s);
    assert!(!report.account.delay.is_empty(), "latencies count from the times of the rows");
}

#[test]
fn a_rate_and_a_budget_bound_a_trace_that_repeats() {
    let dir = TempDir::new().unwrap();
    let path = file(&dir, "a,5\nb,6\nc,7\n");
    let small = Small::start(Manners::default());
    let mut settings = traced(&small.address, path, Format::Words);
    (settings.rate, settings.queries, settings.filling) = (5000.0, 500, Filling::GetSet);
    settings.trace.as_mut().unwrap().is_loop = true;
    let report = load(settings);
    assert_eq!(report.account.counts.gets, 500, "{report:?}");
    assert_eq!(small.shared.data.lock().unwrap().len(), 3);
}

#[test]
fn all_operations_of_twitters_traces() {
    let Some(real) = Real::memcached(&[]) else { return };
    let Some(redis) = Real::redis(&[]) else { return };
    let dir = TempDir::new().unwrap();
    for (protocol, address) in [
        (Protocol::Text, &real.address),
        (Protocol::Binary, &real.address),
        (Protocol::Meta, &real.address),
        (Protocol::Resp2, &redis.address),
    ] {
        let ops = "get gets set add replace cas append prepend delete get incr decr".split(' ');
        let key = protocol.name();
        let rows = ops.map(|op| format!("1,{key},{},4,0,{op},60\n", key.len()));
        let path = file(&dir, &rows.collect::<String>());
        let report = load(Settings { protocol, ..traced(address, path, Format::Twitter) });
        let account = &report.account;
        assert_eq!(account.errors.total(), 0, "{protocol:?}: {report:?}");
        assert_eq!(account.counts.offered, 12, "{protocol:?}");
        assert_eq!(account.tally(Class::Read).response.count(), 3);
        assert_eq!(account.tally(Class::Update).response.count(), 6);
        assert_eq!(account.tally(Class::Other).response.count(), 2);
    }
}

#[test]
fn a_file_that_is_none_is_said() {
    let small = Small::start(Manners::default());
    let dir = TempDir::new().unwrap();
    let missing = traced(&small.address, dir.path().join("none"), Format::Words);
    let error = try_load(missing, None).unwrap_err().to_string();
    assert!(error.contains("none"), "{error}");
    let report = load(traced(&small.address, file(&dir, "what,is,this\n"), Format::Words));
    assert_eq!(report.account.counts.ops, 0);
    assert!(report.troubles.iter().any(|line| line.contains("no line is a row")), "{report:?}");
}

#[test]
fn a_trace_goes_to_shards_and_over_tiers() {
    let dir = TempDir::new().unwrap();
    let mut text = String::new();
    for row in 0..900 {
        writeln!(text, "{row},0,1,key{},{}", row * 7 % 60, 10 + row * 7 % 60).unwrap();
    }
    let path = file(&dir, &text);
    for sharding in [Sharding::Ketama, Sharding::Tiers] {
        let smalls = [Small::start(Manners::default()), Small::start(Manners::default())];
        let report = load(Settings {
            servers: smalls.iter().map(|small| small.address.clone()).collect(),
            sharding,
            filling: Filling::GetSet,
            depth: 3,
            ..traced("", path.clone(), Format::Numbers)
        });
        let counts = &report.account.counts;
        assert_eq!((counts.gets, report.account.errors.total()), (900, 0), "{report:?}");
        assert!(counts.misses >= 60 && counts.fills == counts.misses, "{counts:?}");
        let held = smalls.each_ref().map(|small| small.shared.data.lock().unwrap().clone());
        for (key, value) in held.iter().flatten() {
            let number: usize = std::str::from_utf8(&key[3..]).unwrap().parse().unwrap();
            assert_eq!(value.len(), 10 + number, "a key keeps its own size");
        }
        let sizes = held.each_ref().map(std::collections::HashMap::len);
        match sharding {
            Sharding::Tiers => assert_eq!(sizes, [60, 60]),
            _ => assert!(sizes[0] + sizes[1] == 60 && sizes[0] > 0 && sizes[1] > 0, "{sizes:?}"),
        }
    }
}

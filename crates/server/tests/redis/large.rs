//! Large hashes: they answer as small ones do, their replies are of one moment, and they cost what
//! one field costs.

use crate::redis::tool::{Client, Loop, Site, draw};
use keyrack_net::Verdict;
use keyrack_rowstore::{RowStore, Rows, StoreRows};
use keyrack_server::redis::Options;
use keyrack_store::ModelStore;
use keyrack_testkit::random::{Announced, factor, seeds};
use keyrack_workload::Rng;
use std::time::Duration;

/// The ways of storing rows.
fn stores() -> [Box<dyn Rows>; 2] {
    let options = keyrack_rowstore::Options {
        sweep_interval: Duration::ZERO,
        ..keyrack_rowstore::Options::default()
    };
    let store = Box::new(ModelStore::new());
    [
        Box::new(RowStore::in_memory(options).unwrap()),
        Box::new(StoreRows::with_sweep_interval(store, Duration::ZERO).unwrap()),
    ]
}

fn serve(rows: Option<Box<dyn Rows>>) -> (Loop<'static>, Client) {
    let mut site = Site::new(Options::default(), 1);
    if let Some(rows) = rows {
        site.rows = rows;
    }
    let (_, the_loop, client) = site.serve();
    (the_loop, client)
}

/// From here on, hashes of more than this many fields are large.
fn limit(the_loop: &mut Loop<'_>, client: &mut Client, fields: u64) {
    let fields = fields.to_string();
    let words = ["CONFIG", "SET", "hash-max-listpack-entries", &fields];
    assert_eq!(the_loop.ask(client, &words), "+OK");
}

fn fields(rng: &mut Rng, with_values: bool) -> String {
    let mut text = String::new();
    for _ in 0..1 + rng.below(4) {
        text.push_str(&format!(" f{}", rng.below(12)));
        if with_values {
            text.push_str(&format!(" {}", rng.below(1000)));
        }
    }
    text
}

/// A request that does not draw and does not tell the shape.
fn request(rng: &mut Rng) -> String {
    let (key, other) = (format!("h{}", rng.below(3)), format!("h{}", rng.below(3)));
    let field = format!("f{}", rng.below(12));
    match rng.below(30) {
        0..=5 => format!("HSET {key}{}", fields(rng, true)),
        6 | 7 => format!("HDEL {key}{}", fields(rng, false)),
        8 => format!("HSETNX {key} {field} new"),
        9 => format!("HINCRBY {key} {field} {}", rng.below(100)),
        10 => format!("HINCRBYFLOAT {key} {field} 0.5"),
        11 => format!("HGET {key} {field}"),
        12 => format!("HMGET {key}{}", fields(rng, false)),
        13 => format!("HGETALL {key}"),
        14 => format!("HKEYS {key}"),
        15 => format!("HVALS {key}"),
        16 => format!("HLEN {key}"),
        17 => format!("HSTRLEN {key} {field}"),
        18 => format!("RENAME {key} {other}"),
        19 => format!("COPY {key} {other} REPLACE"),
        20 => format!("COPY {key} {other}"),
        21 => format!("EXPIRE {key} 100"),
        22 => format!("PTTL {key}"),
        23 => format!("DEL {key}"),
        24 => "DBSIZE".to_owned(),
        25 => format!("TYPE {key}"),
        26 => format!("SET {key} value"),
        27 => format!("HEXISTS {key} {field}"),
        28 => {
            let count = rng.below(3) + 1;
            format!("HGETDEL {key} FIELDS {count}{}", " f1 f2 f3".split_at(3 * count as usize).0)
        }
        _ => format!("HSETEX {key} FNX KEEPTTL FIELDS 1 {field} 1"),
    }
}

#[test]
fn a_large_hash_answers_as_a_small_one() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut rng = Rng::from_seed(seed);
        for rows in stores() {
            let (mut small, mut small_client) = serve(None);
            let (mut large, mut large_client) = serve(Some(rows));
            limit(&mut small, &mut small_client, 1000);
            limit(&mut large, &mut large_client, 2);
            let mut queued = 0;
            for number in 0..3000 * factor() {
                let mut line = request(&mut rng);
                if queued == 0 && rng.below(20) == 0 {
                    queued = 1 + rng.below(6);
                    line = "MULTI".to_owned();
                } else if queued > 0 {
                    queued -= 1;
                    if queued == 0 {
                        line = "EXEC".to_owned();
                    }
                }
                let bytes = format!("{line}\r\n");
                let expected = draw(&small.feed(&mut small_client, bytes.as_bytes()));
                let found = draw(&large.feed(&mut large_client, bytes.as_bytes()));
                assert_eq!(found, expected, "request {number}: {line}");
            }
        }
    }
}

/// A hash of `count` fields `f000000`, ... with the value `v`.
fn fill(the_loop: &mut Loop<'_>, client: &mut Client, count: usize) {
    for first in (0..count).step_by(1000) {
        let mut line = "HSET h".to_owned();
        for n in first..count.min(first + 1000) {
            line.push_str(&format!(" f{n:06} v"));
        }
        the_loop.feed(client, format!("{line}\r\n").as_bytes());
    }
    assert_eq!(the_loop.ask(client, &["HLEN", "h"]), format!(":{count}"));
    assert_eq!(the_loop.ask(client, &["OBJECT", "ENCODING", "h"]), "$9 hashtable");
}

#[test]
fn hgetall_of_a_large_hash_is_sent_in_slices_and_is_of_one_moment() {
    const COUNT: usize = 20_000;
    for rows in stores() {
        let (mut the_loop, mut reader) = serve(Some(rows));
        let mut writer = the_loop.client();
        fill(&mut the_loop, &mut writer, COUNT);
        the_loop.ask(&mut writer, &["HPEXPIRE", "h", "5", "FIELDS", "1", "f000100"]);
        reader.input.extend_from_slice(b"HKEYS h\r\nPING\r\n");
        let (mut replies, mut iterations) = (Vec::new(), 0);
        loop {
            let verdict = the_loop.iterate(&mut reader);
            assert!(reader.output.len() <= (256 << 10) + 64, "the output is bounded");
            replies.append(&mut reader.output);
            iterations += 1;
            if verdict != Verdict::Again {
                break;
            }
            // What was there stays in the reply, and what is new is not in it.
            the_loop.now_ms += 10;
            let n = COUNT - 3 * iterations;
            let line = format!(
                "HDEL h f{n:06}\r\nHSET h f{:06} other new{iterations} 1\r\nHDEL h f000001\r\n",
                n - 1
            );
            the_loop.feed(&mut writer, line.as_bytes());
        }
        assert!(iterations > 4, "{iterations} iterations");
        let text = draw(&replies);
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some(&*format!("array({COUNT})")));
        for n in 0..COUNT {
            assert_eq!(lines.next(), Some(&*format!("  \"f{n:06}\"")));
        }
        assert_eq!(lines.collect::<Vec<_>>(), ["PONG"]);
        // The writes were not lost.
        assert_eq!(the_loop.ask(&mut writer, &["HEXISTS", "h", "f000001"]), ":0");
        assert_eq!(the_loop.ask(&mut writer, &["HEXISTS", "h", "new1"]), ":1");
    }
}

#[test]
fn a_reply_that_cannot_be_completed_closes_the_connection() {
    let (mut the_loop, mut reader) = serve(Some(stores().into_iter().next().unwrap()));
    let mut writer = the_loop.client();
    fill(&mut the_loop, &mut writer, 10_000);
    reader.input.extend_from_slice(b"HGETALL h\r\n");
    assert_eq!(the_loop.iterate(&mut reader), Verdict::Again);
    the_loop.ask(&mut writer, &["FLUSHALL"]);
    assert_eq!(the_loop.iterate(&mut reader), Verdict::Close);
}

#[test]
fn hscan_visits_every_field_once() {
    for rows in stores() {
        let (mut the_loop, mut client) = serve(Some(rows));
        fill(&mut the_loop, &mut client, 3000);
        let (mut cursor, mut names) = ("0".to_owned(), Vec::new());
        loop {
            let reply = the_loop
                .feed(&mut client, format!("HSCAN h {cursor} COUNT 97 MATCH f00*\r\n").as_bytes());
            let text = draw(&reply);
            let mut quoted = text.split('"').skip(1).step_by(2).map(str::to_owned);
            cursor = quoted.next().unwrap();
            names.extend(quoted.step_by(2));
            if cursor == "0" {
                break;
            }
        }
        let expected: Vec<String> = (0..3000).map(|n| format!("f{n:06}")).collect();
        assert_eq!(names, expected);
    }
}

#[test]
fn hrandfield_draws_fields_that_are_there() {
    let (mut the_loop, mut client) = serve(Some(stores().into_iter().next().unwrap()));
    fill(&mut the_loop, &mut client, 2000);
    for (count, expected) in [("10", 10), ("1900", 1900), ("5000", 2000), ("-50", 50)] {
        let line = format!("HRANDFIELD h {count} WITHVALUES\r\n");
        let text = draw(&the_loop.feed(&mut client, line.as_bytes()));
        let mut names: Vec<&str> = text.lines().skip(1).step_by(2).collect();
        assert_eq!(names.len(), expected, "{count}");
        assert!(names.iter().all(|name| name.starts_with("  \"f00")), "{count}");
        names.sort_unstable();
        names.dedup();
        assert!(names.len() == expected || count == "-50", "{count}");
    }
    let refused = the_loop.ask(&mut client, &["HRANDFIELD", "h", "-16385"]);
    assert!(refused.starts_with("-ERR at most 16384 fields"), "{refused}");
}

#[test]
fn a_copy_of_a_hash_whose_fields_have_expired_is_no_key() {
    let (mut the_loop, mut client) = serve(Some(stores().into_iter().next().unwrap()));
    the_loop.ask(&mut client, &["HSETEX", "h", "PX", "5", "FIELDS", "1", "f", "v"]);
    the_loop.now_ms += 5;
    assert_eq!(the_loop.ask(&mut client, &["COPY", "h", "to"]), ":0");
    assert_eq!(the_loop.ask(&mut client, &["EXISTS", "to"]), ":0");
}

#[test]
fn a_watched_large_hash_is_touched_by_a_change_of_a_field() {
    for rows in stores() {
        let (mut the_loop, mut client) = serve(Some(rows));
        let mut other = the_loop.client();
        fill(&mut the_loop, &mut client, 600);
        for (change, is_touched) in [
            ("HSET h f000001 other", true),
            ("HDEL h f000002", true),
            ("HGETALL h", false),
            ("HEXPIRE h 100 FIELDS 1 f000003", true),
            ("HDEL h nosuch", false),
        ] {
            the_loop.feed(&mut client, b"WATCH h\r\nMULTI\r\nPING\r\n");
            the_loop.feed(&mut other, format!("{change}\r\n").as_bytes());
            let reply = the_loop.ask(&mut client, &["EXEC"]);
            assert_eq!(reply == "*-1", is_touched, "{change}: {reply}");
        }
    }
}

/// The bytes of log that a write of a field takes do not depend on the size of the hash.
#[test]
fn hset_of_one_field_in_a_large_hash_cost_what_the_whole_hash_costs() {
    let disk = keyrack_vfs::MemFs::new();
    let options = keyrack_rowstore::Options::default().with_segment_bytes(1 << 20);
    let open = |path: &str| {
        let fs = std::sync::Arc::new(disk.clone());
        RowStore::open(fs, std::path::Path::new(path), options.clone(), &|_| {}).unwrap()
    };
    let mut costs = Vec::new();
    for (path, count) in [("/few", 600), ("/many", 20_000)] {
        let (mut the_loop, mut client) = serve(Some(Box::new(open(path))));
        fill(&mut the_loop, &mut client, count);
        let logged = |the_loop: &Loop<'_>| {
            let mut bytes = 0.0;
            the_loop.site.rows.stats(&mut |name, value| {
                if name == "log_bytes" {
                    bytes = value;
                }
            });
            bytes as u64
        };
        let before = logged(&the_loop);
        for n in 0..100 {
            let field = format!("f{n:06}");
            the_loop.ask(&mut client, &["HSET", "h", &field, "another"]);
        }
        costs.push((logged(&the_loop) - before) / 100);
    }
    assert_eq!(costs[0], costs[1], "bytes of log for a field");
    assert!(costs[0] < 100, "{costs:?}");
}

/// Clients of several loops count in the same hashes while these become large, are emptied and
/// removed. A field was lost that was set while another client removed the last field.
#[test]
fn clients_of_several_loops_count_in_one_hash() {
    const LOOPS: usize = 3;
    const ROUNDS: u64 = 400;
    for rows in stores() {
        let mut site = Site::new(Options::default(), LOOPS);
        site.rows = rows;
        let mut first = site.a_loop(0);
        let mut client = first.client();
        limit(&mut first, &mut client, 2);
        drop((client, first));
        std::thread::scope(|threads| {
            for number in 0..LOOPS {
                let site = &site;
                threads.spawn(move || {
                    let mut the_loop = site.a_loop(number);
                    let mut client = the_loop.client();
                    for round in 0..ROUNDS {
                        for line in [
                            format!("HINCRBY sum f{} 1", round % 7),
                            format!("HSET churn a{number} 1 b{number} 1 c{number} 1"),
                            format!("HDEL churn a{number} b{number} c{number}"),
                            format!("HSET gone{} a 1 b 2 c 3 d 4", round % 2),
                            format!("DEL gone{}", round % 2),
                            "HGETALL churn".to_owned(),
                        ] {
                            let bytes = format!("{line}\r\n");
                            let reply = the_loop.feed(&mut client, bytes.as_bytes());
                            assert_ne!(reply[0], b'-', "{line}: {}", draw(&reply));
                            if line.starts_with("HDEL") {
                                // No other client removes the fields of this one.
                                assert_eq!(reply, b":3\r\n", "{line} in round {round}");
                            }
                        }
                    }
                });
            }
        });
        let mut the_loop = site.a_loop(0);
        let mut client = the_loop.client();
        let text = draw(&the_loop.feed(&mut client, b"HVALS sum\r\n"));
        let values = text.lines().skip(1).map(|line| line.trim_matches([' ', '"']));
        let sum: u64 = values.map(|value| value.parse::<u64>().unwrap()).sum();
        assert_eq!(sum, ROUNDS * LOOPS as u64);
        assert_eq!(the_loop.ask(&mut client, &["EXISTS", "churn", "gone0", "gone1"]), ":0");
        assert_eq!(the_loop.ask(&mut client, &["DBSIZE"]), ":1");
    }
}

/// The header of a hash was logged at the end of the iteration. A field that another loop had set
/// and acknowledged before was lost in a crash.
#[test]
fn an_acknowledged_field_is_not_lost_with_the_header_of_another_loop() {
    let options = keyrack_rowstore::Options {
        log_dirs: vec!["log-0".into(), "log-1".into()],
        ..keyrack_rowstore::Options::default()
    };
    let open = |disk: &keyrack_vfs::MemFs| {
        let fs = std::sync::Arc::new(disk.clone());
        RowStore::open(fs, std::path::Path::new("/store"), options.clone(), &|_| {}).unwrap()
    };
    for (before, last) in [
        ("HSET to a 1 b 2", "HSET to c 3"),
        ("PING", "HSETEX to PX 100000 FIELDS 1 a 1"),
        ("HSET from a 1 b 2 c 3", "COPY from to"),
        ("HSET from a 1 b 2 c 3", "RENAME from to"),
        ("MULTI\r\nHSET to a 1 b 2 c 3", "EXEC"),
    ] {
        let disk = keyrack_vfs::MemFs::new();
        let mut site = Site::new(Options::default(), 2);
        site.rows = Box::new(open(&disk));
        let (mut first, mut second) = (site.a_loop(0), site.a_loop(1));
        let (mut client, mut other) = (first.client(), second.client());
        limit(&mut first, &mut client, 2);
        first.feed(&mut client, format!("{before}\r\n").as_bytes());
        client.input.extend_from_slice(format!("{last}\r\n").as_bytes());
        while first.serve(&mut client) == Verdict::Again {}
        assert_eq!(second.ask(&mut other, &["HSET", "to", "z", "26"]), ":1", "{last}");
        let (mut the_loop, mut client) = serve(Some(Box::new(open(&disk.process_crash_image()))));
        assert_eq!(the_loop.ask(&mut client, &["HGET", "to", "z"]), "$2 26", "{last}");
        assert_eq!(the_loop.ask(&mut client, &["HGET", "to", "a"]), "$1 1", "{last}");
    }
}

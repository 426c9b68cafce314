//! Called as `mtclient`: that client's command line and its shapes, over real sockets.

use crate::masstree_server::MasstreeServer;
use crate::support::{Lab, Outcome, parse_json};
use serde_json::Value;
use std::collections::BTreeMap;

#[track_caller]
fn mtclient(server: &MasstreeServer, line: &str) -> Outcome {
    let port = server.address.port();
    Lab::new().called("mtclient", &format!("-s 127.0.0.1 --fsp {port} {line}"))
}

/// The rows on standard output.
#[track_caller]
fn rows(out: &Outcome) -> Vec<Value> {
    out.stdout.lines().filter(|line| line.starts_with('{')).map(parse_json).collect()
}

/// The number in front of `unit` in a line of totals, such as `total`.
fn after<'l>(line: &'l str, word: &str) -> Option<&'l str> {
    let mut words = line.split([' ', ',']).filter(|word| !word.is_empty());
    words.find(|found| *found == word)?;
    words.next()
}

#[test]
fn rw1_prints_what_the_original_prints() {
    let server = MasstreeServer::start();
    let out = mtclient(&server, "-j2 -l 3000 rw1").exits(0);
    let lines: Vec<&str> = out.stdout.lines().collect();
    assert_eq!(lines[0], "tcp, w 512, test rw1, children 2");
    let rows = rows(&out);
    assert_eq!(rows.len(), 2);
    for row in &rows {
        // A loop that is bounded by the limit runs once more.
        assert_eq!(
            (&row["puts"], &row["gets"], &row["ops"]),
            (&3001.into(), &3001.into(), &6002.into())
        );
        let names: Vec<&String> = row.as_object().unwrap().keys().collect();
        assert!(
            ["gets_per_sec", "puts_per_sec", "ops_per_sec"]
                .iter()
                .all(|name| names.contains(&&(*name).to_owned()))
        );
    }
    assert_eq!(lines[3], "total 12004");
    assert_eq!(lines[4], "puts: n 2, total 6002, average 3001, min 3001, max 3001, stddev 0");
    assert_eq!(lines[5], lines[4].replace("puts", "gets"));
    assert!(lines[6].starts_with("puts/s: n 2, total ") && lines[7].starts_with("gets/s: n 2, "));
    assert!(after(lines[6], "stddev").is_some() && lines.len() == 8, "{}", out.stdout);
    for child in 0..2 {
        assert!(out.stderr.contains(&format!("{child} now getting\n")), "{}", out.stderr);
        let total = format!("{child} total 3001 ");
        let line = out.stderr.lines().find(|line| line.starts_with(&total)).unwrap();
        assert!(line.contains(" put/s ") && line.ends_with(" get/s"), "{line}");
    }
    // Keys of two children are not the same, whatever the seed.
    assert!(server.rows().len() > 5_900, "{} rows", server.rows().len());
    assert_eq!(server.connections(), 2);
}

#[test]
fn one_quiet_child_prints_no_deviation_and_no_talk() {
    let server = MasstreeServer::start();
    let out = mtclient(&server, "-q -j1 -w 1 -l 20 sync_rw1").exits(0);
    assert_eq!(out.stderr, "");
    assert!(out.stdout.starts_with("tcp, w 1, test sync_rw1, children 1\n"), "{}", out.stdout);
    assert!(out.stdout.contains("puts: n 1, total 21, average 21, min 21, max 21, stddev 0\n"));
}

#[test]
fn every_test_ends_well_on_a_server_that_answers() {
    let server = MasstreeServer::start();
    for line in [
        "rw1fixed -l 700",
        "rw2 -l 700",
        "rw2g90 -l 700",
        "rw3 -l 700",
        "rw4 -l 700",
        "rw16 -l 700",
        "same -l 700",
        "rwsmall24 -l 100",
        "wd1 -l 100",
        "wd1m2 -l 100",
        "w1 -l 700",
        "r1 -l 700",
        "w1b -l 700",
        "u1 -l 700",
        "wcol1 -l 700",
        "rcol1 -l 700",
        "scantest",
        "cpa -l 700",
        "cpb -l 700",
        "cpc -l 700",
        "cpd -l 700",
        "volt1a -l 700",
        "volt1b -l 700",
        "volt2a -l 700",
        "volt2b -l 700",
        "long_init --nkeys 300 --keylen 100 --prefixLen 80",
        "long_go -l 700 --nkeys 300 --keylen 100 --prefixLen 80 --getratio 70",
        "wd2 -l 2300",
        "wd2check",
        "ruscale_init --rscale_partsz 100 --rsinit_part 7",
        "over1 -l 3000",
        "over2",
        "rec1 -l 700",
        "rec2",
        "wscale -d 1",
        "ruscale_init --rscale_partsz 300",
        "rscale -d 1 parts=2 --rscale_partsz 300",
        "uscale -d 1 parts=2 --rscale_partsz 300",
    ] {
        let out = mtclient(&server, &format!("-j2 {line}")).exits(0);
        assert_eq!(rows(&out).len(), 2, "{line}: {}", out.stdout);
        let total = out.stdout.lines().find(|line| line.starts_with("total ")).unwrap();
        assert!(after(total, "total").unwrap().parse::<u64>().unwrap() > 0, "{line}: {total}");
    }
    assert_eq!(server.checkpoints(), 2);
}

#[test]
fn what_passes_through_leaves_runs_and_gaps_are_found() {
    let server = MasstreeServer::start();
    mtclient(&server, "-q -j2 -l 300 wd1").exits(0);
    mtclient(&server, "-q -j2 wd1check").exits(0);
    mtclient(&server, "-q -j3 -l 50 tri1").exits(0);
    let out = mtclient(&server, "-q -j3 tri1check").exits(0);
    assert_eq!(rows(&out)[0]["count"], 51, "{}", out.stdout);
    mtclient(&server, "-q -j1 -l 2900 wd2").exits(0);
    mtclient(&server, "-q -j1 wd2check").exits(0);
    let gone = |key: &[u8]| {
        let mut rows = server.rows();
        assert!(rows.remove(key).is_some(), "{}", key.escape_ascii());
        MasstreeServer::with(rows, u64::MAX)
    };
    let row =
        |n: u64| (n.to_string().into_bytes(), BTreeMap::from([(0, (n + 1).to_string().into())]));
    let left = (10_000_005..10_000_020).filter(|n| *n != 10_000_007).map(row).collect();
    let out = mtclient(&MasstreeServer::with(left, u64::MAX), "-q -j2 wd1check").exits(1);
    assert!(out.stderr.contains("10000007 is missing in front of key 10000008"), "{}", out.stderr);
    let out = mtclient(&gone(b"tri1-0-2-0000000020"), "-q -j3 tri1check").exits(1);
    assert!(out.stderr.contains("number 20 is missing"), "{}", out.stderr);
    // A round of 1000 keys: 2901 acts are the puts of two rounds, and half a round of removals.
    let out = mtclient(&gone(b"wd2-0-0500"), "-q -j1 wd2check").exits(1);
    assert!(out.stderr.contains("have gaps, at [500, 501, 901]"), "{}", out.stderr);
}

#[test]
fn a_file_of_urls_is_read() {
    let server = MasstreeServer::start();
    let lab = Lab::new();
    let lines: String = (0..40).map(|n| format!("put http://example.org/{n}\n")).collect();
    lab.write("urls", lines);
    let port = server.address.port();
    let out = lab.called("mtclient", &format!("-q -j1 --fsp {port} -i urls url")).exits(0);
    let row = rows(&out).remove(0);
    assert_eq!((&row["puts"], &row["gets"]), (&40.into(), &15.into()), "{}", out.stdout);
    assert_eq!(server.rows().len(), 15);
    let out = lab.called("mtclient", &format!("-j1 --fsp {port} -i none url")).exits(1);
    assert!(out.stderr.contains("none"), "{}", out.stderr);
}

#[test]
fn a_value_that_is_not_what_was_put_fails_with_its_key() {
    let server = MasstreeServer::start();
    mtclient(&server, "-q -j1 -l 100 cpa").exits(0);
    let mut lying = server.rows();
    lying.insert(b"0-00000042".to_vec(), BTreeMap::from([(0, b"other".to_vec())]));
    lying.remove(b"0-00000077".as_slice());
    let server = MasstreeServer::with(lying, u64::MAX);
    let out = mtclient(&server, "-q -j1 -l 100 cpb").exits(1);
    let why = "child 0: key \"0-00000042\": expected \"43\", found \"other\"";
    assert!(out.stderr.contains(why), "{}", out.stderr);
    let out = mtclient(&server, "-q -j1 rec2").exits(1);
    assert!(out.stderr.contains("0-00000042"), "{}", out.stderr);
}

#[test]
fn what_a_killed_server_lost_in_the_middle_is_found() {
    let killed = MasstreeServer::with(BTreeMap::new(), 5_000);
    let out = mtclient(&killed, "-q -j1 -d 60 rec1").exits(0);
    let acknowledged = rows(&out)[0]["acknowledged"].as_u64().unwrap();
    assert!(acknowledged <= 5_000, "{acknowledged} puts were answered by a server of 5000");
    // All that it had: a prefix.
    let kept = killed.rows();
    let again = MasstreeServer::with(kept.clone(), u64::MAX);
    let out = mtclient(&again, "-q -j1 rec2").exits(0);
    assert!(rows(&out)[0]["count"].as_u64().unwrap() >= acknowledged, "{}", out.stdout);
    // One row in the middle is lost.
    let mut holed = kept;
    holed.remove(b"0-00000100".as_slice());
    let again = MasstreeServer::with(holed, u64::MAX);
    let out = mtclient(&again, "-q -j1 rec2").exits(1);
    assert!(out.stderr.contains("the put before number 100 is lost"), "{}", out.stderr);
}

#[test]
fn nobody_there_or_gone_in_the_middle_is_one_line() {
    let gone = MasstreeServer::with(BTreeMap::new(), 2_000);
    let out = mtclient(&gone, "-q -j2 -d 60 rw1").exits(1);
    assert!(out.stderr.contains("mtclient: child "), "{}", out.stderr);
    assert!(out.stderr.contains("server: "), "{}", out.stderr);
    let out = Lab::new().called("mtclient", "-s unix:nobody.sock rw1").exits(1);
    assert!(out.stderr.contains("cannot connect to unix:nobody.sock"), "{}", out.stderr);
    let out = Lab::new().called("mtclient", "rw99").exits(1);
    assert!(out.stderr.contains("unknown test 'rw99'"), "{}", out.stderr);
    let out = Lab::new().called("mtclient", "--help").exits(0);
    assert!(out.stdout.contains("--first-server-port"), "{}", out.stdout);
}

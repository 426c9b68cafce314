//! Called as `mtd`: that server's command line, its banner, its files; and `mtclient` against it,
//! over connections and by datagrams.

use crate::serve::Served;
use crate::serve::bars::is_local_alone;
use crate::support::{Lab, Outcome, parse_json};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};

/// A server that is ready.
fn mtd(lab: &Lab, line: &str) -> Served {
    let mut child = lab.start_called("mtd", line);
    child.wait_for("ready");
    Served { child }
}

/// The port behind the first `listening on SCHEME://`.
#[track_caller]
fn port(served: &Served, scheme: &str) -> u16 {
    served.address(scheme).rsplit(':').next().unwrap().parse().unwrap()
}

#[track_caller]
fn mtclient(lab: &Lab, served: &Served, line: &str) -> Outcome {
    let port = port(served, "masstree");
    lab.called("mtclient", &format!("-q --fsp {port} {line}")).exits(0)
}

/// Ends it by a signal. Returns its standard output.
#[track_caller]
fn end(served: Served, signal: &str) -> String {
    served.child.signal(signal);
    served.child.finish().exits(0).stdout
}

fn rows(out: &Outcome) -> Vec<Value> {
    out.stdout.lines().filter(|line| line.starts_with('{')).map(parse_json).collect()
}

fn with_dirs(names: &[&'static str]) -> Lab {
    let lab = Lab::new();
    names.iter().for_each(|name| _ = lab.make_dir(name));
    lab
}

#[test]
fn rows_are_there_after_a_restart_with_other_threads() {
    let lab = with_dirs(&["l0", "l1", "c"]);
    let served = mtd(&lab, "-j2 --port 0 --logdir=l0,l1 --ckdir=c");
    let tcp = port(&served, "masstree");
    mtclient(&lab, &served, "-j2 -l 300 cpa");
    mtclient(&lab, &served, "-j2 -l 300 wcol1");
    mtclient(&lab, &served, "-j2 -l 300 cpc");
    mtclient(&lab, &served, "-j2 -l 200 rw1");
    // The checkpoints that these have asked for: one is there before the server is ended.
    until(&served, "-", |_| has_checkpoint(&lab, "c/kvd-ckp"));
    let stdout = end(served, "INT");
    let lines: Vec<&str> = stdout.lines().collect();
    let expected = [
        "mb, Bag, pin-threads disabled, logging enabled",
        "no c/kvd-ckp-gen",
        "no c/kvd-ckp-0-0",
        "no c/kvd-ckp-0-1",
    ];
    assert_eq!(lines[..4], expected, "{stdout}");
    assert!(lines[4].starts_with("2 udp threads (ports "), "{stdout}");
    assert_eq!(lines[5..], [format!("2 tcp threads (port {tcp})")]);
    assert_eq!(
        (lab.names("l0"), lab.names("l1")),
        (vec!["kvd-log-0".into()], vec!["kvd-log-1".to_owned()])
    );
    assert_eq!(lab.names("c"), ["kvd-ckp"]);
    for threads in [1, 3] {
        let served = mtd(&lab, &format!("-j{threads} --port=0 --ld l0,l1 --cd c --no-checkpoint"));
        mtclient(&lab, &served, "-j2 -l 300 cpd");
        mtclient(&lab, &served, "-j2 -l 300 rcol1");
        let stdout = end(served, "TERM");
        assert!(!stdout.contains("no "), "a checkpoint was there: {stdout}");
        let plural = if threads == 1 { "" } else { "s" };
        assert!(stdout.contains(&format!("\n{threads} tcp thread{plural} (port ")), "{stdout}");
    }
    let out = lab.called("mtd", "--no-run -j2 --ld l0,l1 --cd c").exits(0);
    // cpa and cpc: 2 children, 300 keys each of which cpc has left 200. wcol1: 300 keys or so.
    let count: u64 = out.stderr.lines().last().unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!((400 + 300..1500).contains(&count), "{}", out.stderr);
    assert_eq!(out.stdout, "mb, Bag, pin-threads disabled, logging enabled\n");
}

/// Checkpoints were in the first directory alone.
#[test]
fn checkpoints_are_spread_and_directories_open_in_any_order() {
    let lab = with_dirs(&["l", "a", "b"]);
    let served = mtd(&lab, "-j2 --port 0 --ld l --cd a,b");
    mtclient(&lab, &served, "-j2 -l 300 cpa");
    until(&served, "-", |_| {
        lab.names("b").iter().any(|dir| {
            lab.names(&format!("b/{dir}")).iter().any(|name| name.ends_with("-0001.rows"))
        })
    });
    end(served, "INT");
    for list in ["b,a", "a,b"] {
        let out = lab.called("mtd", &format!("--no-run -j2 --ld l --cd {list}")).exits(0);
        assert!(
            out.stdout.ends_with("logging enabled\n"),
            "a checkpoint was there: {}",
            out.told()
        );
        assert!(out.stderr.contains(" rows"), "{}", out.told());
    }
    let without = lab.called("mtd", "--no-run -j2 --ld l --cd b").exits(3);
    assert!(without.stderr.contains("manifest is missing"), "{}", without.told());
}

/// Asks for the row of `key` until `is_it` says so, who is told whether there is one. Ends with the
/// server.
fn until(served: &Served, key: &str, is_it: impl Fn(bool) -> bool) {
    let mut client = TcpStream::connect(served.address("masstree")).unwrap();
    let hello = b"\x93\x00\x0e\x82\xa4core\xff\xa9maxkeylen\xcc\xff";
    client.write_all(hello).unwrap();
    client.read_exact(&mut [0; 9]).unwrap();
    let request = [b"\x93\x01\x02", &[0xa0 | key.len() as u8][..], key.as_bytes()].concat();
    loop {
        client.write_all(&request).unwrap();
        let mut head = [0; 3];
        client.read_exact(&mut head).unwrap();
        // [1, 3] is a miss. Behind a hit its value comes, and nothing is asked any more.
        let is_there = head[0] != 0x92;
        if is_it(is_there) {
            return;
        }
        assert!(!is_there, "there is a row of {key}");
    }
}

fn has_checkpoint(lab: &Lab, dir: &str) -> bool {
    lab.names(dir).iter().any(|name| name.starts_with("checkpoint-"))
}

#[test]
fn what_was_answered_survives_a_kill_under_load() {
    let lab = with_dirs(&["d"]);
    let line = "--port 0 --ld d --cd d";
    let mut served = mtd(&lab, &format!("-j2 {line}"));
    let fsp = port(&served, "masstree");
    let load = ["-j2 rec1", "-j2 wd2", "-j3 tri1", "-j2 over1"];
    let load =
        load.map(|test| lab.start_called("mtclient", &format!("-q -d 100 --fsp {fsp} {test}")));
    // All of them have begun, and one has done some more.
    for key in ["wd2-0-0005", "tri1-0-2-0000000005", "over-005", "0-00002000"] {
        until(&served, key, |is_there| is_there);
    }
    served.child.kill();
    served.child.finish().exits(128 + 9);
    let [recorded, ..] = load.map(|client| client.finish().exits(0));
    let served = mtd(&lab, &format!("-j3 {line}"));
    let found = mtclient(&lab, &served, "-j2 rec2");
    for (before, after) in rows(&recorded).iter().zip(rows(&found)) {
        let (before, after) = (before["acknowledged"].as_u64(), after["count"].as_u64());
        assert!(before.is_some() && before <= after, "{before:?} answered, {after:?} found");
    }
    mtclient(&lab, &served, "-j2 wd2check");
    mtclient(&lab, &served, "-j3 tri1check");
    mtclient(&lab, &served, "-j2 over2");
    end(served, "TERM");
}

/// A port of TCP and UDP that nobody has, with the next one of UDP.
fn free_port() -> u16 {
    loop {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = tcp.local_addr().unwrap().port();
        let is_free = |port: u16| UdpSocket::bind(("127.0.0.1", port)).is_ok();
        if port < u16::MAX && is_free(port) && is_free(port + 1) {
            return port;
        }
    }
}

#[test]
fn datagrams_go_to_a_port_for_each_thread() {
    let lab = Lab::new();
    // Somebody may take the port before the server does.
    let (served, first) = loop {
        let port = free_port();
        let mut child = lab.start_called("mtd", &format!("-n -j2 --port {port}"));
        if child.reads(|line| line.contains("ready")) {
            break (Served { child }, port);
        }
        println!("{}", child.seen());
    };
    is_local_alone(&served, 3);
    let out = mtclient(&lab, &served, "-u -j2 -l 400 rw1");
    assert!(out.stdout.starts_with("udp, w 64, test rw1, children 2\n"), "{}", out.stdout);
    assert_eq!(rows(&out)[1]["gets"], 401);
    let out = mtclient(&lab, &served, "-j3 --ssp -l 300 udp1");
    assert!(out.stdout.starts_with("udp, w 64, test udp1, children 3\n"), "{}", out.stdout);
    assert_eq!((&rows(&out)[2]["puts"], &rows(&out)[2]["gets"]), (&301.into(), &301.into()));
    mtclient(&lab, &served, "-u -j2 -w 8 -l 200 wcol1");
    mtclient(&lab, &served, "-u -j2 -w 8 -l 200 rcol1");
    // Over TCP the same rows.
    mtclient(&lab, &served, "-j2 -l 200 rcol1");
    let stdout = end(served, "TERM");
    let expected = format!(
        "mb, Bag, pin-threads disabled, logging disabled\n2 udp threads (ports {first}-{})\n2 tcp \
         threads (port {first})\n",
        first + 1
    );
    assert_eq!(stdout, expected);
    assert_eq!(lab.names("."), ["mtclient", "mtd"], "it was to keep nothing");
    let out = lab.called("mtclient", &format!("-q -u -j1 --fsp {first} -l 9 rw1")).exits(1);
    assert!(out.stderr.contains("server: "), "{}", out.stderr);
}

#[test]
fn a_test_inside_the_server_leaves_rows_for_clients() {
    let lab = with_dirs(&["d"]);
    let out = lab.called("mtd", "-j2 --ld d --cd d --test wcol1 -l 300 --print").exits(0);
    assert_eq!(rows(&out).len(), 2, "{}", out.told());
    assert!(out.stdout.contains("\nputs: n 2, total 600, "), "{}", out.stdout);
    assert!(out.stderr.contains("mb: rows "), "{}", out.stderr);
    let printed = out.stdout.lines().filter(|line| line.as_bytes()[0].is_ascii_digit()).count();
    assert!((100..=600).contains(&printed), "{}", out.stdout);
    let served = mtd(&lab, "-j1 --port 0 --ld d --cd d");
    mtclient(&lab, &served, "-j2 --first_seed 31949 -l 300 rcol1");
    end(served, "TERM");
    for test in
        ["rw1", "rw2", "wd1", "rw1b", "scan1 -d 0.2", "rscan1 -d 0.2", "splitremove1 -d 0.2"]
    {
        let line = format!("-n -j2 -l 200 --test {test}");
        let out = lab.called("mtd", &line).exits(0);
        assert_eq!(rows(&out).len(), 2, "{}", out.told());
    }
}

#[test]
fn what_cannot_be_is_refused_in_a_line() {
    let lab = with_dirs(&["d", "old"]);
    lab.write("old/kvd-log-0", "");
    for (line, words) in [
        ("--port x", "--port expects a port, not 'x'"),
        ("-j0", "-j expects"),
        ("--bogus", "unknown option '--bogus'"),
        ("surplus", "surplus"),
        ("--ld none --cd d", "'none' is no directory"),
        ("--ld d --cd none", "'none' is no directory"),
        ("--ld d,old --cd d", "'old/kvd-log-0' was written by another mtd"),
        ("--ld d --cd d --host 0.0.0.0 --port 0", "--insecure"),
        ("-p --cores 4000 --ld d --cd d", "may not use CPU 4000"),
    ] {
        let out = lab.called("mtd", line).exits(2);
        assert!(out.stderr.lines().next().unwrap().contains(words), "{line}: {}", out.stderr);
        assert_eq!(out.stdout, "", "{line}");
    }
    assert!(lab.called("mtd", "--help").exits(0).stdout.contains("--ckpdir"));
    let served =
        mtd(&lab, "-j1 --port 0 --ld d --cd d,old/.. --epoch-interval 50 -c30 --durability sync");
    assert!(served.child.seen().contains("mtd: --epoch-interval has no meaning here"));
    let out = lab.called("mtd", "-j1 --port 0 --ld d --cd d").exits(2);
    assert!(out.stderr.contains("another process"), "{}", out.stderr);
    mtclient(&lab, &served, "-j1 -l 100 rw1");
    end(served, "TERM");
    let log = lab.names("d/kvd-log-0");
    std::fs::write(lab.path(&format!("d/kvd-log-0/{}", log[0])), [7; 9000]).unwrap();
    let out = lab.called("mtd", "-j1 --no-run --ld d --cd d").exits(3);
    assert!(out.stderr.contains("kvd-log-0"), "{}", out.stderr);
}

#[test]
fn checkpoints_come_with_the_time() {
    let lab = with_dirs(&["d"]);
    let served = mtd(&lab, "-j1 --port 0 --ld d --cd d -c0.001");
    mtclient(&lab, &served, "-j1 -l 100 rw1");
    until(&served, "-", |_| has_checkpoint(&lab, "d/kvd-ckp"));
    end(served, "TERM");
}

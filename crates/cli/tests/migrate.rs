//! `keyrack import` and `keyrack export`: the real binary between servers, files and directories.

use crate::serve::{Client, Served};
use crate::support::{Lab, Running, parse_json};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A file that another server wrote.
fn fixture(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    root.join("migrate/tests/fixtures").join(name).display().to_string()
}

/// A program that is on the path; without it a test is skipped, but not in CI.
fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|dir| dir.join(program).is_file());
    if !found {
        assert!(std::env::var_os("CI").is_none(), "there is no {program} on this machine");
        println!("SKIPPED: there is no {program} on this machine");
    }
    found
}

/// A server of others on a unix socket of the lab.
fn start(lab: &Lab, program: &str, words: &[&str]) -> Running {
    let mut child = lab.start_tool(Path::new(program), words);
    let socket = lab.path("other");
    while UnixStream::connect(&socket).is_err() {
        assert!(!child.has_ended(), "{program} ended");
        std::thread::yield_now();
    }
    child
}

fn start_redis(lab: &Lab) -> Running {
    start(lab, "redis-server", &["--port", "0", "--save", "", "--unixsocket", "other"])
}

#[test]
fn a_snapshot_becomes_a_directory_that_is_served_and_exported() {
    let lab = Lab::new();
    let line = format!("import {} --to data --db 0 --json", fixture("redis-7.0.rdb"));
    let out = lab.run(&line).exits(1);
    let report = parse_json(&out.stdout);
    assert_eq!((report["strings"].as_u64(), report["hashes"].as_u64()), (Some(9), Some(3)));
    assert_eq!(report["left_out"]["stream"]["first"][0], "stream");
    assert!(out.stderr.contains("left out, sorted set: 1 (scores)"), "{}", out.stderr);
    // It is there after the process, with types and expiries.
    let served = Served::start(&lab, "--data-dir data --listen resp://127.0.0.1:0");
    let mut client = served.connect("resp");
    client.ask("GET text\r\n", "$5\r\nhello\r\n");
    client.ask("HGET small long\r\n", "$13\r\n9000000000000\r\n");
    client.ask("PEXPIRETIME later\r\n", ":4102444800000\r\n");
    client.ask("DBSIZE\r\n", ":12\r\n");
    let running = lab.run(&format!("export {} --output running.json", served.address("resp")));
    running.exits(0);
    served.end();
    lab.run("export data --output closed.json").exits(0);
    let sorted = |name: &str| {
        let mut lines: Vec<String> = lab.read(name).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted("running.json"), sorted("closed.json"));
    assert_eq!(sorted("closed.json").len(), 12);
    // Lines and commands come in again as the same rows, into an engine of another kind, too.
    lab.run("export data --format resp --output rows.resp").exits(0);
    lab.run("import closed.json --to again").exits(0);
    lab.run("import rows.resp --to others --engine flodb").exits(0);
    lab.run("export again --output again.json").exits(0);
    let others = lab.run("export others --engine flodb").exits(0).stdout;
    lab.write("others.json", others);
    assert_eq!(sorted("again.json"), sorted("closed.json"));
    assert_eq!(sorted("others.json"), sorted("closed.json"));
}

#[test]
fn damage_and_wrong_usage_have_their_statuses() {
    let lab = Lab::new();
    let mut bytes = std::fs::read(fixture("redis-8.0.rdb")).unwrap();
    bytes[300] ^= 1;
    lab.write("damaged.rdb", bytes);
    let out = lab.run("import damaged.rdb --to data").exits(3);
    assert!(out.stderr.contains("damaged.rdb is damaged at byte"), "{}", out.stderr);
    lab.run("import missing.rdb --to data").exits(1);
    lab.run("import x.rdb --to http://h").refuses(&["unknown scheme"]);
    lab.run("import x.rdb --to data --on-conflict ask").refuses(&["ask", "keep"]);
    lab.run("import x.rdb --to data --method magic").refuses(&["magic", "replicate"]);
    lab.run("export nowhere").refuses(&["no directory nowhere"]);
    lab.run("export nowhere --format xml").refuses(&["xml"]);
    lab.make_dir("empty");
    let out = lab.run("import empty --to data").exits(2);
    assert!(out.stderr.contains("without a manifest"), "{}", out.stderr);
    lab.run("import redis+unix:///nobody/here --to data").exits(1);
}

#[test]
fn a_running_redis_moves_with_what_changes_meanwhile() {
    if !has("redis-server") {
        return;
    }
    let lab = Lab::new();
    let redis = start_redis(&lab);
    let address = format!("redis+unix://{}", lab.path("other").display());
    let mut source = UnixClient::new(&lab.path("other"));
    for index in 0..500 {
        source.ask(&format!("SET before{index} {index}\r\n"), "+OK\r\n");
    }
    let served = Served::start(&lab, "--engine masstree --listen mixed://127.0.0.1:0");
    let mut client = served.connect("mixed");
    let to = served.address("mixed");
    let follow = lab.start(&format!("import {address} --to redis://{to} --follow"));
    // Asking is the only way to see how far it is.
    while client.reply("GET before499\r\n") != "$3\r\n499\r\n" {
        std::thread::yield_now();
    }
    source.ask("SET after 1\r\n", "+OK\r\n");
    source.ask("DEL before0\r\n", ":1\r\n");
    source.ask("HSET hash field value\r\n", ":1\r\n");
    while client.reply("HGET hash field\r\n") != "$5\r\nvalue\r\n" {
        std::thread::yield_now();
    }
    client.ask("GET after\r\n", "$1\r\n1\r\n");
    client.ask("EXISTS before0\r\n", ":0\r\n");
    follow.signal("TERM");
    let out = follow.finish().exits(0);
    assert!(out.stdout.contains("500 strings"), "{}", out.stdout);
    // Once more, without following, over rows that are there.
    lab.run(&format!("import {address} --to {to}")).exits(0);
    client.ask("DBSIZE\r\n", ":501\r\n");
    redis.signal("TERM");
    redis.finish();
    served.end();
}

#[test]
fn a_running_memcached_moves_with_flags() {
    if !has("memcached") {
        return;
    }
    let lab = Lab::new();
    let memcached = start(&lab, "memcached", &["-s", "other", "-u", "root"]);
    let mut source = UnixClient::new(&lab.path("other"));
    source.ask("set a%b 7 0 3\r\nabc\r\n", "STORED\r\n");
    source.ask("set later 0 9000 1\r\nx\r\n", "STORED\r\n");
    let address = format!("memcached+unix://{}", lab.path("other").display());
    lab.run(&format!("import {address} --to data")).exits(0).says("2 strings");
    let served = Served::start(&lab, "--data-dir data --listen memcached://127.0.0.1:0");
    let mut client = served.connect("memcached");
    client.ask("get a%b\r\n", "VALUE a%b 7 3\r\nabc\r\nEND\r\n");
    client.ask("mg later v\r\n", "VA 1\r\nx\r\n");
    served.end();
    memcached.signal("TERM");
    memcached.finish();
}

/// A connection over a unix socket.
struct UnixClient {
    stream: UnixStream,
}

impl UnixClient {
    fn new(path: &Path) -> UnixClient {
        UnixClient { stream: UnixStream::connect(path).unwrap() }
    }

    #[track_caller]
    fn ask(&mut self, request: &str, reply: &str) {
        use std::io::{Read, Write};
        self.stream.write_all(request.as_bytes()).unwrap();
        let mut bytes = vec![0; reply.len()];
        self.stream.read_exact(&mut bytes).unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), reply);
    }
}

impl Client {
    /// A reply of one string, or of one line.
    fn reply(&mut self, request: &str) -> String {
        self.send(request);
        let line = self.line() + "\r\n";
        let has_string = line.starts_with('$') && !line.starts_with("$-");
        if has_string { line + &self.line() + "\r\n" } else { line }
    }
}

//! nutcracker (twemproxy) before two servers, with the configuration in `samples/nutcracker.yml`.
//!
//! It cannot be given a port of the kernel's choice, so it gets an address of its own: every
//! 127.x.y.z is this machine, and the last two numbers are the port of a server that is running.

use super::{ALL, host_and_port, program};
use crate::serve::{Client, Served};
use crate::support::{Lab, Running};
use std::net::TcpStream;
use std::thread;

const SAMPLE: &str = include_str!("../../../../samples/nutcracker.yml");

/// How often a connection is tried while nutcracker starts, which does not say when it is ready.
const TRIES_MAX: usize = 5_000_000;

/// Two servers, each in a lab of its own, and the proxy in a third.
struct Proxied {
    servers: [(Lab, Served); 2],
    proxy: Running,
    host: String,
    _lab: Lab,
}

impl Proxied {
    fn start(test: &str) -> Option<Proxied> {
        let nutcracker = program(test, "nutcracker")?;
        let servers = [(); 2].map(|()| {
            let lab = Lab::new();
            let served = Served::start(&lab, ALL);
            (lab, served)
        });
        let (_, port) = host_and_port(&servers[0].1, "resp");
        let [high, low] = port.parse::<u16>().unwrap().to_be_bytes();
        let host = format!("127.77.{high}.{low}");
        let mut sample = SAMPLE.replace("listen: 127.0.0.1:", &format!("listen: {host}:"));
        for ((_, served), [cache, rows]) in
            servers.iter().zip([["11211", "6379"], ["11212", "6380"]])
        {
            for (scheme, port) in [("memcached", cache), ("resp", rows)] {
                let usual = format!("127.0.0.1:{port}:1");
                assert!(sample.contains(&usual), "the sample names {usual}");
                sample = sample.replace(&usual, &format!("{}:1", served.address(scheme)));
            }
        }
        let lab = Lab::with("nutcracker.yml", sample);
        let conf = "--conf-file=nutcracker.yml";
        lab.tool(&nutcracker, &["--test-conf", conf]).exits(0);
        let stats = format!("--stats-addr={host}");
        let words = [conf, &stats, "--output=log", "--pid-file=pid"];
        let proxy = lab.start_tool(&nutcracker, &words);
        Some(Proxied { servers, proxy, host, _lab: lab })
    }

    fn connect(&self, port: u16) -> Client {
        for _ in 0..TRIES_MAX {
            if let Ok(stream) = TcpStream::connect((self.host.as_str(), port)) {
                return Client::new(stream);
            }
            thread::yield_now();
        }
        panic!("nutcracker does not listen on {}:{port}", self.host);
    }

    /// Asks the servers themselves.
    #[track_caller]
    fn both_have_a_share_of(&self, keys: usize) {
        let there = self.servers.each_ref().map(|(_, served)| {
            let mut direct = served.connect("resp");
            direct.send("DBSIZE\r\n");
            direct.line().trim_start_matches(':').parse::<usize>().unwrap()
        });
        assert_eq!(there.iter().sum::<usize>(), keys, "{there:?}");
        assert!(there.iter().all(|count| *count > keys / 10), "one has nearly nothing: {there:?}");
    }

    fn end(self) {
        self.proxy.signal("TERM");
        self.proxy.finish();
        for (_lab, served) in self.servers {
            served.end();
        }
    }
}

#[test]
fn memcached_behind_nutcracker_is_spread_over_servers() {
    const KEYS: usize = 400;
    let test = "memcached_behind_nutcracker_is_spread_over_servers";
    let Some(proxied) = Proxied::start(test) else {
        return;
    };
    let mut client = proxied.connect(22121);
    let keys: Vec<String> = (0..KEYS).map(|index| format!("key{index}")).collect();
    // All at once: the proxy holds the order of the replies, and each server answers a batch.
    let sets: String = keys.iter().map(|key| format!("set {key} 3 0 4\r\n{key:.4}\r\n")).collect();
    client.ask(sets, &"STORED\r\n".repeat(KEYS));
    for key in &keys {
        let value: String = key.chars().take(4).collect();
        client.ask(format!("get {key}\r\n"), &format!("VALUE {key} 3 4\r\n{value}\r\nEND\r\n"));
    }
    // A request of many keys is split, and its parts are put together as they come.
    client.send(format!("get {}\r\n", keys.join(" ")));
    let mut found = 0;
    loop {
        match client.line() {
            line if line == "END" => break,
            line if line.starts_with("VALUE key") => found += 1,
            line => assert!(line.starts_with("key"), "{line}"),
        }
    }
    assert_eq!(found, KEYS);
    client.ask("set n 0 0 1\r\n7\r\n", "STORED\r\n");
    client.ask("incr n 5\r\ndecr n 2\r\ndelete n\r\nget n\r\n", "12\r\n10\r\nDELETED\r\nEND\r\n");
    client.ask("set key0 0 0 1 noreply\r\nx\r\nget key0\r\n", "VALUE key0 0 1\r\nx\r\nEND\r\n");
    proxied.both_have_a_share_of(KEYS);
    proxied.end();
}

#[test]
fn both_pools_find_a_key_on_the_same_server() {
    let Some(proxied) = Proxied::start("both_pools_find_a_key_on_the_same_server") else {
        return;
    };
    let (mut cache, mut rows) = (proxied.connect(22121), proxied.connect(22122));
    for index in 0..50 {
        cache.ask(format!("set {{tag{index}}}x 0 0 1\r\nx\r\n"), "STORED\r\n");
        let key = format!("{{tag{index}}}x");
        rows.ask(format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len()), "$1\r\nx\r\n");
    }
    proxied.end();
}

#[test]
fn redis_behind_nutcracker_is_spread_over_servers() {
    const KEYS: usize = 400;
    let test = "redis_behind_nutcracker_is_spread_over_servers";
    let Some(proxied) = Proxied::start(test) else {
        return;
    };
    let mut client = proxied.connect(22122);
    let words = |words: &[&str]| {
        let parts = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        format!("*{}\r\n{}", words.len(), parts.collect::<String>())
    };
    let keys: Vec<String> = (0..KEYS).map(|index| format!("key{index:03}")).collect();
    let sets: String = keys.iter().map(|key| words(&["SET", key, key])).collect();
    client.ask(sets, &"+OK\r\n".repeat(KEYS));
    let refs: Vec<&str> = keys.iter().map(String::as_str).collect();
    let values: String = keys.iter().map(|key| format!("$6\r\n{key}\r\n")).collect();
    client.ask(words(&[&["MGET"], &refs[..]].concat()), &format!("*{KEYS}\r\n{values}"));
    for (request, reply) in [
        (&["PING"][..], "+PONG\r\n"),
        (&["INCR", "n"], ":1\r\n"),
        (&["APPEND", "key000", "!"], ":7\r\n"),
        (&["HSET", "h", "a", "1", "b", "2"], ":2\r\n"),
        (&["HGETALL", "h"], "*4\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n"),
        (&["EXPIRE", "h", "1000"], ":1\r\n"),
        (&["PERSIST", "h"], ":1\r\n"),
        (&["SET", "{h}other", "x"], "+OK\r\n"),
        (&["MSET", "p", "1", "q", "2"], "+OK\r\n"),
        (&["DEL", "h", "n", "{h}other", "p", "q", "missing"], ":5\r\n"),
    ] {
        client.ask(words(request), reply);
    }
    proxied.both_have_a_share_of(KEYS);
    proxied.end();
}

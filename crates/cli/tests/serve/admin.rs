//! The admin page: the same numbers for people and machines.

use super::{Client, Served};
use crate::support::{Lab, parse_json};
use std::net::TcpStream;

const WORDS: &str = "--engine masstree --threads 1 --listen memcached://127.0.0.1:0 \
                     --listen resp://127.0.0.1:0 --admin 127.0.0.1:0";

fn get(served: &Served, path: &str) -> (String, String) {
    let mut client = Client::new(TcpStream::connect(served.address("http")).unwrap());
    client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    let reply = client.rest();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[test]
fn page_metrics_and_json_tell_the_same() {
    let lab = Lab::new();
    let served = Served::start(&lab, WORDS);
    let mut client = served.connect("memcached");
    client.ask(
        "set a 0 0 1\r\nx\r\nget a\r\nget b\r\n",
        "STORED\r\nVALUE a 0 1\r\nx\r\nEND\r\nEND\r\n",
    );
    served.connect("resp").ask("PING\r\n", "+PONG\r\n");
    let (head, body) = get(&served, "/stats.json");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let stats = parse_json(&body);
    assert_eq!(stats["memcached"]["get_hits"], 1);
    assert_eq!(stats["memcached"]["cmd_set"], 1);
    assert_eq!(stats["redis"]["commands"], 1);
    assert_eq!(stats["rows"]["count"], 1);
    let (_, metrics) = get(&served, "/metrics");
    assert!(metrics.contains("\nkeyrack_memcached_get_misses_total 1\n"), "{metrics}");
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        let is_own = name.starts_with("keyrack_") || name.starts_with("process_");
        assert!(is_own && value.parse::<f64>().is_ok(), "{line}");
    }
    let (head, page) = get(&served, "/");
    assert!(head.contains("Content-Security-Policy: default-src 'none'"), "{head}");
    assert!(page.starts_with("<!doctype html>") && !page.contains("http://cdn"));
    assert!(get(&served, "/other").0.starts_with("HTTP/1.1 404"));
    client.send("stats\r\n");
    let mut seen = String::new();
    while !seen.ends_with("END\n") {
        seen += &(client.line() + "\n");
    }
    assert!(seen.contains("STAT get_hits 1\n"), "{seen}");
    served.end();
}

#[test]
fn probes_are_answered_whatever_name_they_use() {
    let lab = Lab::new();
    let served = Served::start(&lab, WORDS);
    for (path, body) in [("/health", "alive\n"), ("/ready", "ready\n")] {
        let mut client = Client::new(TcpStream::connect(served.address("http")).unwrap());
        client.send(format!("GET {path} HTTP/1.1\r\nHost: keyrack.internal\r\n\r\n"));
        let reply = client.rest();
        assert!(reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.ends_with(body), "{reply}");
    }
    served.end();
}

/// A client that does not read its replies holds the end up for the grace, and the page says so.
#[test]
fn a_server_that_stops_is_not_ready() {
    let lab = Lab::new();
    let served = Served::start(&lab, &format!("{WORDS} --shutdown-grace 60"));
    let mut slow = served.connect("resp");
    let value = "v".repeat(1 << 20);
    slow.ask(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048576\r\n{value}\r\n"), "+OK\r\n");
    slow.send("GET k\r\n".repeat(12));
    slow.take(1);
    let mut other = served.connect("resp");
    other.send("SHUTDOWN\r\n");
    // The end has begun before the connection that asked for it is closed.
    assert_eq!(other.rest(), "");
    let (head, body) = get(&served, "/ready");
    assert!(head.starts_with("HTTP/1.1 503 Service Unavailable"), "{head}");
    assert_eq!(body, "stopping: SHUTDOWN\n");
    assert!(get(&served, "/health").0.starts_with("HTTP/1.1 200"));
    drop(slow);
    served.child.finish().exits(0);
}

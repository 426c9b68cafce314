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
        assert!(name.starts_with("keyrack_") && value.parse::<f64>().is_ok(), "{line}");
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

//! What the log of a server says.

use super::{Served, write_secret};
use crate::support::Lab;
use serde_json::Value;

/// The events of a log of JSON lines.
fn events(stderr: &str) -> Vec<Value> {
    let lines = stderr.lines().filter(|line| line.starts_with('{'));
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_wrong_password_is_in_the_log_and_a_flood_of_them_is_a_few_lines() {
    let lab = Lab::new();
    write_secret(&lab, "open sesame");
    let served = Served::start(
        &lab,
        "--engine masstree --threads 1 --log-format json --log-level warn --password-file secret \
         --listen memcached://127.0.0.1:0 --listen resp://127.0.0.1:0",
    );
    served.connect("resp").ask("AUTH wrong\r\n", "-WRONGPASS");
    let mut memcached = served.connect("memcached");
    memcached.send("set auth 0 0 7\r\nu wrong\r\n");
    assert!(memcached.rest().starts_with("CLIENT_ERROR"));
    for _ in 0..200 {
        served.connect("resp").ask("AUTH guess\r\n", "-WRONGPASS");
    }
    let stderr = served.end();
    assert!(!stderr.contains("sesame") && !stderr.contains("guess"), "{stderr}");
    let events = events(&stderr);
    for protocol in ["redis", "memcached"] {
        let found = events.iter().find(|event| event["protocol"] == protocol);
        let event = found.unwrap_or_else(|| panic!("no {protocol} in:\n{stderr}"));
        assert_eq!(event["level"], "warn");
        assert_eq!(event["message"], "a client gave a wrong password");
        assert!(event["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{event}");
    }
    // Those that were not written are counted by the next one that is.
    assert!(events.iter().all(|event| event["unsaid"].is_u64()), "{stderr}");
    assert!(events.iter().all(|event| event["level"] != "info"), "{stderr}");
    assert!(events.len() < 200, "{} lines", events.len());
}

#[test]
fn the_log_is_text_for_people_and_evictions_are_in_it() {
    let lab = Lab::new();
    let served = Served::start(
        &lab,
        "--engine masstree --threads 1 --memory-max 1M --eviction clock \
         --listen resp://127.0.0.1:0",
    );
    let mut client = served.connect("resp");
    let value = "v".repeat(10_000);
    for index in 0..2_000 {
        client.ask(format!("SET k{index} {value}\r\n"), "+OK\r\n");
    }
    drop(client);
    let stderr = served.end();
    assert!(stderr.contains("rows were evicted rows="), "{stderr}");
}

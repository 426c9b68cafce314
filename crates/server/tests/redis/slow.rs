//! SLOWLOG and LATENCY. With the threshold 0 every command is slow, so nothing depends on time.

use crate::redis::tool::{Site, draw};
use keyrack_server::Password;
use keyrack_server::redis::Options;

/// The arguments of all entries of SLOWLOG, the newest first.
fn entries(reply: &str) -> Vec<String> {
    // Each entry: an id, a time, a duration, the arguments, a peer and a name.
    let mut found = Vec::new();
    let mut words = reply.split(' ').peekable();
    while let Some(word) = words.next() {
        if word == "*6" {
            let count = words.by_ref().nth(3).unwrap().strip_prefix('*').unwrap();
            let count: usize = count.parse().unwrap();
            let args: Vec<&str> = words.by_ref().take(2 * count).skip(1).step_by(2).collect();
            found.push(args.join("_"));
        }
    }
    found
}

#[test]
fn slow_commands_are_noted_without_passwords_whatever_runs_them() {
    let mut options = Options::default();
    options.password = Password::new(b"sesame");
    let (_, mut the_loop, mut client) = Site::new(options, 1).serve();
    the_loop.ask(&mut client, &["AUTH", "sesame"]);
    assert_eq!(the_loop.ask(&mut client, &["SLOWLOG", "LEN"]), ":0");
    the_loop.ask(&mut client, &["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    the_loop.ask(&mut client, &["SLOWLOG", "RESET"]);
    the_loop.ask(&mut client, &["AUTH", "sesame"]);
    the_loop.ask(&mut client, &["AUTH", "ann", "wrong"]);
    the_loop.ask(&mut client, &["HELLO", "2", "AUTH", "default", "sesame", "SETNAME", "me"]);
    the_loop.ask(&mut client, &["CONFIG", "SET", "requirepass", "sesame"]);
    the_loop.ask(&mut client, &["SET", "k", "v"]);
    // Two GETs that are looked up together.
    the_loop.feed(&mut client, b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*2\r\n$3\r\nget\r\n$1\r\nl\r\n");
    // A transaction, and a command in slices.
    the_loop.feed(&mut client, b"MULTI\r\nDEL k\r\nEXEC\r\nKEYS a*\r\n");
    let reply = the_loop.ask(&mut client, &["SLOWLOG", "GET", "-1"]);
    assert!(!reply.contains("sesame") && !reply.contains("wrong"), "{reply}");
    assert_eq!(
        entries(&reply),
        [
            "KEYS_a*",
            "EXEC",
            "DEL_k",
            "MULTI",
            "GET_k_l",
            "SET_k_v",
            "CONFIG_SET_requirepass_(redacted)",
            "HELLO_2_AUTH_(redacted)_(redacted)_(redacted)_(redacted)",
            "AUTH_(redacted)_(redacted)",
            "AUTH_(redacted)",
            "SLOWLOG_RESET",
        ],
        "{reply}"
    );
    assert!(reply.contains("$15 127.0.0.1:50000 $2 me"), "{reply}");
    the_loop.ask(&mut client, &["CONFIG", "SET", "slowlog-max-len", "2"]);
    the_loop.ask(&mut client, &["PING"]);
    assert_eq!(the_loop.ask(&mut client, &["SLOWLOG", "LEN"]), ":2");
    the_loop.ask(&mut client, &["CONFIG", "SET", "slowlog-log-slower-than", "-1"]);
    the_loop.ask(&mut client, &["SLOWLOG", "RESET"]);
    the_loop.ask(&mut client, &["SET", "k", "v"]);
    assert_eq!(the_loop.ask(&mut client, &["SLOWLOG", "LEN"]), ":0");
}

#[test]
fn a_slowlog_of_more_than_its_limit_is_refused() {
    let (_, mut the_loop, mut client) = Site::new(Options::default(), 1).serve();
    let mut set =
        |value: &str| the_loop.ask(&mut client, &["CONFIG", "SET", "slowlog-max-len", value]);
    assert_eq!(set("4096"), "+OK");
    assert!(set("4097").contains("argument must be between 0 and 4096"));
    assert!(set("-1").starts_with("-ERR"));
}

/// Counts, not times: each call is in one bucket, and the last number is that of all.
#[test]
fn a_histogram_has_every_call_once_and_is_cumulative() {
    let (_, mut the_loop, mut client) = Site::new(Options::default(), 1).serve();
    for _ in 0..50 {
        the_loop.feed(&mut client, b"SET k v\r\nGET k\r\nGET k\r\nGET l\r\nKEYS *\r\n");
    }
    for (name, calls) in [("set", 50), ("get", 150), ("keys", 50)] {
        let bytes = format!("LATENCY HISTOGRAM {name}\r\n");
        let text = draw(&the_loop.feed(&mut client, bytes.as_bytes()));
        let numbers: Vec<u64> = text
            .lines()
            .filter_map(|line| line.trim().strip_prefix("(integer) ")?.parse().ok())
            .collect();
        assert_eq!(numbers[0], calls, "{text}");
        let (bounds, counts): (Vec<u64>, Vec<u64>) =
            numbers[1..].chunks(2).map(|pair| (pair[0], pair[1])).unzip();
        assert!(bounds.iter().all(|bound| bound.is_power_of_two()), "{text}");
        assert!(bounds.is_sorted() && counts.is_sorted(), "{text}");
        assert_eq!(counts.last(), Some(&calls), "{text}");
    }
    assert_eq!(the_loop.ask(&mut client, &["LATENCY", "HISTOGRAM", "append", "nosuch"]), "*0");
}

//! The tools of Redis: its terminal client and its benchmark.

use super::{ALL, done, host_and_port, program};
use crate::serve::Served;
use crate::support::Lab;
use std::path::PathBuf;

/// A server, and its client.
struct Terminal {
    lab: Lab,
    served: Served,
    cli: PathBuf,
    host: String,
    port: String,
}

impl Terminal {
    fn start(test: &str) -> Option<Terminal> {
        let cli = program(test, "redis-cli")?;
        let lab = Lab::new();
        let served = Served::start(&lab, ALL);
        let (host, port) = host_and_port(&served, "resp");
        Some(Terminal { lab, served, cli, host, port })
    }

    #[track_caller]
    fn says(&self, words: &[&str]) -> String {
        let all = [&["-h", &self.host, "-p", &self.port], words].concat();
        done(&self.lab, &self.cli, &all).trim_end().to_owned()
    }
}

#[test]
fn redis_cli_prints_what_redis_answers() {
    let Some(terminal) = Terminal::start("redis_cli_prints_what_redis_answers") else {
        return;
    };
    for (words, wanted) in [
        (&["ping"][..], "PONG"),
        (&["set", "k", "größe"], "OK"),
        (&["get", "k"], "größe"),
        (&["strlen", "k"], "7"),
        (&["get", "missing"], ""),
        (&["hset", "h", "a", "1", "b", "2"], "2"),
        (&["hgetall", "h"], "a\n1\nb\n2"),
        (&["--no-raw", "hgetall", "h"], "1) \"a\"\n2) \"1\"\n3) \"b\"\n4) \"2\""),
        (&["-3", "--no-raw", "hgetall", "h"], "1# \"a\" => \"1\"\n2# \"b\" => \"2\""),
        (&["-3", "--no-raw", "get", "missing"], "(nil)"),
        (&["-3", "--json", "hgetall", "h"], "{\"a\":\"1\",\"b\":\"2\"}"),
        (&["--no-raw", "-r", "3", "incr", "n"], "(integer) 1\n(integer) 2\n(integer) 3"),
        (&["type", "h"], "hash"),
        (&["kr.range", "a", "z", "limit", "2"], "h\n\nk\ngröße"),
        (&["dbsize"], "3"),
    ] {
        assert_eq!(terminal.says(words), wanted, "{words:?}");
    }
    let refused = terminal.says(&["nosuch", "word"]);
    assert!(refused.starts_with("ERR unknown command 'nosuch'"), "{refused}");
    let info = terminal.says(&["info"]);
    for line in ["redis_version:", "connected_clients:", "used_memory:", "db0:keys=3"] {
        assert!(info.contains(line), "no {line} in:\n{info}");
    }
    terminal.served.end();
}

#[test]
fn redis_cli_runs_commands_from_a_file() {
    let Some(terminal) = Terminal::start("redis_cli_runs_commands_from_a_file") else {
        return;
    };
    let commands = "multi\nset a 1\nincr a\nhset h f v\nexec\nget a\nwatch a\nunwatch\nmulti\n\
                    set b 1\ndiscard\nexists b\n";
    terminal.lab.write("commands", commands);
    let Terminal { lab, cli, host, port, .. } = &terminal;
    let script = format!("{} -h {host} -p {port} <commands", cli.display());
    let said = lab.shell(&script).exits(0).stdout;
    assert_eq!(
        said, "OK\nQUEUED\nQUEUED\nQUEUED\nOK\n2\n1\n2\nOK\nOK\nOK\nQUEUED\nOK\n0\n",
        "the replies, in order"
    );
    terminal.served.end();
}

#[test]
fn a_mass_of_commands_goes_in_and_a_scan_finds_all() {
    const KEYS: usize = 20_000;
    let Some(terminal) = Terminal::start("a_mass_of_commands_goes_in_and_a_scan_finds_all") else {
        return;
    };
    let mass: String = (0..KEYS)
        .map(|index| {
            let key = format!("mass:{index:06}");
            format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n$5\r\nvalue\r\n", key.len())
        })
        .collect();
    terminal.lab.write("mass", mass);
    let Terminal { lab, cli, host, port, .. } = &terminal;
    let script = format!("{} -h {host} -p {port} --pipe <mass", cli.display());
    lab.shell(&script).exits(0).says(&format!("errors: 0, replies: {KEYS}"));
    assert_eq!(terminal.says(&["dbsize"]), KEYS.to_string());
    let scanned = terminal.says(&["--scan", "--pattern", "mass:*"]);
    let mut keys: Vec<&str> = scanned.lines().collect();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), KEYS);
    let some = terminal.says(&["--scan", "--pattern", "mass:00000?"]);
    assert_eq!(some.lines().count(), 10, "{some}");
    let big = terminal.says(&["--bigkeys"]);
    assert!(big.contains(&format!("Sampled {KEYS} keys")), "{big}");
    let memory = terminal.says(&["--memkeys"]);
    assert!(memory.contains(&format!("Sampled {KEYS} keys")), "{memory}");
    terminal.served.end();
}

#[test]
fn redis_benchmark_prints_its_rates() {
    let test = "redis_benchmark_prints_its_rates";
    let Some(benchmark) = program(test, "redis-benchmark") else {
        return;
    };
    let lab = Lab::new();
    let served = Served::start(&lab, ALL);
    let (host, port) = host_and_port(&served, "resp");
    let size = ["-h", &host, "-p", &port, "-n", "5000", "-c", "20", "--csv", "-r", "1000"];
    let tests = ["ping", "set", "get", "incr", "hset", "mset"];
    let list = tests.join(",");
    for depth in ["1", "16", "64"] {
        let words = [&size[..], &["-P", depth, "-t", &list]].concat();
        let outcome = lab.tool(&benchmark, &words).exits(0);
        for name in ["SET", "GET", "INCR", "HSET", "MSET (10 keys)"] {
            let row = outcome.stdout.lines().find(|row| row.starts_with(&format!("\"{name}\",")));
            let rate = row.and_then(|row| row.split('"').nth(3)?.parse::<f64>().ok());
            assert!(rate.is_some_and(|rate| rate > 0.0), "{name}: {}", outcome.told());
        }
        assert!(!outcome.stderr.contains("rror"), "{}", outcome.told());
    }
    let threads = [&size[..], &["-P", "16", "--threads", "2", "-t", "set,get"]].concat();
    lab.tool(&benchmark, &threads).exits(0);
    let words = [&size[..], &["-P", "16", "kr.range", "key:", "key;", "limit", "3"]].concat();
    lab.tool(&benchmark, &words).exits(0);
    served.end();
}

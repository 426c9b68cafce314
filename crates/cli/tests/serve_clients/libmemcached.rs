//! The tools of libmemcached: the suites of `memccapable`, and files that go there and back.

use super::{ALL, done, host_and_port, program};
use crate::serve::Served;
use crate::support::Lab;

/// The tests of `memccapable` 1.1.4: ascii, binary.
const SUITES: [(&str, usize); 2] = [("-a", 27), ("-b", 27)];

#[test]
fn memccapable_finds_nothing_wrong() {
    let Some(memccapable) = program("memccapable_finds_nothing_wrong", "memccapable") else {
        return;
    };
    let lab = Lab::new();
    let served = Served::start(&lab, ALL);
    let (host, port) = host_and_port(&served, "memcached");
    for (suite, least) in SUITES {
        let words = ["-h", &host, "-p", &port, "-t", "30", "-v", suite];
        let outcome = lab.tool(&memccapable, &words).exits(0);
        let passed = outcome.stdout.lines().filter(|line| line.ends_with("[pass]")).count();
        assert!(passed >= least && !outcome.stdout.contains("[FAIL]"), "{}", outcome.told());
        assert!(outcome.stdout.contains("All tests passed"), "{}", outcome.told());
    }
    served.end();
}

#[test]
fn files_go_there_and_back() {
    let test = "files_go_there_and_back";
    let names = ["memccp", "memccat", "memcexist", "memctouch", "memcrm", "memcstat", "memcping"];
    let found: Vec<_> = names.iter().map_while(|name| program(test, name)).collect();
    let Ok([cp, cat, exist, touch, rm, stat, ping]) = <[_; 7]>::try_from(found) else {
        return;
    };
    let lab = Lab::new();
    let served = Served::start(&lab, ALL);
    let servers = format!("--servers={}", served.address("memcached"));
    let large: String = (0..50_000).map(|line| format!("line {line}\n")).collect();
    let files = [("small", "a few words\n"), ("empty", ""), ("large", large.as_str())];
    for (binary, way) in [false, true].into_iter().zip(["text", "binary"]) {
        let with = |words: &[&'static str]| -> Vec<String> {
            let protocol = binary.then_some("--binary").into_iter();
            let words = protocol.chain(words.iter().copied()).map(str::to_owned);
            std::iter::once(servers.clone()).chain(words).collect()
        };
        let run = |tool, words: &[&'static str]| lab.tool(tool, &with(words));
        lab.tool(&ping, &[&servers]).exits(0);
        for (name, text) in files {
            lab.write(name, text);
            run(&cp, &[name]).exits(0);
            run(&exist, &[name]).exits(0);
            run(&touch, &["--expire=1000", name]).exits(0);
            let seen = run(&cat, &[name]).exits(0).stdout;
            assert_eq!(seen.trim_end(), text.trim_end(), "{name} by {way}");
        }
        let stats = run(&stat, &[]).exits(0).stdout;
        assert!(stats.contains("curr_items: 3"), "{stats}");
        for (name, _) in files {
            run(&rm, &[name]).exits(0);
            let gone = run(&exist, &[name]);
            assert!(gone.status != 0, "{}", gone.told());
        }
    }
    served.end();
}

#[test]
fn memcslap_and_memcflush_end_well() {
    let test = "memcslap_and_memcflush_end_well";
    let (Some(slap), Some(flush)) = (program(test, "memcslap"), program(test, "memcflush")) else {
        return;
    };
    let lab = Lab::new();
    let served = Served::start(&lab, ALL);
    let servers = format!("--servers={}", served.address("memcached"));
    for kind in ["--test=set", "--test=get", "--test=mget"] {
        // Not `--buffer`: with it the tool ends by an assertion of its own, before memcached too.
        for more in [&[][..], &["--binary"], &["--non-blocking"], &["--tcp-nodelay"]] {
            let load = ["--concurrency=3", "--execute-number=300", &servers, kind];
            let said = done(&lab, &slap, &[&load, more].concat());
            assert!(!said.contains("rror"), "{kind} {more:?}:\n{said}");
        }
    }
    let mut client = served.connect("memcached");
    client.ask("set k 0 0 1\r\nx\r\n", "STORED\r\n");
    done(&lab, &flush, &[&servers]);
    client.ask("get k\r\n", "END\r\n");
    served.end();
}

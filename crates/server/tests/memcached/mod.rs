//! What `stats` and the commands that look into a cache tell, beside what memcached tells.

use crate::glue::{Client, Real, options, start};
use keyrack_rowstore::{Options as RowOptions, RowStore};
use keyrack_server::Server;
use keyrack_store::Durability;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Read, Write};
use std::os::unix::net::UnixStream;

impl<S: Read + Write> Client<S> {
    /// The lines of a reply up to one that ends replies.
    fn lines(&mut self, request: &str) -> Vec<String> {
        self.send(&format!("{request}\r\n"));
        let ends = |line: &str| {
            ["END", "OK", "RESET"].contains(&line)
                || line.starts_with("ERROR")
                || line.starts_with("CLIENT_ERROR")
        };
        let mut lines = vec![self.line()];
        while !ends(&lines[lines.len() - 1]) {
            lines.push(self.line());
        }
        lines
    }

    fn stats(&mut self, group: &str) -> BTreeMap<String, String> {
        let mut stats = BTreeMap::new();
        for line in self.lines(format!("stats {group}").trim_end()) {
            let Some(rest) = line.strip_prefix("STAT ") else { continue };
            let (name, value) = rest.split_once(' ').unwrap_or((rest, ""));
            let before = stats.insert(name.to_owned(), value.to_owned());
            assert_eq!(before, None, "{name} is told twice");
        }
        stats
    }
}

fn serve() -> Server {
    let rows = RowOptions { durability: Durability::None, ..RowOptions::default() };
    let rows = RowStore::in_memory(rows).unwrap();
    start(Box::new(rows), &options(&["memcached://127.0.0.1:0"])).0
}

/// Names of memcached's `stats` that are not told, each with its reason.
const NOT_TOLD: [&str; 5] = [
    // There is no libevent.
    "libevent",
    // A row that has expired is not there for a reader, who cannot tell it from one that never was.
    "get_expired",
    // Whether a row that went was ever read is not kept.
    "expired_unfetched",
    "evicted_unfetched",
    "evicted_active",
];

/// How names of memcached's `stats settings` begin that are about parts which are not here: slabs,
/// LRU lists, the hash table, its threads, storage outside of memory, its buffers, its way of TLS.
const SETTINGS_NOT_TOLD: &[&str] = &[
    "slab_",
    "growth_factor",
    "chunk_size",
    "lru_crawler_",
    "hot_",
    "warm_",
    "temporary_ttl",
    "hashpower_init",
    "hash_algorithm",
    "num_threads_per_udp",
    "reqs_per_event",
    "tcp_backlog",
    "tail_repair_time",
    "ext_",
    "watcher_logbuf_size",
    "worker_logbuf_size",
    "read_buf_mem_limit",
    "num_napi_ids",
    "memory_file",
    "ssl_verify_mode",
    "ssl_keyformat",
    "ssl_ciphers",
    "ssl_wbuf_size",
];

#[test]
fn every_value_of_stats_is_told_that_memcached_tells() {
    let arguments = ["-u", "root", "-vv", "-s"];
    let real = Real::start("memcached", "memcached 1.6.", &arguments, "server listening");
    let Some(real) = real else {
        assert!(std::env::var_os("CI").is_none(), "there is no memcached on this machine");
        println!("SKIPPED: memcached 1.6 is not installed");
        return;
    };
    let server = serve();
    let mut ours = Client::of(&server);
    let mut theirs = Client(BufReader::new(UnixStream::connect(&real.socket).unwrap()));
    let told = |stats: BTreeMap<String, String>| stats.into_keys().collect::<BTreeSet<_>>();
    let (general, real_general) = (told(ours.stats("")), told(theirs.stats("")));
    let missing: Vec<&String> = real_general.difference(&general).collect();
    let wanted: Vec<&str> = NOT_TOLD.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
    assert_eq!(missing, wanted);
    let settings = told(ours.stats("settings"));
    let missing: Vec<String> = told(theirs.stats("settings"))
        .into_iter()
        .filter(|name| !settings.contains(name))
        .filter(|name| !SETTINGS_NOT_TOLD.iter().any(|start| name.starts_with(start)))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    drop((ours, theirs));
    server.end().unwrap();
}

#[test]
fn stats_count_connections_items_and_bytes() {
    let server = serve();
    let mut client = Client::of(&server);
    let mut other = Client::of(&server);
    assert_eq!(other.ask("version").split(' ').next(), Some("VERSION"));
    let set = "set k 0 0 1\r\nv";
    assert_eq!((client.ask(set), client.ask(set)), ("STORED".to_owned(), "STORED".to_owned()));
    assert_eq!(client.lines("get k"), ["VALUE k 0 1", "v", "END"]);
    let stats = client.stats("");
    let number = |name: &str| stats[name].parse::<u64>().unwrap();
    assert_eq!((number("curr_connections"), number("total_connections")), (2, 2));
    assert_eq!((number("total_items"), number("curr_items")), (2, 1));
    assert_eq!((number("cmd_set"), number("get_hits")), (2, 1));
    // Of this connection 2 sets, a get and `stats`; of the other `version`.
    let sent = 2 * (set.len() + 2) + "get k\r\n".len() + "version\r\n".len();
    assert!((sent as u64..sent as u64 + 10).contains(&number("bytes_read")), "{stats:?}");
    assert!(number("bytes_written") > 30);
    drop((client, other));
    server.end().unwrap();
}

#[test]
fn a_cache_can_be_looked_into() {
    let server = serve();
    let mut client = Client::of(&server);
    client.ask("set plain 0 0 3\r\nabc");
    client.ask("set a/b 0 100 1\r\nx");
    let dumped = client.lines("lru_crawler metadump all");
    assert_eq!(dumped.len(), 3, "{dumped:?}");
    assert!(
        dumped[0].starts_with("key=a%2Fb exp=1") && dumped[0].contains(" fetch=no cls=1 size=4")
    );
    assert!(dumped[1].starts_with("key=plain exp=-1 la="), "{dumped:?}");
    let items = client.lines("stats cachedump 1 0");
    assert_eq!(items[1..], ["ITEM plain [3 b; 0 s]", "END"]);
    assert!(items[0].starts_with("ITEM a/b [1 b; 1"), "{items:?}");
    assert_eq!(client.lines("stats cachedump 1 1").len(), 2);
    assert_eq!(client.ask("stats cachedump 2 0"), "END");
    assert_eq!(client.ask("stats cachedump 99 1"), "CLIENT_ERROR Illegal slab id");
    assert_eq!(client.ask("stats cachedump"), "CLIENT_ERROR bad command line");
    assert_eq!(client.ask("stats nothing"), "ERROR");
    assert_eq!(client.ask("lru_crawler"), "ERROR");
    assert_eq!(client.lines("stats sizes"), ["STAT sizes_status disabled", "END"]);
    drop(client);
    server.end().unwrap();
}

/// More rows than a slice has: the dump is whole and in order, and what follows is answered after.
#[test]
fn a_metadump_of_many_rows_is_whole() {
    let server = serve();
    let mut client = Client::of(&server);
    const ROWS: usize = 10_000;
    let sets: String =
        (0..ROWS).map(|index| format!("set k{index:05} 0 0 1 noreply\r\nv\r\n")).collect();
    client.send(&sets);
    client.send("lru_crawler metadump all\r\nmn\r\n");
    for index in 0..ROWS {
        let line = client.line();
        assert!(line.starts_with(&format!("key=k{index:05} ")), "{line}");
    }
    assert_eq!((client.line(), client.line()), ("END".to_owned(), "MN".to_owned()));
    drop(client);
    server.end().unwrap();
}

#[test]
fn prefixes_are_counted_when_asked_for() {
    let server = serve();
    let mut client = Client::of(&server);
    assert_eq!(client.ask("stats detail"), "CLIENT_ERROR usage: stats detail on|off|dump");
    assert_eq!(client.ask("stats detail on"), "OK");
    client.ask("set p:a 0 0 1\r\nv");
    client.lines("get p:a p:b none");
    client.ask("mg p:a");
    client.ask("delete p:a");
    assert_eq!(client.lines("stats detail dump"), ["PREFIX p get 3 hit 2 set 1 del 1", "END"]);
    assert_eq!(client.ask("delete p:a"), "NOT_FOUND");
    assert_eq!(client.ask("replace p:a 0 0 1\r\nv"), "NOT_STORED");
    let commands = ["PREFIX p get 3 hit 2 set 2 del 2", "END"];
    assert_eq!(client.lines("stats detail dump"), commands, "what came to nothing counts, too");
    assert_eq!(client.ask("stats detail off"), "OK");
    assert_eq!(client.ask("stats reset"), "RESET");
    assert_eq!(client.ask("stats detail dump"), "END");
    drop(client);
    server.end().unwrap();
}

/// A client that was refused went on to read the value that it wanted to replace.
#[test]
fn the_old_value_goes_when_the_new_one_is_too_large() {
    let server = serve();
    let mut client = Client::of(&server);
    let large = "x".repeat((1 << 20) + 1);
    for (command, is_left) in [
        (format!("set k 0 0 {}\r\n{large}", large.len()), false),
        (format!("ms k {}\r\n{large}", large.len()), false),
        (format!("add k 0 0 {}\r\n{large}", large.len()), true),
        (format!("append k 0 0 {}\r\n{large}", large.len()), true),
    ] {
        assert_eq!(client.ask("set k 0 0 1\r\nv"), "STORED");
        assert_eq!(client.ask(&command), "SERVER_ERROR object too large for cache");
        assert_eq!(client.lines("get k").len() > 1, is_left, "{}", &command[..10]);
    }
    drop(client);
    server.end().unwrap();
}

/// A line of keys may have a mebibyte, its end included; the answer is that of short lines.
#[test]
fn a_line_of_a_mebibyte_of_keys_is_answered() {
    const LINE_BYTES_MAX: usize = 1 << 20;
    let server = serve();
    let mut client = Client::of(&server);
    client.ask("set k 0 0 1\r\nv");
    let mut line = "get".to_owned();
    while line.len() < LINE_BYTES_MAX - 300 {
        line.push_str(&format!(" {:0200}", line.len()));
    }
    line.push_str(" k");
    line.push_str(&" ".repeat(LINE_BYTES_MAX - 2 - line.len()));
    assert_eq!(client.lines(&line), ["VALUE k 0 1", "v", "END"]);
    line.push(' ');
    client.send(&line);
    client.send("\r\n");
    assert_eq!(client.line(), "CLIENT_ERROR line too long");
    drop(client);
    server.end().unwrap();
}

#[test]
fn a_row_too_large_for_the_log_was_out_of_memory() {
    let ask = |rows: RowOptions, bytes: usize| {
        let rows = RowStore::in_memory(rows).unwrap();
        let listen = options(&["memcached://127.0.0.1:0"]);
        let server = start(Box::new(rows), &listen).0;
        let mut client = Client::of(&server);
        let reply = client.ask(&format!("set k 0 0 {bytes}\r\n{}", "x".repeat(bytes)));
        let refused = client.stats("")["store_no_memory"].clone();
        drop(client);
        server.end().unwrap();
        (reply, refused)
    };
    let full = RowOptions { memory_max: 100_000, ..RowOptions::default() };
    let (reply, refused) = ask(full, 200_000);
    assert_eq!(reply, "SERVER_ERROR out of memory storing object");
    assert_eq!(refused, "1");
    let (reply, refused) = ask(RowOptions::default().with_segment_bytes(64 << 10), 60_000);
    assert!(reply.contains("a row has at most") && reply.contains("got 60000"), "{reply}");
    assert_eq!(refused, "0");
}

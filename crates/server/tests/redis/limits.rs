//! Hostile and oversized requests, slices, and what is bounded.

use crate::redis::tool::{START_MS, Site, draw};
use keyrack_net::Verdict;
use keyrack_rowstore::{Options as RowOptions, Row, RowStore, Rows};
use keyrack_server::redis::Options;
use keyrack_testkit::random::seed_or;
use keyrack_vfs::MemFs;
use keyrack_workload::Rng;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

fn small() -> Options {
    let mut options = Options::default();
    options.slice_rows_max = 10;
    options.reply_bytes_max = 1000;
    options.queue_bytes_max = 500;
    options.watched_max = 3;
    options
}

#[test]
fn before_authentication_requests_are_small() {
    let mut options = Options::default();
    options.password = keyrack_server::Password::new(b"secret");
    let site = Site::new(options, 1);
    let mut the_loop = site.a_loop(0);
    for (bytes, expected) in [
        (&b"*11\r\n"[..], "! ERR Protocol error: unauthenticated multibulk length\n"),
        (b"*1\r\n$16385\r\n", "! ERR Protocol error: unauthenticated bulk length\n"),
    ] {
        let mut client = the_loop.client();
        assert_eq!(draw(&the_loop.feed(&mut client, bytes)), expected);
        assert!(client.is_closed);
    }
    // As soon as it has authenticated, in the same read.
    let mut client = the_loop.client();
    let mut bytes = b"AUTH secret\r\nMSET".to_vec();
    (0..20).for_each(|key| bytes.extend_from_slice(format!(" k{key} v").as_bytes()));
    bytes.extend_from_slice(b"\r\n");
    assert_eq!(draw(&the_loop.feed(&mut client, &bytes)), "OK\nOK\n");
}

#[test]
fn a_value_above_the_limit_refuses_its_command_and_the_connection_goes_on() {
    let mut options = Options::default();
    options.bulk_bytes_max = 1 << 20;
    let (_, mut the_loop, mut client) = Site::new(options, 1).serve();
    let (fits, above) = (vec![b'v'; 1 << 20], vec![b'v'; (1 << 20) + 1]);
    let mut bytes = Vec::new();
    keyrack_wire::resp::command(&mut bytes, &[b"SET", b"fits", &fits]);
    keyrack_wire::resp::command(&mut bytes, &[b"SET", b"above", &above]);
    keyrack_wire::resp::command(&mut bytes, &[b"EXISTS", b"fits", b"above"]);
    let reply = draw(&the_loop.feed(&mut client, &bytes));
    let lines: Vec<&str> = reply.lines().collect();
    assert!(lines[1].starts_with("! ERR an argument exceeds the 1048576 bytes"), "{reply}");
    assert_eq!((lines[0], lines[2]), ("OK", "(integer) 1"), "{reply}");
    assert!(!client.is_closed);
    // A transaction that it was for is broken.
    the_loop.ask(&mut client, &["MULTI"]);
    bytes.clear();
    keyrack_wire::resp::command(&mut bytes, &[b"SET", b"above", &above]);
    the_loop.feed(&mut client, &bytes);
    assert!(the_loop.ask(&mut client, &["EXEC"]).starts_with("-EXECABORT"));
}

/// Everybody waited 40 seconds for one transaction of a thousand KEYS.
#[test]
fn an_exec_of_too_much_work_stops_there_and_changes_nothing() {
    const ROWS: u64 = 3000;
    let mut options = Options::default();
    options.transaction_work_max = 5000;
    let (_, mut the_loop, mut client) = Site::new(options, 1).serve();
    let mut bytes = Vec::new();
    for n in 0..ROWS {
        let key = format!("k{n}");
        keyrack_wire::resp::command(&mut bytes, &[b"SET", key.as_bytes(), b"v"]);
    }
    the_loop.feed(&mut client, &bytes);
    let refused = "-EXECABORT Transaction discarded because of: the command or transaction would \
                   take more than 5000 units of work (--transaction-work-max); nothing was changed";
    let keys = ["KEYS", "*"];
    for queued in [&[&keys[..]; 1000][..], &[&["SET", "k0", "new"][..]; 2000], &[&keys[..]; 2]] {
        the_loop.ask(&mut client, &["MULTI"]);
        the_loop.ask(&mut client, &["SET", "new", "1"]);
        the_loop.ask(&mut client, &["DEL", "k0", "k1"]);
        queued.iter().for_each(|words| drop(the_loop.ask(&mut client, words)));
        let before = the_loop.work.spent();
        assert_eq!(the_loop.ask(&mut client, &["EXEC"]), refused);
        // No more than the limit, one row, and the reply of one KEYS.
        assert!(the_loop.work.spent() - before <= 5000 + 100);
        assert_eq!(the_loop.ask(&mut client, &["DBSIZE"]), format!(":{ROWS}"));
        assert_eq!(the_loop.ask(&mut client, &["EXISTS", "new", "k0", "k1"]), ":2");
        assert_eq!(the_loop.ask(&mut client, &["GET", "k0"]), "$1 v");
    }
    the_loop.ask(&mut client, &["MULTI"]);
    the_loop.ask(&mut client, &keys);
    the_loop.ask(&mut client, &["SET", "new", "1"]);
    assert!(the_loop.ask(&mut client, &["EXEC"]).ends_with("+OK"), "within the limit");
}

#[test]
fn a_command_over_more_keys_than_the_limit_is_refused_before_anything_is_changed() {
    let mut options = Options::default();
    options.transaction_work_max = 100;
    let (_, mut the_loop, mut client) = Site::new(options, 1).serve();
    let numbers: Vec<String> = (0..200).map(|n| n.to_string()).collect();
    let command = |name: &'static str, count: usize| -> Vec<&str> {
        std::iter::once(name).chain(numbers[..count].iter().map(String::as_str)).collect()
    };
    let refused = "-ERR the command or transaction would take more than 100 units of work \
                   (--transaction-work-max); nothing was changed";
    // 60 rows: by its work, not by its keys.
    assert_eq!(the_loop.ask(&mut client, &command("MSET", 120)), refused);
    assert_eq!(the_loop.ask(&mut client, &["DBSIZE"]), ":0");
    assert_eq!(the_loop.ask(&mut client, &command("MSET", 60)), "+OK");
    for name in ["DEL", "MGET", "EXISTS"] {
        assert_eq!(the_loop.ask(&mut client, &command(name, 101)), refused, "{name}");
    }
    assert_eq!(the_loop.ask(&mut client, &["DBSIZE"]), ":30");
    assert_eq!(the_loop.ask(&mut client, &command("EXISTS", 100)), ":30");
}

/// Only output was budgeted: 64 KiB of pipelined writes of a row of 12 MB took 30 s.
#[test]
fn commands_on_a_large_row_yield() {
    let (_, mut the_loop, mut client) = Site::new(Options::default(), 1).serve();
    let value = "x".repeat(1 << 20);
    assert_eq!(the_loop.ask(&mut client, &["SET", "large", &value]), "+OK");
    for _ in 0..100 {
        let words = [&b"SETRANGE"[..], b"large", b"7", b"1"];
        keyrack_wire::resp::command(&mut client.input, &words);
    }
    let mut iterations = 1;
    let mut before = the_loop.work.spent();
    loop {
        the_loop.work.begin_iteration(false);
        the_loop.work.begin_slice();
        let verdict = the_loop.iterate(&mut client);
        // A slice, and the command with which it is spent.
        assert!(the_loop.work.spent() - before <= 2000 + 2 * 1024 + 10);
        before = the_loop.work.spent();
        if verdict == Verdict::Continue {
            break;
        }
        iterations += 1;
    }
    assert!(iterations >= 50, "{iterations}");
    assert_eq!(client.output, b":1048576\r\n".repeat(100));
}

/// A PING waited for the rows of others.
#[test]
fn where_rows_have_to_wait_a_ping_is_answered() {
    let (_, mut the_loop, mut client) = Site::new(Options::default(), 1).serve();
    the_loop.ask(&mut client, &["SET", "k", "v"]);
    client.input.extend_from_slice(b"PING\r\nECHO a\r\nGET k\r\nPING\r\nSET k w\r\nGET k\r\n");
    the_loop.rows_wait = true;
    let before = the_loop.work.spent();
    for _ in 0..3 {
        assert_eq!(the_loop.iterate(&mut client), Verdict::Again);
        assert_eq!(client.output, b"+PONG\r\n$1\r\na\r\n");
        assert!(client.input.starts_with(b"GET k\r\n"));
    }
    assert_eq!(the_loop.work.spent(), before);
    the_loop.rows_wait = false;
    let rest = the_loop.feed(&mut client, b"");
    assert_eq!(rest, b"+PONG\r\n$1\r\na\r\n$1\r\nv\r\n+PONG\r\n+OK\r\n$1\r\nw\r\n");
}

#[test]
fn a_browser_is_not_answered_commands() {
    let (_, mut the_loop, mut client) = Site::new(Options::default(), 1).serve();
    let post = b"POST / HTTP/1.1\r\nHost: x\r\n\r\nSET a 1\r\n";
    the_loop.feed(&mut client, post);
    assert!(client.is_closed);
    let mut other = the_loop.client();
    assert_eq!(the_loop.ask(&mut other, &["GET", "a"]), "$-1");
}

#[test]
fn keys_and_ranges_are_cut_into_slices() {
    let (_, mut the_loop, mut client) = Site::new(small(), 1).serve();
    let mut other = the_loop.client();
    for key in 0..95 {
        the_loop.ask(&mut client, &["SET", &format!("{key:02}"), "v"]);
    }
    for (request, iterations, expected) in [
        (&[&b"KEYS"[..], b"*"][..], 10, "array(95)"),
        (&[b"KEYS", b"1*"], 1, "array(10)"),
        (&[b"KR.RANGE", b"", b"", b"LIMIT", b"25"], 3, "array(50)"),
        (&[b"KR.RANGE", b"", b"", b"REV", b"LIMIT", b"25"], 3, "array(50)"),
        (&[b"KR.COUNT", b"", b""], 10, "(integer) 95"),
    ] {
        keyrack_wire::resp::command(&mut client.input, request);
        keyrack_wire::resp::command(&mut client.input, &[b"PING"]);
        let mut taken = 1;
        while the_loop.iterate(&mut client) == Verdict::Again {
            assert!(client.output.is_empty(), "nothing is sent before the end");
            // Others are served meanwhile.
            assert_eq!(the_loop.ask(&mut other, &["PING"]), "+PONG");
            taken += 1;
        }
        let text = draw(&std::mem::take(&mut client.output));
        assert_eq!(text.lines().next(), Some(expected));
        assert!(text.ends_with("PONG\n"), "what waited is answered after it");
        assert!(taken >= iterations, "{taken} iterations");
    }
    // In a transaction they are carried out at once.
    the_loop.ask(&mut client, &["MULTI"]);
    the_loop.ask(&mut client, &["KEYS", "*"]);
    keyrack_wire::resp::command(&mut client.input, &[b"EXEC"]);
    assert_eq!(the_loop.iterate(&mut client), Verdict::Continue);
    assert!(draw(&client.output).starts_with("array(1)\n  array(95)\n"));
}

#[test]
fn a_reply_that_is_too_large_is_an_error() {
    let (_, mut the_loop, mut client) = Site::new(small(), 1).serve();
    for key in 0..100 {
        the_loop.ask(&mut client, &["SET", &format!("{key:0100}"), "v"]);
    }
    let reply = the_loop.ask(&mut client, &["KEYS", "*"]);
    assert!(reply.starts_with("-ERR the reply would be too large"), "{reply}");
    the_loop.ask(&mut client, &["HSET", "h", "f", &"x".repeat(100)]);
    let reply = the_loop.ask(&mut client, &["HRANDFIELD", "h", "-100", "WITHVALUES"]);
    assert!(reply.starts_with("-ERR the reply would be too large"), "{reply}");
    let reply = the_loop.ask(&mut client, &["HRANDFIELD", "h", "-9223372036854775808"]);
    assert_eq!(reply, "-ERR value is out of range");
}

/// One large value that is asked for again and again: the replies of MGET, HMGET and EXEC are held
/// against a limit while they grow.
#[test]
fn one_value_asked_for_many_times_does_not_fill_the_memory() {
    let (_, mut the_loop, mut client) = Site::new(small(), 1).serve();
    the_loop.ask(&mut client, &["SET", "s", &"x".repeat(300)]);
    the_loop.ask(&mut client, &["HSET", "h", "f", &"x".repeat(300)]);
    let refused = "-ERR the reply would be too large; use SCAN, or KR.RANGE with LIMIT";
    assert_eq!(the_loop.ask(&mut client, &["MGET", "s", "s", "s", "s"]), refused);
    assert_eq!(the_loop.ask(&mut client, &["HMGET", "h", "f", "f", "f", "f"]), refused);
    the_loop.ask(&mut client, &["MULTI"]);
    for _ in 0..5 {
        the_loop.ask(&mut client, &["GETSET", "s", &"x".repeat(20)]);
        the_loop.ask(&mut client, &["HGET", "h", "f"]);
    }
    let reply = the_loop.ask(&mut client, &["EXEC"]);
    assert!(reply.starts_with("*10 $300 ") && reply.ends_with(refused), "{reply}");
    assert!(reply.len() < 2000, "{}", reply.len());
}

#[test]
fn a_transaction_and_watched_keys_are_bounded() {
    let (_, mut the_loop, mut client) = Site::new(small(), 1).serve();
    assert_eq!(the_loop.ask(&mut client, &["WATCH", "a", "b", "a", "c"]), "+OK");
    let reply = the_loop.ask(&mut client, &["WATCH", "d"]);
    assert_eq!(reply, "-ERR too many watched keys");
    the_loop.ask(&mut client, &["MULTI"]);
    let reply = the_loop.ask(&mut client, &["SET", "a", &"x".repeat(600)]);
    assert_eq!(reply, "-ERR the transaction is too large");
    assert!(the_loop.ask(&mut client, &["EXEC"]).starts_with("-EXECABORT"));
}

#[test]
fn a_scan_returns_every_key_that_stays_once() {
    let mut rng = Rng::from_seed(seed_or(3));
    let (_, mut the_loop, mut client) = Site::new(Options::default(), 1).serve();
    for key in 0..1000 {
        the_loop.ask(&mut client, &["SET", &format!("stays:{key}"), "v"]);
    }
    for count in ["1", "7", "100", "100000"] {
        let (mut cursor, mut seen) = ("0".to_owned(), BTreeSet::new());
        loop {
            let reply = the_loop.ask(&mut client, &["SCAN", &cursor, "COUNT", count]);
            let words: Vec<&str> = reply.split(' ').collect();
            for key in words.iter().filter(|word| word.starts_with("stays:")) {
                assert!(seen.insert((*key).to_owned()), "{key} came twice");
            }
            words[2].clone_into(&mut cursor);
            if cursor == "0" {
                break;
            }
            // Other keys come and go.
            let key =
                format!("{}:{}", ["a", "stays", "z"][rng.below(3) as usize], rng.below(900) + 2000);
            the_loop.ask(&mut client, &[["SET", "DEL"][rng.below(2) as usize], &key, "v"]);
        }
        seen.retain(|key| key.len() <= "stays:999".len());
        assert_eq!(seen.len(), 1000, "count {count}");
    }
    // A cursor can be used again; one that was never given cannot.
    let reply = the_loop.ask(&mut client, &["SCAN", "0", "COUNT", "1", "MATCH", "stays:*"]);
    let cursor = reply.split(' ').nth(2).unwrap();
    let once = the_loop.ask(&mut client, &["SCAN", cursor, "COUNT", "1", "MATCH", "stays:1*"]);
    let again = the_loop.ask(&mut client, &["SCAN", cursor, "COUNT", "1", "MATCH", "stays:1*"]);
    let keys = |reply: &str| reply.split(' ').skip(3).collect::<Vec<_>>().join(" ");
    assert_eq!(keys(&once), keys(&again));
    assert_eq!(the_loop.ask(&mut client, &["SCAN", "12345"]), "-ERR invalid cursor");
}

#[test]
fn a_large_hash_is_scanned_in_parts() {
    let (_, mut the_loop, mut client) = Site::new(Options::default(), 1).serve();
    for field in 0..600 {
        the_loop.ask(&mut client, &["HSET", "h", &format!("f{field}"), "v"]);
    }
    let (mut cursor, mut seen, mut calls) = ("0".to_owned(), BTreeSet::new(), 0);
    loop {
        let reply = the_loop.ask(&mut client, &["HSCAN", "h", &cursor, "COUNT", "50"]);
        let words: Vec<&str> = reply.split(' ').collect();
        seen.extend(words.iter().filter(|w| w.starts_with('f')).map(|w| (*w).to_owned()));
        calls += 1;
        words[2].clone_into(&mut cursor);
        if cursor == "0" {
            break;
        }
    }
    assert_eq!((seen.len(), calls), (600, 12));
}

#[test]
fn a_pattern_made_to_take_long_is_refused() {
    let (_, mut the_loop, mut client) = Site::new(Options::default(), 1).serve();
    let pattern = "*".to_owned() + &"a".repeat(20_000) + "b";
    the_loop.ask(&mut client, &["SET", &"a".repeat(60_000), "v"]);
    let refused = "-ERR the pattern takes too many steps to match";
    assert_eq!(the_loop.ask(&mut client, &["KEYS", &pattern]), refused);
    assert_eq!(the_loop.ask(&mut client, &["SCAN", "0", "MATCH", &pattern]), refused);
    let stars = "a*".repeat(5000) + "b";
    assert_eq!(the_loop.ask(&mut client, &["KEYS", &stars]), "*0");
}

#[test]
fn a_save_waits_for_its_checkpoint_and_a_sleep_for_its_time() {
    let mut options = Options::default();
    options.debug = true;
    let (site, mut the_loop, mut client) = Site::new(options, 1).serve();
    client.input.extend_from_slice(b"DEBUG SLEEP 1.5\r\nPING\r\n");
    assert_eq!(the_loop.iterate(&mut client), Verdict::Again);
    the_loop.now_ms = START_MS + 1499;
    assert_eq!(the_loop.iterate(&mut client), Verdict::Again);
    the_loop.now_ms += 1;
    assert_eq!(draw(&the_loop.feed(&mut client, b"")), "OK\nPONG\n");
    assert_eq!(the_loop.ask(&mut client, &["DEBUG", "SLEEP", "1e9"]), "-ERR value is out of range");

    // Inside of a transaction no time passes, so it would never end.
    the_loop.ask(&mut client, &["MULTI"]);
    let reply = the_loop.ask(&mut client, &["DEBUG", "SLEEP", "1"]);
    assert_eq!(reply, "-ERR Command not allowed inside a transaction");
    the_loop.ask(&mut client, &["DISCARD"]);

    site.asked.is_running.store(true, SeqCst);
    let reply = the_loop.ask(&mut client, &["SAVE"]);
    assert_eq!(reply, "-ERR Background save already in progress");
    assert_eq!(the_loop.ask(&mut client, &["BGSAVE"]), reply);
    site.asked.is_running.store(false, SeqCst);
    assert_eq!(the_loop.ask(&mut client, &["SAVE"]), "+OK");
    assert_eq!(site.asked.checkpoints.load(SeqCst), 3);
    assert_eq!(the_loop.ask(&mut client, &["SHUTDOWN"]), "");
    assert!(client.is_closed && site.asked.shutdowns.load(SeqCst) == 1);
}

#[test]
fn a_killed_client_is_closed_before_its_next_request() {
    let site = Site::new(Options::default(), 1);
    let mut the_loop = site.a_loop(0);
    let mut one = the_loop.client();
    let mut two = the_loop.client();
    let id = two.connection.id().to_string();
    assert_eq!(the_loop.ask(&mut one, &["CLIENT", "KILL", "ID", &id]), ":1");
    assert_eq!(the_loop.ask(&mut two, &["SET", "a", "1"]), "");
    assert!(two.is_closed);
    assert_eq!(the_loop.ask(&mut one, &["GET", "a"]), "$-1");
    drop(two);
    assert_eq!(site.shared.connections(), 1);
}

/// Keys of digits are drawn about evenly.
#[test]
fn random_keys_are_spread() {
    let (_, mut the_loop, mut client) = Site::new(Options::default(), 1).serve();
    for key in 0..100 {
        the_loop.ask(&mut client, &["SET", &format!("user:{key:02}"), "v"]);
    }
    let mut seen = BTreeSet::new();
    for _ in 0..1000 {
        seen.insert(the_loop.ask(&mut client, &["RANDOMKEY"]));
    }
    assert!(seen.len() > 90, "{} of 100 keys in 1000 draws", seen.len());
    // One key that is the beginning of another, and the empty key.
    the_loop.ask(&mut client, &["FLUSHALL"]);
    let keys = ["", "a", "aa", "ab\u{7f}"];
    for key in keys {
        the_loop.ask(&mut client, &["SET", key, "v"]);
    }
    let drawn: BTreeSet<String> =
        (0..2000).map(|_| the_loop.ask(&mut client, &["RANDOMKEY"])).collect();
    assert_eq!(drawn.len(), keys.len());
}

/// Requests of random words, and random bytes: no panic, and the connection either goes on or says
/// why it does not.
#[test]
fn random_words_harm_nothing() {
    let mut rng = Rng::from_seed(seed_or(4));
    let mut options = small();
    options.debug = true;
    let (_, mut the_loop, mut client) = Site::new(options, 1).serve();
    let names = the_loop.ask(&mut client, &["COMMAND", "LIST"]);
    let mut names: Vec<&str> =
        names.split(' ').filter(|word| !word.starts_with(['*', '$'])).collect();
    names.retain(|name| !["quit", "shutdown", "debug"].contains(name));
    let words = [
        "a",
        "b",
        "0",
        "1",
        "-1",
        "3",
        "x",
        "",
        "GET",
        "ID",
        "MATCH",
        "*",
        "COUNT",
        "NX",
        "EX",
        "LIST",
        "INFO",
        "DOCS",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551616",
        "1e400",
        "WITHVALUES",
        "SET",
        "LIMIT",
        "REV",
        "AUTH",
        "KILL",
        "ENCODING",
        "USAGE",
        "[",
        "\\",
        "nan",
    ];
    for round in 0..50_000 {
        let mut request = vec![names[rng.below(names.len() as u64) as usize]];
        (0..rng.below(6)).for_each(|_| request.push(words[rng.below(words.len() as u64) as usize]));
        let request: Vec<&[u8]> = request.iter().map(|word| word.as_bytes()).collect();
        let mut bytes = Vec::new();
        keyrack_wire::resp::command(&mut bytes, &request);
        if rng.below(100) == 0 {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.below(256) as u8;
        }
        the_loop.feed(&mut client, &bytes);
        if client.is_closed || round % 500 == 0 {
            client = the_loop.client();
        }
        the_loop.now_ms += rng.below(3);
    }
}

/// The reply that refuses a write is right: what could not be logged at EXEC was made all the same,
/// and logged later.
#[test]
fn a_transaction_refused_on_a_full_disk_was_made_all_the_same() {
    let disk = MemFs::new();
    let open = |disk: &MemFs| {
        let mut options = RowOptions::default().with_segment_bytes(64 << 10);
        options.durability = keyrack_store::Durability::Os;
        RowStore::open(Arc::new(disk.clone()), Path::new("/rows"), options, &|_| {}).unwrap()
    };
    for whole in
        [&[&["MULTI"][..], &["SET", "k", "VALUE"], &["EXEC"]][..], &[&["MSET", "k", "VALUE"]]]
    {
        let mut site = Site::new(Options::default(), 1);
        site.rows = Box::new(open(&disk));
        let mut the_loop = site.a_loop(0);
        let mut client = the_loop.client();
        disk.set_capacity(0);
        let (mut last, mut refused) = (None, 0);
        for round in 0..200 {
            let value = format!("{round:01000}");
            for words in whole.iter().chain(&[&["GET", "k"][..]]) {
                let words = words.iter().map(|word| if *word == "VALUE" { &value } else { *word });
                let words: Vec<&[u8]> = words.map(str::as_bytes).collect();
                keyrack_wire::resp::command(&mut client.input, &words);
            }
            while the_loop.serve(&mut client) == Verdict::Again {}
            let replies = draw(&std::mem::take(&mut client.output));
            if replies.contains("! MISCONF") {
                refused += 1;
            } else {
                last = Some(value);
            }
            let last = last.as_ref().expect("there was space at first");
            assert!(replies.ends_with(&format!("\"{last}\"\n")), "round {round}: {replies}");
        }
        assert!(refused > 0);
        disk.set_capacity(64 << 20);
        the_loop.session.flush().unwrap();
        let found = open(&disk.process_crash_image());
        let mut value = Vec::new();
        let visit = &mut |row: Row<'_>| value.extend_from_slice(row.value());
        found.session().unwrap().get(b"k", visit).unwrap();
        assert_eq!(Some(value), last.map(String::into_bytes));
    }
}

/// What FLUSHALL removed lies in memory until it is swept, and is in nobody's way.
#[test]
fn a_write_at_the_limit_of_memory_is_taken_after_flushall() {
    let rows = RowOptions {
        memory_max: 20_000,
        sweep_interval: std::time::Duration::ZERO,
        ..RowOptions::default()
    };
    let mut site = Site::new(Options::default(), 1);
    site.rows = Box::new(RowStore::in_memory(rows).unwrap());
    let (_, mut the_loop, mut client) = site.serve();
    let value = "v".repeat(900);
    let fill = |the_loop: &mut crate::redis::tool::Loop<'_>, client: &mut _| {
        (0..).find(|n| the_loop.ask(client, &["SET", &n.to_string(), &value]) != "+OK").unwrap()
    };
    let fits = fill(&mut the_loop, &mut client);
    assert!((15..25).contains(&fits), "{fits}");
    assert_eq!(the_loop.ask(&mut client, &["DBSIZE"]), format!(":{fits}"));
    assert_eq!(the_loop.ask(&mut client, &["FLUSHALL"]), "+OK");
    assert_eq!(the_loop.ask(&mut client, &["DBSIZE"]), ":0");
    assert_eq!(the_loop.ask(&mut client, &["KEYS", "*"]), "*0");
    assert_eq!(the_loop.ask(&mut client, &["GET", "0"]), "$-1");
    assert_eq!(fill(&mut the_loop, &mut client), fits);
    for words in [&["MULTI"][..], &["FLUSHALL"], &["SET", "k", &value], &["DBSIZE"]] {
        the_loop.ask(&mut client, words);
    }
    assert_eq!(the_loop.ask(&mut client, &["EXEC"]), "*3 +OK +OK :1");
    assert_eq!(the_loop.ask(&mut client, &["DBSIZE"]), ":1");
    assert_eq!(the_loop.ask(&mut client, &["SET", "0", &value]), "+OK");
}

/// Rows in memory whose log would take records of 56 KiB.
fn small_rows() -> Box<dyn Rows> {
    let options = RowOptions::default().with_segment_bytes(64 << 10);
    Box::new(RowStore::in_memory(options).unwrap())
}

#[test]
fn an_exec_that_the_log_cannot_take_is_one_error_and_changes_nothing() {
    let mut site = Site::new(Options::default(), 1);
    site.rows = small_rows();
    let (_, mut the_loop, mut client) = site.serve();
    let key = |n: usize| format!("{n:0906}");
    for n in 0..100 {
        the_loop.ask(&mut client, &["SET", &key(n), "v"]);
    }
    the_loop.ask(&mut client, &["SET", "large", &"x".repeat(1000)]);
    the_loop.ask(&mut client, &["MULTI"]);
    the_loop.ask(&mut client, &["APPEND", "large", "y"]);
    for n in 0..100 {
        the_loop.ask(&mut client, &["DEL", &key(n)]);
    }
    let reply = the_loop.ask(&mut client, &["EXEC"]);
    assert!(reply.starts_with("-EXECABORT"), "{reply}");
    assert!(reply.contains("57344 bytes of log"), "{reply}");
    assert_eq!(the_loop.ask(&mut client, &["DBSIZE"]), ":101");
    assert_eq!(the_loop.ask(&mut client, &["STRLEN", "large"]), ":1000");
    assert_eq!(the_loop.ask(&mut client, &["SET", "a", "b"]), "+OK");
    // Over and over one key is no more than one key.
    the_loop.ask(&mut client, &["MULTI"]);
    for _ in 0..100 {
        the_loop.ask(&mut client, &["APPEND", "large", &"z".repeat(100)]);
    }
    the_loop.ask(&mut client, &["DBSIZE"]);
    let reply = the_loop.ask(&mut client, &["EXEC"]);
    assert!(reply.ends_with(":11000 :102"), "{reply}");
}

/// As in Redis, a command that memory refuses fails alone, also within a transaction.
#[test]
fn what_memory_refuses_is_oom_and_the_rest_of_an_exec_is_done() {
    let mut site = Site::new(Options::default(), 1);
    let options = RowOptions { memory_max: 100_000, ..RowOptions::default() };
    site.rows = Box::new(RowStore::in_memory(options).unwrap());
    let (_, mut the_loop, mut client) = site.serve();
    let large = "v".repeat(200_000);
    let refused = "-OOM command not allowed: out of memory: memory-max of 100000 bytes is reached; \
                   raise it, remove rows, or choose the eviction clock";
    assert_eq!(the_loop.ask(&mut client, &["SET", "a", &large]), refused);
    assert_eq!(the_loop.ask(&mut client, &["MSET", "a", &large, "b", "1"]), refused);
    assert_eq!(the_loop.ask(&mut client, &["DBSIZE"]), ":0");
    the_loop.ask(&mut client, &["MULTI"]);
    the_loop.ask(&mut client, &["SET", "a", &large]);
    the_loop.ask(&mut client, &["SET", "b", "1"]);
    let reply = the_loop.ask(&mut client, &["EXEC"]);
    assert!(reply.contains(refused) && reply.ends_with("+OK"), "{reply}");
    assert_eq!(the_loop.ask(&mut client, &["DBSIZE"]), ":1");
}

#[test]
fn an_mset_that_is_refused_changes_nothing_and_is_not_counted() {
    let mut site = Site::new(Options::default(), 1);
    site.rows = small_rows();
    let (_, mut the_loop, mut client) = site.serve();
    let value = "v".repeat(2000);
    let keys: Vec<String> = (0..40).map(|n| format!("key{n}")).collect();
    for command in ["MSET", "MSETNX"] {
        let mut words = vec![command];
        keys.iter().for_each(|key| words.extend([key.as_str(), value.as_str()]));
        let reply = the_loop.ask(&mut client, &words);
        assert!(reply.starts_with("-ERR the writes of one step"), "{reply}");
        assert_eq!(the_loop.ask(&mut client, &["DBSIZE"]), ":0");
    }
    // One row that is too large takes the others with it.
    let large = "x".repeat(40_000);
    let reply = the_loop.ask(&mut client, &["MSET", "a", "1", "b", &large, "c", "3"]);
    assert!(reply.starts_with("-ERR a row has at most"), "{reply}");
    assert_eq!(the_loop.ask(&mut client, &["DBSIZE"]), ":0");
    assert_eq!(the_loop.ask(&mut client, &["MSET", "a", "1", "b", "2"]), "+OK");
    assert_eq!(the_loop.ask(&mut client, &["DBSIZE"]), ":2");
}

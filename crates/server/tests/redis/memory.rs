//! What connections keep of Redis' clients counts as their memory, and is refused at its limit.

use crate::redis::tool::{Client, Loop, Site, draw};
use keyrack_net::{ClientMemory, Verdict};
use keyrack_server::redis::Options;

const OUT_OF_MEMORY: &str = "-ERR out of memory: connections hold what --clients-memory-max allows";

/// A server whose connections may hold `bytes`.
fn site(bytes: u64) -> Site {
    let mut options = Options::default();
    options.memory = ClientMemory::new(bytes);
    Site::new(options, 1)
}

fn told(the_loop: &mut Loop<'_>, client: &mut Client, field: &str) -> String {
    let info = the_loop.ask(client, &["CLIENT", "INFO"]);
    let found = info.split(' ').find_map(|word| word.strip_prefix(field)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("no {field} in {info}")).to_owned()
}

#[test]
fn watched_keys_were_counted_and_not_their_bytes() {
    let (site, mut the_loop, mut client) = site(1 << 20).serve();
    let key = |number: usize| format!("{}{number}", "k".repeat(100_000));
    for number in 1..=9 {
        assert_eq!(the_loop.ask(&mut client, &["WATCH", &key(number)]), "+OK");
        assert!(site.memory.bytes() >= number * 100_000 - 4096);
    }
    let held = site.memory.bytes();
    for _ in 0..3 {
        assert_eq!(the_loop.ask(&mut client, &["WATCH", &key(10)]), OUT_OF_MEMORY);
        // Those of one command are watched together or not at all.
        assert_eq!(the_loop.ask(&mut client, &["WATCH", "a", "b", &key(11)]), OUT_OF_MEMORY);
        assert_eq!(told(&mut the_loop, &mut client, "watch"), "9");
        assert_eq!(site.memory.bytes(), held);
    }
    // Keys that are watched already cost nothing more, and those that are still count.
    assert_eq!(the_loop.ask(&mut client, &["WATCH", &key(1), &key(9)]), "+OK");
    let mut other = the_loop.client();
    assert_eq!(the_loop.ask(&mut other, &["SET", &key(9), "v"]), "+OK");
    assert_eq!(the_loop.ask(&mut client, &["MULTI"]), "+OK");
    assert_eq!(the_loop.ask(&mut client, &["PING"]), "+QUEUED");
    assert_eq!(the_loop.ask(&mut client, &["EXEC"]), "*-1");
    assert_eq!(told(&mut the_loop, &mut client, "watch"), "0");
    assert_eq!(site.memory.bytes(), 0);
    assert_eq!(the_loop.ask(&mut client, &["WATCH", &key(10)]), "+OK");
    drop((client, other));
    the_loop.memory.trim();
    assert_eq!(site.memory.bytes(), 0);
}

/// The limit holds to the byte: the longest key that can be watched takes all that large holders
/// may have, and one byte more is refused.
#[test]
fn a_watched_key_fits_to_the_byte() {
    let (site, mut the_loop, mut client) = site(1 << 20).serve();
    let mut can = |length: usize| {
        let reply = the_loop.ask(&mut client, &["WATCH", &"k".repeat(length)]);
        let held = site.memory.bytes();
        the_loop.ask(&mut client, &["UNWATCH"]);
        (reply == "+OK", held)
    };
    let (mut fits, mut above) = (1, 2_usize << 20);
    while above - fits > 1 {
        let middle = fits.midpoint(above);
        *(if can(middle).0 { &mut fits } else { &mut above }) = middle;
    }
    assert_eq!(can(fits), (true, site.memory.large_bytes_max()));
    assert_eq!(can(fits + 1), (false, 0));
}

#[test]
fn transactions_of_many_connections_were_queued_without_a_limit_in_sum() {
    let site = site(4 << 20);
    let mut the_loop = site.a_loop(0);
    let mut small = the_loop.client();
    let value = "x".repeat(100_000);
    let mut clients: Vec<Client> = (0..100).map(|_| the_loop.client()).collect();
    let mut refused = vec![false; clients.len()];
    for client in &mut clients {
        assert_eq!(the_loop.ask(client, &["MULTI"]), "+OK");
    }
    for _ in 0..5 {
        for (client, refused) in clients.iter_mut().zip(&mut refused) {
            let reply = the_loop.ask(client, &["SET", "k", &value]);
            if reply != "+QUEUED" {
                assert_eq!(reply, OUT_OF_MEMORY);
                assert!(!*refused, "a broken transaction is told once");
                *refused = true;
            }
            assert!(site.memory.bytes() <= site.memory.bytes_max());
            assert_eq!(the_loop.ask(&mut small, &["PING"]), "+PONG");
            assert_eq!(the_loop.ask(&mut small, &["SET", "s", "1"]), "+OK");
            assert_eq!(the_loop.ask(&mut small, &["GET", "s"]), "$1 1");
            assert_eq!(the_loop.ask(&mut small, &["MULTI"]), "+OK");
            assert_eq!(the_loop.ask(&mut small, &["INCR", "s"]), "+QUEUED");
            assert_eq!(the_loop.ask(&mut small, &["EXEC"]), "*1 :2");
        }
    }
    let broken = refused.iter().filter(|refused| **refused).count();
    assert!((50..100).contains(&broken), "{broken} of 100 are refused");
    for (client, refused) in clients.iter_mut().zip(&refused) {
        let reply = the_loop.ask(client, &["EXEC"]);
        assert_eq!(reply.starts_with("-EXECABORT"), *refused, "{reply}");
        assert!(*refused || reply.starts_with("*5 +OK"), "{reply}");
    }
    assert_eq!(site.memory.bytes(), 0, "transactions that ended hold nothing");
    // DISCARD, RESET and the end of a connection give back as well.
    for client in &mut clients {
        the_loop.ask(client, &["MULTI"]);
        the_loop.ask(client, &["SET", "k", &value]);
    }
    assert!(site.memory.bytes() > 3 << 20);
    the_loop.ask(&mut clients[0], &["DISCARD"]);
    the_loop.ask(&mut clients[1], &["RESET"]);
    drop((clients, small));
    the_loop.memory.trim();
    assert_eq!(site.memory.bytes(), 0);
}

/// A broken transaction keeps no commands, whatever it was broken by.
#[test]
fn a_broken_transaction_kept_its_commands() {
    let (site, mut the_loop, mut client) = site(4 << 20).serve();
    let value = "x".repeat(100_000);
    the_loop.ask(&mut client, &["MULTI"]);
    assert_eq!(the_loop.ask(&mut client, &["SET", "k", &value]), "+QUEUED");
    assert!(site.memory.bytes() > 90_000);
    assert!(the_loop.ask(&mut client, &["NOSUCH"]).starts_with("-ERR unknown command"));
    for _ in 0..100 {
        assert_eq!(the_loop.ask(&mut client, &["SET", "k", &value]), "+QUEUED");
        assert_eq!(site.memory.bytes(), 0);
    }
    assert!(the_loop.ask(&mut client, &["EXEC"]).starts_with("-EXECABORT"));
    assert_eq!(the_loop.ask(&mut client, &["EXISTS", "k"]), ":0");
}

#[test]
fn what_keys_found_was_no_memory_of_the_connection() {
    let (site, mut the_loop, mut client) = site(1 << 20).serve();
    for number in 0..3000 {
        the_loop.ask(&mut client, &["SET", &format!("{number:01000}"), "v"]);
    }
    for words in [&["KEYS", "*"][..], &["KR.RANGE", "", ""]] {
        assert_eq!(the_loop.ask(&mut client, words), OUT_OF_MEMORY);
        assert_eq!(the_loop.ask(&mut client, &["DBSIZE"]), ":3000");
        assert_eq!(site.memory.bytes(), 0);
    }
    assert!(the_loop.ask(&mut client, &["KR.RANGE", "", "", "LIMIT", "300"]).starts_with("*600"));
}

/// Sixteen bytes for each argument of a request that is not whole, which may have a million.
#[test]
fn many_small_arguments_took_memory_beside_their_bytes() {
    let (site, mut the_loop, mut client) = site(1 << 20).serve();
    let mut bytes = b"*1000000\r\n".to_vec();
    (0..100_000).for_each(|_| bytes.extend_from_slice(b"$1\r\na\r\n"));
    let reply = draw(&the_loop.feed(&mut client, &bytes));
    assert_eq!(reply.strip_prefix("! "), Some(&*format!("{}\n", &OUT_OF_MEMORY[1..])));
    assert!(client.is_closed);
    drop(client);
    the_loop.memory.trim();
    assert_eq!(site.memory.bytes(), 0);
    // A tenth of it is taken, and counted until the request is whole.
    let mut client = the_loop.client();
    let mut bytes = b"*10000\r\n$3\r\nDEL\r\n".to_vec();
    (0..9_998).for_each(|_| bytes.extend_from_slice(b"$1\r\na\r\n"));
    the_loop.feed(&mut client, &bytes);
    assert!(site.memory.bytes() >= 160_000, "{}", site.memory.bytes());
    assert_eq!(draw(&the_loop.feed(&mut client, b"$1\r\na\r\n")), "(integer) 0\n");
}

/// A single GET, a SET, a transaction: nothing is written that loops share.
#[test]
fn small_commands_write_to_no_memory_that_loops_share() {
    let (site, mut the_loop, mut client) = site(1 << 20).serve();
    let mut ask_all = || {
        assert_eq!(the_loop.ask(&mut client, &["SET", "k", "v"]), "+OK");
        assert_eq!(the_loop.ask(&mut client, &["GET", "k"]), "$1 v");
        assert_eq!(the_loop.ask(&mut client, &["WATCH", "k"]), "+OK");
        assert_eq!(the_loop.ask(&mut client, &["MULTI"]), "+OK");
        assert_eq!(the_loop.ask(&mut client, &["GET", "k"]), "+QUEUED");
        assert_eq!(the_loop.ask(&mut client, &["EXEC"]), "*1 $1 v");
    };
    ask_all();
    let moves = site.memory.moves();
    (0..100).for_each(|_| ask_all());
    assert_eq!(site.memory.moves(), moves);
}

/// Sixteen GETs of a value of 1 MiB that came together were answered in one step, whatever the size
/// of the output. The small ones between them keep their places.
#[test]
fn pipelined_gets_of_large_values_were_in_memory_all_at_once() {
    let (_, mut the_loop, mut client) = site(8 << 20).serve();
    let value = "v".repeat(1 << 20);
    the_loop.ask(&mut client, &["SET", "large", &value]);
    the_loop.ask(&mut client, &["SET", "small", "s"]);
    let mut expected = Vec::new();
    let (bulk, small) = (format!("${}\r\n{value}\r\n", value.len()), "$1\r\ns\r\n");
    for round in 0..40 {
        let key = ["small", "large", "nothing", "small", "large"][round % 5];
        keyrack_wire::resp::command(&mut client.input, &[b"GET", key.as_bytes()]);
        expected.extend_from_slice(match key {
            "large" => bulk.as_bytes(),
            "small" => small.as_bytes(),
            _ => b"$-1\r\n",
        });
    }
    client.input.extend_from_slice(b"PING\r\n*2\r\n$3\r\nGET\r\n$5\r\nlar");
    expected.extend_from_slice(b"+PONG\r\n");
    let mut replies = Vec::new();
    loop {
        let verdict = the_loop.iterate(&mut client);
        assert!(client.output.len() < (2 << 20), "{} bytes", client.output.len());
        replies.append(&mut client.output);
        if verdict == Verdict::Continue {
            break;
        }
    }
    assert!(replies == expected, "{} bytes of {}", replies.len(), expected.len());
    assert_eq!(the_loop.feed(&mut client, b"ge\r\n"), bulk.as_bytes());
    let info = the_loop.ask(&mut client, &["INFO", "stats"]);
    assert!(info.contains("keyspace_hits:33 keyspace_misses:8 "), "{info}");
}

#[test]
fn a_value_for_which_there_is_no_memory_is_an_error_and_not_the_end() {
    let (_, mut the_loop, mut client) = site(1 << 20).serve();
    the_loop.ask(&mut client, &["SET", "fits", &"v".repeat(800 << 10)]);
    the_loop.ask(&mut client, &["SET", "above", &"v".repeat(900 << 10)]);
    the_loop.ask(&mut client, &["SET", "small", "s"]);
    assert_eq!(the_loop.ask(&mut client, &["GET", "above"]), OUT_OF_MEMORY);
    assert_eq!(the_loop.ask(&mut client, &["MGET", "small", "above"]), OUT_OF_MEMORY);
    assert_eq!(the_loop.ask(&mut client, &["MGET", "small", "nothing"]), "*2 $1 s $-1");
    assert!(the_loop.ask(&mut client, &["GET", "fits"]).starts_with("$819200 vv"));
    assert!(the_loop.ask(&mut client, &["MGET", "small", "fits"]).starts_with("*2 $1 s $819200 v"));
}

/// A page of SCAN was bounded by the number of its keys alone, and keys may have 1 MiB.
#[test]
fn a_page_of_large_keys_was_as_large_as_they_are_together() {
    let (_, mut the_loop, mut client) = site(64 << 20).serve();
    for number in 0..50 {
        the_loop.ask(&mut client, &["SET", &format!("{number:02}{}", "k".repeat(100_000)), "v"]);
    }
    let (mut cursor, mut seen, mut pages) = ("0".to_owned(), Vec::new(), 0);
    loop {
        let reply = the_loop.ask(&mut client, &["SCAN", &cursor, "COUNT", "4096"]);
        assert!(reply.len() < (1 << 20) + 110_000, "{} bytes", reply.len());
        let words: Vec<&str> = reply.split(' ').collect();
        seen.extend(words.iter().filter(|word| word.len() > 1000).map(|word| word[..2].to_owned()));
        words[2].clone_into(&mut cursor);
        pages += 1;
        if cursor == "0" {
            break;
        }
    }
    let all: Vec<String> = (0..50).map(|number| format!("{number:02}")).collect();
    assert_eq!((seen, pages), (all, 5));
}

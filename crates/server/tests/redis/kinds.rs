//! Rows that came through other protocols, as Redis' clients see and change them.

use crate::redis::tool::{Site, draw};
use keyrack_rowstore::{Kind, Row};
use keyrack_server::redis::Options;
use keyrack_store::Update;

/// Stores a row of columns, as Masstree's clients do.
fn put_columns(session: &mut dyn keyrack_rowstore::RowSession, key: &[u8], columns: &[&[u8]]) {
    let put = session.update(key, &mut |_, buf| {
        buf.columns();
        columns.iter().for_each(|column| buf.push(column));
        Update::Put
    });
    assert_ne!(put.unwrap(), 0);
}

#[test]
fn columns_are_a_hash_of_numbers_until_a_field_is_written() {
    let (_, mut the_loop, mut client) = Site::new(Options::default(), 1).serve();
    let columns: Vec<Vec<u8>> = (0..11u8).map(|column| vec![b'a' + column]).collect();
    let columns: Vec<&[u8]> = columns.iter().map(Vec::as_slice).collect();
    put_columns(&mut *the_loop.session, b"row", &columns);
    assert_eq!(the_loop.ask(&mut client, &["TYPE", "row"]), "+hash");
    assert_eq!(the_loop.ask(&mut client, &["HLEN", "row"]), ":11");
    assert_eq!(
        the_loop.ask(&mut client, &["HMGET", "row", "10", "010", "11", "2"]),
        "*4 $1 k $-1 $-1 $1 c"
    );
    assert!(the_loop.ask(&mut client, &["GET", "row"]).starts_with("-WRONGTYPE"));
    let names = the_loop.ask(&mut client, &["HKEYS", "row"]);
    assert!(names.ends_with("$1 9 $2 10"), "in the order of numbers: {names}");
    let read = the_loop.session.get(b"row", &mut |row| assert_eq!(row.kind(), Kind::Columns));
    assert!(read.unwrap(), "reading changes nothing");

    assert_eq!(the_loop.ask(&mut client, &["HSET", "row", "2", "C", "name", "N"]), ":1");
    let mut fields = Vec::new();
    let mut note = |row: Row<'_>| {
        assert_eq!(row.kind(), Kind::Fields);
        fields.extend((0..row.columns()).map(|index| row.field(index).unwrap().0.to_vec()));
    };
    the_loop.session.get(b"row", &mut note).unwrap();
    assert_eq!(fields.concat(), b"0110234567".iter().chain(b"89name").copied().collect::<Vec<_>>());
    assert_eq!(the_loop.ask(&mut client, &["HGET", "row", "2"]), "$1 C");
    assert_eq!(the_loop.ask(&mut client, &["SET", "row", "v"]), "+OK");
    assert_eq!(the_loop.ask(&mut client, &["GET", "row"]), "$1 v");
}

#[test]
fn columns_are_returned_by_ranges() {
    let (_, mut the_loop, mut client) = Site::new(Options::default(), 1).serve();
    put_columns(&mut *the_loop.session, b"k", &[b"first", b"", b"third"]);
    let replies = the_loop.feed(&mut client, b"KR.RANGE k \"\"\r\nKR.RANGE k \"\" WITHCOLUMNS\r\n");
    let expected = "array(2)\n  \"k\"\n  \"first\"\n\
                    array(2)\n  \"k\"\n  array(3)\n    \"first\"\n    \"\"\n    \"third\"\n";
    assert_eq!(draw(&replies), expected);
}

/// Flags are memcached's. What changes a value keeps them, what replaces it does not.
#[test]
fn flags_of_another_protocol_are_kept() {
    let (_, mut the_loop, mut client) = Site::new(Options::default(), 1).serve();
    for (request, kept) in [
        (&["INCR", "k"][..], true),
        (&["APPEND", "k", "0"], true),
        (&["SETRANGE", "k", "0", "9"], true),
        (&["INCRBYFLOAT", "k", "1"], true),
        (&["EXPIRE", "k", "100"], true),
        (&["PERSIST", "k"], true),
        (&["GETEX", "k", "EX", "9"], true),
        (&["SET", "k", "1"], false),
        (&["GETSET", "k", "1"], false),
    ] {
        the_loop.session.put(b"k", b"1", 7, 0).unwrap();
        if request[0] == "PERSIST" {
            the_loop.session.put(b"k", b"1", 7, u64::MAX).unwrap();
        }
        the_loop.ask(&mut client, request);
        let mut flags = None;
        the_loop.session.get(b"k", &mut |row| flags = Some(row.flags())).unwrap();
        assert_eq!(flags, Some(if kept { 7 } else { 0 }), "{request:?}");
    }
}

#[test]
fn info_has_every_section_and_counts_what_was_done() {
    let (site, mut the_loop, mut client) = Site::new(Options::default(), 1).serve();
    the_loop
        .feed(&mut client, b"SET a 1\r\nGET a\r\nGET a\r\nGET b\r\nNOSUCH\r\nINCR\r\nHGET a f\r\n");
    let info = String::from_utf8(the_loop.feed(&mut client, b"INFO everything\r\n")).unwrap();
    for line in [
        "# Server",
        "redis_version:7.0.15",
        "tcp_port:6379",
        "# Clients",
        "connected_clients:1",
        "# Memory",
        "# Persistence",
        "durability:none",
        "# Stats",
        "keyspace_hits:3",
        "keyspace_misses:1",
        "total_error_replies:3",
        "total_commands_processed:6",
        "# Replication",
        "role:master",
        "# Commandstats",
        "cmdstat_get:calls=3",
        "# Keyspace",
        "db0:keys=1,expires=0,avg_ttl=0",
    ] {
        let begins =
            |found: &str| found.split_once(",usec=").map_or(found, |(head, _)| head) == line;
        assert!(info.lines().any(begins), "{line} in\n{info}");
    }
    let mut counters = std::collections::BTreeMap::new();
    site.shared.counters(&mut |name, count| {
        counters.insert(name.to_owned(), count);
    });
    assert_eq!((counters["calls_get"], counters["failed"], counters["rejected"]), (3, 1, 2));
    the_loop.ask(&mut client, &["CONFIG", "RESETSTAT"]);
    let info = the_loop.ask(&mut client, &["INFO", "stats"]);
    assert!(info.contains("keyspace_hits:0"), "{info}");
}

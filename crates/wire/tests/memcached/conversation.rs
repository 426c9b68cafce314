//! What memcached 1.6.18 said, kept as bytes: its replies are read, and what is refused here is
//! refused in its words.

use keyrack_wire::memcached::meta::{self, Code, Facts, write_reply};
use keyrack_wire::memcached::text::{Reply, Request, parse, parse_reply};
use keyrack_wire::memcached::{Limits, Parsed};

/// Commands that both take, on one connection, and what memcached replied.
const TAKEN: [(&str, &str); 42] = [
    ("set a 5 0 3\r\nabc\r\n", "STORED\r\n"),
    ("get a\r\n", "VALUE a 5 3\r\nabc\r\nEND\r\n"),
    ("gets a\r\n", "VALUE a 5 3 1\r\nabc\r\nEND\r\n"),
    ("get nope\r\n", "END\r\n"),
    ("   get a\r\n", "VALUE a 5 3\r\nabc\r\nEND\r\n"),
    ("get  a  b \r\n", "VALUE a 5 3\r\nabc\r\nEND\r\n"),
    ("set a 0 0 003\r\nabc\r\n", "STORED\r\n"),
    ("delete a 0\r\n", "DELETED\r\n"),
    ("delete a noreply\r\n", ""),
    ("delete a\r\n", "NOT_FOUND\r\n"),
    ("incr a 1\r\n", "NOT_FOUND\r\n"),
    ("flush_all -1\r\n", "OK\r\n"),
    ("flush_all 0 noreply\r\n", ""),
    ("flush_all noreply\r\n", ""),
    ("flush_all 10000\r\n", "OK\r\n"),
    ("verbosity 1\r\n", "OK\r\n"),
    ("verbosity noreply\r\n", ""),
    ("cache_memlimit 64\r\n", "OK\r\n"),
    ("shutdown\r\n", "ERROR: shutdown not enabled\r\n"),
    ("version\n", "VERSION 1.6.18\r\n"),
    ("version foo\r\n", "VERSION 1.6.18\r\n"),
    ("mn\r\n", "MN\r\n"),
    ("mn foo\r\n", "MN\r\n"),
    ("set a 5 0 3\r\nabc\r\n", "STORED\r\n"),
    ("mg a\r\n", "HD\r\n"),
    ("mg a v\r\n", "VA 3\r\nabc\r\n"),
    ("mg a t f v c s k O123 q h l\r\n", "VA 3 t-1 f5 c9 s3 ka O123 h1 l0\r\nabc\r\n"),
    ("mg nope O12 k q v\r\n", ""),
    ("mg nope O12 k v b\r\n", "EN O12 knope b\r\n"),
    ("mg nope N30 t v s c\r\n", "VA 0 t30 s0 c10 W\r\n\r\n"),
    ("mg a T30 R40 v t\r\n", "VA 3 t30 W\r\nabc\r\n"),
    ("ms a 3\r\nabc\r\n", "HD\r\n"),
    ("ms a 3 MA k O9 c\r\nabc\r\n", "HD ka O9 c12\r\n"),
    ("ms a 3 C1 k O9\r\nabc\r\n", "EX ka O9\r\n"),
    ("md a k O2\r\n", "HD ka O2\r\n"),
    ("ma n v t c k O3\r\n", "VA 1 t-1 c17 kn O3\r\n3\r\n"),
    ("ma nope k O1\r\n", "NF knope O1\r\n"),
    ("ma n C9 k O1\r\n", "EX kn O1\r\n"),
    ("ma t\r\n", "CLIENT_ERROR cannot increment or decrement non-numeric value\r\n"),
    ("me n\r\n", "ME n exp=-1 la=1 cas=19 fetch=no cls=1 size=61\r\n"),
    ("me nope\r\n", "EN\r\n"),
    ("mg n v t c s\r\n", "VA 1 t30 c22 s1 X W\r\n0\r\n"),
];

/// Commands that both refuse, and how memcached did.
const REFUSED: [(&str, &str); 33] = [
    ("get\r\n", "ERROR\r\n"),
    ("gets\r\n", "ERROR\r\n"),
    ("gat x a\r\n", "CLIENT_ERROR invalid exptime argument\r\n"),
    ("set\r\n", "ERROR\r\n"),
    ("set a 0 0\r\n", "ERROR\r\n"),
    ("set a 0 0 x\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ("set a 0 0 -1\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ("set a -1 0 3\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ("set a 0 x 3\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ("set a 0 0 3\r\nabcdef\r\n", "CLIENT_ERROR bad data chunk\r\n"),
    ("cas a 0 0 3 x\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ("delete\r\n", "ERROR\r\n"),
    ("delete a 1\r\n", "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"),
    ("delete a b c d\r\n", "ERROR\r\n"),
    ("incr a\r\n", "ERROR\r\n"),
    ("incr a x\r\n", "CLIENT_ERROR invalid numeric delta argument\r\n"),
    ("incr a -1\r\n", "CLIENT_ERROR invalid numeric delta argument\r\n"),
    ("incr a 18446744073709551616\r\n", "CLIENT_ERROR invalid numeric delta argument\r\n"),
    ("touch a\r\n", "ERROR\r\n"),
    ("touch a x\r\n", "CLIENT_ERROR invalid exptime argument\r\n"),
    ("flush_all x\r\n", "CLIENT_ERROR invalid exptime argument\r\n"),
    ("flush_all 1 2 3\r\n", "ERROR\r\n"),
    ("verbosity\r\n", "ERROR\r\n"),
    ("verbosity x\r\n", "CLIENT_ERROR bad command line format\r\n"),
    ("foo\r\n", "ERROR\r\n"),
    ("\r\n", "ERROR\r\n"),
    ("VERSION\r\n", "ERROR\r\n"),
    ("GET / HTTP/1.1\r\n", ""),
    ("mg !! b k v\r\n", "CLIENT_ERROR error decoding key\r\n"),
    ("mg a z\r\n", "CLIENT_ERROR invalid flag\r\n"),
    ("mg a v v\r\n", "CLIENT_ERROR duplicate flag\r\n"),
    ("mg a Tx\r\n", "CLIENT_ERROR bad token in command line format\r\n"),
    ("ms a x\r\n", "CLIENT_ERROR bad command line format\r\n"),
];

fn replies(mut bytes: &[u8]) -> Vec<Reply<'_>> {
    let mut replies = Vec::new();
    while !bytes.is_empty() {
        let Ok(Parsed::Complete(reply, count)) = parse_reply(bytes, &Limits::DEFAULT) else {
            panic!("{}", bytes.escape_ascii());
        };
        replies.push(reply);
        bytes = &bytes[count..];
    }
    replies
}

#[test]
fn what_memcached_takes_is_taken() {
    for (command, reply) in TAKEN {
        let parsed = parse(command.as_bytes(), &Limits::DEFAULT);
        let Ok(Parsed::Complete(_, all)) = parsed else { panic!("{parsed:?} of {command:?}") };
        assert_eq!(all, command.len());
        assert_eq!(replies(reply.as_bytes()).is_empty(), reply.is_empty());
    }
}

#[test]
fn what_memcached_refuses_is_refused_in_its_words() {
    for (command, reply) in REFUSED {
        match parse(command.as_bytes(), &Limits::DEFAULT) {
            Err(refusal) => {
                assert_eq!(refusal.reply(), reply.as_bytes(), "{command:?}");
                assert_eq!(replies(refusal.reply()).is_empty(), reply.is_empty());
            }
            other => panic!("{other:?} of {command:?}"),
        }
    }
}

/// The server's side writes, of the same rows, what memcached wrote.
#[test]
fn meta_replies_are_those_of_memcached() {
    let mut compared = 0;
    for (command, reply) in TAKEN {
        let Ok(Parsed::Complete(Request::Meta(request), _)) =
            parse(command.as_bytes(), &Limits::DEFAULT)
        else {
            continue;
        };
        let (code, flags, value) = match replies(reply.as_bytes())[..] {
            [] => (Code::En, None, None),
            [Reply::Meta(reply)] => match reply {
                meta::Reply::Head { code, flags } => (code, Some(flags), None),
                meta::Reply::Value { flags, value } => (Code::Va, Some(flags), Some(value)),
                _ => continue,
            },
            _ => continue,
        };
        let number = |letter| flags.and_then(|flags| flags.number(letter));
        let marked = |letter| flags.is_some_and(|flags| flags.token(letter).is_some());
        let facts = Facts {
            cas: number(b'c').unwrap_or(0),
            client_flags: number(b'f').map_or(0, |flags| u32::try_from(flags).unwrap()),
            value_bytes: number(b's').unwrap_or(0),
            ttl_s: number(b't'),
            hit_before: number(b'h') == Some(1),
            idle_s: number(b'l').unwrap_or(0),
            won: marked(b'W'),
            stale: marked(b'X'),
            win_sent: marked(b'Z'),
        };
        let there = matches!(code, Code::Hd | Code::Va).then_some(&facts);
        let mut out = Vec::new();
        write_reply(&mut out, &request, code, there, value);
        assert_eq!(out.escape_ascii().to_string(), reply.as_bytes().escape_ascii().to_string());
        compared += 1;
    }
    assert!(compared > 15, "{compared}");
}

/// Text replies are written as memcached writes them.
#[test]
fn text_replies_are_those_of_memcached() {
    for (_, reply) in TAKEN {
        if reply.starts_with("ERROR:") {
            continue;
        }
        let mut out = Vec::new();
        for reply in replies(reply.as_bytes()) {
            reply.write(&mut out);
        }
        assert_eq!(out, reply.as_bytes());
    }
}

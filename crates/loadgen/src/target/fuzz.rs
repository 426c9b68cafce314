//! Replies that a server made up: the parser on the hot path says the same of them whole, in pieces
//! and byte by byte, keeps nothing that did not come, and takes each byte once. So do the readers
//! of what a cluster and the other side of a team of agents say.

use keyrack_testkit::fuzz::{Dice, Fuzzer, Shape, shape};

use super::whole::whole_hit;
use super::{Kind, Malformed, Outcome, Parser, Protocol, Step};
use crate::agents;
use crate::route::{Redirect, parse_topology};

/// Which parser an input goes to is its first byte, which command it answers the second.
const PROTOCOLS: [Protocol; 5] =
    [Protocol::Text, Protocol::Binary, Protocol::Meta, Protocol::Resp2, Protocol::Resp3];
const SLOTS: u8 = 5;
const REDIRECT: u8 = 6;
const MESSAGE: u8 = 7;

const READERS: u8 = 8;

/// Commands whose replies differ in shape.
const KINDS: [Kind; 4] = [Kind::Get, Kind::Gets, Kind::Mget, Kind::Set];

/// What a parser says of bytes that come in reads which end at `cuts`: the outcomes, and how it
/// ended: bytes that were not taken, or what was wrong.
fn outcomes(
    protocol: Protocol,
    kind: Kind,
    bytes: &[u8],
    cuts: &[usize],
) -> (Vec<Outcome>, Result<bool, Malformed>) {
    let mut parser = Parser::new(protocol, false);
    let (mut found, mut at) = (Vec::new(), 0);
    for &cut in cuts {
        loop {
            match parser.step(&bytes[at..cut], kind) {
                Ok(Step::More) => break,
                Ok(Step::Eaten(count)) => {
                    assert!(count > 0 && count <= cut - at, "{count} of {}", cut - at);
                    at += count;
                }
                Ok(Step::Done(count, outcome)) => {
                    assert!(count <= cut - at, "{count} of {}", cut - at);
                    at += count;
                    found.push(outcome);
                    assert!(found.len() <= bytes.len(), "more replies than bytes");
                }
                Err(malformed) => return (found, Err(malformed)),
            }
        }
    }
    assert!(parser.words().len() <= super::reply::WORDS_BYTES_MAX);
    (found, Ok(parser.is_between_replies()))
}

fn check_replies(protocol: Protocol, input: &[u8], dice: &mut Dice) -> Shape {
    let Some((kind, bytes)) = input.split_first() else { return 0 };
    let kind = KINDS[usize::from(*kind) % KINDS.len()];
    let whole = outcomes(protocol, kind, bytes, &[bytes.len()]);
    let same = |other: &(Vec<Outcome>, Result<bool, Malformed>)| {
        // A line that is too long may be told before what else is wrong with it.
        other.0 == whole.0 && other.1.is_ok() == whole.1.is_ok()
    };
    let pieces = outcomes(protocol, kind, bytes, &dice.cuts(bytes.len()));
    assert!(same(&pieces), "in pieces {pieces:?}, whole {whole:?}");
    let each: Vec<usize> = (1..=bytes.len()).collect();
    let bytewise = outcomes(protocol, kind, bytes, &each);
    assert!(same(&bytewise), "byte by byte {bytewise:?}, whole {whole:?}");
    let fast = whole_hit(protocol, bytes, 3);
    if let Some(taken) = fast {
        assert!(taken > 0 && taken <= bytes.len());
        // What is skipped was asked for; no key has a space or the end of a line.
        let is_asked_for =
            protocol != Protocol::Text || bytes[6..9].iter().all(|byte| *byte > b' ');
        if kind == Kind::Get && is_asked_for {
            assert!(matches!(whole.0.first(), Some(Outcome::Hit { .. })), "{whole:?}");
        }
    }
    let first = whole.0.first().map(|outcome| format!("{outcome:?}"));
    let first: Option<String> =
        first.map(|text| text.chars().filter(|c| !c.is_ascii_digit()).take(40).collect());
    shape((protocol as u8, kind as u8, whole.0.len().min(4), first, whole.1.err().map(|it| it.0)))
}

#[test]
fn replies_that_were_made_up_mean_the_same_however_they_come() {
    let text = b"VALUE abc 0 3\r\nxyz\r\nEND\r\nSTORED\r\nNOT_FOUND\r\nSERVER_ERROR out\r\n";
    let meta = b"VA 3 c7\r\nabc\r\nEN\r\nHD\r\nNS\r\nMN\r\n";
    let resp = b"$3\r\nabc\r\n$-1\r\n*2\r\n$1\r\na\r\n$-1\r\n:5\r\n+OK\r\n-ERR no\r\n_\r\n%1\r\n\
                 +k\r\n:1\r\n";
    let mut header = [0; 24];
    (header[0], header[4], header[11]) = (0x81, 4, 7);
    let binary = [&header[..], &[0, 0, 0, 5], b"abc"].concat();
    let slots = b"*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:7000\r\n$2\r\nid\r\n";
    let greeting = br#"{"type":"greeting","name":"x","version":3,"nonce":"n","wants_token":false}"#;
    let prepare = br#"{"type":"ready","rate_per_s":1e3}"#;
    let mut fuzzer = Fuzzer::new("loadgen.replies", env!("CARGO_MANIFEST_DIR"), 20_000)
        .words(&[b"\r\n", b"VALUE ", b"END\r\n", b"$-1\r\n", b"*-1\r\n", b"VA ", b"-MOVED 1 a:1"])
        .sample([&[SLOTS], &slots[..]].concat())
        .sample([&[REDIRECT], &b"MOVED 3999 127.0.0.1:6381"[..]].concat())
        .sample([&[REDIRECT], &b"ASK 3999 [::1]:6381"[..]].concat())
        .sample([&[MESSAGE], &greeting[..]].concat())
        .sample([&[MESSAGE], &prepare[..]].concat());
    for kind in 0..KINDS.len() as u8 {
        for (reader, bytes) in
            [(0, &text[..]), (1, &binary[..]), (2, &meta[..]), (3, &resp[..]), (4, &resp[..])]
        {
            fuzzer = fuzzer.sample([&[reader, kind], bytes].concat());
        }
    }
    fuzzer.run(|input, dice| {
        let Some((reader, bytes)) = input.split_first() else { return 0 };
        match reader % READERS {
            SLOTS => match parse_topology(bytes, "host") {
                Ok(Some(found)) => shape((SLOTS, found.len().min(9))),
                Ok(None) => 1,
                Err(words) => shape(words.len()),
            },
            REDIRECT => match Redirect::parse(bytes, "host") {
                Some(found) => {
                    assert!(found.place.contains(':'), "{}", found.place);
                    shape((REDIRECT, found.place.len()))
                }
                None => 2,
            },
            MESSAGE => shape((MESSAGE, agents::fuzzed(bytes))),
            protocol => check_replies(PROTOCOLS[usize::from(protocol)], bytes, dice),
        }
    });
}

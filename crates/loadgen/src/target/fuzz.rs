//! What a cluster and the other side of a team of agents say: fuzzed bytes never panic their
//! readers.

use keyrack_testkit::fuzz::{Fuzzer, shape};

use crate::agents;
use crate::route::{Redirect, parse_topology};

/// Which reader gets an input is its first byte.
const SLOTS: u8 = 0;
const REDIRECT: u8 = 1;
const MESSAGE: u8 = 2;

const READERS: u8 = 3;

#[test]
fn fuzzed_words_of_peers_are_read_or_refused() {
    let slots = b"*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$9\r\n127.0.0.1\r\n:7000\r\n$2\r\nid\r\n";
    let greeting = br#"{"type":"greeting","name":"x","version":3,"nonce":"n","wants_token":false}"#;
    let prepare = br#"{"type":"ready","rate_per_s":1e3}"#;
    let fuzzer = Fuzzer::new("loadgen.replies", env!("CARGO_MANIFEST_DIR"), 10_000)
        .words(&[b"\r\n", b"$-1\r\n", b"*-1\r\n", b"-MOVED 1 a:1"])
        .sample([&[SLOTS], &slots[..]].concat())
        .sample([&[REDIRECT], &b"MOVED 3999 127.0.0.1:6381"[..]].concat())
        .sample([&[REDIRECT], &b"ASK 3999 [::1]:6381"[..]].concat())
        .sample([&[MESSAGE], &greeting[..]].concat())
        .sample([&[MESSAGE], &prepare[..]].concat());
    fuzzer.run(|input, _| {
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
            _ => shape((MESSAGE, agents::fuzzed(bytes))),
        }
    });
}

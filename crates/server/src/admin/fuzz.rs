//! Random requests for the admin page, and random patterns and numbers of Redis' commands.

use keyrack_net::http::Get;
use keyrack_testkit::fuzz::{Fuzzer, Shape, shape};

use super::is_own_host;
use crate::redis::fuzzed;

/// Which reader an input goes to is its first byte.
const HTTP: u8 = 0;
const GLOB: u8 = 1;
const NUMBER: u8 = 2;

fn check_http(bytes: &[u8]) -> Shape {
    let whole = Get::parse(bytes);
    // A beginning is not enough, or was all that there is to say.
    for cut in 0..bytes.len() {
        match Get::parse(&bytes[..cut]) {
            None => {}
            early => assert_eq!(early, whole, "{cut} bytes"),
        }
    }
    match whole {
        None => 0,
        Some(Err(refusal)) => shape(refusal),
        Some(Ok(get)) => shape((get.path == "/", get.host.is_some_and(is_own_host))),
    }
}

#[test]
fn requests_patterns_and_numbers_that_were_made_up_are_refused_or_read() {
    let page = b"GET / HTTP/1.1\r\nHost: localhost:80\r\n\r\n";
    let json = b"GET /stats.json?x HTTP/1.0\r\nhost: [::1]:80\r\nA: b\r\n\r\n";
    Fuzzer::new("server.texts", env!("CARGO_MANIFEST_DIR"), 20_000)
        .words(&[b"\r\n", b"Host: ", b" HTTP/1.1", b"*", b"[a-z]", b"[^", b"\\", b"e308", b"inf"])
        .sample([&[HTTP], &page[..]].concat())
        .sample([&[HTTP], &json[..]].concat())
        .sample([&[GLOB, 3], &b"a*z[a-c]?\\*abz"[..]].concat())
        .sample([&[GLOB, 9], &b"*a*a*a*a*aaaaaaaaaaab"[..]].concat())
        .sample([&[NUMBER], &b"-9223372036854775808"[..]].concat())
        .sample([&[NUMBER], &b"3.00000000000000001e2"[..]].concat())
        .run(|input, _| match input.split_first() {
            None => 0,
            Some((kind, bytes)) => match kind % 3 {
                HTTP => check_http(bytes),
                GLOB => shape((GLOB, fuzzed::glob(bytes))),
                _ => shape((NUMBER, fuzzed::number(bytes))),
            },
        });
}

//! Messages that somebody has been at: bytes changed, cut out, put in, numbers made hostile.
//! Whatever they come to, it must be what [`super::codec::check`] says.

use keyrack_testkit::fuzz::{Budget, corpus, kept};
use keyrack_testkit::random::seed_or;

use super::codec::{BinaryReplies, BinaryRequests, Codec, TextReplies, TextRequests, check};
use super::make;
use crate::dice::Dice;

/// Messages of each kind that the usual run makes.
const MESSAGES: u64 = 200_000;

/// Words that mean something, and numbers at the edges of what numbers can be.
const WORDS: [&[u8]; 44] = [
    b"get ",
    b"gets ",
    b"gat ",
    b"set ",
    b"cas ",
    b"add ",
    b"append ",
    b"incr ",
    b"touch ",
    b"mg ",
    b"ms ",
    b"ma ",
    b"md ",
    b"me ",
    b"mn",
    b"stats",
    b"flush_all",
    b"delete ",
    b"verbosity ",
    b"noreply",
    b" noreply",
    b"VALUE ",
    b"END",
    b"VA ",
    b"HD",
    b"STAT ",
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"0",
    b"-1",
    b"+1",
    b"00000000000000000000000000001",
    b"18446744073709551615",
    b"18446744073709551616",
    b"4294967297",
    b"4294967295",
    b"2147483648",
    b"9223372036854775808",
    b"-9223372036854775808",
    b"1e3",
    b"0x10",
];

/// Changes some bytes of a message.
fn spoil(dice: &mut Dice, message: &mut Vec<u8>) {
    for _ in 0..1 + dice.below(4) {
        let at = dice.below(message.len() + 1);
        match dice.below(7) {
            0 if at < message.len() => message[at] ^= 1 << dice.below(8),
            1 if at < message.len() => {
                message[at] = dice.pick(&[0, 0x20, 0x0A, 0x0D, 0x7F, 0xFF]);
            }
            2 => {
                let end = (at + dice.below(8)).min(message.len());
                message.drain(at..end);
            }
            3 => {
                let count = dice.below(8);
                let bytes = dice.some_bytes(count);
                message.splice(at..at, bytes);
            }
            4 => message.truncate(at),
            5 => {
                let end = (at + dice.below(4)).min(message.len());
                message.splice(at..end, dice.pick(&WORDS).iter().copied());
            }
            _ => {
                let end = (at + dice.below(30)).min(message.len());
                message.extend_from_within(at..end);
            }
        }
    }
}

/// Bytes that nobody meant, and words in no order.
fn noise(dice: &mut Dice, message: &mut Vec<u8>, first: u8) {
    if dice.once_in(2) {
        message.push(first);
        let count = dice.below(60);
        message.extend(dice.some_bytes(count));
    } else {
        for _ in 0..dice.below(12) {
            message.extend_from_slice(dice.pick(&WORDS));
        }
    }
}

/// Reads a message, and what follows it or its refusal.
fn check_all<C: Codec>(message: &[u8], dice: &mut Dice) {
    let mut rest = message;
    while let Some(bytes) = check::<C>(rest, dice.below(1 << 20)) {
        match rest.get(bytes..) {
            Some(more) if !more.is_empty() => rest = more,
            _ => break,
        }
    }
}

/// One of `parts` sorts of messages of a protocol, which share its time.
fn fuzz<C: Codec>(
    target: &str,
    parts: u64,
    seed: u64,
    first: u8,
    make: fn(&mut Dice, &mut Vec<u8>),
) {
    let seed = seed_or(seed);
    let mut dice = Dice::new(seed);
    for message in corpus(target, env!("CARGO_MANIFEST_DIR")) {
        kept(target, seed, &message, || check_all::<C>(&message, &mut dice));
    }
    let mut budget = Budget::new(MESSAGES, parts);
    let mut message = Vec::new();
    while budget.spend() {
        message.clear();
        match dice.below(8) {
            0 => noise(&mut dice, &mut message, first),
            1 => make(&mut dice, &mut message),
            _ => {
                make(&mut dice, &mut message);
                spoil(&mut dice, &mut message);
            }
        }
        kept(target, seed, &message, || check_all::<C>(&message, &mut dice));
    }
}

#[test]
fn hostile_text_commands() {
    fuzz::<TextRequests>("wire.memcached-text", 3, 1, b'g', make::text_request);
}

#[test]
fn hostile_meta_commands() {
    fuzz::<TextRequests>("wire.memcached-text", 3, 2, b'm', make::meta_request);
}

#[test]
fn hostile_binary_requests() {
    fuzz::<BinaryRequests>("wire.memcached-binary", 2, 3, 0x80, make::binary_request);
}

#[test]
fn hostile_text_replies() {
    fuzz::<TextReplies>("wire.memcached-text", 3, 4, b'V', make::text_reply);
}

#[test]
fn hostile_binary_replies() {
    fuzz::<BinaryReplies>("wire.memcached-binary", 2, 5, 0x81, make::binary_reply);
}

//! A stream of messages comes to the same however it is cut.

use super::LIMITS;
use super::codec::{
    BinaryReplies, BinaryRequests, Codec, TextReplies, TextRequests, check, complete,
};
use super::make;
use crate::dice::Dice;
use keyrack_testkit::random::seed_or;
use keyrack_wire::memcached::Parsed;

/// What a stream came to: each message and each refusal, as it prints itself.
fn all<C: Codec>(mut stream: &[u8]) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        match C::parse(stream, &LIMITS) {
            Ok(Parsed::Complete(message, bytes)) => {
                seen.push(format!("{message:?}"));
                stream = &stream[bytes..];
            }
            Ok(Parsed::Incomplete(_)) => return seen,
            Err(refusal) => {
                seen.push(format!("{refusal:?}"));
                let Some(skip) = C::next(&refusal) else { return seen };
                let skip = usize::try_from(skip).unwrap().min(stream.len());
                stream = &stream[skip..];
            }
        }
    }
}

/// The same, of a stream that comes in pieces of random sizes. A reader that trusts the number in
/// [`Parsed::Incomplete`] sees no message later than one that tries at every piece.
fn in_pieces<C: Codec>(stream: &[u8], dice: &mut Dice) -> Vec<String> {
    let (mut seen, mut buffer) = (Vec::new(), Vec::new());
    let (mut skip, mut needed) = (0_u64, 1);
    let mut at = 0;
    while at < stream.len() {
        let piece = if dice.once_in(3) { dice.below(40) } else { 1 };
        let end = stream.len().min(at + piece);
        buffer.extend_from_slice(&stream[at..end]);
        at = end;
        loop {
            let skipped = usize::try_from(skip).unwrap_or(usize::MAX).min(buffer.len());
            buffer.drain(..skipped);
            skip -= skipped as u64;
            match C::parse(&buffer, &LIMITS) {
                Ok(Parsed::Complete(message, bytes)) => {
                    assert!(buffer.len() >= needed, "{needed} bytes were said to be needed");
                    seen.push(format!("{message:?}"));
                    skip = bytes as u64;
                    needed = 1;
                }
                Ok(Parsed::Incomplete(bytes)) => {
                    assert!(skip == 0 || buffer.is_empty());
                    needed = bytes;
                    break;
                }
                Err(refusal) => {
                    seen.push(format!("{refusal:?}"));
                    match C::next(&refusal) {
                        Some(bytes) => (skip, needed) = (bytes, 1),
                        None => return seen,
                    }
                }
            }
        }
    }
    seen
}

/// A stream of whole messages with something broken in between now and then.
fn stream(dice: &mut Dice, make: fn(&mut Dice, &mut Vec<u8>), broken: &[&[u8]]) -> Vec<u8> {
    let mut stream = Vec::new();
    for _ in 0..1 + dice.below(12) {
        if !broken.is_empty() && dice.once_in(4) {
            stream.extend_from_slice(dice.pick(broken));
        } else {
            make(dice, &mut stream);
        }
    }
    stream
}

fn same_in_pieces<C: Codec>(make: fn(&mut Dice, &mut Vec<u8>), broken: &[&[u8]]) {
    let mut dice = Dice::new(seed_or(11));
    for _ in 0..600 {
        let stream = stream(&mut dice, make, broken);
        let expected = all::<C>(&stream);
        assert!(!expected.is_empty());
        assert_eq!(in_pieces::<C>(&stream, &mut dice), expected, "{}", stream.escape_ascii());
    }
}

/// Every message, cut before each of its bytes, is incomplete; whole it is what it was made from.
fn cut_everywhere<C: Codec>(make: fn(&mut Dice, &mut Vec<u8>)) {
    let mut dice = Dice::new(seed_or(12));
    let mut message = Vec::new();
    for _ in 0..1500 {
        message.clear();
        make(&mut dice, &mut message);
        complete::<C>(&message);
        for cut in 0..message.len() {
            match C::parse(&message[..cut], &LIMITS) {
                Ok(Parsed::Incomplete(needed)) => {
                    assert!(cut < needed && needed <= message.len(), "{}", message.escape_ascii());
                }
                other => panic!("{other:?} at {cut} of {}", message.escape_ascii()),
            }
        }
        assert_eq!(check::<C>(&message, 0), Some(message.len()));
    }
}

const BROKEN_TEXT: [&[u8]; 14] = [
    b"nothing\r\n",
    b"\r\n",
    b"\n",
    b"get\r\n",
    b"get a\tb\r\n",
    b"set a 0 0 400\r\n0123456789",
    b"set a x 0 3\r\nabc\r\n",
    b"set a 0 0 3\r\nabcde\r\n",
    b"set a 0 0 301 noreply\r\n0123456789",
    b"set a 0 0 99999\r\n",
    b"mg a zz\r\n",
    b"ms a 3 T\r\nabc\r\n",
    b"incr a b\r\n",
    b"GET / HTTP/1.1\r\n",
];

#[test]
fn text_commands_come_to_the_same_in_pieces() {
    same_in_pieces::<TextRequests>(make::text_request, &BROKEN_TEXT);
}

#[test]
fn binary_requests_come_to_the_same_in_pieces() {
    let unknown = b"\x80\x77\0\0\0\0\0\0\0\0\0\x03abcdabcdabcdxyz";
    let large = b"\x80\x01\0\x01\x08\0\0\0\0\0\x02\0abcdabcdabcdeeeeeeeek";
    let crooked = b"\x80\0\0\x02\0\0\0\0\0\0\0\x01abcdabcdabcdx";
    same_in_pieces::<BinaryRequests>(
        make::binary_request,
        &[unknown, large, crooked, b"get a\r\n"],
    );
}

#[test]
fn replies_come_to_the_same_in_pieces() {
    same_in_pieces::<TextReplies>(make::text_reply, &[]);
    same_in_pieces::<BinaryReplies>(make::binary_reply, &[]);
}

#[test]
fn text_commands_are_incomplete_before_every_byte() {
    cut_everywhere::<TextRequests>(make::text_request);
    cut_everywhere::<TextRequests>(make::meta_request);
}

#[test]
fn binary_requests_are_incomplete_before_every_byte() {
    cut_everywhere::<BinaryRequests>(make::binary_request);
}

#[test]
fn replies_are_incomplete_before_every_byte() {
    cut_everywhere::<TextReplies>(make::text_reply);
    cut_everywhere::<BinaryReplies>(make::binary_reply);
}

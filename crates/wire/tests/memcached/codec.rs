//! One face for the four kinds of message, and what must hold of each whatever the bytes are.

use super::LIMITS;
use keyrack_wire::memcached::{Limits, Parsed, binary, text};
use std::fmt::Debug;

/// How one kind of message is read and written.
pub(super) trait Codec {
    type Message<'a>: Copy + PartialEq + Debug;
    type Refusal: PartialEq + Debug;

    fn parse<'a>(
        buffer: &'a [u8],
        limits: &Limits,
    ) -> Result<Parsed<Self::Message<'a>>, Self::Refusal>;

    fn write(message: &Self::Message<'_>, out: &mut Vec<u8>);

    /// Whether two messages, of two buffers, are the same.
    fn same(a: &Self::Message<'_>, b: &Self::Message<'_>) -> bool;

    /// Where the next message begins, or nothing when there can be none.
    fn next(refusal: &Self::Refusal) -> Option<u64>;

    /// What is written need not be what was read: words for humans lose their control characters.
    const LOSSY: bool;
}

pub(super) struct TextRequests;
pub(super) struct TextReplies;
pub(super) struct BinaryRequests;
pub(super) struct BinaryReplies;

impl Codec for TextRequests {
    type Message<'a> = text::Request<'a>;
    type Refusal = text::Refusal;
    const LOSSY: bool = false;

    fn parse<'a>(
        buffer: &'a [u8],
        limits: &Limits,
    ) -> Result<Parsed<text::Request<'a>>, text::Refusal> {
        text::parse(buffer, limits)
    }

    fn write(message: &text::Request<'_>, out: &mut Vec<u8>) {
        message.write(out);
    }

    fn same(a: &text::Request<'_>, b: &text::Request<'_>) -> bool {
        a == b
    }

    fn next(refusal: &text::Refusal) -> Option<u64> {
        assert!(refusal.skip > 0, "{refusal:?}");
        let reply = refusal.reply();
        assert!(reply.is_empty() || reply.ends_with(b"\r\n"), "{refusal:?}");
        (!refusal.close).then_some(refusal.skip)
    }
}

impl Codec for TextReplies {
    type Message<'a> = text::Reply<'a>;
    type Refusal = keyrack_wire::Error;
    const LOSSY: bool = true;

    fn parse<'a>(
        buffer: &'a [u8],
        limits: &Limits,
    ) -> keyrack_wire::Result<Parsed<text::Reply<'a>>> {
        text::parse_reply(buffer, limits)
    }

    fn write(message: &text::Reply<'_>, out: &mut Vec<u8>) {
        message.write(out);
    }

    fn same(a: &text::Reply<'_>, b: &text::Reply<'_>) -> bool {
        a == b
    }

    fn next(_: &keyrack_wire::Error) -> Option<u64> {
        None
    }
}

impl Codec for BinaryRequests {
    type Message<'a> = binary::Request<'a>;
    type Refusal = binary::Refusal;
    const LOSSY: bool = false;

    fn parse<'a>(
        buffer: &'a [u8],
        limits: &Limits,
    ) -> Result<Parsed<binary::Request<'a>>, binary::Refusal> {
        binary::parse(buffer, limits)
    }

    fn write(message: &binary::Request<'_>, out: &mut Vec<u8>) {
        message.write(out);
    }

    fn same(a: &binary::Request<'_>, b: &binary::Request<'_>) -> bool {
        a == b
    }

    fn next(refusal: &binary::Refusal) -> Option<u64> {
        assert!(refusal.skip > 0, "{refusal:?}");
        (!refusal.close).then_some(refusal.skip)
    }
}

impl Codec for BinaryReplies {
    type Message<'a> = binary::Reply<'a>;
    type Refusal = keyrack_wire::Error;
    const LOSSY: bool = false;

    fn parse<'a>(
        buffer: &'a [u8],
        limits: &Limits,
    ) -> keyrack_wire::Result<Parsed<binary::Reply<'a>>> {
        binary::parse_reply(buffer, limits)
    }

    fn write(message: &binary::Reply<'_>, out: &mut Vec<u8>) {
        message.write(out);
    }

    fn same(a: &binary::Reply<'_>, b: &binary::Reply<'_>) -> bool {
        a == b
    }

    fn next(_: &keyrack_wire::Error) -> Option<u64> {
        None
    }
}

/// The most that any message may take under [`LIMITS`].
const MESSAGE_BYTES_MAX: usize = 1200 + 300 + 600;

/// Checks what comes of the message at the front of `buffer`, also when only its first `cut` bytes
/// are there. Returns where the next message begins.
pub(super) fn check<C: Codec>(buffer: &[u8], cut: usize) -> Option<usize> {
    let shown = || buffer.escape_ascii().to_string();
    match C::parse(buffer, &LIMITS) {
        Ok(Parsed::Complete(message, bytes)) => {
            assert!(bytes > 0 && bytes <= buffer.len(), "{bytes} of {}", shown());
            assert_eq!(
                C::parse(&buffer[..bytes], &LIMITS),
                Ok(Parsed::Complete(message, bytes)),
                "{}",
                shown()
            );
            let cut = cut % bytes;
            for cut in [cut, bytes - 1] {
                match C::parse(&buffer[..cut], &LIMITS) {
                    Ok(Parsed::Incomplete(needed)) => {
                        assert!(
                            cut < needed && needed <= bytes,
                            "{needed} at {cut} of {}",
                            shown()
                        );
                    }
                    other => panic!("{other:?} at {cut} of {}", shown()),
                }
            }
            check_written::<C>(&message);
            Some(bytes)
        }
        Ok(Parsed::Incomplete(needed)) => {
            assert!(
                needed > buffer.len() && needed <= MESSAGE_BYTES_MAX,
                "{needed} of {}",
                shown()
            );
            None
        }
        Err(refusal) => usize::try_from(C::next(&refusal)?).ok(),
    }
}

/// What was written is read as what it was written from.
fn check_written<C: Codec>(message: &C::Message<'_>) {
    let mut first = Vec::new();
    C::write(message, &mut first);
    let again = complete::<C>(&first);
    if C::LOSSY {
        let mut second = Vec::new();
        C::write(&again, &mut second);
        let twice = complete::<C>(&second);
        assert!(C::same(&twice, &again), "{}", second.escape_ascii());
    } else {
        assert!(C::same(&again, message), "{}", first.escape_ascii());
    }
}

/// The one message that all of `bytes` are. What was read may be written longer than it was (a `0`
/// that was left out), so the limits are the usual ones.
pub(super) fn complete<C: Codec>(bytes: &[u8]) -> C::Message<'_> {
    match C::parse(bytes, &Limits::DEFAULT) {
        Ok(Parsed::Complete(message, all)) if all == bytes.len() => message,
        other => panic!("{other:?} of {}", bytes.escape_ascii()),
    }
}

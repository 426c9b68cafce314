//! The state of a reply between two reads, which the parsers of all protocols share.

use std::ops::Range;

use super::kind::Kind;
use super::result::Outcome;
use crate::number::parse_u64;

/// A line of a reply at most; a longer one is no reply.
pub(super) const LINE_BYTES_MAX: usize = 64 << 10;

/// Bytes of an error that are kept for people.
pub(super) const WORDS_BYTES_MAX: usize = 200;

/// Digits of the largest number.
const DIGITS_MAX: usize = 20;

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing: the rest of what begins here has not come.
    More,
    /// These bytes are taken; the reply goes on.
    Eaten(usize),
    /// These bytes are taken, and with them the reply is whole.
    Done(usize, Outcome),
}

/// The server says something that is no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// Where in a reply the parser stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Where a line or a header begins.
    Start,
    /// In a value of which so many bytes have not come.
    Value { left: u64 },
    /// Behind a value, at its CRLF.
    ValueEnd,
    /// In a body of a binary message; what it means, unless others follow.
    Body { left: u64, outcome: Option<Outcome> },
}

/// What is known of the present reply.
#[derive(Debug)]
pub(super) struct ReplyState {
    pub(super) phase: Phase,
    /// Values of this reply so far.
    pub(super) hits: u32,
    pub(super) token: u64,
    /// Elements of a reply of Redis that are still to come.
    pub(super) items: u64,
    pub(super) is_push: bool,
    pub(super) failed: Option<Outcome>,
    /// Does the present reply answer several keys?
    pub(super) is_many: bool,
    /// Waits for values to be whole, so that they can be looked at.
    pub(super) keeps_values: bool,
    pub(super) opaque: Option<u32>,
    pub(super) value: Option<Range<usize>>,
    /// The text of the last error.
    pub(super) words: Vec<u8>,
}

impl ReplyState {
    pub(super) fn new(keeps_values: bool) -> ReplyState {
        ReplyState {
            phase: Phase::Start,
            hits: 0,
            token: 0,
            items: 0,
            is_push: false,
            failed: None,
            is_many: false,
            keeps_values,
            opaque: None,
            value: None,
            words: Vec::new(),
        }
    }

    /// Does the next byte begin a reply?
    #[inline]
    pub(super) fn is_between_replies(&self) -> bool {
        self.phase == Phase::Start && self.items == 0 && self.hits == 0
    }

    /// The outcome of a lookup whose values have been counted.
    #[inline]
    pub(super) fn lookup(&mut self, kind: Kind) -> Outcome {
        match (kind, std::mem::take(&mut self.hits)) {
            (Kind::Mget, hits) => Outcome::Hits(hits),
            (_, 0) => Outcome::Miss,
            _ => Outcome::Hit { token: self.token },
        }
    }

    /// Keeps the words of a failure.
    pub(super) fn note_failure(&mut self, outcome: Outcome, words: &[u8]) {
        if let Outcome::Failed(_) = outcome {
            self.words.clear();
            self.words.extend_from_slice(&words[..words.len().min(WORDS_BYTES_MAX)]);
            self.hits = 0;
        }
    }

    /// The reply under way is a failure, once it has ended.
    pub(super) fn fail(&mut self, outcome: Outcome, words: &[u8]) {
        self.note_failure(outcome, words);
        self.failed = Some(outcome);
    }
}

/// The line at the front without its end, and its bytes with it.
///
/// # Errors
/// A line without end, or one that ends in LF alone.
#[inline]
pub(super) fn line(buffer: &[u8]) -> Result<Option<(&[u8], usize)>, Malformed> {
    match memchr::memchr(b'\n', buffer) {
        Some(at) if at > 0 && buffer[at - 1] == b'\r' && at <= LINE_BYTES_MAX => {
            Ok(Some((&buffer[..at - 1], at + 1)))
        }
        Some(_) => Err(Malformed("the end of a line")),
        None if buffer.len() > LINE_BYTES_MAX => Err(Malformed("a line without end")),
        None => Ok(None),
    }
}

/// A decimal number of at most [`DIGITS_MAX`] digits.
#[inline]
pub(super) fn number(word: &[u8]) -> Option<u64> {
    if word.len() > DIGITS_MAX {
        return None;
    }
    parse_u64(word)
}

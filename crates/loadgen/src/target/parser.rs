//! Where a reply ends, and what it was: a machine over what has come so far.
//!
//! ```text
//!   Start --line--> Done
//!     |                                   Body (binary): counted down, then done
//!     +--line of a value--> Value: counted down --> ValueEnd: CRLF --> Start, or done
//! ```

use std::ops::Range;

use super::{Kind, Outcome, Protocol, binary, meta, resp, text};

/// A line of a reply at most; a longer one is no reply.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Bytes of an error that are kept for people.
pub(super) const WORDS_BYTES_MAX: usize = 200;

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

/// The state between the reads of a connection.
#[derive(Debug)]
pub struct Parser {
    protocol: Protocol,
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
    /// The last error in words.
    words: Vec<u8>,
}

impl Parser {
    /// A parser at the start of a connection's first reply. With `keeps_values`, a step takes a
    /// value only when all of it is in the buffer.
    #[must_use]
    pub fn new(protocol: Protocol, keeps_values: bool) -> Parser {
        Parser {
            protocol,
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
    #[must_use]
    pub fn is_between_replies(&self) -> bool {
        self.phase == Phase::Start && self.items == 0 && self.hits == 0
    }

    /// Takes what it can of `buffer`, in which the present reply goes on. `kind` is what it
    /// answers.
    ///
    /// # Errors
    /// Bytes that are no reply to that.
    #[inline]
    pub fn step(&mut self, buffer: &[u8], kind: Kind) -> Result<Step, Malformed> {
        if buffer.is_empty() {
            return Ok(Step::More);
        }
        match self.phase {
            Phase::Start => {
                self.is_many = kind == Kind::Mget;
                match self.protocol {
                    Protocol::Text => text::step(self, buffer, kind),
                    Protocol::Binary => binary::step(self, buffer),
                    Protocol::Meta => meta::step(self, buffer, kind),
                    Protocol::Resp2 | Protocol::Resp3 => resp::step(self, buffer, kind),
                }
            }
            Phase::Value { left } => {
                let taken = left.min(buffer.len() as u64);
                self.phase = match left - taken {
                    0 => Phase::ValueEnd,
                    left => Phase::Value { left },
                };
                Ok(Step::Eaten(taken as usize))
            }
            Phase::ValueEnd => self.value_end(buffer, kind),
            Phase::Body { left, outcome } => {
                let taken = left.min(buffer.len() as u64);
                let left = left - taken;
                if left > 0 {
                    self.phase = Phase::Body { left, outcome };
                    return Ok(Step::Eaten(taken as usize));
                }
                self.phase = Phase::Start;
                Ok(match outcome {
                    Some(outcome) => Step::Done(taken as usize, outcome),
                    None => Step::Eaten(taken as usize),
                })
            }
        }
    }

    /// The CRLF behind a value, which ends a meta reply and an element of Redis.
    fn value_end(&mut self, buffer: &[u8], kind: Kind) -> Result<Step, Malformed> {
        match buffer {
            [b'\r', b'\n', ..] => {}
            [b'\r'] => return Ok(Step::More),
            _ => return Err(Malformed("the end of a value")),
        }
        self.phase = Phase::Start;
        Ok(match self.protocol {
            Protocol::Resp2 | Protocol::Resp3 => resp::element(self, 2, kind, true),
            Protocol::Meta if !self.is_many => Step::Done(2, self.lookup(kind)),
            _ => Step::Eaten(2),
        })
    }

    /// The outcome of a lookup whose values have been counted.
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

    /// What the server said with the last failure.
    #[must_use]
    pub fn words(&self) -> &[u8] {
        &self.words
    }

    /// The opaque of the last binary reply, once.
    #[inline]
    pub fn take_opaque(&mut self) -> Option<u32> {
        self.opaque.take()
    }

    /// Where in the buffer of the last step a value stood that was whole, once.
    #[inline]
    pub fn take_value(&mut self) -> Option<Range<usize>> {
        self.value.take()
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

#[cfg(test)]
#[path = "parser_tests.rs"]
mod tests;

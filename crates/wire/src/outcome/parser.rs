//! Where a reply ends, and what it was: a machine over what has come so far.
//!
//! ```text
//!   Start --line--> Done
//!     |                                   Body (binary): counted down, then done
//!     +--line of a value--> Value: counted down --> ValueEnd: CRLF --> Start, or done
//! ```

use std::ops::Range;

use super::kind::Kind;
use super::state::{Malformed, Phase, ReplyState, Step};
use super::{binary, meta, resp, text};

/// How the replies of a server are framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Memcached's text commands.
    Text,
    /// Memcached's binary messages.
    Binary,
    /// Memcached's meta commands.
    Meta,
    /// Redis, both versions of its dialect.
    Resp,
}

/// The state between the reads of a connection.
#[derive(Debug)]
pub struct Parser {
    dialect: Dialect,
    state: ReplyState,
}

impl Parser {
    /// A parser at the start of a connection's first reply. With `keeps_values`, a step takes a
    /// value only when all of it is in the buffer.
    #[must_use]
    pub fn new(dialect: Dialect, keeps_values: bool) -> Parser {
        Parser { dialect, state: ReplyState::new(keeps_values) }
    }

    /// Does the next byte begin a reply?
    #[inline]
    #[must_use]
    pub fn is_between_replies(&self) -> bool {
        self.state.is_between_replies()
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
        match self.state.phase {
            Phase::Start => {
                self.state.is_many = kind == Kind::Mget;
                match self.dialect {
                    Dialect::Text => text::step(&mut self.state, buffer, kind),
                    Dialect::Binary => binary::step(&mut self.state, buffer),
                    Dialect::Meta => meta::step(&mut self.state, buffer, kind),
                    Dialect::Resp => resp::step(&mut self.state, buffer, kind),
                }
            }
            Phase::Value { left } => {
                let taken = left.min(buffer.len() as u64);
                self.state.phase = match left - taken {
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
                    self.state.phase = Phase::Body { left, outcome };
                    return Ok(Step::Eaten(taken as usize));
                }
                self.state.phase = Phase::Start;
                Ok(match outcome {
                    Some(outcome) => Step::Done(taken as usize, outcome),
                    None => Step::Eaten(taken as usize),
                })
            }
        }
    }

    /// The CRLF behind a value, which ends a meta reply and an element of Redis.
    #[inline]
    fn value_end(&mut self, buffer: &[u8], kind: Kind) -> Result<Step, Malformed> {
        match buffer {
            [b'\r', b'\n', ..] => {}
            [b'\r'] => return Ok(Step::More),
            _ => return Err(Malformed("the end of a value")),
        }
        self.state.phase = Phase::Start;
        Ok(match self.dialect {
            Dialect::Resp => resp::element(&mut self.state, 2, kind, true),
            Dialect::Meta if !self.state.is_many => Step::Done(2, self.state.lookup(kind)),
            _ => Step::Eaten(2),
        })
    }

    /// What the server said with the last failure.
    #[must_use]
    pub fn words(&self) -> &[u8] {
        &self.state.words
    }

    /// The opaque of the last binary reply, once.
    #[inline]
    pub fn take_opaque(&mut self) -> Option<u32> {
        self.state.opaque.take()
    }

    /// Where in the buffer of the last step a value stood that was whole, once.
    #[inline]
    pub fn take_value(&mut self) -> Option<Range<usize>> {
        self.state.value.take()
    }
}

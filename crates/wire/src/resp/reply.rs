//! Replies out of a connection's bytes.
//!
//! ```text
//!   *2\r\n  %1\r\n  +a\r\n  :1\r\n   $5\r\n hel        lo\r\n
//!   frames: array 1 missing                  ^ at: everything before is understood
//! ```
//!
//! The parser finds the end of a reply, token by token, with a stack of [`DEPTH_MAX`] frames that
//! say what is missing at each level. Nothing of the reply is kept: it is handed out as the bytes
//! in which every token has been checked, to be walked through again.
//!
//! A frame counts elements down; a map counts twice as many. What an attribute holds is counted by
//! a frame of its own, whose end completes nothing in the level above. Streams count up, for a
//! map's names and values are pairs.

use super::error::ProtocolError;
use super::limits::Limits;
use super::token::{Step, Stream, Token, token};

/// Aggregates within each other.
pub const DEPTH_MAX: usize = 32;

/// A level of an unfinished reply.
#[derive(Clone, Copy, Debug)]
struct Frame {
    kind: FrameKind,
    /// Elements missing; of a stream: seen.
    count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameKind {
    Counted,
    Attribute,
    Stream(Stream),
}

/// Finds one reply after the other in the bytes of a connection, of which it has one.
#[derive(Clone, Debug)]
pub struct ReplyParser {
    /// Bytes that are understood.
    at: usize,
    /// Bytes behind `at` that hold no end of a line.
    searched: usize,
    /// Bytes of input with which there is more to say.
    wanted: usize,
    /// Tokens seen.
    elements: u64,
    /// Whether the token before ended an attribute, so that a value has to follow.
    annotated: bool,
    /// Levels that are open: `frames[..depth]`.
    depth: usize,
    frames: [Frame; DEPTH_MAX],
}

impl Default for ReplyParser {
    fn default() -> Self {
        Self::new()
    }
}

impl ReplyParser {
    /// A parser at the start of a connection.
    #[must_use]
    pub const fn new() -> Self {
        let frame = Frame { kind: FrameKind::Counted, count: 0 };
        let frames = [frame; DEPTH_MAX];
        let annotated = false;
        Self { at: 0, searched: 0, wanted: 0, elements: 0, annotated, depth: 0, frames }
    }

    /// The first reply in `input`, which is moved forward over it. `None`: it is not whole yet;
    /// call again with the same bytes and more behind them. O(bytes of the reply) over all the
    /// calls.
    ///
    /// # Errors
    /// The bytes are no reply, or one beyond `limits`. There is no way to go on behind it.
    #[inline]
    pub fn next<'a>(
        &mut self,
        input: &mut &'a [u8],
        limits: &Limits,
    ) -> Result<Option<Reply<'a>>, ProtocolError> {
        let bytes: &'a [u8] = input;
        if bytes.len() < self.wanted {
            return Ok(None);
        }
        loop {
            let (token, length) = match token(&bytes[self.at..], self.searched, limits)? {
                Step::Token(token, length) => (token, length),
                Step::More { wanted, searched } => {
                    self.wanted = self.at + wanted;
                    self.searched = searched;
                    self.check_bytes(self.wanted, limits)?;
                    return Ok(None);
                }
            };
            self.check_bytes(self.at + length, limits)?;
            (self.at, self.searched) = (self.at + length, 0);
            self.elements += 1;
            if self.elements > limits.elements_max {
                return Err(ProtocolError::ReplyTooLarge("elements"));
            }
            if self.accept(&token)? {
                let (reply, rest) = bytes.split_at(self.at);
                *input = rest;
                (self.at, self.wanted, self.elements) = (0, 0, 0);
                return Ok(Some(Reply { bytes: reply }));
            }
        }
    }

    /// Bytes of an unfinished reply that have to be there, counted from its first, before there is
    /// more to say about it. Within the limits.
    #[must_use]
    pub fn wanted_bytes(&self) -> usize {
        self.wanted
    }

    fn check_bytes(&self, bytes: usize, limits: &Limits) -> Result<(), ProtocolError> {
        if bytes as u64 > limits.message_bytes_max {
            return Err(ProtocolError::ReplyTooLarge("bytes"));
        }
        Ok(())
    }

    /// Puts a token into its place. Returns whether the reply is whole with it.
    #[inline]
    fn accept(&mut self, token: &Token<'_>) -> Result<bool, ProtocolError> {
        let top = self.depth.checked_sub(1).map(|top| self.frames[top]);
        let in_string = top.is_some_and(|top| top.kind == FrameKind::Stream(Stream::String));
        if in_string && !matches!(token, Token::Chunk(_) | Token::End) {
            return Err(ProtocolError::Misplaced("element of a string"));
        }
        let annotated = std::mem::replace(&mut self.annotated, false);
        let (kind, count) = match *token {
            Token::Chunk(_) if in_string => return Ok(false),
            Token::Chunk(_) => return Err(ProtocolError::Misplaced("chunk of a string")),
            Token::Push(_) if self.depth > 0 => return Err(ProtocolError::Misplaced("push")),
            Token::Array(count) | Token::Set(count) | Token::Push(count) => {
                (FrameKind::Counted, count as u64)
            }
            Token::Map(count) => (FrameKind::Counted, 2 * count as u64),
            Token::Attribute(0) => {
                self.annotated = true;
                return Ok(false);
            }
            Token::Attribute(count) => (FrameKind::Attribute, 2 * count as u64),
            Token::Stream(stream) => return self.open(FrameKind::Stream(stream), 0),
            Token::End if annotated => {
                return Err(ProtocolError::Misplaced("attribute"));
            }
            Token::End => return self.end(top),
            _ => return Ok(self.complete()),
        };
        if count == 0 { Ok(self.complete()) } else { self.open(kind, count) }
    }

    fn open(&mut self, kind: FrameKind, count: u64) -> Result<bool, ProtocolError> {
        let frame = self.frames.get_mut(self.depth);
        *frame.ok_or(ProtocolError::ReplyTooLarge("levels"))? = Frame { kind, count };
        self.depth += 1;
        Ok(false)
    }

    /// Ends the stream at the top.
    fn end(&mut self, top: Option<Frame>) -> Result<bool, ProtocolError> {
        match top {
            Some(Frame { kind: FrameKind::Stream(Stream::Map), count }) if count % 2 == 1 => {
                Err(ProtocolError::Misplaced("end of a map"))
            }
            Some(Frame { kind: FrameKind::Stream(_), .. }) => {
                self.depth -= 1;
                Ok(self.complete())
            }
            _ => Err(ProtocolError::Misplaced("end of a stream")),
        }
    }

    /// Counts an element that is whole, and the levels that are whole by it. Returns whether the
    /// reply is.
    #[inline]
    fn complete(&mut self) -> bool {
        while let Some(top) = self.depth.checked_sub(1) {
            let frame = &mut self.frames[top];
            if let FrameKind::Stream(_) = frame.kind {
                frame.count += 1;
                return false;
            }
            frame.count -= 1;
            if frame.count > 0 {
                return false;
            }
            self.depth = top;
            if frame.kind == FrameKind::Attribute {
                self.annotated = true;
                return false;
            }
        }
        true
    }
}

/// A whole reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    bytes: &'a [u8],
}

impl<'a> Reply<'a> {
    /// All its tokens, in order.
    #[inline]
    #[must_use]
    pub fn tokens(&self) -> Tokens<'a> {
        Tokens { rest: self.bytes }
    }

    /// The first token that is not about the reply but the reply, or the head of it.
    #[must_use]
    pub fn head(&self) -> Token<'a> {
        let mut tokens = self.tokens();
        loop {
            match tokens.next() {
                Some(Token::Attribute(count)) => {
                    (0..2 * count).for_each(|_| tokens.skip_value());
                }
                Some(token) => return token,
                // A whole reply has a head.
                None => return Token::Null,
            }
        }
    }

    /// Whether it answers no request.
    #[must_use]
    pub fn is_push(&self) -> bool {
        matches!(self.head(), Token::Push(_))
    }

    /// The bytes as they came.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// The tokens of a reply. Its bytes were checked, so there is no error, and an end only at the end.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'a> {
    rest: &'a [u8],
}

impl Tokens<'_> {
    /// Passes over one value: all that is in it, and the attributes before it. O(its bytes).
    pub fn skip_value(&mut self) {
        let mut parser = ReplyParser::new();
        // Checked before, within its limits.
        if !matches!(parser.next(&mut self.rest, &UNLIMITED), Ok(Some(_))) {
            self.rest = &[];
        }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    #[inline]
    fn next(&mut self) -> Option<Token<'a>> {
        match token(self.rest, 0, &UNLIMITED) {
            Ok(Step::Token(token, length)) => {
                self.rest = &self.rest[length..];
                Some(token)
            }
            _ => None,
        }
    }
}

/// For what was held against limits before.
const UNLIMITED: Limits = Limits {
    elements_max: u64::MAX,
    bulk_bytes_max: u64::MAX,
    skip_bytes_max: 0,
    message_bytes_max: u64::MAX,
    line_bytes_max: u64::MAX,
    authenticated: true,
};

/// Bytes of the first reply in `input`; `None` if it is not whole. Looks at all of it each time:
/// for tests and tools.
///
/// # Errors
/// As [`ReplyParser::next`].
pub fn reply_bytes(input: &[u8], limits: &Limits) -> Result<Option<usize>, ProtocolError> {
    let mut rest = input;
    Ok(ReplyParser::new().next(&mut rest, limits)?.map(|reply| reply.bytes.len()))
}

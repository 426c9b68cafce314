//! Replies, in the version that the peer asked for.
//!
//! RESP3 has types that RESP2 has not. A command says what it means, and here it becomes what the
//! peer knows:
//!
//! | | RESP3 | RESP2 |
//! |---|---|---|
//! | null, null array | `_` | `$-1`, `*-1` |
//! | map of n | `%n` | array of 2n |
//! | set, push of n | `~n`, `>n` | array of n |
//! | double | `,` | bulk string |
//! | truth | `#t`, `#f` | `:1`, `:0` |
//! | big number, verbatim | `(`, `=` | bulk string |
//! | long error | `!` | `-` |
//! | attribute | `\|n` | nothing |

use super::double::put_double;
use super::error::ProtocolError;
use keyrack_decimal::Decimal;
use std::io::Write;

/// The version of the protocol that a peer speaks. It begins with the second, and `HELLO 3` asks
/// for the third.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// What every client understands.
    #[default]
    Resp2,
    /// With maps, sets, doubles, truth values and pushes.
    Resp3,
}

/// Appends replies to a connection's output. Of an aggregate it writes the head; its elements have
/// to follow, as many as were announced.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    protocol: Protocol,
}

impl<'a> Writer<'a> {
    /// A writer for one peer.
    #[inline]
    #[must_use]
    pub fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> Self {
        Self { out, protocol }
    }

    /// What the peer speaks.
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Bytes of output so far: the place of the next reply, for [`Writer::array_at`] and
    /// [`Writer::cut`].
    #[inline]
    #[must_use]
    pub fn place(&self) -> usize {
        self.out.len()
    }

    /// Takes back everything from `place` on, as when a command fails in the midst of its reply.
    pub fn cut(&mut self, place: usize) {
        self.out.truncate(place);
    }

    /// What was written since `place`.
    ///
    /// # Panics
    /// When `place` lies behind the output.
    #[must_use]
    pub fn since(&self, place: usize) -> &[u8] {
        &self.out[place..]
    }

    /// Whole replies that another writer for the same peer made.
    pub fn append(&mut self, replies: &[u8]) {
        self.out.extend_from_slice(replies);
    }

    /// From here on the peer speaks `protocol`.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.out.extend_from_slice(b"+OK\r\n");
    }

    /// A short text in one line. Control bytes become blanks.
    pub fn simple(&mut self, text: impl AsRef<[u8]>) {
        self.out.push(b'+');
        self.put_line(text.as_ref());
    }

    /// An error, its code first: `ERR unknown command`. Control bytes become blanks, so that what
    /// a peer sent and gets back can never be taken for another reply.
    pub fn error(&mut self, text: impl AsRef<[u8]>) {
        self.out.push(b'-');
        self.put_line(text.as_ref());
    }

    /// What a server says before it closes.
    pub fn protocol_error(&mut self, error: &ProtocolError) {
        // Writing to a vector does not fail. The texts have no control bytes.
        let _ = write!(self.out, "-ERR Protocol error: {error}\r\n");
    }

    /// An error of any bytes; in RESP2 an error in one line.
    pub fn bulk_error(&mut self, text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.error(text),
            Protocol::Resp3 => self.put_string(b'!', text),
        }
    }

    /// A whole number.
    #[inline]
    pub fn integer(&mut self, number: i64) {
        self.out.push(b':');
        self.put_number(number);
        self.out.extend_from_slice(b"\r\n");
    }

    /// A string of any bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.put_string(b'$', bytes);
    }

    /// A whole number as a string.
    pub fn bulk_integer(&mut self, number: i64) {
        let digits = Decimal::new(number.unsigned_abs());
        self.put_head(b'$', digits.len() as u64 + u64::from(number < 0));
        self.put_number(number);
        self.out.extend_from_slice(b"\r\n");
    }

    /// No string there.
    #[inline]
    pub fn null(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"$-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// No array there.
    pub fn null_array(&mut self) {
        self.out.extend_from_slice(match self.protocol {
            Protocol::Resp2 => b"*-1\r\n",
            Protocol::Resp3 => b"_\r\n",
        });
    }

    /// The head of an array: `count` elements follow.
    #[inline]
    pub fn array(&mut self, count: usize) {
        self.put_head(b'*', count as u64);
    }

    /// The head of a map: `count` pairs follow, each a name and a value.
    pub fn map(&mut self, count: usize) {
        match self.protocol {
            Protocol::Resp2 => self.put_head(b'*', 2 * count as u64),
            Protocol::Resp3 => self.put_head(b'%', count as u64),
        }
    }

    /// The head of a set: `count` elements follow.
    pub fn set(&mut self, count: usize) {
        self.put_new_head(b'~', count);
    }

    /// The head of a message that answers no request: `count` elements follow, its kind first.
    pub fn push(&mut self, count: usize) {
        self.put_new_head(b'>', count);
    }

    /// The head of something said about the reply that follows. False: the peer does not know such
    /// a thing, nothing was written, and the `count` pairs must not follow.
    #[must_use]
    pub fn attribute(&mut self, count: usize) -> bool {
        if self.protocol == Protocol::Resp3 {
            self.put_head(b'|', count as u64);
        }
        self.protocol == Protocol::Resp3
    }

    /// Puts the head of an array of `count` in front of what was written since `place`, for when
    /// the count is known last. O(bytes since `place`).
    ///
    /// # Panics
    /// When `place` lies behind the output.
    pub fn array_at(&mut self, place: usize, count: usize) {
        let end = self.out.len();
        assert!(place <= end, "an array begins at {place}, behind the output's end {end}");
        self.array(count);
        let bytes = self.out.len() - end;
        self.out[place..].rotate_right(bytes);
    }

    /// A floating-point number.
    pub fn double(&mut self, number: f64) {
        match self.protocol {
            Protocol::Resp2 => {
                // The length comes first: write the text behind room for it.
                let start = self.out.len();
                put_double(self.out, number);
                let bytes = self.out.len() - start;
                self.put_head(b'$', bytes as u64);
                self.out[start..].rotate_left(bytes);
            }
            Protocol::Resp3 => {
                self.out.push(b',');
                put_double(self.out, number);
            }
        }
        self.out.extend_from_slice(b"\r\n");
    }

    /// True or false.
    pub fn boolean(&mut self, truth: bool) {
        self.out.extend_from_slice(match (self.protocol, truth) {
            (Protocol::Resp2, true) => b":1\r\n",
            (Protocol::Resp2, false) => b":0\r\n",
            (Protocol::Resp3, true) => b"#t\r\n",
            (Protocol::Resp3, false) => b"#f\r\n",
        });
    }

    /// A whole number of any size, in decimal digits with at most a sign before them.
    pub fn big_number(&mut self, digits: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits.as_bytes()),
            Protocol::Resp3 => {
                self.out.push(b'(');
                self.put_line(digits.as_bytes());
            }
        }
    }

    /// Text for people, `format` being `txt` or `mkd`.
    pub fn verbatim(&mut self, format: [u8; 3], text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                self.put_head(b'=', text.len() as u64 + 4);
                self.out.extend_from_slice(&format);
                self.out.push(b':');
                self.out.extend_from_slice(text);
                self.out.extend_from_slice(b"\r\n");
            }
        }
    }

    #[inline]
    fn put_head(&mut self, kind: u8, count: u64) {
        put_head(self.out, kind, count);
    }

    fn put_new_head(&mut self, kind: u8, count: usize) {
        let kind = if self.protocol == Protocol::Resp2 { b'*' } else { kind };
        self.put_head(kind, count as u64);
    }

    #[inline]
    fn put_string(&mut self, kind: u8, bytes: &[u8]) {
        put_string(self.out, kind, bytes);
    }

    #[inline]
    fn put_number(&mut self, number: i64) {
        if number < 0 {
            self.out.push(b'-');
        }
        self.out.extend_from_slice(&Decimal::new(number.unsigned_abs()));
    }

    fn put_line(&mut self, text: &[u8]) {
        self.out.extend(text.iter().map(|&byte| if byte.is_ascii_control() { b' ' } else { byte }));
        self.out.extend_from_slice(b"\r\n");
    }
}

/// Appends `$5\r\n` or the like.
#[inline]
pub(super) fn put_head(out: &mut Vec<u8>, kind: u8, count: u64) {
    match u8::try_from(count) {
        Ok(digit @ 0..=9) => out.extend_from_slice(&[kind, b'0' + digit, b'\r', b'\n']),
        _ => {
            out.push(kind);
            out.extend_from_slice(&Decimal::new(count));
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// Appends a string with its length in front.
#[inline]
pub(super) fn put_string(out: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    // One growth at most: no head is longer than 24 bytes.
    out.reserve(bytes.len() + 26);
    put_head(out, kind, bytes.len() as u64);
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

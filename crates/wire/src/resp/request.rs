//! Requests out of a connection's bytes.
//!
//! ```text
//!   *2\r\n   $3\r\n GET\r\n   $5\r\n hel       lo\r\n
//!            args[0] = 8..11           ^ at: everything before is understood
//! ```
//!
//! What is kept of an unfinished request is `at`, how many arguments are missing, and the places
//! of those that are whole. `wanted` says how long the input has to be before it is worth looking
//! again, so that a large value that comes in many reads costs one comparison for each.
//!
//! A request with a string above its limit is refused: what has come of it is taken at once, what
//! is to come is taken and dropped, and [`RequestParser::take_refused`] says so once.
//!
//! ```text
//!   *3  $3 SET  $1 k  $2000000 vvvv   |  vvvvvvvv vvvvvvvvvvv  |  vv\r\n  *1 $4 PING
//!   `---- taken, refused ---------'      taken   taken             taken   the next request
//! ```
//!
//! A request of no arguments (`*0`, `*-1`, an empty line) is passed over, as Redis does. Where we
//! are stricter than Redis: a carriage return in the framing is followed by a line feed, and a
//! string by both.

use super::error::ProtocolError;
use super::limits::Limits;
use super::{inline, number};
use memchr::memchr;

/// Bytes of `*123\r\n` behind the first. No number is longer; Redis waits for 64 KiB.
const HEADER_BYTES_MAX: usize = 32;

/// Arguments whose places a parser keeps memory for from one request to the next (16 KiB).
const ARGS_KEPT_MAX: usize = 1 << 10;

/// Bytes of unquoted words that a parser keeps memory for.
const TEXT_KEPT_MAX: usize = 4 << 10;

/// Where an argument is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Finds one request after the other in the bytes of a connection, of which it has one.
#[derive(Debug, Default)]
pub struct RequestParser {
    /// Arguments that are whole, from the front of the request.
    args: Vec<Span>,
    /// Words of a line that had quotes.
    text: Vec<u8>,
    /// Arguments that are announced and not whole.
    missing: u64,
    /// Bytes of the request that are understood; of a line: that hold no end.
    at: usize,
    /// Bytes of input with which there is more to say.
    wanted: usize,
    /// The request at hand is refused: its strings are dropped.
    is_refused: bool,
    /// Bytes of the string at hand that are still to be dropped, its line end not counted.
    skip: u64,
    /// A request was refused, and nobody has asked about it yet.
    has_refused: bool,
}

/// Where the string at hand ends, or why not.
enum Bulk {
    /// Behind its line end.
    End(usize),
    /// It is not whole.
    Incomplete,
    /// It is longer than a string may be: its bytes begin at `start`.
    TooLong { start: usize, bytes: u64 },
}

impl RequestParser {
    /// A parser at the start of a connection. It holds no memory before the first request.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            args: Vec::new(),
            text: Vec::new(),
            missing: 0,
            at: 0,
            wanted: 0,
            is_refused: false,
            skip: 0,
            has_refused: false,
        }
    }

    /// The first request in `input`, which is moved forward over it. `None`: it is not whole yet;
    /// call again with what is then left in `input`, and more behind it.
    ///
    /// The bytes of `input` that were not taken have to be the first ones of the next call.
    /// O(bytes of the request) over all the calls.
    ///
    /// # Errors
    /// The bytes are no request, or one beyond `limits`. There is no way to go on behind it.
    #[inline]
    pub fn next<'p, 'a>(
        &'p mut self,
        input: &mut &'a [u8],
        limits: &Limits,
    ) -> Result<Option<Request<'p, 'a>>, ProtocolError> {
        loop {
            if self.is_refused {
                self.drop_refused(input, limits)?;
                if self.is_refused {
                    return Ok(None);
                }
            }
            let bytes: &'a [u8] = input;
            let found = match bytes.first() {
                None => None,
                Some(_) if bytes.len() < self.wanted => None,
                Some(b'*') => self.multibulk(bytes, limits)?.map(|end| (end, false)),
                Some(_) => self.line(bytes, limits)?,
            };
            if self.is_refused {
                // The string that is too long begins behind what is taken now.
                *input = &bytes[self.at..];
                (self.at, self.wanted) = (0, 0);
                self.args.clear();
                self.has_refused = true;
                return Ok(None);
            }
            let Some((end, copied)) = found else { return Ok(None) };
            let (message, rest) = bytes.split_at(end);
            *input = rest;
            (self.at, self.wanted) = (0, 0);
            if !self.args.is_empty() {
                let text = copied.then_some(&self.text[..]);
                return Ok(Some(Request { args: &self.args, message, text }));
            }
        }
    }

    /// Whether a request was refused since the last call, for a string above
    /// [`Limits::bulk_bytes_max`]. [`RequestParser::next`] gave `None` then, and goes on behind
    /// the request when it is called again.
    #[inline]
    #[must_use]
    pub fn take_refused(&mut self) -> bool {
        std::mem::take(&mut self.has_refused)
    }

    /// Bytes of an unfinished request that have to be there, counted from its first, before there
    /// is more to say about it: a hint how much to make room for. Within the limits.
    #[must_use]
    pub fn wanted_bytes(&self) -> usize {
        self.wanted
    }

    /// Bytes of memory held beside the parser itself.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.args.capacity() * size_of::<Span>() + self.text.capacity()
    }

    /// Forgets the request before, and the memory of a large one.
    #[inline]
    fn begin(&mut self) {
        self.args.clear();
        if self.args.capacity() > ARGS_KEPT_MAX {
            self.args = Vec::new();
        }
    }

    /// Goes on with an array of strings. Returns where it ends.
    fn multibulk(&mut self, input: &[u8], limits: &Limits) -> Result<Option<usize>, ProtocolError> {
        if self.at == 0 {
            self.begin();
            let errors = (ProtocolError::MultibulkLength, ProtocolError::MultibulkCountString);
            let Some((count, bytes)) = header(&input[1..], errors)? else {
                return Ok(None);
            };
            // Redis takes every number that is not above zero for an empty request.
            self.missing = u64::try_from(count).unwrap_or(0);
            if self.missing > limits.elements_max {
                return Err(if limits.authenticated {
                    ProtocolError::MultibulkLength
                } else {
                    ProtocolError::UnauthenticatedMultibulk
                });
            }
            self.at = 1 + bytes;
        }
        while self.missing > 0 {
            match self.bulk(input, limits)? {
                Bulk::End(end) => self.at = end,
                Bulk::Incomplete => return Ok(None),
                Bulk::TooLong { start, bytes } => {
                    (self.is_refused, self.at, self.skip) = (true, start, bytes + 2);
                    return Ok(None);
                }
            }
            self.missing -= 1;
        }
        Ok(Some(self.at))
    }

    /// Drops what has come of a refused request, of which `skip` bytes of a string and `missing`
    /// strings, that one included, are left. The limit of a whole request does not count: nothing
    /// of it is kept.
    #[cold]
    fn drop_refused(&mut self, input: &mut &[u8], limits: &Limits) -> Result<(), ProtocolError> {
        loop {
            if self.skip > 0 {
                let here = usize::try_from(self.skip).unwrap_or(usize::MAX).min(input.len());
                if !ends_rightly(self.skip, &input[..here]) {
                    return Err(ProtocolError::BulkLength);
                }
                *input = &input[here..];
                self.skip -= here as u64;
                if self.skip > 0 {
                    return Ok(());
                }
                self.missing -= 1;
            }
            if self.missing == 0 {
                self.is_refused = false;
                return Ok(());
            }
            let Some((length, bytes)) = announced(input, limits)? else { return Ok(()) };
            *input = &input[bytes..];
            self.skip = length + 2;
        }
    }

    /// Takes the string at `at`. Where it is not whole, `wanted` says how many bytes are.
    #[inline]
    fn bulk(&mut self, input: &[u8], limits: &Limits) -> Result<Bulk, ProtocolError> {
        let Some((length, header_bytes)) = announced(&input[self.at..], limits)? else {
            return Ok(Bulk::Incomplete);
        };
        let start = self.at + header_bytes;
        if length > limits.bulk_bytes_max {
            return Ok(Bulk::TooLong { start, bytes: length });
        }
        // A length is below 2^63 and `start` below 2^63: no overflow.
        let line_end = start as u64 + length;
        if line_end + 2 > limits.message_bytes_max {
            return Err(ProtocolError::RequestTooLong);
        }
        let line_end = usize::try_from(line_end).map_err(|_| ProtocolError::RequestTooLong)?;
        let Some(behind) = input.get(line_end..line_end + 2) else {
            self.wanted = line_end + 2;
            return Ok(Bulk::Incomplete);
        };
        if behind != b"\r\n" {
            return Err(ProtocolError::BulkLength);
        }
        self.args.push(Span { start, end: line_end });
        Ok(Bulk::End(line_end + 2))
    }

    /// Goes on with a line. Returns where it ends, and whether its words were copied.
    #[cold]
    fn line(
        &mut self,
        input: &[u8],
        limits: &Limits,
    ) -> Result<Option<(usize, bool)>, ProtocolError> {
        let line_bytes_max = usize::try_from(limits.line_bytes_max).unwrap_or(usize::MAX);
        let window = &input[..input.len().min(line_bytes_max)];
        let Some(length) = memchr(b'\n', window.get(self.at..).unwrap_or_default()) else {
            if window.len() == line_bytes_max {
                return Err(ProtocolError::InlineTooLong);
            }
            self.at = window.len();
            return Ok(None);
        };
        let end = self.at + length;
        let line = &input[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        self.begin();
        self.text.clear();
        self.text.shrink_to(TEXT_KEPT_MAX);
        let copied = inline::split(line, limits.elements_max, &mut self.args, &mut self.text)?;
        if self.args.len() as u64 > limits.elements_max {
            return Err(if limits.authenticated {
                ProtocolError::MultibulkLength
            } else {
                ProtocolError::UnauthenticatedMultibulk
            });
        }
        let from = if copied { &self.text } else { line };
        let name = self.args.first().map(|span| &from[span.start..span.end]);
        if name.is_some_and(is_http) {
            return Err(ProtocolError::Http);
        }
        Ok(Some((end + 1, copied)))
    }
}

/// Whether a line's first word is one that stands in a browser's request. A page that makes its
/// visitor's browser post commands to a server nearby gets no further than this.
fn is_http(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"post") || word.eq_ignore_ascii_case(b"host:")
}

/// The length of the string that `input` begins with, and the bytes of its header. `None`: the
/// header is not whole.
#[inline]
fn announced(input: &[u8], limits: &Limits) -> Result<Option<(u64, usize)>, ProtocolError> {
    match input.first() {
        None => return Ok(None),
        Some(b'$') => {}
        Some(&other) => return Err(ProtocolError::ExpectedBulk(other)),
    }
    let errors = (ProtocolError::BulkLength, ProtocolError::BulkCountString);
    let Some((length, bytes)) = header(&input[1..], errors)? else { return Ok(None) };
    let length = u64::try_from(length).map_err(|_| ProtocolError::BulkLength)?;
    if length > limits.bulk_bytes_max.max(limits.skip_bytes_max) {
        return Err(if limits.authenticated {
            ProtocolError::BulkLength
        } else {
            ProtocolError::UnauthenticatedBulk
        });
    }
    Ok(Some((length, 1 + bytes)))
}

/// Whether the bytes at hand of a string that is dropped hold, of the line end that are its last
/// two of `left`, what is there of it.
fn ends_rightly(left: u64, here: &[u8]) -> bool {
    let behind = left - here.len() as u64;
    match behind {
        0 if left == 1 => here == b"\n",
        0 => here.ends_with(b"\r\n"),
        1 => here.last().is_none_or(|byte| *byte == b'\r'),
        _ => true,
    }
}

/// The number in front of `\r\n`, and the bytes of both. `None`: the end is not there yet. Of the
/// errors the first is for a number that is none, the second for a line without an end.
#[inline]
fn header(
    input: &[u8],
    (invalid, endless): (ProtocolError, ProtocolError),
) -> Result<Option<(i64, usize)>, ProtocolError> {
    // Most lengths and counts have one digit.
    if let [digit @ b'0'..=b'9', b'\r', b'\n', ..] = *input {
        return Ok(Some((i64::from(digit - b'0'), 3)));
    }
    let window = &input[..input.len().min(HEADER_BYTES_MAX)];
    match window.iter().position(|&byte| byte == b'\r') {
        None if window.len() == HEADER_BYTES_MAX => Err(endless),
        None => Ok(None),
        Some(length) => match input.get(length + 1) {
            None => Ok(None),
            Some(b'\n') => match number::integer(&input[..length]) {
                Some(number) => Ok(Some((number, length + 2))),
                None => Err(invalid),
            },
            Some(_) => Err(invalid),
        },
    }
}

/// A request: its arguments, of which there is at least one, the command's name being the first.
#[derive(Clone, Copy, Debug)]
pub struct Request<'p, 'a> {
    args: &'p [Span],
    message: &'a [u8],
    /// The words, where they are not as they stand in the message.
    text: Option<&'p [u8]>,
}

impl<'p, 'a: 'p> Request<'p, 'a> {
    /// How many arguments there are, the command's name included.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.args.len()
    }

    /// False: a request of no arguments is not handed out.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.args.is_empty()
    }

    /// Argument `index`.
    ///
    /// # Panics
    /// When there is none: `index < len()`.
    #[inline]
    #[must_use]
    pub fn arg(&self, index: usize) -> &'p [u8] {
        let Span { start, end } = self.args[index];
        match self.text {
            None => &self.message[start..end],
            Some(text) => &text[start..end],
        }
    }

    /// Argument `index`, if there is one.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&'p [u8]> {
        (index < self.len()).then(|| self.arg(index))
    }

    /// All arguments, in order.
    pub fn args(&self) -> impl ExactSizeIterator<Item = &'p [u8]> + use<'p, 'a> {
        let request = *self;
        (0..self.len()).map(move |index| request.arg(index))
    }

    /// Argument `index` as it stands in the input, which outlives the request: keys of many
    /// requests can be gathered and looked up together. `None` if there is no such argument, or if
    /// it came in quotes on a line.
    #[inline]
    #[must_use]
    pub fn borrowed(&self, index: usize) -> Option<&'a [u8]> {
        let span = self.args.get(index)?;
        if self.text.is_some() { None } else { self.message.get(span.start..span.end) }
    }

    /// Bytes of the request as it came, framing included.
    #[inline]
    #[must_use]
    pub fn message_bytes(&self) -> usize {
        self.message.len()
    }
}

//! Masstree's messages, as a client sends them: a row has one column, its value.
//!
//! Of a row with more columns, which somebody else has put, a lookup and a scan show the first.
//! The messages are in [`keyrack_wire::masstree`].

use super::pipe::Pipe;
use super::protocol::{Answer, Protocol, Range};
use super::target::Target;
use super::{DEPTH, TIMEOUT, URL, open};
use crate::contract::RowVisitor;
use keyrack_store::{Engine, Error, OpenOptions, Result};
use keyrack_wire::masstree::{Command, Limits, Pairs, Reply, ReplyParser, ScanValue};
use keyrack_wire::msgpack::Int;

pub(crate) const SERVER: Engine = Engine {
    name: "masstree://",
    about: "a server that speaks Masstree's protocol: masstree://HOST:PORT [port: 2117]",
    persistent: false,
    stores: true,
    options: &[URL, DEPTH, TIMEOUT],
    open: open::<Masstree>,
};

/// What every server takes, and what the handshake says.
const KEY_BYTES_MAX: u32 = 255;
/// Rows of the first part of a scan; each part asks for twice as many.
const ROWS: u64 = 32;
const ROWS_MAX: u64 = 1024;
/// Replies are told apart by their order; the number is for the eye.
const SEQ: u64 = 1;

const LIMITS: Limits = Limits {
    key_bytes_max: 64 << 10,
    value_bytes_max: 128 << 20,
    columns_max: 1 << 16,
    elements_max: 1 << 20,
    message_bytes_max: super::ANSWER_BYTES_MAX as u64,
};

#[derive(Clone)]
pub(crate) struct Masstree {
    replies: ReplyParser,
}

fn send(out: &mut Vec<u8>, command: &Command<'_>) {
    command.write(out, Int::from(SEQ));
}

impl Protocol for Masstree {
    const PORT: u16 = 2117;

    fn new(target: &Target, _options: &OpenOptions) -> Result<Self> {
        if target.password.is_some() {
            return Err(Error::usage("Masstree's protocol has no passwords"));
        }
        Ok(Masstree { replies: ReplyParser::new() })
    }

    fn greet(pipe: &mut Pipe<Self>) -> Result<String> {
        let hello = Command::Handshake { core: None, max_key_bytes: KEY_BYTES_MAX };
        pipe.write(|_, out| send(out, &hello));
        pipe.flush()?;
        pipe.read(|this, input| match this.replies.next(input, &LIMITS) {
            Ok(None) => Ok(None),
            Ok(Some(Reply::Handshake { row_type, .. })) => {
                Ok(Some(format!("masstree server ({})", row_type.escape_ascii())))
            }
            Ok(Some(Reply::Refused { why, .. })) => {
                Err(format!("the server refuses the connection: {}", why.escape_ascii()))
            }
            Ok(Some(_)) => Err("the server does not answer the handshake".to_owned()),
            Err(error) => Err(error.to_string()),
        })
    }

    fn check(&self, key: &[u8]) -> Result<()> {
        if key.len() > KEY_BYTES_MAX as usize {
            let bytes = key.len();
            return Err(Error::usage(format!(
                "a key of {bytes} bytes: Masstree's protocol takes {KEY_BYTES_MAX}"
            )));
        }
        Ok(())
    }

    #[inline]
    fn get(&self, out: &mut Vec<u8>, key: &[u8]) {
        send(out, &Command::Get { key, columns: &[0] });
    }

    #[inline]
    fn put(&self, out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
        send(out, &Command::Replace { key, value });
    }

    fn remove(&self, out: &mut Vec<u8>, key: &[u8]) {
        send(out, &Command::Remove { key });
    }

    #[inline]
    fn answer<'a>(
        &mut self,
        input: &mut &'a [u8],
    ) -> std::result::Result<Option<Answer<'a>>, String> {
        Ok(match self.replies.next(input, &LIMITS).map_err(|error| error.to_string())? {
            None => None,
            Some(Reply::Row { mut values, .. }) => Some(match values.next().flatten() {
                Some(value) => Answer::Found(value),
                None => Answer::Missing,
            }),
            Some(Reply::Stored { .. }) => Some(Answer::Stored),
            Some(Reply::Removed { removed, .. }) => Some(Answer::Removed(removed)),
            // The server closes the connection behind it.
            Some(_) => return Err("the server did not understand a request".to_owned()),
        })
    }

    /// In parts: each begins at the last key of the one before, which comes again.
    fn scan(pipe: &mut Pipe<Self>, range: Range<'_>, visit: &mut RowVisitor<'_>) -> Result<u64> {
        if range.is_reverse {
            return Err(pipe.cannot("Masstree's protocol has no descending scans"));
        }
        // No key is longer; those from a longer bound on come behind its first 255 bytes.
        let first = &range.low[..range.low.len().min(KEY_BYTES_MAX as usize)];
        let (mut last, mut is_first, mut rows, mut visited) = (first.to_vec(), true, ROWS, 0);
        loop {
            let begin = last.clone();
            let count = rows + u64::from(!is_first);
            let scan = Command::Scan { first: &begin, count, columns: &[0] };
            pipe.write(|_, out| send(out, &scan));
            pipe.flush()?;
            let mut part = Part { range, last: &mut last, is_first, visited: 0, ended: false };
            pipe.read(|this, input| match this.replies.next(input, &LIMITS) {
                Ok(None) => Ok(None),
                Ok(Some(Reply::Scanned { pairs, .. })) => {
                    part.take(pairs, visit);
                    Ok(Some(()))
                }
                Ok(Some(_)) => Err("the server does not answer a scan".to_owned()),
                Err(error) => Err(error.to_string()),
            })?;
            visited += part.visited;
            // A server may send fewer rows than were asked for; no new one at all is the end.
            if part.ended || part.visited == 0 {
                return Ok(visited);
            }
            (is_first, rows) = (false, (rows * 2).min(ROWS_MAX));
        }
    }
}

/// One part of a scan.
struct Part<'p> {
    range: Range<'p>,
    /// The last key that was visited.
    last: &'p mut Vec<u8>,
    is_first: bool,
    visited: u64,
    /// Whether the range or the visitor is through.
    ended: bool,
}

impl Part<'_> {
    fn take(&mut self, pairs: Pairs<'_>, visit: &mut RowVisitor<'_>) {
        for (key, value) in pairs {
            if key < self.range.low || !self.is_first && key <= &self.last[..] {
                continue;
            }
            if self.ended || self.range.high.is_some_and(|high| key >= high) {
                self.ended = true;
                return;
            }
            let value = match value {
                ScanValue::One(value) => value,
                ScanValue::Row(mut values) => values.next().flatten(),
            };
            self.visited += 1;
            self.ended = visit(key, value.unwrap_or_default()).is_break();
            self.last.clear();
            self.last.extend_from_slice(key);
        }
    }
}

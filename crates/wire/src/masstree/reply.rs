//! Answers, as a client reads them.

use super::error::Error;
use super::limits::Limits;
use super::lists::{Pairs, Values};
use super::op;
use super::request::{opened, whole, within};
use crate::msgpack::{Int, Reader, Scan};

/// An answer, borrowed from the input. `seq` is that of the request.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Reply<'a> {
    /// Welcome.
    Handshake {
        /// That of the request.
        seq: Int,
        /// Which thread serves the connection.
        thread: u32,
        /// What the server's rows are: [`super::ROW_TYPE`].
        row_type: &'a [u8],
    },
    /// The handshake was refused.
    Refused {
        /// That of the request.
        seq: Int,
        /// Why.
        why: &'a [u8],
    },
    /// Values of a row. None: there is no such row.
    Row {
        /// That of the request.
        seq: Int,
        /// In the order that was asked for.
        values: Values<'a>,
    },
    /// Put or replaced.
    Stored {
        /// That of the request.
        seq: Int,
        /// There was no row before.
        inserted: bool,
    },
    /// Removed, or not.
    Removed {
        /// That of the request.
        seq: Int,
        /// There was a row.
        removed: bool,
    },
    /// Rows in the order of keys.
    Scanned {
        /// That of the request.
        seq: Int,
        /// Keys and values.
        pairs: Pairs<'a>,
    },
    /// A checkpoint has begun.
    Checkpoint {
        /// That of the request.
        seq: Int,
    },
    /// The server did not understand, or cannot answer in so small a datagram.
    Unknown {
        /// That of the request.
        seq: Int,
    },
}

impl Reply<'_> {
    /// That of the request.
    #[must_use]
    pub fn seq(&self) -> Int {
        match *self {
            Reply::Handshake { seq, .. }
            | Reply::Refused { seq, .. }
            | Reply::Row { seq, .. }
            | Reply::Stored { seq, .. }
            | Reply::Removed { seq, .. }
            | Reply::Scanned { seq, .. }
            | Reply::Checkpoint { seq }
            | Reply::Unknown { seq } => seq,
        }
    }
}

/// Finds one answer after the other in the bytes of a connection, of which it has one.
#[derive(Clone, Debug, Default)]
pub struct ReplyParser {
    scan: Scan,
}

impl ReplyParser {
    /// A parser at the start of a connection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The first answer in `input`, which is moved forward over it. `None`: it is not whole yet;
    /// call again with the same bytes and more behind them.
    ///
    /// # Errors
    /// The bytes are no answer, or one beyond `limits`.
    #[inline]
    pub fn next<'a>(
        &mut self,
        input: &mut &'a [u8],
        limits: &Limits,
    ) -> Result<Option<Reply<'a>>, Error> {
        if self.scan.is_fresh()
            && let Some((reply, bytes)) = flat(input, limits)
        {
            *input = &input[bytes..];
            return Ok(Some(reply));
        }
        let Some(message) = whole(&mut self.scan, input, limits)? else { return Ok(None) };
        let (seq, count, mut reader) = opened(message)?;
        known(seq, count, &mut reader).ok_or(Error::Reply).map(Some)
    }

    /// Bytes of an unfinished answer that have to be there, counted from its first, before there
    /// is more to say about it.
    #[must_use]
    pub fn wanted_bytes(&self) -> usize {
        self.scan.wanted_bytes()
    }
}

/// The answer at the front of `input` and its bytes, if it is whole, makes sense, has no arrays in
/// it and is within the limits, as a request is read.
#[inline]
fn flat<'a>(input: &'a [u8], limits: &Limits) -> Option<(Reply<'a>, usize)> {
    let (seq, count, mut reader) = opened(input).ok()?;
    let reply = known(seq, count, &mut reader)?;
    let bytes = input.len() - reader.rest().len();
    // No string is longer than the message.
    let is_flat = !matches!(reply, Reply::Scanned { .. }) && bytes <= limits.value_bytes_max;
    (is_flat && within(count, bytes, limits)).then_some((reply, bytes))
}

/// The answer of `count` elements behind `seq`, the operation being the first of them.
#[inline]
fn known<'a>(seq: Int, count: u32, reader: &mut Reader<'a>) -> Option<Reply<'a>> {
    const GOT: u64 = op::GET + 1;
    const SCANNED: u64 = op::SCAN + 1;
    const PUT: u64 = op::PUT + 1;
    const REPLACED: u64 = op::REPLACE + 1;
    const REMOVED: u64 = op::REMOVE + 1;
    const CHECKPOINT: u64 = op::CHECKPOINT + 1;
    const HANDSHAKE: u64 = op::HANDSHAKE + 1;
    let operation = reader.int()?;
    if operation == Int::from(op::UNKNOWN) {
        return (count == 1).then_some(Reply::Unknown { seq });
    }
    Some(match (operation.as_u64()?, count) {
        (GOT, 1..) => Reply::Row { seq, values: Values::check(reader, count - 1)? },
        (SCANNED, 1..) if count % 2 == 1 => {
            Reply::Scanned { seq, pairs: Pairs::check(reader, count / 2)? }
        }
        (PUT | REPLACED, 2) => match reader.unsigned()? {
            op::INSERTED => Reply::Stored { seq, inserted: true },
            op::UPDATED => Reply::Stored { seq, inserted: false },
            _ => return None,
        },
        (REMOVED, 2) => Reply::Removed { seq, removed: reader.bool()? },
        (CHECKPOINT, 1) => Reply::Checkpoint { seq },
        (HANDSHAKE, 3 | 4) => match (reader.bool()?, count) {
            (true, 4) => {
                let thread = u32::try_from(reader.unsigned()?).ok()?;
                Reply::Handshake { seq, thread, row_type: reader.str()? }
            }
            (false, 3) => Reply::Refused { seq, why: reader.str()? },
            _ => return None,
        },
        _ => return None,
    })
}

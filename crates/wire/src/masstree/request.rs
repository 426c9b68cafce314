//! Requests out of a connection's bytes.
//!
//! A message that is whole and flat, as almost all are, is read in one walk over its few heads. If
//! that comes to nothing, the end of the message is found first, a part at a time, and then it is
//! read; so the second way alone says what is wrong, and the first has to agree where it gives
//! anything at all.

use super::error::Error;
use super::limits::Limits;
use super::lists::{Changes, Columns};
use super::op;
use crate::msgpack::{Int, Reader, Scan};

/// A request, borrowed from the input. `seq` is what the answer echoes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Request<'a> {
    /// The first message of a connection.
    Handshake {
        /// To be echoed.
        seq: Int,
        /// What the client asks for.
        handshake: Handshake,
    },
    /// Columns of one row.
    Get {
        /// To be echoed.
        seq: Int,
        /// Which row.
        key: &'a [u8],
        /// Which columns, in the order of the answer. None: all of them.
        columns: Columns<'a>,
    },
    /// Sets columns of one row at once. Lower columns that the row had not become empty.
    Put {
        /// To be echoed.
        seq: Int,
        /// Which row.
        key: &'a [u8],
        /// At least one.
        changes: Changes<'a>,
    },
    /// Sets a row to one column.
    Replace {
        /// To be echoed.
        seq: Int,
        /// Which row.
        key: &'a [u8],
        /// Its only column from now on.
        value: &'a [u8],
    },
    /// Removes a row.
    Remove {
        /// To be echoed.
        seq: Int,
        /// Which row.
        key: &'a [u8],
    },
    /// Rows from a key on, in the order of keys.
    Scan {
        /// To be echoed.
        seq: Int,
        /// Where to begin, included.
        first: &'a [u8],
        /// At most so many rows. Zero is none.
        count: u64,
        /// Which columns of each. None: all of them.
        columns: Columns<'a>,
    },
    /// Begins a checkpoint.
    Checkpoint {
        /// To be echoed.
        seq: Int,
    },
    /// A message that is none of these, or has a key or value beyond the limits: the answer is
    /// `[seq, -1]`, and the connection is closed.
    Unknown {
        /// To be echoed.
        seq: Int,
    },
}

/// What a client says of itself at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// By which thread it wants to be served; `None`: any.
    pub core: Option<u32>,
    /// The longest key that it will send; `None`: it is no length.
    max_key_bytes: Option<u64>,
}

impl Handshake {
    /// The longest key that the connection may carry, if a server that takes keys of up to
    /// `key_bytes_max` can agree with what the client said. `None` is to be answered by
    /// [`super::ReplyWriter::refuse_handshake`].
    #[must_use]
    pub fn agree(&self, key_bytes_max: usize) -> Option<usize> {
        let asked = usize::try_from(self.max_key_bytes?).ok()?;
        (1..=key_bytes_max).contains(&asked).then_some(asked)
    }
}

impl Request<'_> {
    /// What the answer echoes.
    #[must_use]
    pub fn seq(&self) -> Int {
        match *self {
            Request::Handshake { seq, .. }
            | Request::Get { seq, .. }
            | Request::Put { seq, .. }
            | Request::Replace { seq, .. }
            | Request::Remove { seq, .. }
            | Request::Scan { seq, .. }
            | Request::Checkpoint { seq }
            | Request::Unknown { seq } => seq,
        }
    }
}

/// Finds one request after the other in the bytes of a connection, of which it has one.
#[derive(Clone, Debug, Default)]
pub struct RequestParser {
    scan: Scan,
}

impl RequestParser {
    /// A parser at the start of a connection.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The first request in `input`, which is moved forward over it. `None`: it is not whole yet;
    /// call again with the same bytes and more behind them. O(bytes of the request) over all the
    /// calls.
    ///
    /// # Errors
    /// The bytes are no request, or one beyond `limits`. There is no way to go on behind it.
    #[inline]
    pub fn next<'a>(
        &mut self,
        input: &mut &'a [u8],
        limits: &Limits,
    ) -> Result<Option<Request<'a>>, Error> {
        if self.scan.is_fresh()
            && let Some((request, bytes)) = flat(input, limits)
        {
            *input = &input[bytes..];
            return Ok(Some(request));
        }
        let Some(message) = whole(&mut self.scan, input, limits)? else { return Ok(None) };
        parse(message, limits).map(Some)
    }

    /// Bytes of an unfinished request that have to be there, counted from its first, before there
    /// is more to say about it. Within the limits.
    #[must_use]
    pub fn wanted_bytes(&self) -> usize {
        self.scan.wanted_bytes()
    }
}

/// The message at the front of `input`, which is moved over it; `None` if it is not whole.
#[inline]
pub(super) fn whole<'a>(
    scan: &mut Scan,
    input: &mut &'a [u8],
    limits: &Limits,
) -> Result<Option<&'a [u8]>, Error> {
    match input.first() {
        None => return Ok(None),
        Some(0x90..=0x9f | 0xdc | 0xdd) => {}
        Some(&other) => return Err(Error::NoArray(other)),
    }
    let Some(bytes) = scan.advance(input, &limits.scan())? else { return Ok(None) };
    let (message, rest) = input.split_at(bytes);
    *input = rest;
    Ok(Some(message))
}

/// The request at the front of `input` and its bytes, if it is whole, makes sense, has no arrays in
/// it and is within the limits.
#[inline]
fn flat<'a>(input: &'a [u8], limits: &Limits) -> Option<(Request<'a>, usize)> {
    let (seq, count, mut reader) = opened(input).ok()?;
    let request = known(seq, count, &mut reader, limits)?;
    let bytes = input.len() - reader.rest().len();
    let is_flat = !matches!(request, Request::Handshake { .. });
    (is_flat && within(count, bytes, limits)).then_some((request, bytes))
}

/// Whether a flat message of `count` elements behind `seq` is within the limits of any message.
#[inline]
pub(super) fn within(count: u32, bytes: usize, limits: &Limits) -> bool {
    u64::from(count) + 2 <= limits.elements_max && bytes as u64 <= limits.message_bytes_max
}

/// The head of a message: what it echoes, and a reader behind that.
#[inline]
pub(super) fn opened(message: &[u8]) -> Result<(Int, u32, Reader<'_>), Error> {
    let mut reader = Reader::new(message);
    let count = reader.array().and_then(|count| count.checked_sub(1)).ok_or(Error::NoSequence)?;
    let seq = reader.int().ok_or(Error::NoSequence)?;
    Ok((seq, count, reader))
}

/// Reads a message that is whole.
#[inline]
pub(super) fn parse<'a>(message: &'a [u8], limits: &Limits) -> Result<Request<'a>, Error> {
    let (seq, count, mut reader) = opened(message)?;
    Ok(known(seq, count, &mut reader, limits).unwrap_or(Request::Unknown { seq }))
}

/// The request of `count` elements behind `seq`, the operation being the first of them.
#[inline]
fn known<'a>(
    seq: Int,
    count: u32,
    reader: &mut Reader<'a>,
    limits: &Limits,
) -> Option<Request<'a>> {
    let operation = reader.unsigned()?;
    let mut key = || reader.str().filter(|key| key.len() <= limits.key_bytes_max);
    Some(match (operation, count) {
        (op::GET, 2..) => {
            let key = key()?;
            let columns = Columns::check(reader, count - 2, limits.columns_max)?;
            Request::Get { seq, key, columns }
        }
        (op::PUT, 4..) if count.is_multiple_of(2) => {
            let key = key()?;
            let (columns_max, bytes_max) = (limits.columns_max, limits.value_bytes_max);
            let changes = Changes::check(reader, count / 2 - 1, columns_max, bytes_max)?;
            Request::Put { seq, key, changes }
        }
        (op::REPLACE, 3) => {
            let key = key()?;
            let value = reader.str().filter(|value| value.len() <= limits.value_bytes_max)?;
            Request::Replace { seq, key, value }
        }
        (op::REMOVE, 2) => Request::Remove { seq, key: key()? },
        (op::SCAN, 3..) => {
            let first = key()?;
            let rows = reader.unsigned()?;
            let columns = Columns::check(reader, count - 3, limits.columns_max)?;
            Request::Scan { seq, first, count: rows, columns }
        }
        (op::CHECKPOINT, 1) => Request::Checkpoint { seq },
        (op::HANDSHAKE, 2) => Request::Handshake { seq, handshake: handshake(reader)? },
        _ => return None,
    })
}

/// A map of options; one that is not known means nothing.
fn handshake(reader: &mut Reader<'_>) -> Option<Handshake> {
    let mut handshake = Handshake { core: None, max_key_bytes: Some(255) };
    for _ in 0..reader.map()? {
        match reader.str() {
            Some(b"core") => match reader.int() {
                Some(core) => handshake.core = core.as_u64().and_then(|core| core.try_into().ok()),
                None => reader.skip()?,
            },
            Some(b"maxkeylen") => match reader.int() {
                Some(bytes) => handshake.max_key_bytes = bytes.as_u64(),
                None => {
                    handshake.max_key_bytes = None;
                    reader.skip()?;
                }
            },
            Some(_) => reader.skip()?,
            None => {
                reader.skip()?;
                reader.skip()?;
            }
        }
    }
    Some(handshake)
}

//! From bytes to a request: the server's side of the binary protocol.

use super::header::{HEADER_BYTES, Header, REQUEST};
use super::{Command, Opcode, Refusal, Request, Status, StoreMode};
use crate::memcached::direction::Direction;
use crate::memcached::{KEY_BYTES_MAX, Limits, Parsed};

/// Reads the request at the front of `buffer`. Constant time: no byte of key or value is looked at.
///
/// # Errors
/// A message that is no request, with what to reply and where to go on.
#[inline]
pub fn parse<'a>(buffer: &'a [u8], limits: &Limits) -> Result<Parsed<Request<'a>>, Refusal> {
    if buffer.first().is_some_and(|&magic| magic != REQUEST) {
        return Err(Refusal { opcode: 0, opaque: 0, status: None, skip: 1, close: true });
    }
    let Some((header, rest)) = buffer.split_first_chunk() else {
        return Ok(Parsed::Incomplete(HEADER_BYTES));
    };
    let header = Header::read(header);
    let (opcode, body_bytes) = match check(&header, limits) {
        // The key says whose value the refusal is about.
        Err(refusal)
            if refusal.status == Some(Status::TOO_LARGE)
                && !refusal.close
                && rest.len() < named_bytes(&header) =>
        {
            return Ok(Parsed::Incomplete(HEADER_BYTES + named_bytes(&header)));
        }
        checked => checked?,
    };
    let bytes = HEADER_BYTES + body_bytes;
    let Some(body) = rest.get(..body_bytes) else {
        return Ok(Parsed::Incomplete(bytes));
    };
    let (extras, rest) = body.split_at(usize::from(header.extras_bytes));
    let (key, value) = rest.split_at(usize::from(header.key_bytes));
    let command = command(opcode, extras, key, value);
    let Header { opaque, cas, .. } = header;
    Ok(Parsed::Complete(Request { opcode, opaque, cas, command }, bytes))
}

/// Bytes before the value; those of a key that is too long do not count.
fn named_bytes(header: &Header) -> usize {
    let key_bytes = usize::from(header.key_bytes);
    usize::from(header.extras_bytes) + if key_bytes > KEY_BYTES_MAX { 0 } else { key_bytes }
}

/// Holds a header against what its operation has and against the limits; gives the bytes of its
/// body.
fn check(header: &Header, limits: &Limits) -> Result<(Opcode, usize), Refusal> {
    let body_bytes = u64::from(header.body_bytes);
    let refuse = |status, close| Refusal {
        opcode: header.opcode,
        opaque: header.opaque,
        status: Some(status),
        skip: HEADER_BYTES as u64 + if close { 0 } else { body_bytes },
        close,
    };
    let named_bytes = u64::from(header.extras_bytes) + u64::from(header.key_bytes);
    let Some(value_bytes) = body_bytes.checked_sub(named_bytes) else {
        return Err(refuse(Status::INVALID, true));
    };
    if value_bytes > limits.value_bytes_max as u64 {
        return Err(refuse(Status::TOO_LARGE, value_bytes > limits.skip_bytes_max));
    }
    let Some(opcode) = Opcode::of(header.opcode) else {
        return Err(refuse(Status::UNKNOWN_COMMAND, false));
    };
    let key_bytes = usize::from(header.key_bytes);
    if key_bytes > KEY_BYTES_MAX
        || !shape(opcode).is_that_of(header.extras_bytes, key_bytes > 0, value_bytes > 0)
    {
        return Err(refuse(Status::INVALID, false));
    }
    Ok((opcode, header.body_bytes as usize))
}

/// What the body of an operation holds.
struct Shape {
    /// Bytes of extras.
    extras_bytes: u8,
    /// The extras may be left out.
    extras_optional: bool,
    /// There must be a key, or none; nothing when both are well.
    key: Option<bool>,
    /// There may be a value.
    value: bool,
}

impl Shape {
    fn is_that_of(&self, extras_bytes: u8, has_key: bool, has_value: bool) -> bool {
        let extras = extras_bytes == self.extras_bytes || self.extras_optional && extras_bytes == 0;
        extras && self.key.is_none_or(|key| key == has_key) && (self.value || !has_value)
    }
}

fn shape(opcode: Opcode) -> Shape {
    use Opcode as O;
    let shape =
        |extras_bytes, key, value| Shape { extras_bytes, extras_optional: false, key, value };
    let (key, no_key) = (Some(true), Some(false));
    match opcode {
        O::Get | O::Getq | O::Getk | O::Getkq | O::Delete | O::Deleteq => shape(0, key, false),
        O::Set | O::Setq | O::Add | O::Addq | O::Replace | O::Replaceq => shape(8, key, true),
        O::Append | O::Appendq | O::Prepend | O::Prependq => shape(0, key, true),
        O::Increment | O::Incrementq | O::Decrement | O::Decrementq => shape(20, key, false),
        O::Touch | O::Gat | O::Gatq | O::Gatk | O::Gatkq => shape(4, key, false),
        O::Flush | O::Flushq => Shape { extras_optional: true, ..shape(4, no_key, false) },
        O::Verbosity => shape(4, no_key, false),
        O::Stat => shape(0, None, false),
        O::Quit | O::Quitq | O::Noop | O::Version | O::SaslList => shape(0, no_key, false),
        O::SaslAuth | O::SaslStep => shape(0, key, true),
    }
}

/// The command of an operation whose body has the operation's shape.
fn command<'a>(opcode: Opcode, extras: &[u8], key: &'a [u8], value: &'a [u8]) -> Command<'a> {
    use Opcode as O;
    let get = |with_key, exptime| Command::Get { key, with_key, exptime };
    let store = |mode| {
        let (flags, exptime) = (u32_at(extras, 0), u32_at(extras, 4));
        Command::Store { mode, key, flags, exptime, value }
    };
    let count = |direction| {
        let wide = |at| u64::from(u32_at(extras, at)) << 32 | u64::from(u32_at(extras, at + 4));
        let (delta, initial, exptime) = (wide(0), wide(8), u32_at(extras, 16));
        Command::Arithmetic { direction, key, delta, initial, exptime }
    };
    match opcode {
        O::Get | O::Getq => get(false, None),
        O::Getk | O::Getkq => get(true, None),
        O::Gat | O::Gatq => get(false, Some(u32_at(extras, 0))),
        O::Gatk | O::Gatkq => get(true, Some(u32_at(extras, 0))),
        O::Set | O::Setq => store(StoreMode::Set),
        O::Add | O::Addq => store(StoreMode::Add),
        O::Replace | O::Replaceq => store(StoreMode::Replace),
        O::Append | O::Appendq => store(StoreMode::Append),
        O::Prepend | O::Prependq => store(StoreMode::Prepend),
        O::Delete | O::Deleteq => Command::Delete { key },
        O::Increment | O::Incrementq => count(Direction::Up),
        O::Decrement | O::Decrementq => count(Direction::Down),
        O::Touch => Command::Touch { key, exptime: u32_at(extras, 0) },
        O::Flush | O::Flushq => Command::Flush { delay: u32_at(extras, 0) },
        O::Verbosity => Command::Verbosity { level: u32_at(extras, 0) },
        O::Stat => Command::Stat { key },
        O::Noop => Command::Noop,
        O::Version => Command::Version,
        O::Quit | O::Quitq => Command::Quit,
        O::SaslList => Command::SaslList,
        O::SaslAuth => Command::SaslAuth { mechanism: key, data: value },
        O::SaslStep => Command::SaslStep { mechanism: key, data: value },
    }
}

/// The number at a place of the extras; 0 where they have none.
fn u32_at(extras: &[u8], at: usize) -> u32 {
    let bytes = extras.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

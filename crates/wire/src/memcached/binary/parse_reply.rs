//! From bytes to a reply: the client's side of the binary protocol.

use super::header::{HEADER_BYTES, Header, REPLY};
use super::{Reply, Status};
use crate::error::{Error, Result};
use crate::memcached::{KEY_BYTES_MAX, Limits, Parsed};

const PROTOCOL: &str = "memcached binary";

/// Reads the reply at the front of `buffer`. Constant time.
///
/// # Errors
/// Bytes that are no reply, or a key or a value above its limit.
pub fn parse_reply<'a>(buffer: &'a [u8], limits: &Limits) -> Result<Parsed<Reply<'a>>> {
    if buffer.first().is_some_and(|&magic| magic != REPLY) {
        return Err(Error::Malformed { protocol: PROTOCOL, what: "magic" });
    }
    let Some((header, rest)) = buffer.split_first_chunk() else {
        return Ok(Parsed::Incomplete(HEADER_BYTES));
    };
    let header = Header::read(header);
    let named_bytes = u64::from(header.extras_bytes) + u64::from(header.key_bytes);
    let Some(value_bytes) = u64::from(header.body_bytes).checked_sub(named_bytes) else {
        return Err(Error::Malformed { protocol: PROTOCOL, what: "lengths" });
    };
    within("key", u64::from(header.key_bytes), KEY_BYTES_MAX)?;
    within("value", value_bytes, limits.value_bytes_max)?;
    let body_bytes = header.body_bytes as usize;
    let bytes = HEADER_BYTES + body_bytes;
    let Some(body) = rest.get(..body_bytes) else {
        return Ok(Parsed::Incomplete(bytes));
    };
    let (extras, rest) = body.split_at(usize::from(header.extras_bytes));
    let (key, value) = rest.split_at(usize::from(header.key_bytes));
    let Header { opcode, opaque, cas, status, .. } = header;
    let reply = Reply { opcode, status: Status(status), opaque, cas, extras, key, value };
    Ok(Parsed::Complete(reply, bytes))
}

fn within(what: &'static str, count: u64, count_max: usize) -> Result<()> {
    let count_max = count_max as u64;
    if count > count_max {
        return Err(Error::TooLarge { protocol: PROTOCOL, what, count, count_max });
    }
    Ok(())
}

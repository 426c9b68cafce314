//! From the words of a line to a meta command.

use super::request::Request;
use crate::memcached::limits::Limits;
use crate::memcached::parsed::Parsed;
use crate::memcached::text::block::Block;
use crate::memcached::text::line::{Words, is_plain};
use crate::memcached::text::refusal::{Fault, Refusal};
use crate::memcached::text::request as text;

/// A command without a block: the second letter of its name, and what follows the name.
pub(crate) fn line(letter: u8, mut words: Words<'_>) -> Result<Request<'_>, Fault> {
    let key = words.next().ok_or(Fault::Unknown)?;
    request(letter, key, words)
}

/// `ms`, with its block.
pub(crate) fn set<'a>(
    mut words: Words<'a>,
    buffer: &'a [u8],
    line_bytes: usize,
    limits: &Limits,
) -> Result<Parsed<text::Request<'a>>, Refusal> {
    let [key, bytes] = std::array::from_fn(|_| words.next());
    let block = Block::announced(bytes, line_bytes, limits)?;
    let request = request(b's', key.unwrap_or_default(), words);
    let request = request.map_err(|fault| block.refuse(fault, false))?;
    let value = block.read(buffer, false, limits)?;
    Ok(value.map(|value| text::Request::Meta(Request { value, ..request })))
}

fn request<'a>(letter: u8, key: &'a [u8], words: Words<'a>) -> Result<Request<'a>, Fault> {
    let flags = words.rest();
    if !is_plain(flags) {
        return Err(Fault::Format);
    }
    Request::new(letter, key, flags, b"")
}

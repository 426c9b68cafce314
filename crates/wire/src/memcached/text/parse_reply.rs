//! From bytes to a reply: the client's side of the text protocol.

use super::Reply;
use super::line::{Words, is_key, is_plain, line};
use crate::error::{Error, Result};
use crate::memcached::meta::{self, Code, FlagWords};
use crate::memcached::{Limits, Parsed};
use crate::number::parse_u64;

const PROTOCOL: &str = "memcached text";

/// Reads the reply at the front of `buffer`. Linear in the length of its line. Which command it
/// answers is for the caller to know: replies come in the order of the commands.
///
/// # Errors
/// Bytes that are no reply, or a value above [`Limits::value_bytes_max`].
pub fn parse_reply<'a>(buffer: &'a [u8], limits: &Limits) -> Result<Parsed<Reply<'a>>> {
    let (line, line_bytes) = match line(buffer, limits.line_bytes_max) {
        Some(Parsed::Complete(line, bytes)) => (line, bytes),
        Some(Parsed::Incomplete(bytes)) => return Ok(Parsed::Incomplete(bytes)),
        None => {
            let count_max = limits.line_bytes_max as u64;
            let count = buffer.len() as u64;
            return Err(Error::TooLarge { protocol: PROTOCOL, what: "line", count, count_max });
        }
    };
    let mut words = Words::new(line);
    let reply = match words.next().unwrap_or_default() {
        b"VALUE" => {
            let (key, flags, bytes) = value_words(&mut words).ok_or(malformed("VALUE line"))?;
            let cas = match words.next() {
                None => None,
                Some(cas) => Some(parse_u64(cas).ok_or(malformed("VALUE line"))?),
            };
            let value = block(buffer, line_bytes, bytes, limits)?;
            return Ok(value.map(|value| Reply::Value { key, flags, value, cas }));
        }
        b"VA" => {
            let bytes = words.next().and_then(parse_u64).ok_or(malformed("VA line"))?;
            let flags = flags(words).ok_or(malformed("VA line"))?;
            let value = block(buffer, line_bytes, bytes, limits)?;
            return Ok(value.map(|value| Reply::Meta(meta::Reply::Value { flags, value })));
        }
        name => simple(name, words).ok_or(malformed("line"))?,
    };
    Ok(Parsed::Complete(reply, line_bytes))
}

fn malformed(what: &'static str) -> Error {
    Error::Malformed { protocol: PROTOCOL, what }
}

fn value_words<'a>(words: &mut Words<'a>) -> Option<(&'a [u8], u32, u64)> {
    let key = key(words)?;
    let flags = u32::try_from(parse_u64(words.next()?)?).ok()?;
    Some((key, flags, parse_u64(words.next()?)?))
}

fn key<'a>(words: &mut Words<'a>) -> Option<&'a [u8]> {
    words.next().filter(|key| is_key(key))
}

fn flags(words: Words<'_>) -> Option<FlagWords<'_>> {
    is_plain(words.rest()).then(|| FlagWords::new(words.rest()))
}

/// The block behind a line.
fn block<'a>(
    buffer: &'a [u8],
    line_bytes: usize,
    value_bytes: u64,
    limits: &Limits,
) -> Result<Parsed<&'a [u8]>> {
    let value_bytes = match usize::try_from(value_bytes) {
        Ok(bytes) if bytes <= limits.value_bytes_max => bytes,
        _ => {
            let count_max = limits.value_bytes_max as u64;
            let (protocol, what) = (PROTOCOL, "value");
            return Err(Error::TooLarge { protocol, what, count: value_bytes, count_max });
        }
    };
    let end = line_bytes.saturating_add(value_bytes).saturating_add(2);
    let Some(block) = buffer.get(line_bytes..end) else {
        return Ok(Parsed::Incomplete(end));
    };
    let value = block.strip_suffix(b"\r\n").ok_or(malformed("end of a value"))?;
    Ok(Parsed::Complete(value, end))
}

/// A reply that is a line and nothing else. Only words for humans may hold anything.
fn simple<'a>(name: &'a [u8], mut words: Words<'a>) -> Option<Reply<'a>> {
    let head = |code| Some(Reply::Meta(meta::Reply::Head { code, flags: flags(words)? }));
    Some(match name {
        b"END" => Reply::End,
        b"STORED" => Reply::Stored,
        b"NOT_STORED" => Reply::NotStored,
        b"EXISTS" => Reply::Exists,
        b"NOT_FOUND" => Reply::NotFound,
        b"DELETED" => Reply::Deleted,
        b"TOUCHED" => Reply::Touched,
        b"OK" => Reply::Ok,
        b"RESET" => Reply::Reset,
        b"HD" => head(Code::Hd)?,
        b"EN" => head(Code::En)?,
        b"NS" => head(Code::Ns)?,
        b"EX" => head(Code::Ex)?,
        b"NF" => head(Code::Nf)?,
        b"MN" => Reply::Meta(meta::Reply::Noop),
        b"ME" => {
            let key = key(&mut words)?;
            Reply::Meta(meta::Reply::Debug { key, facts: words.rest() })
        }
        b"STAT" => {
            let name = key(&mut words)?;
            Reply::Stat { name, value: words.rest() }
        }
        b"VERSION" => Reply::Version(words.rest()),
        b"CLIENT_ERROR" => Reply::ClientError(words.rest()),
        b"SERVER_ERROR" => Reply::ServerError(words.rest()),
        // Some say what the error was, behind a colon.
        b"ERROR" | b"ERROR:" => Reply::Error,
        number => Reply::Number(parse_u64(number)?),
    })
}

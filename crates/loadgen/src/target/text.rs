//! Memcached's text commands.

use super::reply::{Malformed, Phase, ReplyState, Step, line, number};
use super::request::{Request, decimal};
use super::{ErrorClass, Kind, Outcome};

/// Digits of the longest value that is skipped: petabytes.
const LENGTH_DIGITS_MAX: usize = 15;

pub(super) fn encode(out: &mut Vec<u8>, request: &Request<'_>) {
    match request.kind {
        Kind::Get => {
            out.extend_from_slice(b"get ");
            out.extend_from_slice(request.key);
            out.extend_from_slice(b"\r\n");
        }
        Kind::Gets => {
            out.extend_from_slice(b"gets ");
            out.extend_from_slice(request.key);
            out.extend_from_slice(b"\r\n");
        }
        Kind::Mget => {
            out.extend_from_slice(b"get");
            for key in request.keys.into_iter().flat_map(|keys| keys.iter()) {
                out.push(b' ');
                out.extend_from_slice(key);
            }
            out.extend_from_slice(b"\r\n");
        }
        Kind::Set => store(out, b"set ", request),
        Kind::Add => store(out, b"add ", request),
        Kind::Replace => store(out, b"replace ", request),
        Kind::Cas => store(out, b"cas ", request),
        Kind::Append => store(out, b"append ", request),
        Kind::Prepend => store(out, b"prepend ", request),
        Kind::Delete => {
            out.extend_from_slice(b"delete ");
            out.extend_from_slice(request.key);
            out.extend_from_slice(b"\r\n");
        }
        Kind::Incr => with_number(out, b"incr ", request.key, request.number),
        Kind::Decr => with_number(out, b"decr ", request.key, request.number),
        Kind::Touch => with_number(out, b"touch ", request.key, u64::from(request.ttl_s)),
        Kind::Flush => out.extend_from_slice(b"flush_all\r\n"),
    }
}

fn store(out: &mut Vec<u8>, name: &[u8], request: &Request<'_>) {
    out.extend_from_slice(name);
    out.extend_from_slice(request.key);
    if request.ttl_s == 0 {
        out.extend_from_slice(b" 0 0 ");
    } else {
        out.extend_from_slice(b" 0 ");
        decimal(out, u64::from(request.ttl_s));
        out.push(b' ');
    }
    decimal(out, request.value.len() as u64);
    if request.kind == Kind::Cas {
        out.push(b' ');
        decimal(out, request.number);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(request.value);
    out.extend_from_slice(b"\r\n");
}

fn with_number(out: &mut Vec<u8>, name: &[u8], key: &[u8], number: u64) {
    out.extend_from_slice(name);
    out.extend_from_slice(key);
    out.push(b' ');
    decimal(out, number);
    out.extend_from_slice(b"\r\n");
}

/// The next step at a place where a line begins.
#[inline]
pub(super) fn step(state: &mut ReplyState, buffer: &[u8], kind: Kind) -> Result<Step, Malformed> {
    let Some((text, line_bytes)) = line(buffer)? else { return Ok(Step::More) };
    if let Some(rest) = text.strip_prefix(b"VALUE ") {
        if kind.class() != super::Class::Read {
            return Err(Malformed("a value that nobody asked for"));
        }
        let (value_bytes, token) = value_line(rest).ok_or(Malformed("a VALUE line"))?;
        state.hits += 1;
        state.token = token;
        return value(state, buffer, line_bytes, value_bytes);
    }
    if text == b"END" {
        return Ok(Step::Done(line_bytes, state.lookup(kind)));
    }
    let outcome = simple(text, kind).ok_or(Malformed("a line"))?;
    state.note_failure(outcome, text);
    Ok(Step::Done(line_bytes, outcome))
}

/// Takes a value that begins behind its line, as far as it is there, and the end if that is there
/// as well.
#[inline]
fn value(
    state: &mut ReplyState,
    buffer: &[u8],
    line_bytes: usize,
    value_bytes: u64,
) -> Result<Step, Malformed> {
    const END: &[u8] = b"\r\nEND\r\n";
    let here = (buffer.len() - line_bytes) as u64;
    if here >= value_bytes {
        let value_end = line_bytes + value_bytes as usize;
        state.value = Some(line_bytes..value_end);
        let behind = &buffer[value_end..];
        if behind.starts_with(END) && state.hits == 1 && !state.is_many {
            let outcome = Outcome::Hit { token: state.token };
            state.hits = 0;
            return Ok(Step::Done(value_end + END.len(), outcome));
        }
        state.phase = Phase::ValueEnd;
        return Ok(Step::Eaten(value_end));
    }
    if state.keeps_values {
        state.hits -= 1;
        return Ok(Step::More);
    }
    state.phase = Phase::Value { left: value_bytes - here };
    Ok(Step::Eaten(buffer.len()))
}

/// The length and the token of `KEY FLAGS BYTES [TOKEN]`.
#[inline]
fn value_line(rest: &[u8]) -> Option<(u64, u64)> {
    let key_end = memchr::memchr(b' ', rest)?;
    let mut words = rest[key_end + 1..].split(|byte| *byte == b' ');
    number(words.next()?)?;
    let bytes = words.next().filter(|word| word.len() <= LENGTH_DIGITS_MAX)?;
    let bytes = number(bytes)?;
    let token = match words.next() {
        Some(word) => number(word)?,
        None => 0,
    };
    words.next().is_none().then_some((bytes, token))
}

fn simple(text: &[u8], kind: Kind) -> Option<Outcome> {
    Some(match text {
        b"STORED" | b"DELETED" | b"TOUCHED" | b"OK" => Outcome::Stored,
        b"NOT_STORED" | b"EXISTS" => Outcome::NotStored,
        b"NOT_FOUND" => Outcome::Miss,
        b"ERROR" => Outcome::Failed(ErrorClass::UnknownCommand),
        _ => return failure(text).or_else(|| arithmetic(text, kind)),
    })
}

/// The errors that have words.
pub(super) fn failure(text: &[u8]) -> Option<Outcome> {
    let has = |words: &[u8]| memchr::memmem::find(text, words).is_some();
    let class = if text.starts_with(b"SERVER_ERROR") {
        match text {
            _ if has(b"too large") => ErrorClass::TooLarge,
            _ if has(b"out of memory") => ErrorClass::OutOfMemory,
            _ if has(b"busy") || has(b"temporary") => ErrorClass::Busy,
            _ => ErrorClass::Server,
        }
    } else if text.starts_with(b"CLIENT_ERROR") {
        match text {
            _ if has(b"auth") => ErrorClass::Auth,
            _ => ErrorClass::Client,
        }
    } else if text.starts_with(b"ERROR") {
        ErrorClass::UnknownCommand
    } else {
        return None;
    };
    Some(Outcome::Failed(class))
}

/// The new value of `incr`. Older servers pad a shorter one with spaces.
fn arithmetic(text: &[u8], kind: Kind) -> Option<Outcome> {
    let is_asked = matches!(kind, Kind::Incr | Kind::Decr);
    (is_asked && number(text.trim_ascii_end()).is_some()).then_some(Outcome::Stored)
}

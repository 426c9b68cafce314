//! Replies to memcached's text commands.

use super::kind::Kind;
use super::result::{Failure, Outcome};
use super::state::{Malformed, Phase, ReplyState, Step, line, number};

/// Digits of the longest value that is skipped: petabytes.
const LENGTH_DIGITS_MAX: usize = 15;

/// The next step at a place where a line begins.
#[inline]
pub(super) fn step(state: &mut ReplyState, buffer: &[u8], kind: Kind) -> Result<Step, Malformed> {
    let Some((text, line_bytes)) = line(buffer)? else { return Ok(Step::More) };
    if let Some(rest) = text.strip_prefix(b"VALUE ") {
        if !kind.is_lookup() {
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

#[inline]
fn simple(text: &[u8], kind: Kind) -> Option<Outcome> {
    Some(match text {
        b"STORED" | b"DELETED" | b"TOUCHED" | b"OK" => Outcome::Stored,
        b"NOT_STORED" | b"EXISTS" => Outcome::NotStored,
        b"NOT_FOUND" => Outcome::Miss,
        b"ERROR" => Outcome::Failed(Failure::UnknownCommand),
        _ => return failure(text).or_else(|| arithmetic(text, kind)),
    })
}

/// The errors that have words.
pub(super) fn failure(text: &[u8]) -> Option<Outcome> {
    let has = |words: &[u8]| memchr::memmem::find(text, words).is_some();
    let class = if text.starts_with(b"SERVER_ERROR") {
        match text {
            _ if has(b"too large") => Failure::TooLarge,
            _ if has(b"out of memory") => Failure::OutOfMemory,
            _ if has(b"busy") || has(b"temporary") => Failure::Busy,
            _ => Failure::Server,
        }
    } else if text.starts_with(b"CLIENT_ERROR") {
        match text {
            _ if has(b"auth") => Failure::Auth,
            _ => Failure::Client,
        }
    } else if text.starts_with(b"ERROR") {
        Failure::UnknownCommand
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

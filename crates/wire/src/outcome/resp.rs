//! Replies of Redis: trees, of which one number is kept.
//!
//! A reply is walked flat: `items` says how many elements are still to come. An aggregate of n adds
//! n (a map 2n), an attribute adds its own without being an element, a push in front of a reply is
//! a tree of its own that nobody waits for.

use super::kind::Kind;
use super::result::{Failure, Outcome};
use super::state::{Malformed, Phase, ReplyState, Step, WORDS_BYTES_MAX, line, number};

/// Elements of a reply at most: more is no answer to anything that is asked here.
const ITEMS_MAX: u64 = 1 << 32;

#[inline]
pub(super) fn step(state: &mut ReplyState, buffer: &[u8], kind: Kind) -> Result<Step, Malformed> {
    let Some((text, line_bytes)) = line(buffer)? else { return Ok(Step::More) };
    let (&mark, rest) = text.split_first().ok_or(Malformed("an empty line"))?;
    let is_first = state.items == 0;
    match mark {
        b'$' | b'=' | b'!' => {
            if rest == b"-1" {
                return Ok(null(state, line_bytes, kind));
            }
            let bytes = number(rest).ok_or(Malformed("a length"))?;
            let here = (buffer.len() - line_bytes) as u64;
            let is_told = mark == b'!' && here < bytes.min(WORDS_BYTES_MAX as u64);
            if is_told || (here < bytes && state.keeps_values) {
                return Ok(Step::More);
            }
            if mark == b'!' {
                let words = &buffer[line_bytes..];
                let words = &words[..words.len().min(bytes as usize)];
                state.fail(failure(words), words);
            } else {
                state.hits += 1;
            }
            if here < bytes {
                state.phase = Phase::Value { left: bytes - here };
                return Ok(Step::Eaten(buffer.len()));
            }
            let value_end = line_bytes + bytes as usize;
            state.value = Some(line_bytes..value_end);
            let is_all = is_first && mark == b'$' && !state.is_many;
            if is_all && buffer[value_end..].starts_with(b"\r\n") {
                state.hits = 0;
                return Ok(Step::Done(value_end + 2, single(kind, true)));
            }
            state.phase = Phase::ValueEnd;
            Ok(Step::Eaten(value_end))
        }
        b'+' => Ok(element(state, line_bytes, kind, true)),
        b':' => {
            let is_zero = rest == b"0";
            Ok(element(state, line_bytes, kind, !is_zero))
        }
        b'-' => {
            state.fail(failure(rest), rest);
            Ok(element(state, line_bytes, kind, true))
        }
        b'_' => Ok(null(state, line_bytes, kind)),
        b'#' | b',' | b'(' => Ok(element(state, line_bytes, kind, true)),
        b'*' | b'~' | b'%' | b'>' | b'|' => {
            if mark == b'*' && rest == b"-1" {
                return Ok(null(state, line_bytes, kind));
            }
            let count = number(rest).filter(|count| *count <= ITEMS_MAX / 2);
            let count = count.ok_or(Malformed("a count"))?;
            let added = if matches!(mark, b'%' | b'|') { 2 * count } else { count };
            aggregate(state, mark, added, line_bytes, kind)
        }
        _ => Err(Malformed("a first byte")),
    }
}

/// An aggregate begins.
fn aggregate(
    state: &mut ReplyState,
    mark: u8,
    added: u64,
    line_bytes: usize,
    kind: Kind,
) -> Result<Step, Malformed> {
    let is_first = state.items == 0;
    if mark == b'>' && is_first {
        state.is_push = added > 0;
        state.items = added;
        return Ok(Step::Eaten(line_bytes));
    }
    let taken = u64::from(mark != b'|');
    let open = state.items.max(1);
    state.items = (open - taken).saturating_add(added);
    if state.items > ITEMS_MAX {
        return Err(Malformed("a count"));
    }
    if state.items == 0 {
        return Ok(finish(state, line_bytes, kind, true));
    }
    Ok(Step::Eaten(line_bytes))
}

/// A null: one element, and no hit.
#[inline]
fn null(state: &mut ReplyState, line_bytes: usize, kind: Kind) -> Step {
    element(state, line_bytes, kind, false)
}

/// An element ends behind `bytes` of the buffer.
#[inline]
pub(super) fn element(state: &mut ReplyState, bytes: usize, kind: Kind, is_there: bool) -> Step {
    if state.items > 1 {
        state.items -= 1;
        return Step::Eaten(bytes);
    }
    state.items = 0;
    finish(state, bytes, kind, is_there)
}

/// A whole tree ends.
#[inline]
fn finish(state: &mut ReplyState, bytes: usize, kind: Kind, is_there: bool) -> Step {
    let hits = std::mem::take(&mut state.hits);
    if std::mem::take(&mut state.is_push) {
        state.failed = None;
        return Step::Eaten(bytes);
    }
    Step::Done(
        bytes,
        match (state.failed.take(), kind) {
            (Some(failed), _) => failed,
            (None, Kind::Mget) => Outcome::Hits(hits),
            (None, _) => single(kind, is_there),
        },
    )
}

#[inline]
fn single(kind: Kind, is_there: bool) -> Outcome {
    match (kind, is_there) {
        (Kind::Get | Kind::Gets, true) => Outcome::Hit { token: 0 },
        // An HSET that overwrites answers 0 as well.
        (Kind::Set | Kind::Append | Kind::Prepend | Kind::Incr | Kind::Decr, _) => Outcome::Stored,
        (Kind::Add | Kind::Replace | Kind::Cas, false) => Outcome::NotStored,
        (_, true) => Outcome::Stored,
        (_, false) => Outcome::Miss,
    }
}

/// The class of an error, by its first word.
fn failure(text: &[u8]) -> Outcome {
    let word = text.split(|byte| *byte == b' ').next().unwrap_or_default();
    let has = |words: &[u8]| memchr::memmem::find(text, words).is_some();
    Outcome::Failed(match word {
        b"MOVED" => Failure::Moved,
        b"ASK" => Failure::Ask,
        b"OOM" => Failure::OutOfMemory,
        b"BUSY" | b"LOADING" | b"TRYAGAIN" | b"CLUSTERDOWN" => Failure::Busy,
        b"NOAUTH" | b"NOPERM" | b"WRONGPASS" | b"DENIED" => Failure::Auth,
        b"ERR" if has(b"unknown command") => Failure::UnknownCommand,
        b"ERR" if has(b"max number of clients") => Failure::Busy,
        b"ERR" => Failure::Server,
        _ => Failure::Other,
    })
}

//! From bytes to a command: the server's side of the text protocol.

use super::block::Block;
use super::keys::Keys;
use super::line::{Words, is_key, is_plain, line};
use super::refusal::{Fault, Refusal};
use super::request::{Arithmetic, Get, Request, Store, StoreMode};
use crate::memcached::direction::Direction;
use crate::memcached::limits::{KEY_BYTES_MAX, Limits};
use crate::memcached::meta;
use crate::memcached::parsed::Parsed;
use crate::memcached::sniff::{ends_as_http, is_http};
use crate::number::{parse_i64, parse_u64};

/// Reads the command at the front of `buffer`. Linear in the length of its line; the bytes of a
/// value are only looked at when the last of them is there.
///
/// ```
/// use keyrack_wire::memcached::{Limits, Parsed, text};
///
/// let Ok(Parsed::Complete(text::Request::Get(get), 9)) =
///     text::parse(b"get a b\r\nget c\r\n", &Limits::DEFAULT)
/// else {
///     panic!("a whole command");
/// };
/// assert_eq!(get.keys.collect::<Vec<_>>(), [b"a", b"b"]);
/// assert_eq!(text::parse(b"set a 0 0 5\r\nhe", &Limits::DEFAULT), Ok(Parsed::Incomplete(20)));
/// ```
///
/// # Errors
/// A line that is no command, with what to reply and where to go on.
#[inline]
pub fn parse<'a>(buffer: &'a [u8], limits: &Limits) -> Result<Parsed<Request<'a>>, Refusal> {
    let bytes_max =
        if is_retrieval(buffer) { limits.keys_line_bytes_max } else { limits.line_bytes_max };
    let (line, line_bytes) = match line(buffer, bytes_max) {
        Some(Parsed::Complete(line, bytes)) => (line, bytes),
        Some(Parsed::Incomplete(bytes)) => return Ok(Parsed::Incomplete(bytes)),
        None => {
            let fault = if is_http(buffer) { Fault::Http } else { Fault::LineTooLong };
            return Err(Refusal { fault, noreply: false, skip: bytes_max as u64, close: true });
        }
    };
    let mut words = Words::new(line);
    let name = words.next().unwrap_or_default();
    let store = |mode| store(mode, line, words, (buffer, line_bytes), limits);
    let command = match name {
        b"get" | b"gets" => {
            return match retrieval(words, name == b"gets", None) {
                Ok(get) => Ok(Parsed::Complete(Request::Get(get), line_bytes)),
                Err(fault) => Err(refuse(fault, line, line_bytes)),
            };
        }
        b"set" => return store(StoreMode::Set),
        b"add" => return store(StoreMode::Add),
        b"replace" => return store(StoreMode::Replace),
        b"append" => return store(StoreMode::Append),
        b"prepend" => return store(StoreMode::Prepend),
        b"cas" => return store(StoreMode::Cas(0)),
        b"ms" => return meta::parse::set(words, buffer, line_bytes, limits),
        _ => simple(name, words),
    };
    match command {
        Ok(request) => Ok(Parsed::Complete(request, line_bytes)),
        Err(fault) => Err(refuse(fault, line, line_bytes)),
    }
}

/// Whether a line begins as those do that may hold many keys.
fn is_retrieval(buffer: &[u8]) -> bool {
    matches!(
        buffer,
        [b'g', b'e' | b'a', b't', b' ', ..] | [b'g', b'e' | b'a', b't', b's', b' ', ..]
    )
}

/// What a line without a block is refused with.
#[cold]
fn refuse(fault: Fault, line: &[u8], line_bytes: usize) -> Refusal {
    let skip = line_bytes as u64;
    if fault == Fault::Unknown && (is_http(line) || ends_as_http(line)) {
        return Refusal { fault: Fault::Http, noreply: false, skip, close: true };
    }
    let noreply = fault != Fault::Unknown && asks_noreply(line);
    Refusal { fault, noreply, skip, close: false }
}

/// Whether a line that cannot be read asks for no reply nevertheless. Retrievals and meta commands
/// (`g`, `m`) do not: to those it would be a key or a flag.
fn asks_noreply(line: &[u8]) -> bool {
    line.ends_with(b" noreply") && !matches!(line.first(), Some(b'g' | b'm'))
}

#[inline]
fn retrieval(words: Words<'_>, cas: bool, exptime: Option<i64>) -> Result<Get<'_>, Fault> {
    let text = words.rest();
    if text.is_empty() {
        return Err(Fault::Unknown);
    }
    let mut keys = Keys::new(text);
    let are_short = text.len() <= KEY_BYTES_MAX || keys.all(|key| key.len() <= KEY_BYTES_MAX);
    if !are_short || !is_plain(text) {
        return Err(Fault::Format);
    }
    Ok(Get { keys: Keys::new(text), cas, exptime })
}

/// `set` and its kin: a line and a block.
fn store<'a>(
    mode: StoreMode,
    line: &[u8],
    mut words: Words<'a>,
    (buffer, line_bytes): (&'a [u8], usize),
    limits: &Limits,
) -> Result<Parsed<Request<'a>>, Refusal> {
    let [key, flags, exptime, bytes] = std::array::from_fn(|_| words.next());
    let block = Block::announced(bytes, line_bytes, limits)?;
    let mut attributes = || {
        let key = key.filter(|key| is_key(key))?;
        let flags = u32::try_from(parse_u64(flags?)?).ok()?;
        let exptime = parse_i64(exptime?)?;
        let mode = match mode {
            StoreMode::Cas(_) => StoreMode::Cas(parse_u64(words.next()?)?),
            mode => mode,
        };
        let noreply = noreply(words)?;
        Some(Store { mode, key, flags, exptime, value: b"", noreply })
    };
    let Some(store) = attributes() else {
        return Err(block.refuse(Fault::Format, asks_noreply(line)));
    };
    let value = block.read(buffer, store.noreply, limits)?;
    Ok(value.map(|value| Request::Store(Store { value, ..store })))
}

/// A command that is a line and nothing else.
fn simple<'a>(name: &[u8], mut words: Words<'a>) -> Result<Request<'a>, Fault> {
    match name {
        b"mg" | b"md" | b"ma" | b"me" => meta::parse::line(name[1], words).map(Request::Meta),
        b"mn" => Ok(Request::Meta(meta::Request::NOOP)),
        b"gat" | b"gats" => gat(words, name == b"gats"),
        b"delete" => delete(words),
        b"incr" => arithmetic(Direction::Up, words),
        b"decr" => arithmetic(Direction::Down, words),
        b"touch" => {
            let key = words.next().ok_or(Fault::Unknown)?;
            let exptime = words.next().ok_or(Fault::Unknown)?;
            let key = Some(key).filter(|key| is_key(key)).ok_or(Fault::Format)?;
            let exptime = parse_i64(exptime).ok_or(Fault::Exptime)?;
            let noreply = noreply(words).ok_or(Fault::Format)?;
            Ok(Request::Touch { key, exptime, noreply })
        }
        b"flush_all" => {
            let mut ahead = words;
            let (delay, words) = match ahead.next() {
                None | Some(b"noreply") => (0, words),
                Some(delay) => (parse_i64(delay).ok_or(Fault::Exptime)?, ahead),
            };
            let noreply = noreply(words).ok_or(Fault::Unknown)?;
            Ok(Request::FlushAll { delay, noreply })
        }
        b"stats" => {
            let rest = words.rest();
            if is_plain(rest) { Ok(Request::Stats(rest)) } else { Err(Fault::Format) }
        }
        b"lru_crawler" => match words.rest() {
            b"" => Err(Fault::Unknown),
            rest if is_plain(rest) => Ok(Request::LruCrawler(rest)),
            _ => Err(Fault::Format),
        },
        b"version" => Ok(Request::Version),
        b"verbosity" => match words.next().ok_or(Fault::Unknown)? {
            b"noreply" => Ok(Request::Verbosity { noreply: true }),
            level => {
                parse_u64(level).ok_or(Fault::Format)?;
                let noreply = noreply(words).ok_or(Fault::Unknown)?;
                Ok(Request::Verbosity { noreply })
            }
        },
        b"cache_memlimit" => {
            let megabytes = words.next().ok_or(Fault::Unknown)?;
            let megabytes = parse_u64(megabytes).ok_or(Fault::Format)?;
            let noreply = noreply(words).ok_or(Fault::Unknown)?;
            Ok(Request::CacheMemlimit { megabytes, noreply })
        }
        b"shutdown" => Ok(Request::Shutdown),
        b"quit" => Ok(Request::Quit),
        _ => Err(Fault::Unknown),
    }
}

/// What is left of a line is nothing, or `noreply`.
fn noreply(mut words: Words<'_>) -> Option<bool> {
    match (words.next(), words.next()) {
        (None, _) => Some(false),
        (Some(b"noreply"), None) => Some(true),
        _ => None,
    }
}

fn gat(mut words: Words<'_>, cas: bool) -> Result<Request<'_>, Fault> {
    let exptime = words.next().ok_or(Fault::Unknown)?;
    let exptime = parse_i64(exptime).ok_or(Fault::Exptime)?;
    retrieval(words, cas, Some(exptime)).map(Request::Get)
}

/// `delete KEY [0] [noreply]`: the 0 is a time that old clients send.
fn delete(mut words: Words<'_>) -> Result<Request<'_>, Fault> {
    let key = words.next().ok_or(Fault::Unknown)?;
    if !is_key(key) {
        return Err(Fault::Format);
    }
    let noreply = match [words.next(), words.next(), words.next()] {
        [None, ..] | [Some(b"0"), None, _] => false,
        [Some(b"noreply"), None, _] | [Some(b"0"), Some(b"noreply"), None] => true,
        [_, _, Some(_)] => return Err(Fault::Unknown),
        _ => return Err(Fault::DeleteTime),
    };
    Ok(Request::Delete { key, noreply })
}

fn arithmetic(direction: Direction, mut words: Words<'_>) -> Result<Request<'_>, Fault> {
    let key = words.next().ok_or(Fault::Unknown)?;
    let delta = words.next().ok_or(Fault::Unknown)?;
    if !is_key(key) {
        return Err(Fault::Format);
    }
    let delta = parse_u64(delta).ok_or(Fault::Delta)?;
    let noreply = noreply(words).ok_or(Fault::Format)?;
    Ok(Request::Arithmetic(Arithmetic { direction, key, delta, noreply }))
}

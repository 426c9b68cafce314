//! The text protocol: lines to steps on items, and their answers to lines.

use super::connection::{Connection, Next};
use super::cx::Cx;
use super::gets::{Run, Stop};
use super::items::{self, Answer, Delete, Delta, Mode, Put, Reading};
use super::output::{Cut, Output, server_error};
use super::{dump, meta, stats};
use crate::durations::Kind;
use keyrack_wire::memcached::meta::Verb;
use keyrack_wire::memcached::text::{
    Arithmetic, Direction, Fault, Get, Refusal, Reply, Request, Store, StoreMode, parse,
    write_value,
};
use keyrack_wire::memcached::{Limits, Parsed};

/// Bytes from which on it is worth to remember how far an unfinished line was searched: longer than
/// all lines but those of keys.
const LONG_LINE_BYTES: usize = 4 << 10;

/// Carries out the requests of `input` from `at` on.
pub(super) fn serve(
    connection: &mut Connection,
    cx: &mut Cx<'_>,
    limits: &Limits,
    input: &[u8],
    at: &mut usize,
    out: &mut Output<'_>,
) -> Next {
    let mut run = Run::new();
    loop {
        if out.is_full() || cx.work.is_slice_spent() {
            return stopped(run.finish(cx, out), connection, at).unwrap_or(Next::Again);
        }
        if let Some(next) = go_on_with_dump(connection, cx, out) {
            return next;
        }
        let rest = &input[*at..];
        if let Some(next) = unfinished_line(connection, rest, limits) {
            return next;
        }
        let parsed = parse(rest, limits);
        if let Ok(Parsed::Complete(Request::Get(get), bytes)) = parsed
            && get.exptime.is_none()
            && connection.authenticated
        {
            cx.requested(Kind::Get, 1);
            let from = connection.resume(*at);
            let added = run.add(cx, get.keys, get.cas, from, out);
            if let Some(next) = stopped(added, connection, at) {
                return next;
            }
            *at += bytes;
            continue;
        }
        if let Some(next) = stopped(run.finish(cx, out), connection, at) {
            return next;
        }
        let next = match parsed {
            Ok(Parsed::Incomplete(need)) => {
                if rest.len() >= LONG_LINE_BYTES && need == rest.len() + 1 && rest[0] == b'g' {
                    connection.searched = rest.len();
                }
                return Next::Need(need);
            }
            Ok(Parsed::Complete(request, bytes)) => {
                answer(connection, cx, limits, at, request, bytes, out)
            }
            Err(refusal) => refuse(connection, cx, input, at, &refusal, out),
        };
        if let Some(next) = next {
            return next;
        }
    }
}

/// Writes the next slice of a metadump, if one is under way.
fn go_on_with_dump(
    connection: &mut Connection,
    cx: &mut Cx<'_>,
    out: &mut Output<'_>,
) -> Option<Next> {
    let low = connection.dump.take()?;
    match dump::metadump(cx, &low, out) {
        Ok(None) => {
            Reply::End.write(out.bytes);
            None
        }
        Ok(next) => {
            connection.dump = next;
            Some(Next::Again)
        }
        Err(error) => {
            server_error(&error, out.bytes);
            Some(Next::Close)
        }
    }
}

/// Whether a long line of keys is still without its end. It comes in many reads, and only the new
/// bytes are searched.
#[inline]
fn unfinished_line(connection: &mut Connection, rest: &[u8], limits: &Limits) -> Option<Next> {
    let searched = std::mem::take(&mut connection.searched);
    let is_unfinished = searched > 0
        && rest.len() < limits.keys_line_bytes_max
        && !rest.get(searched..).unwrap_or_default().contains(&b'\n');
    is_unfinished.then(|| {
        connection.searched = rest.len();
        Next::Need(rest.len() + 1)
    })
}

/// Carries out a complete request of `bytes` bytes at `at`.
#[inline]
fn answer(
    connection: &mut Connection,
    cx: &mut Cx<'_>,
    limits: &Limits,
    at: &mut usize,
    request: Request<'_>,
    bytes: usize,
    out: &mut Output<'_>,
) -> Option<Next> {
    cx.requested(kind_of(&request), 1);
    let next = if connection.authenticated {
        execute(connection, cx, *at, request, out)
    } else {
        authenticate(connection, cx, &request, out)
    };
    if next != Some(Next::Again) {
        *at += bytes;
    }
    // After authentication other limits hold.
    let has_new_limits = connection.authenticated && limits.skip_bytes_max == 0;
    next.or(has_new_limits.then_some(Next::Again))
}

/// The kind of a request in metrics.
fn kind_of(request: &Request<'_>) -> Kind {
    match request {
        Request::Get(_) => Kind::Get,
        Request::Store(_) | Request::Arithmetic(_) => Kind::Set,
        Request::Delete { .. } | Request::FlushAll { .. } => Kind::Delete,
        Request::Meta(request) => match request.verb {
            Verb::Get => Kind::Get,
            Verb::Set(_) | Verb::Arithmetic(_) => Kind::Set,
            Verb::Delete => Kind::Delete,
            Verb::Debug | Verb::Noop => Kind::Other,
        },
        Request::LruCrawler(_) => Kind::Scan,
        _ => Kind::Other,
    }
}

/// Replies to a request that is not well formed, and passes over it where that is possible.
#[cold]
fn refuse(
    connection: &mut Connection,
    cx: &mut Cx<'_>,
    input: &[u8],
    at: &mut usize,
    refusal: &Refusal,
    out: &mut Output<'_>,
) -> Option<Next> {
    cx.counts.errors.add(1);
    if refusal.fault == Fault::TooLarge {
        cx.refused_as_too_large(&input[*at..], connection.authenticated);
    }
    out.bytes.extend_from_slice(refusal.reply());
    if refusal.close {
        connection.broke_protocol(String::from_utf8_lossy(refusal.reply()).trim_end());
        *at = input.len();
        return Some(Next::Close);
    }
    connection.skip(at, input, refusal.skip);
    (connection.skip > 0).then_some(Next::Need(1))
}

/// The next step after a run of lookups that stopped early.
fn stopped(result: Result<(), Stop>, connection: &mut Connection, at: &mut usize) -> Option<Next> {
    match result {
        Ok(()) => None,
        Err(Stop::Full(Cut { request, keys })) => {
            *at = request;
            connection.answered = keys;
            Some(Next::Again)
        }
        Err(Stop::Failed) => Some(Next::Close),
    }
}

/// The one request that is executed before the client has authenticated: `set` with the name
/// and the password as its value.
fn authenticate(
    connection: &mut Connection,
    cx: &mut Cx<'_>,
    request: &Request<'_>,
    out: &mut Output<'_>,
) -> Option<Next> {
    let Request::Store(Store { mode: StoreMode::Set, value, .. }) = *request else {
        if *request == Request::Quit {
            return Some(Next::Close);
        }
        cx.counts.errors.add(1);
        connection.broke_protocol("a command before authentication");
        Reply::ClientError(b"unauthenticated").write(out.bytes);
        return Some(Next::Close);
    };
    cx.counts.auth_cmds.add(1);
    // Without a blank all of it is the password.
    let blank = value.iter().position(|byte| *byte == b' ');
    let secret = blank.map_or(value, |at| &value[at + 1..]);
    if cx.shared.password.is(secret) {
        connection.authenticated = true;
        Reply::Stored.write(out.bytes);
        return None;
    }
    // What stands before the blank may be a name, or the beginning of a password.
    connection.refused(cx, b"");
    Reply::ClientError(b"authentication failure").write(out.bytes);
    Some(Next::Close)
}

fn execute(
    connection: &mut Connection,
    cx: &mut Cx<'_>,
    at: usize,
    request: Request<'_>,
    out: &mut Output<'_>,
) -> Option<Next> {
    let (reply, noreply) = match request {
        Request::Get(get) => return get_and_touch(connection, cx, at, &get, out),
        Request::Store(store) => (self::store(cx, &store, out), store.noreply),
        Request::Delete { key, noreply } => (delete(cx, key, out), noreply),
        Request::Arithmetic(arithmetic) => (count(cx, &arithmetic, out), arithmetic.noreply),
        Request::Touch { key, exptime, noreply } => (touch(cx, key, exptime, out), noreply),
        Request::Meta(request) => {
            meta::execute(cx, &request, out.bytes);
            return None;
        }
        Request::FlushAll { delay, noreply } => (flush_all(cx, delay, out), noreply),
        Request::Stats(words) => {
            stats::write(cx, words, out.bytes);
            return None;
        }
        Request::LruCrawler(b"metadump all" | b"metadump hash" | b"metadump 1") => {
            connection.dump = Some(Vec::new());
            return None;
        }
        // There is no crawler that could be told anything else.
        Request::LruCrawler(_) => (Some(Reply::Error), false),
        Request::Version => {
            Reply::Version(cx.shared.version.as_bytes()).write(out.bytes);
            return None;
        }
        Request::Verbosity { noreply } | Request::CacheMemlimit { noreply, .. } => {
            (Some(Reply::Ok), noreply)
        }
        Request::Shutdown => {
            out.bytes.extend_from_slice(b"ERROR: shutdown not enabled\r\n");
            return None;
        }
        Request::Quit => return Some(Next::Close),
        _ => (Some(Reply::Error), false),
    };
    // An error that was written already is said whatever the client asked for.
    if let Some(reply) = reply
        && !noreply
    {
        reply.write(out.bytes);
    }
    None
}

fn get_and_touch(
    connection: &mut Connection,
    cx: &mut Cx<'_>,
    at: usize,
    get: &Get<'_>,
    out: &mut Output<'_>,
) -> Option<Next> {
    let touch_ms = get.exptime.map(|exptime| items::expires_ms(exptime, cx.now_ms));
    let from = connection.resume(at).keys;
    for (answered, key) in (from..).zip(get.keys.skip(from as usize)) {
        if out.is_full() || cx.work.is_slice_spent() && answered > from {
            connection.answered = answered;
            return Some(Next::Again);
        }
        let begun = out.bytes.len();
        let reading = Reading { touch_ms, ..Reading::default() };
        let found = items::read(cx.rows, key, reading, cx.now_ms, &mut |item| {
            out.bytes.truncate(begun);
            write_value(out.bytes, key, item.flags, item.value, get.cas.then_some(item.cas));
        });
        match found {
            Ok(hit) => {
                cx.looked_up(key, hit);
                cx.touched(key, hit);
            }
            Err(error) => {
                out.bytes.truncate(begun);
                server_error(&error, out.bytes);
                return Some(Next::Close);
            }
        }
    }
    Reply::End.write(out.bytes);
    None
}

fn store(cx: &mut Cx<'_>, store: &Store<'_>, out: &mut Output<'_>) -> Option<Reply<'static>> {
    let (mode, compare) = match store.mode {
        StoreMode::Set => (Mode::Set, None),
        StoreMode::Add => (Mode::Add, None),
        StoreMode::Replace => (Mode::Replace, None),
        StoreMode::Append => (Mode::Append, None),
        StoreMode::Prepend => (Mode::Prepend, None),
        StoreMode::Cas(unique) => (Mode::Set, Some(unique)),
    };
    let expires_ms = items::expires_ms(store.exptime, cx.now_ms);
    let put = Put { mode, compare, ..Put::set(store.key, store.value, store.flags, expires_ms) };
    let answer = cx.store(&put);
    said(answer, Reply::Stored, out)
}

fn delete(cx: &mut Cx<'_>, key: &[u8], out: &mut Output<'_>) -> Option<Reply<'static>> {
    let answer = cx.delete(&Delete { key, ..Delete::default() });
    said(answer, Reply::Deleted, out)
}

fn count(
    cx: &mut Cx<'_>,
    arithmetic: &Arithmetic<'_>,
    out: &mut Output<'_>,
) -> Option<Reply<'static>> {
    let delta = Delta {
        key: arithmetic.key,
        by: arithmetic.delta,
        up: arithmetic.direction == Direction::Up,
        compare: None,
        cas: 0,
        initial: None,
        touch_ms: None,
    };
    let (answer, counted) = cx.count(&delta);
    said(answer, Reply::Number(counted.number), out)
}

fn touch(
    cx: &mut Cx<'_>,
    key: &[u8],
    exptime: i64,
    out: &mut Output<'_>,
) -> Option<Reply<'static>> {
    let touch_ms = Some(items::expires_ms(exptime, cx.now_ms));
    let reading = Reading { touch_ms, ..Reading::default() };
    match items::read(cx.rows, key, reading, cx.now_ms, &mut |_| {}) {
        Ok(hit) => {
            cx.touched(key, hit);
            Some(if hit { Reply::Touched } else { Reply::NotFound })
        }
        Err(error) => said(items::failure(error), Reply::Touched, out),
    }
}

fn flush_all(cx: &mut Cx<'_>, delay: i64, out: &mut Output<'_>) -> Option<Reply<'static>> {
    match cx.flush_all(delay) {
        Ok(()) => Some(Reply::Ok),
        Err(error) => {
            server_error(&error, out.bytes);
            None
        }
    }
}

/// The reply to an answer; `done` when it is yes. What a store failed with is written at once.
fn said(answer: Answer, done: Reply<'static>, out: &mut Output<'_>) -> Option<Reply<'static>> {
    Some(match answer {
        Answer::Done(_) => done,
        Answer::NotStored => Reply::NotStored,
        Answer::Exists => Reply::Exists,
        Answer::NotFound => Reply::NotFound,
        Answer::NotANumber => {
            Reply::ClientError(b"cannot increment or decrement non-numeric value")
        }
        Answer::TooLarge => Reply::ServerError(b"object too large for cache"),
        Answer::NoMemory => Reply::ServerError(b"out of memory storing object"),
        Answer::Failed(error) => {
            server_error(&error, out.bytes);
            return None;
        }
    })
}

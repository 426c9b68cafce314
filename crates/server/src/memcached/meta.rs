//! The meta commands: flags to steps on items, and what became of them to flags.
//!
//! A client that reads may be asked for a new value: when the item is stale (`md` with `I`), soon
//! to expire (`R`), or not there at all (`N`). One client gets `W`, the others `Z` until the value
//! has come.

use super::cx::Cx;
use super::items::{self, Answer, Delete, Delta, Item, Mode, Put, Reading};
use super::output::server_error;
use keyrack_wire::memcached::KEY_BYTES_MAX;
use keyrack_wire::memcached::meta::{Code, Facts, Reply, Request, SetMode, Verb, write_reply};
use keyrack_wire::memcached::text::{self, Direction};
use std::io::Write;

/// Carries a command out.
pub(super) fn execute(cx: &mut Cx<'_>, request: &Request<'_>, out: &mut Vec<u8>) {
    let mut room = [0; KEY_BYTES_MAX];
    let key = request.key.bytes(&mut room);
    cx.counts.cmd_meta.add(1);
    match request.verb {
        Verb::Get => get(cx, request, key, out),
        Verb::Set(mode) => set(cx, request, key, mode, out),
        Verb::Delete => delete(cx, request, key, out),
        Verb::Arithmetic(direction) => count(cx, request, key, direction, out),
        Verb::Debug => describe(cx, request, key, out),
        Verb::Noop => Reply::Noop.write(out),
    }
}

fn get(cx: &mut Cx<'_>, request: &Request<'_>, key: &[u8], out: &mut Vec<u8>) {
    let flags = &request.flags;
    let now_ms = cx.now_ms;
    let reading = Reading {
        touch_ms: flags.ttl().map(|ttl| items::expires_ms(ttl, now_ms)),
        vivify_ms: flags.vivify_ttl().map(|ttl| items::expires_ms(ttl, now_ms)),
        recache_ms: flags.recache_ttl().map(|ttl| ttl.max(0).unsigned_abs().saturating_mul(1000)),
    };
    let last = cx.shared.reads.last(key, now_ms);
    let begun = out.len();
    let found = items::read(cx.rows, key, reading, now_ms, &mut |item| {
        out.truncate(begun);
        let mut facts = facts_of(&item, now_ms);
        facts.hit_before = last.was_read;
        facts.idle_s = last.idle_s;
        write_reply(out, request, Code::Hd, Some(&facts), flags.value().then_some(item.value));
    });
    match found {
        Ok(hit) => {
            cx.count_lookup(key, hit);
            if reading.touch_ms.is_some() {
                cx.counts.touched(hit);
            }
            // With `u` the read is not to count as one.
            if hit && !flags.has(b'u') {
                cx.shared.reads.read(key, now_ms);
            }
            if !hit {
                write_reply(out, request, Code::En, None, None);
            }
        }
        Err(error) => {
            out.truncate(begun);
            server_error(&error, out);
        }
    }
}

fn facts_of(item: &Item<'_>, now_ms: u64) -> Facts {
    Facts {
        cas: item.cas,
        client_flags: item.flags,
        value_bytes: item.value.len() as u64,
        ttl_s: items::ttl_s(item.expires_ms, now_ms),
        hit_before: false,
        idle_s: 0,
        won: item.won,
        stale: item.stale,
        win_sent: item.promised,
    }
}

fn set(cx: &mut Cx<'_>, request: &Request<'_>, key: &[u8], mode: SetMode, out: &mut Vec<u8>) {
    let flags = &request.flags;
    let at = |ttl: i64| items::expires_ms(ttl, cx.now_ms);
    let put = Put {
        key,
        value: request.value,
        mode: match mode {
            SetMode::Set => Mode::Set,
            SetMode::Add => Mode::Add,
            SetMode::Replace => Mode::Replace,
            SetMode::Append => Mode::Append,
            SetMode::Prepend => Mode::Prepend,
        },
        flags: flags.client_flags(),
        expires_ms: flags.ttl().map_or(0, at),
        compare: flags.cas(),
        or_stale: flags.invalidate(),
        cas: flags.new_cas().unwrap_or(0),
        vivify_ms: flags.vivify_ttl().map(at),
    };
    let answer = cx.store(&put);
    let value_bytes = request.value.len() as u64;
    said(request, answer, Facts { value_bytes, ..Facts::default() }, None, out);
}

fn delete(cx: &mut Cx<'_>, request: &Request<'_>, key: &[u8], out: &mut Vec<u8>) {
    let flags = &request.flags;
    let invalidate = flags.invalidate();
    let answer = cx.delete(&Delete {
        key,
        compare: flags.cas(),
        invalidate,
        empty: flags.has(b'x'),
        touch_ms: flags.ttl().filter(|_| invalidate).map(|ttl| items::expires_ms(ttl, cx.now_ms)),
        cas: flags.new_cas().unwrap_or(0),
    });
    said(request, answer, Facts::default(), None, out);
}

fn count(
    cx: &mut Cx<'_>,
    request: &Request<'_>,
    key: &[u8],
    direction: Direction,
    out: &mut Vec<u8>,
) {
    let flags = &request.flags;
    let at = |ttl: i64| items::expires_ms(ttl, cx.now_ms);
    let (answer, counted) = cx.count(&Delta {
        key,
        by: flags.delta(),
        up: direction == Direction::Up,
        compare: flags.cas(),
        cas: flags.new_cas().unwrap_or(0),
        initial: flags.vivify_ttl().map(|ttl| (flags.initial(), at(ttl))),
        touch_ms: flags.ttl().map(at),
    });
    let facts = Facts { ttl_s: items::ttl_s(counted.expires_ms, cx.now_ms), ..Facts::default() };
    let digits = keyrack_decimal::Decimal::new(counted.number);
    said(request, answer, facts, flags.value().then_some(&digits), out);
}

/// Writes what became of a writing command; `value` goes with a yes.
fn said(
    request: &Request<'_>,
    answer: Answer,
    mut facts: Facts,
    value: Option<&[u8]>,
    out: &mut Vec<u8>,
) {
    let error = match answer {
        Answer::Done(cas) => {
            facts.cas = cas;
            return write_reply(out, request, Code::Hd, Some(&facts), value);
        }
        Answer::NotStored => return write_reply(out, request, Code::Ns, None, None),
        Answer::Exists => return write_reply(out, request, Code::Ex, None, None),
        Answer::NotFound => return write_reply(out, request, Code::Nf, None, None),
        Answer::NotANumber => {
            text::Reply::ClientError(b"cannot increment or decrement non-numeric value")
        }
        Answer::TooLarge => text::Reply::ServerError(b"object too large for cache"),
        Answer::NoMemory => text::Reply::ServerError(b"out of memory storing object"),
        Answer::Failed(error) => return server_error(&error, out),
    };
    error.write(out);
}

/// `me`: what is known about the item, for people.
fn describe(cx: &mut Cx<'_>, request: &Request<'_>, key: &[u8], out: &mut Vec<u8>) {
    let now_ms = cx.now_ms;
    let last = cx.shared.reads.last(key, now_ms);
    let mut facts = Vec::new();
    let found = items::read(cx.rows, key, Reading::default(), now_ms, &mut |item| {
        facts.clear();
        let exp = items::ttl_s(item.expires_ms, now_ms).map_or(-1, |ttl| ttl.cast_signed());
        let fetch = if last.was_read { "yes" } else { "no" };
        // Writing to a vector does not fail.
        let _ = write!(
            facts,
            "exp={exp} la={} cas={} fetch={fetch} cls=1 size={}",
            last.idle_s,
            item.cas,
            key.len() + item.value.len(),
        );
    });
    match found {
        Ok(true) => Reply::Debug { key: request.key.text(), facts: &facts }.write(out),
        Ok(false) => out.extend_from_slice(b"EN\r\n"),
        Err(error) => server_error(&error, out),
    }
}

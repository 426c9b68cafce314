//! The binary protocol: requests with a header to steps on items, and their answers to replies.

use super::binary_gets::Run;
use super::binary_replies::{done, failed, missed, status_of};
use super::connection::{Connection, Next};
use super::cx::Cx;
use super::items::{self, Answer, Delete, Delta, Mode, Put, Reading};
use super::output::Output;
use super::stats;
use crate::durations::Kind;
use keyrack_wire::memcached::binary::{
    Command, NO_INITIAL, Reply, Request, Status, StoreMode, parse, write_value,
};
use keyrack_wire::memcached::text::Direction;
use keyrack_wire::memcached::{Limits, Parsed};

/// The one way to say a password.
const MECHANISM: &[u8] = b"PLAIN";

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
        let parsed = parse(&input[*at..], limits);
        if let Ok(Parsed::Complete(request, bytes)) = &parsed
            && connection.authenticated
            && run.push(request, *at)
        {
            *at += bytes;
            continue;
        }
        if let Some(left_at) = run.finish(cx, out) {
            *at = left_at;
            return Next::Again;
        }
        if out.is_full() {
            return Next::Again;
        }
        match parsed {
            Ok(Parsed::Incomplete(need)) => return Next::Need(need),
            // The run was full: this is the first request of the next one.
            Ok(Parsed::Complete(request, bytes))
                if connection.authenticated && run.push(&request, *at) =>
            {
                *at += bytes;
            }
            Ok(Parsed::Complete(request, bytes)) => {
                *at += bytes;
                cx.requested(kind_of(&request.command), 1);
                let was_authenticated = connection.authenticated;
                if !execute(connection, cx, &request, out.bytes) {
                    return Next::Close;
                }
                if connection.authenticated != was_authenticated {
                    // Other limits hold from here on.
                    return Next::Again;
                }
            }
            Err(refusal) => {
                cx.counts.errors.add(1);
                if refusal.status == Some(Status::TOO_LARGE) {
                    cx.refused_as_too_large(&input[*at..], connection.authenticated);
                }
                refusal.write(out.bytes);
                if refusal.close {
                    connection.broke_protocol("a request that is not well formed");
                    *at = input.len();
                    return Next::Close;
                }
                connection.skip(at, input, refusal.skip);
                if connection.skip > 0 {
                    return Next::Need(1);
                }
            }
        }
    }
}

/// The kind of a request in metrics.
fn kind_of(command: &Command<'_>) -> Kind {
    match command {
        Command::Get { .. } => Kind::Get,
        Command::Store { .. } | Command::Arithmetic { .. } => Kind::Set,
        Command::Delete { .. } | Command::Flush { .. } => Kind::Delete,
        _ => Kind::Other,
    }
}

/// Carries a request out. False when the connection is to be closed.
fn execute(
    connection: &mut Connection,
    cx: &mut Cx<'_>,
    request: &Request<'_>,
    out: &mut Vec<u8>,
) -> bool {
    match request.command {
        Command::SaslList if cx.shared.password.is_set() => done(request, 0, MECHANISM, out),
        Command::SaslAuth { mechanism, data } if cx.shared.password.is_set() => {
            return authenticate(connection, cx, request, (mechanism, data), out);
        }
        Command::SaslStep { .. } if cx.shared.password.is_set() => {
            cx.counts.auth_errors.add(1);
            failed(request, Status::AUTH_ERROR, out);
            return false;
        }
        Command::SaslList | Command::SaslAuth { .. } | Command::SaslStep { .. } => {
            failed(request, Status::UNKNOWN_COMMAND, out);
        }
        Command::Version => done(request, 0, cx.shared.version.as_bytes(), out),
        Command::Quit => {
            done(request, 0, b"", out);
            return false;
        }
        _ if !connection.authenticated => {
            cx.counts.errors.add(1);
            failed(request, Status::AUTH_ERROR, out);
            return false;
        }
        Command::Get { key, with_key, exptime } => get(cx, request, (key, with_key, exptime), out),
        Command::Store { .. } => store(cx, request, out),
        Command::Delete { key } => {
            let compare = compare(request);
            let answer = cx.delete(&Delete { key, compare, ..Delete::default() });
            // A removed row has no version.
            let answer = if matches!(answer, Answer::Done(_)) { Answer::Done(0) } else { answer };
            said(request, answer, b"", out);
        }
        Command::Arithmetic { .. } => count(cx, request, out),
        Command::Touch { key, exptime } => {
            get(cx, request, (key, false, Some(exptime)), out);
        }
        Command::Flush { delay } => match cx.flush_all(i64::from(delay)) {
            Ok(()) => done(request, 0, b"", out),
            Err(error) => said(request, items::failure(error), b"", out),
        },
        Command::Stat { key } => stat(cx, request, key, out),
        Command::Verbosity { .. } | Command::Noop => done(request, 0, b"", out),
        _ => failed(request, Status::UNKNOWN_COMMAND, out),
    }
    true
}

/// SASL's PLAIN: two names and the password, with a zero byte between.
fn authenticate(
    connection: &mut Connection,
    cx: &mut Cx<'_>,
    request: &Request<'_>,
    (mechanism, data): (&[u8], &[u8]),
    out: &mut Vec<u8>,
) -> bool {
    cx.counts.auth_cmds.add(1);
    let mut parts = data.splitn(3, |byte| *byte == 0).skip(1);
    // Without all three parts, none is known to be the user.
    let (user, secret) = match (parts.next(), parts.next()) {
        (Some(user), Some(secret)) => (user, secret),
        _ => (&b""[..], &b""[..]),
    };
    if mechanism == MECHANISM && cx.shared.password.is(secret) {
        connection.authenticated = true;
        done(request, 0, b"Authenticated", out);
        return true;
    }
    connection.authenticated = false;
    connection.refused(cx, user);
    failed(request, Status::AUTH_ERROR, out);
    false
}

/// Reads, and touches where there is a time. `Touch` is the read whose value is not sent.
fn get(
    cx: &mut Cx<'_>,
    request: &Request<'_>,
    (key, with_key, exptime): (&[u8], bool, Option<u32>),
    out: &mut Vec<u8>,
) {
    let about = (request.opcode.number(), request.opaque);
    let reply_key = if with_key { key } else { b"" };
    let sends_value = !matches!(request.command, Command::Touch { .. });
    let touch_ms = exptime.map(|exptime| items::expires_ms(i64::from(exptime), cx.now_ms));
    let begun = out.len();
    let reading = Reading { touch_ms, ..Reading::default() };
    let found = items::read(cx.rows, key, reading, cx.now_ms, &mut |item| {
        out.truncate(begun);
        if sends_value {
            write_value(out, about, reply_key, item.flags, item.cas, item.value);
        } else {
            done(request, item.cas, b"", out);
        }
    });
    match found {
        Ok(hit) => {
            if sends_value {
                cx.looked_up(key, hit);
            }
            if exptime.is_some() {
                cx.touched(key, hit);
            }
            if !hit {
                missed(request, key, with_key, out);
            }
        }
        Err(error) => {
            out.truncate(begun);
            said(request, items::failure(error), b"", out);
        }
    }
}

fn store(cx: &mut Cx<'_>, request: &Request<'_>, out: &mut Vec<u8>) {
    let Command::Store { mode, key, flags, exptime, value } = request.command else { return };
    let expires_ms = items::expires_ms(i64::from(exptime), cx.now_ms);
    let (how, refused) = match mode {
        StoreMode::Set => (Mode::Set, Status::NOT_STORED),
        StoreMode::Add => (Mode::Add, Status::KEY_EXISTS),
        StoreMode::Replace => (Mode::Replace, Status::KEY_NOT_FOUND),
        StoreMode::Append => (Mode::Append, Status::NOT_STORED),
        StoreMode::Prepend => (Mode::Prepend, Status::NOT_STORED),
    };
    let compare = compare(request);
    let put = Put { mode: how, compare, ..Put::set(key, value, flags, expires_ms) };
    match cx.store(&put) {
        Answer::NotStored => failed(request, refused, out),
        answer => said(request, answer, b"", out),
    }
}

fn count(cx: &mut Cx<'_>, request: &Request<'_>, out: &mut Vec<u8>) {
    let Command::Arithmetic { direction, key, delta, initial, exptime } = request.command else {
        return;
    };
    let expires_ms = items::expires_ms(i64::from(exptime), cx.now_ms);
    let (answer, counted) = cx.count(&Delta {
        key,
        by: delta,
        up: direction == Direction::Up,
        compare: compare(request),
        cas: 0,
        initial: (exptime != NO_INITIAL).then_some((initial, expires_ms)),
        touch_ms: None,
    });
    said(request, answer, &counted.number.to_be_bytes(), out);
}

fn stat(cx: &Cx<'_>, request: &Request<'_>, key: &[u8], out: &mut Vec<u8>) {
    if stats::is_done(cx, key) {
        return done(request, 0, b"", out);
    }
    let (opcode, opaque) = (request.opcode.number(), request.opaque);
    let told = |key: &[u8], value: &[u8], out: &mut Vec<u8>| {
        Reply { opcode, status: Status::OK, opaque, cas: 0, extras: b"", key, value }.write(out);
    };
    if key == b"detail dump" {
        let mut lines = Vec::new();
        cx.shared.detail.write(&mut lines);
        told(b"detail", &lines, out);
        return done(request, 0, b"", out);
    }
    let mut text = String::new();
    let known = stats::visit(cx, key, &mut |name, value| {
        text.clear();
        // Writing to a string does not fail.
        let _ = std::fmt::Write::write_fmt(&mut text, format_args!("{value}"));
        told(name.as_bytes(), text.as_bytes(), out);
    });
    if known {
        done(request, 0, b"", out);
    } else {
        failed(request, Status::KEY_NOT_FOUND, out);
    }
}

/// The version on which a write insists.
fn compare(request: &Request<'_>) -> Option<u64> {
    (request.cas != 0).then_some(request.cas)
}

/// Writes what became of a write; `value` goes with a yes.
fn said(request: &Request<'_>, answer: Answer, value: &[u8], out: &mut Vec<u8>) {
    match answer {
        Answer::Done(cas) => done(request, cas, value, out),
        answer => failed(request, status_of(&answer), out),
    }
}

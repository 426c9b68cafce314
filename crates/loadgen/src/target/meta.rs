//! Memcached's meta commands. Their replies are told apart by two letters.

use super::reply::{Malformed, Phase, ReplyState, Step, line, number};
use super::request::{Request, decimal};
use super::text;
use super::{Kind, Outcome};

pub(super) fn encode(out: &mut Vec<u8>, request: &Request<'_>) {
    match request.kind {
        Kind::Get => command(out, b"mg ", request.key, b" v\r\n"),
        Kind::Gets => command(out, b"mg ", request.key, b" v c\r\n"),
        Kind::Mget => {
            for key in request.keys.into_iter().flat_map(|keys| keys.iter()) {
                command(out, b"mg ", key, b" v q\r\n");
            }
            out.extend_from_slice(b"mn\r\n");
        }
        Kind::Set => store(out, request, b""),
        Kind::Add => store(out, request, b" ME"),
        Kind::Replace => store(out, request, b" MR"),
        Kind::Append => store(out, request, b" MA"),
        Kind::Prepend => store(out, request, b" MP"),
        Kind::Cas => store(out, request, b" C"),
        Kind::Delete => command(out, b"md ", request.key, b"\r\n"),
        Kind::Incr => with_number(out, b"ma ", request.key, b" MI D", request.number),
        Kind::Decr => with_number(out, b"ma ", request.key, b" MD D", request.number),
        Kind::Touch => with_number(out, b"mg ", request.key, b" T", u64::from(request.ttl_s)),
        Kind::Flush => out.extend_from_slice(b"flush_all\r\n"),
    }
}

fn command(out: &mut Vec<u8>, name: &[u8], key: &[u8], tail: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(key);
    out.extend_from_slice(tail);
}

fn with_number(out: &mut Vec<u8>, name: &[u8], key: &[u8], flag: &[u8], number: u64) {
    command(out, name, key, flag);
    decimal(out, number);
    out.extend_from_slice(b"\r\n");
}

fn store(out: &mut Vec<u8>, request: &Request<'_>, mode: &[u8]) {
    command(out, b"ms ", request.key, b" ");
    decimal(out, request.value.len() as u64);
    out.extend_from_slice(mode);
    if request.kind == Kind::Cas {
        decimal(out, request.number);
    }
    if request.ttl_s > 0 {
        out.extend_from_slice(b" T");
        decimal(out, u64::from(request.ttl_s));
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(request.value);
    out.extend_from_slice(b"\r\n");
}

pub(super) fn step(state: &mut ReplyState, buffer: &[u8], kind: Kind) -> Result<Step, Malformed> {
    let Some((text, line_bytes)) = line(buffer)? else { return Ok(Step::More) };
    if let Some(rest) = text.strip_prefix(b"VA ") {
        let mut words = rest.split(|byte| *byte == b' ');
        let bytes = words.next().and_then(number).ok_or(Malformed("a VA line"))?;
        let token = words.find_map(|word| word.strip_prefix(b"c")).and_then(number);
        state.token = token.unwrap_or(0);
        state.hits += 1;
        let here = (buffer.len() - line_bytes) as u64;
        if here < bytes {
            if state.keeps_values {
                state.hits -= 1;
                return Ok(Step::More);
            }
            state.phase = Phase::Value { left: bytes - here };
            return Ok(Step::Eaten(buffer.len()));
        }
        let value_end = line_bytes + bytes as usize;
        state.value = Some(line_bytes..value_end);
        state.phase = Phase::ValueEnd;
        return Ok(Step::Eaten(value_end));
    }
    let outcome = match text.get(..2) {
        Some(b"MN") if kind == Kind::Mget => state.lookup(kind),
        Some(b"EN" | b"NF") => Outcome::Miss,
        Some(b"HD") => Outcome::Stored,
        Some(b"NS" | b"EX") => Outcome::NotStored,
        Some(b"OK") => Outcome::Stored,
        _ => text::failure(text).ok_or(Malformed("a line"))?,
    };
    state.note_failure(outcome, text);
    Ok(Step::Done(line_bytes, outcome))
}

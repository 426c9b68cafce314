//! memcached's binary protocol, as a client speaks it: GET, SET, DELETE, each with its reply.
//!
//! ```text
//!   update:  GET k   -> decide ->   SET k cas | ADD k | DELETE k cas
//!                                   KEY_EXISTS, NOT_STORED, KEY_NOT_FOUND: somebody else; again
//! ```

use super::memcached::{LIMITS, Memcached, RETRIES_MAX};
use super::pipe::Pipe;
use super::protocol::Answer;
use crate::contract::Decide;
use keyrack_store::{Error, Result, Update};
use keyrack_wire::memcached::Parsed;
use keyrack_wire::memcached::binary::{
    Command, HEADER_BYTES, Opcode, Reply, Request, Status, StoreMode, parse_reply,
};
use std::io;

/// Appends a lookup.
pub(super) fn get(out: &mut Vec<u8>, key: &[u8]) {
    Request::new(Command::Get { key, with_key: false, exptime: None }, false).write(out);
}

/// Appends a write.
pub(super) fn put(out: &mut Vec<u8>, mode: StoreMode, key: &[u8], value: &[u8], cas: u64) {
    let command = Command::Store { mode, key, flags: 0, exptime: 0, value };
    out.reserve(HEADER_BYTES + 8 + key.len() + value.len());
    Request { cas, ..Request::new(command, false) }.write(out);
}

/// Appends a removal.
pub(super) fn remove(out: &mut Vec<u8>, key: &[u8], cas: u64) {
    Request { cas, ..Request::new(Command::Delete { key }, false) }.write(out);
}

/// The reply at the front of `input`, which moves over it; `wanted` is how many bytes it needs.
fn message<'a>(
    wanted: &mut usize,
    input: &mut &'a [u8],
) -> std::result::Result<Option<Reply<'a>>, String> {
    if input.len() < *wanted {
        return Ok(None);
    }
    match parse_reply(input, &LIMITS).map_err(|error| error.to_string())? {
        Parsed::Complete(reply, bytes) => {
            *input = &input[bytes..];
            *wanted = 0;
            Ok(Some(reply))
        }
        Parsed::Incomplete(bytes) => {
            *wanted = bytes;
            Ok(None)
        }
    }
}

/// The answer at the front of `input`.
pub(super) fn answer<'a>(
    wanted: &mut usize,
    input: &mut &'a [u8],
) -> std::result::Result<Option<Answer<'a>>, String> {
    let answer = message(wanted, input)?.map(|reply| {
        let is_of = |opcode: Opcode| reply.opcode == opcode.number();
        match reply.status {
            Status::OK if is_of(Opcode::Get) => Answer::Found(reply.value),
            Status::OK if is_of(Opcode::Set) => Answer::Stored,
            Status::OK if is_of(Opcode::Delete) => Answer::Removed(true),
            Status::KEY_NOT_FOUND if is_of(Opcode::Get) => Answer::Missing,
            Status::KEY_NOT_FOUND if is_of(Opcode::Delete) => Answer::Removed(false),
            Status::OK => Answer::Refused(b"an answer to no such request"),
            _ => Answer::Refused(reply.value),
        }
    });
    Ok(answer)
}

/// Sends one request and reads its reply. A status that is none of `expected` is an error.
fn ask<R>(
    pipe: &mut Pipe<Memcached>,
    what: &str,
    expected: &[Status],
    write: impl FnOnce(&mut Vec<u8>),
    mut take: impl FnMut(&Reply<'_>) -> R,
) -> Result<R> {
    pipe.write(|_, out| write(out));
    pipe.flush()?;
    let answer = pipe.read(|this, input| {
        let Some(reply) = message(&mut this.wanted, input)? else { return Ok(None) };
        Ok(Some(if expected.contains(&reply.status) {
            Ok(take(&reply))
        } else {
            Err(String::from_utf8_lossy(reply.value).into_owned())
        }))
    })?;
    answer.map_err(|words| pipe.refused(what, &words))
}

/// The server's version.
pub(super) fn version(pipe: &mut Pipe<Memcached>) -> Result<String> {
    let request = |out: &mut Vec<u8>| Request::new(Command::Version, false).write(out);
    ask(pipe, "version", &[Status::OK], request, |reply| {
        String::from_utf8_lossy(reply.value).into_owned()
    })
}

/// One atomic step on one key.
pub(super) fn update(
    pipe: &mut Pipe<Memcached>,
    key: &[u8],
    decide: &mut Decide<'_>,
) -> Result<()> {
    let mut new = Vec::new();
    let found = [Status::OK, Status::KEY_NOT_FOUND];
    let others = [Status::OK, Status::KEY_EXISTS, Status::NOT_STORED, Status::KEY_NOT_FOUND];
    for _ in 0..RETRIES_MAX {
        let mut token = None;
        let decision = ask(
            pipe,
            "get",
            &found,
            |out| get(out, key),
            |reply| {
                new.clear();
                match reply.status {
                    Status::OK => {
                        token = Some(reply.cas);
                        decide(Some(reply.value), &mut new)
                    }
                    _ => decide(None, &mut new),
                }
            },
        )?;
        let write = |out: &mut Vec<u8>| match (decision, token) {
            (Update::Put, Some(cas)) => put(out, StoreMode::Set, key, &new, cas),
            (Update::Put, None) => put(out, StoreMode::Add, key, &new, 0),
            (Update::Keep | Update::Remove, _) => remove(out, key, token.unwrap_or_default()),
        };
        if decision == Update::Keep || (decision == Update::Remove && token.is_none()) {
            return Ok(());
        }
        if ask(pipe, "update", &others, write, |reply| reply.status == Status::OK)? {
            return Ok(());
        }
    }
    let words = format!("others wrote the key {RETRIES_MAX} times in a row");
    Err(Error::io("update", io::Error::other(words)))
}

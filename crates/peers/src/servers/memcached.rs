//! memcached, as a client speaks it: `get`, `set`, `delete` in text, or as meta commands with the
//! option `protocol=meta`; `protocol=binary` is in [`super::memcached_binary`].
//!
//! ```text
//!   update:  gets k   -> decide ->   cas k .. TOKEN | add k .. | md k CTOKEN
//!                                    EXISTS, NOT_STORED, NOT_FOUND: somebody else wrote; again
//! ```
//!
//! Keys have 1 to 250 bytes, none of them a blank or a control character; values stay below the
//! server's limit, 1 MiB where nobody says otherwise. The messages are in
//! [`keyrack_wire::memcached`].

use super::pipe::Pipe;
use super::protocol::{Answer, Protocol};
use super::target::Target;
use super::{DEPTH, TIMEOUT, URL, memcached_binary, open};
use crate::contract::{Decide, option};
use keyrack_store::{Engine, EngineOption, Error, OpenOptions, Result, Update};
use keyrack_wire::memcached::binary::StoreMode;
use keyrack_wire::memcached::meta::{self, Code};
use keyrack_wire::memcached::text::{Reply, parse_reply};
use keyrack_wire::memcached::{KEY_BYTES_MAX, Limits, Parsed};
use keyrack_wire::write_u64;
use std::io;

pub(crate) const SERVER: Engine = Engine {
    name: "memcached://",
    about: "a server that speaks memcached's protocols: memcached://HOST:PORT [port: 11211]",
    persistent: false,
    stores: true,
    options: &[URL, DEPTH, TIMEOUT, PROTOCOL],
    open: open::<Memcached>,
};

const PROTOCOL: EngineOption = option("protocol", "text", "text, meta or binary");

pub(super) const LIMITS: Limits = Limits { value_bytes_max: 128 << 20, ..Limits::DEFAULT };
/// How often an update begins again because somebody else was faster.
pub(super) const RETRIES_MAX: u32 = 100_000;

/// The end of a removal by a meta command: an opaque word, which comes back, so that its answer is
/// not taken for that of a put.
const REMOVAL: &[u8] = b" Or\r\n";

/// How lookups, puts and removals are said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Text,
    /// Lines too, so that the rest is said as text.
    Meta,
    Binary,
}

#[derive(Clone)]
pub(crate) struct Memcached {
    dialect: Dialect,
    /// Bytes with which there is more to say about the next answer.
    pub(super) wanted: usize,
}

impl Memcached {
    /// The reply `taken` bytes behind the front of `input`, and the bytes up to its end.
    #[inline]
    fn reply<'a>(
        &mut self,
        input: &'a [u8],
        taken: usize,
    ) -> std::result::Result<Option<(Reply<'a>, usize)>, String> {
        match parse_reply(&input[taken..], &LIMITS).map_err(|error| error.to_string())? {
            Parsed::Complete(reply, bytes) => Ok(Some((reply, taken + bytes))),
            Parsed::Incomplete(bytes) => {
                self.wanted = taken + bytes;
                Ok(None)
            }
        }
    }

    /// A lookup's answer or any other reply: a value with the `END` behind it counts as one.
    #[inline]
    fn message<'a>(
        &mut self,
        input: &mut &'a [u8],
    ) -> std::result::Result<Option<Reply<'a>>, String> {
        if input.len() < self.wanted {
            return Ok(None);
        }
        let Some((reply, mut bytes)) = self.reply(input, 0)? else { return Ok(None) };
        if let Reply::Value { .. } = reply {
            match self.reply(input, bytes)? {
                None => return Ok(None),
                Some((Reply::End, end)) => bytes = end,
                Some(_) => return Err("a value without its END".to_owned()),
            }
        }
        *input = &input[bytes..];
        self.wanted = 0;
        Ok(Some(reply))
    }
}

/// The words of a reply that says no.
fn no(reply: &Reply<'_>) -> Option<String> {
    match reply {
        Reply::Error => Some("ERROR".to_owned()),
        Reply::ClientError(words) | Reply::ServerError(words) => {
            Some(String::from_utf8_lossy(words).into_owned())
        }
        _ => None,
    }
}

/// Sends one request and reads its reply; an error in it is an error here.
fn ask<R>(
    pipe: &mut Pipe<Memcached>,
    what: &str,
    write: impl FnOnce(&mut Vec<u8>),
    mut take: impl FnMut(&Reply<'_>) -> R,
) -> Result<R> {
    pipe.write(|_, out| write(out));
    pipe.flush()?;
    let answer = pipe.read(|this, input| {
        let Some(reply) = this.message(input)? else { return Ok(None) };
        Ok(Some(match no(&reply) {
            Some(words) => Err(words),
            None => Ok(take(&reply)),
        }))
    })?;
    answer.map_err(|words| pipe.refused(what, &words))
}

/// `VERB KEY 0 0 BYTES[ CAS]`, and the value.
fn store(out: &mut Vec<u8>, verb: &[u8], key: &[u8], value: &[u8], cas: Option<u64>) {
    out.reserve(64 + key.len() + value.len());
    out.extend_from_slice(verb);
    out.push(b' ');
    out.extend_from_slice(key);
    out.extend_from_slice(b" 0 0 ");
    write_u64(out, value.len() as u64);
    if let Some(cas) = cas {
        out.push(b' ');
        write_u64(out, cas);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn line(out: &mut Vec<u8>, verb: &[u8], key: &[u8]) {
    out.extend_from_slice(verb);
    out.extend_from_slice(key);
    out.extend_from_slice(b"\r\n");
}

impl Protocol for Memcached {
    const PORT: u16 = 11211;

    fn new(target: &Target, options: &OpenOptions) -> Result<Self> {
        if target.password.is_some() {
            return Err(Error::usage("memcached's protocols are spoken without passwords"));
        }
        let dialect = match options.text(PROTOCOL.key) {
            None | Some("text") => Dialect::Text,
            Some("meta") => Dialect::Meta,
            Some("binary") => Dialect::Binary,
            Some(other) => {
                return Err(Error::usage(format!(
                    "protocol: '{other}' is not one of text, meta, binary"
                )));
            }
        };
        Ok(Memcached { dialect, wanted: 0 })
    }

    fn greet(pipe: &mut Pipe<Self>) -> Result<String> {
        if pipe.protocol.dialect == Dialect::Binary {
            return Ok(format!("memcached server {}", memcached_binary::version(pipe)?));
        }
        let version = ask(
            pipe,
            "version",
            |out| out.extend_from_slice(b"version\r\n"),
            |reply| match reply {
                Reply::Version(words) => Some(String::from_utf8_lossy(words).into_owned()),
                _ => None,
            },
        )?;
        let version = version.ok_or_else(|| pipe.cannot("no memcached: it has no version"))?;
        Ok(format!("memcached server {version}"))
    }

    fn check(&self, key: &[u8]) -> Result<()> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(Error::usage(format!(
                "a key of {} bytes: memcached takes 1 to {KEY_BYTES_MAX}",
                key.len()
            )));
        }
        if key.iter().any(|&byte| byte <= b' ' || byte == 0x7f) {
            return Err(Error::usage(
                "a key with a blank or a control character, which memcached does not take",
            ));
        }
        Ok(())
    }

    #[inline]
    fn get(&self, out: &mut Vec<u8>, key: &[u8]) {
        match self.dialect {
            Dialect::Text => line(out, b"get ", key),
            Dialect::Meta => {
                out.extend_from_slice(b"mg ");
                out.extend_from_slice(key);
                out.extend_from_slice(b" v\r\n");
            }
            Dialect::Binary => memcached_binary::get(out, key),
        }
    }

    #[inline]
    fn put(&self, out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
        match self.dialect {
            Dialect::Text => store(out, b"set", key, value, None),
            Dialect::Meta => {
                out.reserve(32 + key.len() + value.len());
                out.extend_from_slice(b"ms ");
                out.extend_from_slice(key);
                out.push(b' ');
                write_u64(out, value.len() as u64);
                out.extend_from_slice(b"\r\n");
                out.extend_from_slice(value);
                out.extend_from_slice(b"\r\n");
            }
            Dialect::Binary => memcached_binary::put(out, StoreMode::Set, key, value, 0),
        }
    }

    fn remove(&self, out: &mut Vec<u8>, key: &[u8]) {
        match self.dialect {
            Dialect::Text => line(out, b"delete ", key),
            Dialect::Meta => {
                out.extend_from_slice(b"md ");
                out.extend_from_slice(key);
                out.extend_from_slice(REMOVAL);
            }
            Dialect::Binary => memcached_binary::remove(out, key, 0),
        }
    }

    #[inline]
    fn answer<'a>(
        &mut self,
        input: &mut &'a [u8],
    ) -> std::result::Result<Option<Answer<'a>>, String> {
        if self.dialect == Dialect::Binary {
            return memcached_binary::answer(&mut self.wanted, input);
        }
        Ok(self.message(input)?.map(|reply| match reply {
            Reply::Meta(meta::Reply::Value { value, .. }) => Answer::Found(value),
            Reply::Meta(meta::Reply::Head { code, mut flags }) => match (code, flags.next()) {
                (Code::En, _) => Answer::Missing,
                (Code::Hd, None) => Answer::Stored,
                (Code::Hd, Some(_)) => Answer::Removed(true),
                (Code::Nf, Some(_)) => Answer::Removed(false),
                _ => Answer::Refused(b"an answer to no such request"),
            },
            Reply::Value { value, .. } => Answer::Found(value),
            Reply::End => Answer::Missing,
            Reply::Stored => Answer::Stored,
            Reply::Deleted => Answer::Removed(true),
            Reply::NotFound => Answer::Removed(false),
            Reply::ClientError(words) | Reply::ServerError(words) => Answer::Refused(words),
            _ => Answer::Refused(b"an answer to no such request"),
        }))
    }

    fn update(pipe: &mut Pipe<Self>, key: &[u8], decide: &mut Decide<'_>) -> Result<()> {
        if pipe.protocol.dialect == Dialect::Binary {
            return memcached_binary::update(pipe, key, decide);
        }
        let mut new = Vec::new();
        for _ in 0..RETRIES_MAX {
            let mut token = None;
            let decision = ask(
                pipe,
                "gets",
                |out| line(out, b"gets ", key),
                |reply| {
                    new.clear();
                    match reply {
                        Reply::Value { value, cas, .. } => {
                            token = Some(cas.unwrap_or_default());
                            decide(Some(value), &mut new)
                        }
                        _ => decide(None, &mut new),
                    }
                },
            )?;
            let write = |out: &mut Vec<u8>| match (decision, token) {
                (Update::Put, Some(_)) => store(out, b"cas", key, &new, token),
                (Update::Put, None) => store(out, b"add", key, &new, None),
                (Update::Keep | Update::Remove, _) => {
                    out.extend_from_slice(b"md ");
                    out.extend_from_slice(key);
                    out.extend_from_slice(b" C");
                    write_u64(out, token.unwrap_or_default());
                    out.extend_from_slice(b"\r\n");
                }
            };
            if decision == Update::Keep || (decision == Update::Remove && token.is_none()) {
                return Ok(());
            }
            let is_done = ask(pipe, "update", write, |reply| {
                let deleted = |reply: &meta::Reply<'_>| {
                    matches!(reply, meta::Reply::Head { code: Code::Hd, .. })
                };
                match reply {
                    Reply::Stored => true,
                    Reply::Meta(reply) => deleted(reply),
                    _ => false,
                }
            })?;
            if is_done {
                return Ok(());
            }
        }
        let words = format!("others wrote the key {RETRIES_MAX} times in a row");
        Err(Error::io("update", io::Error::other(words)))
    }
}

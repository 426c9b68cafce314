//! memcached's text protocol, as a client speaks it: `get`, `set`, `delete`.
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
use super::protocol::{Answer, Decide, Protocol};
use super::target::Target;
use super::{DEPTH, TIMEOUT, URL, open};
use keyrack_store::{Engine, Error, OpenOptions, Result, Update};
use keyrack_wire::memcached::meta::{self, Code};
use keyrack_wire::memcached::text::{Reply, parse_reply};
use keyrack_wire::memcached::{KEY_BYTES_MAX, Limits, Parsed};
use keyrack_wire::write_u64;
use std::io;

pub(crate) const SERVER: Engine = Engine {
    name: "memcached://",
    about: "a server that speaks memcached's text protocol: memcached://HOST:PORT [port: 11211]",
    persistent: false,
    stores: true,
    options: &[URL, DEPTH, TIMEOUT],
    open: open::<Memcached>,
};

const LIMITS: Limits = Limits { value_bytes_max: 128 << 20, ..Limits::DEFAULT };
/// How often an update begins again because somebody else was faster.
const RETRIES_MAX: u32 = 100_000;

#[derive(Clone)]
pub(crate) struct Memcached {
    /// Bytes with which there is more to say about the next answer.
    wanted: usize,
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

    fn new(target: &Target, _options: &OpenOptions) -> Result<Self> {
        if target.password.is_some() {
            return Err(Error::usage("memcached's text protocol is spoken without passwords"));
        }
        Ok(Memcached { wanted: 0 })
    }

    fn greet(pipe: &mut Pipe<Self>) -> Result<String> {
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
        line(out, b"get ", key);
    }

    #[inline]
    fn put(&self, out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
        store(out, b"set", key, value, None);
    }

    fn remove(&self, out: &mut Vec<u8>, key: &[u8]) {
        line(out, b"delete ", key);
    }

    #[inline]
    fn answer<'a>(
        &mut self,
        input: &mut &'a [u8],
    ) -> std::result::Result<Option<Answer<'a>>, String> {
        Ok(self.message(input)?.map(|reply| match reply {
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

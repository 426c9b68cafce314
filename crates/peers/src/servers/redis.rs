//! Redis' protocol, as a client speaks it: strings by `GET`, `SET`, `DEL`.
//!
//! ```text
//!   update:  WATCH k, GET k   -> decide ->   MULTI, SET k v | DEL k, EXEC
//!                                            EXEC answers null: somebody else wrote; again
//!   scan:    KR.RANGE low high LIMIT n [REV]: an extra of our own server
//! ```
//!
//! The messages are in [`keyrack_wire::resp`].

use super::pipe::Pipe;
use super::protocol::{Answer, Protocol, Range};
use super::target::Target;
use super::{DEPTH, TIMEOUT, URL, open};
use crate::contract::{Decide, RowVisitor, option};
use keyrack_store::{Engine, EngineOption, Error, OpenOptions, Result, Update};
use keyrack_wire::resp::{Limits, Reply, ReplyParser, Token, command};
use std::io;

const PROTOCOL: EngineOption = option("protocol", "2", "2 for RESP2, 3 for RESP3");

pub(crate) const SERVER: Engine = Engine {
    name: "redis://",
    about: "a server that speaks Redis' protocol: redis://[:PASSWORD@]HOST:PORT [port: 6379]",
    persistent: false,
    stores: true,
    options: &[URL, DEPTH, TIMEOUT, PROTOCOL],
    open: open::<Redis>,
};

/// Rows of the first part of a scan; each part asks for twice as many.
const ROWS: u64 = 32;
const ROWS_MAX: u64 = 1024;
/// How often an update begins again because somebody else was faster.
const RETRIES_MAX: u32 = 100_000;

#[derive(Clone)]
pub(crate) struct Redis {
    replies: ReplyParser,
    user: Option<String>,
    password: Option<String>,
    is_resp3: bool,
}

fn limits() -> Limits {
    Limits { message_bytes_max: super::ANSWER_BYTES_MAX as u64, ..Limits::default() }
}

/// The words of an error.
fn text(words: &[u8]) -> String {
    String::from_utf8_lossy(words).into_owned()
}

impl Redis {
    /// The first reply that answers a request.
    fn reply<'a>(
        &mut self,
        input: &mut &'a [u8],
    ) -> std::result::Result<Option<Reply<'a>>, String> {
        loop {
            match self.replies.next(input, &limits()).map_err(|error| error.to_string())? {
                Some(reply) if reply.is_push() => {}
                other => return Ok(other),
            }
        }
    }
}

/// Sends one command and reads its reply; an error in it is an error here.
fn ask<R>(
    pipe: &mut Pipe<Redis>,
    args: &[&[u8]],
    mut take: impl FnMut(&Reply<'_>) -> R,
) -> Result<R> {
    pipe.write(|_, out| command(out, args));
    pipe.flush()?;
    let answer = pipe.read(|this, input| {
        Ok(this.reply(input)?.map(|reply| match reply.head() {
            Token::Error(words) => Err(text(words)),
            _ => Ok(take(&reply)),
        }))
    })?;
    let name = args.first().map(|name| text(name)).unwrap_or_default();
    answer.map_err(|words| pipe.refused(&name, &words))
}

impl Protocol for Redis {
    const PORT: u16 = 6379;

    fn new(target: &Target, options: &OpenOptions) -> Result<Self> {
        let is_resp3 = match options.text(PROTOCOL.key).unwrap_or(PROTOCOL.default) {
            "2" => false,
            "3" => true,
            other => {
                return Err(Error::usage(format!("protocol: '{other}' is not one of 2, 3")));
            }
        };
        let (user, password) = (target.user.clone(), target.password.clone());
        Ok(Redis { replies: ReplyParser::new(), user, password, is_resp3 })
    }

    fn greet(pipe: &mut Pipe<Self>) -> Result<String> {
        let (user, password) = (pipe.protocol.user.clone(), pipe.protocol.password.clone());
        if let Some(password) = &password {
            let name = user.as_ref().map_or(&[][..], |user| std::slice::from_ref(user));
            let args = ["AUTH"].into_iter().chain(name.iter().map(String::as_str));
            let args: Vec<&[u8]> = args.chain([&**password]).map(str::as_bytes).collect();
            ask(pipe, &args, |_| ())?;
        }
        if pipe.protocol.is_resp3 {
            ask(pipe, &[b"HELLO", b"3"], |_| ())?;
        }
        let version = |reply: &Reply<'_>| {
            let info = match reply.head() {
                Token::Bulk(info) | Token::Verbatim { text: info, .. } => text(info),
                _ => String::new(),
            };
            let found = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
            format!("redis server {}", found.unwrap_or("of unknown version").trim())
        };
        ask(pipe, &[b"INFO", b"server"], version)
    }

    fn check(&self, key: &[u8]) -> Result<()> {
        let (bytes, max) = (key.len() as u64, Limits::default().bulk_bytes_max);
        if bytes > max {
            return Err(Error::usage(format!("a key of {bytes} bytes: Redis takes {max}")));
        }
        Ok(())
    }

    #[inline]
    fn get(&self, out: &mut Vec<u8>, key: &[u8]) {
        command(out, &[b"GET", key]);
    }

    #[inline]
    fn put(&self, out: &mut Vec<u8>, key: &[u8], value: &[u8]) {
        command(out, &[b"SET", key, value]);
    }

    fn remove(&self, out: &mut Vec<u8>, key: &[u8]) {
        command(out, &[b"DEL", key]);
    }

    #[inline]
    fn answer<'a>(
        &mut self,
        input: &mut &'a [u8],
    ) -> std::result::Result<Option<Answer<'a>>, String> {
        let Some(reply) = self.reply(input)? else { return Ok(None) };
        Ok(Some(match reply.head() {
            Token::Bulk(value) => Answer::Found(value),
            Token::Null => Answer::Missing,
            Token::Simple(_) => Answer::Stored,
            Token::Integer(count) => Answer::Removed(count > 0),
            Token::Error(words) => Answer::Refused(words),
            other => return Err(format!("a reply of no known shape: {other:?}")),
        }))
    }

    fn update(pipe: &mut Pipe<Self>, key: &[u8], decide: &mut Decide<'_>) -> Result<()> {
        let mut new = Vec::new();
        for _ in 0..RETRIES_MAX {
            ask(pipe, &[b"WATCH", key], |_| ())?;
            let decision = ask(pipe, &[b"GET", key], |reply| {
                new.clear();
                match reply.head() {
                    Token::Bulk(value) => decide(Some(value), &mut new),
                    _ => decide(None, &mut new),
                }
            });
            let decision = match decision {
                Ok(decision) => decision,
                Err(error) => {
                    ask(pipe, &[b"UNWATCH"], |_| ())?;
                    return Err(error);
                }
            };
            let write: &[&[u8]] = match decision {
                Update::Keep => return ask(pipe, &[b"UNWATCH"], |_| ()),
                Update::Put => &[b"SET", key, &new],
                Update::Remove => &[b"DEL", key],
            };
            ask(pipe, &[b"MULTI"], |_| ())?;
            if let Err(error) = ask(pipe, write, |_| ()) {
                ask(pipe, &[b"DISCARD"], |_| ())?;
                return Err(error);
            }
            // What it did is in an array; nothing when another write came between. An error may
            // stand within.
            let done = ask(pipe, &[b"EXEC"], |reply| match reply.head() {
                Token::Null => Ok(false),
                _ => match reply.tokens().find(|token| matches!(token, Token::Error(_))) {
                    Some(Token::Error(words)) => Err(text(words)),
                    _ => Ok(true),
                },
            })?;
            if done.map_err(|words| pipe.refused("update", &words))? {
                return Ok(());
            }
        }
        let words = format!("others wrote the key {RETRIES_MAX} times in a row");
        Err(Error::io("update", io::Error::other(words)))
    }

    /// In parts: each begins behind the last key of the one before.
    fn scan(pipe: &mut Pipe<Self>, range: Range<'_>, visit: &mut RowVisitor<'_>) -> Result<u64> {
        let (mut low, mut high) = (range.low.to_vec(), range.high.map(<[u8]>::to_vec));
        let (mut rows, mut visited) = (ROWS, 0);
        loop {
            let count = rows.to_string();
            let mut args: Vec<&[u8]> = vec![b"KR.RANGE", &low, high.as_deref().unwrap_or_default()];
            args.extend([b"LIMIT".as_slice(), count.as_bytes()]);
            if range.is_reverse {
                args.push(b"REV");
            }
            let part = ask(pipe, &args, |reply| take_rows(reply, visit)).map_err(|error| {
                match error.to_string() {
                    words if words.contains("unknown command") => {
                        pipe.cannot("this server has no KR.RANGE, so no scans")
                    }
                    _ => error,
                }
            })?;
            visited += part.visited;
            let Some(mut last) = part.last.filter(|_| !part.ended && part.rows >= rows) else {
                return Ok(visited);
            };
            rows = (rows * 2).min(ROWS_MAX);
            if range.is_reverse {
                // The upper end is not in the range; an empty one would be none.
                if last.is_empty() {
                    return Ok(visited);
                }
                high = Some(last);
            } else {
                last.push(0);
                low = last;
            }
        }
    }
}

/// What one part of a scan brought.
struct Part {
    rows: u64,
    visited: u64,
    last: Option<Vec<u8>>,
    ended: bool,
}

/// Keys and values in turn. A row that is a hash has no value of its own.
fn take_rows(reply: &Reply<'_>, visit: &mut RowVisitor<'_>) -> Part {
    let mut part = Part { rows: 0, visited: 0, last: None, ended: false };
    let mut tokens = reply.tokens();
    tokens.next();
    while let (Some(Token::Bulk(key)), Some(value)) = (tokens.next(), tokens.next()) {
        part.rows += 1;
        if part.ended {
            continue;
        }
        part.visited += 1;
        let value = if let Token::Bulk(value) = value { value } else { &[] };
        part.ended = visit(key, value).is_break();
        part.last = Some(key.to_vec());
    }
    part
}

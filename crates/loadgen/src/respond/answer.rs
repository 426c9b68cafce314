//! Requests out, replies in: all protocols, nothing stored.
//!
//! The reply to a read is built once per protocol; what stands before it is the key at most. A line
//! `get KEY` is found by its end and not looked at further.

use keyrack_wire::memcached::{Limits, Parsed, Sniffed, binary, meta, sniff, text};
use keyrack_wire::resp;
use keyrack_workload::Rng;
use memchr::memchr;

/// What a connection speaks, and how far it is in it.
#[derive(Debug, Default)]
pub(super) enum ConnectionProtocol {
    /// Nothing was said.
    #[default]
    Unknown,
    Text,
    Binary,
    Resp {
        parser: Box<resp::RequestParser>,
        protocol: resp::Protocol,
    },
    /// It said something that is no protocol.
    Lost,
}

/// What became of the bytes at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// One request, of so many bytes.
    Request(usize),
    /// Bytes that ask for nothing.
    Skip(usize),
    /// The request is not whole.
    Partial,
    /// The connection is to end; the reply, if any, says why.
    Close,
}

/// What replies are made of.
#[derive(Debug)]
pub(super) struct Answerer {
    value: Vec<u8>,
    /// ` 0 BYTES\r\nVALUE\r\nEND\r\n`
    text_tail: Vec<u8>,
    /// `$BYTES\r\nVALUE\r\n`
    bulk: Vec<u8>,
    miss_share: f64,
    rng: Rng,
    limits: Limits,
    resp_limits: resp::Limits,
}

impl Answerer {
    pub(super) fn new(value_bytes: usize, miss_share: f64, rng: Rng) -> Answerer {
        let value = vec![b'v'; value_bytes];
        let mut text_tail = format!(" 0 {value_bytes}\r\n").into_bytes();
        text_tail.extend_from_slice(&value);
        text_tail.extend_from_slice(b"\r\nEND\r\n");
        let mut bulk = format!("${value_bytes}\r\n").into_bytes();
        bulk.extend_from_slice(&value);
        bulk.extend_from_slice(b"\r\n");
        let (limits, resp_limits) = (Limits::DEFAULT, resp::Limits::default());
        Answerer { value, text_tail, bulk, miss_share, rng, limits, resp_limits }
    }

    /// Takes the request at the front of `input` and appends its reply to `out`. `skip` are bytes
    /// that still belong to a request that was refused; they go first.
    #[inline]
    pub(super) fn answer(
        &mut self,
        protocol: &mut ConnectionProtocol,
        skip: &mut u64,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Answered {
        if *skip > 0 {
            let bytes = usize::try_from(*skip).unwrap_or(usize::MAX).min(input.len());
            *skip -= bytes as u64;
            return if bytes == 0 { Answered::Partial } else { Answered::Skip(bytes) };
        }
        match protocol {
            ConnectionProtocol::Text => self.text(skip, input, out),
            ConnectionProtocol::Binary => self.binary(skip, input, out),
            ConnectionProtocol::Resp { parser, protocol } => {
                self.resp(parser, protocol, input, out)
            }
            ConnectionProtocol::Lost => Answered::Close,
            ConnectionProtocol::Unknown => {
                let Some(first) = input.first() else { return Answered::Partial };
                *protocol = match (first, sniff(input)) {
                    (b'*', _) => ConnectionProtocol::Resp {
                        parser: Box::default(),
                        protocol: resp::Protocol::Resp2,
                    },
                    (_, None) => return Answered::Partial,
                    (_, Some(Sniffed::Binary)) => ConnectionProtocol::Binary,
                    (_, Some(Sniffed::Http)) => ConnectionProtocol::Lost,
                    (_, Some(Sniffed::Text)) => ConnectionProtocol::Text,
                };
                self.answer(protocol, skip, input, out)
            }
        }
    }

    #[inline]
    fn is_hit(&mut self) -> bool {
        self.miss_share == 0.0 || !self.rng.chance(self.miss_share)
    }

    #[inline]
    fn text(&mut self, skip: &mut u64, input: &[u8], out: &mut Vec<u8>) -> Answered {
        if let Some(line) = input.strip_prefix(b"get ")
            && let Some(end) = memchr(b'\n', line)
            && let Some(key) = line[..end].strip_suffix(b"\r")
            && memchr(b' ', key).is_none()
            && !key.is_empty()
        {
            if self.is_hit() {
                out.extend_from_slice(b"VALUE ");
                out.extend_from_slice(key);
                out.extend_from_slice(&self.text_tail);
            } else {
                out.extend_from_slice(b"END\r\n");
            }
            return Answered::Request(4 + end + 1);
        }
        match text::parse(input, &self.limits) {
            Ok(Parsed::Complete(request, bytes)) => {
                if self.text_request(&request, out) {
                    Answered::Request(bytes)
                } else {
                    Answered::Close
                }
            }
            Ok(Parsed::Incomplete(_)) => Answered::Partial,
            Err(refusal) => {
                out.extend_from_slice(refusal.reply());
                if refusal.close {
                    return Answered::Close;
                }
                let here = usize::try_from(refusal.skip).unwrap_or(usize::MAX).min(input.len());
                *skip = refusal.skip - here as u64;
                Answered::Request(here)
            }
        }
    }

    /// Appends the reply; false when the client says goodbye.
    fn text_request(&mut self, request: &text::Request<'_>, out: &mut Vec<u8>) -> bool {
        let (reply, noreply) = match *request {
            text::Request::Get(get) => {
                for key in get.keys {
                    if self.is_hit() {
                        text::write_value(out, key, 0, &self.value, get.cas.then_some(1));
                    }
                }
                (text::Reply::End, false)
            }
            text::Request::Store(store) => (text::Reply::Stored, store.noreply),
            text::Request::Delete { noreply, .. } => (text::Reply::Deleted, noreply),
            text::Request::Arithmetic(arithmetic) => (text::Reply::Number(1), arithmetic.noreply),
            text::Request::Touch { noreply, .. } => (text::Reply::Touched, noreply),
            text::Request::Meta(request) => {
                self.meta(&request, out);
                return true;
            }
            text::Request::FlushAll { noreply, .. }
            | text::Request::Verbosity { noreply }
            | text::Request::CacheMemlimit { noreply, .. } => (text::Reply::Ok, noreply),
            text::Request::Stats(_) => (text::Reply::End, false),
            text::Request::Version => (text::Reply::Version(b"responder"), false),
            text::Request::Quit | text::Request::Shutdown => return false,
            _ => (text::Reply::Error, false),
        };
        if !noreply {
            reply.write(out);
        }
        true
    }

    fn meta(&mut self, request: &meta::Request<'_>, out: &mut Vec<u8>) {
        let (code, value) = match request.verb {
            meta::Verb::Noop => return meta::Reply::Noop.write(out),
            meta::Verb::Debug => {
                return meta::Reply::Debug { key: request.key.text(), facts: b"" }.write(out);
            }
            meta::Verb::Get if !self.is_hit() => (meta::Code::En, None),
            meta::Verb::Get if request.flags.value() => (meta::Code::Va, Some(&self.value[..])),
            meta::Verb::Arithmetic(_) if request.flags.value() => (meta::Code::Va, Some(&b"1"[..])),
            _ => (meta::Code::Hd, None),
        };
        meta::write_reply(out, request, code, None, value);
    }

    fn binary(&mut self, skip: &mut u64, input: &[u8], out: &mut Vec<u8>) -> Answered {
        match binary::parse(input, &self.limits) {
            Ok(Parsed::Complete(request, bytes)) => {
                if self.binary_request(&request, out) {
                    Answered::Request(bytes)
                } else {
                    Answered::Close
                }
            }
            Ok(Parsed::Incomplete(_)) => Answered::Partial,
            Err(refusal) => {
                refusal.write(out);
                if refusal.close {
                    return Answered::Close;
                }
                let here = usize::try_from(refusal.skip).unwrap_or(usize::MAX).min(input.len());
                *skip = refusal.skip - here as u64;
                Answered::Request(here)
            }
        }
    }

    fn binary_request(&mut self, request: &binary::Request<'_>, out: &mut Vec<u8>) -> bool {
        use binary::{Command, Status};
        let number = request.opcode.number();
        let reply = |status: Status, value: &[u8], out: &mut Vec<u8>| {
            if !request.silences(status) {
                let opaque = request.opaque;
                let words = if value.is_empty() { status.words() } else { value };
                let (extras, key) = (&b""[..], &b""[..]);
                binary::Reply { opcode: number, status, opaque, cas: 1, extras, key, value: words }
                    .write(out);
            }
        };
        match request.command {
            Command::Get { key, with_key, .. } => {
                if self.is_hit() {
                    let key = if with_key { key } else { b"" };
                    binary::write_value(out, (number, request.opaque), key, 0, 1, &self.value);
                } else {
                    reply(Status::KEY_NOT_FOUND, b"", out);
                }
            }
            Command::Arithmetic { .. } => reply(Status::OK, &1u64.to_be_bytes(), out),
            Command::Version => reply(Status::OK, b"responder", out),
            Command::SaslList => reply(Status::OK, b"PLAIN", out),
            Command::SaslAuth { .. } | Command::SaslStep { .. } => {
                reply(Status::OK, b"Authenticated", out);
            }
            Command::Quit => {
                reply(Status::OK, b"", out);
                return false;
            }
            _ => reply(Status::OK, b"", out),
        }
        true
    }

    fn resp(
        &mut self,
        parser: &mut resp::RequestParser,
        protocol: &mut resp::Protocol,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Answered {
        let mut rest = input;
        match parser.next(&mut rest, &self.resp_limits) {
            Ok(Some(request)) => {
                let bytes = input.len() - rest.len();
                let hit = self.miss_share == 0.0 || !self.rng.chance(self.miss_share);
                let replies = RespReplies { bulk: &self.bulk, hit };
                if replies.write(&request, protocol, out) {
                    Answered::Request(bytes)
                } else {
                    Answered::Close
                }
            }
            // Empty requests are passed over, and are gone.
            Ok(None) if rest.len() < input.len() => Answered::Skip(input.len() - rest.len()),
            Ok(None) => Answered::Partial,
            Err(error) => {
                resp::Writer::new(out, *protocol).protocol_error(&error);
                Answered::Close
            }
        }
    }
}

struct RespReplies<'a> {
    bulk: &'a [u8],
    hit: bool,
}

impl RespReplies<'_> {
    fn write(
        &self,
        request: &resp::Request<'_, '_>,
        protocol: &mut resp::Protocol,
        out: &mut Vec<u8>,
    ) -> bool {
        let mut name = [0u8; 16];
        let word = request.arg(0);
        let name = match name.get_mut(..word.len()) {
            Some(name) => {
                name.copy_from_slice(word);
                name.make_ascii_uppercase();
                &*name
            }
            None => b"",
        };
        let mut writer = resp::Writer::new(out, *protocol);
        match name {
            b"GET" | b"HGET" | b"GETEX" | b"GETSET" if self.hit => writer.append(self.bulk),
            b"GET" | b"HGET" | b"GETEX" | b"GETSET" => writer.null(),
            b"MGET" => {
                writer.array(request.len() - 1);
                for _ in 1..request.len() {
                    if self.hit { writer.append(self.bulk) } else { writer.null() }
                }
            }
            b"SET" | b"AUTH" | b"SELECT" | b"FLUSHALL" | b"FLUSHDB" | b"CLIENT" | b"READONLY"
            | b"ASKING" | b"MSET" | b"SETEX" | b"PSETEX" => writer.ok(),
            b"PING" => writer.simple("PONG"),
            b"ECHO" if request.len() == 2 => writer.bulk(request.arg(1)),
            b"HELLO" => {
                if request.get(1) == Some(b"3") {
                    *protocol = resp::Protocol::Resp3;
                    writer.set_protocol(*protocol);
                }
                writer.map(2);
                writer.bulk(b"server");
                writer.bulk(b"responder");
                writer.bulk(b"proto");
                writer.integer(if *protocol == resp::Protocol::Resp3 { 3 } else { 2 });
            }
            b"DEL" | b"UNLINK" | b"EXISTS" | b"TOUCH" => writer.integer(request.len() as i64 - 1),
            b"HSET" | b"INCR" | b"INCRBY" | b"DECR" | b"DECRBY" | b"EXPIRE" | b"PEXPIRE"
            | b"SETNX" | b"APPEND" | b"STRLEN" => writer.integer(1),
            b"CONFIG" | b"COMMAND" => writer.array(0),
            b"INFO" => writer.bulk(b"redis_version:7.0.0\r\n"),
            b"QUIT" => {
                writer.ok();
                return false;
            }
            _ => writer.error("ERR unknown command"),
        }
        true
    }
}

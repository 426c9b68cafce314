//! The three protocols, as far as the soak speaks them: get, set, remove, and Redis' groups.
//!
//! ```text
//!   hello    what a connection says first, and the reply
//!   request  the bytes of an op
//!   reply    the bytes that must come back
//!   refusal  whether what came instead is a refusal, and its length
//!   found    the value in the reply to a get, whatever it is
//! ```

use keyrack_wire::masstree::{Command, Limits, Reply, ReplyParser, ReplyWriter};
use keyrack_wire::msgpack::Int;
use keyrack_wire::resp::command;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Memcached,
    Redis,
    Masstree,
}

pub(super) const PROTOCOLS: [Protocol; 3] =
    [Protocol::Memcached, Protocol::Redis, Protocol::Masstree];

/// One request about one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Get,
    Set(Vec<u8>),
    Remove,
}

/// What the server is to say of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said<'a> {
    Value(&'a [u8]),
    Miss,
    /// A set; whether the key was there.
    Stored(bool),
    /// A removal; whether the key was there.
    Removed(bool),
}

/// What a get found, and the bytes of the reply.
pub(super) type Found = (Option<Vec<u8>>, usize);

impl Protocol {
    pub(super) fn scheme(self) -> &'static str {
        match self {
            Protocol::Memcached => "memcached",
            Protocol::Redis => "resp",
            Protocol::Masstree => "masstree",
        }
    }

    /// What a connection says first.
    pub(super) fn hello(self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self == Protocol::Masstree {
            let hello = Command::Handshake { core: None, max_key_bytes: 255 };
            hello.write(&mut bytes, Int::from(0_u64));
        }
        bytes
    }

    /// The length of the reply to [`Protocol::hello`]; `None` while it is not whole.
    pub(super) fn welcome(self, bytes: &[u8]) -> Result<Option<usize>, String> {
        if self != Protocol::Masstree {
            return Ok(Some(0));
        }
        match masstree(bytes)? {
            Some((Reply::Handshake { .. }, length)) => Ok(Some(length)),
            Some((other, _)) => Err(format!("the handshake was answered {other:?}")),
            None => Ok(None),
        }
    }

    pub(super) fn request(self, key: &str, op: &Op, out: &mut Vec<u8>) {
        match (self, op) {
            (Protocol::Memcached, Op::Get) => out.extend(format!("get {key}\r\n").into_bytes()),
            (Protocol::Memcached, Op::Remove) => {
                out.extend(format!("delete {key}\r\n").into_bytes());
            }
            (Protocol::Memcached, Op::Set(value)) => {
                out.extend(format!("set {key} 0 0 {}\r\n", value.len()).into_bytes());
                out.extend_from_slice(value);
                out.extend_from_slice(b"\r\n");
            }
            (Protocol::Redis, Op::Get) => command(out, &[b"GET", key.as_bytes()]),
            (Protocol::Redis, Op::Remove) => command(out, &[b"DEL", key.as_bytes()]),
            (Protocol::Redis, Op::Set(value)) => command(out, &[b"SET", key.as_bytes(), value]),
            (Protocol::Masstree, op) => {
                let key = key.as_bytes();
                let request = match op {
                    Op::Get => Command::Get { key, columns: &[] },
                    Op::Remove => Command::Remove { key },
                    Op::Set(value) => Command::Replace { key, value },
                };
                request.write(out, SEQ.into());
            }
        }
    }

    /// Appends the reply that must come.
    pub(super) fn reply(self, key: &str, said: Said<'_>, out: &mut Vec<u8>) {
        let number = |yes: bool| if yes { b":1\r\n" } else { b":0\r\n" };
        match self {
            Protocol::Memcached => match said {
                Said::Value(value) => {
                    out.extend(format!("VALUE {key} 0 {}\r\n", value.len()).into_bytes());
                    out.extend_from_slice(value);
                    out.extend_from_slice(b"\r\nEND\r\n");
                }
                Said::Miss => out.extend_from_slice(b"END\r\n"),
                Said::Stored(_) => out.extend_from_slice(b"STORED\r\n"),
                Said::Removed(true) => out.extend_from_slice(b"DELETED\r\n"),
                Said::Removed(false) => out.extend_from_slice(b"NOT_FOUND\r\n"),
            },
            Protocol::Redis => match said {
                Said::Value(value) => {
                    out.extend(format!("${}\r\n", value.len()).into_bytes());
                    out.extend_from_slice(value);
                    out.extend_from_slice(b"\r\n");
                }
                Said::Miss => out.extend_from_slice(b"$-1\r\n"),
                Said::Stored(_) => out.extend_from_slice(b"+OK\r\n"),
                Said::Removed(was_there) => out.extend_from_slice(number(was_there)),
            },
            Protocol::Masstree => {
                let mut writer = ReplyWriter::new(out);
                let seq = SEQ.into();
                match said {
                    Said::Value(value) => {
                        writer.row(seq, 1);
                        writer.value(Some(value));
                    }
                    Said::Miss => writer.miss(seq),
                    Said::Stored(was_there) => writer.replace(seq, !was_there),
                    Said::Removed(was_there) => writer.remove(seq, was_there),
                }
            }
        }
    }

    /// The length of the refusal that `bytes` begin with; `None` when they begin with something
    /// else, or not enough has come to know.
    pub(super) fn refusal(self, bytes: &[u8]) -> Option<usize> {
        let start: &[u8] = match self {
            Protocol::Memcached => b"SERVER_ERROR ",
            Protocol::Redis => b"-",
            Protocol::Masstree => {
                let mut refusal = Vec::new();
                ReplyWriter::new(&mut refusal).unknown(SEQ.into());
                return bytes.starts_with(&refusal).then_some(refusal.len());
            }
        };
        let line = bytes.starts_with(start).then(|| bytes.iter().position(|byte| *byte == b'\n'));
        line.flatten().map(|end| end + 1)
    }

    /// What the reply to a get says; `None` while it is not whole.
    ///
    /// # Errors
    ///
    /// What came instead.
    pub(super) fn found(self, key: &str, bytes: &[u8]) -> Result<Option<Found>, String> {
        let wrong = || {
            let head = &bytes[..bytes.len().min(100)];
            Err(format!("get {key} was answered \"{}\"", head.escape_ascii()))
        };
        if self == Protocol::Masstree {
            return match masstree(bytes)? {
                Some((Reply::Row { mut values, .. }, length)) => match values.next() {
                    None => Ok(Some((None, length))),
                    Some(Some(value)) if values.next().is_none() => {
                        Ok(Some((Some(value.to_vec()), length)))
                    }
                    _ => wrong(),
                },
                Some(_) => wrong(),
                None => Ok(None),
            };
        }
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let line = String::from_utf8_lossy(&bytes[..end]).trim_end().to_owned();
        let (length, tail) = match self {
            Protocol::Memcached if line == "END" => return Ok(Some((None, end + 1))),
            Protocol::Redis if line == "$-1" => return Ok(Some((None, end + 1))),
            Protocol::Memcached => {
                (line.strip_prefix(&format!("VALUE {key} 0 ")).map(str::to_owned), "\r\nEND\r\n")
            }
            _ => (line.strip_prefix('$').map(str::to_owned), "\r\n"),
        };
        let Some(length) = length.and_then(|text| text.parse::<usize>().ok()) else {
            return wrong();
        };
        let whole = end + 1 + length + tail.len();
        if bytes.len() < whole {
            return Ok(None);
        }
        if &bytes[whole - tail.len()..whole] != tail.as_bytes() {
            return wrong();
        }
        Ok(Some((Some(bytes[end + 1..end + 1 + length].to_vec()), whole)))
    }
}

/// Every request has the same number: replies come in order.
const SEQ: u64 = 5;

fn masstree(bytes: &[u8]) -> Result<Option<(Reply<'_>, usize)>, String> {
    let mut rest = bytes;
    let reply = ReplyParser::new().next(&mut rest, &Limits::replies());
    let reply = reply.map_err(|error| format!("no answer of Masstree's: {error}"))?;
    Ok(reply.map(|reply| (reply, bytes.len() - rest.len())))
}

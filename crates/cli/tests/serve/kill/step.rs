//! What a client does, and what its keys hold then.
//!
//! ```text
//!   Step = one op, or a group of ops (MULTI ... EXEC)
//!   step.request(protocol)            the bytes to send
//!   step.apply(state, protocol)       the state behind it, and the bytes that must come back
//! ```
//!
//! Nobody else writes the keys of a client, so each reply is known to the byte. A key's first
//! letter says what it may hold, so no step fails: `v` values, `n` counters, `h` hashes, `b` values
//! of which some have expired before anybody can look.

use keyrack_testkit::random::Draw;
use std::collections::BTreeMap;

/// A time that is not reached, in milliseconds since 1970: the year 2100.
const FAR_MS: u64 = 4_102_444_800_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Memcached,
    Redis,
}

/// What a key holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// A value, and when it expires; 0 for never.
    Value(Vec<u8>, u64),
    Hash(BTreeMap<String, String>),
}

/// What the keys of a client hold. Expired ones are not there.
pub(super) type State = BTreeMap<String, Held>;

#[derive(Clone, Debug)]
enum Op {
    Set(String, Vec<u8>),
    SetUntil(String, Vec<u8>, u64),
    SetBrief(String, Vec<u8>),
    SetMany(Vec<(String, Vec<u8>)>),
    Delete(String),
    Add(String, u64),
    Append(String, Vec<u8>),
    HashSet(String, String, String),
    HashDelete(String, String),
}

/// What is there whole or not at all.
#[derive(Clone, Debug)]
pub(super) struct Step {
    ops: Vec<Op>,
    is_group: bool,
}

impl Step {
    pub(super) fn draw(draw: &mut Draw, client: usize, protocol: Protocol) -> Step {
        let is_group = protocol == Protocol::Redis && draw.one_in(4);
        let count = if is_group { 2 + draw.below(4) } else { 1 };
        Step { ops: (0..count).map(|_| Op::draw(draw, client, protocol)).collect(), is_group }
    }

    pub(super) fn request(&self, protocol: Protocol) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut add = |op: &Op| match protocol {
            Protocol::Memcached => op.memcached(&mut bytes),
            Protocol::Redis => op.redis(&mut bytes),
        };
        if !self.is_group {
            self.ops.iter().for_each(add);
            return bytes;
        }
        let mut group = command(&[b"MULTI"]);
        self.ops.iter().for_each(&mut add);
        group.append(&mut bytes);
        group.append(&mut command(&[b"EXEC"]));
        group
    }

    /// Changes the state, and says what the client gets to read.
    pub(super) fn apply(&self, state: &mut State, protocol: Protocol) -> Vec<u8> {
        let replies: String = self.ops.iter().map(|op| op.apply(state, protocol)).collect();
        if !self.is_group {
            return replies.into_bytes();
        }
        let count = self.ops.len();
        format!("+OK\r\n{}*{count}\r\n{replies}", "+QUEUED\r\n".repeat(count)).into_bytes()
    }
}

impl Op {
    fn draw(draw: &mut Draw, client: usize, protocol: Protocol) -> Op {
        let is_redis = protocol == Protocol::Redis;
        let kinds = if is_redis { 13 } else { 9 };
        let kind = draw.below(kinds);
        let letter = match kind {
            0..=3 | 5 => 'v',
            4 => 'n',
            6 | 7 => 'b',
            8 => ['v', 'n', 'h'][draw.below(if is_redis { 3 } else { 2 }) as usize],
            _ => 'h',
        };
        let key = key(draw, client, letter);
        match kind {
            0..=2 => Op::Set(key, value(draw)),
            3 => Op::Append(key, value(draw)),
            // memcached adds to what is there alone.
            4 if !is_redis && draw.one_in(3) => Op::Set(key, b"1000".to_vec()),
            4 => Op::Add(key, 1 + draw.below(1000)),
            5 => Op::SetUntil(key, value(draw), FAR_MS + 1000 * draw.below(1 << 20)),
            6 => Op::SetBrief(key, value(draw)),
            7 => Op::Set(key, value(draw)),
            8 => Op::Delete(key),
            9 => Op::SetMany((0..3).map(|at| (format!("{client}/v{at}"), value(draw))).collect()),
            10 => Op::HashDelete(key, format!("f{}", draw.below(6))),
            _ => {
                let field = format!("f{}", draw.below(6));
                Op::HashSet(key, field, draw.below(1_u64 << 40).to_string())
            }
        }
    }

    fn redis(&self, out: &mut Vec<u8>) {
        let words: Vec<Vec<u8>> = match self {
            Op::Set(key, value) => vec!["SET".into(), key.as_str().into(), value.clone()],
            Op::SetUntil(key, value, at) => {
                let at = at.to_string().into_bytes();
                vec!["SET".into(), key.as_str().into(), value.clone(), "PXAT".into(), at]
            }
            Op::SetBrief(key, value) => {
                vec!["SET".into(), key.as_str().into(), value.clone(), "PX".into(), "1".into()]
            }
            Op::SetMany(pairs) => {
                let pairs =
                    pairs.iter().flat_map(|(key, value)| [key.clone().into(), value.clone()]);
                std::iter::once("MSET".into()).chain(pairs).collect()
            }
            Op::Delete(key) => vec!["DEL".into(), key.as_str().into()],
            Op::Add(key, by) => vec!["INCRBY".into(), key.as_str().into(), by.to_string().into()],
            Op::Append(key, value) => vec!["APPEND".into(), key.as_str().into(), value.clone()],
            Op::HashSet(key, field, value) => {
                let words = ["HSET", key.as_str(), field.as_str(), value.as_str()];
                words.map(Vec::from).into()
            }
            Op::HashDelete(key, field) => {
                ["HDEL", key.as_str(), field.as_str()].map(Vec::from).into()
            }
        };
        out.extend(command(&words.iter().map(Vec::as_slice).collect::<Vec<_>>()));
    }

    fn memcached(&self, out: &mut Vec<u8>) {
        let mut store = |verb: &str, key: &str, expires: i64, value: &[u8]| {
            let length = value.len();
            out.extend(format!("{verb} {key} 0 {expires} {length}\r\n").into_bytes());
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        };
        match self {
            Op::Set(key, value) => store("set", key, 0, value),
            Op::SetUntil(key, value, at) => store("set", key, (at / 1000).cast_signed(), value),
            Op::SetBrief(key, value) => store("set", key, -1, value),
            Op::Append(key, value) => store("append", key, 0, value),
            Op::Delete(key) => out.extend(format!("delete {key}\r\n").into_bytes()),
            Op::Add(key, by) => out.extend(format!("incr {key} {by}\r\n").into_bytes()),
            other => panic!("not of memcached: {other:?}"),
        }
    }

    fn apply(&self, state: &mut State, protocol: Protocol) -> String {
        let is_redis = protocol == Protocol::Redis;
        let done = || if is_redis { "+OK\r\n" } else { "STORED\r\n" }.to_owned();
        match self {
            Op::Set(key, value) => {
                state.insert(key.clone(), Held::Value(value.clone(), 0));
                done()
            }
            Op::SetUntil(key, value, at) => {
                state.insert(key.clone(), Held::Value(value.clone(), *at));
                done()
            }
            Op::SetBrief(key, _) => {
                state.remove(key);
                done()
            }
            Op::SetMany(pairs) => {
                for (key, value) in pairs {
                    state.insert(key.clone(), Held::Value(value.clone(), 0));
                }
                done()
            }
            Op::Delete(key) => match (state.remove(key).is_some(), is_redis) {
                (was_there, true) => format!(":{}\r\n", u8::from(was_there)),
                (true, false) => "DELETED\r\n".to_owned(),
                (false, false) => "NOT_FOUND\r\n".to_owned(),
            },
            Op::Add(key, by) => add(state, key, *by, is_redis),
            Op::Append(key, value) => append(state, key, value, is_redis),
            Op::HashSet(key, field, value) => {
                let held = state.entry(key.clone()).or_insert(Held::Hash(BTreeMap::new()));
                let Held::Hash(fields) = held else { panic!("{key} is a value") };
                let is_new = fields.insert(field.clone(), value.clone()).is_none();
                format!(":{}\r\n", u8::from(is_new))
            }
            Op::HashDelete(key, field) => {
                let Some(Held::Hash(fields)) = state.get_mut(key) else {
                    return ":0\r\n".to_owned();
                };
                let was_there = fields.remove(field).is_some();
                if fields.is_empty() {
                    state.remove(key);
                }
                format!(":{}\r\n", u8::from(was_there))
            }
        }
    }
}

fn add(state: &mut State, key: &str, by: u64, is_redis: bool) -> String {
    if !is_redis && !state.contains_key(key) {
        // memcached adds to what is there alone.
        return "NOT_FOUND\r\n".to_owned();
    }
    let held = state.entry(key.to_owned()).or_insert(Held::Value(b"0".to_vec(), 0));
    let Held::Value(value, _) = held else { panic!("{key} is a hash") };
    let sum: u64 = std::str::from_utf8(value).unwrap().parse::<u64>().unwrap() + by;
    *value = sum.to_string().into_bytes();
    if is_redis { format!(":{sum}\r\n") } else { format!("{sum}\r\n") }
}

fn append(state: &mut State, key: &str, more: &[u8], is_redis: bool) -> String {
    if !is_redis && !state.contains_key(key) {
        return "NOT_STORED\r\n".to_owned();
    }
    let held = state.entry(key.to_owned()).or_insert(Held::Value(Vec::new(), 0));
    let Held::Value(value, _) = held else { panic!("{key} is a hash") };
    value.extend_from_slice(more);
    if is_redis { format!(":{}\r\n", value.len()) } else { "STORED\r\n".to_owned() }
}

/// One of the keys of a client: few, so that they are written again and again.
fn key(draw: &mut Draw, client: usize, letter: char) -> String {
    let count = if letter == 'v' { 16 } else { 4 };
    format!("{client}/{letter}{}", draw.below(count))
}

/// Mostly short; one in 32 has some KiB.
fn value(draw: &mut Draw) -> Vec<u8> {
    let most = if draw.one_in(32) { 6000 } else { 60 };
    let length = draw.below(most) as usize;
    let word = format!("{:x}.", draw.below(1_u64 << 60));
    word.bytes().cycle().take(length).collect()
}

/// A request of Redis.
pub(super) fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    keyrack_wire::resp::command(&mut bytes, words);
    bytes
}

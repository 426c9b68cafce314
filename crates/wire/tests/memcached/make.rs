//! Random messages that are whole and well.

use crate::dice::Dice;
use keyrack_wire::memcached::binary::{self, Command, StoreMode as BinaryMode};
use keyrack_wire::memcached::meta::{self, Code, FlagWords};
use keyrack_wire::memcached::text::{
    Arithmetic, Direction, Get, Keys, Reply, Request, Store, StoreMode,
};

/// Keys of all lengths, mostly short.
fn key(dice: &mut Dice) -> Vec<u8> {
    let length = if dice.once_in(20) { 1 + dice.below(250) } else { 1 + dice.below(12) };
    let letter = |dice: &mut Dice| match dice.byte() {
        byte if byte > b' ' && byte != 0x7F => byte,
        byte => b'a' + byte % 26,
    };
    (0..length).map(|_| letter(dice)).collect()
}

/// Values, of bytes that are of use to a protocol as well.
fn value(dice: &mut Dice) -> Vec<u8> {
    let length = if dice.once_in(10) { dice.below(301) } else { dice.below(20) };
    if dice.once_in(3) {
        return b"\r\nget a\r\nset b 0 0 1\r\n".iter().copied().cycle().take(length).collect();
    }
    dice.some_bytes(length)
}

fn direction(dice: &mut Dice) -> Direction {
    dice.pick(&[Direction::Up, Direction::Down])
}

pub(super) fn text_request(dice: &mut Dice, out: &mut Vec<u8>) {
    let (key, value) = (key(dice), value(dice));
    let noreply = dice.once_in(3);
    let exptime = dice.signed();
    let key = &key[..];
    let request = match dice.below(14) {
        0..3 => {
            let mut keys = key.to_vec();
            for _ in 0..dice.below(4) {
                keys.push(b' ');
                keys.extend(self::key(dice));
            }
            let mut line = Vec::new();
            let exptime = dice.once_in(2).then_some(exptime);
            let keys = keys.split(|byte| *byte == b' ');
            keyrack_wire::memcached::text::write_get(&mut line, dice.once_in(2), exptime, keys);
            out.extend(line);
            return;
        }
        3..6 => {
            let mode = match dice.below(6) {
                0 => StoreMode::Set,
                1 => StoreMode::Add,
                2 => StoreMode::Replace,
                3 => StoreMode::Append,
                4 => StoreMode::Prepend,
                _ => StoreMode::Cas(dice.number()),
            };
            let flags = u32::try_from(dice.number() >> 32).unwrap();
            Request::Store(Store { mode, key, flags, exptime, value: &value, noreply })
        }
        6 => Request::Delete { key, noreply },
        7 => {
            let (direction, delta) = (direction(dice), dice.number());
            Request::Arithmetic(Arithmetic { direction, key, delta, noreply })
        }
        8 => Request::Touch { key, exptime, noreply },
        9 => Request::FlushAll { delay: exptime, noreply },
        10 => Request::Stats(dice.pick(&[&b""[..], b"items", b"detail on"])),
        11 => {
            let megabytes = dice.number();
            dice.pick(&[
                Request::Version,
                Request::Quit,
                Request::Shutdown,
                Request::Verbosity { noreply },
                Request::CacheMemlimit { megabytes, noreply },
            ])
        }
        12 => Request::Get(Get { keys: Keys::one(key), cas: noreply, exptime: None }),
        _ => return meta_request(dice, out),
    };
    request.write(out);
}

pub(super) fn meta_request(dice: &mut Dice, out: &mut Vec<u8>) {
    let mut key = key(dice);
    let value = value(dice);
    let verb = dice.pick(b"gsdaen");
    if verb == b'n' {
        return meta::Request::NOOP.write(out);
    }
    let mut flags = Vec::new();
    for letter in *b"bcfhklqstuvxICDEFJLMNOPRT" {
        if !dice.once_in(4) {
            continue;
        }
        flags.extend([b' ', letter]);
        let token = match letter {
            b'C' | b'D' | b'E' | b'J' => dice.number().to_string(),
            b'F' => (dice.number() >> 32).to_string(),
            b'T' | b'N' | b'R' => dice.signed().to_string(),
            b'M' if verb == b's' => dice.pick(&["S", "E", "A", "P", "R"]).to_owned(),
            b'M' => dice.pick(&["I", "D", "+", "-"]).to_owned(),
            b'O' | b'P' | b'L' => "opaque/".repeat(dice.below(5)),
            _ => String::new(),
        };
        flags.extend(token.bytes());
        if letter == b'b' {
            key.truncate(180);
            let mut text = Vec::new();
            meta::Key::encode(&key, &mut text);
            key = text;
        }
    }
    let value = if verb == b's' { &value[..] } else { b"" };
    meta::Request::new(verb, &key, &flags, value).unwrap().write(out);
}

pub(super) fn binary_request(dice: &mut Dice, out: &mut Vec<u8>) {
    let (key, value) = (key(dice), value(dice));
    let (key, value) = (&key[..], &value[..]);
    let exptime = u32::try_from(dice.number() >> 32).unwrap();
    let flags = u32::try_from(dice.number() >> 32).unwrap();
    let command = match dice.below(14) {
        0 | 1 => {
            let exptime = dice.once_in(2).then_some(exptime);
            Command::Get { key, with_key: dice.once_in(2), exptime }
        }
        2 | 3 => {
            let mode = dice.pick(&[BinaryMode::Set, BinaryMode::Add, BinaryMode::Replace]);
            Command::Store { mode, key, flags, exptime, value }
        }
        4 => {
            let mode = dice.pick(&[BinaryMode::Append, BinaryMode::Prepend]);
            Command::Store { mode, key, flags: 0, exptime: 0, value }
        }
        5 => Command::Delete { key },
        6 => {
            let (delta, initial) = (dice.number(), dice.number());
            Command::Arithmetic { direction: direction(dice), key, delta, initial, exptime }
        }
        7 => Command::Touch { key, exptime },
        8 => Command::Flush { delay: if dice.once_in(2) { 0 } else { exptime } },
        9 => Command::Stat { key: if dice.once_in(2) { b"" } else { key } },
        10 => Command::Verbosity { level: exptime },
        11 => dice.pick(&[Command::Noop, Command::Version, Command::Quit, Command::SaslList]),
        12 => Command::SaslAuth { mechanism: key, data: value },
        _ => Command::SaslStep { mechanism: key, data: value },
    };
    let mut request = binary::Request::new(command, dice.once_in(2));
    request.opaque = flags;
    request.cas = dice.number();
    request.write(out);
}

pub(super) fn text_reply(dice: &mut Dice, out: &mut Vec<u8>) {
    let (key, value) = (key(dice), value(dice));
    let (key, value) = (&key[..], &value[..]);
    let flags = FlagWords::new(dice.pick(&[&b""[..], b"t-1 kabc", b"W O12 c77 b", b"s5"]));
    let words = dice.pick(&[&b""[..], b"one", b"several words, no more"]);
    let reply = match dice.below(12) {
        0..3 => {
            let cas = dice.once_in(2).then(|| dice.number());
            let flags = u32::try_from(dice.number() >> 32).unwrap();
            Reply::Value { key, flags, value, cas }
        }
        3 => Reply::Meta(meta::Reply::Value { flags, value }),
        4 => {
            let code = dice.pick(&[Code::Hd, Code::En, Code::Ns, Code::Ex, Code::Nf]);
            Reply::Meta(meta::Reply::Head { code, flags })
        }
        5 => Reply::Meta(meta::Reply::Debug { key, facts: b"exp=-1 la=2 cas=3" }),
        6 => Reply::Number(dice.number()),
        7 => Reply::Stat { name: key, value: words },
        8 => dice.pick(&[
            Reply::Version(words),
            Reply::ClientError(words),
            Reply::ServerError(words),
            Reply::Error,
            Reply::Meta(meta::Reply::Noop),
        ]),
        _ => dice.pick(&[
            Reply::End,
            Reply::Stored,
            Reply::NotStored,
            Reply::Exists,
            Reply::NotFound,
            Reply::Deleted,
            Reply::Touched,
            Reply::Ok,
            Reply::Reset,
        ]),
    };
    reply.write(out);
}

pub(super) fn binary_reply(dice: &mut Dice, out: &mut Vec<u8>) {
    let (key, value) = (key(dice), value(dice));
    let (opcode, opaque) = (dice.byte() % 0x25, u32::try_from(dice.number() >> 32).unwrap());
    match dice.below(3) {
        0 => {
            let status = dice.pick(&[
                binary::Status::OK,
                binary::Status::KEY_NOT_FOUND,
                binary::Status::KEY_EXISTS,
                binary::Status::TOO_LARGE,
                binary::Status::INVALID,
                binary::Status::NOT_STORED,
                binary::Status::NOT_A_NUMBER,
                binary::Status::AUTH_ERROR,
                binary::Status::AUTH_CONTINUE,
                binary::Status::UNKNOWN_COMMAND,
                binary::Status::OUT_OF_MEMORY,
            ]);
            binary::write_status(out, opcode, opaque, status);
        }
        1 => binary::write_value(out, (opcode, opaque), b"", opaque, dice.number(), &value),
        _ => {
            let (cas, status) = (dice.number(), binary::Status::OK);
            let number = dice.number().to_be_bytes();
            let value = if dice.once_in(2) { &number[..] } else { &value };
            let reply =
                binary::Reply { opcode, status, opaque, cas, extras: b"", key: &key, value };
            reply.write(out);
        }
    }
}

//! Replies to meta commands: written by a server flag by flag, read by a client.

use super::flags::{Flag, FlagWords};
use super::request::{Request, Verb};
use crate::number::{write_i64, write_u64};

/// How a reply begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Done.
    Hd,
    /// Done, and here is a value.
    Va,
    /// `mg` found nothing.
    En,
    /// Not stored, because of what there is.
    Ns,
    /// Another version is there than the one that was named.
    Ex,
    /// There is no such row.
    Nf,
}

impl Code {
    /// The two letters.
    #[must_use]
    pub const fn letters(self) -> &'static [u8; 2] {
        match self {
            Code::Hd => b"HD",
            Code::Va => b"VA",
            Code::En => b"EN",
            Code::Ns => b"NS",
            Code::Ex => b"EX",
            Code::Nf => b"NF",
        }
    }
}

/// A reply, as a client gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply<'a> {
    /// A code without a value; never [`Code::Va`].
    Head {
        /// What became of the command.
        code: Code,
        /// What it asked for.
        flags: FlagWords<'a>,
    },
    /// A value.
    Value {
        /// What the command asked for.
        flags: FlagWords<'a>,
        /// The value.
        value: &'a [u8],
    },
    /// To `me`.
    Debug {
        /// The key, as it stood in the command.
        key: &'a [u8],
        /// Names and values, `name=value` with blanks between.
        facts: &'a [u8],
    },
    /// To `mn`.
    Noop,
}

impl Reply<'_> {
    /// Appends the reply to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        match *self {
            Reply::Head { code, flags } => ReplyLine::begin(out, code).flags(flags).end(),
            Reply::Value { flags, value } => {
                ReplyLine::begin_value(out, value.len()).flags(flags).end_value(value);
            }
            Reply::Debug { key, facts } => {
                out.extend_from_slice(b"ME ");
                out.extend_from_slice(key);
                if !facts.is_empty() {
                    out.push(b' ');
                    out.extend_from_slice(facts);
                }
                out.extend_from_slice(b"\r\n");
            }
            Reply::Noop => out.extend_from_slice(b"MN\r\n"),
        }
    }
}

/// A reply being written. It is whole after [`ReplyLine::end`] or [`ReplyLine::end_value`].
#[derive(Debug)]
#[must_use = "a reply is whole after its end"]
pub struct ReplyLine<'o> {
    out: &'o mut Vec<u8>,
}

impl<'o> ReplyLine<'o> {
    /// Begins a reply without a value.
    pub fn begin(out: &'o mut Vec<u8>, code: Code) -> Self {
        out.extend_from_slice(code.letters());
        ReplyLine { out }
    }

    /// Begins a reply with a value of so many bytes, which [`ReplyLine::end_value`] gets.
    pub fn begin_value(out: &'o mut Vec<u8>, value_bytes: usize) -> Self {
        out.extend_from_slice(b"VA ");
        write_u64(out, value_bytes as u64);
        ReplyLine { out }
    }

    /// Adds a letter.
    pub fn flag(self, letter: u8) -> Self {
        self.out.extend_from_slice(&[b' ', letter]);
        self
    }

    /// Adds a letter with a word.
    pub fn token(self, letter: u8, token: &[u8]) -> Self {
        let line = self.flag(letter);
        line.out.extend_from_slice(token);
        line
    }

    /// Adds a letter with a number.
    pub fn number(self, letter: u8, number: u64) -> Self {
        let line = self.flag(letter);
        write_u64(line.out, number);
        line
    }

    /// Adds a letter with a number that may be below zero.
    pub fn signed(self, letter: u8, number: i64) -> Self {
        let line = self.flag(letter);
        write_i64(line.out, number);
        line
    }

    /// Adds flags as they are.
    pub fn flags(self, flags: FlagWords<'_>) -> Self {
        flags.fold(self, |line, flag| line.token(flag.letter, flag.token))
    }

    /// Adds what `request` asks for, in its order, and then the marks of the row. Without a row
    /// there is only what the request itself holds, its key and its opaque word, and to `ms` a
    /// version of 0.
    pub fn returned(self, request: &Request<'_>, facts: Option<&Facts>) -> Self {
        let line = request.flags.words().fold(self, |line, flag| line.asked(request, flag, facts));
        let Some(facts) = facts else { return line };
        // In memcached's order.
        let marks = [(facts.win_sent, b'Z'), (facts.stale, b'X'), (facts.won, b'W')];
        marks
            .into_iter()
            .filter(|(is_set, _)| *is_set)
            .fold(line, |line, (_, mark)| line.flag(mark))
    }

    fn asked(self, request: &Request<'_>, flag: Flag<'_>, facts: Option<&Facts>) -> Self {
        let known: &[u8] = match request.verb {
            Verb::Get => b"cfhlst",
            Verb::Set(_) => b"cs",
            Verb::Arithmetic(_) => b"ct",
            Verb::Delete | Verb::Debug | Verb::Noop => b"",
        };
        match (flag.letter, facts) {
            (b'O', _) => self.token(b'O', flag.token),
            // As memcached: the letter `b` stands behind the key that it is about.
            (b'k', _) => {
                let line = self.token(b'k', request.key.text());
                if request.flags.has(b'b') { line.flag(b'b') } else { line }
            }
            // As memcached: a version that was not given is 0.
            (b'c', None) if matches!(request.verb, Verb::Set(_)) => self.number(b'c', 0),
            (letter, Some(facts)) if known.contains(&letter) => match letter {
                b'c' => self.number(b'c', facts.cas),
                b'f' => self.number(b'f', u64::from(facts.client_flags)),
                b'h' => self.number(b'h', u64::from(facts.hit_before)),
                b'l' => self.number(b'l', facts.idle_s),
                b's' => self.number(b's', facts.value_bytes),
                _ => self.signed(b't', facts.ttl_s.map_or(-1, u64::cast_signed)),
            },
            _ => self,
        }
    }

    /// Ends a reply without a value.
    pub fn end(self) {
        self.out.extend_from_slice(b"\r\n");
    }

    /// Ends a reply with its value.
    pub fn end_value(self, value: &[u8]) {
        self.out.reserve(value.len() + 4);
        self.out.extend_from_slice(b"\r\n");
        self.out.extend_from_slice(value);
        self.out.extend_from_slice(b"\r\n");
    }
}

/// What flags can ask about a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// `c`: its version.
    pub cas: u64,
    /// `f`: what the client stored beside the value.
    pub client_flags: u32,
    /// `s`: bytes of the value.
    pub value_bytes: u64,
    /// `t`: seconds until it expires; nothing when it never does.
    pub ttl_s: Option<u64>,
    /// `h`: whether it had been read before.
    pub hit_before: bool,
    /// `l`: seconds since it was last read.
    pub idle_s: u64,
    /// `W`: this client is to renew it.
    pub won: bool,
    /// `X`: it has been made stale.
    pub stale: bool,
    /// `Z`: another client has been told to renew it.
    pub win_sent: bool,
}

/// Appends to `out` what `request` gets when it comes to `code`: with the value when there is one
/// (the code is [`Code::Va`] then, whatever was said), with the flags asked for in their order, and
/// nothing at all when the request is quiet about that code.
pub fn write_reply(
    out: &mut Vec<u8>,
    request: &Request<'_>,
    code: Code,
    facts: Option<&Facts>,
    value: Option<&[u8]>,
) {
    let code = match value {
        Some(_) => Code::Va,
        None if code == Code::Va => Code::Hd,
        None => code,
    };
    if request.silences(code) {
        return;
    }
    match value {
        Some(value) => {
            let line = ReplyLine::begin_value(out, value.len());
            line.returned(request, facts).end_value(value);
        }
        None => ReplyLine::begin(out, code).returned(request, facts).end(),
    }
}

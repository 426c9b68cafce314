//! A meta command.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::flags::Flags;
use super::reply::Code;
use crate::memcached::direction::Direction;
use crate::memcached::limits::KEY_BYTES_MAX;
use crate::memcached::text::line::is_key;
use crate::memcached::text::refusal::Fault;
use crate::number::write_u64;

/// What a meta command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `mg`: reads, touches.
    Get,
    /// `ms`: stores.
    Set(SetMode),
    /// `md`: removes, or makes stale.
    Delete,
    /// `ma`: counts.
    Arithmetic(Direction),
    /// `me`: tells what is known about the row.
    Debug,
    /// `mn`: nothing but the reply. Key and flags are empty.
    Noop,
}

/// When and how `ms` stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetMode {
    /// `S`: always.
    Set,
    /// `E`: when the key has no value.
    Add,
    /// `R`: when the key has one.
    Replace,
    /// `A`: behind the one that the key has.
    Append,
    /// `P`: in front of the one that the key has.
    Prepend,
}

/// A meta command with its key, its flags and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// What to do.
    pub verb: Verb,
    /// To which row.
    pub key: Key<'a>,
    /// How.
    pub flags: Flags<'a>,
    /// What to store, for [`Verb::Set`].
    pub value: &'a [u8],
}

/// A key as it stands in a command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key<'a> {
    text: &'a [u8],
    is_base64: bool,
}

impl<'a> Key<'a> {
    /// No key.
    pub const NONE: Key<'static> = Key { text: b"", is_base64: false };

    /// The key of this text, which is its base64 when there is a flag `b`.
    ///
    /// # Errors
    /// What a server replies when it gets such a key.
    pub fn new(text: &'a [u8], is_base64: bool) -> Result<Self, Fault> {
        if !is_key(text) {
            return Err(Fault::Format);
        }
        let key = Key { text, is_base64 };
        if is_base64
            && !matches!(BASE64_STANDARD.decode_slice(text, &mut [0; KEY_BYTES_MAX]), Ok(1..))
        {
            return Err(Fault::Base64);
        }
        Ok(key)
    }

    /// The key as it stands in the command.
    #[must_use]
    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    /// The key's bytes: those of the command, or those that they are the base64 of, in `room`.
    #[must_use]
    pub fn bytes<'b>(&self, room: &'b mut [u8; KEY_BYTES_MAX]) -> &'b [u8]
    where
        'a: 'b,
    {
        if !self.is_base64 {
            return self.text;
        }
        let count = BASE64_STANDARD.decode_slice(self.text, room).unwrap_or(0);
        &room[..count]
    }

    /// Appends the base64 of a key to `out`, for a request with the flag `b`.
    ///
    /// # Panics
    /// Never: the text fits exactly.
    pub fn encode(bytes: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + bytes.len().div_ceil(3) * 4, 0);
        BASE64_STANDARD.encode_slice(bytes, &mut out[start..]).expect("the text fits exactly");
    }
}

impl std::fmt::Debug for Key<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.is_base64 { "base64" } else { "text" };
        write!(f, "Key({kind} {})", self.text.escape_ascii())
    }
}

impl Verb {
    /// What `flags` make of a command's letter.
    pub(super) fn of(letter: u8, flags: &Flags<'_>) -> Result<Verb, Fault> {
        Ok(match (letter, flags.mode()) {
            (b'g', _) => Verb::Get,
            (b'd', _) => Verb::Delete,
            (b'e', _) => Verb::Debug,
            (b'n', _) => Verb::Noop,
            (b's', None | Some(b'S')) => Verb::Set(SetMode::Set),
            (b's', Some(b'E')) => Verb::Set(SetMode::Add),
            (b's', Some(b'R')) => Verb::Set(SetMode::Replace),
            (b's', Some(b'A')) => Verb::Set(SetMode::Append),
            (b's', Some(b'P')) => Verb::Set(SetMode::Prepend),
            (b'a', None | Some(b'I' | b'+')) => Verb::Arithmetic(Direction::Up),
            (b'a', Some(b'D' | b'-')) => Verb::Arithmetic(Direction::Down),
            (b's' | b'a', _) => return Err(Fault::Mode),
            _ => return Err(Fault::Unknown),
        })
    }

    fn letter(self) -> u8 {
        match self {
            Verb::Get => b'g',
            Verb::Set(_) => b's',
            Verb::Delete => b'd',
            Verb::Arithmetic(_) => b'a',
            Verb::Debug => b'e',
            Verb::Noop => b'n',
        }
    }
}

impl<'a> Request<'a> {
    /// `mn`.
    pub const NOOP: Request<'static> =
        Request { verb: Verb::Noop, key: Key::NONE, flags: Flags::NONE, value: b"" };

    /// The command of a letter, with the flags in `flags` and for `s` with a value.
    ///
    /// # Errors
    /// What a server replies when it gets such a command.
    pub fn new(letter: u8, key: &'a [u8], flags: &'a [u8], value: &'a [u8]) -> Result<Self, Fault> {
        let flags = Flags::parse(flags)?;
        let key = Key::new(key, flags.has(b'b'))?;
        Ok(Request { verb: Verb::of(letter, &flags)?, key, flags, value })
    }

    /// Whether the flag `q` leaves out a reply of this code: what a client takes for granted.
    #[must_use]
    pub fn silences(&self, code: Code) -> bool {
        let taken_for_granted = match self.verb {
            Verb::Get => code == Code::En,
            Verb::Set(_) | Verb::Delete => code == Code::Hd,
            Verb::Arithmetic(_) => matches!(code, Code::Hd | Code::Va),
            Verb::Debug | Verb::Noop => false,
        };
        taken_for_granted && self.flags.quiet()
    }

    /// Appends the command to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[b'm', self.verb.letter()]);
        if self.verb != Verb::Noop {
            out.push(b' ');
            out.extend_from_slice(self.key.text);
        }
        let stores = matches!(self.verb, Verb::Set(_));
        if stores {
            out.push(b' ');
            write_u64(out, self.value.len() as u64);
        }
        for flag in self.flags.words() {
            out.extend_from_slice(&[b' ', flag.letter]);
            out.extend_from_slice(flag.token);
        }
        out.extend_from_slice(b"\r\n");
        if stores {
            out.extend_from_slice(self.value);
            out.extend_from_slice(b"\r\n");
        }
    }
}

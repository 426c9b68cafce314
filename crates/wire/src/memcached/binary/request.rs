//! The requests of the binary protocol.

use super::header::{Header, REQUEST, write_message};
use super::{Opcode, Status};
use crate::memcached::direction::Direction;

/// The expiration time by which a count says that no row is to be made where there is none.
pub const NO_INITIAL: u32 = u32::MAX;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The operation, to be sent back.
    pub opcode: Opcode,
    /// To be sent back as well.
    pub opaque: u32,
    /// The version that the row must have for a write; 0 is any.
    pub cas: u64,
    /// What to do.
    pub command: Command<'a>,
}

/// What to do. Quiet operations are the same commands as the loud ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Command<'a> {
    /// Reads; with `exptime` sets a new expiration time too.
    Get {
        /// The key.
        key: &'a [u8],
        /// The key is to be in the reply.
        with_key: bool,
        /// As of the text protocol, never below 0.
        exptime: Option<u32>,
    },
    /// Stores.
    Store {
        /// When it stores.
        mode: StoreMode,
        /// The key.
        key: &'a [u8],
        /// What the client keeps beside the value; 0 when appending and prepending.
        flags: u32,
        /// As of the text protocol; 0 when appending and prepending.
        exptime: u32,
        /// The value.
        value: &'a [u8],
    },
    /// Removes.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// Counts.
    Arithmetic {
        /// Up or down.
        direction: Direction,
        /// The key.
        key: &'a [u8],
        /// By how much.
        delta: u64,
        /// The number that a new row has.
        initial: u64,
        /// When a new row expires; [`NO_INITIAL`] for not making any.
        exptime: u32,
    },
    /// Sets a new expiration time.
    Touch {
        /// The key.
        key: &'a [u8],
        /// As of the text protocol.
        exptime: u32,
    },
    /// Removes everything, now or later.
    Flush {
        /// As of the text protocol; 0 is now.
        delay: u32,
    },
    /// The server's numbers: one reply each, and one without key and value.
    Stat {
        /// Which of them; empty for the usual ones.
        key: &'a [u8],
    },
    /// Changes nothing here.
    Verbosity {
        /// The level.
        level: u32,
    },
    /// Nothing but the reply.
    Noop,
    /// The server's version.
    Version,
    /// To be closed, after the reply.
    Quit,
    /// Which ways there are to say who one is.
    SaslList,
    /// Says who the client is.
    SaslAuth {
        /// The way.
        mechanism: &'a [u8],
        /// What the way has to be said.
        data: &'a [u8],
    },
    /// Goes on saying so.
    SaslStep {
        /// The way.
        mechanism: &'a [u8],
        /// What the way has to be said.
        data: &'a [u8],
    },
}

/// When and how a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMode {
    /// Always.
    Set,
    /// When the key has none.
    Add,
    /// When the key has one.
    Replace,
    /// Behind the one that the key has.
    Append,
    /// In front of the one that the key has.
    Prepend,
}

impl<'a> Request<'a> {
    /// The request of a command.
    #[must_use]
    pub fn new(command: Command<'a>, quiet: bool) -> Self {
        Request { opcode: command.opcode(quiet), opaque: 0, cas: 0, command }
    }

    /// Whether the operation is a quiet one.
    #[must_use]
    pub fn quiet(&self) -> bool {
        self.opcode != self.command.opcode(false)
    }

    /// Whether a quiet operation leaves out the reply of this status: of reading that nothing is
    /// there, of all others that it is done.
    #[must_use]
    pub fn silences(&self, status: Status) -> bool {
        let taken_for_granted = match self.command {
            Command::Get { .. } => Status::KEY_NOT_FOUND,
            _ => Status::OK,
        };
        status == taken_for_granted && self.quiet()
    }

    /// Appends the request to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let header = Header {
            magic: REQUEST,
            opcode: self.opcode.number(),
            key_bytes: 0,
            extras_bytes: 0,
            data_type: 0,
            status: 0,
            body_bytes: 0,
            opaque: self.opaque,
            cas: self.cas,
        };
        let mut message = |extras: &[u8], key: &[u8], value: &[u8]| {
            write_message(out, header, extras, key, value);
        };
        match self.command {
            Command::Get { key, exptime: None, .. } | Command::Delete { key } => {
                message(b"", key, b"");
            }
            Command::Get { key, exptime: Some(exptime), .. } | Command::Touch { key, exptime } => {
                message(&exptime.to_be_bytes(), key, b"");
            }
            Command::Store { mode: StoreMode::Append | StoreMode::Prepend, key, value, .. } => {
                message(b"", key, value);
            }
            Command::Store { key, flags, exptime, value, .. } => {
                let extras = u64::from(flags) << 32 | u64::from(exptime);
                message(&extras.to_be_bytes(), key, value);
            }
            Command::Arithmetic { key, delta, initial, exptime, .. } => {
                let mut extras = [0; 20];
                extras[..8].copy_from_slice(&delta.to_be_bytes());
                extras[8..16].copy_from_slice(&initial.to_be_bytes());
                extras[16..].copy_from_slice(&exptime.to_be_bytes());
                message(&extras, key, b"");
            }
            Command::Flush { delay: 0 } => message(b"", b"", b""),
            Command::Flush { delay: number } | Command::Verbosity { level: number } => {
                message(&number.to_be_bytes(), b"", b"");
            }
            Command::Stat { key } => message(b"", key, b""),
            Command::Noop | Command::Version | Command::Quit | Command::SaslList => {
                message(b"", b"", b"");
            }
            Command::SaslAuth { mechanism, data } | Command::SaslStep { mechanism, data } => {
                message(b"", mechanism, data);
            }
        }
    }
}

impl Command<'_> {
    /// The operation that the command is. Where there is no quiet one it is the loud one.
    #[must_use]
    pub fn opcode(&self, quiet: bool) -> Opcode {
        let (loud, silent) = match self {
            Command::Get { with_key: false, exptime: None, .. } => (Opcode::Get, Opcode::Getq),
            Command::Get { with_key: true, exptime: None, .. } => (Opcode::Getk, Opcode::Getkq),
            Command::Get { with_key: false, .. } => (Opcode::Gat, Opcode::Gatq),
            Command::Get { with_key: true, .. } => (Opcode::Gatk, Opcode::Gatkq),
            Command::Store { mode, .. } => match mode {
                StoreMode::Set => (Opcode::Set, Opcode::Setq),
                StoreMode::Add => (Opcode::Add, Opcode::Addq),
                StoreMode::Replace => (Opcode::Replace, Opcode::Replaceq),
                StoreMode::Append => (Opcode::Append, Opcode::Appendq),
                StoreMode::Prepend => (Opcode::Prepend, Opcode::Prependq),
            },
            Command::Delete { .. } => (Opcode::Delete, Opcode::Deleteq),
            Command::Arithmetic { direction: Direction::Up, .. } => {
                (Opcode::Increment, Opcode::Incrementq)
            }
            Command::Arithmetic { direction: Direction::Down, .. } => {
                (Opcode::Decrement, Opcode::Decrementq)
            }
            Command::Flush { .. } => (Opcode::Flush, Opcode::Flushq),
            Command::Quit => (Opcode::Quit, Opcode::Quitq),
            Command::Touch { .. } => (Opcode::Touch, Opcode::Touch),
            Command::Stat { .. } => (Opcode::Stat, Opcode::Stat),
            Command::Verbosity { .. } => (Opcode::Verbosity, Opcode::Verbosity),
            Command::Noop => (Opcode::Noop, Opcode::Noop),
            Command::Version => (Opcode::Version, Opcode::Version),
            Command::SaslList => (Opcode::SaslList, Opcode::SaslList),
            Command::SaslAuth { .. } => (Opcode::SaslAuth, Opcode::SaslAuth),
            Command::SaslStep { .. } => (Opcode::SaslStep, Opcode::SaslStep),
        };
        if quiet { silent } else { loud }
    }
}

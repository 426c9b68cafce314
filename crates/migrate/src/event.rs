//! What a source reports, one row or one change after the other.
//!
//! ```text
//!   String | Hash Field* EndHash | LeftOut | Gone     rows, as they are
//!   ReadAgain                                         they replace what was read before
//!   Command | Unclear | Swapped                       what happened to them since
//!   Progress                                          how far the source is
//! ```
//!
//! **Invariant:** between `Hash` and `EndHash` come only `Field` and `Progress`.

use crate::error::Result;

/// The attributes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The number of its database.
    pub db: u32,
    /// Its key.
    pub key: &'a [u8],
    /// When it expires, in milliseconds since 1970.
    pub expires_ms: Option<u64>,
    /// The flags that a client of memcached stored.
    pub flags: u32,
}

impl<'a> Entry<'a> {
    /// A row of database 0 without attributes.
    #[must_use]
    pub fn new(key: &'a [u8]) -> Self {
        Entry { db: 0, key, expires_ms: None, flags: 0 }
    }
}

/// How far a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What it does.
    pub phase: Phase,
    /// Units that are done.
    pub done: u64,
    /// Units in all, if the source knows.
    pub total: Option<u64>,
}

/// What a source does, and in which units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Reads rows; units are keys.
    Keys,
    /// Reads rows; units are bytes.
    Bytes,
    /// Reads changes since the rows were read; units are changes.
    Changes,
}

/// What a source reports.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A string.
    String {
        /// Its key and attributes.
        entry: Entry<'a>,
        /// Its value.
        value: &'a [u8],
    },
    /// A hash: its fields follow, then [`Event::EndHash`].
    Hash(Entry<'a>),
    /// A field of the hash at hand. If a field occurs twice, the later one counts.
    Field {
        /// Its name.
        name: &'a [u8],
        /// Its value.
        value: &'a [u8],
        /// When the field alone expires, in milliseconds since 1970.
        expires_ms: Option<u64>,
    },
    /// The end of the hash at hand.
    EndHash,
    /// A row of a type that rows here do not have.
    LeftOut {
        /// The number of its database.
        db: u32,
        /// Its type: `list`, `set`, ...
        kind: &'a str,
        /// Its key.
        key: &'a [u8],
    },
    /// From here on keys are read that may have been read before; so many of them.
    ReadAgain(u64),
    /// The source has no such key now.
    Gone {
        /// The key.
        key: &'a [u8],
    },
    /// A command that changes strings or hashes, to be executed after what came before.
    Command {
        /// The number of the database in which it is executed.
        db: u32,
        /// Its name and its arguments.
        args: &'a [&'a [u8]],
    },
    /// A command that may have changed a key in a way that is not understood.
    Unclear {
        /// The number of the database.
        db: u32,
        /// The command's name.
        name: &'a str,
        /// The key, if the command has one.
        key: Option<&'a [u8]>,
    },
    /// A database was exchanged with another one.
    Swapped {
        /// Its number.
        db: u32,
    },
    /// How far the source is.
    Progress(Progress),
}

/// Gets each event. An error ends the source.
pub type Visit<'v> = &'v mut dyn FnMut(Event<'_>) -> Result<()>;

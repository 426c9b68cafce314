//! Requests out of a file: who asked for what, and when.
//!
//! ```text
//!   file --.zst?--> lines --parse by format--> rows --share--> those of one thread --pace--> when
//! ```
//!
//! | option | columns | since |
//! |---|---|---|
//! | `--twitter_trace 0` | `key,valuelen` or `time,app,op,key,valuelen`, op `read` or `write` | 2016, 2021 |
//! | `1` | `time,key,keysize,valuesize,client,op[,ttl]`: the open traces of Twitter's caches | 2021 |
//! | `2`, `3` | `time,app,op,key,valuelen`, op `1` (get) or `2` (set) | 2021, 2022 |
//! | `4` | `time,key,op,valuelen,ignored`, op as before, a length of 0 is 50000 | 2022 |
//!
//! Files are read as they are needed, whatever their size; with `.zst` at the end of their name, or
//! the mark of such a file at the start, they are decompressed, any number of frames behind each
//! other. Keys are bytes. A line that is no row is counted by its reason and passed over, and the
//! first few are kept to be shown. What ends a replay is a file that cannot be read to its end, or
//! one without any row.
//!
//! Each thread reads the file for itself and takes its share: by a hash of the key, so that
//! requests for one key keep their order. Nothing is handed from thread to thread.
//!
//! Where this differs from mutilate's fork: all eleven operations of Twitter's traces are there,
//! with their times and their expirations; lengths are not moved to 1 to 524,000 but cut at the
//! limit of values; lines on the border of chunks are not lost.

mod pace;
mod parse;
mod reader;

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;

pub use pace::{Pace, Paced};
pub use reader::{Reader, Share};

use crate::named::named;

/// The size that version 4 gives to rows without one.
const SIZE_MISSING: u32 = 50_000;

named! {
    /// What a row asks for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    #[expect(missing_docs, reason = "the names are those of memcached's commands")]
    pub enum Op {
        Get = "get",
        Gets = "gets",
        Set = "set",
        Add = "add",
        Replace = "replace",
        Cas = "cas",
        Append = "append",
        Prepend = "prepend",
        Delete = "delete",
        Incr = "incr",
        Decr = "decr",
    }
}

impl Op {
    /// Does it read and change nothing?
    #[must_use]
    pub const fn is_read(self) -> bool {
        matches!(self, Op::Get | Op::Gets)
    }

    /// Does it send a value?
    #[must_use]
    pub const fn takes_value(self) -> bool {
        matches!(self, Op::Set | Op::Add | Op::Replace | Op::Cas | Op::Append | Op::Prepend)
    }
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row<'a> {
    /// When, in seconds from wherever the file counts; `None` in the format without times.
    pub time_s: Option<f64>,
    /// What for.
    pub op: Op,
    /// The key, padded to the size that it had before it was made anonymous.
    pub key: &'a [u8],
    /// Bytes of the value, of a read too: what a miss is to be filled with.
    pub value_bytes: u32,
    /// Seconds until it expires; 0 is never.
    pub ttl_s: u32,
    /// The number of the application or client; 0 where there is none.
    pub client: u64,
}

/// How lines are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `key,valuelen`, or `time,app,op,key,valuelen` with words: whichever a line has.
    Words,
    /// `time,key,keysize,valuesize,client,op[,ttl]`.
    Twitter,
    /// `time,app,op,key,valuelen` with numbers.
    Numbers,
    /// `time,key,op,valuelen,ignored`.
    KeyFirst,
}

impl Format {
    /// The format of a `--twitter_trace` number.
    #[must_use]
    pub const fn of_option(number: u32) -> Option<Format> {
        Some(match number {
            0 => Format::Words,
            1 => Format::Twitter,
            2 | 3 => Format::Numbers,
            4 => Format::KeyFirst,
            _ => return None,
        })
    }

    const fn columns(self) -> &'static str {
        match self {
            Format::Words => "key,valuelen or time,app,read|write,key,valuelen",
            Format::Twitter => "time,key,keysize,valuesize,client,op[,ttl]",
            Format::Numbers => "time,app,1|2,key,valuelen",
            Format::KeyFirst => "time,key,1|2,valuelen,ignored",
        }
    }
}

/// What a reader is opened with.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// How lines are laid out.
    pub format: Format,
    /// The longest key that the protocol has: 250 for memcached.
    pub key_bytes_max: usize,
    /// Whether keys may hold blanks and control characters, as with Redis.
    pub any_byte: bool,
    /// Where lengths of values are cut.
    pub value_bytes_max: u32,
    /// Which rows are taken.
    pub share: Share,
}

impl Options {
    /// Every row, for a server of memcached.
    #[must_use]
    pub fn new(format: Format) -> Options {
        let value_bytes_max = crate::arrival::VALUE_BYTES_MAX;
        let share = Share { index: 0, shares: 1 };
        Options { format, key_bytes_max: 250, any_byte: false, value_bytes_max, share }
    }
}

named! {
    /// Why a line is no row.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Fault {
        /// It has another number of columns than its format.
        Columns = "another number of columns",
        /// A column that is a number is none, or negative, or too large.
        Number = "a column that is no number, or out of range",
        /// Its operation is none that is known.
        Operation = "an unknown operation",
        /// It has no key.
        KeyMissing = "no key",
        /// Its key is longer than the protocol has.
        KeyTooLong = "a key longer than the protocol has",
        /// Its key has a blank or a control character.
        KeyBytes = "a key with a blank or a control character",
        /// It is longer than 64 KiB.
        LineTooLong = "longer than 64 KiB",
    }
}

/// What was read so far, by this reader: its own rows, and the faults of all lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows that were handed out.
    pub rows: u64,
    /// Lines, blank ones too.
    pub lines: u64,
    /// Rows of other readers' shares.
    pub others: u64,
    /// Lines that were passed over, by the order of [`Fault::ALL`].
    pub faults: [u64; Fault::ALL.len()],
    /// Rows whose value was larger than the limit.
    pub cut: u64,
    /// Rows whose time lies before that of a row in front of them.
    pub unsorted: u64,
    /// The first lines that were passed over, and why.
    pub first_faults: Vec<(u64, Fault)>,
}

impl Counts {
    /// Lines that were passed over.
    #[must_use]
    pub fn faults_total(&self) -> u64 {
        self.faults.iter().sum()
    }
}

impl fmt::Display for Counts {
    /// A line, such as `12 rows, 2 lines passed over: 2 unknown operation (first: line 7)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows", self.rows)?;
        let faults = self.faults_total();
        if faults > 0 {
            write!(f, ", {faults} lines passed over")?;
            let kinds = Fault::ALL.iter().zip(self.faults).filter(|(_, count)| *count > 0);
            for (index, (fault, count)) in kinds.enumerate() {
                let sign = if index == 0 { ":" } else { "," };
                write!(f, "{sign} {count} with {}", fault.name())?;
            }
            if let Some((line, _)) = self.first_faults.first() {
                write!(f, " (first: line {line})")?;
            }
        }
        if self.cut > 0 {
            write!(f, ", {} values cut at the limit", self.cut)?;
        }
        if self.unsorted > 0 {
            write!(f, ", {} times that go back", self.unsorted)?;
        }
        Ok(())
    }
}

/// Why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened.
    #[error(transparent)]
    Open(#[from] keyrack_vfs::Error),
    /// The file cannot be read on, or is cut within a compressed frame.
    #[error("{}: cannot be read beyond line {line}: {cause}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The last line that was read.
        line: u64,
        /// Why.
        cause: std::io::Error,
    },
    /// Nothing in the file is a row.
    #[error("{}: no line is a row of the form {columns}{}", path.display(), first(*.fault))]
    Empty {
        /// The file.
        path: PathBuf,
        /// What its format has.
        columns: &'static str,
        /// The first line that was none, and why.
        fault: Option<(u64, Fault)>,
    },
}

fn first(fault: Option<(u64, Fault)>) -> String {
    match fault {
        Some((line, fault)) => format!("; line {line} has {}", fault.name()),
        None => "; it is empty".to_owned(),
    }
}

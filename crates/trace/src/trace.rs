//! A trace to be read, whichever format it has.

use crate::bytes::{Bytes, Input};
use crate::cachelib::CacheLib;
use crate::error::{Error, Result};
use crate::layout;
use crate::native::Native;
use crate::record::{Phase, Record};
use crate::recorder::Origin;
use crate::rocksdb::{self, RocksDb};
use crate::rocksdb_text::RocksDbText;
use crate::which::Which;
use keyrack_vfs::Fs;
use std::path::Path;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Our own.
    Keyrack,
    /// RocksDB's, binary or as its analyzer prints it.
    RocksDb,
    /// CacheLib's.
    CacheLib,
}

impl Format {
    /// All of them with their names.
    pub const NAMES: [(&str, Format); 3] = [
        ("keyrack", Format::Keyrack),
        ("rocksdb", Format::RocksDb),
        ("cachelib", Format::CacheLib),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Keyrack => "keyrack",
            Format::RocksDb => "rocksdb",
            Format::CacheLib => "cachelib",
        }
    }

    /// What the file at `path` is by how it begins.
    ///
    /// # Errors
    /// It cannot be read, or begins as none that can be told.
    pub fn detect(fs: &dyn Fs, path: &Path) -> Result<Format> {
        let mut first = [0; 512];
        let input = Input::open(fs, path)?;
        let count = Bytes::new(&input).take(&mut first)?;
        let first = &first[..count];
        if first.starts_with(&layout::MAGIC) {
            return Ok(Format::Keyrack);
        }
        if is_rocksdb(first) || first.starts_with(b"0x") {
            return Ok(Format::RocksDb);
        }
        let line = first.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let names: Vec<&[u8]> = line.split(|byte| *byte == b',').collect();
        if [&b"key"[..], b"op", b"op_count"].iter().all(|name| names.contains(name)) {
            return Ok(Format::CacheLib);
        }
        let why = "not known by how it begins: say --format keyrack, rocksdb or cachelib";
        Err(Error::unusable(path, why))
    }
}

fn is_rocksdb(first: &[u8]) -> bool {
    first.get(rocksdb::HEAD_BYTES..).is_some_and(|rest| rest.starts_with(rocksdb::MAGIC))
}

/// The records of a file, one after the other.
#[derive(Debug)]
pub struct Trace(Kind);

#[derive(Debug)]
enum Kind {
    Native(Box<Native>),
    RocksDb(Box<RocksDb>),
    Text(Box<RocksDbText>),
    CacheLib(Box<CacheLib>),
    /// What was asked for is in no trace of this format.
    Nothing,
}

impl Trace {
    /// Opens the file for those records that `which` wants. Traces of others have one thread, 0,
    /// and nothing but a timed part.
    ///
    /// # Errors
    /// It cannot be read, or is not of this format.
    pub fn open(fs: &dyn Fs, path: &Path, format: Format, which: Which) -> Result<Trace> {
        let input = Input::open(fs, path)?;
        if format != Format::Keyrack && !which.timed {
            return Ok(Trace(Kind::Nothing));
        }
        Ok(Trace(match format {
            Format::Keyrack => Kind::Native(Box::new(Native::open(&input, which)?)),
            Format::CacheLib => Kind::CacheLib(Box::new(CacheLib::open(input))),
            Format::RocksDb => {
                let mut first = [0; 64];
                let count = Bytes::new(&input).take(&mut first)?;
                if is_rocksdb(&first[..count]) {
                    Kind::RocksDb(Box::new(RocksDb::open(&input)?))
                } else {
                    Kind::Text(Box::new(RocksDbText::open(input)))
                }
            }
        }))
    }

    /// Puts the next record into `record`; false at the end.
    ///
    /// # Errors
    /// The file cannot be read on, or is not what its format says; the place is named.
    pub fn next(&mut self, record: &mut Record) -> Result<bool> {
        match &mut self.0 {
            Kind::Native(trace) => trace.next(record),
            Kind::RocksDb(trace) => trace.next(record),
            Kind::Text(trace) => trace.next(record),
            Kind::CacheLib(trace) => trace.next(record),
            Kind::Nothing => Ok(false),
        }
    }

    /// Phase and thread of the record that was read last.
    #[must_use]
    pub fn place(&self) -> (Phase, u32) {
        match &self.0 {
            Kind::Native(trace) => trace.place(),
            _ => (Phase::Run, 0),
        }
    }

    /// What it says of itself.
    #[must_use]
    pub fn origin(&self) -> Option<&Origin> {
        match &self.0 {
            Kind::Native(trace) => Some(trace.origin()),
            _ => None,
        }
    }

    /// The share of its values' bytes that compresses away, 0 to 1, where it says so; known at the
    /// end.
    #[must_use]
    pub fn compress(&self) -> Option<f64> {
        match &self.0 {
            Kind::Native(trace) => trace.compress(),
            _ => None,
        }
    }

    /// Whether its records have times; known behind the first.
    #[must_use]
    pub fn has_times(&self) -> bool {
        match &self.0 {
            Kind::CacheLib(trace) => trace.has_times(),
            _ => true,
        }
    }

    /// What was passed over so far.
    #[must_use]
    pub fn skipped(&self) -> Option<String> {
        match &self.0 {
            Kind::RocksDb(trace) => trace.skipped().words(),
            Kind::Text(trace) => trace.skipped().words(),
            _ => None,
        }
    }
}

//! Rows of a file, or one share of them.

use std::path::{Path, PathBuf};

use keyrack_trace::{Line, Lines};
use keyrack_vfs::Fs;
use keyrack_workload::mix64;

use super::parse::parse;
use super::{Counts, Error, Fault, Options, Row};

/// Lines that are remembered with their fault.
const FAULTS_KEPT_MAX: usize = 5;
/// What keys are padded with.
const PAD: u8 = b'_';

/// Which of how many shares of the rows: all rows of a key are in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// Below `shares`.
    pub index: u32,
    /// At least 1.
    pub shares: u32,
}

impl Share {
    /// Whether rows of this key are in this share.
    #[inline]
    #[must_use]
    pub fn takes(&self, key: &[u8]) -> bool {
        if self.shares <= 1 {
            return true;
        }
        let hash = key.chunks(8).fold(0, |hash, chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            mix64(hash ^ u64::from_le_bytes(word))
        });
        // The high half of a product: no division, and no bias that matters.
        (u128::from(hash) * u128::from(self.shares)) >> 64 == u128::from(self.index)
    }
}

/// The rows of a trace, one after the other.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    options: Options,
    lines: Lines,
    counts: Counts,
    key: Vec<u8>,
    last_time_s: f64,
    /// Rows of any share since the start of the file.
    rows_of_file: u64,
}

impl Reader {
    /// Opens a file.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn open(fs: &dyn Fs, path: &Path, options: Options) -> Result<Reader, Error> {
        let lines = Lines::open(fs, path)?;
        Ok(Reader {
            path: path.to_owned(),
            options,
            lines,
            counts: Counts::default(),
            key: Vec::new(),
            last_time_s: 0.0,
            rows_of_file: 0,
        })
    }

    /// The next row; `None` at the end of the file.
    ///
    /// # Errors
    /// The file cannot be read on, is cut within a compressed frame, or had no row at all.
    pub fn next_row(&mut self) -> Result<Option<Row<'_>>, Error> {
        loop {
            let line = self.lines.next().map_err(|cause| Error::Read {
                path: self.path.clone(),
                line: self.counts.lines,
                cause,
            })?;
            let Some(line) = line else {
                if self.rows_of_file > 0 {
                    return Ok(None);
                }
                let columns = self.options.format.columns();
                let fault = self.counts.first_faults.first().copied();
                return Err(Error::Empty { path: self.path.clone(), columns, fault });
            };
            self.counts.lines += 1;
            match self.parse_line(line) {
                Err(fault) => self.note(fault),
                Ok(None) => {}
                Ok(Some(row)) => {
                    let Unfinished { time_s, op, value_bytes, ttl_s, client } = row;
                    let key = &self.key[..];
                    return Ok(Some(Row { time_s, op, key, value_bytes, ttl_s, client }));
                }
            }
        }
    }

    /// Begins at the first row again. Counts go on.
    pub fn rewind(&mut self) {
        self.lines.rewind();
        (self.last_time_s, self.rows_of_file) = (0.0, 0);
    }

    /// What was read so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Makes a row of a line, its key in `self.key`; `None` for what is blank or somebody else's.
    fn parse_line(&mut self, line: Line) -> Result<Option<Unfinished>, Fault> {
        let Line::Whole(start, end) = line else { return Err(Fault::LineTooLong) };
        let line = self.lines.bytes(start, end);
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(None);
        }
        let parts = parse(line, self.options.format)?;
        let key = &line[parts.key];
        if key.is_empty() {
            return Err(Fault::KeyMissing);
        }
        if key.len() > self.options.key_bytes_max {
            return Err(Fault::KeyTooLong);
        }
        if !self.options.any_byte && key.iter().any(|byte| *byte <= b' ' || *byte == 0x7f) {
            return Err(Fault::KeyBytes);
        }
        self.rows_of_file += 1;
        if let Some(time_s) = parts.time_s {
            self.counts.unsorted += u64::from(time_s < self.last_time_s);
            self.last_time_s = self.last_time_s.max(time_s);
        }
        if !self.options.share.takes(key) {
            self.counts.others += 1;
            return Ok(None);
        }
        self.key.clear();
        self.key.extend_from_slice(key);
        let padded = parts.key_bytes.min(self.options.key_bytes_max as u64) as usize;
        if padded > key.len() {
            self.key.resize(padded, PAD);
        }
        let limit = self.options.value_bytes_max;
        let value_bytes = u32::try_from(parts.value_bytes).unwrap_or(u32::MAX);
        self.counts.cut += u64::from(value_bytes > limit);
        self.counts.rows += 1;
        Ok(Some(Unfinished {
            time_s: parts.time_s,
            op: parts.op,
            value_bytes: value_bytes.min(limit),
            ttl_s: parts.ttl_s,
            client: parts.client,
        }))
    }

    fn note(&mut self, fault: Fault) {
        if let Some(index) = Fault::ALL.iter().position(|known| *known == fault) {
            self.counts.faults[index] += 1;
        }
        if self.counts.first_faults.len() < FAULTS_KEPT_MAX {
            self.counts.first_faults.push((self.counts.lines, fault));
        }
    }
}

/// A row without its key.
struct Unfinished {
    time_s: Option<f64>,
    op: super::Op,
    value_bytes: u32,
    ttl_s: u32,
    client: u64,
}

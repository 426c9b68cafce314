//! Traces of CacheLib: comma-separated, with the names of the columns in the first line.
//!
//! | traces | columns |
//! |---|---|
//! | 2022, 2023 | `key,op,size,op_count,key_size[,ttl]` |
//! | since | `op_time,key,key_size,op,op_count,size,cache_hits[,ttl,usecase,sub_usecase]` |
//!
//! Columns are found by name; without such a line they are those of the first form. A row stands
//! for
//! `op_count` calls. A key shorter than `key_size` is padded by `0` behind it, as CacheBench does.
//! `GET` and `GET_LEASE` look a key up, `SET` and `SET_LEASE` store `size` bytes, `DELETE` removes.
//! Expirations are not replayed: stores have none. Times are whole seconds; calls of one second are
//! due at its beginning.

use crate::bytes::Input;
use crate::error::{Error, Result};
use crate::lines::{Line, Lines};
use crate::record::{Record, Result as Outcome, Verb, Write};
use std::path::PathBuf;

/// Keys of more bytes are a mistake.
const KEY_BYTES_MAX: u64 = 1 << 16;
/// Calls of one row at most.
const COUNT_MAX: u64 = 1 << 32;
/// Columns of a line at most.
const COLUMNS_MAX: usize = 32;

/// Where the columns are.
#[derive(Clone, Copy, Debug)]
struct Columns {
    time: Option<usize>,
    key: usize,
    op: usize,
    size: usize,
    count: usize,
    key_size: usize,
}

impl Columns {
    const PLAIN: Columns = Columns { time: None, key: 0, op: 1, size: 2, count: 3, key_size: 4 };

    fn of_header(names: &[&str]) -> Option<Columns> {
        let place = |name: &str| names.iter().position(|known| *known == name);
        Some(Columns {
            time: place("op_time"),
            key: place("key")?,
            op: place("op")?,
            size: place("size")?,
            count: place("op_count")?,
            key_size: place("key_size")?,
        })
    }

    fn last(&self) -> usize {
        let most = [self.key, self.op, self.size, self.count, self.key_size];
        most.into_iter().chain(self.time).max().unwrap_or(0)
    }
}

/// A reader.
#[derive(Debug)]
pub(crate) struct CacheLib {
    path: PathBuf,
    lines: Lines,
    line: u64,
    columns: Columns,
    start_s: Option<u64>,
    /// The row at hand, and how many calls of it are left.
    row: Record,
    left: u64,
}

impl CacheLib {
    pub(crate) fn open(input: Input) -> CacheLib {
        let path = input.path.clone();
        CacheLib {
            path,
            lines: Lines::of(input),
            line: 0,
            columns: Columns::PLAIN,
            start_s: None,
            row: Record::default(),
            left: 0,
        }
    }

    /// Whether rows have times, once the first was read.
    pub(crate) fn has_times(&self) -> bool {
        self.columns.time.is_some()
    }

    pub(crate) fn next(&mut self, record: &mut Record) -> Result<bool> {
        while self.left == 0 {
            if !self.next_row()? {
                return Ok(false);
            }
        }
        self.left -= 1;
        record.clone_from(&self.row);
        Ok(true)
    }

    fn next_row(&mut self) -> Result<bool> {
        let line = self.lines.next().map_err(|cause| {
            Error::line(&self.path, self.line + 1, format!("cannot be read: {cause}"))
        })?;
        let Some(line) = line else { return Ok(false) };
        self.line += 1;
        let fault = |why: &str| Error::line(&self.path, self.line, why);
        let Line::Whole(start, end) = line else { return Err(fault("longer than 64 KiB")) };
        let text = std::str::from_utf8(self.lines.bytes(start, end));
        let text = text.map_err(|_| fault("not UTF-8 text"))?.trim();
        if text.is_empty() {
            return Ok(true);
        }
        let parts: Vec<&str> = text.split(',').map(str::trim).take(COLUMNS_MAX).collect();
        if self.line == 1 && parts.contains(&"op") {
            self.columns = Columns::of_header(&parts).ok_or_else(|| {
                fault("the names of the columns lack one of key, op, size, op_count, key_size")
            })?;
            return Ok(true);
        }
        let columns = self.columns;
        if parts.len() <= columns.last() {
            let expected = columns.last() + 1;
            return Err(fault(&format!(
                "{} columns, expected {expected}: key,op,size,op_count,key_size, or those that the \
                 first line names",
                parts.len()
            )));
        }
        let number = |column: usize, name: &str, max: u64| {
            let parsed = parts[column].parse::<u64>().ok().filter(|number| *number <= max);
            parsed.ok_or_else(|| fault(&format!("{name} is no number up to {max}")))
        };
        let key = parts[columns.key].as_bytes();
        if key.is_empty() {
            return Err(fault("no key"));
        }
        let size = number(columns.size, "size", u64::from(u32::MAX))?;
        let count = number(columns.count, "op_count", COUNT_MAX)?;
        let key_size = number(columns.key_size, "key_size", KEY_BYTES_MAX)?;
        if count == 0 {
            return Err(fault("op_count is 0: a row stands for one call or more"));
        }
        let at_s = columns.time.map(|time| number(time, "op_time", u64::MAX)).transpose()?;
        let at_s = at_s.map_or(0, |at_s| at_s.saturating_sub(*self.start_s.get_or_insert(at_s)));
        let (verb, write) = match parts[columns.op] {
            "GET" | "GET_LEASE" => (Verb::Get, Write::Nothing),
            "SET" | "SET_LEASE" => (Verb::Put, Write::Put(size as u32)),
            "DELETE" => (Verb::Del, Write::Remove),
            other => {
                return Err(fault(&format!(
                    "unknown op '{other}'; GET, GET_LEASE, SET, SET_LEASE and DELETE are known"
                )));
            }
        };
        self.row.clear(verb, at_s.saturating_mul(1_000_000_000));
        let padding = (key_size as usize).saturating_sub(key.len());
        self.row.push_parts(key, &vec![b'0'; padding], write);
        self.row.result = Outcome::Done;
        self.left = count;
        Ok(true)
    }
}

//! From a line to the parts of a row.

use std::ops::Range;

use super::{Fault, Format, Op, SIZE_MISSING};

/// Columns of the widest format, and one to see that there are more.
const COLUMNS_MAX: usize = 8;

/// The parts of a row; the key as a range of the line.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Parts {
    pub(super) time_s: Option<f64>,
    pub(super) op: Op,
    pub(super) key: Range<usize>,
    /// How long the key is to be.
    pub(super) key_bytes: u64,
    pub(super) value_bytes: u64,
    pub(super) ttl_s: u32,
    pub(super) client: u64,
}

/// Reads a line that is not blank.
pub(super) fn parse(line: &[u8], format: Format) -> Result<Parts, Fault> {
    let mut places = [const { 0..0 }; COLUMNS_MAX];
    let mut count = 0;
    let mut start = 0;
    for end in memchr::memchr_iter(b',', line).chain([line.len()]) {
        if count == COLUMNS_MAX {
            return Err(Fault::Columns);
        }
        places[count] = start..end;
        count += 1;
        start = end + 1;
    }
    let column = |index: usize| trim(&line[places[index].clone()]);
    let parts = |time: Option<usize>, op, key: usize, value_bytes| -> Result<Parts, Fault> {
        Ok(Parts {
            time_s: time.map(|index| seconds(column(index))).transpose()?,
            op,
            key: places[key].clone(),
            key_bytes: 0,
            value_bytes,
            ttl_s: 0,
            client: 0,
        })
    };
    match (format, count) {
        (Format::Words, 2) => parts(None, Op::Get, 0, number(column(1))?),
        (Format::Words, 5) => {
            let op = match column(2) {
                b"read" | b"get" => Op::Get,
                b"write" | b"set" => Op::Set,
                _ => return Err(Fault::Operation),
            };
            let client = hash_or_number(column(1));
            Ok(Parts { client, ..parts(Some(0), op, 3, number(column(4))?)? })
        }
        (Format::Twitter, 6 | 7) => {
            let op = Op::ALL.iter().find(|op| op.name().as_bytes() == column(5));
            let op = *op.ok_or(Fault::Operation)?;
            let ttl_s = if count == 7 { number(column(6))? } else { 0 };
            let ttl_s = u32::try_from(ttl_s).map_err(|_| Fault::Number)?;
            let key_bytes = number(column(2))?;
            let client = hash_or_number(column(4));
            let row = parts(Some(0), op, 1, number(column(3))?)?;
            Ok(Parts { key_bytes, ttl_s, client, ..row })
        }
        (Format::Numbers, 5) => {
            let client = hash_or_number(column(1));
            Ok(Parts { client, ..parts(Some(0), one_or_two(column(2))?, 3, number(column(4))?)? })
        }
        (Format::KeyFirst, 5) => {
            let bytes = match number(column(3))? {
                0 => u64::from(SIZE_MISSING),
                bytes => bytes,
            };
            parts(Some(0), one_or_two(column(2))?, 1, bytes)
        }
        _ => Err(Fault::Columns),
    }
}

fn one_or_two(column: &[u8]) -> Result<Op, Fault> {
    match column {
        b"1" => Ok(Op::Get),
        b"2" => Ok(Op::Set),
        _ => Err(Fault::Operation),
    }
}

fn trim(column: &[u8]) -> &[u8] {
    column.trim_ascii()
}

/// A whole number of at least 0, without a sign.
fn number(column: &[u8]) -> Result<u64, Fault> {
    if column.is_empty() {
        return Err(Fault::Number);
    }
    column
        .iter()
        .try_fold(0u64, |sum, byte| {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 { None } else { sum.checked_mul(10)?.checked_add(u64::from(digit)) }
        })
        .ok_or(Fault::Number)
}

/// A time: whole seconds as a rule, with a fraction in some files.
fn seconds(column: &[u8]) -> Result<f64, Fault> {
    if let Ok(whole) = number(column) {
        return Ok(whole as f64);
    }
    let text = std::str::from_utf8(column).map_err(|_| Fault::Number)?;
    let seconds: f64 = text.parse().map_err(|_| Fault::Number)?;
    (seconds.is_finite() && seconds >= 0.0).then_some(seconds).ok_or(Fault::Number)
}

/// Applications have numbers in some files and names in others.
fn hash_or_number(column: &[u8]) -> u64 {
    number(column).unwrap_or_else(|_| {
        column.iter().fold(1, |hash, byte| keyrack_workload::mix64(hash ^ u64::from(*byte)))
    })
}

//! Traces of RocksDB as `trace_analyzer` prints them (`--convert_to_human_readable_trace`).
//!
//! ```text
//!   0x6b6579 1 0 100 1526343600123456       key, type, column family, bytes, microseconds
//!   1 0 100 1526343600123456 0x6b6579       the same, as older versions print it
//! ```
//!
//! Types: 0 get, 1 put, 2 and 3 removals, 4 removal of a range, 5 merge, 6 seek, 7 seek to the one
//! before, 8 a key of a multi-get. They mean what they mean in the binary form; removals of ranges
//! are counted and passed over. Without keys (`--no_key`) nothing can be replayed.

use crate::bytes::Input;
use crate::error::{Error, Result};
use crate::lines::{Line, Lines};
use crate::record::{Record, Verb, Write};
use crate::skipped::Skipped;
use std::path::PathBuf;

/// A reader.
#[derive(Debug)]
pub(crate) struct RocksDbText {
    path: PathBuf,
    lines: Lines,
    line: u64,
    start_us: Option<u64>,
    key: Vec<u8>,
    skipped: Skipped,
}

const EXPECTED: &str = "expected 0xKEY TYPE FAMILY BYTES MICROSECONDS, as trace_analyzer prints it";

impl RocksDbText {
    pub(crate) fn open(input: Input) -> RocksDbText {
        let path = input.path.clone();
        let (lines, skipped) = (Lines::of(input), Skipped::default());
        RocksDbText { path, lines, line: 0, start_us: None, key: Vec::new(), skipped }
    }

    pub(crate) fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    pub(crate) fn next(&mut self, record: &mut Record) -> Result<bool> {
        loop {
            let line = self.lines.next().map_err(|cause| {
                Error::line(&self.path, self.line + 1, format!("cannot be read: {cause}"))
            })?;
            let Some(line) = line else { return Ok(false) };
            self.line += 1;
            let fault = |why: &str| Error::line(&self.path, self.line, why);
            let Line::Whole(start, end) = line else { return Err(fault("longer than 64 KiB")) };
            let text = std::str::from_utf8(self.lines.bytes(start, end));
            let text = text.map_err(|_| fault(EXPECTED))?;
            if text.trim().is_empty() {
                continue;
            }
            let columns: Vec<&str> = text.split_ascii_whitespace().collect();
            let (hex, numbers) = match columns.as_slice() {
                [key, numbers @ ..] if key.starts_with("0x") && numbers.len() == 4 => {
                    (*key, numbers)
                }
                [numbers @ .., key] if key.starts_with("0x") && numbers.len() == 4 => {
                    (*key, numbers)
                }
                [first, _, _, _] if !first.starts_with("0x") => {
                    return Err(fault("no key: run trace_analyzer without --no_key"));
                }
                _ => return Err(fault(EXPECTED)),
            };
            let mut parsed = [0u64; 4];
            for (number, column) in parsed.iter_mut().zip(numbers) {
                *number = column.parse().map_err(|_| fault(EXPECTED))?;
            }
            let [kind, family, bytes, at_us] = parsed;
            self.key.clear();
            if !unhex(&hex[2..], &mut self.key) {
                return Err(fault("a key that is not hexadecimal"));
            }
            let start_us = *self.start_us.get_or_insert(at_us);
            let at_ns = at_us.saturating_sub(start_us).saturating_mul(1000);
            let bytes = u32::try_from(bytes).map_err(|_| fault("a value above 4 GiB"))?;
            let (verb, write) = match kind {
                0 | 8 => (Verb::Get, Write::Nothing),
                1 => (Verb::Put, Write::Put(bytes)),
                2 | 3 => (Verb::Del, Write::Remove),
                4 => {
                    // Its two ends stand in two lines.
                    self.skipped.add("lines of removals of ranges", 1);
                    continue;
                }
                5 => (Verb::Rmw, Write::Put(bytes)),
                6 => (Verb::Range, Write::Nothing),
                7 => (Verb::RangeDown, Write::Nothing),
                other => return Err(fault(&format!("unknown type {other}; 0 to 8 are known"))),
            };
            record.clear(verb, at_ns);
            record.space = u32::try_from(family).map_err(|_| fault(EXPECTED))?;
            if verb == Verb::RangeDown {
                record.push(&[], Write::Nothing);
                self.key.push(0);
            }
            record.push(&self.key, write);
            if verb.is_range() {
                record.limit = 1;
            }
            return Ok(true);
        }
    }
}

fn unhex(text: &str, out: &mut Vec<u8>) -> bool {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let (pairs, odd) = text.as_bytes().as_chunks::<2>();
    for &[high, low] in pairs {
        let (Some(high), Some(low)) = (digit(high), digit(low)) else { return false };
        out.push(high << 4 | low);
    }
    odd.is_empty()
}

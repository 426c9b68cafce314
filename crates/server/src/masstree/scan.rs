//! Scans. One that asks for many rows is carried out in slices, one slice an iteration.
//!
//! The answer says at its front how many rows it has, so nothing of it can be sent before all are
//! there. A long scan keeps them as they are in the store, and writes the answer at its end.
//!
//! **Invariant:** an answer holds at most [`REPLY_BYTES_MAX`] and one row. A scan that would hold
//! more ends there; the client goes on behind the last key.

use super::Cx;
use keyrack_rowstore::Row;
use keyrack_store::Error;
use keyrack_wire::masstree::{Columns, ReplyWriter, ScanWriter};
use keyrack_wire::msgpack::Int;
use std::ops::ControlFlow;

/// Rows of a slice: some milliseconds.
const SLICE_ROWS_MAX: u64 = 4096;

const SLICE_BYTES_MAX: usize = 1 << 20;

/// Bytes of an answer, but for its last row.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// A scan that goes on in another iteration.
#[derive(Debug)]
pub(super) struct Scan {
    seq: Int,
    columns: Vec<u32>,
    /// Where to go on, included.
    next: Vec<u8>,
    /// Rows still wanted.
    left: u64,
    /// Key, row, key, row, each behind its length.
    found: Vec<u8>,
}

/// Begins a scan: answers it, or returns what is left to do.
pub(super) fn begin(
    cx: &mut Cx<'_>,
    (seq, first, count): (Int, &[u8], u64),
    columns: Columns<'_>,
    out: &mut Vec<u8>,
) -> Result<Option<Box<Scan>>, Error> {
    cx.counts.scans.add(1);
    if count > SLICE_ROWS_MAX {
        let (next, columns) = (first.to_vec(), columns.collect());
        return Ok(Some(Box::new(Scan { seq, columns, next, left: count, found: Vec::new() })));
    }
    let mut reply = ReplyWriter::new(out);
    let mut answer = reply.scan(seq);
    if count > 0 {
        let mut left = count;
        let rows = cx.rows.scan(first, None, &mut |key, row| {
            write_row(&mut answer, key, &row, columns);
            left -= 1;
            if left == 0 || answer.bytes() >= REPLY_BYTES_MAX {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        cx.counts.scanned_rows.add(rows);
    }
    Ok(None)
}

impl Scan {
    pub(super) fn seq(&self) -> Int {
        self.seq
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.found.capacity() + self.next.capacity() + self.columns.capacity() * size_of::<u32>()
    }

    /// Carries out a slice. True when the scan is done, and its answer in `out`.
    pub(super) fn go_on(&mut self, cx: &mut Cx<'_>, out: &mut Vec<u8>) -> Result<bool, Error> {
        let slice_rows = self.left.min(SLICE_ROWS_MAX);
        let slice_end = self.found.len().saturating_add(SLICE_BYTES_MAX);
        let Scan { next, found, .. } = self;
        let first = std::mem::take(next);
        let mut rows = 0;
        cx.rows.scan(&first, None, &mut |key, row| {
            rows += 1;
            for part in [key, row.bytes()] {
                found.extend_from_slice(&(part.len() as u64).to_le_bytes());
                found.extend_from_slice(part);
            }
            if rows < slice_rows && found.len() < slice_end {
                return ControlFlow::Continue(());
            }
            // The least key behind this one.
            next.extend_from_slice(key);
            next.push(0);
            ControlFlow::Break(())
        })?;
        cx.counts.scanned_rows.add(rows);
        self.left -= rows;
        let at_end = self.next.is_empty();
        let done = at_end || self.left == 0 || self.found.len() >= REPLY_BYTES_MAX;
        if done {
            self.write(out);
        }
        Ok(done)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let mut reply = ReplyWriter::new(out);
        let mut answer = reply.scan(self.seq);
        let mut rest = &self.found[..];
        while let (Some(key), Some(row)) = (part(&mut rest), part(&mut rest)) {
            write_row(&mut answer, key, &Row::of(row), self.columns.iter().copied());
        }
    }
}

fn part<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (part, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    *bytes = rest;
    Some(part)
}

/// A row of the answer: one column as it is, several as an array.
fn write_row(
    answer: &mut ScanWriter<'_>,
    key: &[u8],
    row: &Row<'_>,
    columns: impl ExactSizeIterator<Item = u32>,
) {
    let mut columns = columns;
    match (columns.len(), row.columns()) {
        (0, 1) => answer.one(key, row.column(0)),
        (0, count) => {
            answer.row(key, count as u32);
            (0..count).for_each(|column| answer.value(row.column(column)));
        }
        (1, _) => answer.one(key, columns.next().and_then(|column| row.column(column as usize))),
        (count, _) => {
            answer.row(key, count as u32);
            columns.for_each(|column| answer.value(row.column(column as usize)));
        }
    }
}

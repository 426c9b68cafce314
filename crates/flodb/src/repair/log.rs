//! The log of a repair: its records as tables of level 0.

use super::tables::{Output, TableIo};
use crate::batch::{Write, decode};
use crate::check::Finding;
use crate::checksum::hash;
use crate::cursor::Cursor;
use crate::error::Result;
use crate::key::{Kind, parse};
use crate::memtable::{Memtable, MemtableOptions};
use crate::version::FileMeta;
use keyrack_wal::Salvaged;
use std::path::Path;
use std::sync::Arc;

/// Bytes of memory that an entry takes beside its key and value, at most.
const ENTRY_BYTES: usize = 64;
/// Room beyond a full memory.
const SLACK_BYTES: usize = 1 << 20;

/// What the log has from an LSN on.
pub(super) struct Look {
    pub(super) salvaged: Salvaged,
    /// What is wrong.
    pub(super) losses: Vec<Finding>,
}

/// Reads the log in `dir`, see [`keyrack_wal::salvage`].
pub(super) fn look(
    io: &TableIo<'_>,
    dir: &Path,
    from: Option<u64>,
    id: Option<u64>,
) -> Result<Look> {
    let mut losses = Vec::new();
    let mut replay = |position: u64, payload: &[u8]| -> Result<()> {
        if decode(payload).is_none() {
            let what = format!("the whole record at position {position} does not hold a batch");
            losses.push(Finding::damage(dir, 0, what));
        }
        Ok(())
    };
    let salvaged = keyrack_wal::salvage(io.fs, dir, from, id, &mut replay)?;
    let holes = salvaged.holes.iter().map(|hole| {
        let what = match hole.to - hole.from {
            0 => hole.what.clone(),
            bytes => format!("{}; lost are {bytes} bytes of the log", hole.what),
        };
        Finding::damage(&hole.path, hole.offset, what)
    });
    losses.extend(holes);
    Ok(Look { salvaged, losses })
}

impl Look {
    /// From here to the end, nothing is missing.
    pub(super) fn whole_from(&self) -> u64 {
        self.salvaged.holes.iter().map(|hole| hole.to).max().unwrap_or(0).max(self.salvaged.begin)
    }
}

/// Writes what the log has, as far as `is_wanted` says of number and write, into tables of level 0,
/// older writes into earlier ones. Returns these and the number of records.
pub(super) fn save(
    io: &mut TableIo<'_>,
    dir: &Path,
    from: Option<u64>,
    id: Option<u64>,
    is_wanted: &dyn Fn(u64, &Write<'_>) -> bool,
) -> Result<(Vec<Arc<FileMeta>>, u64)> {
    let (mut files, mut records) = (Vec::new(), 0);
    let mut memtable: Option<Arc<Memtable>> = None;
    let (fs, order) = (io.fs, io.order().clone());
    let mut replay = |position: u64, payload: &[u8]| -> Result<()> {
        // `look` has reported the loss.
        let Some(writes) = decode(payload) else { return Ok(()) };
        let room = payload.len() + ENTRY_BYTES * writes.len();
        let most = io.options.memtable_bytes;
        if memtable.as_ref().is_some_and(|memtable| memtable.bytes() + room > most)
            && let Some(full) = memtable.take()
        {
            write(io, &full, &mut files)?;
        }
        let memtable = memtable.get_or_insert_with(|| {
            let capacity = most.saturating_add(room).saturating_add(SLACK_BYTES);
            let options = MemtableOptions { tail_entries_max: usize::MAX, hash: false };
            Arc::new(Memtable::new(capacity, io.order().clone(), options))
        });
        let mut is_used = false;
        for (sequence, write) in (position..).zip(writes) {
            if is_wanted(sequence, &write) && !write.is_void(&order) {
                is_used = true;
                memtable
                    .insert(sequence, write.kind, write.key, write.value, hash(write.key))
                    .expect("the memtable has room for the record");
            }
        }
        records += u64::from(is_used);
        Ok(())
    };
    keyrack_wal::salvage(fs, dir, from, id, &mut replay)?;
    if let Some(rest) = memtable {
        write(io, &rest, &mut files)?;
    }
    Ok((files, records))
}

fn write(
    io: &mut TableIo<'_>,
    memtable: &Arc<Memtable>,
    files: &mut Vec<Arc<FileMeta>>,
) -> Result<()> {
    let mut output = Output::new(io, 0, u64::MAX);
    let mut cursor = memtable.cursor(u64::MAX);
    cursor.seek_first()?;
    while let Some((key, value)) = cursor.entry() {
        let parsed = parse(key).expect("the memory has whole keys");
        // Of a range tombstone it has the place, and the memory the range.
        if parsed.kind != Kind::DeleteRange {
            output.add(key, value)?;
        }
        cursor.next()?;
    }
    memtable.range_tombstones().into_iter().try_for_each(|range| output.add_range(range))?;
    files.extend(output.finish()?);
    Ok(())
}

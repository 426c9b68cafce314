//! What one file of a store holds: a table, a blob file, a manifest, a segment of the log. For
//! people who look into a store; nothing of the engine reads in this way.
//!
//! The name of a file says what it is: `NNNNNN.table`, `NNNNNN.blob`, `MANIFEST-NNNNNN`, sixteen
//! hexadecimal digits with the suffix of segments. A table is read by itself, and shows the places
//! of values in blob files. A manifest gives what each edit changed. A segment is read as part of
//! its directory, whose other segments say how far it counts.

use crate::batch::decode;
use crate::blob::{BlobIndex, BlobReader};
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::expiry;
use crate::key::{Comparator, Kind, SPACES_ORDER, parse};
use crate::manifest;
use crate::spaces::Spaces;
use crate::table::{ReadOptions, ReaderOptions, Table};
use crate::version::VersionEdit;
use keyrack_vfs::Fs;
use std::path::Path;
use std::sync::Arc;

/// The suffix of segments, see `docs/formats/wal.md`.
const SEGMENT_SUFFIX: &str = ".wal";

/// Something that a file of a store holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Item<'a> {
    /// A write: an entry of a table, or of a record of the log or of a blob file.
    Write {
        /// What it did: `put`, `put-until`, `merge`, `delete`, or `delete-range`; `put-blob` where
        /// a table has the place of a value in a blob file.
        kind: &'static str,
        /// Its sequence number.
        sequence: u64,
        /// The key; of a range tombstone the first one.
        key: &'a [u8],
        /// The value; of `put-blob` its place in words; of a range tombstone the first key behind
        /// it; nothing of a removed key.
        value: &'a [u8],
        /// When the value expires, in milliseconds since 1970; of `put-until` alone.
        expires_ms: Option<u64>,
    },
    /// One change of an edit of a manifest, in words.
    Change {
        /// Which edit: the first one is 0, and gives the whole state.
        edit: u64,
        /// The change.
        what: String,
    },
}

/// Gives what the file at `path` holds to `visit`, in the order of the file, until it returns
/// false. Tables are those of the order of bytes; keys of key spaces are shown with the prefix of
/// their space. O(bytes).
///
/// ```
/// # use keyrack_flodb::{Item, Options, SstWriter, dump};
/// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
/// let mut table = SstWriter::create(&*fs, "/new.table".as_ref(), &Options::new())?;
/// table.put(b"key", b"value")?;
/// table.finish()?;
/// let mut keys = Vec::new();
/// dump(&*fs, "/new.table".as_ref(), &mut |item| {
///     if let Item::Write { key, .. } = item {
///         keys.push(key.to_vec());
///     }
///     true
/// })?;
/// assert_eq!(keys, [b"key"]);
/// # Ok::<(), keyrack_flodb::Error>(())
/// ```
///
/// # Errors
/// [`Error::Usage`] if that is no file of a store, or one in another order;
/// [`Error::Corruption`] where it is damaged, behind what could be read; [`Error::Io`].
pub fn dump(fs: &dyn Fs, path: &Path, visit: &mut dyn FnMut(Item<'_>) -> bool) -> Result<()> {
    // A path without a name is of no known kind.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if name.ends_with(".table") {
        table(fs, path, visit)
    } else if name.ends_with(".blob") {
        blob(fs, path, visit)
    } else if name.starts_with("MANIFEST-") {
        edits(fs, path, visit)
    } else if let Some(start) = segment_start(&name) {
        segment(fs, path, start, visit)
    } else {
        Err(Error::Usage(format!(
            "{}: not the name of a table, a blob file, a manifest, or a segment of the log",
            path.display()
        )))
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Put => "put",
        Kind::Delete => "delete",
        Kind::DeleteRange => "delete-range",
        Kind::Blob => "put-blob",
        Kind::PutExpiring => "put-until",
        Kind::Merge => "merge",
    }
}

/// A write as it is shown. `None` if it is no whole one.
fn write<'a>(sequence: u64, kind: Kind, key: &'a [u8], stored: &'a [u8]) -> Option<Item<'a>> {
    let (expires_ms, value) = match kind {
        Kind::PutExpiring => {
            let (expires_ms, value) = expiry::split(stored)?;
            (Some(expires_ms), value)
        }
        Kind::Put | Kind::Blob | Kind::Merge | Kind::Delete | Kind::DeleteRange => (None, stored),
    };
    Some(Item::Write { kind: kind_name(kind), sequence, key, value, expires_ms })
}

fn table(fs: &dyn Fs, path: &Path, visit: &mut dyn FnMut(Item<'_>) -> bool) -> Result<()> {
    let order = if Table::stored_order(fs, path)? == SPACES_ORDER {
        Spaces::comparator(&[])?
    } else {
        Comparator::Bytewise
    };
    let table = Table::open(fs, path, 0, &ReaderOptions::alone(order.clone()));
    order.check_complete(path)?;
    let table = Arc::new(table?);
    let mut cursor = table.cursor(ReadOptions { fill_cache: false, ..ReadOptions::default() });
    cursor.seek_first()?;
    while let Some((key, value)) = cursor.entry() {
        let Some(entry) = parse(key) else {
            return Err(Error::corruption(path, 0, "an entry of an unknown kind"));
        };
        let place;
        let value = if entry.kind == Kind::Blob {
            place = place_of(value);
            place.as_bytes()
        } else {
            value
        };
        let Some(item) = write(entry.sequence, entry.kind, entry.user, value) else {
            return Err(Error::corruption(path, 0, "a value that expires without its expiry"));
        };
        if !visit(item) {
            break;
        }
        cursor.next()?;
    }
    Ok(())
}

/// Where a value is that has this blob index, in words.
fn place_of(index: &[u8]) -> String {
    match BlobIndex::take(index) {
        Some(BlobIndex { file, offset, stored_bytes }) => {
            format!("blob file {file}, byte {offset}, {stored_bytes} bytes")
        }
        None => "no place".to_owned(),
    }
}

/// The records of a blob file, also those that no table refers to any more.
fn blob(fs: &dyn Fs, path: &Path, visit: &mut dyn FnMut(Item<'_>) -> bool) -> Result<()> {
    let (blob, meta) = BlobReader::open(fs, path, None)?;
    let (mut wants_more, mut damage) = (true, None);
    blob.inspect(
        &meta,
        &mut |record| {
            let (sequence, key, value) = (record.sequence, record.user_key, record.value);
            let item = Item::Write { kind: "put", sequence, key, value, expires_ms: None };
            wants_more = wants_more && visit(item);
            Ok(())
        },
        &mut |offset, what| {
            damage.get_or_insert((offset, what));
        },
    )?;
    match damage {
        Some((offset, what)) if wants_more => Err(Error::corruption(path, offset, what)),
        _ => Ok(()),
    }
}

fn edits(fs: &dyn Fs, path: &Path, visit: &mut dyn FnMut(Item<'_>) -> bool) -> Result<()> {
    let mut number = 0;
    manifest::edits(fs, path, &mut |edit| {
        let mut changes = changes(edit).into_iter();
        let wants_more = changes.all(|what| visit(Item::Change { edit: number, what }));
        number += 1;
        wants_more
    })
}

/// The changes of an edit in words.
fn changes(edit: &VersionEdit) -> Vec<String> {
    let mut changes = Vec::new();
    if let Some(name) = &edit.comparator {
        changes.push(format!("keys are in the order {name}"));
    }
    let numbers = [
        ("the log counts from position", edit.log_from),
        ("the next file has the number", edit.next_file),
        ("the last sequence number in a table is", edit.last_sequence),
    ];
    let log_id = edit.log_id.map(|id| format!("the log has the identity {id:016x}"));
    let known = numbers.iter().filter_map(|(what, number)| Some((what, (*number)?)));
    changes.extend(known.map(|(what, number)| format!("{what} {number}")));
    changes.extend(log_id);
    let operator = edit.merge_operator.iter();
    changes.extend(operator.map(|name| format!("the merge operator is {name}")));
    changes.extend(edit.has_expiries.then(|| "values may expire".to_owned()));
    changes.extend(edit.options.as_ref().map(|options| format!("it is written with {options}")));
    changes.extend(
        edit.deleted.iter().map(|(level, number)| format!("level {level} loses table {number}")),
    );
    changes.extend(edit.blobs.iter().map(|blob| {
        let (number, records, bytes) = (blob.number, blob.records, blob.record_bytes);
        format!("there is blob file {number}: {records} records, {bytes} bytes")
    }));
    changes.extend(edit.added.iter().map(|(level, file)| {
        format!(
            "level {level} gets table {}: {} bytes, {} entries, {} removals, sequences {} to {}, \
             keys '{}' to '{}'",
            file.number,
            file.bytes,
            file.entries,
            file.deletes,
            file.sequence_min,
            file.sequence_max,
            file.first().escape_ascii(),
            file.last().escape_ascii(),
        )
    }));
    changes.extend(edit.pointers.iter().map(|(level, key)| {
        format!("compactions of level {level} go on behind '{}'", key.escape_ascii())
    }));
    changes
}

/// The LSN at which a segment begins, by its name.
fn segment_start(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SEGMENT_SUFFIX)?;
    if digits.len() != 16 {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

/// Why the reading of a log ends.
enum End {
    /// Everything that was asked for is read.
    Done,
    Failed(Error),
}

impl From<keyrack_wal::Error> for End {
    fn from(error: keyrack_wal::Error) -> Self {
        End::Failed(error.into())
    }
}

fn segment(
    fs: &dyn Fs,
    path: &Path,
    start: u64,
    visit: &mut dyn FnMut(Item<'_>) -> bool,
) -> Result<()> {
    fs.metadata(path)?;
    let dir = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let names = fs.list(dir)?;
    let starts = names.iter().filter_map(|entry| segment_start(&entry.name.to_string_lossy()));
    let end = starts.filter(|other| *other > start).min().unwrap_or(u64::MAX);
    let read = keyrack_wal::salvage(fs, dir, Some(start), None, &mut |position, payload| {
        if position >= end {
            return Err(End::Done);
        }
        let Some(writes) = decode(payload) else {
            let what = format!("the record at position {position} does not hold a batch");
            return Err(End::Failed(Error::corruption(path, position - start, what)));
        };
        for (sequence, write) in (position..).zip(writes) {
            let item = self::write(sequence, write.kind, write.key, write.value);
            if !visit(item.expect("a batch is checked when it is decoded")) {
                return Err(End::Done);
            }
        }
        Ok(())
    });
    match read {
        Ok(salvaged) => match salvaged.holes.into_iter().find(|hole| hole.path == path) {
            Some(hole) => Err(Error::corruption(path, hole.offset, hole.what)),
            None => Ok(()),
        },
        Err(End::Done) => Ok(()),
        Err(End::Failed(error)) => Err(error),
    }
}

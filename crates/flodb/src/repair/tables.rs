//! The tables of a repair: found by what is in them, whatever their names; copied as far as they
//! are sound; merged. Ranges that a table removes lie apart from its entries, in one block: they
//! are kept if that is sound, also of a table that does not open any more.

use super::blobs::{Blobs, LostValues, Value};
use crate::cache::BlockCache;
use crate::check::Finding;
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::iterator::{Child, Merge};
use crate::key::{Comparator, Kind, SEQUENCE_MAX, parse, user_of};
use crate::manifest::{FileName, FileNumber, FileNumbers};
use crate::open_table::table_path;
use crate::options::Options;
use crate::range_tombstones::RangeTombstone;
use crate::table::{Lost, ReadOptions, Table, TableMeta, TableWriter, Unsound, salvage};
use crate::version::FileMeta;
use keyrack_vfs::{Fs, OpenOptions};
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a file is.
pub(super) enum Content {
    /// A whole table.
    Sound(TableMeta),
    /// A table that opens, of which some is damaged.
    Partly(TableMeta),
    /// What is named as a table, and does not open.
    Scraps,
}

/// A file that is, or should be, a table.
pub(super) struct Found {
    pub(super) path: PathBuf,
    /// That of its name.
    pub(super) number: Option<u64>,
    pub(super) content: Content,
    /// What is wrong with it.
    pub(super) findings: Vec<Finding>,
}

impl Found {
    pub(super) fn meta(&self) -> Option<&TableMeta> {
        match &self.content {
            Content::Sound(meta) | Content::Partly(meta) => Some(meta),
            Content::Scraps => None,
        }
    }

    pub(super) fn is_sound(&self) -> bool {
        matches!(self.content, Content::Sound(_))
    }
}

/// What writes tables, and reads them.
pub(super) struct TableIo<'a> {
    pub(super) fs: &'a dyn Fs,
    pub(super) dir: &'a Path,
    pub(super) options: &'a Options,
    pub(super) numbers: Arc<FileNumbers>,
    pub(super) blobs: Arc<Blobs>,
    /// Of the files that were written, so that nobody else gets them.
    pub(super) issued: Vec<FileNumber>,
}

impl TableIo<'_> {
    pub(super) fn order(&self) -> &Comparator {
        &self.options.comparator
    }

    pub(super) fn open(&self, path: &Path, sequence: Option<u64>) -> Result<Table> {
        let options = self.options.reader(Arc::new(BlockCache::new(0)));
        let table = Table::open(self.fs, path, 0, &options)?;
        Ok(table.with_sequence(sequence))
    }

    /// Looks at a file. `None` if it is of no interest: not a table, and not named as one.
    pub(super) fn look(&self, path: &Path) -> Result<Option<Found>> {
        let number = path.file_name().and_then(|name| match FileName::parse(name) {
            Some(FileName::Table(number)) => Some(number),
            _ => None,
        });
        let mut findings = Vec::new();
        let content = match self.open(path, None) {
            Ok(table) => {
                let (mut lost, mut inlined, mut buffer) = (LostValues::default(), 0, Vec::new());
                let mut entry = |key: &[u8], value: &[u8]| -> Result<()> {
                    let Some(entry) = parse(key).filter(|entry| entry.kind == Kind::Blob) else {
                        return Ok(());
                    };
                    match self.blobs.value(&entry, value, &mut buffer)? {
                        Value::Apart => {}
                        Value::Within(_) => inlined += 1,
                        Value::Lost(finding) => lost.add(entry.user, finding),
                    }
                    Ok(())
                };
                table.inspect(&mut entry, &mut |unsound| {
                    findings.push(Finding::damage(path, unsound.offset, unsound.what));
                })?;
                findings.append(&mut lost.into_findings(false));
                if inlined > 0 {
                    let what = format!("{inlined} values of it are in damaged blob files");
                    findings.push(Finding::damage(path, 0, what));
                }
                let meta = table.meta().clone();
                if findings.is_empty() { Content::Sound(meta) } else { Content::Partly(meta) }
            }
            // Of another order, or of a later version.
            Err(Error::Usage(_)) if number.is_none() => return Ok(None),
            Err(error) => {
                let (offset, what) = error.into_damage()?;
                if number.is_none() {
                    return Ok(None);
                }
                findings.push(Finding::damage(path, offset, what));
                Content::Scraps
            }
        };
        Ok(Some(Found { path: path.to_owned(), number, content, findings }))
    }

    /// A new name for a table, and its number.
    pub(super) fn issue(&mut self) -> (u64, PathBuf) {
        let issued = self.numbers.issue();
        let number = issued.get();
        self.issued.push(issued);
        (number, table_path(self.dir, number))
    }

    /// Copies what is sound of a damaged table into a new one, which is for `level`: the entries
    /// that `is_wanted` has, with the sequence number that they all have, if there is one. `None`
    /// if there are none. What is lost goes to `losses`.
    pub(super) fn save(
        &mut self,
        found: &Found,
        level: usize,
        sequence: Option<u64>,
        is_wanted: &dyn Fn(&[u8]) -> bool,
        losses: &mut Vec<Finding>,
    ) -> Result<Option<Arc<FileMeta>>> {
        let order = self.order().clone();
        let table = match found.meta() {
            Some(_) => Some(self.open(&found.path, None)?),
            None => None,
        };
        let file = self.fs.open(&found.path, &OpenOptions::new().read(true))?;
        let blobs = Arc::clone(&self.blobs);
        let mut output = Output::new(self, level, u64::MAX);
        let (mut own, mut buffer, mut lost) = (Vec::new(), Vec::new(), LostValues::default());
        let mut entry = |key: &[u8], value: &[u8]| -> Result<()> {
            if !is_wanted(key) {
                return Ok(());
            }
            if let Some(entry) = parse(key).filter(|entry| entry.kind == Kind::Blob) {
                return match blobs.value(&entry, value, &mut buffer)? {
                    Value::Apart => output.add(key, value),
                    Value::Within(value) => {
                        own.clear();
                        crate::key::append(&mut own, entry.user, entry.sequence, Kind::Put);
                        output.add(&own, value)
                    }
                    Value::Lost(finding) => {
                        lost.add(entry.user, finding);
                        Ok(())
                    }
                };
            }
            match (sequence, parse(key)) {
                (Some(sequence), Some(parsed)) => {
                    own.clear();
                    crate::key::append(&mut own, parsed.user, sequence, parsed.kind);
                    output.add(&own, value)
                }
                _ => output.add(key, value),
            }
        };
        let mut unsound = |unsound: Unsound| losses.push(loss(&found.path, unsound));
        match table {
            Some(table) => {
                table.inspect(&mut entry, &mut unsound)?;
                ranges_of(&table).into_iter().try_for_each(|range| output.add_range(range))?;
            }
            None => {
                let mut ranges = Vec::new();
                let mut keep = |range| {
                    ranges.push(range);
                    Ok(())
                };
                salvage(&*file, &order, &mut entry, &mut keep, &mut unsound)?;
                ranges.into_iter().try_for_each(|range| output.add_range(range))?;
            }
        }
        let saved = output.finish()?.pop();
        losses.append(&mut lost.into_findings(true));
        Ok(saved)
    }

    /// Merges tables into new ones, which are for `level`. An entry that is in several of them is
    /// there once afterwards. An operand goes if a value or tombstone has its number: that one was
    /// made of it, or at the same moment.
    pub(super) fn merge(&mut self, sources: &[Source], level: usize) -> Result<Vec<Arc<FileMeta>>> {
        let options = ReadOptions { fill_cache: false, ..ReadOptions::default() };
        let mut children = Vec::new();
        let mut ranges = Vec::new();
        for source in sources {
            let table = Arc::new(self.open(&source.path, source.file.sequence)?);
            ranges.append(&mut ranges_of(&table));
            children.push(Child::Table(table.cursor(options)));
        }
        let mut entries = Merge::new(children, self.order().clone());
        // A range tombstone is not cut here, so it stays with everything that it may remove.
        let table_bytes = if ranges.is_empty() { self.options.table_bytes } else { u64::MAX };
        let mut output = Output::new(self, level, table_bytes);
        // Operands come before what else has their number.
        let mut operand: Option<(Vec<u8>, Vec<u8>)> = None;
        entries.seek_first()?;
        while let Some((key, value)) = entries.entry() {
            if let Some((held, value)) = operand.take()
                && !is_replaced(&held, key)
            {
                output.add(&held, &value)?;
            }
            if parse(key).is_some_and(|entry| entry.kind == Kind::Merge) {
                operand = Some((key.to_vec(), value.to_vec()));
            } else {
                output.add(key, value)?;
            }
            entries.next()?;
        }
        if let Some((held, value)) = operand {
            output.add(&held, &value)?;
        }
        ranges.sort_by(|a, b| (a.sequence, &a.begin).cmp(&(b.sequence, &b.begin)));
        ranges.dedup();
        ranges.into_iter().try_for_each(|range| output.add_range(range))?;
        output.finish()
    }

    /// Removes the new tables that are not among `files`: nobody needs them.
    pub(super) fn discard_but(&self, files: &[Arc<FileMeta>]) {
        for issued in &self.issued {
            if files.iter().all(|file| file.number != issued.get()) {
                let _ = self.fs.remove_file(&table_path(self.dir, issued.get()));
            }
        }
    }
}

/// A sound table that may be merged with others.
pub(super) struct Source {
    pub(super) path: PathBuf,
    pub(super) file: Arc<FileMeta>,
    /// The furthest user key that it says anything of.
    pub(super) high: Vec<u8>,
}

impl Source {
    pub(super) fn new(io: &TableIo<'_>, path: &Path, file: FileMeta) -> Result<Self> {
        let order = io.order();
        let table = io.open(path, file.sequence)?;
        let end = table.range_tombstones().map(|ranges| ranges.high());
        let high = end.into_iter().chain([file.last()]).max_by(|a, b| order.user(a, b));
        let high = high.expect("the last key is among them").to_vec();
        let mut file = file;
        if order.user(file.last(), &high) == Ordering::Less {
            file.largest.clear();
            crate::key::append(&mut file.largest, &high, SEQUENCE_MAX, Kind::BOUND);
        }
        Ok(Source { path: path.to_owned(), file: Arc::new(file), high })
    }
}

/// Whether `next`, the entry after an operand, is something else with its key and number.
fn is_replaced(operand: &[u8], next: &[u8]) -> bool {
    parse(operand).zip(parse(next)).is_some_and(|(operand, next)| {
        (operand.user, operand.sequence) == (next.user, next.sequence) && next.kind != Kind::Merge
    })
}

/// The ranges that a table removes.
fn ranges_of(table: &Table) -> Vec<RangeTombstone> {
    table.range_tombstones().into_iter().flat_map(|index| index.ranges()).collect()
}

/// Parts the sources into groups that have no keys in common.
pub(super) fn groups(mut sources: Vec<Source>, order: &Comparator) -> Vec<Vec<Source>> {
    sources.sort_by(|a, b| order.user(a.file.first(), b.file.first()));
    let mut groups: Vec<(Vec<u8>, Vec<Source>)> = Vec::new();
    for source in sources {
        match groups.last_mut() {
            Some((high, group)) if order.user(source.file.first(), high).is_le() => {
                if order.user(high, &source.high).is_lt() {
                    high.clone_from(&source.high);
                }
                group.push(source);
            }
            _ => groups.push((source.high.clone(), vec![source])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// A user key as it is said.
pub(super) fn escaped(user_key: &[u8]) -> String {
    user_key.escape_ascii().to_string()
}

/// What an unsound place costs.
fn loss(path: &Path, unsound: Unsound) -> Finding {
    let Unsound { offset, mut what, lost } = unsound;
    if let Some(Lost { after, until }) = lost {
        let key = |key: &[u8]| escaped(user_of(key));
        what.push_str("; lost are entries");
        match after {
            Some(after) => what.push_str(&format!(" from {} on", key(&after))),
            None => what.push_str(" from the first one on"),
        }
        if let Some(until) = until {
            what.push_str(&format!(", up to {}", key(&until)));
        }
    }
    Finding::damage(path, offset, what)
}

/// Tables that are being written.
pub(super) struct Output<'a, 'w> {
    io: &'a mut TableIo<'w>,
    level: usize,
    table_bytes: u64,
    writer: Option<(u64, TableWriter)>,
    last: Vec<u8>,
    built: Vec<Arc<FileMeta>>,
}

impl<'a, 'w> Output<'a, 'w> {
    /// Tables for `level`, each of which ends with the key that brings it to so many bytes.
    pub(super) fn new(io: &'a mut TableIo<'w>, level: usize, table_bytes: u64) -> Self {
        Output { io, level, table_bytes, writer: None, last: Vec::new(), built: Vec::new() }
    }

    /// Adds an entry that is not before the last one, unless it is the same.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if let Some((_, writer)) = &self.writer {
            if self.last == key {
                return Ok(());
            }
            let is_new = user_of(&self.last) != user_of(key);
            if is_new && writer.written_bytes() >= self.table_bytes {
                self.end()?;
            }
        }
        self.writer()?.add(key, value)?;
        self.last.clear();
        self.last.extend_from_slice(key);
        Ok(())
    }

    /// Adds a range tombstone to the table in work.
    pub(super) fn add_range(&mut self, range: RangeTombstone) -> Result<()> {
        self.writer()?.add_range(range)
    }

    /// The writer of the table in work.
    fn writer(&mut self) -> Result<&mut TableWriter> {
        let (_, writer) = match &mut self.writer {
            Some(writer) => writer,
            none => {
                let (number, path) = self.io.issue();
                let create = OpenOptions::new().read(true).write(true).create_new(true);
                let file = self.io.fs.open(&path, &create)?;
                let options = self.io.options.table(self.level, 1);
                none.insert((number, TableWriter::new(file, options)?))
            }
        };
        Ok(writer)
    }

    fn end(&mut self) -> Result<()> {
        // No table is in work.
        let Some((number, writer)) = self.writer.take() else { return Ok(()) };
        let file = FileMeta::new(number, writer.finish()?);
        let path = table_path(self.io.dir, number);
        self.built.push(Source::new(self.io, &path, file)?.file);
        Ok(())
    }

    /// The tables.
    pub(super) fn finish(mut self) -> Result<Vec<Arc<FileMeta>>> {
        self.end()?;
        Ok(self.built)
    }
}

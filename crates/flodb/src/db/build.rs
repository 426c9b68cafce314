//! Turning a sorted sequence of entries into tables, without what nobody can see any more.
//!
//! Of a key, everything stays that is newer than the oldest moment in use, and the newest version
//! up to there. A removal that is the newest up to there goes as well, when no level below has the
//! key.

use super::Inner;
use crate::compaction::OutputCuts;
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::key::{Kind, parse};
use crate::manifest::FileNumber;
use crate::table::{Table, TableOptions, TableWriter};
use crate::version::FileMeta;
use crate::view::{OpenTable, file_meta, table_path};
use keyrack_vfs::OpenOptions;
use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What to write, and what may go.
pub(crate) struct Recipe<'a> {
    /// The level that the tables are for.
    pub(crate) level: usize,
    /// Bytes after which the next table begins.
    pub(crate) table_bytes: u64,
    /// The oldest moment in use.
    pub(crate) oldest: u64,
    /// Where else the next table begins, so that none shares keys with too much of the level below.
    pub(crate) cuts: Option<OutputCuts<'a>>,
    /// Whether a key may be in a level below.
    pub(crate) is_below: &'a dyn Fn(&[u8]) -> bool,
}

/// Tables that are written, and in no version yet.
pub(crate) struct Built {
    pub(crate) tables: Vec<Arc<OpenTable>>,
    pub(crate) bytes: u64,
    /// Keep the files from being taken for left-overs until a version names them.
    _numbers: Vec<FileNumber>,
}

impl Inner {
    /// Writes what `entries` gives, from its first entry on. The tables are synced, and so is the
    /// directory.
    pub(crate) fn build(&self, entries: &mut dyn Cursor, recipe: Recipe<'_>) -> Result<Built> {
        let (built, numbers) = (Vec::new(), Vec::new());
        let mut output = Output { inner: self, recipe, writer: None, built, numbers };
        let result = output.write(entries).and_then(|()| output.end());
        if let Err(error) = result {
            output.discard();
            return Err(error);
        }
        if !output.built.is_empty() {
            self.fs.sync_dir(&self.dir)?;
        }
        let bytes = output.built.iter().map(|table| table.file().bytes).sum();
        Ok(Built { tables: output.built, bytes, _numbers: output.numbers })
    }

    pub(crate) fn open_table(&self, file: Arc<FileMeta>) -> Result<Arc<OpenTable>> {
        let path = table_path(&self.dir, file.number);
        let order = self.options.comparator.clone();
        let table = Table::open(&*self.fs, &path, file.number, Arc::clone(&self.cache), order)?;
        Ok(OpenTable::new(table, file, Arc::clone(&self.fs), path))
    }
}

struct Output<'a> {
    inner: &'a Inner,
    recipe: Recipe<'a>,
    writer: Option<(u64, PathBuf, TableWriter)>,
    built: Vec<Arc<OpenTable>>,
    numbers: Vec<FileNumber>,
}

impl Output<'_> {
    fn write(&mut self, entries: &mut dyn Cursor) -> Result<()> {
        let order = &self.inner.options.comparator;
        // The last key, and whether a version of it up to the oldest moment was met.
        let mut last: Vec<u8> = Vec::new();
        let (mut first, mut covered) = (true, false);
        entries.seek_first()?;
        while let Some((key, value)) = entries.entry() {
            let entry = parse(key).ok_or_else(|| {
                Error::corruption(&self.inner.dir, 0, "an entry of an unknown kind")
            })?;
            let same = !first && order.user(entry.user, &last) == Ordering::Equal;
            if !same {
                last.clear();
                last.extend_from_slice(entry.user);
                (first, covered) = (false, false);
                self.cut(entry.user)?;
            }
            let hidden = covered;
            covered |= entry.sequence <= self.recipe.oldest;
            let over = entry.kind == Kind::Delete
                && entry.sequence <= self.recipe.oldest
                && !(self.recipe.is_below)(entry.user);
            if !hidden && !over {
                self.add(key, value)?;
            }
            entries.next()?;
        }
        Ok(())
    }

    /// Ends the table before `key` if it is large enough, or shares keys with enough of the level
    /// below. Only between keys, so that a key is in one table of a level.
    fn cut(&mut self, key: &[u8]) -> Result<()> {
        let order = &self.inner.options.comparator;
        let is_due = self.recipe.cuts.as_mut().is_some_and(|cuts| cuts.is_due(key, order));
        let written = self.writer.as_ref().map_or(0, |(_, _, writer)| writer.written_bytes());
        if is_due || written >= self.recipe.table_bytes { self.end() } else { Ok(()) }
    }

    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.writer.is_none() {
            if let Some(cuts) = &mut self.recipe.cuts {
                cuts.restart();
            }
            let issued = self.inner.numbers.issue();
            let number = issued.get();
            self.numbers.push(issued);
            let path = table_path(&self.inner.dir, number);
            let create = OpenOptions::new().read(true).write(true).create(true).truncate(true);
            let file = self.inner.fs.open(&path, &create)?;
            let options = self.table_options();
            self.writer = Some((number, path, TableWriter::new(file, options)?));
        }
        match &mut self.writer {
            Some((_, _, writer)) => writer.add(key, value),
            None => Ok(()),
        }
    }

    fn table_options(&self) -> TableOptions {
        let options = &self.inner.options;
        TableOptions {
            block_bytes: options.block_bytes,
            restart_interval: options.restart_interval,
            compression: options.compression_of(self.recipe.level),
            filter_bits_per_key: options.filter_bits_per_key,
            comparator: options.comparator.clone(),
        }
    }

    fn end(&mut self) -> Result<()> {
        let Some((number, path, writer)) = self.writer.take() else { return Ok(()) };
        let meta = match writer.finish() {
            Ok(meta) => meta,
            Err(error) => {
                remove(self.inner, &path);
                return Err(error);
            }
        };
        match self.inner.open_table(Arc::new(file_meta(number, meta))) {
            Ok(table) => self.built.push(table),
            Err(error) => {
                remove(self.inner, &path);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Removes what was written. If that fails, the next opening does it: no version names it.
    fn discard(&mut self) {
        if let Some((_, path, writer)) = self.writer.take() {
            drop(writer);
            remove(self.inner, &path);
        }
        self.built.iter().for_each(|table| table.set_obsolete());
    }
}

fn remove(inner: &Inner, path: &Path) {
    let _ = inner.fs.remove_file(path);
}

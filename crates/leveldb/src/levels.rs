//! Tables one behind the other, as a level below level 0 is; a table of level 0 is such a row of
//! one. Only the table here is open.

use crate::error::{Error, Lost, Result};
use crate::key::Parsed;
use crate::manifest::TableMeta;
use crate::table::{Step, TableCursor};
use keyrack_vfs::Fs;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A walk over a row of tables. It starts before the first entry.
pub(crate) struct Row {
    fs: Arc<dyn Fs>,
    dir: PathBuf,
    rest: VecDeque<TableMeta>,
    here: Option<TableCursor>,
}

impl Row {
    pub(crate) fn new(fs: Arc<dyn Fs>, dir: &Path, tables: Vec<TableMeta>) -> Self {
        Row { fs, dir: dir.to_owned(), rest: tables.into(), here: None }
    }

    /// The entry here.
    pub(crate) fn entry(&self) -> Option<(Parsed<'_>, &[u8])> {
        self.here.as_ref().and_then(TableCursor::entry)
    }

    /// Goes to the next entry. What cannot be read is given to `lose`, which says whether to go on.
    pub(crate) fn advance(&mut self, lose: &mut dyn FnMut(Lost) -> Result<()>) -> Result<bool> {
        loop {
            let Some(here) = &mut self.here else {
                let Some(meta) = self.rest.pop_front() else { return Ok(false) };
                match open(&*self.fs, &self.dir, meta) {
                    Ok(cursor) => self.here = Some(cursor),
                    Err(error) => lose(as_lost(error)?)?,
                }
                continue;
            };
            match here.advance()? {
                Step::Entry => return Ok(true),
                Step::End => self.here = None,
                Step::Lost(lost) => lose(lost)?,
            }
        }
    }
}

fn open(fs: &dyn Fs, dir: &Path, meta: TableMeta) -> Result<TableCursor> {
    let path = table_path(fs, dir, meta.number)?;
    TableCursor::open(fs, &path, meta)
}

/// Where the table is: old versions of LevelDB used another suffix.
fn table_path(fs: &dyn Fs, dir: &Path, number: u64) -> Result<PathBuf> {
    let path = dir.join(format!("{number:06}.ldb"));
    if fs.exists(&path)? {
        return Ok(path);
    }
    let old = dir.join(format!("{number:06}.sst"));
    if fs.exists(&old)? {
        return Ok(old);
    }
    Err(Error::corruption(&path, 0, "the manifest names this table, and it is missing"))
}

/// A table that cannot be opened for what is in it; other errors stay errors.
fn as_lost(error: Error) -> Result<Lost> {
    match error {
        Error::Corruption { path, offset, what } => {
            Ok(Lost { path, offset, bytes: 0, what, is_cut_tail: false })
        }
        error => Err(error),
    }
}

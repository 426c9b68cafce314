//! Many logs into few, by as many workers as there are: what the parallel compaction of DeltaFS is
//! for, without putting any record through a memory table again.
//!
//! ```text
//!   r3  ====================        sorted runs of all logs
//!   r2  ====================
//!   r1  ====================            each part reads its range of every log,
//!   r0  ====================            merges, and writes tables straight out
//!           |      |     |
//!       part 0   part 1  part 2     cut at keys that halve, third, ... the bytes
//! ```
//!
//! Logs are in the order of keys as they are written, so a range of keys is a range of every table:
//! any number of parts can be cut, and each byte is read by one part only. How many logs there
//! were, how many parts are made, and how many servers read them has nothing to do with each
//! other; every part reads every log.
//!
//! Of a name that several logs have, the log that is higher in the list wins, as in
//! [`Namespace::open_read_only`](crate::Namespace::open_read_only); logs of ranks are in the order
//! of ranks, the highest first. Directories are folded, not overridden. So the result follows from
//! the list, whatever the timing; what lost is counted and named.
//!
//! The bytes of large files are copied to the part that has their records.
//!
//! While a merge is under way its directory holds the file `MERGING`, and `MERGED` afterwards.

mod cut;

use crate::contents::{self, Contents};
use crate::error::{Error, Result, if_found, shown};
use crate::id::{DirId, LogId};
use crate::layers::{Merged, count_dirs};
use crate::open::{FORMAT, LogHead};
use crate::record::{Entry, KIND_WHITEOUT, Key, Node, Touched, is_sized};
use keyrack_flodb::{Db, IngestOptions, Options, SstWriter, Transfer};
use keyrack_vfs::{FileKind, Fs};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A merge that has come to its end.
const MERGED: &str = "MERGED";
/// A merge that has begun.
const MERGING: &str = "MERGING";
/// Bytes of a table that a part writes.
const TABLE_BYTES: u64 = 32 << 20;
/// Names of losers that are kept to be shown.
const SHOWN_MAX: usize = 10;

/// What a finished merge says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// How many parts, `r0` and so on.
    pub parts: u32,
    /// How many logs were read.
    pub logs: u32,
    /// Records in the parts.
    pub records: u64,
}

/// What a part came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartCount {
    /// Records that were read, of all logs.
    pub read: u64,
    /// Records that were written.
    pub written: u64,
    /// Bytes of keys and values that were read.
    pub bytes_read: u64,
    /// Bytes of tables and of large files that were written.
    pub bytes_written: u64,
    /// Calls that wrote the tables, and one for each large file.
    pub writes: u64,
    /// Large files whose bytes came along.
    pub contents: u64,
    /// Names that several logs have, and not as one directory.
    pub conflicts: u64,
    /// Some of them.
    pub shown: Vec<String>,
}

/// The logs of the ranks in a directory, `r0`, `r1`, and so on, in the order in which they win: the
/// highest rank first. A finished merge is a list of parts, which have no names in common.
///
/// # Errors
/// [`Error::Usage`] if there are none, one is missing between others, or a merge did not come to
/// its end there.
pub fn logs_in(fs: &dyn Fs, dir: &Path) -> Result<Vec<PathBuf>> {
    let mut ranks = Vec::new();
    let usage = |what: &str| Error::Usage(format!("{}: {what}", dir.display()));
    let names = if_found(fs.list(dir))?;
    for entry in names.ok_or_else(|| usage("there is no such directory"))? {
        let name = entry.name.to_string_lossy().into_owned();
        if name == MERGING {
            return Err(usage("a merge into it did not come to its end: run it again"));
        }
        let number = name.strip_prefix('r').and_then(|number| number.parse::<u32>().ok());
        if let Some(number) = number.filter(|number| name == format!("r{number}"))
            && entry.kind == FileKind::Dir
        {
            ranks.push(number);
        }
    }
    ranks.sort_unstable();
    if ranks.is_empty() {
        return Err(usage("there are no logs in it; expected r0, r1, and so on"));
    }
    let summary = read_summary(fs, dir)?;
    if let Some(Summary { parts, .. }) = summary
        && let Some(more) = ranks.iter().find(|rank| **rank >= parts)
    {
        let path = dir.join(MERGED);
        let what = format!("it says that there are {parts} parts, and r{more} is there");
        return Err(Error::Corruption { path, what });
    }
    let expected = match summary {
        Some(summary) => summary.parts,
        None => ranks.last().map_or(0, |last| last.saturating_add(1)),
    };
    if let Some(absent) = (0..expected).find(|rank| ranks.binary_search(rank).is_err()) {
        return Err(usage(&format!("r{absent} is missing, and nothing else has what it had")));
    }
    Ok((0..expected).rev().map(|rank| dir.join(format!("r{rank}"))).collect())
}

fn read_summary(fs: &dyn Fs, dir: &Path) -> Result<Option<Summary>> {
    let path = dir.join(MERGED);
    let Some(text) = if_found(fs.read(&path))? else { return Ok(None) };
    let damaged = |what: serde_json::Error| Error::Corruption { path, what: what.to_string() };
    serde_json::from_slice(&text).map(Some).map_err(damaged)
}

/// Logs to be merged, opened.
#[derive(Debug)]
pub struct Merge {
    fs: Arc<dyn Fs>,
    logs: Vec<Db>,
    /// What the logs say that they were begun on; the parts do too.
    base: Vec<u8>,
    ids: Vec<LogId>,
}

impl Merge {
    /// Opens logs for reading, the highest first. What their writers left in their write-ahead
    /// logs is read as well.
    ///
    /// # Errors
    /// Those of opening; [`Error::Usage`] if one is no log, one has hard links, whose names and
    /// records would come to lie in different parts, or they were begun on different ones;
    /// [`Error::Unsettled`] if servers left something half done: see [`crate::rpc::recover`].
    pub fn open(fs: Arc<dyn Fs>, dirs: &[PathBuf]) -> Result<Merge> {
        let options =
            Options { create_if_missing: false, compaction_threads: 0, ..Options::default() };
        let (mut logs, mut ids) = (Vec::new(), Vec::new());
        let mut base = None;
        for dir in dirs {
            let db = Db::open_read_only_in(Arc::clone(&fs), dir, options.clone())?;
            let its_base = db.get(&Key::entry(DirId::SYSTEM, b"base"))?;
            let (Some(head), Some(its_base)) = (LogHead::of(&db)?, its_base) else {
                return Err(Error::Usage(format!("{}: it is no log", dir.display())));
            };
            if head.has_links {
                return Err(Error::Usage(format!(
                    "{}: it has hard links, which a merge cannot keep; publish it, and read it \
                     in a view",
                    dir.display()
                )));
            }
            ids.push(head.log);
            if *base.get_or_insert_with(|| its_base.clone()) != its_base {
                return Err(Error::Usage(format!(
                    "{}: it was begun on other logs than the rest; merge those that have the \
                     same base",
                    dir.display()
                )));
            }
            if crate::rpc::txn::recovery::has_unfinished(&db)? {
                let what = "its servers left something half done, which has to be settled first";
                return Err(Error::Unsettled(format!("{}: {what}", dir.display())));
            }
            logs.push(db);
        }
        let base = base.ok_or_else(|| Error::Usage("there are no logs to merge".to_owned()))?;
        crate::rpc::txn::recovery::check_all_are_here(&logs)?;
        Ok(Merge { fs, logs, base, ids })
    }

    /// The stores of the logs, the highest first: for what they count.
    #[must_use]
    pub fn stores(&self) -> &[Db] {
        &self.logs
    }

    /// How many logs.
    #[must_use]
    pub fn logs(&self) -> usize {
        self.logs.len()
    }

    /// Keys that cut everything into `parts` parts of about as many bytes: one less than parts.
    ///
    /// # Errors
    /// A log cannot be read.
    pub fn cuts(&self, parts: u32) -> Result<Vec<Vec<u8>>> {
        cut::cuts(&self.logs, parts)
    }

    /// Merges one part into a store in `dir`, which must not exist.
    ///
    /// # Errors
    /// A log is damaged, or the store cannot be written.
    pub fn part(&self, cuts: &[Vec<u8>], part: u32, dir: &Path) -> Result<PartCount> {
        let index = part as usize;
        let from = match index.checked_sub(1) {
            Some(before) => cuts[before].clone(),
            None => Key::node(DirId::ROOT).to_vec(),
        };
        let to = cuts.get(index).map(Vec::as_slice);
        let mut count = PartCount::default();
        let mut tables = Tables::new(self.fs.as_ref(), dir)?;
        self.head(part, &mut tables)?;
        // The store comes first: it has the checksums of large files.
        let db = Db::open_in(Arc::clone(&self.fs), dir, Options::default())?;
        self.run((&from, to), &db, &mut tables, &mut count)?;
        if count.contents > 0 {
            contents::carried(self.fs.as_ref(), dir)?;
        }
        let (paths, written) = tables.finish()?;
        count.bytes_written += written.bytes;
        count.writes += written.writes;
        db.ingest(&paths, IngestOptions { transfer: Transfer::Move })?;
        db.flush()?;
        db.close()?;
        Ok(count)
    }

    /// What a part says about itself; it sorts before everything else.
    fn head(&self, part: u32, tables: &mut Tables<'_>) -> Result<()> {
        // The same logs give the same numbers, in whatever order ranks come.
        let mut entropy: Vec<[u8; 8]> = self.ids.iter().map(|id| id.0.to_be_bytes()).collect();
        entropy.push(u64::from(part).to_be_bytes());
        let entropy: Vec<&[u8]> = entropy.iter().map(|bytes| &bytes[..]).collect();
        let log = LogId::draw(&entropy);
        let mut put =
            |name: &[u8], value: &[u8]| tables.put(&Key::entry(DirId::SYSTEM, name), value);
        put(b"base", &self.base)?;
        put(b"epoch", &1_u64.to_be_bytes())?;
        put(b"format", FORMAT)?;
        put(b"log", &log.0.to_be_bytes())
    }

    fn run(
        &self,
        (from, to): (&[u8], Option<&[u8]>),
        store: &Db,
        tables: &mut Tables<'_>,
        count: &mut PartCount,
    ) -> Result<()> {
        let contents = Contents::of(&self.fs, &self.logs)?;
        let has_base = self.base != b"[]";
        let mut walk = Merged::new(&self.logs, from, None)?;
        while walk.next()? {
            let key = walk.key();
            if to.is_some_and(|to| key >= to) {
                break;
            }
            let holders = walk.holders().len();
            count.read += holders as u64;
            for n in 0..holders {
                count.bytes_read += (key.len() + walk.value(n).len()) as u64;
            }
            let (dir, name) = walk.entry_key()?;
            let folded;
            let value = if holders == 1 {
                walk.value(0)
            } else if name.is_empty() {
                folded = fold(&walk, &self.logs, has_base)?;
                &folded
            } else {
                self.report(&walk, count)?;
                walk.value(0)
            };
            // Without logs below there is nothing left to hide.
            if !has_base && value == [KIND_WHITEOUT] {
                continue;
            }
            if is_sized(value)
                && let Entry::Sized(file) = Entry::read(walk.path(0), dir, name, value)?
                && contents.carry(store, file.inode, file.size)?
            {
                count.contents += 1;
                count.bytes_written += file.size;
                count.writes += 1;
            }
            tables.put(key, value)?;
            count.written += 1;
        }
        Ok(())
    }

    /// Counts a name that several logs have, if it is a conflict.
    fn report(&self, walk: &Merged, count: &mut PartCount) -> Result<()> {
        let (dir, name) = walk.entry_key()?;
        let read = |n: usize| Entry::read(walk.path(n), dir, name, walk.value(n));
        let winner = read(0)?;
        for n in 1..walk.holders().len() {
            let is_same = match (winner, read(n)?) {
                (Entry::Dir(one), Entry::Dir(other)) => one == other,
                (Entry::Whiteout, _) | (_, Entry::Whiteout) => true,
                _ => false,
            };
            if is_same {
                continue;
            }
            count.conflicts += 1;
            if count.shown.len() < SHOWN_MAX {
                count.shown.push(format!(
                    "'{}' of directory {dir:?}: {} wins over {}",
                    shown(name),
                    walk.path(0).display(),
                    walk.path(n).display()
                ));
            }
        }
        Ok(())
    }

    /// Says that a merge into `dir` begins; what is there of an earlier one goes.
    ///
    /// # Errors
    /// [`Error::Usage`] if something is there and `replace` is not given; those of the machine.
    pub fn begin(fs: &dyn Fs, dir: &Path, replace: bool) -> Result<()> {
        fs.create_dir_all(dir)?;
        let is_unfinished = fs.exists(&dir.join(MERGING))?;
        let old: Vec<PathBuf> = fs
            .list(dir)?
            .iter()
            .filter(|entry| is_part(&entry.name.to_string_lossy()))
            .map(|entry| dir.join(&entry.name))
            .collect();
        if !old.is_empty() && !replace && !is_unfinished {
            return Err(Error::Usage(format!(
                "{}: there is something already; name another directory, or have it replaced",
                dir.display()
            )));
        }
        fs.write_atomic(&dir.join(MERGING), b"")?;
        if fs.exists(&dir.join(MERGED))? {
            fs.remove_file(&dir.join(MERGED))?;
        }
        for path in old {
            fs.remove_dir_all(&path)?;
        }
        fs.sync_dir(dir)?;
        Ok(())
    }

    /// Says that all parts are there.
    ///
    /// # Errors
    /// Those of the machine.
    pub fn end(fs: &dyn Fs, dir: &Path, summary: &Summary) -> Result<()> {
        let text = serde_json::to_vec(summary).map_err(|error| Error::Usage(error.to_string()))?;
        fs.write_atomic(&dir.join(MERGED), &text)?;
        fs.remove_file(&dir.join(MERGING))?;
        fs.sync_dir(dir)?;
        Ok(())
    }
}

/// `r` and a number, and what a part leaves when it is interrupted.
fn is_part(name: &str) -> bool {
    name.strip_prefix('r').is_some_and(|rest| {
        let digits = rest.strip_suffix(".tables").unwrap_or(rest);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// A directory as several logs have it: see `layers`.
fn fold(walk: &Merged, logs: &[Db], has_base: bool) -> Result<Vec<u8>> {
    let (dir, _) = walk.entry_key()?;
    let mut found = None;
    let mut all = Touched::default();
    let mut counting = 0;
    for n in 0..walk.holders().len() {
        let (node, touched) = match Node::read(walk.path(n), dir, walk.value(n))? {
            Node::Removed if n == 0 => return Ok(Node::Removed.encode()),
            Node::Removed => break,
            Node::Touched(touched) => (None, touched),
            Node::Dir(node, touched) => (Some(node), touched),
        };
        all.subdirs = all.subdirs.saturating_add(touched.subdirs);
        all.mtime_ns = all.mtime_ns.max(touched.mtime_ns);
        all.ctime_ns = all.ctime_ns.max(touched.ctime_ns);
        counting += usize::from(touched.subdirs != 0);
        found = found.or(node);
    }
    if counting > 1 && !has_base {
        all.subdirs = count_dirs(logs, dir)?;
    }
    Ok(match found {
        Some(node) => Node::Dir(node, all).encode(),
        None => Node::Touched(all).encode(),
    })
}

/// Tables that are being written, beside the store that will have them.
struct Tables<'a> {
    fs: &'a dyn Fs,
    dir: PathBuf,
    options: Options,
    open: Option<SstWriter>,
    done: Vec<PathBuf>,
    written: Written,
}

/// What the finished tables took.
#[derive(Clone, Copy, Default)]
struct Written {
    bytes: u64,
    writes: u64,
}

impl<'a> Tables<'a> {
    fn new(fs: &'a dyn Fs, store: &Path) -> Result<Tables<'a>> {
        let dir = store.with_extension("tables");
        fs.create_dir_all(&dir)?;
        let options = Options::default();
        let written = Written::default();
        Ok(Tables { fs, dir, options, open: None, done: Vec::new(), written })
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let writer = match &mut self.open {
            Some(writer) => writer,
            None => {
                let path = self.dir.join(format!("{}", self.done.len()));
                self.open.insert(SstWriter::create(self.fs, &path, &self.options)?)
            }
        };
        writer.put(key, value)?;
        if writer.bytes() >= TABLE_BYTES {
            self.next()?;
        }
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        // The last table was just finished.
        let Some(writer) = self.open.take() else { return Ok(()) };
        let path = writer.path().to_owned();
        let file = writer.finish_counted()?;
        self.written.bytes += file.bytes;
        self.written.writes += file.writes;
        self.done.push(path);
        Ok(())
    }

    fn finish(mut self) -> Result<(Vec<PathBuf>, Written)> {
        self.next()?;
        Ok((std::mem::take(&mut self.done), self.written))
    }
}

impl Drop for Tables<'_> {
    fn drop(&mut self) {
        // Empty unless something failed; the next merge clears what is left.
        let _ = self.fs.remove_dir(&self.dir);
    }
}

#[cfg(test)]
mod tests;

//! The whole store in order: a merge of logs, tables of level 0 and levels.
//!
//! ```text
//!   memory (all logs)   a@9    c@12 removed
//!   table of level 0    a@4 b@7
//!   level 1             b@2    c@3        given: a@9 b@7
//! ```
//!
//! Of each key the version with the largest sequence number counts, wherever it stands. The logs
//! are read whole when the store is opened: LevelDB keeps in memory what they hold as well.

use crate::batch;
use crate::error::{Error, Lost, Result};
use crate::key::Kind;
use crate::levels::Row;
use crate::log::LogReader;
use crate::manifest::{self, State};
use keyrack_vfs::{FileKind, Fs};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is done about damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It is an error.
    Strict,
    /// What cannot be read is left out, and listed.
    Lenient,
}

/// What was found when the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Tables that the manifest names.
    pub tables: u64,
    /// Bytes of these.
    pub table_bytes: u64,
    /// Logs with writes that may be in no table.
    pub logs: u64,
    /// Records of these.
    pub log_records: u64,
    /// The largest sequence number of a write.
    pub last_sequence: u64,
}

/// Where entries come from.
enum Source {
    Tables(Box<Row>),
    Memory(Memory),
}

/// The newest version of each key of the logs; in the walk, what is left of them.
type Versions = BTreeMap<Vec<u8>, (u64, Option<Vec<u8>>)>;

struct Memory {
    here: Option<(Vec<u8>, (u64, Option<Vec<u8>>))>,
    rest: std::collections::btree_map::IntoIter<Vec<u8>, (u64, Option<Vec<u8>>)>,
}

/// A walk over the live entries of a store of LevelDB, in the order of their keys' bytes.
pub struct Reader {
    mode: Mode,
    sources: Vec<Source>,
    /// Indices of the sources that stand on an entry, as a heap: the next entry is at 0.
    heap: Vec<usize>,
    stats: Stats,
    lost: Vec<Lost>,
    /// The key that was given last.
    key: Vec<u8>,
    value: Vec<u8>,
    started: bool,
}

impl Reader {
    /// Opens the store in `dir`: reads the manifest and the logs.
    ///
    /// # Errors
    /// [`Error::Usage`] if there is no store of LevelDB or one in another order than that of bytes,
    /// [`Error::Corruption`] for a damaged manifest and, unless `mode` is lenient, other damage,
    /// [`Error::Io`].
    pub fn open(fs: Arc<dyn Fs>, dir: &Path, mode: Mode) -> Result<Reader> {
        let (state, lost) = manifest::read(&*fs, dir)?;
        let mut reader = Reader {
            mode,
            sources: Vec::new(),
            heap: Vec::new(),
            stats: Stats { last_sequence: state.last_sequence, ..Stats::default() },
            lost,
            key: Vec::new(),
            value: Vec::new(),
            started: false,
        };
        let versions = reader.read_logs(&fs, dir, &state)?;
        let rest = versions.into_iter();
        reader.sources.push(Source::Memory(Memory { here: None, rest }));
        for (level, tables) in state.levels.into_iter().enumerate() {
            reader.stats.tables += tables.len() as u64;
            let bytes = tables.iter().map(|table| table.bytes);
            reader.stats.table_bytes = bytes.fold(reader.stats.table_bytes, u64::saturating_add);
            let row = |tables| Source::Tables(Box::new(Row::new(Arc::clone(&fs), dir, tables)));
            match level {
                0 => reader.sources.extend(tables.into_iter().map(|table| row(vec![table]))),
                _ => reader.sources.push(row(tables)),
            }
        }
        Ok(reader)
    }

    /// What was found when the store was opened.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// What was left out so far; after the last entry, all of it.
    #[must_use]
    pub fn lost(&self) -> &[Lost] {
        &self.lost
    }

    /// The next key and its value; `None` behind the last.
    ///
    /// # Errors
    /// As for [`Reader::open`]. There is nothing more behind an error.
    #[expect(
        clippy::should_implement_trait,
        reason = "a step can fail, and lends what it shows: no iterator can"
    )]
    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let found = self.find_next();
        if found.is_err() {
            self.heap.clear();
            self.started = true;
        }
        Ok(found?.then_some((&self.key, &self.value)))
    }

    fn find_next(&mut self) -> Result<bool> {
        if !self.started {
            self.started = true;
            for index in 0..self.sources.len() {
                if self.advance(index)? {
                    self.heap.push(index);
                }
            }
            (0..self.heap.len() / 2).rev().for_each(|at| self.sift_down(at));
        }
        while let Some(&top) = self.heap.first() {
            let Some((key, _, value)) = self.sources[top].entry() else { break };
            self.key.clear();
            self.key.extend_from_slice(key);
            let is_value = value.is_some();
            self.value.clear();
            self.value.extend_from_slice(value.unwrap_or_default());
            self.pass_key()?;
            if is_value {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Goes behind all versions of the key.
    fn pass_key(&mut self) -> Result<()> {
        while let Some(&top) = self.heap.first()
            && self.sources[top].entry().is_some_and(|(key, ..)| *key == *self.key)
        {
            if !self.advance(top)? {
                self.heap.swap_remove(0);
            }
            self.sift_down(0);
        }
        Ok(())
    }

    /// Restores the heap where only the source at `at` may be too far up.
    fn sift_down(&mut self, mut at: usize) {
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let mut least = at;
            for child in [left, right] {
                if child < self.heap.len() && self.is_before(child, least) {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }

    fn is_before(&self, a: usize, b: usize) -> bool {
        let place = |at: usize| self.sources[self.heap[at]].entry();
        match (place(a), place(b)) {
            (Some((key_a, sequence_a, _)), Some((key_b, sequence_b, _))) => {
                key_a.cmp(key_b).then(sequence_b.cmp(&sequence_a)) == Ordering::Less
            }
            _ => false,
        }
    }

    fn advance(&mut self, source: usize) -> Result<bool> {
        let (mode, lost) = (self.mode, &mut self.lost);
        match &mut self.sources[source] {
            Source::Tables(row) => row.advance(&mut |found| lose(mode, lost, found)),
            Source::Memory(memory) => {
                memory.here = memory.rest.next();
                Ok(memory.here.is_some())
            }
        }
    }

    /// Reads the logs that the manifest's state leaves to be read, oldest first.
    fn read_logs(&mut self, fs: &Arc<dyn Fs>, dir: &Path, state: &State) -> Result<Versions> {
        let logs = logs(&**fs, dir, state)?;
        let mut replay = Replay { versions: Versions::new(), next: None };
        if state.log_number != 0 && !logs.iter().any(|(number, _)| *number == state.log_number) {
            let path = dir.join(format!("{:06}.log", state.log_number));
            let what = "the manifest names this log, and it is missing";
            lose(self.mode, &mut self.lost, lost_at(&path, 0, what))?;
        }
        for (index, (_, path)) in logs.iter().enumerate() {
            let is_newest = index + 1 == logs.len();
            let mut log = LogReader::open(&**fs, path)?;
            while let Some((at, record)) = log.next()? {
                let (path, last) = (path.as_path(), state.last_sequence);
                let found = replay.record(path, at, record, last);
                self.stats.log_records += 1;
                let parts = log.take_lost();
                let is_known = !parts.is_empty();
                for part in parts {
                    lose(self.mode, &mut self.lost, part)?;
                }
                match found {
                    // A gap behind a part that was left out is what was in it.
                    Some(Gap::Missing(_)) if is_known => {}
                    Some(Gap::Missing(gap) | Gap::Unreadable(gap)) => {
                        lose(self.mode, &mut self.lost, gap)?;
                    }
                    None => {}
                }
            }
            for part in log.take_lost() {
                let is_cut_tail = part.is_cut_tail && is_newest;
                lose(self.mode, &mut self.lost, Lost { is_cut_tail, ..part })?;
            }
        }
        self.stats.logs = logs.len() as u64;
        if let Some(next) = replay.next {
            self.stats.last_sequence = self.stats.last_sequence.max(next.saturating_sub(1));
        }
        Ok(replay.versions)
    }
}

impl Source {
    /// Key, sequence number, and value unless it is a removal.
    fn entry(&self) -> Option<(&[u8], u64, Option<&[u8]>)> {
        match self {
            Source::Tables(row) => row.entry().map(|(key, value)| {
                (key.user, key.sequence, (key.kind == Kind::Value).then_some(value))
            }),
            Source::Memory(memory) => {
                let (key, (sequence, value)) = memory.here.as_ref()?;
                Some((key, *sequence, value.as_deref()))
            }
        }
    }
}

/// Why the writes of a record may not be all that were made.
enum Gap {
    /// Sequence numbers are missing before it.
    Missing(Lost),
    /// It cannot be read itself.
    Unreadable(Lost),
}

struct Replay {
    versions: Versions,
    /// The sequence number that the next record begins with.
    next: Option<u64>,
}

impl Replay {
    /// Takes the writes of a record.
    fn record(&mut self, path: &Path, at: u64, record: &[u8], last_sequence: u64) -> Option<Gap> {
        let batch = match batch::decode(record) {
            Ok(batch) => batch,
            Err(what) => {
                let bytes = record.len() as u64;
                return Some(Gap::Unreadable(Lost { bytes, ..lost_at(path, at, what) }));
            }
        };
        // What follows the tables' last write may be in the logs in part: tables are written while
        // the next log is.
        let gap = match self.next {
            Some(next) if batch.sequence != next => Some("it does not follow the record before it"),
            None if batch.sequence > last_sequence.saturating_add(1) => {
                Some("the writes between the tables and this record are missing")
            }
            _ => None,
        };
        self.next = Some(batch.sequence + batch.writes.len() as u64);
        for (sequence, (key, value)) in (batch.sequence..).zip(batch.writes) {
            let version = (sequence, value.map(<[u8]>::to_vec));
            match self.versions.get_mut(key) {
                Some(known) if known.0 > sequence => {}
                Some(known) => *known = version,
                None => {
                    self.versions.insert(key.to_vec(), version);
                }
            }
        }
        gap.map(|what| Gap::Missing(lost_at(path, at, what)))
    }
}

/// Numbers and paths of the logs to be read, oldest first.
fn logs(fs: &dyn Fs, dir: &Path, state: &State) -> Result<Vec<(u64, PathBuf)>> {
    let mut logs = Vec::new();
    for entry in fs.list(dir)? {
        let name = entry.name.to_string_lossy();
        let number = name.strip_suffix(".log").filter(|digits| {
            !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
        });
        let Some(number) = number.and_then(|digits| digits.parse::<u64>().ok()) else { continue };
        let is_needed = number >= state.log_number || number == state.prev_log_number;
        if is_needed && entry.kind != FileKind::Dir {
            logs.push((number, dir.join(&entry.name)));
        }
    }
    logs.sort();
    Ok(logs)
}

fn lost_at(path: &Path, offset: u64, what: &str) -> Lost {
    Lost { path: path.to_owned(), offset, bytes: 0, what: what.to_owned(), is_cut_tail: false }
}

/// Lists a part that was left out; an error if it must not be.
fn lose(mode: Mode, lost: &mut Vec<Lost>, part: Lost) -> Result<()> {
    if mode == Mode::Strict && !part.is_cut_tail {
        return Err(Error::from(part));
    }
    lost.push(part);
    Ok(())
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("mode", &self.mode).finish_non_exhaustive()
    }
}

//! What the store can be asked by name, as text.
//!
//! The names that begin with `leveldb.` mean what they mean there; those with `keyrack.` are ours.
//! A name that nobody knows has no answer.

use super::{Db, Inner, NS_PER_SECOND};
use crate::key::{Parsed, parse};
use crate::version::{FileMeta, LEVELS, Version};
use std::fmt::Write as _;
use std::sync::atomic::Ordering;

/// Bytes of a megabyte in the table of `leveldb.stats`.
const MEGABYTE: f64 = 1_048_576.0;

impl Db {
    /// What is known under `name`; `None` if that is no name of a property.
    ///
    /// | name | answer |
    /// |---|---|
    /// | `leveldb.num-files-at-level<N>` | tables of level N, from 0 to 6 |
    /// | `leveldb.stats` | lines for people: tables, sizes, and times and megabytes of compactions of each level that has any |
    /// | `leveldb.sstables` | lines for people: every table of each level, with its size and its first and last key |
    /// | `leveldb.approximate-memory-usage` | bytes of memtables and of cached blocks |
    /// | `keyrack.comparator` | the name of the order of keys |
    /// | `keyrack.options` | what the store keeps of the options that it was last opened for writing with, as `name=value`; empty if an earlier program wrote it |
    /// | `keyrack.read-only` | `1` if the store was opened for reading only, `0` otherwise |
    /// | `keyrack.background-error` | why the store takes no writes, for a while or for good; empty while it does |
    /// | `keyrack.last-sequence` | the sequence number up to which everything is visible; of a store that was opened for reading only, the last one that a write has |
    /// | `keyrack.estimate-num-keys` | about how many keys there are: the entries in memory, and of tables the entries less twice the tombstones |
    /// | `keyrack.cache-bytes` | bytes of cached blocks |
    /// | `keyrack.NAME` | the number that [`Db::stats`] visits as `NAME` |
    ///
    /// The lines for people may change. In the table of `leveldb.stats`, what is read and written
    /// counts from the opening on, for the level that it was written to, and so do the seconds that
    /// flushes and compactions into it took.
    ///
    /// ```
    /// # use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::new())?;
    /// assert_eq!(db.property("keyrack.comparator"), Some("keyrack.bytewise".to_owned()));
    /// assert_eq!(db.property("keyrack.nothing"), None);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn property(&self, name: &str) -> Option<String> {
        let inner = self.inner();
        if let Some(name) = name.strip_prefix("leveldb.") {
            return inner.leveldb_property(name);
        }
        let name = name.strip_prefix("keyrack.")?;
        let text = match name {
            "comparator" => inner.options.comparator.name().to_owned(),
            "options" => {
                let manifest = inner.tables.manifest.lock();
                let stored = manifest.state().options.as_ref();
                stored.map_or_else(String::new, |options| options.to_string())
            }
            "read-only" => u8::from(inner.is_read_only()).to_string(),
            "background-error" => match inner.errors.fatal.get() {
                Some(error) if !inner.is_read_only() => error.to_string(),
                _ => inner
                    .check_background_error()
                    .err()
                    .map_or_else(String::new, |why| why.to_string()),
            },
            "last-sequence" => inner.last_sequence().to_string(),
            "estimate-num-keys" => inner.estimate_keys().to_string(),
            "cache-bytes" => inner.tables.reader.cache.stats().bytes.to_string(),
            _ => {
                let mut found = None;
                self.stats(&mut |known, number| {
                    if known == name {
                        found = Some(number.to_string());
                    }
                });
                return found;
            }
        };
        Some(text)
    }
}

impl Inner {
    fn leveldb_property(&self, name: &str) -> Option<String> {
        let read_state = self.read_state();
        if let Some(level) = name.strip_prefix("num-files-at-level") {
            let is_number = !level.is_empty() && level.bytes().all(|byte| byte.is_ascii_digit());
            let level: usize = level.parse().ok().filter(|_| is_number)?;
            return (level < LEVELS).then(|| read_state.version.files(level).len().to_string());
        }
        match name {
            "stats" => Some(self.stats_table(&read_state.version)),
            "sstables" => Some(list_tables(&read_state.version)),
            "approximate-memory-usage" => {
                let memory: usize = read_state.memtables.iter().map(|g| g.bytes()).sum();
                Some((memory as u64 + self.tables.reader.cache.stats().bytes).to_string())
            }
            _ => None,
        }
    }

    fn stats_table(&self, version: &Version) -> String {
        let mut text = String::from(
            "                               Compactions\n\
             Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n\
             --------------------------------------------------\n",
        );
        for (level, counters) in self.counters.levels.iter().enumerate() {
            let files = version.files(level).len();
            let read = counters.read_bytes.load(Ordering::Relaxed);
            let written = counters.written_bytes.load(Ordering::Relaxed);
            if files == 0 && read == 0 && written == 0 {
                continue;
            }
            let megabytes = |bytes: u64| bytes as f64 / MEGABYTE;
            let (size, read) = (megabytes(version.level_bytes(level)), megabytes(read));
            let written = megabytes(written);
            let seconds = counters.ns.load(Ordering::Relaxed) as f64 / NS_PER_SECOND;
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{level:>5}  {files:>5} {size:>8.1} {seconds:>9.3} {read:>8.1} {written:>9.1}"
            );
        }
        text
    }

    /// Where a writer goes on behind the log, the end of what is visible is no write's number.
    fn last_sequence(&self) -> u64 {
        if !self.is_read_only() {
            return self.visible();
        }
        let version = &self.read_state().version;
        let files = (0..LEVELS).flat_map(|level| version.files(level));
        files.map(|file| file.sequence_max).fold(self.write_path.last_replayed, u64::max)
    }

    fn estimate_keys(&self) -> u64 {
        let read_state = self.read_state();
        let in_memory: u64 = read_state.memtables.iter().map(|g| g.entries() as u64).sum();
        let files = (0..LEVELS).flat_map(|level| read_state.version.files(level));
        let in_tables = files.map(|file| file.entries.saturating_sub(2 * file.deletes));
        in_tables.fold(in_memory, u64::saturating_add)
    }
}

fn list_tables(version: &Version) -> String {
    let mut text = String::new();
    for level in 0..LEVELS {
        let _ = writeln!(text, "--- level {level} ---");
        for file in version.files(level) {
            let FileMeta { number, bytes, .. } = &**file;
            let (smallest, largest) = (bound(&file.smallest), bound(&file.largest));
            let _ = writeln!(text, " {number}:{bytes}[{smallest} .. {largest}]");
        }
    }
    text
}

/// `'key' @ sequence : kind`, the kind as in the files.
fn bound(key: &[u8]) -> String {
    match parse(key) {
        Some(Parsed { user, sequence, kind }) => {
            format!("'{}' @ {sequence} : {}", user.escape_ascii(), kind as u8)
        }
        None => format!("'{}'", key.escape_ascii()),
    }
}

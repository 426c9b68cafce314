//! A store whose whole content follows from one number, and its backups.

use keyrack_backup::{Backup, BackupId, DirTarget, Moment, Repository, Result, Saved};
use keyrack_flodb::{Batch, Compression, Db, Options, WriteOptions};
use keyrack_store::{FeedError, LogEntry, LogFeed, LogReplay, LogSource};
use keyrack_vfs::{Fs, MemFs};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) const STORE: &str = "/store";
pub(crate) const BACKUPS: &str = "/backups";
pub(crate) const RESTORED: &str = "/restored";

/// Options with which little is enough for many tables and blob files.
pub(crate) fn tiny() -> Options {
    Options {
        memtable_bytes: 64 << 10,
        segment_bytes: 64 << 10,
        table_bytes: 16 << 10,
        level0_tables: 2,
        level_base_bytes: 64 << 10,
        cache_bytes: 0,
        compression: vec![Compression::None],
        blob_bytes_min: 1024,
        ..Options::default()
    }
}

/// Tiny, with compactions on request alone.
pub(crate) fn idle() -> Options {
    Options { compaction_threads: 0, ..tiny() }
}

pub(crate) fn open(fs: &Arc<dyn Fs>, dir: &str) -> Db {
    Db::open_in(Arc::clone(fs), Path::new(dir), tiny()).unwrap()
}

pub(crate) fn shared(disk: &MemFs) -> Arc<dyn Fs> {
    Arc::new(disk.clone())
}

pub(crate) fn target(fs: &Arc<dyn Fs>) -> Arc<DirTarget> {
    Arc::new(DirTarget::new(Arc::clone(fs), BACKUPS))
}

pub(crate) fn create(fs: &Arc<dyn Fs>) -> Result<Repository> {
    Repository::create(target(fs))
}

pub(crate) fn save(db: &Db, repository: &Repository) -> Result<Saved> {
    Backup::of(db.file_set().unwrap()).save_to(repository)
}

/// What round `n` does: it moves `first`, `last` and one of many keys to the round, with a value
/// that is large now and then, and removes others.
fn changes(n: u64) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let number = n.to_be_bytes();
    let key = |n: u64| format!("key{:03}", n % 200).into_bytes();
    let bytes = if n.is_multiple_of(11) { 2000 } else { 100 };
    let value = [&number[..], &vec![n as u8; bytes]].concat();
    let mut changes = vec![
        (b"first".to_vec(), Some(number.to_vec())),
        (key(n * 7), Some(value)),
        (b"last".to_vec(), Some(number.to_vec())),
    ];
    if n.is_multiple_of(5) {
        changes.push((key(n * 13 + 1), None));
    }
    changes
}

/// The range of keys that round `n` removes before it does anything else.
fn removed(n: u64) -> Option<(Vec<u8>, Vec<u8>)> {
    let from = n % 180;
    let key = |n: u64| format!("key{n:03}").into_bytes();
    n.is_multiple_of(50).then(|| (key(from), key(from + 20)))
}

pub(crate) fn batch(n: u64) -> Batch {
    let mut batch = Batch::new();
    if let Some((from, to)) = removed(n) {
        batch.delete_range(&from, &to);
    }
    for (key, value) in changes(n) {
        match value {
            Some(value) => batch.put(&key, &value),
            None => batch.delete(&key),
        }
    }
    batch
}

pub(crate) fn write(db: &Db, rounds: std::ops::Range<u64>) {
    rounds.for_each(|n| db.write(&batch(n), WriteOptions::default()).unwrap());
}

/// The content of a store after the rounds 1 to `n`.
pub(crate) fn model(n: u64) -> Model {
    let mut model = Model::new();
    for n in 1..=n {
        if let Some((from, to)) = removed(n) {
            model.retain(|key, _| !(&from <= key && key < &to));
        }
        for (key, value) in changes(n) {
            match value {
                Some(value) => drop(model.insert(key, value)),
                None => drop(model.remove(&key)),
            }
        }
    }
    model
}

pub(crate) fn rows(db: &Db) -> Model {
    let mut iter = db.iter().unwrap();
    let mut rows = Model::new();
    iter.seek_first().unwrap();
    while let Some((key, value)) = iter.entry() {
        rows.insert(key.to_vec(), value.to_vec());
        iter.next().unwrap();
    }
    rows
}

/// The newest round of a store, which has exactly what the rounds up to it have written.
pub(crate) fn newest_round(db: &Db) -> u64 {
    let rows = rows(db);
    let first = rows.get(&b"first"[..]);
    let n = first.map_or(0, |number| u64::from_be_bytes(number[..].try_into().unwrap()));
    assert!(rows == model(n), "not what the rounds up to {n} have written");
    n
}

/// Restores a backup to a disk of its own, and says which round it has. The files are whole, too.
pub(crate) fn restored_round(repository: &Repository, id: &BackupId) -> u64 {
    let fs = shared(&MemFs::new());
    repository.restore(id, &*fs, Path::new(RESTORED), |_| ()).unwrap();
    let options = Options::default();
    let report = keyrack_flodb::verify(Arc::clone(&fs), Path::new(RESTORED), &options).unwrap();
    assert!(report.is_sound() && report.findings.is_empty(), "{report:?}");
    let db = open(&fs, RESTORED);
    let n = newest_round(&db);
    // It takes writes.
    write(&db, n + 1..n + 20);
    assert_eq!(newest_round(&db), n + 19);
    n
}

/// The names in a directory.
pub(crate) fn names(fs: &dyn Fs, dir: &str) -> Vec<String> {
    let entries = fs.list(Path::new(dir)).unwrap();
    entries.iter().map(|entry| entry.name.to_string_lossy().into_owned()).collect()
}

/// Makes the store of a moment on a disk of its own, and says which round it has.
pub(crate) fn round_at(repository: &Repository, moment: Moment) -> Result<u64> {
    let fs = shared(&MemFs::new());
    let mut open_to_replay = |dir: &Path| -> keyrack_store::Result<Box<dyn LogReplay>> {
        Ok(Box::new(Db::open_in(Arc::clone(&fs), dir, tiny())?))
    };
    let place = (&*fs, Path::new(RESTORED));
    let restored = repository.restore_at(moment, None, place, &mut open_to_replay, |_| ());
    assert_eq!(restored.is_ok(), fs.exists(Path::new(RESTORED)).unwrap());
    assert_eq!(names(&*fs, "/").is_empty(), restored.is_err(), "nothing else is left");
    restored?;
    let options = Options::default();
    let report = keyrack_flodb::verify(Arc::clone(&fs), Path::new(RESTORED), &options).unwrap();
    assert!(report.is_sound() && report.findings.is_empty(), "{report:?}");
    Ok(newest_round(&open(&fs, RESTORED)))
}

pub(crate) fn position(db: &Db) -> u64 {
    db.position().into()
}

/// A log that a test has written.
pub(crate) struct Scripted {
    pub(crate) log_id: u64,
    pub(crate) entries: Vec<LogEntry>,
}

impl Scripted {
    /// What a store has committed after a position, without time marks.
    pub(crate) fn after(db: &Db, position: u64) -> Scripted {
        let mut feed = db.feed(position).unwrap();
        let all = std::iter::from_fn(|| feed.next().unwrap());
        let entries = all.filter(|entry| !matches!(entry, LogEntry::Time { .. })).collect();
        Scripted { log_id: db.log_id(), entries }
    }
}

struct ScriptedFeed(std::vec::IntoIter<LogEntry>);

impl LogSource for Scripted {
    fn log_id(&self) -> u64 {
        self.log_id
    }

    fn feed(&self, from: u64) -> std::result::Result<Box<dyn LogFeed>, FeedError> {
        let mut entries = self.entries.clone();
        entries.retain(|entry| entry.position() > from);
        Ok(Box::new(ScriptedFeed(entries.into_iter())))
    }
}

impl LogFeed for ScriptedFeed {
    fn next(&mut self) -> std::result::Result<Option<LogEntry>, FeedError> {
        Ok(self.0.next())
    }

    fn wait(&mut self, _: Duration) -> std::result::Result<bool, FeedError> {
        Ok(self.0.len() > 0)
    }
}

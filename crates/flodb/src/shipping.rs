//! The log of a store for those who ship it, and batches of it for a store that is restored.
//!
//! ```text
//!   payload = record | 0: varint | merge operator: string | record       record: see `batch`
//! ```
//!
//! A feed that is synced ([`Changes::synced`]) gives the batches, as the records of the log have
//! them. One with operands has the name of their operator in front: the store gets its operator
//! with the first operand, which may come after the backup. No record of a batch begins with 0.
//!
//! Of several time marks between two batches the last one
//! counts. `spaces::shipping` is the same for stores with key spaces.

use crate::batch::Batch;
use crate::changes::{Changes, CommittedBatch, TimeMark};
use crate::coding::{Reader, put_string, put_varint};
use crate::db::Db;
use crate::error::{Error, Result};
use crate::position::Position;
use keyrack_store::{FeedError, LogEntry, LogFeed, LogReplay, LogSource, WriteOptions};
use std::time::Duration;

struct DbFeed {
    changes: Changes,
    /// Behind the last entry that it gave.
    reached: u64,
    /// An entry after a time mark.
    next: Option<LogEntry>,
}

impl LogSource for Db {
    fn log_id(&self) -> u64 {
        self.inner().write_path.log.id()
    }

    fn feed(&self, from: u64) -> std::result::Result<Box<dyn LogFeed>, FeedError> {
        let changes = self.changes(Position::from(from)).map_err(feed_error)?.synced();
        Ok(Box::new(DbFeed { changes, reached: from, next: None }))
    }
}

impl DbFeed {
    fn entry(&self, batch: &CommittedBatch) -> LogEntry {
        let position = batch.position().into();
        if batch.is_ingestion() {
            return LogEntry::Break { position };
        }
        let batch = batch.batch();
        let mut payload = Vec::new();
        if batch.has_operands() {
            let name = self.changes.merge_operator().expect("a store with operands has one");
            put_varint(&mut payload, 0);
            put_string(&mut payload, name.as_bytes());
        }
        payload.extend_from_slice(&batch.head());
        payload.extend_from_slice(batch.entries());
        LogEntry::Batch { position, payload }
    }

    /// A time mark that was not given yet.
    fn mark(&self, mark: Option<TimeMark>) -> Option<LogEntry> {
        let TimeMark { position, unix_ms } = mark?;
        let position = u64::from(position);
        (position > self.reached).then_some(LogEntry::Time { position, unix_ms })
    }
}

impl LogFeed for DbFeed {
    fn next(&mut self) -> std::result::Result<Option<LogEntry>, FeedError> {
        let entry = match self.next.take() {
            Some(next) => Some(next),
            None => match self.changes.next().transpose().map_err(feed_error)? {
                None => self.mark(self.changes.time()),
                Some(batch) => match self.mark(batch.time()) {
                    None => Some(self.entry(&batch)),
                    Some(mark) => {
                        self.next = Some(self.entry(&batch));
                        Some(mark)
                    }
                },
            },
        };
        self.reached = entry.as_ref().map_or(self.reached, LogEntry::position);
        Ok(entry)
    }

    fn wait(&mut self, timeout: Duration) -> std::result::Result<bool, FeedError> {
        if self.next.is_some() {
            return Ok(true);
        }
        self.changes.wait(timeout).map_err(feed_error)
    }
}

impl LogReplay for Db {
    fn apply(&mut self, payload: &[u8]) -> keyrack_store::Result<()> {
        let batch = shipped_batch(self, payload)?;
        Ok(self.write(&batch, WriteOptions::default())?)
    }

    fn end(self: Box<Self>) -> keyrack_store::Result<()> {
        self.flush()?;
        Ok(self.close()?)
    }
}

/// The batch in the payload of an entry, which `db` can apply then.
pub(crate) fn shipped_batch(db: &Db, payload: &[u8]) -> Result<Batch> {
    let damaged = || {
        let what = "the payload of a shipped batch is none".to_owned();
        Error::corruption(db.dir(), 0, what)
    };
    let (operator, record) = with_operator(payload).ok_or_else(damaged)?;
    let batch = Batch::from_payload(record.to_vec()).ok_or_else(damaged)?;
    if let Some(name) = operator {
        db.inner().merges().adopt(name, db.dir())?;
    }
    Ok(batch)
}

/// The merge operator that a payload names, and the record in it.
fn with_operator(payload: &[u8]) -> Option<(Option<&str>, &[u8])> {
    if payload.first() != Some(&0) {
        return Some((None, payload));
    }
    let mut fields = Reader::new(&payload[1..]);
    let name = std::str::from_utf8(fields.string()?).ok()?;
    Some((Some(name), fields.rest()))
}

fn feed_error(error: Error) -> FeedError {
    match error {
        Error::NotKept { .. } | Error::NotWritten { .. } => FeedError::Gone(error.to_string()),
        error => FeedError::Store(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Append, Counter, IngestOptions, MergeOperator, Options, SstWriter};
    use keyrack_vfs::{Fs, MemFs};
    use std::path::Path;
    use std::sync::Arc;

    fn entries(db: &Db, from: u64) -> Vec<LogEntry> {
        let mut feed = db.feed(from).unwrap();
        let all: Vec<LogEntry> = std::iter::from_fn(|| feed.next().unwrap()).collect();
        assert!(!feed.wait(Duration::ZERO).unwrap());
        all
    }

    #[test]
    fn a_copy_takes_the_batches_of_the_log() {
        let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
        let open =
            |dir: &str| Db::open_in(Arc::clone(&fs), Path::new(dir), Options::new()).unwrap();
        let db = open("/store");
        db.put(b"a", b"1").unwrap();
        db.put(b"b", b"2").unwrap();
        db.delete_range(b"a", b"b").unwrap();
        let all = entries(&db, 0);
        let positions: Vec<u64> = all.iter().map(LogEntry::position).collect();
        assert!(positions.is_sorted_by(|a, b| a < b), "{positions:?}");
        assert!(all.iter().any(|entry| entry.position() == u64::from(db.position())));
        // From the position of an entry on, there is what comes after it.
        for (index, position) in positions.iter().enumerate() {
            assert_eq!(entries(&db, *position), all[index + 1..]);
        }
        let mut copy: Box<dyn LogReplay> = Box::new(open("/copy"));
        for entry in &all {
            if let LogEntry::Batch { payload, .. } = entry {
                copy.apply(payload).unwrap();
            }
        }
        for bad in [&[][..], &[1, 77], &[0], &[0, 9], &[0, 1, b'x', 77], &[0, 1, 0xff, 0]] {
            let error = copy.apply(bad).unwrap_err();
            assert!(matches!(error, keyrack_store::Error::Corruption { .. }), "{bad:?}: {error}");
        }
        copy.end().unwrap();
        let copy = open("/copy");
        assert_eq!(copy.first().unwrap(), Some((b"b".to_vec(), b"2".to_vec())));
        assert_ne!(LogSource::log_id(&copy), LogSource::log_id(&db));
    }

    /// The first operand came after the copy was made.
    #[test]
    fn a_copy_takes_the_operator_of_the_operands() {
        let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
        let open = |dir: &str, options: Options| {
            Db::open_in(Arc::clone(&fs), Path::new(dir), options).unwrap()
        };
        let apply = |db: &Db, copy: &mut dyn LogReplay| -> keyrack_store::Result<()> {
            let batches = entries(db, 0).into_iter().filter_map(|entry| match entry {
                LogEntry::Batch { payload, .. } => Some(payload),
                _ => None,
            });
            batches.into_iter().try_for_each(|payload| copy.apply(&payload))
        };
        let db = open("/store", Options::new().merge_operator(Append::new(b",")));
        // Operands of a short value are written as the value.
        let long = vec![b'a'; 100];
        db.put(b"names", &long).unwrap();
        db.merge(b"names", b"bob").unwrap();
        db.merge(b"names", b"eve").unwrap();
        let mut copy: Box<dyn LogReplay> = Box::new(open("/copy", Options::new()));
        apply(&db, &mut *copy).unwrap();
        copy.end().unwrap();
        let copy = open("/copy", Options::new());
        assert_eq!(copy.get(b"names").unwrap(), Some([&long, &b",bob,eve"[..]].concat()));
        let db = open("/theirs", Options::new().merge_operator(Theirs));
        db.put(b"key", &long).unwrap();
        db.merge(b"key", b"x").unwrap();
        for (dir, options, what) in [
            ("/none", Options::new(), "'theirs'; restore it with a program"),
            ("/counter", Options::new().merge_operator(Counter), "'theirs', not of 'keyrack.count"),
        ] {
            let error = apply(&db, &mut open(dir, options)).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
        }
    }

    struct Theirs;

    impl MergeOperator for Theirs {
        fn name(&self) -> &str {
            "theirs"
        }

        fn merge(&self, _: &[u8], existing: Option<&[u8]>, _: &[&[u8]]) -> Option<Vec<u8>> {
            existing.map(<[u8]>::to_vec)
        }
    }

    #[test]
    fn what_the_log_does_not_hold_is_told() {
        let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
        let db = Db::open_in(Arc::clone(&fs), Path::new("/store"), Options::new()).unwrap();
        let table = Path::new("/table");
        let mut writer = SstWriter::create(&*fs, table, &Options::new()).unwrap();
        writer.put(b"key", b"value").unwrap();
        writer.finish().unwrap();
        db.ingest(&[table], IngestOptions::default()).unwrap();
        assert!(entries(&db, 0).iter().any(|entry| matches!(entry, LogEntry::Break { .. })));
        let beyond = db.feed(1 << 40);
        assert!(matches!(beyond, Err(FeedError::Gone(_))));
    }

    /// A store that is made of the files is exactly at the position that they state.
    #[test]
    fn files_state_their_position() {
        let fs: Arc<dyn Fs> = Arc::new(MemFs::new());
        let db = Db::open_in(fs, Path::new("/store"), Options::new()).unwrap();
        db.put(b"a", b"1").unwrap();
        let log = db.file_set().unwrap().log.unwrap();
        assert_eq!(log.log_id, LogSource::log_id(&db));
        let is_batch = |entry: &LogEntry| matches!(entry, LogEntry::Batch { .. });
        assert!(!entries(&db, log.position).iter().any(is_batch));
        db.put(b"b", b"2").unwrap();
        let after = entries(&db, log.position);
        assert_eq!(after.into_iter().filter(is_batch).count(), 1);
    }
}

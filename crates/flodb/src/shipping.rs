//! The log of a store for those who ship it, and batches of it for a store that is restored.
//!
//! A feed that is synced ([`Changes::synced`]) gives the batches. The payload of an entry is that
//! of the record in the log, see `batch`. Of several time marks between two batches the last one
//! counts. `spaces::shipping` is the same for stores with key spaces.

use crate::batch::Batch;
use crate::changes::{Changes, CommittedBatch, TimeMark};
use crate::db::Db;
use crate::error::{Error, Result};
use crate::position::Position;
use keyrack_store::{FeedError, LogEntry, LogFeed, LogReplay, LogSource, WriteOptions};
use std::path::Path;
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
    fn entry(batch: &CommittedBatch) -> LogEntry {
        let position = batch.position().into();
        if batch.is_ingestion() {
            return LogEntry::Break { position };
        }
        let batch = batch.batch();
        LogEntry::Batch { position, payload: [&batch.head()[..], batch.entries()].concat() }
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
                    None => Some(DbFeed::entry(&batch)),
                    Some(mark) => {
                        self.next = Some(DbFeed::entry(&batch));
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
        let batch = shipped_batch(self.dir(), payload)?;
        Ok(self.write(&batch, WriteOptions::default())?)
    }

    fn end(self: Box<Self>) -> keyrack_store::Result<()> {
        self.flush()?;
        Ok(self.close()?)
    }
}

/// The batch that the payload of an entry is, for the store in `dir`.
pub(crate) fn shipped_batch(dir: &Path, payload: &[u8]) -> Result<Batch> {
    Batch::from_payload(payload.to_vec()).ok_or_else(|| {
        let what = "the payload of a shipped batch is none".to_owned();
        Error::corruption(dir, 0, what)
    })
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
    use crate::{IngestOptions, Options, SstWriter};
    use keyrack_vfs::{Fs, MemFs};
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
        assert!(copy.apply(&[1, 77]).is_err(), "no batch");
        copy.end().unwrap();
        let copy = open("/copy");
        assert_eq!(copy.first().unwrap(), Some((b"b".to_vec(), b"2".to_vec())));
        assert_ne!(LogSource::log_id(&copy), LogSource::log_id(&db));
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

//! The change feed: replayed into an empty map it gives the store at each position, whatever
//! happens to the store meanwhile.

mod durable;
mod live;
mod spaces;

use crate::support::{Model, Write, appends, idle, open, put_until, rows, still, tiny, try_open};
use keyrack_flodb::{
    Batch, BatchWrite, Changes, CommittedBatch, Db, Durability, Error, IngestOptions, Options,
    Position, SstWriter, WriteOptions,
};
use keyrack_testkit::random::{Announced, Draw, successive_seeds};
use keyrack_vfs::MemFs;
use std::path::Path;
use std::sync::Arc;

/// Options with which the log stays.
pub(crate) fn keeping() -> Options {
    let options = Options { log_retention_bytes: 1 << 40, clock: still(), ..tiny() };
    options.merge_operator(appends())
}

pub(crate) fn apply(change: &CommittedBatch, model: &mut Model) {
    let mut count = 0;
    for write in change.writes() {
        count += 1;
        let write = match write {
            BatchWrite::Put { key, value } => Write::Put(key.to_vec(), value.to_vec()),
            BatchWrite::Delete { key } => Write::Delete(key.to_vec()),
            BatchWrite::DeleteRange { from, to } => Write::DeleteRange(from.to_vec(), to.to_vec()),
            BatchWrite::PutUntil { key, value, expires_ms } => {
                Write::PutUntil(key.to_vec(), value.to_vec(), expires_ms)
            }
            BatchWrite::Merge { key, operand } => Write::Merge(key.to_vec(), operand.to_vec()),
            write => panic!("{write:?} was never written"),
        };
        write.apply(model);
    }
    assert_eq!(count, change.len());
}

/// The changes that there are by now, each behind the one before.
pub(crate) fn drain(changes: &mut Changes) -> Vec<CommittedBatch> {
    let mut last = changes.reached();
    let found: Vec<_> = changes.by_ref().map(Result::unwrap).collect();
    for change in &found {
        assert!(last < change.position());
        last = change.position();
    }
    assert_eq!(changes.reached(), last);
    found
}

fn write(draw: &mut Draw) -> Write {
    let key = |draw: &mut Draw| format!("key{:03}", draw.below(120)).into_bytes();
    match draw.below(20) {
        0 => {
            let (from, to) = (key(draw), key(draw));
            if from < to { Write::DeleteRange(from, to) } else { Write::Delete(from) }
        }
        1..=5 => Write::Delete(key(draw)),
        6 | 7 => Write::Merge(key(draw), draw.bytes(5)),
        8 | 9 => {
            let (key, value) = (key(draw), draw.bytes(5));
            put_until(draw, key, value)
        }
        _ => {
            let bytes = [0, 5, 100, 400][draw.below(4)];
            Write::Put(key(draw), draw.bytes(bytes))
        }
    }
}

/// Some writes as one, in one of the ways.
fn commit(db: &Db, draw: &mut Draw, model: &mut Model) {
    let count = if draw.below(3) == 0 { 1 + draw.below(9) } else { 1 };
    let writes: Vec<Write> = (0..count).map(|_| write(draw)).collect();
    writes.iter().for_each(|write| write.apply(model));
    match (&writes[..], draw.below(3)) {
        ([Write::Put(key, value)], 0) => db.put(key, value).unwrap(),
        ([Write::Delete(key)], 0) => db.delete(key).unwrap(),
        (_, 1) => {
            let transaction = db.transaction();
            for write in &writes {
                match write {
                    Write::Put(key, value) => transaction.put(key, value).unwrap(),
                    Write::PutUntil(key, value, until) => {
                        transaction.put_until(key, value, *until).unwrap();
                    }
                    Write::Merge(key, operand) => transaction.merge(key, operand).unwrap(),
                    Write::Delete(key) => transaction.delete(key).unwrap(),
                    Write::DeleteRange(from, to) => transaction.delete_range(from, to).unwrap(),
                }
            }
            transaction.commit().unwrap();
        }
        _ => {
            let mut batch = Batch::new();
            writes.iter().for_each(|write| write.add_to(&mut batch));
            db.write(&batch, WriteOptions { sync: draw.below(16) == 0 }).unwrap();
        }
    }
}

#[test]
fn a_feed_replayed_is_the_store_at_each_position() {
    for seed in successive_seeds(8) {
        let _seed = Announced(seed);
        replay_history(seed);
    }
}

fn replay_history(seed: u64) {
    let draw = &mut Draw::new(seed);
    let disk = MemFs::new();
    let durability = [Durability::Os, Durability::Sync, Durability::Interval(1)][draw.below(3)];
    let options = || Options { durability, compaction_threads: seed as usize % 2, ..keeping() };
    let mut db = open(&disk, options());
    // The store at each position, and a feed that is read now and then.
    let mut history = vec![(Position::START, Model::new())];
    let mut model = Model::new();
    let mut slow = Some(db.changes(Position::START).unwrap());
    let (mut replayed, mut position, mut seen) = (Model::new(), Position::START, 0);
    for _ in 0..600 {
        match draw.below(60) {
            0 => db.flush().unwrap(),
            1 => db.compact_range(None, None).unwrap(),
            2..=6 => {
                let changes = slow.as_mut().unwrap();
                for change in drain(changes) {
                    apply(&change, &mut replayed);
                    seen += 1;
                    assert_eq!(change.position(), history[seen].0);
                    assert!(replayed == history[seen].1, "{seen}");
                    position = change.position();
                }
                assert_eq!(seen + 1, history.len(), "nothing is missing");
            }
            7 => {
                drop(slow.take());
                db.close().unwrap();
                db = open(&disk, options());
                slow = Some(db.changes(position).unwrap());
            }
            8 => {
                let (from, expected) = &history[draw.below(history.len())];
                let mut again = expected.clone();
                for change in db.changes(*from).unwrap() {
                    apply(&change.unwrap(), &mut again);
                }
                assert!(again == model, "from {from}");
            }
            _ => {
                commit(&db, draw, &mut model);
                // A time mark may be behind it.
                let mut changes = db.changes(history.last().unwrap().0).unwrap();
                let last = drain(&mut changes).pop().unwrap();
                history.push((last.position(), model.clone()));
            }
        }
    }
    assert!(rows(&db) == model);
}

/// A flush of what was recovered took the place of the next record for the end of those there are.
#[test]
fn a_store_that_was_flushed_without_writes_since_its_opening_gives_its_changes() {
    let disk = MemFs::new();
    let mut model = Model::new();
    for round in 0..4_u8 {
        let db = open(&disk, keeping());
        Write::Put(vec![round], b"value".to_vec()).apply(&mut model);
        db.put(&[round], b"value").unwrap();
        db.close().unwrap();
        for _ in 0..round {
            let db = open(&disk, keeping());
            db.flush().unwrap();
            db.close().unwrap();
        }
        let db = open(&disk, keeping());
        let mut replayed = Model::new();
        for change in drain(&mut db.changes(Position::START).unwrap()) {
            apply(&change, &mut replayed);
        }
        assert_eq!(replayed, model);
        db.close().unwrap();
    }
}

#[test]
fn positions_are_those_of_snapshots_and_of_the_store() {
    let db = open(&MemFs::new(), tiny());
    assert_eq!(db.position(), Position::START);
    assert_eq!(db.position_at(&db.snapshot()), Position::START);
    db.put(b"a", b"1").unwrap();
    let snapshot = db.snapshot();
    assert_eq!(db.position_at(&snapshot), db.position());
    db.put(b"b", b"2").unwrap();
    let mut changes = db.changes(db.position_at(&snapshot)).unwrap();
    let change = changes.next().unwrap().unwrap();
    let put = BatchWrite::Put { key: b"b", value: b"2" };
    assert_eq!(change.writes().collect::<Vec<_>>(), [put]);
    assert!(changes.next().is_none());
    assert_eq!(change.batch().len(), 1);
    // It is not over.
    db.delete(b"a").unwrap();
    assert_eq!(changes.next().unwrap().unwrap().len(), 1);
}

#[test]
fn a_store_without_a_log_or_without_a_writer_has_no_feed() {
    let disk = MemFs::new();
    let unlogged = Options { durability: Durability::None, ..tiny() };
    let db = open(&disk, unlogged);
    let error = db.changes(Position::START).unwrap_err();
    assert!(matches!(&error, Error::Usage(what) if what.contains("durability none")), "{error}");
    drop(db);
    let reader = Db::open_read_only_in(Arc::new(disk), Path::new("/store"), tiny()).unwrap();
    let error = reader.changes(Position::START).unwrap_err();
    assert!(matches!(&error, Error::Usage(what) if what.contains("reading only")), "{error}");
}

/// What a store had before it had a log is not in the feed, so the feed does not begin before it.
#[test]
fn a_feed_does_not_begin_before_what_was_written_without_a_log() {
    let disk = MemFs::new();
    let db = open(&disk, Options { durability: Durability::None, ..tiny() });
    db.put(b"unlogged", b"1").unwrap();
    db.close().unwrap();
    let db = open(&disk, keeping());
    let begin = db.position();
    assert!(begin > Position::START);
    db.put(b"logged", b"2").unwrap();
    let mut before = Some(db);
    for _ in 0..2 {
        let db = before.take().unwrap_or_else(|| open(&disk, keeping()));
        let error = db.changes(Position::START).unwrap_err();
        assert!(matches!(error, Error::NotKept { first, .. } if first == begin), "{error}");
        assert_eq!(drain(&mut db.changes(begin).unwrap()).len(), 1);
    }
}

/// A log, writes or tables without one, and a log again: a feed from before does not go past them.
#[test]
fn a_feed_does_not_go_past_what_was_written_without_a_log() {
    does_not_go_past(|_, db| db.put(b"unlogged", b"2").unwrap());
}

/// The tables were not in the feed, which went on from before them as if nothing had happened.
#[test]
fn a_feed_does_not_go_past_tables_that_were_taken_in_without_a_log() {
    does_not_go_past(|disk, db| {
        let table = Path::new("/table");
        let mut writer = SstWriter::create(disk, table, &tiny()).unwrap();
        writer.put(b"unlogged", b"2").unwrap();
        writer.finish().unwrap();
        db.ingest(&[table], IngestOptions::default()).unwrap();
    });
}

fn does_not_go_past(unlogged: impl Fn(&MemFs, &Db)) {
    for has_log in [true, false] {
        let disk = MemFs::new();
        let mut end = Position::START;
        if has_log {
            let db = open(&disk, keeping());
            db.put(b"before", b"1").unwrap();
            end = db.position();
            db.close().unwrap();
        }
        let without = Options { durability: Durability::None, ..tiny() }.merge_operator(appends());
        let db = open(&disk, without);
        unlogged(&disk, &db);
        db.close().unwrap();
        for life in 0..2 {
            let db = open(&disk, keeping());
            assert_eq!(db.get(b"before").unwrap().is_some(), has_log);
            assert_eq!(db.get(b"unlogged").unwrap(), Some(b"2".to_vec()));
            let begin = db.position();
            db.put(b"logged", b"3").unwrap();
            let found = db.changes(end).and_then(|mut changes| changes.next().unwrap());
            assert!(matches!(found, Err(Error::NotKept { .. })), "{life}: {found:?}");
            assert_eq!(drain(&mut db.changes(begin).unwrap()).len(), 1);
            db.close().unwrap();
        }
    }
}

#[test]
fn a_position_that_the_store_never_gave_is_refused() {
    let db = open(&MemFs::new(), tiny());
    db.put(b"key", &[7; 100]).unwrap();
    let end = db.position();
    for wrong in [u64::from(end) + 8, u64::from(end) - 8, u64::from(end) - 3, 1 << 50] {
        let error = db.changes(wrong.into()).unwrap_err();
        let Error::NotWritten { position, .. } = error else { panic!("{wrong}: {error}") };
        assert_eq!(position, Position::from(wrong));
    }
}

#[test]
fn without_retention_the_log_that_nobody_needs_goes() {
    let disk = MemFs::new();
    let db = open(&disk, idle());
    let fill = |db: &Db| {
        for number in 0..400_u32 {
            db.put(&number.to_be_bytes(), &[1; 500]).unwrap();
        }
        db.flush().unwrap();
    };
    fill(&db);
    let error = db.changes(Position::START).unwrap_err();
    let Error::NotKept { position, first } = error else { panic!("{error}") };
    assert!(position == Position::START && first > position);
    assert!(error.to_string().contains(&first.to_string()), "{error}");
    // An open feed keeps it.
    let mut changes = db.changes(db.position()).unwrap();
    fill(&db);
    fill(&db);
    assert_eq!(drain(&mut changes).len(), 800);
}

#[test]
fn a_slow_feed_holds_no_more_than_its_limit() {
    let disk = MemFs::new();
    let db = open(&disk, Options { feed_hold_bytes: 256 << 10, ..idle() });
    let mut slow = db.changes(Position::START).unwrap();
    let mut fast = db.changes(Position::START).unwrap();
    let mut count = 0;
    for round in 0..6 {
        for number in 0..200_u32 {
            db.put(&number.to_be_bytes(), &[round; 500]).unwrap();
        }
        db.flush().unwrap();
        count += drain(&mut fast).len();
        let kept = crate::support::stat(&db, "log_kept_bytes");
        assert!(kept <= 256 << 10, "{kept}");
        assert!(round < 2 || kept >= 128 << 10, "{kept}");
    }
    assert_eq!(count, 1_200);
    let error = slow.next().unwrap().unwrap_err();
    let Error::NotKept { position, first } = error else { panic!("{error}") };
    assert!(position < first);
    // It has ended, and one that begins anew goes on.
    assert!(slow.next().is_none());
    assert!(matches!(slow.wait(std::time::Duration::ZERO), Err(Error::NotKept { .. })));
    assert!(!drain(&mut db.changes(first).unwrap()).is_empty());
}

#[test]
fn retention_is_a_limit_in_bytes() {
    let disk = MemFs::new();
    let options = || Options { log_retention_bytes: 512 << 10, ..idle() };
    for life in 0..4 {
        let db = open(&disk, options());
        for number in 0..1_000_u32 {
            db.put(&number.to_be_bytes(), &[life; 500]).unwrap();
        }
        db.flush().unwrap();
        let kept = crate::support::stat(&db, "log_kept_bytes");
        assert!(((384 << 10)..=(512 << 10)).contains(&kept), "{kept}");
        let error = db.changes(Position::START).unwrap_err();
        let Error::NotKept { first, .. } = error else { panic!("{error}") };
        let found = drain(&mut db.changes(first).unwrap());
        assert!(found.len() > 600, "{}", found.len());
        db.close().unwrap();
    }
}

#[test]
fn an_ingestion_is_an_item_without_writes() {
    let disk = MemFs::new();
    let db = open(&disk, keeping());
    let mut changes = db.changes(Position::START).unwrap();
    db.put(b"before", b"1").unwrap();
    let mut table = SstWriter::create(&disk, Path::new("/new.sst"), db.options()).unwrap();
    table.put(b"taken in", b"2").unwrap();
    table.finish().unwrap();
    db.ingest(&["/new.sst"], IngestOptions::default()).unwrap();
    db.put(b"after", b"3").unwrap();
    let found = drain(&mut changes);
    let kinds: Vec<_> = found.iter().map(|it| (it.is_ingestion(), it.len())).collect();
    assert_eq!(kinds, [(false, 1), (true, 0), (false, 1)]);
    // A reader that copies the store at that position misses nothing.
    let rest = drain(&mut db.changes(found[1].position()).unwrap());
    assert_eq!(rest.len(), 1);
}

#[test]
fn damage_in_the_log_is_an_error_with_its_place() {
    let disk = MemFs::new();
    let db = open(&disk, keeping());
    for number in 0..400_u32 {
        db.put(&number.to_be_bytes(), &[1; 500]).unwrap();
    }
    db.flush().unwrap();
    // Somewhere in the second segment.
    let (damaged, start, at) = (Path::new("/store/log/0000000000020000.wal"), 0x20000, 30_000);
    let options = keyrack_vfs::OpenOptions::new().read(true).write(true);
    let file = keyrack_vfs::Fs::open(&disk, damaged, &options).unwrap();
    file.write_at(at, &[0xee; 4]).unwrap();
    let mut changes = db.changes(Position::START).unwrap();
    let error = loop {
        match changes.next().expect("the damage comes first") {
            Ok(change) => assert_eq!(change.writes().count(), 1),
            Err(error) => break error,
        }
    };
    let last = changes.reached();
    assert!(changes.next().is_none(), "the error ends the feed");
    for error in [error, changes.wait(std::time::Duration::ZERO).unwrap_err()] {
        let Error::Corruption { path, offset, .. } = &error else { panic!("{error}") };
        // A time mark may lie between the two.
        let behind = offset - 4_096 + start - u64::from(last);
        assert!(path == damaged && (0..=40).contains(&behind), "{error} behind {last}");
        assert!(*offset <= at && at < offset + 600, "{error}");
    }
    // Behind the segment all is well.
    assert!(!drain(&mut db.changes(0x30000.into()).unwrap()).is_empty());
}

/// The beginning of the log was in no need of a sync when nobody kept it. A power loss took it, and
/// that was told as damage.
#[test]
fn a_beginning_that_was_lost_before_the_log_was_kept_is_not_damage() {
    let disk = MemFs::new();
    let db = open(&disk, idle());
    for number in 0..100_u32 {
        db.put(&number.to_be_bytes(), &[1; 500]).unwrap();
    }
    db.flush().unwrap();
    let image = disk.crash_image(1, keyrack_testkit::camera::POLICIES[0]);
    drop(db);
    let db = open(&image, Options { log_retention_bytes: 1 << 40, ..idle() });
    let read = |from: Position| {
        let changes = db.changes(from)?;
        changes.collect::<keyrack_flodb::Result<Vec<_>>>()
    };
    let error = read(Position::START).unwrap_err();
    let Error::NotKept { position, first } = error else { panic!("{error}") };
    assert!(position < first && first <= db.position(), "{first}");
    db.put(b"new", b"1").unwrap();
    assert_eq!(read(first).unwrap().last().unwrap().len(), 1);
    let error = db.changes(Position::START).unwrap_err();
    assert!(matches!(error, Error::NotKept { first: again, .. } if again == first), "{error}");
}

/// A loop over the feed that skipped errors had no end.
#[test]
fn a_final_error_is_given_once() {
    let disk = MemFs::new();
    let db = open(&disk, Options { feed_hold_bytes: 128 << 10, ..idle() });
    let mut changes = db.changes(Position::START).unwrap();
    for number in 0..2_000_u32 {
        db.put(&number.to_be_bytes(), &[1; 500]).unwrap();
    }
    db.flush().unwrap();
    let errors = changes.by_ref().take(9).filter(Result::is_err).count();
    assert_eq!(errors, 1);
    // What a wait has found, the iterator gives as well.
    let mut changes = db.changes(db.position()).unwrap();
    for number in 0..2_000_u32 {
        db.put(&number.to_be_bytes(), &[1; 500]).unwrap();
    }
    db.flush().unwrap();
    for _ in 0..2 {
        let waited = changes.wait(std::time::Duration::ZERO);
        assert!(matches!(waited, Err(Error::NotKept { .. })), "{waited:?}");
    }
    assert_eq!(changes.by_ref().take(9).filter(Result::is_err).count(), 1);
    assert!(changes.next().is_none());
}

#[test]
fn a_failed_store_gives_what_it_has_and_then_says_why() {
    let db = open(&MemFs::new(), tiny());
    let mut changes = db.changes(Position::START).unwrap();
    db.put(b"key", b"value").unwrap();
    db.clone().close().unwrap();
    let forever = std::time::Duration::from_secs(300);
    assert!(changes.wait(forever).unwrap());
    assert_eq!(changes.next().unwrap().unwrap().len(), 1);
    assert!(matches!(changes.wait(forever), Err(Error::Closed)));
    assert!(matches!(db.changes(Position::START), Err(Error::Closed)));
    assert!(try_open(&MemFs::new(), tiny()).is_ok());
}

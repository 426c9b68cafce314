//! The log that is shipped beside backups: every moment that was acknowledged comes back.

use crate::support::*;
use keyrack_backup::{Error, Moment, Repository, Shipper};
use keyrack_flodb::{Counter, Db, IngestOptions, Options, SstWriter};
use keyrack_store::{FeedError, LogEntry, LogFeed, LogReplay, LogSource};
use keyrack_testkit::random::{Announced, Draw, seeds};
use keyrack_vfs::{CrashPolicy, Fs, MemFs};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

#[track_caller]
fn usage(result: keyrack_backup::Result<impl std::fmt::Debug>, what: &str) {
    match result {
        Err(Error::Usage(text)) => assert!(text.contains(what), "{what}: {text}"),
        other => panic!("{what}: {other:?}"),
    }
}

#[track_caller]
fn needs_backup(result: keyrack_backup::Result<impl std::fmt::Debug>, what: &str) {
    match result {
        Err(Error::BackupNeeded(text)) => assert!(text.contains(what), "{what}: {text}"),
        other => panic!("{what}: {other:?}"),
    }
}

/// Rounds, flushes, backups, new shippers and power losses in any order. Each position that was
/// shipped gives exactly what was written up to it.
#[test]
fn every_position_that_was_shipped_comes_back() {
    for seed in seeds() {
        let _announced = Announced(seed);
        let mut draw = Draw::new(seed);
        let mut disk = MemFs::new();
        let keeping = |disk: &MemFs| {
            // A power loss makes no hole in a log that is kept.
            let options = Options { log_retention_bytes: 1 << 20, ..tiny() };
            Db::open_in(shared(disk), Path::new(STORE), options).unwrap()
        };
        let mut db = keeping(&disk);
        let repository = create(&shared(&MemFs::new())).unwrap();
        save(&db, &repository).unwrap();
        let mut shipper = Shipper::begin(&repository, &db).unwrap();
        let (mut round, mut rounds_at, mut shipped_to) =
            (0, BTreeMap::from([(position(&db), 0)]), 0);
        for _ in 0..60 {
            match draw.below(10) {
                0..5 => {
                    for _ in 0..draw.below(12) {
                        round += 1;
                        write(&db, round..round + 1);
                        rounds_at.insert(position(&db), round);
                    }
                }
                5 => db.flush().unwrap(),
                6 => drop(save(&db, &repository).unwrap()),
                7 => {
                    drop(shipper);
                    shipper = Shipper::begin(&repository, &db).unwrap();
                }
                8 => shipped_to = shipper.ship().unwrap().position,
                _ => {
                    drop(shipper);
                    disk = disk.crash_image(draw.next(), CrashPolicy::DropAll);
                    db = keeping(&disk);
                    round = newest_round(&db);
                    rounds_at.retain(|_, known| *known <= round);
                    let last = rounds_at.range(..=shipped_to).next_back().unwrap();
                    assert!(*last.1 <= round, "a position was shipped that a power loss takes");
                    let base = save(&db, &repository).unwrap().info.log.unwrap().position;
                    shipper = Shipper::begin(&repository, &db).unwrap();
                    // What was not shipped, and is perhaps not in the log any more.
                    rounds_at.retain(|known, _| *known <= shipped_to || base <= *known);
                }
            }
        }
        shipper.ship().unwrap();
        let report = repository.verify(None, |_| ()).unwrap();
        assert!(report.is_sound(), "{report:?}");
        let known: Vec<(u64, u64)> = rounds_at.into_iter().collect();
        for _ in 0..12 {
            let (position, round) = known[draw.below(known.len())];
            assert_eq!(round_at(&repository, Moment::Position(position)).unwrap(), round);
        }
        let (position, round) = known[known.len() - 1];
        assert_eq!(round_at(&repository, Moment::Position(position)).unwrap(), round);
    }
}

/// Operands may be applied once only, so the position of a backup has to be exact.
#[test]
fn operands_are_applied_once() {
    let options = || tiny().merge_operator(Counter);
    let fs = shared(&MemFs::new());
    let db = Db::open_in(Arc::clone(&fs), Path::new(STORE), options()).unwrap();
    let repository = create(&shared(&MemFs::new())).unwrap();
    let add = |db: &Db| db.merge(b"sum", &1_i64.to_le_bytes()).unwrap();
    save(&db, &repository).unwrap();
    add(&db);
    let mut shipper = Shipper::begin(&repository, &db).unwrap();
    let mut sums = Vec::new();
    for sum in 2..=20_i64 {
        add(&db);
        sums.push((position(&db), sum));
        if sum % 7 == 0 {
            save(&db, &repository).unwrap();
        }
        shipper.ship().unwrap();
    }
    for (position, sum) in sums {
        let fs = shared(&MemFs::new());
        let open = |dir: &Path| Db::open_in(Arc::clone(&fs), dir, options());
        // The operator is known by its name, also if the backup is from before the first operand.
        let replaying = |dir: &Path| Db::open_in(Arc::clone(&fs), dir, tiny());
        let mut replay = |dir: &Path| Ok(Box::new(replaying(dir)?) as Box<dyn LogReplay>);
        let place = (&*fs, Path::new(RESTORED));
        let moment = Moment::Position(position);
        repository.restore_at(moment, None, place, &mut replay, |_| ()).unwrap();
        let restored = open(Path::new(RESTORED)).unwrap();
        assert_eq!(restored.get(b"sum").unwrap(), Some(sum.to_le_bytes().to_vec()), "{position}");
    }
}

/// A store at round 40 with a backup of round 20, and its log with a mark after each round from 21
/// on: round n was committed by the time n seconds.
fn timed() -> (Repository, Scripted) {
    let db = open(&shared(&MemFs::new()), STORE);
    let repository = create(&shared(&MemFs::new())).unwrap();
    write(&db, 1..21);
    let from = save(&db, &repository).unwrap().info.log.unwrap().position;
    let feed_from = position(&db);
    write(&db, 21..41);
    let mut script = Scripted::after(&db, feed_from.max(from));
    let mark = |(entry, n): (LogEntry, u64)| {
        let position = entry.position() + 1;
        [entry, LogEntry::Time { position, unix_ms: n * 1000 }]
    };
    script.entries = script.entries.into_iter().zip(21..).flat_map(mark).collect();
    (repository, script)
}

#[test]
fn a_time_gives_what_was_committed_by_then() {
    let (repository, script) = timed();
    usage(round_at(&repository, Moment::UnixMs(30_000)), "has no time in the log");
    Shipper::begin(&repository, &script).unwrap().ship().unwrap();
    for (unix_ms, round) in [(21_000, 21), (30_000, 30), (30_999, 30), (39_999, 39), (40_000, 40)] {
        assert_eq!(round_at(&repository, Moment::UnixMs(unix_ms)).unwrap(), round, "{unix_ms}");
    }
    let last = script.entries.last().unwrap().position();
    usage(
        round_at(&repository, Moment::UnixMs(40_001)),
        &format!("last moment that was shipped is position {last}, 1970-01-01T00:00:40Z"),
    );
    usage(round_at(&repository, Moment::UnixMs(20_999)), "the first moment is that of the backup");
    usage(round_at(&repository, Moment::Position(last + 1)), &format!("position {last};"));
    usage(round_at(&repository, Moment::Position(0)), "the first moment is that of the backup");
    let [moments] = &repository.moments().unwrap()[..] else { panic!("one range") };
    assert_eq!((moments.to, moments.to_ms), (last, Some(40_000)));
    assert_eq!(moments.backup, repository.newest().unwrap());
}

#[test]
fn a_deletion_keeps_the_parts_that_backups_need() {
    let db = open(&shared(&MemFs::new()), STORE);
    let repository = create(&shared(&MemFs::new())).unwrap();
    let mut moments = Vec::new();
    let mut shipper = None;
    for n in 0..6 {
        if n % 2 == 0 {
            save(&db, &repository).unwrap();
        }
        let shipper = shipper.get_or_insert_with(|| Shipper::begin(&repository, &db).unwrap());
        write(&db, n * 10 + 1..n * 10 + 11);
        assert_eq!(shipper.ship().unwrap().objects, 1);
        moments.push((position(&db), n * 10 + 10));
    }
    let restores = |from: usize| {
        let report = repository.verify(None, |_| ()).unwrap();
        assert!(report.is_sound() && report.unused_objects == 0, "{report:?}");
        for (index, (position, round)) in moments.iter().enumerate() {
            // The last one before a backup may be that of the backup.
            if index + 1 == from {
                continue;
            }
            let restored = round_at(&repository, Moment::Position(*position));
            if index < from {
                usage(restored, "the first moment is");
            } else {
                assert_eq!(restored.unwrap(), *round);
            }
        }
    };
    restores(0);
    // The second of three: the first one and the log still give its moments.
    let second = repository.backups().unwrap()[1].0.clone();
    repository.delete(&[second]).unwrap();
    restores(0);
    repository.keep_newest(1).unwrap();
    restores(4);
    write(&db, 61..62);
    shipper.as_mut().unwrap().ship().unwrap();
    assert_eq!(round_at(&repository, Moment::Position(position(&db))).unwrap(), 61);
    // Without a backup nothing of the log is needed.
    let last = repository.newest().unwrap();
    repository.delete(&[last]).unwrap();
    let report = repository.verify(None, |_| ()).unwrap();
    assert_eq!((report.log_objects, report.unused_objects), (0, 0));
    needs_backup(Shipper::begin(&repository, &db), "make a backup");
}

#[test]
fn a_log_that_is_not_kept_needs_a_new_backup() {
    let db = Db::open_in(shared(&MemFs::new()), Path::new(STORE), idle()).unwrap();
    let repository = create(&shared(&MemFs::new())).unwrap();
    needs_backup(Shipper::begin(&repository, &db), "has no backup of this store to begin at");
    save(&db, &repository).unwrap();
    write(&db, 1..10);
    let first = Shipper::begin(&repository, &db).unwrap().ship().unwrap().position;
    // No shipper holds the log.
    for n in 0..10 {
        write(&db, 10 + n * 100..110 + n * 100);
        db.flush().unwrap();
    }
    needs_backup(Shipper::begin(&repository, &db), "make a backup, and ship the log again");
    save(&db, &repository).unwrap();
    let mut shipper = Shipper::begin(&repository, &db).unwrap();
    write(&db, 1010..1020);
    shipper.ship().unwrap();
    assert_eq!(round_at(&repository, Moment::Position(position(&db))).unwrap(), 1019);
    assert_eq!(round_at(&repository, Moment::Position(first)).unwrap(), 9);
    let between = round_at(&repository, Moment::Position(first + 1));
    let Err(Error::Corruption { what, .. }) = &between else { panic!("{between:?}") };
    assert!(what.contains("are missing before it"), "{what}");
    // The gap is no damage.
    let report = repository.verify(None, |_| ()).unwrap();
    assert!(report.is_sound() && report.log_objects > 1, "{report:?}");
    assert_eq!(repository.moments().unwrap().len(), 2);
}

#[test]
fn a_shipper_that_falls_behind_says_so() {
    let options = Options { feed_hold_bytes: 64 << 10, ..idle() };
    let db = Db::open_in(shared(&MemFs::new()), Path::new(STORE), options).unwrap();
    let repository = create(&shared(&MemFs::new())).unwrap();
    save(&db, &repository).unwrap();
    let mut shipper = Shipper::begin(&repository, &db).unwrap();
    for n in 0..20 {
        write(&db, 1 + n * 100..101 + n * 100);
        db.flush().unwrap();
    }
    needs_backup(shipper.ship(), "make a backup, and begin a new shipper");
}

#[test]
fn tables_that_were_taken_in_need_a_new_backup() {
    let fs = shared(&MemFs::new());
    let db = open(&fs, STORE);
    let repository = create(&shared(&MemFs::new())).unwrap();
    save(&db, &repository).unwrap();
    let mut shipper = Shipper::begin(&repository, &db).unwrap();
    write(&db, 1..5);
    let before = position(&db);
    let table = Path::new("/table");
    let mut writer = SstWriter::create(&*fs, table, &tiny()).unwrap();
    writer.put(b"key500", b"taken in").unwrap();
    writer.finish().unwrap();
    db.ingest(&[table], IngestOptions::default()).unwrap();
    db.put(b"after", b"it").unwrap();
    let after = position(&db);
    shipper.ship().unwrap();
    assert_eq!(round_at(&repository, Moment::Position(before)).unwrap(), 4);
    usage(round_at(&repository, Moment::Position(after)), "tables were added");
    save(&db, &repository).unwrap();
    db.put(b"later", b"still").unwrap();
    shipper.ship().unwrap();
    let fs = shared(&MemFs::new());
    let mut replay = |dir: &Path| Ok(Box::new(open(&fs, dir.to_str().unwrap())) as _);
    let (moment, place) = (Moment::Position(position(&db)), (&*fs, Path::new(RESTORED)));
    repository.restore_at(moment, None, place, &mut replay, |_| ()).unwrap();
    let restored = open(&fs, RESTORED);
    assert!(rows(&restored) == rows(&db));
}

/// A log that is damaged: what ends in a range cannot be read.
struct Damaged {
    script: Scripted,
    range: Range<u64>,
}

struct DamagedFeed(std::iter::Peekable<std::vec::IntoIter<LogEntry>>, Range<u64>);

impl LogSource for Damaged {
    fn log_id(&self) -> u64 {
        self.script.log_id
    }

    fn feed(&self, from: u64) -> Result<Box<dyn LogFeed>, FeedError> {
        let mut entries = self.script.entries.clone();
        entries.retain(|entry| entry.position() > from);
        Ok(Box::new(DamagedFeed(entries.into_iter().peekable(), self.range.clone())))
    }
}

impl LogFeed for DamagedFeed {
    fn next(&mut self) -> Result<Option<LogEntry>, FeedError> {
        if self.0.next_if(|entry| self.1.contains(&entry.position())).is_some() {
            // The feed has ended, and the error is told once.
            self.0 = Vec::new().into_iter().peekable();
            return Err(FeedError::Store(keyrack_store::Error::Corruption {
                path: "/store/log/1".into(),
                offset: 77,
                detail: "no whole record".to_owned(),
            }));
        }
        Ok(self.0.next())
    }

    fn wait(&mut self, _: std::time::Duration) -> Result<bool, FeedError> {
        Ok(self.0.len() > 0)
    }
}

/// What was before the damage was not shipped, and each shipper began before the damage again,
/// whatever backups there were.
#[test]
fn a_shipper_gets_past_damage_by_a_new_backup() {
    let db = open(&shared(&MemFs::new()), STORE);
    let repository = create(&shared(&MemFs::new())).unwrap();
    let first = save(&db, &repository).unwrap().info.log.unwrap().position;
    write(&db, 1..11);
    let before = position(&db);
    write(&db, 11..21);
    let damaged = |to| Damaged { script: Scripted::after(&db, first), range: before + 1..to };
    let mut shipper = Shipper::begin(&repository, &damaged(u64::MAX)).unwrap();
    for _ in 0..2 {
        needs_backup(shipper.ship(), "/store/log/1: corrupt at offset 77");
    }
    assert_eq!(round_at(&repository, Moment::Position(before)).unwrap(), 10);
    needs_backup(Shipper::begin(&repository, &damaged(u64::MAX)), "corrupt at offset 77");
    let base = save(&db, &repository).unwrap().info.log.unwrap().position;
    write(&db, 21..31);
    let shipped = Shipper::begin(&repository, &damaged(base + 1)).unwrap().ship().unwrap();
    assert_eq!(shipped.position, position(&db));
    for (moment, round) in [(before, 10), (shipped.position, 30)] {
        assert_eq!(round_at(&repository, Moment::Position(moment)).unwrap(), round);
    }
    assert!(repository.verify(None, |_| ()).unwrap().is_sound());
}

/// A large log goes out in several objects, each of a limited length.
#[test]
fn objects_have_a_limit() {
    let disk = MemFs::new();
    let options = Options { segment_bytes: 64 << 20, ..Options::default() };
    let db = Db::open_in(shared(&MemFs::new()), Path::new(STORE), options).unwrap();
    let repository = create(&shared(&disk)).unwrap();
    save(&db, &repository).unwrap();
    let mut shipper = Shipper::begin(&repository, &db).unwrap();
    for n in 0..20_u8 {
        db.put(&[n], &vec![n; 1 << 20]).unwrap();
    }
    // One batch that is larger than an object.
    db.put(b"large", &vec![1; 20 << 20]).unwrap();
    let shipped = shipper.ship().unwrap();
    // A time mark after the large batch is in another one.
    assert!(matches!(shipped.objects, 3 | 4), "{shipped:?}");
    assert_eq!(shipped.position, position(&db));
    assert!(!shipper.wait(std::time::Duration::ZERO).unwrap());
    let mut sizes: Vec<u64> = names(&disk, "/backups/logs")
        .iter()
        .map(|name| disk.metadata(&Path::new("/backups/logs").join(name)).unwrap().len)
        .collect();
    sizes.sort_unstable();
    assert!(sizes[0] < sizes[1] && sizes[1] <= (16 << 20) + 100, "{sizes:?}");
    assert!(repository.verify(None, |_| ()).unwrap().is_sound());
}

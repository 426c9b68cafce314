//! Disks that are full and disks that fail: at every operation, once and for good.

use std::sync::Arc;

use keyrack_vfs::{CrashPolicy, Fault, FaultFs, FaultPlan, MemFs, Operation};
use keyrack_wal::{Error, Log, Options};

use crate::tool::{Records, WAYS, Way, append, bounded, new_disk, open, open_from, small};

/// What a run of the workload was told.
#[derive(Default)]
struct Told {
    /// Records that were appended.
    written: Records,
    /// The end of what was synced.
    synced: u64,
    /// A sync failed, and that is final.
    poisoned: bool,
    failures: u64,
}

impl Told {
    /// Notes an error of a running log.
    fn note(&mut self, error: &Error) {
        self.failures += 1;
        match error {
            Error::Poisoned(_) => self.poisoned = true,
            Error::Io(_) => assert!(!self.poisoned, "poisoned, and then {error}"),
            _ => panic!("{error}"),
        }
    }

    /// What was written is there: all of it, or all that was synced.
    fn check(&self, records: &Records, may_lose: bool, what: &str) {
        assert!(self.written.starts_with(records), "{what}");
        let must = self.written.iter().filter(|(at, _)| !may_lose || *at < self.synced).count();
        assert!(records.len() >= must, "{what}: {} of {must}", records.len());
    }

    fn append(&mut self, log: &Log, payload: Vec<u8>) {
        match append(log, &payload) {
            Ok((lsn, _)) => {
                assert!(!self.poisoned, "a poisoned log took a record");
                self.written.push((lsn, payload));
            }
            Err(error) => self.note(&error),
        }
    }

    fn sync(&mut self, log: &Log) {
        let to = log.published();
        match log.sync(to) {
            Ok(()) => self.synced = to,
            Err(error) => self.note(&error),
        }
    }
}

/// Two lives of a log. Goes on after errors, as a program would that retries.
fn workload(fs: &FaultFs, way: Way) -> Told {
    let mut told = Told::default();
    for life in 0..2_u8 {
        if told.poisoned {
            return told;
        }
        let log = match open_from(fs, 0, way.options()) {
            Ok((log, _, records)) => {
                told.check(&records, way.is_lost_with_the_process(), "in the next life");
                told.written = records;
                log
            }
            Err(error) => {
                told.note(&error);
                continue;
            }
        };
        for number in 0..30_u8 {
            told.append(&log, vec![number ^ life; 150 * usize::from(number % 5)]);
            if number % 5 == 4 {
                told.sync(&log);
            }
        }
        let published = log.published();
        match log.close() {
            Ok(()) => told.synced = published,
            Err(error) => told.note(&error),
        }
    }
    told
}

#[test]
fn a_fault_at_any_operation_is_reported_and_nothing_that_was_told_is_a_lie() {
    bounded(|| {
        for way in WAYS {
            let fs = FaultFs::new(Arc::new(way.disk()));
            assert_eq!(workload(&fs, way).failures, 0);
            let count = fs.operations();
            assert!(count > 80, "{count}");
            let faults = [
                Fault::Io,
                Fault::NoSpace,
                Fault::TooManyFiles,
                Fault::Interrupted,
                Fault::Short,
                Fault::Errno(13),
            ];
            let mut failed = 0;
            for fault in faults {
                for at in 1..=count {
                    failed += fail(way, FaultPlan::once(at, fault), fault, true, at);
                    failed += fail(way, FaultPlan::from_then_on(at, fault), fault, false, at);
                }
            }
            assert!(failed > 1_000, "{way:?}: {failed}");
        }
    });
}

/// Runs the workload under a plan and compares what the disk has. Returns the failures.
fn fail(way: Way, plan: FaultPlan, fault: Fault, is_once: bool, seed: u64) -> u64 {
    let what = format!("{way:?}, {plan:?}");
    let disk = way.disk();
    let fs = FaultFs::new(Arc::new(disk.clone()));
    fs.arm(plan);
    let told = workload(&fs, way);
    let is_absorbed = is_once && matches!(fault, Fault::Short | Fault::Interrupted);
    assert!(!is_absorbed || told.failures == 0, "{what}");
    fs.disarm();
    let open = |disk: &MemFs| {
        let opened = open_from(disk, 0, way.options());
        let (log, _, records) = opened.unwrap_or_else(|error| panic!("{what}: {error}"));
        (log, records)
    };
    let image = disk.crash_image(seed, CrashPolicy::DropAll);
    told.check(&open(&image).1, true, &what);
    // Without a power loss everything is there that was appended, unless a failed sync has thrown
    // it away.
    if !told.poisoned {
        let (log, records) = open(&disk);
        told.check(&records, way.is_lost_with_the_process(), &what);
        append(&log, b"again").unwrap_or_else(|error| panic!("{what}: {error}"));
    }
    told.failures
}

/// The space of a segment is reserved before a record goes there, so no flush finds the disk full.
#[test]
fn a_flush_finds_its_space_on_a_disk_that_is_full_meanwhile() {
    for way in WAYS {
        // The second is so large that the space of the first segment grows by several pages.
        for options in [way.options(), Options { segment_bytes: 1 << 20, ..way.options() }] {
            let disk = way.disk();
            let (log, _) = open(&disk, options);
            let mut written = Records::new();
            for number in 0..300_u32 {
                let payload = vec![number as u8; 1_000];
                disk.set_capacity(1 << 30);
                let (lsn, end) = append(&log, &payload).unwrap();
                disk.set_capacity(0);
                log.sync(end).unwrap_or_else(|error| panic!("{way:?}, {number}: {error}"));
                written.push((lsn, payload));
            }
            let image = disk.crash_image(0, CrashPolicy::DropAll);
            image.set_capacity(1 << 30);
            assert!(open_from(&image, 0, options).unwrap().2 == written, "{way:?}");
            log.close().unwrap_or_else(|error| panic!("{way:?}: {error}"));
        }
    }
}

#[test]
fn on_a_full_disk_appends_fail_and_work_again_when_there_is_space() {
    WAYS.into_iter().for_each(meet_a_full_disk);
}

fn meet_a_full_disk(way: Way) {
    let (disk, options) = (way.disk(), way.options());
    // Two segments: one in use, one made ahead; and the marker.
    disk.set_capacity(5 * 4_096);
    let (log, _) = open(&disk, options);
    let mut written = Records::new();
    let mut append_one = |_| match append(&log, &[7; 500]) {
        Ok((lsn, _)) => {
            written.push((lsn, vec![7; 500]));
            None
        }
        Err(error) => Some(error),
    };
    let error = (0..1_000).find_map(&mut append_one).expect("the disk is full some day");
    assert!(matches!(&error, Error::Io(error) if error.is_no_space()), "{error}");
    assert_eq!(written.len(), 2 * (4_096 / 520));
    for length in [0, 500, 4_000] {
        assert!(append(&log, &vec![8; length]).is_err());
    }
    // What is there can be synced and read.
    log.sync(log.published()).unwrap();
    let image = disk.crash_image(0, CrashPolicy::DropAll);
    assert_eq!(open_from(&image, 0, options).unwrap().2, written);
    disk.set_capacity(40 * 4_096);
    for _ in 0..20 {
        written.push((append(&log, &[9; 500]).unwrap().0, vec![9; 500]));
    }
    drop(log);
    assert_eq!(open(&disk, options).1, written);
}

/// Several threads meet the full disk; space comes while they go on.
#[test]
fn threads_that_meet_a_full_disk_lose_nothing() {
    WAYS.into_iter().for_each(meet_a_full_disk_in_threads);
}

fn meet_a_full_disk_in_threads(way: Way) {
    let (disk, options) = (way.disk(), way.options());
    disk.set_capacity(8 * 4_096);
    let (log, _) = open(&disk, options);
    let mut written: Records = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3_u8)
            .map(|thread| {
                let (log, disk) = (&log, &disk);
                scope.spawn(move || {
                    let mut mine = Records::new();
                    let mut failures = 0;
                    while mine.len() < 60 {
                        let payload = vec![thread; 30 * (mine.len() % 20)];
                        match append(log, &payload) {
                            Ok((lsn, _)) => mine.push((lsn, payload)),
                            Err(error) => {
                                assert!(matches!(&error, Error::Io(e) if e.is_no_space()));
                                failures += 1;
                                if failures == 20 {
                                    disk.set_capacity(1_000 * 4_096);
                                }
                            }
                        }
                    }
                    mine
                })
            })
            .collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    written.sort();
    drop(log);
    assert_eq!(open(&disk, options).1, written);
}

#[test]
fn a_failed_sync_is_final() {
    bounded(|| {
        let kinds = [Operation::Flush, Operation::Sync, Operation::SyncDir];
        for (kind, way) in kinds.into_iter().flat_map(|kind| WAYS.map(|way| (kind, way))) {
            let disk = way.disk();
            let fs = FaultFs::new(Arc::new(disk.clone()));
            let (log, _) = open(&fs, way.options());
            let durable = append(&log, &[1; 100]).unwrap().1;
            log.sync(durable).unwrap();
            fs.arm(FaultPlan::once(1, Fault::Io).only(&[kind]));
            let append_and_sync =
                |_| append(&log, &[2; 100]).and_then(|(_, end)| log.sync(end)).err();
            let error = (0..1_000).find_map(append_and_sync).expect("one sync fails");
            assert!(matches!(error, Error::Poisoned(_)), "{error}");
            assert!(error.to_string().contains("Input/output error"), "{error}");
            fs.disarm();
            let synced = log.synced();
            for _ in 0..2 {
                let error = log.sync(log.published()).map_or_else(
                    |error| error,
                    |()| {
                        assert_eq!(synced, log.published(), "synced what a failed flush covered");
                        Error::Poisoned(Arc::new(disk_error()))
                    },
                );
                assert!(matches!(error, Error::Poisoned(_)), "{error}");
                assert!(matches!(log.reserve(1), Err(Error::Poisoned(_))));
                assert_eq!(log.synced(), synced);
            }
            log.sync(durable).expect("durable before");
            log.release(durable).expect("reading and removing go on");
            assert!(matches!(log.close(), Err(Error::Poisoned(_))));
        }
    });
}

/// Any error of a disk.
fn disk_error() -> keyrack_vfs::Error {
    use keyrack_vfs::Fs;
    MemFs::new().read(std::path::Path::new("/missing")).unwrap_err()
}

/// Those who wait for a flush of somebody else hear of its failure, too.
#[test]
fn everybody_who_waits_for_a_failed_flush_is_told() {
    bounded(|| WAYS.into_iter().for_each(fail_a_flush_for_all));
}

fn fail_a_flush_for_all(way: Way) {
    let fs = FaultFs::new(Arc::new(way.disk()));
    let (log, _) = open(&fs, way.options());
    append(&log, b"x").unwrap();
    fs.arm(FaultPlan::from_then_on(1, Fault::Io).only(&[Operation::Flush]));
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let log = &log;
                scope.spawn(move || append(log, b"y").and_then(|(_, end)| log.sync(end)))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Err(Error::Poisoned(_)))));
    assert_eq!(fs.operations_of(Operation::Flush), 1, "nobody flushes again");
}

/// What cannot be removed now is removed by the next release.
#[test]
fn a_release_that_fails_is_taken_up_again() {
    let disk = new_disk();
    let fs = FaultFs::new(Arc::new(disk));
    let (log, _) = open(&fs, Options { recycled_max: 0, ..small() });
    for _ in 0..100 {
        append(&log, &[0; 300]).unwrap();
    }
    let before = log.stats().segments;
    fs.arm(FaultPlan::once(3, Fault::Io).only(&[Operation::RemoveFile]));
    assert!(matches!(log.release(log.published()), Err(Error::Io(_))));
    let stats = log.stats();
    assert_eq!((stats.segments, stats.kept_segments), (1, before - 3));
    log.release(log.published()).unwrap();
    assert_eq!(log.stats().kept_segments, 0);
}

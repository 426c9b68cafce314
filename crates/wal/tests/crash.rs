//! Power losses. What was synced is there; of what was not, a first part; nothing else ever.
//!
//! A history is drawn from a seed: appends, syncs, releases, kills and reopenings. At many points
//! the disk is asked what a power loss could leave, and each such disk is opened as a log.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use keyrack_vfs::{CrashPolicy, FailedSync, Fault, FaultFs, FaultPlan, Fs, Lie, MemFs, Operation};
use keyrack_wal::{Error, Log, Options};

use crate::tool::{Records, WAYS, Way, append, bounded, open_from, payload};
use keyrack_testkit::camera::POLICIES;
use keyrack_testkit::random::{Announced, Draw, successive_seeds};

/// What a log must hold.
#[derive(Clone, Default)]
struct Expected {
    /// Everything that may be there, in order, from the last release on.
    written: Records,
    /// The end of what must be.
    synced: u64,
    /// Where to start from.
    from: u64,
    /// The end of the last record that was written, lost or not.
    end: u64,
}

impl Expected {
    fn append(&mut self, log: &Log, payload: Vec<u8>) -> Result<(), Error> {
        let (lsn, end) = append(log, &payload)?;
        assert!(lsn >= self.end, "LSNs only grow");
        self.end = end;
        self.written.push((lsn, payload));
        Ok(())
    }

    fn sync(&mut self, log: &Log, to: u64) -> Result<(), Error> {
        log.sync(to)?;
        assert!(log.synced() >= to);
        self.synced = self.synced.max(to);
        Ok(())
    }

    fn release(&mut self, log: &Log, draw: &mut Draw) -> Result<(), Error> {
        // What is released is in tables that are durable.
        let durable = self.written.iter().filter(|(at, _)| *at < self.synced).count();
        if durable > 0 {
            self.from = self.written[draw.below(durable as u64) as usize].0;
            self.written.retain(|(at, _)| *at >= self.from);
            log.release(self.from)?;
        }
        Ok(())
    }

    /// Opens a log and compares. From then on, what was found is what is expected.
    fn check(&mut self, fs: &(impl Fs + Clone + 'static), options: Options) -> Result<Log, Error> {
        let (log, recovered, records) = open_from(fs, self.from, options)?;
        assert!(self.written.starts_with(&records), "something else than what was written");
        let must = self.written.iter().filter(|(at, _)| *at < self.synced).count();
        assert!(records.len() >= must, "{} of {must} synced records", records.len());
        assert!(log.published() >= recovered.end);
        self.written = records;
        Ok(log)
    }
}

/// A power loss, and what the log says afterwards; then perhaps another one during the recovery or
/// soon after it. Returns how many disks were looked at.
fn crash(disk: &MemFs, expected: &Expected, draw: &mut Draw, options: Options) -> u64 {
    let policy = POLICIES[draw.below(4) as usize];
    let image = disk.crash_image(draw.next(), policy);
    if draw.below(3) > 0 {
        let mut expected = expected.clone();
        drop(expected.check(&image, options).unwrap());
        return 1;
    }
    // The power goes out again, at some operation of the recovery and of the first appends.
    let fs = FaultFs::new(Arc::new(image.clone()));
    fs.arm(FaultPlan::from_then_on(1 + draw.below(60), Fault::PowerOut));
    let mut expected = expected.clone();
    let mut run = || -> Result<(), Error> {
        let log = expected.check(&fs, options)?;
        // What is read is there for good once it is synced.
        expected.sync(&log, log.published())?;
        for _ in 0..draw.below(40) {
            expected.append(&log, payload(draw, 500))?;
        }
        expected.sync(&log, expected.end.max(expected.synced))
    };
    match run() {
        Err(Error::Io(_) | Error::Poisoned(_)) | Ok(()) => {}
        Err(error) => panic!("{error}"),
    }
    let image = image.crash_image(draw.next(), POLICIES[draw.below(4) as usize]);
    drop(expected.check(&image, options).unwrap());
    2
}

/// One step of a history.
fn step(
    log: &mut Option<Log>,
    disk: &mut MemFs,
    expected: &mut Expected,
    draw: &mut Draw,
    (way, options): (Way, Options),
) -> Result<(), Error> {
    let open = log.as_ref().unwrap();
    match draw.below(20) {
        0..=13 => expected.append(open, payload(draw, open.record_bytes_max()))?,
        14..=15 => {
            let to = expected.written.last().map_or(0, |_| expected.end);
            expected.sync(open, to)?;
        }
        16 => drop(open.reserve(draw.below(300) as usize)?),
        17 => expected.release(open, draw)?,
        18 if draw.below(4) == 0 => {
            log.take().unwrap().close()?;
            expected.synced = expected.end;
            *log = Some(expected.check(disk, options)?);
        }
        _ if draw.below(4) == 0 => {
            // Killed: what is in the page cache is there, all of it; what is in memory is gone.
            let killed = disk.process_crash_image();
            *log = None;
            *disk = killed;
            let all = expected.written.len();
            *log = Some(expected.check(disk, options)?);
            let lost = all - expected.written.len();
            assert!(lost == 0 || way.is_lost_with_the_process(), "a kill loses {lost} records");
        }
        _ => {}
    }
    Ok(())
}

#[test]
fn synced_records_survive_power_losses_anywhere() {
    let mut images = 0;
    for seed in successive_seeds(120) {
        let _announced = Announced(seed);
        let mut draw = Draw::new(seed);
        let way = WAYS[seed as usize % 3];
        // In a larger segment the first one grows by several pages.
        let segment_bytes = [4_096, 4_096, 4_096, 32 << 10][draw.below(4) as usize];
        let recycled_max = draw.below(4) as usize;
        let options = Options { recycled_max, segment_bytes, ..way.options() };
        let mut disk = way.disk();
        let mut expected = Expected::default();
        let mut log = Some(expected.check(&disk, options).unwrap());
        for _ in 0..150 {
            step(&mut log, &mut disk, &mut expected, &mut draw, (way, options)).unwrap();
            if draw.below(3) > 0 {
                images += crash(&disk, &expected, &mut draw, options);
            }
        }
        // So that the drop does not sync what is of no interest.
        drop(log);
    }
    assert!(images > 10_000, "{images}");
}

/// As above, with the power going out at every single operation of one history, in turn.
#[test]
fn synced_records_survive_a_power_loss_at_every_operation() {
    bounded(|| {
        for (seed, way) in successive_seeds(3).flat_map(|seed| WAYS.map(|way| (seed, way))) {
            let _announced = Announced(seed);
            for n in 1.. {
                let disk = way.disk();
                let fs = FaultFs::new(Arc::new(disk.clone()));
                fs.arm(FaultPlan::from_then_on(n, Fault::PowerOut));
                let (expected, _) = history(&fs, seed, way.options());
                for (image, policy) in POLICIES.into_iter().cycle().take(12).enumerate() {
                    let image = disk.crash_image(seed ^ n << 32 ^ image as u64, policy);
                    drop(expected.clone().check(&image, way.options()).unwrap());
                }
                if fs.injected() == 0 {
                    break;
                }
            }
        }
    });
}

/// A fixed history until the first error, with the error.
fn history(fs: &FaultFs, seed: u64, options: Options) -> (Expected, Option<Error>) {
    let mut draw = Draw::new(seed);
    let mut expected = Expected::default();
    let mut run = || -> Result<(), Error> {
        for _ in 0..3 {
            let log = expected.check(fs, options)?;
            for number in 0..25 {
                expected.append(&log, payload(&mut draw, 1_500))?;
                if number % 6 == 5 {
                    expected.sync(&log, expected.end)?;
                    expected.release(&log, &mut draw)?;
                }
            }
            log.close()?;
            expected.synced = expected.end;
        }
        Ok(())
    };
    let error = run().err();
    (expected, error)
}

/// The harness itself: a log with the fault that each of these disks stands for is found out.
#[test]
fn a_disk_that_lies_about_syncs_is_found_out() {
    let lies = [
        (Lie::Omitted, Operation::Flush),
        (Lie::Late, Operation::Flush),
        (Lie::Retried, Operation::Flush),
        (Lie::Omitted, Operation::SyncDir),
    ];
    for ((lie, kind), way) in lies.into_iter().flat_map(|lie| WAYS.map(|way| (lie, way))) {
        let found_out = |seed: u64| {
            let disk = way.disk();
            let ending = FaultFs::new(Arc::new(disk.clone()));
            ending.arm(FaultPlan::from_then_on(20 + seed, Fault::PowerOut));
            let fs = FaultFs::new(Arc::new(ending));
            fs.arm(FaultPlan::from_then_on(1, Fault::Lie(lie)).only(&[kind]));
            let run = || {
                let (expected, _) = history(&fs, seed, way.options());
                let image = disk.crash_image(seed, POLICIES[seed as usize % 4]);
                drop(expected.clone().check(&image, way.options()).unwrap());
            };
            let cause = catch_unwind(AssertUnwindSafe(run)).err()?;
            Some(cause.downcast_ref::<String>().expect("a line").clone())
        };
        let mut texts = (0..40).filter_map(found_out);
        let is_found_out = texts.any(|text| text.contains("synced records"));
        assert!(is_found_out, "{lie:?}, {kind}, {way:?}");
    }
}

/// A sync fails once. Whatever it left on the disk and in the page cache: nothing that was synced
/// is lost, nothing is called synced that is not, and after a reopening the log is sound.
#[test]
fn a_failed_sync_loses_nothing_that_was_synced() {
    bounded(|| {
        for way in WAYS {
            let mut poisoned = 0;
            for seed in successive_seeds(60) {
                let _announced = Announced(seed);
                for (kind, at) in [
                    (Operation::Flush, 1 + seed % 12),
                    (Operation::Sync, 1 + seed % 9),
                    (Operation::SyncDir, 1 + seed % 9),
                ] {
                    let plan = FaultPlan::once(at, Fault::Io).only(&[kind]);
                    poisoned += u64::from(fail_a_sync(way, seed, plan));
                }
            }
            assert!(poisoned > 100, "{way:?}: {poisoned}");
        }
    });
}

/// Whether the history came to the sync that fails.
fn fail_a_sync(way: Way, seed: u64, plan: FaultPlan) -> bool {
    let options = way.options();
    let disk = way.disk();
    disk.set_failed_sync(match seed % 4 {
        0 => FailedSync::Dropped,
        1 => FailedSync::Cached,
        _ => FailedSync::Partly { seed },
    });
    let fs = FaultFs::new(Arc::new(disk.clone()));
    fs.arm(plan);
    let (mut expected, error) = history(&fs, seed, options);
    let Some(error) = error else { return false };
    assert!(matches!(error, Error::Poisoned(_)), "{error}");
    // The power may go at once,
    for policy in POLICIES {
        let image = disk.crash_image(seed, policy);
        drop(expected.clone().check(&image, options).unwrap());
    }
    // or the process ends, and another one reads what the page cache shows.
    let killed = disk.process_crash_image();
    let log = expected.check(&killed, options).unwrap();
    let (found, published) = (expected.written.len(), log.published());
    expected.sync(&log, published).unwrap();
    assert_eq!(log.synced(), published);
    let image = killed.crash_image(seed, CrashPolicy::DropAll);
    drop(expected.clone().check(&image, options).unwrap());
    expected.append(&log, b"after".to_vec()).unwrap();
    expected.sync(&log, expected.end).unwrap();
    for policy in POLICIES {
        let image = killed.crash_image(seed, policy);
        let mut after = expected.clone();
        drop(after.check(&image, options).unwrap());
        assert_eq!(after.written.len(), found + 1);
    }
    true
}

/// What several writers have done with a log.
#[derive(Default)]
struct Commits {
    written: Mutex<Records>,
    acknowledged: Mutex<Records>,
    /// Where to start from.
    from: AtomicU64,
}

impl Commits {
    /// Appends and commits drawn records, and releases some that are durable, until the first
    /// error.
    fn write(&self, log: &Log, draw: &mut Draw, count: usize) -> Result<(), Error> {
        for _ in 0..count {
            let payload = payload(draw, 900);
            let mut record = log.reserve(payload.len())?;
            let (lsn, end) = (record.lsn(), record.end());
            self.written.lock().unwrap().push((lsn, payload.clone()));
            record.write(&[&payload])?;
            record.publish();
            log.commit(end)?;
            assert!(log.synced() >= end);
            self.acknowledged.lock().unwrap().push((lsn, payload));
            if draw.below(8) == 0 {
                self.from.fetch_max(lsn, Ordering::SeqCst);
                log.release(lsn)?;
            }
        }
        Ok(())
    }

    /// The disk has all that was acknowledged before, and nothing that was not written. The order
    /// of the questions matters, as writers go on: `image` is called behind the first.
    fn check(&self, image: impl FnOnce() -> MemFs, options: Options) {
        let must = self.acknowledged.lock().unwrap().clone();
        let image = image();
        let from = self.from.load(Ordering::SeqCst);
        let (_, _, records) = open_from(&image, from, options).unwrap();
        let mut written = self.written.lock().unwrap().clone();
        written.sort();
        for record in must.iter().filter(|(lsn, _)| *lsn >= from) {
            assert!(records.binary_search(record).is_ok(), "{} is gone", record.0);
        }
        for record in &records {
            assert!(written.binary_search(record).is_ok(), "{} was not written", record.0);
        }
    }
}

/// An acknowledged commit is durable, whatever other threads do at that moment.
#[test]
fn commits_of_eight_writers_survive() {
    for seed in successive_seeds(8) {
        let _announced = Announced(seed);
        let way = [Way::Synced, Way::Direct][seed as usize % 2];
        let (disk, options) = (way.disk(), way.options());
        let (log, _, _) = open_from(&disk, 0, options).unwrap();
        let commits = Commits::default();
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (log, commits) = (&log, &commits);
                let mut draw = Draw::new(seed ^ thread << 32);
                scope.spawn(move || commits.write(log, &mut draw, 30).unwrap());
            }
            for image in 0..40 {
                let policy = POLICIES[image as usize % 4];
                commits.check(|| disk.crash_image(seed << 8 | image, policy), options);
            }
        });
        commits.check(|| disk.crash_image(seed, CrashPolicy::DropAll), options);
        assert_eq!(commits.acknowledged.lock().unwrap().len(), 240);
    }
}

/// As above, and the power goes out in the middle of a flush, which is torn. Segments are used
/// again meanwhile, so that there are old records behind the torn ones.
#[test]
fn commits_of_eight_writers_survive_a_power_loss_within_a_flush() {
    bounded(|| {
        let mut recycled = 0;
        for seed in successive_seeds(40) {
            let _announced = Announced(seed);
            let way = [Way::Synced, Way::Direct][seed as usize % 2];
            let (disk, options) = (way.disk(), way.options());
            let fs = FaultFs::new(Arc::new(disk.clone()));
            let (log, _, _) = open_from(&fs, 0, options).unwrap();
            let mut draw = Draw::new(seed);
            let flush = FaultPlan::from_then_on(1 + draw.below(300), Fault::PowerOut);
            fs.arm(flush.only(&[Operation::Flush]));
            let commits = Commits::default();
            std::thread::scope(|scope| {
                for thread in 0..8 {
                    let (log, commits) = (&log, &commits);
                    let mut draw = Draw::new(seed ^ thread << 32);
                    scope.spawn(move || match commits.write(log, &mut draw, 1_000) {
                        Err(Error::Io(_) | Error::Poisoned(_)) => {}
                        other => panic!("without power: {other:?}"),
                    });
                }
            });
            recycled += log.stats().recycled;
            for (image, policy) in POLICIES.into_iter().cycle().take(12).enumerate() {
                commits.check(|| disk.crash_image(seed << 8 | image as u64, policy), options);
            }
        }
        assert!(recycled > 40, "{recycled}");
    });
}

//! Disks that fail under a store with blob files: at every operation of a history of flushes,
//! compactions and collections, once and for good, with power losses at the same places.

use crate::blobs::options;
use crate::disk::CHANGES;
use crate::faults::bounded;
use crate::support::{DIR, Model, rows, try_open, walk};
use keyrack_flodb::{Db, Error, Result, WriteOptions, verify};
use keyrack_testkit::random::is_brief;
use keyrack_vfs::{CrashPolicy, Fault, FaultFs, FaultPlan, Fs, MemFs};
use std::path::Path;
use std::sync::Arc;

const KEYS: u32 = 12;
const ROUNDS: u32 = 4;

fn key(n: u32) -> Vec<u8> {
    format!("key{n:02}").into_bytes()
}

fn value(n: u32, round: u32) -> Vec<u8> {
    let mut value = format!("{n} in round {round}").into_bytes();
    value.resize([20, 1024, 1500][n as usize % 3], b'.');
    value
}

/// What each key may hold: the round of the last synced write, of the last acknowledged one, and of
/// the last one that was begun.
#[derive(Clone)]
struct Told {
    synced: [Option<u32>; KEYS as usize],
    acknowledged: [Option<u32>; KEYS as usize],
    begun: [Option<u32>; KEYS as usize],
    failures: usize,
}

impl Told {
    fn note(&mut self, result: Result<()>) -> bool {
        match &result {
            Ok(()) => {}
            Err(Error::Io(_) | Error::NoSpace(_) | Error::Poisoned(_)) => self.failures += 1,
            Err(error) => panic!("the machine's failure became something else: {error:?}"),
        }
        result.is_ok()
    }

    /// Each key has a value between the last synced write and the last one begun.
    fn check(&self, found: &Model, what: &str) {
        for n in 0..KEYS {
            let (synced, begun) = (self.synced[n as usize], self.begun[n as usize]);
            let value_of = |round: u32| value(n, round);
            let found = found.get(&key(n));
            let rounds = synced.unwrap_or(0)..=begun.unwrap_or(0);
            let is_any =
                found.is_some_and(|found| rounds.into_iter().any(|it| *found == value_of(it)));
            assert!(
                is_any && begun.is_some() || found.is_none() && synced.is_none(),
                "{what}: {n}"
            );
        }
    }
}

/// Every key is written in each round, half of them synced; then a flush or a compaction. In the
/// end most of the first blob files is dead, and collected.
fn workload(fs: &FaultFs) -> Told {
    let nothing = [None; KEYS as usize];
    let mut told = Told { synced: nothing, acknowledged: nothing, begun: nothing, failures: 0 };
    let db = match try_open(fs, options()) {
        Ok(db) => db,
        Err(error) => {
            told.note(Err(error));
            return told;
        }
    };
    for round in 0..ROUNDS {
        for n in 0..KEYS {
            told.begun[n as usize] = Some(round);
            let sync = WriteOptions { sync: n % 2 == 0 };
            if told.note(db.put_with(&key(n), &value(n, round), sync)) {
                told.acknowledged[n as usize] = Some(round);
                if sync.sync {
                    told.synced[n as usize] = Some(round);
                }
            }
        }
        let done = if round % 2 == 0 { db.flush() } else { db.compact_range(None, None) };
        if told.note(done) {
            told.synced = told.acknowledged;
        }
        if let Ok(found) = walk(db.iter().unwrap()) {
            told.check(&found.into_iter().collect(), "while it is open");
        }
    }
    told.note(db.close());
    told
}

fn look(disk: &MemFs, told: &Told, what: &str) {
    let db = try_open(disk, options()).unwrap_or_else(|error| panic!("{what}: {error}"));
    told.check(&rows(&db), what);
    db.put(b"after", b"the failure").unwrap_or_else(|error| panic!("{what}: {error}"));
    db.compact_range(None, None).unwrap_or_else(|error| panic!("{what}: {error}"));
    db.close().unwrap_or_else(|error| panic!("{what}: {error}"));
    let report = verify(Arc::new(disk.clone()), Path::new(DIR), &options()).unwrap();
    // Nothing is left behind either: neither tables nor blob files that nobody names.
    assert!(report.findings.is_empty(), "{what}: {:?}", report.findings);
    let db: Db = try_open(disk, options()).unwrap();
    told.check(&rows(&db), what);
}

#[test]
fn a_failure_at_every_operation_loses_no_synced_value_and_leaves_no_file() {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    assert_eq!(workload(&fs).failures, 0);
    let collected = {
        let names = fs.list(Path::new(DIR)).unwrap();
        names.iter().filter(|entry| entry.name.to_string_lossy().ends_with(".blob")).count()
    };
    assert_eq!(collected, 1, "all others were emptied");
    let count = fs.operations();
    assert!(count > 150, "{count}");
    let stride = if is_brief() { 5 } else { 1 };
    for fault in [Fault::Io, Fault::NoSpace] {
        for at in (1..=count).step_by(stride) {
            for new in [FaultPlan::once, FaultPlan::from_then_on] {
                let disk = MemFs::new();
                let fs = FaultFs::new(Arc::new(disk.clone()));
                fs.arm(new(at, fault));
                let what = format!("{fault:?} at {at} of {count}");
                let told = bounded(&what, {
                    let fs = fs.clone();
                    move || workload(&fs)
                });
                fs.disarm();
                look(&disk.crash_image(at, CrashPolicy::DropAll), &told, &what);
                look(&disk.crash_image(at, CrashPolicy::KeepAll), &told, &what);
            }
        }
    }
}

#[test]
fn a_power_loss_at_every_change_loses_no_synced_value() {
    for at in 1.. {
        let disk = MemFs::new();
        let fs = FaultFs::new(Arc::new(disk.clone()));
        fs.arm(FaultPlan::from_then_on(at, Fault::PowerOut).only(&CHANGES));
        let told = workload(&fs);
        if fs.injected() == 0 {
            assert!(at > 60, "{at}");
            break;
        }
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Reordered] {
            look(&disk.crash_image(at, policy), &told, &format!("{policy:?} at {at}"));
        }
    }
}

//! Disks that fail: at every single operation of a workload, once and for good. Nothing that was
//! acknowledged is lost, nobody panics or waits for ever, and what could be read can be read.

use crate::journal::Journal;
use crate::support::{DIR, Model, Write, appends, put_until, stat, still, try_open, walk};
use keyrack_flodb::{
    Batch, Change, Db, Durability, Error, FindingKind, Options, Result, WriteOptions, verify,
};
use keyrack_testkit::random::{Draw, is_brief};
use keyrack_vfs::{CrashPolicy, FailedSync, Fault, FaultFs, FaultPlan, Fs, MemFs, Operation};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Far more than any of this takes: whoever waits longer waits for ever.
const FOR_EVER: Duration = Duration::from_secs(300);

/// Runs `work` in a thread of its own, and fails if it does not come back.
pub(crate) fn bounded<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (done, outcome) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let _ = done.send(work());
    });
    match outcome.recv_timeout(FOR_EVER) {
        Ok(value) => {
            thread.join().unwrap();
            value
        }
        Err(mpsc::RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => {
                eprintln!("{what}");
                std::panic::resume_unwind(panic)
            }
            Ok(()) => unreachable!("it sends before it ends"),
        },
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what}: it waits for ever"),
    }
}

fn options(durability: Durability) -> Options {
    Options {
        durability,
        memtable_bytes: 64 << 10,
        segment_bytes: 16 << 10,
        block_bytes: 1000,
        cache_bytes: 0,
        table_bytes: 8 << 10,
        level0_tables: 2,
        level_base_bytes: 16 << 10,
        compaction_threads: 0,
        clock: still(),
        ..Options::default()
    }
    .merge_operator(appends())
}

fn open(fs: &(impl Fs + Clone + 'static), durability: Durability) -> Result<Db> {
    try_open(fs, options(durability))
}

fn rows(db: &Db) -> Result<Model> {
    Ok(walk(db.iter()?)?.into_iter().collect())
}

/// What a run of the workload was told.
struct Told {
    journal: Journal,
    failures: usize,
    /// A failure was final, in this life.
    poisoned: bool,
    /// In any life.
    ever_poisoned: bool,
}

impl Told {
    fn note(&mut self, error: &Error) {
        self.failures += 1;
        match error {
            Error::Poisoned(_) => (self.poisoned, self.ever_poisoned) = (true, true),
            Error::Io(_) | Error::NoSpace(_) => {}
            error => panic!("the machine's failure became something else: {error:?}"),
        }
    }

    fn write(&mut self, db: &Db, draw: &mut Draw, number: usize) {
        let count = if draw.below(4) == 0 { 5 } else { 1 };
        let write = |_| {
            let key = format!("key{:03}", draw.below(60)).into_bytes();
            let value = format!("{number}:{}", "v".repeat(draw.below(300))).into_bytes();
            match draw.below(8) {
                0..4 => Write::Put(key, value),
                4 => Write::Merge(key, value),
                5 => put_until(draw, key, value),
                _ => Write::Delete(key),
            }
        };
        let writes: Vec<_> = (0..count).map(write).collect();
        let sync = number % 8 == 7 || db.options().durability == Durability::Sync;
        let step = self.journal.begin(0, writes);
        let poisoned = self.poisoned;
        match db.write(&step.batch(), WriteOptions { sync: number % 8 == 7 }) {
            Ok(()) => {
                assert!(!poisoned, "a poisoned store took a write");
                self.journal.returned_from(0);
                if sync {
                    self.journal.synced_up_to(&self.journal.returned());
                }
            }
            Err(error) => {
                self.note(&error);
                if !self.poisoned || poisoned {
                    // Refused: nothing of it was done.
                    self.journal.withdraw(0);
                }
            }
        }
    }

    /// Reads everything, if the disk lets it: the second time at the latest, if it failed once.
    fn read(&mut self, db: &Db, at_least: &[usize]) -> bool {
        for _ in 0..2 {
            match rows(db) {
                Ok(found) => {
                    let there = self.journal.find(&found, at_least, &self.journal.begun());
                    there.unwrap_or_else(|wrong| panic!("while it is open: {wrong}"));
                    return true;
                }
                Err(error) => {
                    assert!(matches!(error, Error::Io(_)), "{error:?}");
                    self.failures += 1;
                }
            }
        }
        false
    }

    fn note_result(&mut self, result: Result<()>) -> bool {
        result.inspect_err(|error| self.note(error)).is_ok()
    }

    /// A life of the store. Goes on after errors, as a program would that retries.
    fn live(&mut self, fs: &FaultFs, life: usize, once: bool, durability: Durability) {
        self.poisoned = false;
        let db = match open(fs, durability) {
            Ok(db) => db,
            Err(error) => return self.note(&error),
        };
        let at_least =
            if self.ever_poisoned { self.journal.synced() } else { self.journal.returned() };
        if !self.read(&db, &at_least) {
            assert!(!once, "it cannot be read though the disk failed only once");
            return;
        }
        // What is there now is where this life begins.
        let Ok(found) = rows(&db) else { return };
        let there = self.journal.find(&found, &at_least, &self.journal.begun()).unwrap();
        self.journal.cut(&there);
        let mut draw = Draw::new(life as u64);
        for number in 0..100 {
            self.write(&db, &mut draw, number);
            if number % 30 == 29 {
                let returned = self.journal.returned();
                if self.note_result(db.flush()) {
                    self.journal.synced_up_to(&returned);
                }
                let read = self.read(&db, &returned);
                assert!(read || !once, "reads do not go on");
            }
        }
        self.note_result(db.compact_range(None, None));
        let returned = self.journal.returned();
        let read = self.read(&db, &returned);
        assert!(read || !once, "reads do not go on");
        self.note_result(db.close());
    }
}

/// Three lives of a store, of a hundred writes each.
fn workload(fs: &FaultFs, once: bool, durability: Durability) -> Told {
    let journal = Journal::new(&Model::new(), &[""]);
    let mut told = Told { journal, failures: 0, poisoned: false, ever_poisoned: false };
    for life in 0..3 {
        told.live(fs, life, once, durability);
    }
    told
}

/// Runs the workload under a plan, and compares what the disk has afterwards.
fn run(
    plan: FaultPlan,
    once: bool,
    loses: FailedSync,
    durability: Durability,
    fault: Fault,
) -> usize {
    let disk = MemFs::new();
    disk.set_failed_sync(loses);
    let fs = FaultFs::new(Arc::new(disk.clone()));
    fs.arm(plan);
    let told = workload(&fs, once, durability);
    fs.disarm();
    let (synced, begun) = (told.journal.synced(), told.journal.begun());
    let check = |disk: &MemFs, at_least: &[usize], what: &str| {
        let db = open(disk, durability).unwrap_or_else(|error| panic!("{what}: {error}"));
        let found = rows(&db).unwrap_or_else(|error| panic!("{what}: {error}"));
        let there = told.journal.find(&found, at_least, &begun);
        there.unwrap_or_else(|wrong| panic!("{what}: {wrong}"));
        db.put(b"after", b"the failure").unwrap_or_else(|error| panic!("{what}: {error}"));
    };
    let image = disk.crash_image(0, CrashPolicy::DropAll);
    check(&image, &synced, "after a power loss");
    // Without a power loss everything acknowledged is there, unless a failed sync threw it away.
    let kept = !told.ever_poisoned || matches!(fault, Fault::Short | Fault::Interrupted);
    let has_log = durability != Durability::None;
    let returned = told.journal.returned();
    check(&disk, if kept && has_log { &returned } else { &synced }, "afterwards");
    told.failures
}

fn at_every_operation(durability: Durability, faults: &[Fault], stride: u64) {
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    assert_eq!(workload(&fs, true, durability).failures, 0);
    let count = fs.operations();
    assert!(count > 300, "{count}");
    let stride = if is_brief() { 7 * stride } else { stride };
    let mut failures = 0;
    for &fault in faults {
        for at in (1..=count).step_by(stride as usize) {
            let loses = match at % 3 {
                0 => FailedSync::Dropped,
                1 => FailedSync::Cached,
                _ => FailedSync::Partly { seed: at },
            };
            for once in [true, false] {
                let new = if once { FaultPlan::once } else { FaultPlan::from_then_on };
                let what = format!("{fault:?} at {at} of {count}, once: {once}, {durability:?}");
                let failed =
                    bounded(&what, move || run(new(at, fault), once, loses, durability, fault));
                let absorbed = fault == Fault::Short || (fault == Fault::Interrupted && once);
                assert!(!absorbed || failed == 0, "{what}: {failed} failures");
                failures += failed;
            }
        }
    }
    assert!(failures as u64 > count / stride, "{failures}");
}

#[test]
fn a_failing_disk_at_every_operation_is_reported_and_nothing_acknowledged_is_lost() {
    at_every_operation(Durability::Os, &[Fault::Io], 1);
}

#[test]
fn a_full_disk_at_every_operation_is_reported_and_nothing_acknowledged_is_lost() {
    at_every_operation(Durability::Os, &[Fault::NoSpace], 1);
}

/// The log of these goes past the page cache.
#[test]
fn a_failing_disk_loses_nothing_acknowledged_where_every_write_is_synced() {
    at_every_operation(Durability::Sync, &[Fault::Io, Fault::NoSpace], 2);
}

#[test]
fn too_many_files_at_every_operation_are_reported_and_nothing_acknowledged_is_lost() {
    at_every_operation(Durability::Sync, &[Fault::TooManyFiles], 1);
}

#[test]
fn short_and_interrupted_transfers_at_every_operation_are_absorbed() {
    at_every_operation(Durability::Os, &[Fault::Short, Fault::Interrupted], 1);
}

#[test]
fn faults_are_reported_without_a_log_too() {
    at_every_operation(Durability::None, &[Fault::Io, Fault::NoSpace], 3);
}

/// A failed sync of the log: nobody knows what reached the disk, and trying again tells nothing.
#[test]
fn a_failed_sync_is_final_for_writes_and_not_for_reads() {
    let disk = MemFs::new();
    let fs = FaultFs::new(Arc::new(disk.clone()));
    let db = open(&fs, Durability::Os).unwrap();
    let sync = WriteOptions { sync: true };
    db.put_with(b"synced", b"value", sync).unwrap();
    fs.arm(FaultPlan::once(1, Fault::Io).only(&[Operation::Flush]));
    let error = db.put_with(b"lost", b"value", sync).unwrap_err();
    assert!(matches!(error, Error::Poisoned(_)), "{error:?}");
    assert!(error.to_string().contains("Input/output error"), "{error}");
    fs.disarm();
    let flushes = fs.operations_of(Operation::Flush);
    for _ in 0..3 {
        assert!(matches!(db.put(b"key", b"value"), Err(Error::Poisoned(_))));
        assert!(matches!(db.delete_with(b"synced", sync), Err(Error::Poisoned(_))));
        assert!(matches!(db.write(&Batch::new(), sync), Err(Error::Poisoned(_))));
        assert!(matches!(db.flush(), Err(Error::Poisoned(_))));
    }
    assert_eq!(fs.operations_of(Operation::Flush), flushes, "nobody tries again");
    assert_eq!(db.get(b"synced").unwrap().unwrap(), b"value");
    assert!(matches!(db.close(), Err(Error::Poisoned(_))));
    let db = open(&disk.crash_image(0, CrashPolicy::DropAll), Durability::Os).unwrap();
    assert_eq!(db.get(b"synced").unwrap().unwrap(), b"value");
}

/// The log needs space, finds none, and goes on when there is some.
#[test]
fn on_a_full_disk_writes_fail_and_go_on_when_there_is_space() {
    let disk = MemFs::new();
    let db = open(&disk, Durability::Os).unwrap();
    let used = 1_000_000;
    disk.set_capacity(used);
    let mut written = 0_u32;
    let put = |n: u32| db.put(&n.to_be_bytes(), &[7; 300]);
    disk.set_capacity(20 * 4096);
    let error = loop {
        match put(written) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, Error::Io(cause) if cause.is_no_space()), "{error:?}");
    for _ in 0..3 {
        assert!(matches!(put(written), Err(Error::Io(_))), "and again");
        assert!(matches!(db.delete(b"key"), Err(Error::Io(_))), "and again");
    }
    assert_eq!(rows(&db).unwrap().len(), written as usize, "all that was written, and no more");
    disk.set_capacity(1 << 30);
    (written..written + 100).for_each(|n| put(n).unwrap());
    assert_eq!(rows(&db).unwrap().len(), written as usize + 100);
    db.flush().unwrap();
    drop(db);
    let db = open(&disk, Durability::Os).unwrap();
    assert_eq!(rows(&db).unwrap().len(), written as usize + 100);
}

fn filled(disk: &MemFs, options: Options) -> Db {
    let db = crate::support::open(disk, options);
    (0..30_u32).for_each(|n| db.put(&n.to_be_bytes(), &[7; 300]).unwrap());
    db
}

#[track_caller]
fn refused_for_now(result: Result<()>) {
    let error = result.unwrap_err();
    assert!(matches!(&error, Error::NoSpace(cause) if cause.is_no_space()), "{error:?}");
    assert!(error.to_string().contains("until there is space"), "{error}");
}

/// A table that finds no space: writes are refused, by name, until a flush has found some. The
/// store stays open, and nothing is lost.
#[test]
fn a_flush_on_a_full_disk_goes_on_when_there_is_space() {
    let disk = MemFs::new();
    let db = filled(&disk, options(Durability::Os));
    let snapshot = db.snapshot();
    for way in 0..3_u32 {
        disk.set_capacity(0);
        let error = db.flush().unwrap_err();
        assert!(matches!(&error, Error::Io(cause) if cause.is_no_space()), "{error:?}");
        refused_for_now(db.put(b"key", b"value"));
        refused_for_now(db.delete_with(b"key", WriteOptions { sync: true }));
        refused_for_now(db.update(b"key", WriteOptions::default(), |_| Change::Remove));
        assert!(db.property("keyrack.background-error").unwrap().contains("No space left"));
        assert!(db.resume().is_err(), "the disk is still full");
        assert_eq!(rows(&db).unwrap().len(), 30 + way as usize, "reads go on");
        disk.set_capacity(1 << 30);
        match way {
            0 => db.flush().unwrap(),
            1 => db.resume().unwrap(),
            // By itself, after a pause.
            _ => bounded("a full disk with space again", {
                let db = db.clone();
                move || while db.put(b"key", b"value").is_err() {}
            }),
        }
        assert_eq!(db.property("keyrack.background-error").unwrap(), "");
        db.put(&(1000 + way).to_be_bytes(), b"later").unwrap();
    }
    assert_eq!(rows(&db).unwrap().len(), 34);
    assert_eq!(db.get_at(&snapshot, b"key", |_| ()).unwrap(), None);
    drop(snapshot);
    // With what the log alone has.
    let open_again = |disk: &MemFs| rows(&open(disk, Durability::Os).unwrap()).unwrap().len();
    assert!(open_again(&disk.crash_image(0, CrashPolicy::KeepAll)) == 34);
    db.close().unwrap();
    nothing_is_left_over(&disk, "what was begun is thrown away");
    assert_eq!(open_again(&disk), 34);
}

/// The closed store is sound, and names all of its files.
fn nothing_is_left_over(disk: &MemFs, what: &str) {
    let report = verify(Arc::new(disk.clone()), Path::new(DIR), &Options::default()).unwrap();
    let extra = report.findings.iter().any(|it| it.kind == FindingKind::Extra);
    assert!(report.is_sound() && !extra, "{what}: {report:?}");
}

/// Without a log the memtables are all there is: they are kept until there is space.
#[test]
fn a_flush_on_a_full_disk_without_a_log_keeps_what_is_in_memory() {
    let disk = MemFs::new();
    let db = filled(&disk, options(Durability::None));
    disk.set_capacity(0);
    assert!(db.flush().is_err());
    refused_for_now(db.put(b"key", b"value"));
    disk.set_capacity(1 << 30);
    db.resume().unwrap();
    db.put_with(b"key", b"value", WriteOptions { sync: true }).unwrap();
    let image = disk.crash_image(0, CrashPolicy::DropAll);
    assert_eq!(rows(&open(&image, Durability::None).unwrap()).unwrap().len(), 31);
}

/// An edit of the manifest that finds no space may be there or not. Whichever: the store goes on,
/// now and after a power loss, and the table that it named goes only when another edit counts.
#[test]
fn an_edit_that_finds_no_space_is_made_again() {
    let mut tried = 0;
    for at in 1.. {
        let disk = MemFs::new();
        let fs = FaultFs::new(Arc::new(disk.clone()));
        let db = open(&fs, Durability::Os).unwrap();
        (0..30_u32).for_each(|n| db.put(&n.to_be_bytes(), &[7; 300]).unwrap());
        let changes = [Operation::Open, Operation::Write, Operation::Rename];
        fs.arm(FaultPlan::once(at, Fault::NoSpace).only(&changes));
        // The flush thread may be the one that meets it.
        let _ = db.flush();
        if fs.injected() == 0 {
            break;
        }
        tried += 1;
        let image = disk.crash_image(at, CrashPolicy::DropAll);
        db.resume().unwrap();
        db.put(b"key", b"value").unwrap();
        db.flush().unwrap();
        let count = |disk: &MemFs| rows(&open(disk, Durability::Os).unwrap()).unwrap().len();
        let found = count(&image);
        assert!(found == 0 || found == 30, "at {at}: {found}");
        assert_eq!(count(&disk.crash_image(at, CrashPolicy::DropAll)), 31, "at {at}");
        db.close().unwrap();
        nothing_is_left_over(&disk, &format!("at {at}"));
        assert_eq!(count(&disk), 31, "at {at}");
    }
    assert!(tried >= 3, "{tried}");
}

/// A sync that reports a full disk is a failed sync, and final.
#[test]
fn a_sync_that_finds_no_space_is_final() {
    for kind in [Operation::Sync, Operation::SyncDir] {
        let disk = MemFs::new();
        let fs = FaultFs::new(Arc::new(disk.clone()));
        let db = open(&fs, Durability::Os).unwrap();
        db.put(b"key", b"value").unwrap();
        fs.arm(FaultPlan::once(1, Fault::NoSpace).only(&[kind]));
        db.flush().unwrap_err();
        fs.disarm();
        assert!(matches!(db.resume(), Err(Error::Poisoned(_))), "{kind:?}");
        let refused = db.put(b"key", b"value").unwrap_err();
        assert!(matches!(&refused, Error::Poisoned(why) if why.contains("No space left")));
        drop(db);
        let db = open(&disk, Durability::Os).unwrap();
        assert_eq!(rows(&db).unwrap().len(), 1, "{kind:?}");
    }
}

/// A compaction in the background that finds no space: the same, and its inputs stay.
#[test]
fn a_compaction_on_a_full_disk_goes_on_when_there_is_space() {
    bounded("a compaction on a full disk", || {
        let fs = FaultFs::new(Arc::new(MemFs::new()));
        let with = Options { compaction_threads: 1, ..options(Durability::Os) };
        let db = crate::support::open(&fs, with);
        let full = Arc::new(AtomicBool::new(true));
        let (itself, is_full) = (fs.clone(), Arc::clone(&full));
        fs.watch(move |operation, _| {
            let thread = std::thread::current();
            let compacts = thread.name().is_some_and(|name| name.starts_with("flodb-compact"));
            if compacts && operation == Operation::Write && is_full.load(Ordering::SeqCst) {
                itself.arm(FaultPlan::once(1, Fault::NoSpace).only(&[Operation::Write]));
            }
        });
        let mut written = 0_u32;
        // The same keys again and again: tables that share none are moved, and nothing is written.
        let put = |n: u32| db.put(&(n % 20).to_be_bytes(), &[7; 300]);
        let error = loop {
            match put(written) {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
            if written.is_multiple_of(20) {
                // It may be the one that meets what was meant for a compaction.
                let _ = db.flush();
            }
        };
        refused_for_now(Err(error));
        assert_eq!(rows(&db).unwrap().len(), 20, "reads go on");
        full.store(false, Ordering::SeqCst);
        let done = stat(&db, "compactions");
        while stat(&db, "compactions") == done {
            // A compaction that had begun before there was space may fail behind the first try.
            let again = db.resume().and_then(|()| put(written));
            match again {
                Ok(()) => written += 1,
                Err(error) => refused_for_now(Err(error)),
            }
            db.flush().unwrap();
        }
        assert_eq!(rows(&db).unwrap().len(), 20);
        // It holds itself.
        fs.watch(|_, _| {});
    });
}

/// What somebody asked for finds no space: that is an error for him alone.
#[test]
fn a_compaction_on_request_on_a_full_disk_is_an_error_of_the_call() {
    let disk = MemFs::new();
    let db = filled(&disk, options(Durability::Os));
    db.flush().unwrap();
    disk.set_capacity(0);
    let error = db.compact_range(None, None).unwrap_err();
    assert!(matches!(&error, Error::Io(cause) if cause.is_no_space()), "{error:?}");
    disk.set_capacity(1 << 30);
    db.put(b"key", b"value").unwrap();
    db.compact_range(None, None).unwrap();
    assert_eq!(rows(&db).unwrap().len(), 31);
}

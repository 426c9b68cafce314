//! Copies of a store: whole or not there, of one moment, and independent of the original.

use crate::support::{DIR, Hook, idle, is_table, newest_round, round, rows, tiny};
use keyrack_flodb::{Db, Error, Options, WriteOptions};
use keyrack_testkit::camera::POLICIES;
use keyrack_testkit::damage::directory;
use keyrack_testkit::random::{Announced, Draw, factor, seeds};
use keyrack_vfs::{CrashPolicy, Fault, FaultFs, FaultPlan, Fs, MemFs, Operation};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const COPY: &str = "/copy";

fn open(fs: impl Fs + 'static, dir: &str) -> Db {
    Db::open_in(Arc::new(fs), Path::new(dir), tiny()).unwrap()
}

fn write(db: &Db, rounds: std::ops::Range<u64>) {
    rounds.for_each(|n| db.write(&round(n), WriteOptions::default()).unwrap());
}

/// What an interrupted copy leaves.
fn unfinished(fs: &dyn Fs) -> Vec<String> {
    let entries = fs.list(Path::new("/")).unwrap();
    let names = entries.iter().map(|entry| entry.name.to_string_lossy().into_owned());
    names.filter(|name| name.ends_with(".checkpoint")).collect()
}

#[test]
fn a_copy_is_a_store_of_its_own() {
    let disk = MemFs::new();
    let db = open(disk.clone(), DIR);
    write(&db, 1..2000);
    db.checkpoint(COPY).unwrap();
    assert!(unfinished(&disk).is_empty());
    write(&db, 2000..3000);
    let copy = open(disk.clone(), COPY);
    assert_eq!(newest_round(&copy), 1999);
    write(&copy, 2000..2500);
    // Neither compaction takes a table from the other.
    db.compact_range(None, None).unwrap();
    copy.compact_range(None, None).unwrap();
    assert_eq!((newest_round(&db), newest_round(&copy)), (2999, 2499));
    copy.close().unwrap();
    assert_eq!(newest_round(&open(disk.clone(), COPY)), 2499);
    db.close().unwrap();
    Db::destroy(&disk, Path::new(DIR)).unwrap();
    assert_eq!(newest_round(&open(disk.clone(), COPY)), 2499);
}

#[test]
fn an_empty_store_has_copies_too() {
    let disk = MemFs::new();
    let db = open(disk.clone(), DIR);
    db.checkpoint(COPY).unwrap();
    let existing = Options { create_if_missing: false, ..tiny() };
    let copy = Db::open_in(Arc::new(disk.clone()), Path::new(COPY), existing).unwrap();
    assert!(rows(&copy).is_empty());
    write(&copy, 1..10);
    copy.checkpoint("/copy of the copy").unwrap();
    assert_eq!(newest_round(&open(disk, "/copy of the copy")), 9);
}

#[test]
fn what_is_there_is_left_alone() {
    let disk = MemFs::new();
    let db = open(disk.clone(), DIR);
    write(&db, 1..100);
    disk.create_dir(Path::new("/dir")).unwrap();
    disk.write_atomic(Path::new("/file"), b"content").unwrap();
    for target in ["/dir", "/file", DIR, "/"] {
        let error = db.checkpoint(target).unwrap_err();
        assert!(matches!(error, Error::Usage(_)), "{target}: {error:?}");
    }
    assert!(matches!(db.checkpoint("/missing/copy"), Err(Error::Io(_))));
    assert!(disk.list(Path::new("/dir")).unwrap().is_empty() && unfinished(&disk).is_empty());
    write(&db, 100..110);
    assert_eq!(newest_round(&db), 109);
}

#[test]
fn a_copy_is_of_one_moment_whatever_writers_do() {
    let disk = MemFs::new();
    let db = open(disk.clone(), DIR);
    let (written, over) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                db.write(&round(n), WriteOptions::default()).unwrap();
                written.store(n, Ordering::Release);
            }
        });
        let copies: Vec<(String, u64, Result<(), Error>)> = (0..12)
            .map(|number| {
                let target = format!("/copy {number}");
                let before = written.load(Ordering::Acquire);
                let made = db.checkpoint(&target);
                (target, before, made)
            })
            .collect();
        over.store(true, Ordering::Relaxed);
        for (target, before, made) in copies {
            made.unwrap();
            let newest = newest_round(&open(disk.clone(), &target));
            assert!(newest >= before, "{target}: {newest}, but {before} were acknowledged");
        }
    });
}

/// At every operation of the copying, all tables are compacted away, and nobody else holds them.
#[test]
fn tables_stay_until_they_are_linked() {
    let mut at = 0;
    loop {
        let disk = MemFs::new();
        // Nothing is done in the background.
        let idle = Options { memtable_bytes: 4 << 20, ..idle() };
        let writer: Arc<Mutex<Option<Db>>> = Arc::default();
        let hook = {
            let writer = Arc::clone(&writer);
            move || {
                let writer = writer.lock().unwrap().take();
                if let Some(db) = writer {
                    write(&db, 1000..1200);
                    db.compact_range(None, None).unwrap();
                    drop(db);
                    // What is not in use goes now.
                    (0..10).for_each(|_| keyrack_concurrent::pin().flush());
                }
            }
        };
        let hooked = Hook::new(&disk, usize::MAX, hook);
        let db = crate::support::open(&hooked.fs, idle);
        for rounds in [1..250, 250..500, 500..750, 750..1000] {
            write(&db, rounds);
            db.flush().unwrap();
        }
        *writer.lock().unwrap() = Some(db.clone());
        hooked.set(at);
        db.checkpoint(COPY).unwrap();
        if !hooked.has_run() {
            break;
        }
        let newest = newest_round(&open(disk.clone(), COPY));
        assert!(newest == 999 || newest == 1199, "operation {at}: {newest}");
        at += 1;
    }
    assert!(at > 8, "{at} operations");
}

/// Power goes out at every operation, and the disk keeps what it likes.
#[test]
fn a_power_loss_leaves_none_or_a_whole_one() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let (mut at, mut seen) = (1 + draw.below(3) as u64, [0; 2]);
        loop {
            let disk = MemFs::new();
            let faulty = FaultFs::new(Arc::new(disk.clone()));
            let db = crate::support::open(&faulty, idle());
            write(&db, 1..1300);
            db.flush().unwrap();
            write(&db, 1300..1310);
            db.write(&round(1310), WriteOptions { sync: true }).unwrap();
            faulty.arm(FaultPlan::from_then_on(at, Fault::PowerOut));
            let made = db.checkpoint(COPY).is_ok();
            for policy in POLICIES {
                let image = disk.crash_image(draw.next(), policy);
                let is_there = image.exists(Path::new(COPY)).unwrap();
                assert!(is_there || !made, "{policy:?}, operation {at}: the copy is lost");
                seen[usize::from(is_there)] += 1;
                if is_there {
                    assert_eq!(newest_round(&open(image.clone(), COPY)), 1310);
                }
                assert_eq!(newest_round(&open(image, DIR)), 1310);
            }
            if made {
                break;
            }
            // Every operation at one time or another.
            at += 1 + draw.below(4 / factor().min(4)) as u64;
        }
        assert!(seen[0] > 10 && seen[1] >= 4, "{seen:?}");
    }
}

/// Nothing stays of a copy that failed, and the store goes on.
#[test]
fn a_failure_leaves_nothing_and_is_not_final() {
    let mut failed = 0;
    for at in 1.. {
        let disk = MemFs::new();
        let faulty = FaultFs::new(Arc::new(disk.clone()));
        let db = crate::support::open(&faulty, idle());
        write(&db, 1..1000);
        db.flush().unwrap();
        faulty.arm(FaultPlan::once(at, Fault::Io));
        let made = db.checkpoint(COPY);
        let injected = faulty.injected();
        faulty.disarm();
        assert!(unfinished(&disk).is_empty(), "operation {at}");
        if let Err(error) = &made {
            failed += 1;
            // Only the sync of the new name comes behind it.
            let is_last = error.to_string().contains("sync directory '/'");
            assert_eq!(disk.exists(Path::new(COPY)).unwrap(), is_last, "{error}");
        }
        if disk.exists(Path::new(COPY)).unwrap() {
            assert_eq!(newest_round(&open(disk.clone(), COPY)), 999);
        } else {
            db.checkpoint(COPY).unwrap();
        }
        write(&db, 1000..1010);
        if injected == 0 {
            break;
        }
    }
    assert!(failed > 8, "{failed} failures");
}

#[test]
fn tables_are_copied_where_they_cannot_be_shared() {
    const CROSSES_DEVICES: i32 = 18;
    let disk = MemFs::new();
    let faulty = FaultFs::new(Arc::new(disk.clone()));
    // Nothing is compacted, and so removed, while the two are compared.
    let db = Db::open_in(Arc::new(faulty.clone()), Path::new(DIR), idle()).unwrap();
    write(&db, 1..3000);
    db.compact_range(None, None).unwrap();
    let plan = FaultPlan::from_then_on(1, Fault::Errno(CROSSES_DEVICES));
    faulty.arm(plan.only(&[Operation::Link]));
    db.checkpoint(COPY).unwrap();
    assert!(faulty.injected() > 1);
    let there = directory(&disk, Path::new(DIR));
    for (path, content) in directory(&disk, Path::new(COPY)) {
        let original = Path::new(DIR).join(path.strip_prefix(COPY).unwrap());
        assert!(!is_table(&path) || there[&original] == content, "{}", path.display());
    }
    // The copies are durable, too.
    let image = disk.crash_image(1, CrashPolicy::DropAll);
    assert_eq!(newest_round(&open(image, COPY)), 2999);
    // Another reason than that is one to fail.
    faulty.arm(FaultPlan::once(1, Fault::Io).only(&[Operation::Link]));
    assert!(matches!(db.checkpoint("/other"), Err(Error::Io(_))));
    assert!(!disk.exists(Path::new("/other")).unwrap());
}

#[test]
fn real_directories_are_copied() {
    let parent = std::env::temp_dir().join(format!("keyrack-checkpoint-{}", std::process::id()));
    let fs = keyrack_vfs::RealFs;
    fs.create_dir_all(&parent).unwrap();
    let db = Db::open(parent.join("store"), tiny()).unwrap();
    write(&db, 1..2000);
    db.checkpoint(parent.join("copy")).unwrap();
    write(&db, 2000..2100);
    db.compact_range(None, None).unwrap();
    db.close().unwrap();
    Db::destroy(&fs, &parent.join("store")).unwrap();
    let copy = Db::open_read_only(parent.join("copy"), tiny()).unwrap();
    assert_eq!(newest_round(&copy), 1999);
    fs.remove_dir_all(&parent).unwrap();
    // What is open stays readable.
    assert_eq!(newest_round(&copy), 1999);
}

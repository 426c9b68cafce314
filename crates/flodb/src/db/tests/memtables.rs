//! Memtables that are full: a write waits, and never fails for it, whatever is under way.

use super::{Db, Options, open, stats};
use crate::batch::{Batch, Write};
use crate::checksum::hash;
use crate::db::background_error::Work;
use crate::db::pacing::Pace;
use crate::error::Error;
use crate::event::StallCause;
use crate::key::Kind;
use keyrack_store::WriteOptions;
use keyrack_vfs::{Fault, FaultFs, FaultPlan, Fs, MemFs, Operation};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::thread;

/// The smallest memtable.
const MEMTABLE_BYTES: usize = 64 << 10;

/// What a memtable takes beyond that, or a bit less.
const SLACK_BYTES: usize = 12 << 20;

fn small() -> Options {
    Options { memtable_bytes: MEMTABLE_BYTES, ..Options::default() }
}

fn memtables(db: &Db) -> usize {
    db.inner().read_state().memtables.len()
}

/// Waits until something that other threads do has come to pass.
fn wait_until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        thread::yield_now();
    }
}

/// Runs so many writers with small stacks, each with its number, and `beside` with them.
fn with_writers(writers: usize, write: impl Fn(usize) + Sync, beside: impl FnOnce()) {
    thread::scope(|scope| {
        for number in 0..writers {
            let write = &write;
            let spawned = thread::Builder::new()
                .stack_size(256 << 10)
                .spawn_scoped(scope, move || write(number));
            spawned.unwrap();
        }
        beside();
    });
}

fn key(number: usize) -> [u8; 8] {
    (number as u64).to_be_bytes()
}

fn value(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (number + at) as u8).collect()
}

/// "The memtable is full", for good: 600 to 1,000 threads that put 64 KiB at a time had
/// more under way than the room beyond a full memtable. As many are under way as there are key
/// locks.
#[test]
fn hundreds_of_writers_of_64_kib_do_not_fill_the_memtable_for_good() {
    const WRITERS: usize = 250;
    const BYTES: usize = 64 << 10;
    let disk = MemFs::new();
    disk.create_dir_all(Path::new("/store")).unwrap();
    let open = || {
        let options = Options { compaction_threads: 0, ..small() };
        Db::open_in(Arc::new(disk.clone()), Path::new("/store"), options).unwrap()
    };
    let db = open();
    let inner = db.inner();
    let limit = db.options().immutable_memtables_max + 2;
    let first = inner.write_path.log.reserved();
    // All others have their numbers before this one is published: they are under way together, and
    // all of the first memtable.
    let held = inner.write_path.log.reserve(1).unwrap();
    let mut stripes = HashSet::new();
    let names = (0..).map(key).filter(|name| stripes.insert(hash(name) % 256));
    let names: Vec<[u8; 8]> = names.take(WRITERS).collect();
    let put = |number: usize| {
        db.put(&names[number], &value(number, BYTES)).unwrap();
        assert!(memtables(&db) <= limit);
    };
    with_writers(WRITERS, put, || {
        wait_until(|| inner.write_path.log.reserved() >= first + (WRITERS * BYTES) as u64);
        drop(held);
    });
    let check = |db: &Db| {
        for (number, name) in names.iter().enumerate() {
            let found = db.get(name).unwrap();
            assert!(found.unwrap() == value(number, BYTES), "{number}");
        }
    };
    check(&db);
    assert_eq!(db.property("keyrack.background-error").unwrap(), "");
    db.close().unwrap();
    // The places in the log that they left are void.
    check(&open());
}

/// What the end of a failure found of the read state came after what a flush had found later, and
/// writers stopped until the next change of the read state.
#[test]
fn the_end_of_a_failure_does_not_set_an_older_pace() {
    let db = open(small());
    let inner = db.inner();
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    fs.arm(FaultPlan::once(1, Fault::NoSpace).only(&[Operation::CreateDir]));
    let full = Error::from(fs.create_dir(Path::new("/full")).unwrap_err());
    inner.background_failed(Work::Compaction, &full);
    assert!(inner.check_background_error().is_err());
    thread::scope(|scope| {
        let exchange = inner.read_path.lock_exchange();
        let ends = scope.spawn(|| inner.background_succeeded(Work::Compaction));
        wait_until(|| inner.check_background_error().is_ok());
        inner.write_path.controller.set(Pace::Stop(StallCause::Memtables));
        drop(exchange);
        ends.join().unwrap();
    });
    assert!(
        inner.write_path.controller.is_released(),
        "the pace of the end of the failure is last"
    );
    db.put(b"key", b"value").unwrap();
}

/// As long as no memtable is written, so many are immutable, and no more.
#[test]
fn writers_wait_while_memtables_wait_for_their_flush() {
    const WRITERS: usize = 40;
    const WRITES: usize = 20;
    let db = open(small());
    let limit = db.options().immutable_memtables_max + 2;
    let flushing = db.inner().write_path.flush_lock.lock_unranked();
    let write = |number| {
        for n in 0..WRITES {
            let number = number * WRITES + n;
            db.put(&key(number), &value(number, MEMTABLE_BYTES / 2)).unwrap();
            assert!(memtables(&db) <= limit);
        }
    };
    with_writers(WRITERS, write, || {
        wait_until(|| memtables(&db) == limit);
        // No more than the writers that were under way before has come to the last one.
        let most = MEMTABLE_BYTES + WRITERS * MEMTABLE_BYTES;
        (0..1000).for_each(|_| {
            assert!(db.inner().read_state().active().bytes() <= most);
            assert_eq!(memtables(&db), limit);
            thread::yield_now();
        });
        drop(flushing);
    });
    for number in 0..WRITERS * WRITES {
        assert!(db.get(&key(number)).unwrap().unwrap() == value(number, MEMTABLE_BYTES / 2));
    }
}

/// It was let in before the write controller stalled writers, and then two memtables too many would
/// be immutable.
#[test]
fn a_write_without_room_goes_on_after_a_flush() {
    let db = open(Options { immutable_memtables_max: 0, ..small() });
    let inner = db.inner();
    let flushing = inner.write_path.flush_lock.lock_unranked();
    db.put(b"a", &vec![1; MEMTABLE_BYTES]).unwrap();
    assert_eq!(memtables(&db), 2, "one is immutable, and none may be");
    let large = vec![2; SLACK_BYTES + MEMTABLE_BYTES];
    thread::scope(|scope| {
        let let_in = scope.spawn(|| {
            let write = Write { kind: Kind::Put, key: b"large", value: &large };
            let _held = inner.write_path.key_locks.lock(hash(b"large"));
            inner.log_one(write, hash(b"large")).unwrap();
            assert!(memtables(&db) <= 2);
        });
        (0..1000).for_each(|_| {
            assert!(!let_in.is_finished() && memtables(&db) == 2);
            thread::yield_now();
        });
        drop(flushing);
    });
    assert!(db.get(b"large").unwrap().unwrap() == large);
}

/// Each batch of more than 64 KiB made a memtable, and so a table, of its own.
#[test]
fn batches_of_a_middle_size_share_a_memtable() {
    let db = open(Options::default());
    let fill = |first: u32, count: u32| {
        let mut batch = Batch::new();
        (first..first + count).for_each(|n| batch.put(&n.to_be_bytes(), &[7; 1000]));
        db.write(&batch, WriteOptions::default()).unwrap();
    };
    (0..20).for_each(|round| fill(round * 500, 500));
    assert_eq!(stats(&db)["generations"], 1.0);
    assert_eq!(stats(&db)["flushes"], 0.0);
    assert_eq!(db.get(&9999_u32.to_be_bytes()).unwrap().unwrap(), [7; 1000]);
}

/// Values around what the room beyond a full memtable takes, and around where rooms are taken with
/// a look first; each where the memtable is nearly full.
#[test]
fn a_write_of_any_size_finds_room_behind_a_small_one() {
    let around = |bytes: usize| [bytes - 100, bytes - 1, bytes, bytes + 1];
    let sizes = [64 << 10, 1 << 20, 4 << 20, SLACK_BYTES, SLACK_BYTES + MEMTABLE_BYTES];
    for bytes in sizes.into_iter().flat_map(around) {
        let db = open(small());
        db.put(b"small", &[1; MEMTABLE_BYTES - 1000]).unwrap();
        let large = value(bytes, bytes);
        db.put(b"large", &large).unwrap();
        db.put(b"next", &[2; 100]).unwrap();
        assert!(db.get(b"large").unwrap().unwrap() == large, "{bytes}");
        assert_eq!(db.get(b"small").unwrap().unwrap(), [1; MEMTABLE_BYTES - 1000]);
        assert_eq!(db.get(b"next").unwrap().unwrap(), [2; 100]);
        db.flush().unwrap();
        assert!(stats(&db)["flushes"] >= 2.0, "{bytes}: the small one had a memtable of its own");
    }
}

/// Of the smallest entries, memory takes twelve times what the log does.
#[test]
fn a_batch_of_many_small_entries_has_room() {
    let db = open(small());
    let mut batch = Batch::new();
    for n in 0..u32::from(u16::MAX) {
        batch.delete(&(n as u16).to_be_bytes());
    }
    for _ in 0..1_000_000 {
        batch.delete(b"");
    }
    for n in 0..u16::MAX {
        batch.delete_range(&n.to_be_bytes(), &(n + 1).to_be_bytes());
        // Nothing, which takes nothing.
        batch.delete_range(&(n + 1).to_be_bytes(), &n.to_be_bytes());
    }
    batch.put(b"end", b"value");
    db.put(&[0, 7], b"removed").unwrap();
    db.write(&batch, WriteOptions::default()).unwrap();
    assert_eq!(db.get(&[0, 7]).unwrap(), None);
    assert_eq!(db.get(b"end").unwrap().unwrap(), b"value");
    let entries = db.inner().read_state().memtables[1].entries();
    assert_eq!(entries as u64, 2 * u64::from(u16::MAX) + 1_000_000 + 1);
}

/// Writers of all sizes at once, with what they wrote of their own keys.
#[test]
fn writes_of_all_sizes_at_once_are_all_kept() {
    const WRITERS: usize = 12;
    const KEYS: usize = 8;
    let db = open(small());
    let limit = db.options().immutable_memtables_max + 2;
    let write = |writer: usize| {
        let mut kept = vec![None; KEYS];
        for round in 0..40_usize {
            let at = round % KEYS;
            let name = key(writer * KEYS + at);
            let mix = writer * 31 + round * 17;
            match mix % 11 {
                0 => {
                    db.delete(&name).unwrap();
                    kept[at] = None;
                }
                1 => {
                    let (low, high) = (key(writer * KEYS), key((writer + 1) * KEYS));
                    db.delete_range(&low, &high).unwrap();
                    kept.fill(None);
                }
                2 => {
                    let mut batch = Batch::new();
                    (0..20_000).for_each(|_| batch.delete(&name));
                    batch.put(&name, b"after many");
                    db.write(&batch, WriteOptions::default()).unwrap();
                    kept[at] = Some(b"after many".to_vec());
                }
                _ => {
                    let sizes = [10, 4000, 65_400, 65_536, 200_000, (4 << 20) - 50, 4 << 20];
                    let stored = value(mix, sizes[mix % sizes.len()]);
                    db.put(&name, &stored).unwrap();
                    kept[at] = Some(stored);
                }
            }
            assert!(db.get(&name).unwrap() == kept[at], "{writer} {round}");
            assert!(memtables(&db) <= limit, "{writer} {round}");
        }
        for (at, kept) in kept.into_iter().enumerate() {
            assert!(db.get(&key(writer * KEYS + at)).unwrap() == kept, "{writer} {at}");
        }
    };
    with_writers(WRITERS, write, || ());
}

/// The room was taken before there was a place in the log, and nobody may wait for its entries.
#[test]
fn a_write_that_gets_no_place_in_the_log_gives_its_room_back() {
    let disk = MemFs::new();
    disk.create_dir_all(Path::new("/store")).unwrap();
    let fs = FaultFs::new(Arc::new(disk));
    let options = Options { compaction_threads: 0, ..small() };
    let db = Db::open_in(Arc::new(fs.clone()), Path::new("/store"), options).unwrap();
    let segment_bytes = db.options().segment_bytes as usize;
    db.put(b"first", &[1; 1000]).unwrap();
    // The place that it leaves void has the second segment to itself, and there is no third.
    fs.arm(FaultPlan::from_then_on(2, Fault::NoSpace).only(&[Operation::Map]));
    let large = vec![7; segment_bytes - 100];
    assert!(matches!(db.put(b"large", &large), Err(Error::Io(_))));
    assert!(fs.injected() > 0);
    fs.disarm();
    assert_eq!(db.get(b"large").unwrap(), None);
    db.put(b"large", &large).unwrap();
    db.flush().unwrap();
    assert!(db.get(b"large").unwrap().unwrap() == large);
    assert_eq!(db.get(b"first").unwrap().unwrap(), [1; 1000]);
}

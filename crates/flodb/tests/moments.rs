//! Readers and copies beside writers and ingestions: each sees a moment, which is a beginning of
//! the writes.
//!
//! ```text
//!   operation   1  2  3  4  5  6  7  8  9 10        every fifth is an ingestion
//!   key         p  p  p  p  q  p  p  p  p  q        of a key that memory has nothing beside
//!   a moment    ^--------------^
//! ```

use crate::support::{DIR, rows, tiny};
use keyrack_flodb::{Db, IngestOptions, SstWriter, Transfer};
use keyrack_testkit::random::factor;
use keyrack_vfs::{FaultFs, Fs, MemFs, Operation};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

/// Every so many operations, one is an ingestion.
const PERIOD: u64 = 5;

fn open(fs: impl Fs + 'static, dir: &str) -> Db {
    Db::open_in(Arc::new(fs), Path::new(dir), tiny()).unwrap()
}

fn external(disk: &MemFs, name: &str) -> PathBuf {
    let path = Path::new("/").join(format!("{name}.table"));
    let mut writer = SstWriter::create(disk, &path, &tiny()).unwrap();
    writer.put(name.as_bytes(), b"from outside").unwrap();
    writer.finish().unwrap();
    path
}

fn key(operation: u64) -> String {
    format!("{}{operation:08}", if operation.is_multiple_of(PERIOD) { 'q' } else { 'p' })
}

fn operate(db: &Db, disk: &MemFs, operation: u64) {
    let key = key(operation);
    if operation.is_multiple_of(PERIOD) {
        let path = external(disk, &key);
        db.ingest(&[path], IngestOptions { transfer: Transfer::Move }).unwrap();
    } else {
        db.put(key.as_bytes(), &[7; 100]).unwrap();
    }
}

/// How many operations a store has, of which it must have each up to the last.
fn beginning(found: Vec<String>, what: &str) -> u64 {
    let mut operations: Vec<u64> = found.iter().map(|key| key[1..].parse().unwrap()).collect();
    operations.sort_unstable();
    let count = operations.len() as u64;
    let missing: Vec<u64> = (1..=count).filter(|n| operations.binary_search(n).is_err()).collect();
    assert!(missing.is_empty(), "{what}: {missing:?} are missing before {:?}", operations.last());
    count
}

fn keys(db: &Db) -> Vec<String> {
    rows(db).into_keys().map(|key| String::from_utf8(key).unwrap()).collect()
}

/// Writes from one thread until told to stop; `look` looks in another, so often, from the first
/// write on.
fn beside_operations(looks: usize, mut look: impl FnMut(&Db, &MemFs, usize)) {
    let disk = MemFs::new();
    let db = open(disk.clone(), DIR);
    let over = AtomicBool::new(false);
    let (begins, begun) = sync_channel(1);
    thread::scope(|scope| {
        let (db, disk, over) = (&db, &disk, &over);
        scope.spawn(move || {
            for operation in 1.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                operate(db, disk, operation);
                let _ = begins.try_send(());
            }
        });
        // Ends the writer, also after a panic.
        struct End<'a>(&'a AtomicBool);
        impl Drop for End<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _end = End(over);
        begun.recv().expect("the writer writes");
        (0..looks).for_each(|number| look(db, disk, number));
    });
}

/// 149 of 1,616 copies had a table that was newer than writes that they did not have.
#[test]
fn a_checkpoint_beside_ingestions_is_a_beginning_of_the_writes() {
    let mut last = 0;
    beside_operations(30 * factor(), |db, disk, number| {
        let target = format!("/copy {number}");
        db.checkpoint(&target).unwrap();
        let copy = open(disk.clone(), &target);
        let count = beginning(keys(&copy), &target);
        assert!(count >= last, "{target}: {count}, but {last} were copied before");
        last = count;
        drop(copy);
        Db::destroy(disk, Path::new(&target)).unwrap();
    });
}

#[test]
fn a_walk_and_a_snapshot_beside_ingestions_see_a_beginning_of_the_writes() {
    beside_operations(300 * factor(), |db, _, number| {
        if number.is_multiple_of(3) {
            let snapshot = db.snapshot();
            let mut iter = db.iter_at(&snapshot).unwrap();
            let mut found = Vec::new();
            iter.seek_first().unwrap();
            while let Some((key, _)) = iter.entry() {
                let got = db.get_at(&snapshot, key, |_| ()).unwrap();
                assert!(got.is_some(), "a get and a walk of one snapshot differ");
                found.push(String::from_utf8(key.to_vec()).unwrap());
                iter.next().unwrap();
            }
            beginning(found, "a snapshot");
        } else {
            beginning(keys(db), "a walk");
        }
    });
}

/// As often as it can, in the hope of the few instructions between the two things that a reader
/// takes.
#[test]
fn a_walk_has_no_ingestion_without_the_writes_before_it() {
    let mut late = 0;
    beside_operations(20_000 * factor(), |db, _, _| {
        let newest = |first: &str| {
            let mut iter = db.iter().unwrap();
            let mut of = |first: &str| {
                iter.seek_back(format!("{first}~").as_bytes()).unwrap();
                let entry = iter.entry().filter(|(key, _)| key.starts_with(first.as_bytes()));
                entry.map_or(0, |(key, _)| std::str::from_utf8(&key[1..]).unwrap().parse().unwrap())
            };
            (of(first), of("q"))
        };
        let (put, taken): (u64, u64) = newest("p");
        let newest = put.max(taken);
        assert_eq!(taken, newest / PERIOD * PERIOD, "the walk has {newest}");
        assert_eq!(put, newest - u64::from(newest > 0 && newest.is_multiple_of(PERIOD)));
        late = newest;
    });
    assert!(late > 0, "nothing was written meanwhile");
}

/// The copying has begun to write what memory held, when a write comes, and then tables that have
/// nothing to do with it.
#[test]
fn an_ingestion_during_the_flush_of_a_checkpoint_is_not_in_the_copy_alone() {
    let disk = MemFs::new();
    let fs = FaultFs::new(Arc::new(disk.clone()));
    let db = open(fs.clone(), DIR);
    operate(&db, &disk, 1);
    let (reached, is_reached) = channel();
    let (go, may_go) = channel::<()>();
    let pause = Mutex::new(Some((reached, may_go)));
    fs.watch(move |operation, path| {
        if operation != Operation::Open || path.parent() != Some(Path::new(DIR)) {
            return;
        }
        let due = pause.lock().unwrap().take();
        if let Some((reached, may_go)) = due {
            reached.send(()).unwrap();
            may_go.recv().unwrap();
        }
    });
    thread::scope(|scope| {
        let copying = scope.spawn(|| db.checkpoint("/copy"));
        is_reached.recv().unwrap();
        (2..PERIOD).for_each(|operation| operate(&db, &disk, operation));
        let ingesting = scope.spawn(|| operate(&db, &disk, PERIOD));
        // It may have to wait for the copying. If not, it is done by then.
        for _ in 0..20_000 {
            if ingesting.is_finished() {
                break;
            }
            thread::yield_now();
        }
        go.send(()).unwrap();
        copying.join().unwrap().unwrap();
        ingesting.join().unwrap();
    });
    assert!(beginning(keys(&open(disk.clone(), "/copy")), "the copy") >= 1);
    assert_eq!(beginning(keys(&db), "the store"), PERIOD);
}

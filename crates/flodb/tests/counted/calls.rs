//! What the paths that must be fast ask of the machine: nothing.
//!
//! Three counts must stay at nothing. *Allocations* of the thread. *Operations* of the file system,
//! counted at the door through which all of them go. And the kernel's own count of reads and writes
//! of the thread, which would show a file that is used past the door.

use super::allocator::{allocations_in, turn};
use keyrack_flodb::{Batch, Db, Durability, Options};
use keyrack_vfs::{FaultFs, Fs, RealFs};
use std::path::Path;
use std::sync::Arc;

/// What a piece of work asked for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    allocations: u64,
    operations: u64,
    /// Calls of the kernel that read or write, as far as it tells.
    calls: u64,
}

const NOTHING: Asked = Asked { allocations: 0, operations: 0, calls: 0 };

/// Reads and writes of this thread, by the kernel's count. 0 where it does not tell.
fn calls() -> u64 {
    let Ok(text) = RealFs.read_to_string(Path::new("/proc/thread-self/io")) else { return 0 };
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map_or(0, |number| number.trim().parse::<u64>().unwrap())
    };
    field("syscr:") + field("syscw:")
}

fn asked(fs: &FaultFs, work: impl FnOnce()) -> Asked {
    // Reading the count is a few calls as well: always as many.
    let (first, second) = (calls(), calls());
    let operations = fs.operations();
    let before = calls();
    let allocations = allocations_in(work);
    let calls = (calls() - before).saturating_sub(second - first);
    Asked { allocations, operations: fs.operations() - operations, calls }
}

struct Store {
    fs: FaultFs,
    db: Db,
    _dir: tempfile::TempDir,
}

/// A store on a real disk whose operations are counted.
fn store(options: Options) -> Store {
    let dir = tempfile::tempdir().unwrap();
    let fs = FaultFs::new(Arc::new(RealFs));
    let db = Db::open_in(Arc::new(fs.clone()), dir.path(), options).unwrap();
    Store { fs, db, _dir: dir }
}

fn key(n: u32) -> [u8; 16] {
    let mut key = *b"key0000000000000";
    key[12..].copy_from_slice(&n.to_be_bytes());
    key
}

/// The first operations of a thread make what it keeps.
fn warm_up(db: &Db) {
    (0..100).for_each(|n| db.put(&key(n), &[1; 100]).unwrap());
    for n in 0..200 {
        db.get_with(&key(n), |_| ()).unwrap();
    }
}

#[test]
fn the_counts_count() {
    let _turn = turn();
    let Store { fs, db, _dir } = store(Options::default());
    warm_up(&db);
    let synced = asked(&fs, || db.put_with(b"key", b"value", sync()).unwrap());
    assert!(synced.operations >= 1, "{synced:?}");
    let path = db.dir().join("beside");
    let beside = asked(&fs, || {
        // Past the door that counts.
        let options = keyrack_vfs::OpenOptions::new().write(true).create(true);
        let file = RealFs.open(&path, &options).unwrap();
        (0..10).for_each(|n| file.write_at(n, b"x").unwrap());
    });
    assert_eq!(beside.operations, 0);
    assert!(beside.allocations > 0);
    assert!(beside.calls >= 10 || calls() == 0, "{beside:?}");
}

fn sync() -> keyrack_flodb::WriteOptions {
    keyrack_flodb::WriteOptions { sync: true }
}

#[test]
fn a_put_makes_no_call_and_allocates_nothing() {
    let _turn = turn();
    for durability in [Durability::Os, Durability::None] {
        let options = Options { durability, segment_bytes: 64 << 20, ..Options::default() };
        let Store { fs, db, _dir } = store(options);
        warm_up(&db);
        // The space of the log grows with its records, by a quarter each time: here to 22 MiB.
        db.put(b"large", &vec![1; 19 << 20]).unwrap();
        let puts = asked(&fs, || (0..20_000).for_each(|n| db.put(&key(n), &[2; 100]).unwrap()));
        assert_eq!(puts, NOTHING, "{durability:?}");
        let deletes = asked(&fs, || (0..20_000).for_each(|n| db.delete(&key(n)).unwrap()));
        assert_eq!(deletes, NOTHING, "{durability:?}");
    }
}

/// Over many segments and memtables, what they cost is shared by thousands of puts.
#[test]
fn the_ends_of_segments_and_generations_cost_a_put_next_to_nothing() {
    const PUTS: u32 = 60_000;
    let _turn = turn();
    let options = Options { memtable_bytes: 2 << 20, segment_bytes: 1 << 20, ..Options::default() };
    let Store { fs, db, _dir } = store(options);
    warm_up(&db);
    // The operations of the background are counted with those of the writer.
    let puts = asked(&fs, || (0..PUTS).for_each(|n| db.put(&key(n), &[3; 100]).unwrap()));
    db.flush().unwrap();
    assert!(puts.allocations < u64::from(PUTS) / 20, "{puts:?}");
    assert!(puts.operations < u64::from(PUTS) / 20, "{puts:?}");
    assert!(puts.calls < u64::from(PUTS) / 20, "{puts:?}");
}

#[test]
fn a_get_from_memory_makes_no_call_and_allocates_nothing() {
    let _turn = turn();
    let Store { fs, db, _dir } = store(Options::default());
    warm_up(&db);
    (0..20_000).for_each(|n| db.put(&key(n), &[4; 100]).unwrap());
    let mut bytes = 0;
    let gets = asked(&fs, || {
        for n in 0..40_000 {
            let found = db.get_with(&key(n), |value| bytes += value.len()).unwrap();
            assert_eq!(found.is_some(), n < 20_000);
        }
    });
    assert_eq!((gets, bytes), (NOTHING, 2_000_000));
}

#[test]
fn a_get_of_a_cached_block_makes_no_call_and_allocates_nothing() {
    let _turn = turn();
    let Store { fs, db, _dir } = store(Options::default());
    (0..20_000).for_each(|n| db.put(&key(2 * n), &[5; 100]).unwrap());
    db.compact_range(None, None).unwrap();
    warm_up(&db);
    db.compact_range(None, None).unwrap();
    let mut bytes = 0;
    let mut get_all = || {
        for n in 0..40_000 {
            db.get_with(&key(n), |value| bytes += value.len()).unwrap();
        }
    };
    let first = asked(&fs, &mut get_all);
    assert!(first.operations > 100, "the blocks are read: {first:?}");
    let second = asked(&fs, &mut get_all);
    assert_eq!(second, NOTHING);
    assert!(bytes > 4_000_000);
}

/// A batch makes a list of the locks that it holds, and its payload's head; nothing for each write.
#[test]
fn a_batch_allocates_nothing_for_each_write() {
    let _turn = turn();
    let Store { fs, db, _dir } = store(Options::default());
    warm_up(&db);
    let mut batch = Batch::new();
    (0..10).for_each(|n| batch.put(&key(n), b"value"));
    db.write(&batch, Default::default()).unwrap();
    let few = asked(&fs, || db.write(&batch, Default::default()).unwrap());
    (0..400).for_each(|n| batch.put(&key(n), b"value"));
    let many = asked(&fs, || db.write(&batch, Default::default()).unwrap());
    assert_eq!((few.operations, many.operations, many.calls), (0, 0, 0));
    assert!(few.allocations <= 6 && many.allocations <= few.allocations + 8, "{few:?} {many:?}");
}

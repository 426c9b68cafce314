//! Much of something, or something slow: thousands of tables, a disk whose syncs take their time.

use crate::faults::bounded;
use crate::support::{DIR, idle, open, rows, stat, tiny};
use keyrack_flodb::{Options, WriteOptions, verify};
use keyrack_vfs::{FaultFs, MemFs, Operation};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// Two thousand tables of two entries each: they open, are searched, walked and checked.
#[test]
fn a_store_of_thousands_of_tables_is_a_store() {
    const KEYS: u32 = 4000;
    let disk = MemFs::new();
    let small = || Options { memtable_bytes: 4 << 20, block_bytes: 64, table_bytes: 200, ..idle() };
    let db = open(&disk, small());
    (0..KEYS).for_each(|n| db.put(&key(n), &[7; 100]).unwrap());
    db.compact_range(None, None).unwrap();
    let count = stat(&db, "level6_tables");
    assert!(count > 1500, "{count}");
    drop(db);
    let db = open(&disk, small());
    assert_eq!((stat(&db, "level6_tables"), rows(&db).len()), (count, KEYS as usize));
    assert!((0..KEYS).step_by(7).all(|n| db.get(&key(n)).unwrap().is_some()));
    assert_eq!(db.get(&key(KEYS)).unwrap(), None);
    // A part of them is merged with what is new.
    db.put(&key(1000), b"new").unwrap();
    db.delete_range(&key(2000), &key(2100)).unwrap();
    db.compact_range(Some(&key(900)), Some(&key(2200))).unwrap();
    assert_eq!(db.get(&key(1000)).unwrap().unwrap(), b"new");
    assert_eq!(rows(&db).len(), KEYS as usize - 100);
    db.close().unwrap();
    let report = verify(Arc::new(disk), Path::new(DIR), &Options::default()).unwrap();
    assert!(report.is_sound() && report.tables > 1400, "{report:?}");
}

/// Holds up operations of some kind until it is opened.
#[derive(Default)]
struct Barrier {
    /// How many stand before it, and whether it is open.
    state: Mutex<(usize, bool)>,
    changed: Condvar,
}

impl Barrier {
    fn stand(&self) {
        let mut state = self.state.lock().unwrap();
        state.0 += 1;
        self.changed.notify_all();
        while !state.1 {
            state = self.changed.wait(state).unwrap();
        }
    }

    fn wait_for_somebody(&self) {
        let mut state = self.state.lock().unwrap();
        while state.0 == 0 {
            state = self.changed.wait(state).unwrap();
        }
    }

    fn open(&self) {
        self.state.lock().unwrap().1 = true;
        self.changed.notify_all();
    }
}

/// A sync that does not come back, of a table or of the log, holds up who waits for it. Readers and
/// writers that do not ask for a sync go on.
#[test]
fn a_slow_sync_holds_up_nobody_else() {
    for slow in [Operation::Sync, Operation::Flush] {
        bounded("a slow sync", move || {
            let fs = FaultFs::new(Arc::new(MemFs::new()));
            let db = open(&fs, Options { memtable_bytes: 4 << 20, ..tiny() });
            db.put(b"before", b"value").unwrap();
            let barrier = Arc::new(Barrier::default());
            let at = Arc::clone(&barrier);
            fs.watch(move |operation, path| {
                let is_table = path.extension().is_some_and(|end| end == "table");
                if operation == slow && (is_table || slow == Operation::Flush) {
                    at.stand();
                }
            });
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| match slow {
                    Operation::Sync => db.flush(),
                    _ => db.put_with(b"synced", b"value", WriteOptions { sync: true }),
                });
                barrier.wait_for_somebody();
                (0..500).for_each(|n| db.put(&key(n), b"value").unwrap());
                assert_eq!(db.get(&key(499)).unwrap().unwrap(), b"value");
                assert!(rows(&db).len() >= 501);
                assert!(!waiting.is_finished(), "nobody says that it is synced before it is");
                barrier.open();
                waiting.join().unwrap().unwrap();
            });
            assert!(rows(&db).len() >= 501);
        });
    }
}

//! What is promised of a write when it returns, whatever the store is opened with.

use crate::faults::bounded;
use crate::support::{open, stat, try_open};
use keyrack_flodb::{Batch, Db, Durability, Options, WriteOptions};
use keyrack_vfs::{CrashPolicy, Fault, FaultFs, FaultPlan, Fs, MemFs, Operation};
use std::path::Path;
use std::sync::Arc;

/// It returned at once, and nothing was on the disk.
#[test]
fn a_synced_write_to_a_store_without_a_log_survives_a_power_loss() {
    let disk = MemFs::new();
    let options = || Options { durability: Durability::None, ..Options::default() };
    let open = |disk: &MemFs| try_open(disk, options());
    let sync = WriteOptions { sync: true };
    let db = open(&disk).unwrap();
    db.put(b"before", b"value").unwrap();
    db.put_with(b"synced", b"value", sync).unwrap();
    let after = open(&disk.crash_image(0, CrashPolicy::DropAll)).unwrap();
    assert_eq!(after.get(b"before").unwrap().unwrap(), b"value");
    assert_eq!(after.get(b"synced").unwrap().unwrap(), b"value");
    db.delete_with(b"synced", sync).unwrap();
    let after = open(&disk.crash_image(0, CrashPolicy::DropAll)).unwrap();
    assert_eq!(after.get(b"synced").unwrap(), None);
    db.put(b"more", b"value").unwrap();
    // An empty batch syncs what came before it.
    db.write(&Batch::new(), sync).unwrap();
    let after = open(&disk.crash_image(0, CrashPolicy::DropAll)).unwrap();
    assert_eq!(after.get(b"more").unwrap().unwrap(), b"value");
}

/// The first attempt failed between making the directory and syncing its name; the second found it
/// there, and the store was gone after a power loss with all that was synced.
#[test]
fn a_store_whose_directory_was_left_by_a_failed_opening_survives_a_power_loss() {
    for dir in ["/store", "/some/where/deep/store"] {
        for kind in [Operation::SyncDir, Operation::CreateDir] {
            for at in 1..=8 {
                let disk = MemFs::new();
                let fs = FaultFs::new(Arc::new(disk.clone()));
                fs.arm(FaultPlan::once(at, Fault::Io).only(&[kind]));
                let open = |fs: Arc<dyn Fs>| Db::open_in(fs, Path::new(dir), Options::default());
                let db = open(Arc::new(fs.clone())).or_else(|_| open(Arc::new(fs.clone())));
                let db = db.unwrap();
                fs.disarm();
                db.put_with(b"synced", b"value", WriteOptions { sync: true }).unwrap();
                let after = disk.crash_image(0, CrashPolicy::DropAll);
                let after = open(Arc::new(after)).unwrap();
                assert!(after.get(b"synced").unwrap().is_some(), "{dir}, {kind} {at}");
            }
        }
    }
}

/// Level 0 was full, and writers waited for threads that there were none of.
#[test]
fn writers_do_not_wait_for_compactions_that_nobody_does() {
    let disk = MemFs::new();
    let options = Options { compaction_threads: 0, ..Options::default() };
    let tables = options.level0_stop + 5;
    bounded("writes without compaction threads", move || {
        let db = open(&disk, options);
        for n in 0..tables {
            db.put(&n.to_be_bytes(), b"value").unwrap();
            db.flush().unwrap();
        }
        db.put(b"one", b"more").unwrap();
        assert_eq!(stat(&db, "level0_tables"), tables as u64);
        db.compact_range(None, None).unwrap();
        assert_eq!(db.get(&0_usize.to_be_bytes()).unwrap().unwrap(), b"value");
    });
}

//! Faults of the daemon that this store takes the place of, each as a test: what lost data there
//! does not lose any here. (The key that was only good for a log, the record that was cut, the
//! thread that was missing.)

use crate::support::{close, content, get, open, tiny, with_logs};
use keyrack_rowstore::{Options, Rows};
use keyrack_store::{Durability, Update};
use keyrack_vfs::MemFs;
use std::sync::Mutex;

/// Fault 1: A log with a removal in it made every later start crash.
#[test]
fn a_log_with_removals_is_replayed() {
    let disk = MemFs::new();
    let store = open(&disk, tiny());
    let mut session = store.session().unwrap();
    session.put(b"a", b"1", 0, 0).unwrap();
    session.put(b"b", b"2", 0, 0).unwrap();
    session.flush().unwrap();
    session.remove(b"a").unwrap();
    session.flush().unwrap();
    let image = disk.process_crash_image();
    for _ in 0..3 {
        let store = open(&image, tiny());
        assert_eq!(store.len(), 1);
        assert_eq!(get(&mut *store.session().unwrap(), b"b").as_deref(), Some(&b"2"[..]));
    }
}

/// Fault 2: Changes of columns that straddled a buffer were logged with rubbish in them.
#[test]
fn changes_of_columns_of_all_lengths_come_back() {
    let disk = MemFs::new();
    let options = || Options::default().with_segment_bytes(4 << 20);
    let store = open(&disk, options());
    let mut session = store.session().unwrap();
    for n in 0..300_usize {
        let change = |column: usize, value: Vec<u8>| {
            move |row: Option<keyrack_rowstore::Row<'_>>, new: &mut keyrack_rowstore::RowBuf| {
                let count = row.map_or(0, |row| row.columns()).max(column + 1);
                new.columns();
                for index in 0..count {
                    let old = row.and_then(|row| row.column(index)).unwrap_or_default();
                    new.push(if index == column { &value } else { old });
                }
                Update::Put
            }
        };
        let key = format!("key{}", n % 7).into_bytes();
        session.update(&key, &mut change(n % 11, vec![n as u8; n * 97 % 6000])).unwrap();
        if n % 3 == 0 {
            session.flush().unwrap();
        }
    }
    session.flush().unwrap();
    let expected = content(&store);
    assert!(expected.values().all(|held| held.parts.len() == 11));
    assert!(content(&open(&disk.process_crash_image(), options())) == expected);
}

/// Fault 3: Started with fewer threads, it ignored the logs and parts beyond their number.
#[test]
fn other_numbers_of_logs_and_threads_lose_nothing() {
    let disk = MemFs::new();
    let mut rows = 0_u32;
    for (logs, threads) in [(4, 4), (1, 1), (3, 2), (2, 8), (1, 3)] {
        let store = open(&disk, Options { threads, ..with_logs(logs) });
        assert_eq!(store.len(), u64::from(rows));
        for _ in 0..logs {
            let mut session = store.session().unwrap();
            session.put(&rows.to_be_bytes(), b"row", 0, 0).unwrap();
            rows += 1;
        }
        if threads == 2 {
            store.checkpoint().unwrap();
        }
        close(store);
    }
}

/// Fault 4: A kill, and even a clean end, lost what had been acknowledged last.
#[test]
fn what_was_flushed_survives_a_kill_and_what_was_synced_a_loss_of_power() {
    for durability in [Durability::Os, Durability::Interval(1), Durability::Sync] {
        let disk = MemFs::new();
        let store = open(&disk, Options { durability, ..tiny() });
        let mut session = store.session().unwrap();
        for n in 0..50_u8 {
            session.put(&[n], &[n], 0, 0).unwrap();
            let position = session.flush().unwrap();
            // Its log may be memory until it is synced.
            if durability == Durability::Sync {
                store.sync(position).unwrap();
                let image = disk.crash_image(u64::from(n), keyrack_vfs::CrashPolicy::DropAll);
                assert_eq!(open(&image, tiny()).len(), u64::from(n) + 1);
            }
            assert_eq!(open(&disk.process_crash_image(), tiny()).len(), u64::from(n) + 1);
        }
        drop(session);
        close(store);
        let image = disk.crash_image(1, keyrack_vfs::CrashPolicy::DropAll);
        assert_eq!(open(&image, tiny()).len(), 50, "{durability}");
    }
}

/// Fault 5: The empty key was taken and never came back.
#[test]
fn the_empty_key_comes_back_from_log_and_checkpoint() {
    let disk = MemFs::new();
    for round in 0..4_u8 {
        let store = open(&disk, tiny());
        let mut session = store.session().unwrap();
        let expected = (round > 0).then(|| vec![round - 1]);
        assert_eq!(get(&mut *session, b""), expected);
        session.put(b"", &[round], 0, 0).unwrap();
        session.flush().unwrap();
        if round % 2 == 0 {
            store.checkpoint().unwrap();
        }
        drop(session);
        close(store);
    }
}

/// Fault 6: Rows were cut modulo 65,536 bytes.
#[test]
fn rows_of_more_than_64_kib_come_back_whole() {
    let disk = MemFs::new();
    let options = || Options::default().with_segment_bytes(4 << 20);
    let store = open(&disk, options());
    let lens = [0, 1, 255, 65_535, 65_536, 70_000, 300_000, 1 << 20];
    let mut session = store.session().unwrap();
    for (n, len) in lens.iter().enumerate() {
        session.put(&[n as u8], &vec![n as u8; *len], 0, 0).unwrap();
    }
    session.flush().unwrap();
    drop(session);
    for checkpointed in [false, true] {
        if checkpointed {
            store.checkpoint().unwrap();
        }
        let found = open(&disk.process_crash_image(), options());
        let mut session = found.session().unwrap();
        for (n, len) in lens.iter().enumerate() {
            assert_eq!(get(&mut *session, &[n as u8]).unwrap(), vec![n as u8; *len]);
        }
    }
}

/// Fault 7: No checksums (`damage.rs`), logs that only grew (`checkpoint.rs`), checkpoints off
/// unless one asked for them.
#[test]
fn checkpoints_are_on_by_default() {
    assert_eq!(Options::default().checkpoint_log_bytes, 256 << 20);
}

#[test]
fn a_recovery_says_how_far_it_is() {
    let disk = MemFs::new();
    let options = || Options::default().with_segment_bytes(8 << 20);
    let store = open(&disk, options());
    let mut session = store.session().unwrap();
    for n in 0..200_000_u32 {
        session.put(&n.to_be_bytes(), b"value", 0, 0).unwrap();
        if n == 100_000 {
            session.flush().unwrap();
            store.checkpoint().unwrap();
        }
    }
    drop(session);
    close(store);
    let seen = Mutex::new(Vec::new());
    let report = |progress: keyrack_rowstore::Progress| seen.lock().unwrap().push(progress);
    let store = keyrack_rowstore::RowStore::open(
        std::sync::Arc::new(disk),
        std::path::Path::new(crate::support::DIR),
        options(),
        &report,
    );
    assert_eq!(store.unwrap().len(), 200_000);
    let seen = seen.into_inner().unwrap();
    assert!(seen.len() >= 3, "{seen:?}");
    let last = seen.last().unwrap();
    assert_eq!((last.percent(), last.rows >= 200_000), (100, true), "{last:?}");
}

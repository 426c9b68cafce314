//! Removing all rows at once: nobody sees them from then on, and their memory comes back later.

use crate::support::{close, content, get, open, stat, tiny, with_logs};
use keyrack_rowstore::{Eviction, Options, RowSession, RowStore, Rows};
use keyrack_store::Update;
use keyrack_vfs::MemFs;
use std::ops::ControlFlow;
use std::time::Duration;

fn fill(session: &mut dyn RowSession, rows: u32) {
    for n in 0..rows {
        session.put(&n.to_be_bytes(), b"some value", 0, u64::from(n % 2) * 1_000_000).unwrap();
    }
}

/// Beside each other: a store with files, and one in memory.
fn both() -> [RowStore; 2] {
    [open(&MemFs::new(), tiny()), RowStore::in_memory(tiny()).unwrap()]
}

#[test]
fn clearing_visited_every_row_while_everybody_waited() {
    for store in both() {
        let mut session = store.session().unwrap();
        fill(&mut *session, 10_000);
        session.flush().unwrap();
        let bytes = stat(&store, "memory_bytes");
        session.clear().unwrap();
        session.flush().unwrap();
        // All rows are still in memory, so none was visited to be removed; and none is there.
        assert_eq!(stat(&store, "dead_rows"), 10_000.0);
        assert_eq!(stat(&store, "memory_bytes"), bytes);
        assert_eq!((store.len(), session.count(), stat(&store, "rows")), (0, 0, 0.0));
        assert_eq!(stat(&store, "volatile_rows"), 0.0);
        session.put(&7_u32.to_be_bytes(), b"over a dead row", 0, 0).unwrap();
        session.put(b"beside them", b"", 0, 0).unwrap();
        assert_eq!((store.len(), stat(&store, "dead_rows")), (2, 9_999.0));
        session.flush().unwrap();
        assert_eq!(store.sweep(0).unwrap(), 0, "none of them expired");
        assert_eq!((store.len(), stat(&store, "dead_rows")), (2, 0.0));
        assert_eq!(content(&store).len(), 2);
        assert!(stat(&store, "memory_bytes") < bytes / 1000.0);
        session.remove(&7_u32.to_be_bytes()).unwrap();
        session.remove(b"beside them").unwrap();
        session.flush().unwrap();
        assert_eq!((store.len(), stat(&store, "memory_bytes")), (0, 0.0));
    }
}

#[test]
fn a_row_that_was_cleared_is_not_there_for_anything() {
    for store in both() {
        let mut session = store.session().unwrap();
        let first = session.put(b"a", b"1", 0, 0).unwrap();
        session.flush().unwrap();
        session.clear().unwrap();
        assert_eq!(get(&mut *session, b"a"), None);
        session.multi_get(&[b"a", b"b"], &mut |_, row| assert!(row.is_none())).unwrap();
        assert_eq!(session.scan(b"", None, &mut |_, _| unreachable!()).unwrap(), 0);
        assert_eq!(session.scan_rev(b"", None, &mut |_, _| unreachable!()).unwrap(), 0);
        assert!(!session.remove(b"a").unwrap());
        let sees_nothing = &mut |row: Option<keyrack_rowstore::Row<'_>>,
                                 _: &mut keyrack_rowstore::RowBuf| {
            assert!(row.is_none());
            Update::Remove
        };
        assert_eq!(session.update(b"a", sees_nothing).unwrap(), 0);
        session.begin_group().unwrap();
        assert_eq!(get(&mut *session, b"a"), None);
        assert_eq!(session.update(b"a", sees_nothing).unwrap(), 0);
        session.put(b"b", b"2", 0, 0).unwrap();
        let mut seen = Vec::new();
        for is_reverse in [false, true] {
            let visit = &mut |key: &[u8], _: keyrack_rowstore::Row<'_>| {
                seen.push(key.to_vec());
                ControlFlow::Continue(())
            };
            let visited = if is_reverse {
                session.scan_rev(b"", None, visit)
            } else {
                session.scan(b"", None, visit)
            };
            assert_eq!(visited.unwrap(), 1);
        }
        assert_eq!(seen, [b"b", b"b"]);
        let second = session.put(b"a", b"2", 0, 0).unwrap();
        assert!(second > first, "the version goes on from the one that was cleared");
        assert_eq!((session.count(), store.len()), (2, 0));
        session.flush().unwrap();
        assert_eq!((store.len(), stat(&store, "dead_rows")), (2, 0.0));
    }
}

#[test]
fn a_group_that_clears_keeps_what_it_writes_afterwards() {
    let disk = MemFs::new();
    let store = open(&disk, tiny());
    let mut session = store.session().unwrap();
    fill(&mut *session, 100);
    session.begin_group().unwrap();
    session.put(b"before", b"", 0, 0).unwrap();
    session.clear().unwrap();
    session.put(&3_u32.to_be_bytes(), b"new", 0, 0).unwrap();
    assert_eq!((session.count(), store.len()), (1, 100));
    session.flush().unwrap();
    assert_eq!((session.count(), store.len()), (1, 1));
    let expected = content(&store);
    assert_eq!(expected.keys().collect::<Vec<_>>(), [&3_u32.to_be_bytes()]);
    assert!(content(&open(&disk.process_crash_image(), tiny())) == expected);
}

#[test]
fn a_checkpoint_right_after_a_clear_does_not_bring_rows_back() {
    let disk = MemFs::new();
    let store = open(&disk, tiny());
    let mut session = store.session().unwrap();
    fill(&mut *session, 5000);
    session.flush().unwrap();
    store.checkpoint().unwrap();
    session.clear().unwrap();
    session.put(b"after", b"it", 0, 0).unwrap();
    session.flush().unwrap();
    // The log with the clear is let go of, and the dead rows are in memory all the time.
    store.checkpoint().unwrap();
    assert_eq!(stat(&store, "dead_rows"), 5000.0);
    assert_eq!(stat(&store, "checkpoint_rows"), 1.0);
    drop(session);
    let expected = content(&store);
    assert_eq!(expected.len(), 1);
    assert!(content(&open(&disk.process_crash_image(), tiny())) == expected);
    close(store);
    let store = open(&disk, tiny());
    assert!(content(&store) == expected);
    assert_eq!((store.len(), stat(&store, "dead_rows")), (1, 0.0));
}

#[test]
fn a_put_that_is_logged_after_the_clear_that_covers_it_does_not_come_back() {
    for has_checkpoint in [false, true] {
        let disk = MemFs::new();
        let store = open(&disk, with_logs(2));
        let (mut late, mut other) = (store.session().unwrap(), store.session().unwrap());
        late.put(b"old", b"", 0, 0).unwrap();
        other.clear().unwrap();
        other.put(b"new", b"", 0, 0).unwrap();
        other.flush().unwrap();
        assert_eq!(get(&mut *late, b"old"), None);
        late.put(b"newer", b"", 0, 0).unwrap();
        late.flush().unwrap();
        if has_checkpoint {
            store.checkpoint().unwrap();
        }
        let expected = content(&store);
        assert_eq!(expected.keys().map(Vec::as_slice).collect::<Vec<_>>(), [&b"new"[..], b"newer"]);
        assert!(content(&open(&disk.process_crash_image(), tiny())) == expected);
    }
}

#[test]
fn a_write_at_the_limit_of_memory_is_taken_after_a_clear() {
    for eviction in [Eviction::None, Eviction::Clock] {
        for in_group in [false, true] {
            let options = Options { memory_max: 60_000, eviction, ..tiny() };
            let store = RowStore::in_memory(options).unwrap();
            let mut session = store.session().unwrap();
            for round in 0..5 {
                if in_group && round > 0 {
                    session.begin_group().unwrap();
                }
                session.clear().unwrap();
                for n in 0..150_u32 {
                    let key = [&[round][..], &n.to_be_bytes()].concat();
                    session.put(&key, &[1; 300], 0, 0).unwrap();
                }
                session.flush().unwrap();
                assert_eq!(store.len(), 150);
                // What is dead gives way as far as the limit asks for it, but for one write.
                if !in_group {
                    let bytes = stat(&store, "memory_bytes");
                    assert!(bytes <= 61_000.0, "{bytes}");
                }
            }
            assert_eq!(stat(&store, "evicted"), 0.0, "dead rows go first");
            store.sweep(0).unwrap();
            assert!(stat(&store, "memory_bytes") < 60_000.0);
            assert_eq!(content(&store).len(), 150);
        }
    }
}

#[test]
fn the_sweeper_gives_back_what_was_cleared() {
    let options = Options { sweep_interval: Duration::from_millis(1), ..tiny() };
    let store = RowStore::in_memory(options).unwrap();
    let mut session = store.session().unwrap();
    for round in 0..3 {
        fill(&mut *session, 3000);
        session.clear().unwrap();
        session.put(b"after", &[round], 0, 0).unwrap();
        assert_eq!(session.count(), 1);
        session.flush().unwrap();
    }
    // It ends when the sweeper has done its work, however long it takes.
    while stat(&store, "dead_rows") > 0.0 {
        assert_eq!(store.len(), 1, "whatever the sweeper does");
        std::thread::yield_now();
    }
    assert_eq!(get(&mut *session, b"after").unwrap(), [2]);
    assert!(stat(&store, "memory_bytes") < 200.0);
    drop(session);
    close(store);
}

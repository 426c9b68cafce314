//! The engine behind the contract of stores.

use keyrack_rowstore::engine;
use keyrack_store::{Batch, Durability, Error, OpenOptions, Store, WriteOptions};
use keyrack_testkit::Suite;
use keyrack_vfs::{Fs, MemFs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn options(disk: &MemFs, durability: Durability, text: &[(&str, &str)]) -> OpenOptions {
    let own = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
    OpenOptions {
        data_dir: Some(PathBuf::from("/data")),
        fs: Arc::new(disk.clone()),
        seed: 1,
        durability: Some(durability),
        options: text.iter().map(own).collect(),
    }
}

fn fresh(durability: Durability, text: &[(&str, &str)]) -> Box<dyn Store> {
    let disk = MemFs::new();
    disk.create_dir(Path::new("/data")).unwrap();
    (engine().open)(&options(&disk, durability, text)).unwrap()
}

#[test]
fn it_passes_the_engine_suite() {
    let small: &[_] = &[("segment_bytes", "8M"), ("checkpoint_log_bytes", "64k"), ("logs", "2")];
    for (durability, text) in [
        (Durability::Os, small),
        (Durability::None, &[]),
        (Durability::Sync, &[("segment_bytes", "8M")]),
        (Durability::Interval(1), small),
    ] {
        let (name, open) = (format!("rowstore, {durability}"), || Ok(fresh(durability, text)));
        Suite { name: &name, open: &open, operations: 4000, thread_operations: 1000 }.run();
    }
}

#[test]
fn what_was_written_is_there_after_close_and_after_drop() {
    let disk = MemFs::new();
    disk.create_dir(Path::new("/data")).unwrap();
    let open = || (engine().open)(&options(&disk, Durability::Os, &[("segment_bytes", "64k")]));
    for round in 0..4_u8 {
        let store = open().unwrap();
        let mut session = store.session().unwrap();
        for earlier in 0..round {
            let mut seen = Vec::new();
            assert!(session.get(&[earlier], &mut |value| seen.extend_from_slice(value)).unwrap());
            assert_eq!(seen, [earlier, earlier]);
        }
        session.put(&[round], &[round, round]).unwrap();
        session.put_with(b"synced", &[round], WriteOptions::SYNC).unwrap();
        drop(session);
        if round % 2 == 0 {
            store.close().unwrap();
        }
    }
}

#[test]
fn options_that_mean_nothing_are_refused() {
    let disk = MemFs::new();
    disk.create_dir(Path::new("/data")).unwrap();
    for text in [
        ("logs", "0"),
        ("logs", "1000"),
        ("segment_bytes", "1000"),
        ("segment_bytes", "2G"),
        ("eviction", "lru"),
        ("memory_max", "much"),
        ("checkpoint_on_close", "perhaps"),
        ("threads", "100"),
    ] {
        let opened = (engine().open)(&options(&disk, Durability::Os, &[text]));
        assert!(matches!(opened, Err(Error::Usage { .. })), "{text:?}");
    }
}

#[test]
fn a_batch_that_cannot_be_held_changes_nothing() {
    let store = fresh(Durability::Os, &[("segment_bytes", "64k"), ("memory_max", "40k")]);
    let mut session = store.session().unwrap();
    session.put(b"key", b"old").unwrap();
    let large = vec![7; 40 << 10];
    for (puts, value) in [(1, &large[..]), (2, &large[..30 << 10]), (700, b"many")] {
        let mut batch = Batch::new();
        batch.put(b"key", b"new");
        for n in 0..puts {
            batch.put(format!("{n}").as_bytes(), value);
        }
        let refused = session.apply(&batch);
        assert!(
            matches!(refused, Err(Error::Usage { .. } | Error::OutOfMemory { .. })),
            "{puts}: {refused:?}"
        );
        let mut rows = 0;
        session
            .scan(b"", None, &mut |_, value| {
                rows += 1;
                assert_eq!(value, b"old");
                std::ops::ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(rows, 1);
    }
}

#[test]
fn out_of_memory_was_a_mistake_of_the_caller() {
    for (eviction, remedy) in
        [("none", "raise it, remove rows, or choose the eviction clock"), ("clock", "raise it")]
    {
        let store = fresh(Durability::Os, &[("memory_max", "40k"), ("eviction", eviction)]);
        let mut session = store.session().unwrap();
        session.put(b"key", b"old").unwrap();
        let error = session.put(b"key", &[7; 50 << 10]).unwrap_err();
        assert!(matches!(error, Error::OutOfMemory { .. }), "{error:?}");
        let words = "out of memory: memory-max of 40960 bytes is reached; ";
        assert_eq!(error.to_string(), format!("{words}{remedy}"));
        let mut value = Vec::new();
        assert!(session.get(b"key", &mut |row| value.extend_from_slice(row)).unwrap());
        assert_eq!(value, b"old", "nothing was done");
    }
    let store = fresh(Durability::Os, &[("memory_max", "40k")]);
    let mut batch = Batch::new();
    batch.put(b"key", &[7; 50 << 10]);
    let error = store.session().unwrap().apply(&batch).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { .. }), "{error:?}");
    // A row that no memory would help is the caller's mistake.
    let store = fresh(Durability::Os, &[("memory_max", "1m"), ("segment_bytes", "64k")]);
    let error = store.session().unwrap().put(b"key", &[7; 60 << 10]).unwrap_err();
    assert!(matches!(error, Error::Usage { .. }), "{error:?}");
}

//! Checkpoints: what they hold, what they let go of, and what goes on meanwhile.

use crate::support::{DIR, close, content, get, open, stat, tiny, with_logs};
use keyrack_rowstore::{Options, RowSession, RowStore, Rows};
use keyrack_store::Error;
use keyrack_testkit::damage::directory;
use keyrack_vfs::{CrashPolicy, Fs, MemFs, OpenOptions};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;

fn fill(session: &mut dyn RowSession, rows: u32, round: u8) {
    for n in 0..rows {
        session.put(format!("key/{n:06}").as_bytes(), &[round; 100], 0, 0).unwrap();
        if n % 16 == 0 {
            session.flush().unwrap();
        }
    }
    session.flush().unwrap();
}

#[test]
fn logs_do_not_grow_without_bound() {
    let disk = MemFs::new();
    let store = open(&disk, tiny());
    let mut sizes = Vec::new();
    for round in 0..8 {
        fill(&mut *store.session().unwrap(), 2000, round);
        assert!(store.checkpoint().unwrap());
        sizes.push(disk.size_recursive(Path::new(DIR)).unwrap());
    }
    assert!(sizes[7] <= sizes[2], "{sizes:?}");
    assert_eq!(stat(&store, "checkpoint_rows"), 2000.0);
    let parts = directory(&disk, Path::new(DIR)).into_keys();
    assert_eq!(parts.filter(|path| path.to_string_lossy().ends_with(".rows")).count(), 1);
    let expected = content(&store);
    close(store);
    let store = open(&disk, tiny());
    assert_eq!(store.recovered().checkpoint_rows, 2000);
    assert!(store.recovered().log_records <= 1, "{:?}", store.recovered());
    assert!(content(&store) == expected);
}

fn parts_below(disk: &MemFs, dir: &str) -> Vec<String> {
    let names = directory(disk, Path::new(dir)).into_keys();
    let names = names.map(|path| path.to_string_lossy().into_owned());
    names.filter(|path| path.ends_with(".rows")).collect()
}

#[test]
fn parts_are_spread_over_directories_and_any_list_of_them_opens() {
    let disk = MemFs::new();
    ["/a", "/b", "/c"].iter().for_each(|dir| disk.create_dir_all(Path::new(dir)).unwrap());
    let dirs = |dirs: &[&str]| Options {
        checkpoint_dirs: dirs.iter().map(|dir| Path::new("..").join(dir)).collect(),
        ..tiny()
    };
    let store = open(&disk, dirs(&["a", "b"]));
    fill(&mut *store.session().unwrap(), 2000, 1);
    assert!(store.checkpoint().unwrap());
    let expected = content(&store);
    close(store);
    let count = |dir: &str| parts_below(&disk, dir).len();
    assert_eq!((count("/a"), count("/b"), count(DIR)), (1, 1, 0), "few rows, and yet both");
    // A store that shares a directory takes nothing away, and neither does an opening.
    let other = RowStore::open(Arc::new(disk.clone()), Path::new("/other"), dirs(&["b"]), &|_| {});
    close(other.unwrap());
    for list in [&["b", "a"][..], &["c"], &[]] {
        let store = open(&disk, dirs(list));
        assert_eq!(store.recovered().checkpoint_rows, 2000, "{list:?}");
        assert!(content(&store) == expected, "{list:?}");
        close(store);
    }
    let store = open(&disk, dirs(&["c"]));
    assert!(store.checkpoint().unwrap());
    assert_eq!((count("/a"), count("/b"), count("/c")), (0, 0, 1), "the next one moves them");
    close(store);
    let part = parts_below(&disk, "/c").remove(0);
    disk.remove_file(&Path::new("/c").join(&part)).unwrap();
    let damaged = RowStore::open(Arc::new(disk.clone()), Path::new(DIR), dirs(&["c"]), &|_| {});
    let error = damaged.unwrap_err();
    assert!(matches!(&error, Error::Corruption { .. }), "{error}");
    let name = part.rsplit('/').next().unwrap();
    assert!(error.to_string().contains(name), "{error}");
    let absent = RowStore::open(Arc::new(disk.clone()), Path::new("/new"), dirs(&["x"]), &|_| {});
    assert!(absent.unwrap_err().to_string().contains("/x/"), "the directory is named");
}

/// The parts were named by their paths, so an opening removed those that it found by another one.
#[test]
fn a_directory_with_two_paths_keeps_all_of_its_parts() {
    let disk = MemFs::new();
    ["/a", "/b"].iter().for_each(|dir| disk.create_dir_all(Path::new(dir)).unwrap());
    let dirs = |dirs: &[&str]| Options {
        checkpoint_dirs: dirs.iter().map(|dir| Path::new("..").join(dir)).collect(),
        ..tiny()
    };
    let store = open(&disk, dirs(&["a", "b/../a"]));
    fill(&mut *store.session().unwrap(), 2000, 1);
    assert!(store.checkpoint().unwrap());
    let expected = content(&store);
    close(store);
    assert_eq!(parts_below(&disk, "/a").len(), 2);
    for list in [&["a", "b/../a"][..], &["b/../a"], &["a"]] {
        let store = open(&disk, dirs(list));
        assert!(content(&store) == expected, "{list:?}");
        close(store);
    }
}

/// The second one did not, when the log grew beyond its limit while the first was written.
#[test]
fn a_checkpoint_begins_by_itself_whenever_there_is_enough_log() {
    let disk = MemFs::new();
    let store = open(&disk, Options { checkpoint_log_bytes: 100_000, ..tiny() });
    let mut session = store.session().unwrap();
    let mut round = 0;
    while stat(&store, "checkpoints") < 5.0 {
        fill(&mut *session, 500, round);
        round = round.wrapping_add(1);
    }
    drop(session);
    let expected = content(&store);
    drop(store);
    assert!(content(&open(&disk, tiny())) == expected);
}

#[test]
fn many_rows_are_cut_into_parts_that_any_number_of_threads_can_load() {
    let disk = MemFs::new();
    let options = || Options { checkpoint_parts: 5, ..tiny() };
    let store = open(&disk, options());
    fill(&mut *store.session().unwrap(), 60_000, 1);
    assert!(store.checkpoint().unwrap());
    let expected = content(&store);
    close(store);
    let parts: Vec<u64> = directory(&disk, Path::new(DIR))
        .iter()
        .filter(|(path, _)| path.to_string_lossy().ends_with(".rows"))
        .map(|(_, bytes)| bytes.len() as u64)
        .collect();
    assert_eq!(parts.len(), 5);
    let (least, most) = (parts.iter().min().unwrap(), parts.iter().max().unwrap());
    assert!(most < &(2 * least), "{parts:?}");
    for threads in [1, 2, 8] {
        let store = open(&disk, Options { threads, ..options() });
        assert_eq!(store.len(), 60_000);
        assert!(content(&store) == expected, "{threads} threads");
    }
}

#[test]
fn two_checkpoints_in_a_row_and_one_of_nothing() {
    let disk = MemFs::new();
    for rows in [0, 100] {
        let store = open(&disk, tiny());
        fill(&mut *store.session().unwrap(), rows, 3);
        for _ in 0..3 {
            assert!(store.checkpoint().unwrap());
        }
        close(store);
        assert_eq!(open(&disk, tiny()).len(), u64::from(rows));
    }
    let store = open(&disk, tiny());
    assert_eq!(store.recovered().generation, 6);
    store.session().unwrap().clear().unwrap();
    assert!(store.checkpoint().unwrap());
    close(store);
    assert!(open(&disk, tiny()).is_empty());
}

#[test]
fn a_thread_with_writes_that_are_not_flushed_does_not_wait_for_itself() {
    let store = open(&MemFs::new(), tiny());
    let mut session = store.session().unwrap();
    session.put(b"a", b"", 0, 0).unwrap();
    assert!(matches!(store.checkpoint(), Err(Error::Usage { .. })));
    session.flush().unwrap();
    assert!(store.checkpoint().unwrap());
}

/// A put that was overtaken by a removal, and logged after it: with a checkpoint between the two it
/// must not come back.
#[test]
fn a_row_removed_before_a_checkpoint_does_not_come_back_with_an_older_put_logged_later() {
    for round in 0..200_u32 {
        let disk = MemFs::new();
        let store = open(&disk, with_logs(2));
        let mut slow = store.session().unwrap();
        slow.put(b"key", b"old", 0, 0).unwrap();
        std::thread::scope(|scope| {
            let (began, begun) = channel();
            let store = &store;
            scope.spawn(move || {
                let mut fast = store.session().unwrap();
                assert!(fast.remove(b"key").unwrap());
                fast.flush().unwrap();
                began.send(()).unwrap();
                // Waits for the other one's flush.
                assert!(store.checkpoint().unwrap());
            });
            begun.recv().unwrap();
            for _ in 0..round % 50 {
                std::thread::yield_now();
            }
            slow.flush().unwrap();
        });
        let image = disk.crash_image(1, CrashPolicy::KeepAll);
        assert_eq!(open(&image, with_logs(1)).len(), 0, "round {round}");
    }
}

#[test]
fn a_checkpoint_that_fails_leaves_the_one_before() {
    let disk = MemFs::new();
    let store = open(&disk, tiny());
    fill(&mut *store.session().unwrap(), 500, 1);
    store.checkpoint().unwrap();
    // The name of the next part is taken by something that cannot be replaced.
    let name = Path::new(DIR).join("checkpoint-0000000000000002-0000.rows");
    disk.create_dir(&name).unwrap();
    assert!(store.checkpoint().is_err());
    assert_eq!(stat(&store, "checkpoint_failures"), 1.0);
    let mut session = store.session().unwrap();
    session.put(b"after", b"it", 0, 0).unwrap();
    session.flush().unwrap();
    let image = disk.crash_image(1, CrashPolicy::KeepAll);
    image.remove_dir(&name).unwrap();
    let again = open(&image, tiny());
    assert_eq!((again.len(), again.recovered().generation), (501, 1));
    assert_eq!(get(&mut *again.session().unwrap(), b"after").as_deref(), Some(&b"it"[..]));
    disk.remove_dir(&name).unwrap();
    drop(session);
    assert!(store.checkpoint().unwrap());
    assert!(disk.open(&name, &OpenOptions::new().read(true)).is_ok());
}

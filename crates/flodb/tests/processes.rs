//! Several processes and several names of one directory, on a real disk.

use keyrack_flodb::{Db, Durability, Error, Options, WriteOptions};
use keyrack_vfs::{Fs, RealFs};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Where the child finds its store; without it, its test does nothing.
const DIR_VARIABLE: &str = "KEYRACK_TEST_STORE";

fn open(dir: &Path) -> Result<Db, Error> {
    Db::open(dir, Options { memtable_bytes: 64 << 10, ..Options::default() })
}

/// The other process: opens the store, says what came of it, writes, and waits to be killed.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(DIR_VARIABLE) else { return };
    let said = match open(Path::new(&dir)) {
        Ok(db) => {
            for n in 0..3000_u32 {
                db.put(&n.to_be_bytes(), &[7; 100]).unwrap();
            }
            say("open");
            // Until whoever started it ends it.
            let _ = std::io::stdin().read_line(&mut String::new());
            drop(db);
            return;
        }
        Err(Error::Locked(_)) => "locked",
        Err(_) => "failed",
    };
    say(said);
}

fn say(word: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "SAID {word}").unwrap();
    out.flush().unwrap();
}

/// Starts another process with the store in `dir`, and returns what it said.
fn start(dir: &Path) -> (Child, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::child", "--nocapture", "--test-threads=1"])
        .env(DIR_VARIABLE, dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while out.read_line(&mut line).unwrap() > 0 {
        // The harness of the tests writes into the same line.
        if let Some((_, word)) = line.trim_end().split_once("SAID ") {
            return (child, word.to_owned());
        }
        line.clear();
    }
    child.wait().unwrap();
    panic!("the other process said nothing");
}

#[test]
fn a_second_process_is_told_at_once_and_the_lock_goes_with_the_first() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("store");
    let (mut first, said) = start(&dir);
    assert_eq!(said, "open");
    let error = open(&dir).unwrap_err();
    assert!(matches!(error, Error::Locked(_)), "{error:?}");
    assert!(error.to_string().contains("in use by another process"), "{error}");
    let (mut second, said) = start(&dir);
    assert_eq!(said, "locked");
    second.wait().unwrap();

    // SIGKILL: nothing is closed, nothing is written any more.
    first.kill().unwrap();
    first.wait().unwrap();
    let db = open(&dir).unwrap();
    for n in 0..3000_u32 {
        assert_eq!(db.get(&n.to_be_bytes()).unwrap().as_deref(), Some(&[7; 100][..]), "{n}");
    }
    let (mut third, said) = start(&dir);
    assert_eq!(said, "locked", "this process has it now");
    third.wait().unwrap();
    assert!(matches!(open(&dir), Err(Error::Locked(_))), "and this process only once");
    drop(db);
    let (mut fourth, said) = start(&dir);
    assert_eq!(said, "open");
    fourth.kill().unwrap();
    fourth.wait().unwrap();
}

#[test]
fn a_directory_by_another_name_is_the_same_store() {
    let temp = tempfile::tempdir().unwrap();
    let (dir, link) = (temp.path().join("store"), temp.path().join("link"));
    let db = open(&dir).unwrap();
    db.put(b"key", b"value").unwrap();
    std::os::unix::fs::symlink(&dir, &link).unwrap();
    assert!(matches!(open(&link), Err(Error::Locked(_))));
    assert!(matches!(open(&temp.path().join("link/../store")), Err(Error::Locked(_))));
    drop(db);
    let db = open(&link).unwrap();
    assert_eq!(db.get(b"key").unwrap().unwrap(), b"value");
    assert!(matches!(open(&dir), Err(Error::Locked(_))));
    db.flush().unwrap();
    drop(db);
    assert!(open(&dir).unwrap().get(b"key").unwrap().is_some());
}

#[test]
fn a_store_may_be_moved_and_copied_while_it_is_closed() {
    let temp = tempfile::tempdir().unwrap();
    let (dir, moved, copied) =
        (temp.path().join("store"), temp.path().join("moved"), temp.path().join("copied"));
    let db = open(&dir).unwrap();
    (0..2000_u32).for_each(|n| db.put(&n.to_be_bytes(), &[7; 100]).unwrap());
    db.compact_range(None, None).unwrap();
    db.put_with(b"key", b"value", WriteOptions { sync: true }).unwrap();
    db.close().unwrap();
    RealFs.rename(&dir, &moved).unwrap();
    for from in [moved.clone(), moved.join("log")] {
        let to = copied.join(from.strip_prefix(&moved).unwrap());
        RealFs.create_dir(&to).unwrap();
        for entry in RealFs.list(&from).unwrap() {
            if entry.kind == keyrack_vfs::FileKind::File {
                let bytes = RealFs.read(&from.join(&entry.name)).unwrap();
                RealFs.write_atomic(&to.join(&entry.name), &bytes).unwrap();
            }
        }
    }
    // Both at the same time: they are two stores now.
    let (moved, copied) = (open(&moved).unwrap(), open(&copied).unwrap());
    moved.put(b"key", b"moved").unwrap();
    for db in [&moved, &copied] {
        assert!((0..2000_u32).all(|n| db.get(&n.to_be_bytes()).unwrap().is_some()));
    }
    assert_eq!(moved.get(b"key").unwrap().unwrap(), b"moved");
    assert_eq!(copied.get(b"key").unwrap().unwrap(), b"value");
    drop(moved);
    assert!(open(&dir).unwrap().get(b"key").unwrap().is_none(), "a new one at the old place");
}

#[test]
fn a_directory_that_cannot_be_written_is_a_clean_error() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("store");
    let db = open(&dir).unwrap();
    db.put(b"key", b"value").unwrap();
    db.close().unwrap();
    // For those who may write everywhere, a file in the place of a directory.
    let file = temp.path().join("file");
    RealFs.write_atomic(&file, b"not a directory").unwrap();
    for wrong in [file.clone(), file.join("store")] {
        let error = open(&wrong).unwrap_err();
        assert!(matches!(error, Error::Io(_)), "{error:?}");
    }
    let allow = |mode| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    allow(0o500);
    let opened = open(&dir);
    allow(0o700);
    match opened {
        Err(Error::Io(cause)) => assert!(cause.is_permission_denied(), "{cause}"),
        Err(error) => panic!("{error:?}"),
        // The superuser is not held up.
        Ok(db) => drop(db),
    }
    assert_eq!(open(&dir).unwrap().get(b"key").unwrap().unwrap(), b"value");
}

/// What a store is opened with the next time is free, but for the order of its keys.
#[test]
fn a_store_on_a_disk_opens_with_other_options() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("store");
    let mut count = 0_u32;
    for durability in [Durability::Os, Durability::None, Durability::Sync, Durability::Os] {
        for (segment_bytes, block_bytes, filter_bits_per_key) in
            [(1 << 16, 100, 0), (1 << 20, 4096, 10), (1 << 17, 1 << 16, 20)]
        {
            let options = Options {
                durability,
                segment_bytes,
                block_bytes,
                filter_bits_per_key,
                memtable_bytes: 64 << 10,
                ..Options::default()
            };
            let db = Db::open(&dir, options).unwrap();
            assert!((0..count).all(|n| db.get(&n.to_be_bytes()).unwrap().is_some()));
            (count..count + 50).for_each(|n| db.put(&n.to_be_bytes(), &[1; 1000]).unwrap());
            count += 50;
            db.close().unwrap();
        }
    }
}

//! Files that are not what was written: a clean error with file and offset, or nothing lost.

use crate::support::{Content, DIR, close, content, open, open_with, set_element, tiny};
use keyrack_rowstore::{Options, Rows};
use keyrack_store::Error;
use keyrack_testkit::damage::directory;
use keyrack_vfs::{CrashPolicy, Fs, MemFs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn options() -> Options {
    tiny().with_segment_bytes(4096)
}

/// A store with a checkpoint, a log behind it, and nothing else; what is in it.
fn build() -> (MemFs, Content) {
    let disk = MemFs::new();
    let store = open(&disk, options());
    let mut session = store.session().unwrap();
    for n in 0..60_u8 {
        session.put(&[n], &[n; 40], u32::from(n), 0).unwrap();
        session.flush().unwrap();
    }
    for n in 0..20_u8 {
        set_element(&mut *session, b"hash", &[n], Some(&[n; 10]), 0);
        session.flush().unwrap();
    }
    drop(session);
    store.checkpoint().unwrap();
    let mut session = store.session().unwrap();
    for n in 40..100_u8 {
        if n < 60 {
            let value = [n, 2, 3];
            set_element(&mut *session, b"hash", &[n - 30], (n % 2 == 0).then_some(&value), 0);
        }
        match n % 3 {
            0 => drop(session.remove(&[n])),
            _ => drop(session.put(&[n], &[n, 2, 3], 0, 0)),
        }
        session.flush().unwrap();
    }
    drop(session);
    let expected = content(&store);
    close(store);
    (disk.crash_image(1, CrashPolicy::KeepAll), expected)
}

/// Opens a damaged store. A clean error is fine, and so is what was there.
fn look(disk: &MemFs, expected: &Content, what: &dyn Fn() -> String) -> bool {
    match open_with(Arc::new(disk.clone()), options()) {
        Ok(store) => {
            let found = content(&store);
            assert!(found == *expected, "{}: {} rows, silently", what(), found.len());
            false
        }
        Err(Error::Corruption { path, .. }) => {
            assert!(path.starts_with(DIR), "{}: {path:?}", what());
            true
        }
        Err(error) => panic!("{}: {error}", what()),
    }
}

fn copy(disk: &MemFs) -> MemFs {
    disk.crash_image(1, CrashPolicy::KeepAll)
}

/// The disk with other bytes in one file.
fn with(disk: &MemFs, path: &Path, bytes: &[u8]) -> MemFs {
    let image = copy(disk);
    image.write_atomic(path, bytes).unwrap();
    image
}

#[test]
fn a_flipped_byte_anywhere_is_found_or_harmless() {
    let (disk, expected) = build();
    let (mut flips, mut found) = (0, 0);
    for (path, bytes) in directory(&disk, Path::new(DIR)) {
        let is_manifest = path.ends_with("MANIFEST");
        for (at, byte) in bytes.iter().enumerate() {
            // Bytes that nothing was written into stand for each other, and so do watermarks.
            let is_free = !is_manifest && *byte == 0 && at >= 600;
            if (is_free || is_manifest) && at % 97 != 0 {
                continue;
            }
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            let image = with(&disk, &path, &flipped);
            flips += 1;
            found += usize::from(look(&image, &expected, &|| format!("{path:?}, byte {at}")));
        }
    }
    assert!(flips > 3000 && found > flips / 3, "{found} of {flips}");
}

#[test]
fn a_missing_file_is_found() {
    let (disk, expected) = build();
    for path in directory(&disk, Path::new(DIR)).into_keys() {
        let image = copy(&disk);
        image.remove_file(&path).unwrap();
        let is_found = look(&image, &expected, &|| format!("without {path:?}"));
        assert!(is_found || !path.to_string_lossy().contains("checkpoint"), "{path:?}");
    }
    // All of the log, and all but the log.
    let image = copy(&disk);
    image.remove_dir_all(&Path::new(DIR).join("log")).unwrap();
    assert!(look(&image, &expected, &|| "without the log".to_owned()));
    let image = copy(&disk);
    image.remove_file(&Path::new(DIR).join("MANIFEST")).unwrap();
    assert!(look(&image, &expected, &|| "without the manifest".to_owned()));
}

#[test]
fn files_cut_zeroed_and_exchanged_are_found() {
    let (disk, expected) = build();
    let all = directory(&disk, Path::new(DIR));
    let mut found = 0;
    for (path, bytes) in &all {
        for cut in [0, 1, bytes.len() / 2, bytes.len().saturating_sub(1)] {
            let mut resized = bytes.clone();
            resized.resize(cut, 0);
            let image = with(&disk, path, &resized);
            found += usize::from(look(&image, &expected, &|| format!("{path:?} cut at {cut}")));
            let mut zeroed = bytes.clone();
            zeroed.iter_mut().skip(cut).take(512).for_each(|byte| *byte = 0);
            let image = with(&disk, path, &zeroed);
            found += usize::from(look(&image, &expected, &|| format!("{path:?} zeroed at {cut}")));
        }
        for (other, other_bytes) in all.iter().filter(|(other, _)| *other > path) {
            let image = with(&with(&disk, path, other_bytes), other, bytes);
            let what = || format!("{path:?} for {other:?}");
            found += usize::from(look(&image, &expected, &what));
        }
    }
    assert!(found > 10, "{found}");
}

#[test]
fn extra_files_are_let_alone_or_removed() {
    let (disk, expected) = build();
    let image = copy(&disk);
    let names = ["checkpoint-00000000000000ff-0000.rows", ".MANIFEST.0123.tmp", "notes.txt"];
    for name in names {
        image.write_atomic(&Path::new(DIR).join(name), b"something").unwrap();
    }
    assert!(!look(&image, &expected, &|| "extra files".to_owned()));
    let left: Vec<PathBuf> = directory(&image, Path::new(DIR)).into_keys().collect();
    let is_left = |name: &str| left.contains(&Path::new(DIR).join(name));
    assert_eq!(names.map(is_left), [false, false, true]);
}

#[test]
fn a_log_of_another_store_is_refused() {
    let (disk, _) = build();
    let other = MemFs::new();
    for (path, bytes) in directory(&disk, &Path::new(DIR).join("log")) {
        let path = Path::new("/store/second").join(path.file_name().unwrap());
        other.create_dir_all(path.parent().unwrap()).unwrap();
        other.write_atomic(&path, &bytes).unwrap();
    }
    close(open(&other, options()));
    let both = Options { log_dirs: vec!["log".into(), "second".into()], ..options() };
    let error = open_with(Arc::new(other), both).unwrap_err();
    assert!(error.to_string().contains("a log of another store"), "{error}");
}

#[test]
fn a_second_opening_is_refused() {
    let disk = MemFs::new();
    let store = open(&disk, options());
    let error = open_with(Arc::new(disk.clone()), options()).unwrap_err();
    assert!(matches!(error, Error::Usage { .. }), "{error:?}");
    assert!(error.to_string().contains("in use by another process"), "{error}");
    assert!(store.is_empty());
    drop(store);
    drop(open(&disk, options()));
}

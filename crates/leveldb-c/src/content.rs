//! What a directory holds, found out before anything in it is changed.
//!
//! A store that LevelDB wrote has names in common with one of `flodb`: `CURRENT`, `MANIFEST-NNNNNN`
//! and `LOCK`. The first line that is true decides:
//!
//! | there is | content |
//! |---|---|
//! | a `CURRENT` that begins with `keyrack-flodb` | a store |
//! | a `CURRENT` that begins with `MANIFEST-` | LevelDB's |
//! | `NNNNNN.ldb`, `NNNNNN.sst` or `NNNNNN.log` | LevelDB's |
//! | `NNNNNN.table`, `NNNNNN.blob`, or a segment in `log/` | a store |
//! | a manifest that begins as one of `flodb` | a store |
//! | another manifest that holds anything but zeros | LevelDB's |
//! | any other name but `LOCK` | files of something else |
//!
//! So `CURRENT` may be missing or damaged, as a crash or an `fsck` leaves it. A number has six
//! digits or more, with zeros in front up to six; other names are somebody else's.

use crate::status::Failure;
use keyrack_vfs::{FileKind, Fs, OpenOptions};
use std::path::Path;

const CURRENT: &str = "CURRENT";
const MANIFEST: &str = "MANIFEST-";
const LOCK: &str = "LOCK";
const LOG_DIR: &str = "log";

/// What `CURRENT` and a manifest of `flodb` begin with.
const STORE_CURRENT: &[u8] = b"keyrack-flodb";
const STORE_MANIFEST: &[u8] = b"KRMANIF\0";

/// What files of LevelDB, and of `flodb`, have at the end of their names.
const LEVELDB_SUFFIXES: [&str; 3] = [".ldb", ".sst", ".log"];
const STORE_SUFFIXES: [&str; 2] = [".table", ".blob"];

/// The name of a segment of the log: so many hexadecimal digits, and the suffix.
const SEGMENT_DIGITS: usize = 16;
const SEGMENT_SUFFIX: &str = ".wal";

/// Of a file, no more bytes are read than this.
const BEGIN_BYTES: usize = 16;

/// What a directory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// No database: the directory is missing, empty, or has a lock at most.
    Nothing,
    /// Files, but none of a database.
    Others,
    /// Something of a store of `flodb`.
    Store,
    /// A store that LevelDB wrote.
    Foreign,
}

/// What is in the directory.
///
/// # Errors
/// The machine's.
pub(crate) fn content(fs: &dyn Fs, dir: &Path) -> Result<Content, Failure> {
    let names = match names(fs, dir) {
        Err(error) if error.is_not_found() => return Ok(Content::Nothing),
        other => other?,
    };
    if names.iter().any(|name| name == CURRENT) {
        let current = begin(fs, &dir.join(CURRENT))?;
        if current.starts_with(STORE_CURRENT) {
            return Ok(Content::Store);
        }
        if current.starts_with(MANIFEST.as_bytes()) {
            return Ok(Content::Foreign);
        }
    }
    if names.iter().any(|name| is_numbered(name, &LEVELDB_SUFFIXES)) {
        return Ok(Content::Foreign);
    }
    if names.iter().any(|name| is_numbered(name, &STORE_SUFFIXES)) || has_log(fs, dir)? {
        return Ok(Content::Store);
    }
    let mut is_leveldb = false;
    for name in names.iter().filter(|name| is_manifest(name)) {
        let manifest = begin(fs, &dir.join(name))?;
        if manifest.starts_with(STORE_MANIFEST) {
            return Ok(Content::Store);
        }
        // A crash may leave an empty manifest, or zeros, of either.
        is_leveldb |= manifest.iter().any(|byte| *byte != 0);
    }
    Ok(if is_leveldb {
        Content::Foreign
    } else if names.iter().any(|name| name != LOCK) {
        Content::Others
    } else {
        Content::Nothing
    })
}

/// The names in a directory. One that is no UTF-8 is no file of a store, whatever replaces it.
fn names(fs: &dyn Fs, dir: &Path) -> keyrack_vfs::Result<Vec<String>> {
    let entries = fs.list(dir)?;
    Ok(entries.iter().map(|entry| entry.name.to_string_lossy().into_owned()).collect())
}

/// The first bytes of a file.
fn begin(fs: &dyn Fs, path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = vec![0; BEGIN_BYTES];
    let file = fs.open(path, &OpenOptions::new().read(true))?;
    let len = file.read_at(0, &mut bytes)?;
    bytes.truncate(len);
    Ok(bytes)
}

/// Whether there is a segment of a log.
fn has_log(fs: &dyn Fs, dir: &Path) -> Result<bool, Failure> {
    let is_log =
        |entry: &keyrack_vfs::DirEntry| entry.name == LOG_DIR && entry.kind == FileKind::Dir;
    if !fs.list(dir)?.iter().any(is_log) {
        return Ok(false);
    }
    let is_segment = |name: &String| {
        name.strip_suffix(SEGMENT_SUFFIX).is_some_and(|digits| {
            digits.len() == SEGMENT_DIGITS
                && digits.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
        })
    };
    Ok(names(fs, &dir.join(LOG_DIR))?.iter().any(is_segment))
}

/// Whether it is a number with one of the suffixes.
fn is_numbered(name: &str, suffixes: &[&str]) -> bool {
    suffixes.iter().any(|suffix| name.strip_suffix(suffix).is_some_and(is_number))
}

fn is_manifest(name: &str) -> bool {
    name.strip_prefix(MANIFEST).is_some_and(is_number)
}

/// Whether both stores write a number like this.
fn is_number(digits: &str) -> bool {
    let is_plain = digits.bytes().all(|it| it.is_ascii_digit());
    is_plain && digits.parse::<u64>().is_ok_and(|number| format!("{number:06}") == digits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_flodb::{Db, Options};
    use keyrack_vfs::MemFs;
    use std::sync::Arc;

    fn of(files: &[(&str, &[u8])]) -> Content {
        let (fs, dir) = (MemFs::new(), Path::new("/db"));
        fs.create_dir_all(&dir.join(LOG_DIR)).unwrap();
        for (name, bytes) in files {
            fs.write_atomic(&dir.join(name), bytes).unwrap();
        }
        content(&fs, dir).unwrap()
    }

    #[test]
    fn a_store_is_one_however_much_of_it_is_left() {
        let (fs, dir) = (Arc::new(MemFs::new()), Path::new("/db"));
        let db = Db::open_in(fs.clone(), dir, Options::new()).unwrap();
        db.put(b"a", b"1").unwrap();
        db.close().unwrap();
        assert_eq!(content(&*fs, dir).unwrap(), Content::Store);
        fs.remove_file(&dir.join(CURRENT)).unwrap();
        assert_eq!(content(&*fs, dir).unwrap(), Content::Store, "by its manifest or its log");
        for name in names(&*fs, dir).unwrap().iter().filter(|name| is_manifest(name)) {
            fs.remove_file(&dir.join(name)).unwrap();
        }
        assert_eq!(content(&*fs, dir).unwrap(), Content::Store, "by its log");
        fs.remove_dir_all(&dir.join(LOG_DIR)).unwrap();
        assert_eq!(content(&*fs, dir).unwrap(), Content::Nothing);

        assert_eq!(of(&[("CURRENT", b""), ("000007.table", b"")]), Content::Store);
        assert_eq!(of(&[("MANIFEST-000001", b"KRMANIF\0\x01")]), Content::Store);
        assert_eq!(of(&[("CURRENT", b"keyrack-flodb 1 "), ("000007.log", b"")]), Content::Store);
    }

    #[test]
    fn a_store_of_leveldb_is_one_however_much_of_it_is_left() {
        let manifest: &[u8] = b"\x56\xf9\xb8\xf8\x1c\0\x01\x01\x1aleveldb.Bytewise";
        assert_eq!(of(&[("CURRENT", b"MANIFEST-000004\n")]), Content::Foreign);
        for name in ["000005.ldb", "000005.sst", "000006.log"] {
            assert_eq!(of(&[("CURRENT", b""), (name, b"")]), Content::Foreign, "{name}");
            assert_eq!(of(&[("MANIFEST-000004", b""), (name, b"")]), Content::Foreign, "{name}");
        }
        assert_eq!(of(&[("MANIFEST-000002", manifest)]), Content::Foreign);
        assert_eq!(of(&[("CURRENT", b""), ("MANIFEST-000002", manifest)]), Content::Foreign);
    }

    #[test]
    fn names_that_are_nearly_those_of_a_store_are_somebody_elses() {
        for name in ["2024.table", "MANIFEST-", "MANIFEST-new", "0000007.blob", "7.ldb", "log/x"] {
            assert_eq!(of(&[(name, b"text")]), Content::Others, "{name}");
        }
        for name in ["CURRENT", "MANIFEST-000001"] {
            assert_eq!(of(&[(name, b"\0\0")]), Content::Others, "{name}");
        }
    }
}

//! What the files of a store hold, one by one.

use keyrack_flodb::{Db, Error, Item, Options, dump};
use keyrack_testkit::random::Draw;
use keyrack_vfs::{Fs, MemFs, OpenOptions};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A write: sequence number, kind, key, value.
type Write = (u64, String, Vec<u8>, Vec<u8>);

fn options() -> Options {
    Options { memtable_bytes: 64 << 10, segment_bytes: 64 << 10, ..Options::default() }
}

/// A store on a disk in memory: some of it in tables, some in the log.
fn store() -> (Arc<MemFs>, BTreeMap<Vec<u8>, Option<Vec<u8>>>) {
    let fs = Arc::new(MemFs::new());
    let mut model = BTreeMap::new();
    let db = Db::open_in(fs.clone(), Path::new("/db"), options()).unwrap();
    let mut draw = Draw::new(7);
    for turn in 0..300_u64 {
        let key = format!("key{:02}", draw.below(60)).into_bytes();
        if draw.below(5) == 0 {
            db.delete(&key).unwrap();
            model.insert(key, None);
        } else {
            let value = format!("value {turn}").into_bytes();
            db.put(&key, &value).unwrap();
            model.insert(key, Some(value));
        }
        if turn % 100 == 99 && turn < 250 {
            db.flush().unwrap();
        }
    }
    db.close().unwrap();
    (fs, model)
}

fn files(fs: &MemFs) -> Vec<PathBuf> {
    let names = |dir: &str| -> Vec<PathBuf> {
        let entries = fs.list(Path::new(dir)).unwrap();
        entries.iter().map(|entry| Path::new(dir).join(&entry.name)).collect()
    };
    [names("/db"), names("/db/log")].concat()
}

/// The writes of one file, and how many changes.
fn read(fs: &dyn Fs, path: &Path) -> Result<(Vec<Write>, usize), Error> {
    let (mut writes, mut changes) = (Vec::new(), 0);
    dump(fs, path, &mut |item| {
        match item {
            Item::Write { kind, sequence, key, value, .. } => {
                writes.push((sequence, kind.to_owned(), key.to_vec(), value.to_vec()));
            }
            _ => changes += 1,
        }
        true
    })?;
    Ok((writes, changes))
}

fn is_readable(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_string_lossy();
    name.ends_with(".table") || name.ends_with(".wal") || name.starts_with("MANIFEST-")
}

#[test]
fn the_newest_writes_of_all_files_are_the_store() {
    let (fs, model) = store();
    let mut newest: BTreeMap<Vec<u8>, Write> = BTreeMap::new();
    let mut changes = 0;
    for path in files(&fs).iter().filter(|path| is_readable(path)) {
        let (writes, of_file) = read(&*fs, path).unwrap();
        changes += of_file;
        for write in writes {
            let known = newest.entry(write.2.clone()).or_insert_with(|| write.clone());
            if known.0 < write.0 {
                *known = write;
            }
        }
    }
    assert!(changes > 3, "{changes} changes of manifests");
    let found: BTreeMap<Vec<u8>, Option<Vec<u8>>> = newest
        .into_iter()
        .map(|(key, (_, kind, _, value))| (key, (kind == "put").then_some(value)))
        .collect();
    assert_eq!(found, model);
}

#[test]
fn other_names_are_refused_and_the_visitor_ends_it() {
    let (fs, _) = store();
    for name in ["CURRENT", "LOCK", "absent", "x.wal"] {
        let refused = dump(&*fs, &Path::new("/db").join(name), &mut |_| true);
        assert!(matches!(refused, Err(Error::Usage(_))), "{name}: {refused:?}");
    }
    let absent = dump(&*fs, Path::new("/db/999999.table"), &mut |_| true);
    assert!(matches!(absent, Err(Error::Io(_))), "{absent:?}");
    for path in files(&fs).iter().filter(|path| is_readable(path)) {
        let mut seen = 0;
        dump(&*fs, path, &mut |_| {
            seen += 1;
            false
        })
        .unwrap();
        assert!(seen <= 1, "{}", path.display());
    }
}

/// A turned bit gives the same writes, fewer of them, or an error that names the file.
#[test]
fn damage_gives_nothing_that_was_not_written() {
    let (fs, _) = store();
    let mut errors = 0;
    for path in files(&fs).iter().filter(|path| is_readable(path)) {
        let (right, _) = read(&*fs, path).unwrap();
        let bytes = fs.read(path).unwrap();
        let file = fs.open(path, &OpenOptions::new().read(true).write(true)).unwrap();
        for at in (0..bytes.len().min(6_000)).step_by(13) {
            file.write_at(at as u64, &[bytes[at] ^ 1 << (at % 8)]).unwrap();
            match read(&*fs, path) {
                Ok((writes, _)) => {
                    assert!(writes.iter().all(|write| right.contains(write)), "byte {at}");
                }
                Err(Error::Corruption { .. } | Error::Usage(_)) => errors += 1,
                Err(error) => panic!("{}: byte {at}: {error}", path.display()),
            }
            file.write_at(at as u64, &[bytes[at]]).unwrap();
        }
    }
    assert!(errors > 50, "{errors}");
}

//! What several tests do with a store.

use keyrack_flodb::{Batch, Compression, Db, Options};
use keyrack_vfs::{FileKind, Fs};
use std::collections::BTreeMap;
use std::path::Path;

pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Options with which little is enough for many tables.
pub(crate) fn tiny() -> Options {
    Options {
        memtable_bytes: 64 << 10,
        segment_bytes: 64 << 10,
        table_bytes: 16 << 10,
        level0_tables: 2,
        level_base_bytes: 64 << 10,
        cache_bytes: 0,
        compression: vec![Compression::None],
        ..Options::default()
    }
}

pub(crate) fn rows(db: &Db) -> Model {
    let mut iter = db.iter().unwrap();
    iter.seek_first().unwrap();
    let mut rows = Model::new();
    while let Some((key, value)) = iter.entry() {
        rows.insert(key.to_vec(), value.to_vec());
        iter.next().unwrap();
    }
    rows
}

/// Every file below `dir`, with its content.
pub(crate) fn files(fs: &dyn Fs, dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs.list(dir).unwrap() {
        let path = dir.join(&entry.name);
        if entry.kind == FileKind::Dir {
            found.extend(files(fs, &path));
        } else {
            found.insert(path.display().to_string(), fs.read(&path).unwrap());
        }
    }
    found
}

/// The batch of a round: it moves all of its keys to the round, and one of many.
pub(crate) fn round(n: u64) -> Batch {
    let value = n.to_be_bytes();
    let mut batch = Batch::new();
    batch.put(b"first", &value);
    batch.put(format!("key{:05}", n % 500).as_bytes(), &[&value[..], &[7; 100]].concat());
    batch.put(b"last", &value);
    batch
}

/// The newest round of a store that has whole rounds only, each of its keys from the round that it
/// must be from.
pub(crate) fn newest_round(db: &Db) -> u64 {
    let rows = rows(db);
    let number = |value: &[u8]| u64::from_be_bytes(value[..8].try_into().unwrap());
    let newest = rows.get(&b"first"[..]).map_or(0, |value| number(value));
    assert_eq!(rows.get(&b"last"[..]).map_or(0, |value| number(value)), newest);
    let mut model = Model::new();
    for n in newest.saturating_sub(600)..=newest {
        if n > 0 {
            let key = format!("key{:05}", n % 500);
            model.insert(key.into_bytes(), [&n.to_be_bytes()[..], &[7; 100]].concat());
        }
    }
    let found = rows.into_iter().filter(|(key, _)| key.starts_with(b"key"));
    assert_eq!(found.collect::<Model>(), model, "round {newest}");
    newest
}

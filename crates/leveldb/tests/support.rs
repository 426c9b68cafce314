//! Directories in memory, and reading them.

use keyrack_leveldb_reader::{Error, Lost, Mode, Reader, Stats};
use keyrack_vfs::{Fs, MemFs, OpenOptions, RealFs};
use std::path::Path;
use std::sync::Arc;

/// Keys and values, in order.
pub(crate) type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// The files of a directory: names and contents.
pub(crate) type Files = Vec<(String, Vec<u8>)>;

/// The directory that is read.
pub(crate) const DIR: &str = "/store";

/// What reading came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) entries: Entries,
    pub(crate) lost: Vec<Lost>,
    pub(crate) stats: Stats,
}

/// The files of a kept directory.
pub(crate) fn fixture(name: &str) -> Files {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let entries = RealFs.list(&dir).unwrap();
    let read = |name: &Path| RealFs.read(&dir.join(name)).unwrap();
    let files = entries
        .iter()
        .map(|entry| (entry.name.to_string_lossy().into_owned(), read(Path::new(&entry.name))));
    files.collect()
}

/// A line for each entry, as LevelDB listed them when the directory was written.
pub(crate) fn expected(name: &str) -> String {
    let path = format!("{}/tests/fixtures/{name}.expected", env!("CARGO_MANIFEST_DIR"));
    RealFs.read_to_string(Path::new(&path)).unwrap()
}

pub(crate) fn listing(entries: &Entries) -> String {
    let line = |(key, value): &(Vec<u8>, Vec<u8>)| {
        let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{key} {} {:08x}\n", value.len(), crc_fast::crc32_iscsi(value))
    };
    entries.iter().map(line).collect()
}

/// A disk with a directory of these files.
pub(crate) fn disk(files: &Files) -> Arc<dyn Fs> {
    let fs = MemFs::new();
    fs.create_dir(Path::new(DIR)).unwrap();
    let options = OpenOptions::new().write(true).create_new(true);
    for (name, bytes) in files {
        let file = fs.open(&Path::new(DIR).join(name), &options).unwrap();
        file.append(bytes).unwrap();
    }
    Arc::new(fs)
}

/// Reads everything.
pub(crate) fn read(files: &Files, mode: Mode) -> Result<Outcome, Error> {
    let mut reader = Reader::open(disk(files), Path::new(DIR), mode)?;
    let mut entries: Entries = Vec::new();
    loop {
        match reader.next() {
            Ok(Some((key, value))) => {
                assert!(entries.last().is_none_or(|(last, _)| **last < *key), "out of order");
                entries.push((key.to_vec(), value.to_vec()));
            }
            Ok(None) => break,
            Err(error) => {
                assert!(matches!(reader.next(), Ok(None)), "something behind an error");
                return Err(error);
            }
        }
    }
    Ok(Outcome { entries, lost: reader.lost().to_vec(), stats: reader.stats() })
}

/// The content of one file.
pub(crate) fn file<'a>(files: &'a mut Files, name: &str) -> &'a mut Vec<u8> {
    let found = files.iter_mut().find(|(known, _)| known == name);
    &mut found.unwrap_or_else(|| panic!("no file {name}")).1
}

//! Tables that earlier versions wrote. They open for ever.
//!
//! A fixture is never written again. When the format changes, its version goes up, and fixtures of
//! the new version join these.
//!
//! The first tables of version 1 had range deletes among the entries as well as in their list; no
//! store had written one before the list stood alone.

use super::*;
use crate::cursor::Cursor;
use crate::table::format::read_footer;
use keyrack_vfs::RealFs;

/// What is in all of them.
fn entries() -> Vec<Entry> {
    let mut entries = vec![
        (internal(b"", 3, Kind::Put), b"of the empty key".to_vec()),
        (internal(b"a", 1 << 40, Kind::Put), b"newer".to_vec()),
        (internal(b"a", 5, Kind::Delete), Vec::new()),
        (internal(b"a", 4, Kind::Put), Vec::new()),
        (internal(b"b", 9, Kind::DeleteRange), b"bz".to_vec()),
    ];
    entries.extend((0..40).map(|number| {
        let value = format!("{number}, in words: number {number}, number {number}").into_bytes();
        (internal(format!("key/{number:04}").as_bytes(), 100 + number, Kind::Put), value)
    }));
    entries
}

fn options(compression: Compression) -> TableOptions {
    TableOptions { block_bytes: 512, restart_interval: 4, compression, ..TableOptions::default() }
}

const AMONG_ENTRIES: [&[u8]; 4] = [
    include_bytes!("../../../tests/fixtures/table-1-raw.table"),
    include_bytes!("../../../tests/fixtures/table-1-snappy.table"),
    include_bytes!("../../../tests/fixtures/table-1-lz4.table"),
    include_bytes!("../../../tests/fixtures/table-1-zstd.table"),
];

const LISTED: [(&str, Compression, &[u8]); 4] = [
    ("raw", Compression::None, include_bytes!("../../../tests/fixtures/table-1-ranges-raw.table")),
    (
        "snappy",
        Compression::Snappy,
        include_bytes!("../../../tests/fixtures/table-1-ranges-snappy.table"),
    ),
    ("lz4", Compression::Lz4, include_bytes!("../../../tests/fixtures/table-1-ranges-lz4.table")),
    (
        "zstd",
        Compression::Zstd(3),
        include_bytes!("../../../tests/fixtures/table-1-ranges-zstd.table"),
    ),
];

fn check(bytes: &[u8], entries: &[Entry], what: &str) {
    let fs = file_of(bytes);
    let table = open(&fs);
    table.verify().unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut cursor = table.cursor(ReadOptions::default());
    cursor.seek_first().unwrap();
    for (key, value) in entries {
        assert_eq!(cursor.entry(), Some((&key[..], &value[..])), "{what}");
        cursor.next().unwrap();
    }
    assert!(cursor.entry().is_none());
    assert_eq!(get(&table, b"a", 7).unwrap(), Some((Kind::Delete, 5, Vec::new())), "{what}");
    let ranges: Vec<_> = table.range_tombstones().unwrap().ranges().collect();
    assert_eq!(ranges, [range_delete(b"b", b"bz", 9)], "{what}");
    assert_eq!(table.floor(b"by", 9), 10);
    assert_eq!(table.floor(b"bz", 9), 0);
}

#[test]
fn tables_of_version_1_open() {
    let mut entries = entries();
    for (at, bytes) in AMONG_ENTRIES.into_iter().enumerate() {
        check(bytes, &entries, &format!("{at}, among entries"));
    }
    entries.retain(|(key, _)| key::parse(key).unwrap().kind != Kind::DeleteRange);
    for (name, _, bytes) in LISTED {
        check(bytes, &entries, name);
    }
}

/// Codecs may learn to shrink better; what we write ourselves has to stay.
#[test]
fn raw_tables_of_version_1_are_written_as_ever() {
    if std::env::var_os("KEYRACK_REWRITE").is_some() {
        write_fixtures();
    }
    let (fs, _) = written(&options(Compression::None), &entries());
    // All but the properties, which may become more.
    let same = |fs: &MemFs| {
        let file = fs.open(path(), &OpenOptions::new().read(true)).unwrap();
        let (properties, _) = read_footer(&*file).unwrap();
        fs.read(path()).unwrap()[..properties.offset as usize].to_vec()
    };
    assert!(same(&fs) == same(&file_of(LISTED[0].2)));
}

/// Writes the fixtures anew, for a version that begins; they are compared after the next build.
fn write_fixtures() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    RealFs.create_dir_all(&dir).unwrap();
    for (name, compression, _) in LISTED {
        let (fs, _) = written(&options(compression), &entries());
        let version = crate::table::format::VERSION;
        let to = dir.join(format!("table-{version}-ranges-{name}.table"));
        RealFs.write_atomic(&to, &fs.read(path()).unwrap()).unwrap();
    }
}

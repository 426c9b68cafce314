//! What the writer takes, refuses and reports.

use super::*;
use crate::cursor::Cursor;
use crate::expiry::{self, ExpiryCount};
use crate::key::SEQUENCE_MAX;

fn writer(options: TableOptions) -> (MemFs, TableWriter) {
    let fs = MemFs::new();
    let file = fs.open(path(), &OpenOptions::new().write(true).create(true)).unwrap();
    (fs, TableWriter::new(file, options).unwrap())
}

#[test]
fn the_meta_is_that_of_the_entries() {
    let entries = [
        (internal(b"", 9, Kind::Put), b"first".to_vec()),
        (internal(b"", 4, Kind::Delete), Vec::new()),
        (internal(b"a", 12, Kind::DeleteRange), b"c".to_vec()),
        (internal(b"b", 3, Kind::Put), vec![7; 10_000]),
        (internal(b"c", 3, Kind::Put), Vec::new()),
        (internal(b"d", 3, Kind::PutExpiring), expiry::stored(1 << 40, b"until then")),
        (internal(b"e", 3, Kind::PutExpiring), expiry::stored(7, b"")),
        (internal(b"f", 3, Kind::Merge), b"operand".to_vec()),
    ];
    let (fs, meta) = written(&TableOptions::default(), &entries);
    let raw_bytes = entries.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
    let expected = TableMeta {
        bytes: fs.read(path()).unwrap().len() as u64,
        entries: 8,
        deletes: 2,
        range_deletes: 1,
        smallest: entries[0].0.clone(),
        largest: entries[7].0.clone(),
        sequence_min: 3,
        sequence_max: 12,
        raw_bytes,
        replaced: 1,
        blobs: Vec::new(),
        expiries: ExpiryCount { count: 2, first_ms: 7, last_ms: 1 << 40 },
        operands: 1,
        checksum: meta.checksum,
    };
    assert_eq!(meta, expected);
    let table = open(&fs);
    assert_eq!(*table.meta(), expected);
    assert_eq!((table.number(), table.path()), (NUMBER, path()));
    let ranges: Vec<_> = table.range_tombstones().unwrap().ranges().collect();
    assert_eq!(ranges, [range_delete(b"a", b"c", 12)]);
    table.verify().unwrap();
}

/// The bounds of a table cover the ranges that it deletes; where one ends, the bound is open.
#[test]
fn bounds_reach_over_range_deletes() {
    let open_bound = |user: &[u8]| internal(user, SEQUENCE_MAX, Kind::BOUND);
    let (put, range) = (Kind::Put, Kind::DeleteRange);
    for (entries, smallest, largest) in [
        (
            vec![(internal(b"m", 5, put), b"".to_vec()), (internal(b"c", 7, range), b"x".to_vec())],
            internal(b"c", 7, range),
            open_bound(b"x"),
        ),
        // The last key is the one that the range ends before, so it is in the table.
        (
            vec![(internal(b"m", 5, put), b"".to_vec()), (internal(b"c", 7, range), b"m".to_vec())],
            internal(b"c", 7, range),
            internal(b"m", 5, put),
        ),
        (
            vec![(internal(b"m", 5, put), b"".to_vec()), (internal(b"m", 3, range), b"n".to_vec())],
            internal(b"m", 5, put),
            open_bound(b"n"),
        ),
        (
            vec![
                (internal(b"q", 7, range), b"x".to_vec()),
                (internal(b"a", 9, range), b"b".to_vec()),
            ],
            internal(b"a", 9, range),
            open_bound(b"x"),
        ),
    ] {
        let (fs, meta) = written(&TableOptions::default(), &entries);
        assert_eq!((&meta.smallest, &meta.largest), (&smallest, &largest), "{entries:?}");
        let table = open(&fs);
        assert_eq!(*table.meta(), meta);
        table.verify().unwrap();
    }
}

#[test]
fn a_table_of_range_deletes_alone_has_no_entries() {
    let ranges = [
        (internal(b"b", 9, Kind::DeleteRange), b"d".to_vec()),
        (internal(b"c", 4, Kind::DeleteRange), b"z".to_vec()),
    ];
    for compression in COMPRESSIONS {
        for order in orders().into_iter().filter(|order| order.name() != "test.backwards") {
            let options =
                TableOptions { compression, comparator: order.clone(), ..TableOptions::default() };
            let (fs, meta) = written(&options, &ranges);
            assert_eq!((meta.entries, meta.deletes, meta.range_deletes), (2, 2, 2));
            let table = try_open(&fs, 1 << 20, &order).unwrap();
            table.verify().unwrap();
            let mut cursor = table.cursor(ReadOptions::default());
            for key in [b"a", b"c", b"z"] {
                assert_eq!(get(&table, key, SEQUENCE_MAX).unwrap(), None);
                cursor.seek(&internal(key, 5, Kind::Put)).unwrap();
                assert!(cursor.entry().is_none());
            }
            cursor.seek_first().unwrap();
            assert!(cursor.entry().is_none());
            cursor.seek_last().unwrap();
            assert!(cursor.entry().is_none());
            assert_eq!(table.floor(b"c", SEQUENCE_MAX), 10);
            assert_eq!(table.floor(b"c", 8), 5);
            assert_eq!(table.floor(b"d", 8), 5);
            assert_eq!(table.approximate_offset(&internal(b"c", 1, Kind::Put)), 0);
        }
    }
}

#[test]
fn ranges_that_delete_nothing_are_refused() {
    let (_, mut writer) = writer(TableOptions::default());
    for (begin, end) in [(&b"b"[..], &b"b"[..]), (b"c", b"b")] {
        let refused = writer.add_range(range_delete(begin, end, 1));
        assert!(matches!(refused, Err(Error::Usage(_))), "{refused:?}");
    }
    assert!(matches!(writer.finish(), Err(Error::Usage(_))));
}

#[test]
fn keys_that_do_not_ascend_are_refused_and_the_others_stay() {
    let (fs, mut writer) = writer(TableOptions::default());
    writer.add(&internal(b"b", 5, Kind::Put), b"1").unwrap();
    for key in [
        internal(b"a", 9, Kind::Put),
        internal(b"b", 5, Kind::Put),
        internal(b"b", 6, Kind::Delete),
        internal(b"c", 6, Kind::DeleteRange),
        b"short".to_vec(),
        b"kind nine\x09\0\0\0\0\0\0\0".to_vec(),
    ] {
        let refused = writer.add(&key, b"");
        assert!(matches!(refused, Err(Error::Usage(_))), "{key:?}: {refused:?}");
    }
    writer.add(&internal(b"b", 4, Kind::Put), b"2").unwrap();
    assert_eq!(writer.finish().unwrap().entries, 2);
    let table = open(&fs);
    table.verify().unwrap();
    assert_eq!(get(&table, b"b", 4).unwrap(), Some((Kind::Put, 4, b"2".to_vec())));
}

#[test]
fn a_table_without_entries_is_refused() {
    let (fs, empty) = writer(TableOptions::default());
    assert!(matches!(empty.finish(), Err(Error::Usage(_))));
    assert!(is_corruption(&try_open(&fs, 0, &Comparator::Bytewise)));
}

#[test]
fn a_table_that_was_not_finished_is_none() {
    let (fs, mut unfinished) = writer(TableOptions::default());
    for number in 0..20_000_u32 {
        unfinished.add(&internal(&number.to_be_bytes(), 1, Kind::Put), &[0; 50]).unwrap();
    }
    drop(unfinished);
    assert!(is_corruption(&try_open(&fs, 0, &Comparator::Bytewise)));
}

#[test]
fn the_bytes_so_far_grow_up_to_the_file() {
    let options = TableOptions { compression: Compression::None, ..TableOptions::default() };
    let (fs, mut growing) = writer(options);
    let mut before = growing.written_bytes();
    assert_eq!(before, 0);
    for number in 0..10_000_u32 {
        growing.add(&internal(&number.to_be_bytes(), 1, Kind::Put), &[0; 100]).unwrap();
        let now = growing.written_bytes();
        assert!(now > before && now < before + 300, "{before} {now}");
        before = now;
    }
    let meta = growing.finish().unwrap();
    assert_eq!(meta.bytes, fs.read(path()).unwrap().len() as u64);
    assert!(meta.bytes > before && meta.bytes < before + before / 20);
    // Big-endian numbers of one length share three bytes or so, and restarts are few.
    assert!(meta.raw_bytes > 10_000 * 112 - 1);
}

#[test]
fn a_synced_table_survives_a_power_loss() {
    let entries = [(internal(b"k", SEQUENCE_MAX, Kind::Put), vec![1; 9_000])];
    let (fs, _) = written(&TableOptions::default(), &entries);
    fs.sync_dir(Path::new("/")).unwrap();
    let after = fs.crash_image(1, keyrack_vfs::CrashPolicy::DropAll);
    open(&after).verify().unwrap();
}

#[test]
fn compression_shrinks_what_can_be_shrunk() {
    let value = b"all work and no play ".repeat(10);
    let entries: Vec<Entry> = (0..500_u32)
        .map(|number| (internal(&number.to_be_bytes(), 1, Kind::Put), value.clone()))
        .collect();
    let sizes = COMPRESSIONS.map(|compression| {
        written(&TableOptions { compression, ..TableOptions::default() }, &entries).1.bytes
    });
    assert!(sizes[1..].iter().all(|size| *size < sizes[0] / 4), "{sizes:?}");
    let mut draw = Draw::new(5);
    let noise: Vec<Entry> = (0..500_u32)
        .map(|number| (internal(&number.to_be_bytes(), 1, Kind::Put), draw.bytes(200)))
        .collect();
    let sizes = COMPRESSIONS.map(|compression| {
        written(&TableOptions { compression, ..TableOptions::default() }, &noise).1.bytes
    });
    // Data blocks stay raw; the index may still shrink.
    assert!(sizes.iter().all(|size| *size + 2_000 > sizes[0]), "{sizes:?}");
}

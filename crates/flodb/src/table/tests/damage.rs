//! Damaged files: what is read is right, or there is an error that names the file.
//!
//! A small table with every kind of block is damaged in every place. Every byte of a table is under
//! a checksum, so opening or verifying must find each of these damages. Lookups and cursors look at
//! less; they may miss it, but must not return anything wrong.

use super::*;
use crate::cursor::Cursor;
use crate::key::SEQUENCE_MAX;

/// A table of a few small blocks, of versions, tombstones and ranges.
fn sample(compression: Compression) -> (Vec<u8>, Vec<Entry>) {
    let mut entries = Vec::new();
    for number in 0..14_u64 {
        let user = format!("key{number:02}");
        let value = format!("value of {user}, value of {user}, again {user}").into_bytes();
        entries.push((internal(user.as_bytes(), 40 + number, Kind::Put), value));
        if number % 3 == 0 {
            entries.push((internal(user.as_bytes(), 10, Kind::Delete), Vec::new()));
        }
        if number % 5 == 0 {
            entries.push((internal(user.as_bytes(), 5, Kind::DeleteRange), b"key99".to_vec()));
        }
    }
    let options = TableOptions {
        block_bytes: 250,
        restart_interval: 3,
        compression,
        ..TableOptions::default()
    };
    let (fs, _) = written(&options, &entries);
    let bytes = fs.read(path()).unwrap();
    assert!(open(&fs).index.len() >= 3 && bytes.len() < 3_000, "{} bytes", bytes.len());
    assert_eq!(open(&fs).range_tombstones().map(|index| index.len()), Some(3));
    // The others are in the list, not among the entries.
    entries.retain(|(key, _)| key::parse(key).unwrap().kind != Kind::DeleteRange);
    (bytes, entries)
}

/// Reads everything in every way. Whether an error came up.
fn check(bytes: &[u8], entries: &[Entry], what: &str) -> bool {
    let fs = file_of(bytes);
    let table = match try_open(&fs, 1 << 20, &Comparator::Bytewise) {
        Ok(table) => table,
        refused => {
            assert!(is_corruption(&refused), "{what}: {refused:?}");
            return true;
        }
    };
    for (key, _) in entries {
        let parsed = key::parse(key).unwrap();
        // As all keys of the sample, of which only it has removed some.
        let is_sample = parsed.kind == Kind::Delete;
        assert!(!is_sample || table.floor(parsed.user, 9) == 6, "{what}");
        let found = get(&table, parsed.user, parsed.sequence);
        match &found {
            Ok(found) => {
                let order = &Comparator::Bytewise;
                let expected = expected(order, entries, parsed.user, parsed.sequence);
                assert_eq!(*found, expected, "{what}");
            }
            Err(_) => assert!(is_corruption(&found), "{what}: {found:?}"),
        }
    }
    let absent = get(&table, b"key05x", SEQUENCE_MAX);
    assert!(is_corruption(&absent) || matches!(absent, Ok(None)), "{what}: {absent:?}");
    scan(&table, entries, what);
    let verified = table.verify();
    assert!(verified.is_ok() || is_corruption(&verified), "{what}: {verified:?}");
    verified.is_err()
}

/// Walks until the end or an error: whatever comes is right.
fn scan(table: &Arc<Table>, entries: &[Entry], what: &str) {
    let mut cursor = table.cursor(ReadOptions::default());
    let mut moved = cursor.seek_first();
    for (key, value) in entries {
        if moved.is_err() {
            break;
        }
        assert_eq!(cursor.entry(), Some((&key[..], &value[..])), "{what}");
        moved = cursor.next();
    }
    assert!(moved.is_ok() || is_corruption(&moved), "{what}: {moved:?}");
    assert!(cursor.entry().is_none(), "{what}: at the end, or after an error");
    let mut moved = cursor.seek_last();
    for (key, value) in entries.iter().rev() {
        if moved.is_err() {
            break;
        }
        assert_eq!(cursor.entry(), Some((&key[..], &value[..])), "{what}");
        moved = cursor.prev();
    }
    assert!(moved.is_ok() || is_corruption(&moved), "{what}: {moved:?}");
}

#[test]
fn a_flipped_bit_anywhere_is_found() {
    for compression in COMPRESSIONS {
        let (bytes, entries) = sample(compression);
        assert!(!check(&bytes, &entries, "whole"));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at * 5 % 8);
            let what = format!("{compression:?}, byte {at} of {}", bytes.len());
            assert!(check(&damaged, &entries, &what), "{what}: not found");
        }
    }
}

#[test]
fn a_file_cut_anywhere_is_no_table() {
    let (bytes, entries) = sample(Compression::Lz4);
    for len in 0..bytes.len() {
        assert!(check(&bytes[..len], &entries, &format!("cut to {len}")));
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(check(&longer, &entries, "a byte more"));
    assert!(check(&[&bytes[1..], &[0]].concat(), &entries, "moved by a byte"));
    assert!(check(&[&bytes[..], &bytes].concat(), &entries, "twice"));
    assert!(check(&vec![0; bytes.len()], &entries, "zeros"));
}

#[test]
fn lost_pages_are_found() {
    let (bytes, entries) = sample(Compression::None);
    for at in (0..bytes.len()).step_by(64) {
        for filler in [0, 0xff] {
            let mut damaged = bytes.clone();
            let end = (at + 64).min(bytes.len());
            damaged[at..end].fill(filler);
            let is_damaged = damaged != bytes;
            assert_eq!(check(&damaged, &entries, &format!("{filler} from {at}")), is_damaged);
        }
    }
}

/// Blocks of fixed numbers, so that two tables have the same layout.
fn uniform(byte: u8) -> (Vec<u8>, Vec<Entry>, Vec<(usize, usize)>) {
    let entries: Vec<Entry> = (0..60_u32)
        .map(|number| (internal(&number.to_be_bytes(), 7, Kind::Put), vec![byte; 50]))
        .collect();
    let options = TableOptions {
        block_bytes: 600,
        compression: Compression::None,
        ..TableOptions::default()
    };
    let (fs, _) = written(&options, &entries);
    let table = open(&fs);
    let blocks = (0..table.index.len()).map(|at| table.index.block(at));
    let places = blocks.map(|block| (block.offset as usize, block.framed_bytes())).collect();
    (fs.read(path()).unwrap(), entries, places)
}

#[test]
fn a_whole_block_in_the_wrong_place_is_found() {
    let (mine, entries, places) = uniform(1);
    let (other, _, other_places) = uniform(2);
    assert_eq!(places, other_places);
    for &(to, len) in &places {
        // As good as can be: of the right offset, from a table that was there before.
        let mut damaged = mine.clone();
        damaged[to..to + len].copy_from_slice(&other[to..to + len]);
        assert!(check(&damaged, &entries, "of another table"));
        for &(from, _) in places.iter().filter(|place| place.1 == len && place.0 != to) {
            let mut damaged = mine.clone();
            damaged.copy_within(from..from + len, to);
            assert!(check(&damaged, &entries, "of another offset"));
        }
    }
}

#[test]
fn a_later_format_is_refused_by_name() {
    let (mut bytes, _) = sample(Compression::None);
    let footer = bytes.len() - 48;
    bytes[footer + 24] = 9;
    let checksum = crate::checksum::checksum(&bytes[footer..footer + 32], footer as u64);
    bytes[footer + 32..footer + 40].copy_from_slice(&checksum.to_le_bytes());
    let refused = try_open(&file_of(&bytes), 0, &Comparator::Bytewise);
    let Err(Error::Usage(message)) = refused else { panic!("{refused:?}") };
    assert!(message.contains("version 9") && message.contains("version 1"), "{message}");
}

//! Blob files: what was written comes back, and every other byte is found out.

use super::reader::Record;
use super::*;
use crate::compress::Compression;
use crate::error::Error;
use keyrack_vfs::{Fs, MemFs, OpenOptions, RealFs};
use std::path::{Path, PathBuf};

const NUMBER: u64 = 7;

/// Versions 1 and 2, never written again.
const FIXTURES: [(&str, &[u8], Compression); 2] = [
    ("blob-1.blob", include_bytes!("../../tests/fixtures/blob-1.blob"), Compression::None),
    ("blob-2.blob", include_bytes!("../../tests/fixtures/blob-2.blob"), Compression::Lz4),
];

const CODECS: [Compression; 4] =
    [Compression::None, Compression::Snappy, Compression::Lz4, Compression::Zstd(3)];

fn path() -> PathBuf {
    PathBuf::from("/000007.blob")
}

/// Keys, sequence numbers and values.
type Entries = Vec<(Vec<u8>, u64, Vec<u8>)>;

/// The last one shrinks.
fn entries() -> Entries {
    let mut entries = incompressible();
    entries.push((vec![0xff; 31], 6, vec![b'y'; 300]));
    entries
}

fn incompressible() -> Entries {
    let value = |n: usize, len: usize| (0..len).map(|at| (at * 31 + n) as u8).collect();
    vec![
        (b"".to_vec(), 3, value(1, 40)),
        (b"apple".to_vec(), 1 << 50, value(2, 200)),
        (b"apple".to_vec(), 4, Vec::new()),
        (vec![0xff; 30], 5, value(3, 100)),
    ]
}

fn written(fs: &MemFs) -> (BlobMeta, Vec<BlobIndex>) {
    written_with(fs, &entries(), Compression::Lz4)
}

fn written_with(
    fs: &MemFs,
    entries: &Entries,
    compression: Compression,
) -> (BlobMeta, Vec<BlobIndex>) {
    let create = OpenOptions::new().read(true).write(true).create(true).truncate(true);
    let writer = BlobWriter::new(fs.open(&path(), &create).unwrap(), NUMBER, compression);
    let mut writer = writer.unwrap();
    let add = |(key, sequence, value): &(Vec<u8>, u64, Vec<u8>)| {
        writer.add(key, *sequence, value).unwrap()
    };
    let indexes = entries.iter().map(add).collect();
    let (meta, writes) = writer.finish().unwrap();
    assert_eq!(writes, 1);
    (meta, indexes)
}

fn file_of(bytes: &[u8]) -> MemFs {
    let fs = MemFs::new();
    fs.write_atomic(&path(), bytes).unwrap();
    fs
}

fn open(fs: &MemFs) -> crate::error::Result<(BlobReader, BlobMeta)> {
    BlobReader::open(fs, &path(), None)
}

/// The records that a walk gives, and the offsets of what is wrong.
fn walk(reader: &BlobReader, meta: &BlobMeta) -> (Vec<(u64, Vec<u8>)>, Vec<u64>) {
    let (mut records, mut wrong) = (Vec::new(), Vec::new());
    let mut record = |record: Record<'_>| {
        records.push((record.offset, record.value.to_vec()));
        Ok(())
    };
    reader.inspect(meta, &mut record, &mut |offset, _| wrong.push(offset)).unwrap();
    (records, wrong)
}

#[test]
fn values_come_back_by_their_indexes_and_in_order() {
    CODECS.into_iter().for_each(values_come_back);
}

fn values_come_back(compression: Compression) {
    let fs = MemFs::new();
    let (meta, indexes) = written_with(&fs, &entries(), compression);
    let stored = |n: usize| indexes[n].stored_bytes as usize;
    assert_eq!([0, 2].map(stored), [40, 0], "what does not shrink stays as it is");
    assert_eq!(stored(4) == 300, compression == Compression::None, "{compression:?}");
    assert_eq!(meta.file_bytes(), fs.read(&path()).unwrap().len() as u64);
    let (reader, stored) = open(&fs).unwrap();
    assert_eq!(stored, meta);
    reader.verify(&meta).unwrap();
    let mut buffer = Vec::new();
    for ((key, sequence, value), index) in entries().iter().zip(&indexes) {
        let mut bytes = Vec::new();
        index.put(&mut bytes);
        assert!(bytes.len() <= BLOB_INDEX_BYTES_MAX);
        assert_eq!(BlobIndex::take(&bytes), Some(*index));
        assert_eq!(BlobIndex::take(&bytes[..bytes.len() - 1]), None);
        for verify in [true, false] {
            let found = reader.value(*index, (key, *sequence), verify, &mut buffer).unwrap();
            assert_eq!(found, value);
        }
        reader.check(*index, (key, *sequence), &mut buffer).unwrap();
    }
    let values: Vec<_> = entries().into_iter().map(|(_, _, value)| value).collect();
    let (records, wrong) = walk(&reader, &meta);
    assert!(wrong.is_empty());
    assert_eq!(records.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), offsets(&indexes));
    assert_eq!(records.into_iter().map(|(_, value)| value).collect::<Vec<_>>(), values);
}

fn offsets(indexes: &[BlobIndex]) -> Vec<u64> {
    indexes.iter().map(|index| index.offset).collect()
}

#[test]
fn another_place_key_sequence_or_file_is_refused() {
    let fs = MemFs::new();
    let (_, indexes) = written(&fs);
    let (reader, _) = open(&fs).unwrap();
    let index = indexes[1];
    let mut buffer = Vec::new();
    let mut refused = |index: BlobIndex, key: &[u8], sequence: u64| {
        for verify in [true, false] {
            let error = reader.value(index, (key, sequence), verify, &mut buffer).unwrap_err();
            assert!(matches!(error, Error::Corruption { .. }), "{error}");
        }
    };
    refused(index, b"apple", 4);
    refused(index, b"apples", 1 << 50);
    refused(index, b"pears", 1 << 50);
    refused(BlobIndex { file: 8, ..index }, b"apple", 1 << 50);
    refused(BlobIndex { offset: index.offset + 1, ..index }, b"apple", 1 << 50);
    refused(BlobIndex { offset: u64::MAX, ..index }, b"apple", 1 << 50);
    refused(BlobIndex { stored_bytes: index.stored_bytes - 1, ..index }, b"apple", 1 << 50);
    refused(BlobIndex { stored_bytes: u32::MAX, ..index }, b"apple", 1 << 50);
}

/// The reader of a damaged file gives no wrong value, the walk finds what is wrong, and all records
/// but the damaged one can be had by their indexes.
#[test]
fn every_damaged_byte_is_found_and_costs_one_record() {
    let fs = MemFs::new();
    let (meta, indexes) = written(&fs);
    let bytes = fs.read(&path()).unwrap();
    for at in 0..bytes.len() {
        for bit in [0x01, 0x80] {
            let mut damaged = bytes.clone();
            damaged[at] ^= bit;
            let fs = file_of(&damaged);
            let is_found = match open(&fs) {
                Err(Error::Corruption { .. } | Error::Usage(_)) => true,
                Err(error) => panic!("{at}: {error}"),
                Ok((reader, meta)) => reader.verify(&meta).is_err(),
            };
            assert!(is_found, "byte {at}");
            let reader = BlobReader::open_headless(&fs, &path(), NUMBER).unwrap();
            let mut buffer = Vec::new();
            let mut lost = 0;
            for ((key, sequence, value), index) in entries().iter().zip(&indexes) {
                match reader.value(*index, (key, *sequence), true, &mut buffer) {
                    Ok(found) => assert_eq!(found, value, "byte {at}"),
                    Err(Error::Corruption { offset, .. }) => {
                        assert_eq!(offset, index.offset);
                        lost += 1;
                    }
                    Err(error) => panic!("{at}: {error}"),
                }
            }
            let is_record = (indexes[0].offset..meta.end()).contains(&(at as u64));
            assert_eq!(lost, u64::from(is_record), "byte {at}");
        }
    }
}

#[test]
fn a_walk_goes_on_behind_a_damaged_value() {
    let fs = MemFs::new();
    let (meta, indexes) = written(&fs);
    let mut bytes = fs.read(&path()).unwrap();
    let at = indexes[1].offset as usize + 100;
    bytes[at] ^= 1;
    let (reader, _) = open(&file_of(&bytes)).unwrap();
    let (records, wrong) = walk(&reader, &meta);
    assert_eq!(wrong, [indexes[1].offset]);
    let others = [0, 2, 3, 4].map(|n: usize| indexes[n].offset);
    assert_eq!(records.into_iter().map(|(offset, _)| offset).collect::<Vec<_>>(), others);
}

#[test]
fn a_cut_file_is_refused_and_gives_what_is_left() {
    let fs = MemFs::new();
    let (_, indexes) = written(&fs);
    let bytes = fs.read(&path()).unwrap();
    for len in 0..bytes.len() {
        let fs = file_of(&bytes[..len]);
        assert!(matches!(open(&fs), Err(Error::Corruption { .. })), "{len}");
        let reader = BlobReader::open_headless(&fs, &path(), NUMBER).unwrap();
        let mut buffer = Vec::new();
        for ((key, sequence, value), index) in entries().iter().zip(&indexes) {
            let is_there = index.offset + index.record_bytes(key) <= len as u64;
            let found = reader.value(*index, (key, *sequence), true, &mut buffer).ok();
            assert_eq!(found, is_there.then_some(&value[..]), "{len}");
        }
    }
}

#[test]
fn a_later_version_is_refused_by_name() {
    let mut header = format::header(NUMBER, Compression::None);
    header[8] = 3;
    let place = NUMBER.rotate_left(32);
    let sum = crate::checksum::checksum(&header[..24], place);
    header[24..].copy_from_slice(&sum.to_le_bytes());
    let error = open(&file_of(&header)).unwrap_err();
    assert!(matches!(&error, Error::Usage(what) if what.contains("format version 3")), "{error}");
}

#[test]
fn shares_count_records_and_bytes_of_each_file() {
    let mut shares = Vec::new();
    let index = |file| BlobIndex { file, offset: 32, stored_bytes: 100 };
    for file in [9, 3, 9] {
        add_share(&mut shares, index(file), b"key");
    }
    let share = |file, records| BlobShare { file, records, bytes: records * (24 + 3 + 100) };
    assert_eq!(shares, [share(3, 1), share(9, 2)]);
    let mut bytes = Vec::new();
    put_shares(&mut bytes, &shares);
    assert_eq!(take_shares(&bytes), Some(shares));
    assert_eq!(take_shares(&bytes[..bytes.len() - 2]), None);
    assert_eq!(take_shares(&[]), Some(Vec::new()));
}

#[test]
fn files_of_each_version_are_read_and_written() {
    for (version, (name, fixture, compression)) in (1..).zip(FIXTURES) {
        let fs = MemFs::new();
        let entries = if version == 1 { incompressible() } else { entries() };
        let (meta, _) = written_with(&fs, &entries, compression);
        let bytes = fs.read(&path()).unwrap();
        if std::env::var_os("KEYRACK_REWRITE").is_some() {
            let to = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
            RealFs.write_atomic(&to, &bytes).unwrap();
        }
        assert!(bytes == fixture, "{name}");
        assert_eq!(fixture[8], version, "{name}");
        let (reader, stored) = open(&file_of(fixture)).unwrap();
        assert_eq!(stored, meta);
        reader.verify(&stored).unwrap();
    }
}

/// A sound record whose value does not decompress is what a writer with a mistake would leave.
#[test]
fn a_value_that_does_not_decompress_is_damage() {
    let codec = crate::compress::Codec::Lz4;
    let mut bytes = format::header(NUMBER, Compression::Lz4).to_vec();
    let index = BlobIndex { file: NUMBER, offset: bytes.len() as u64, stored_bytes: 9 };
    let stored = b"\x40\0\0\0noise";
    let sum = format::append_record(&mut bytes, (NUMBER, 32), b"key", 7, (codec, stored));
    let mut digest = crate::checksum::Growing::new(0);
    digest.add(&sum.to_le_bytes());
    let (records, record_bytes) = (1, index.record_bytes(b"key"));
    let meta = BlobMeta { number: NUMBER, records, record_bytes, digest: digest.checksum() };
    bytes.extend_from_slice(&format::footer(&meta));
    let (reader, stored) = open(&file_of(&bytes)).unwrap();
    let is_damage = |error: &Error| matches!(error, Error::Corruption { offset: 32, .. });
    assert!(is_damage(&reader.verify(&stored).unwrap_err()));
    let mut buffer = Vec::new();
    assert!(is_damage(&reader.value(index, (b"key", 7), true, &mut buffer).unwrap_err()));
    assert_eq!(walk(&reader, &stored), (Vec::new(), vec![32]));
}

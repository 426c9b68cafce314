//! Rows, records of logs, blocks of checkpoints and manifests that somebody made up, with checksums
//! that are right: they are refused, or can be used and written again.

use std::path::Path;

use crc_fast::crc32_iscsi;
use keyrack_store::Error;
use keyrack_testkit::fuzz::{Dice, Fuzzer, Shape, shape};
use keyrack_vfs::{Fs, MemFs, OpenOptions};

use crate::RowBuf;
use crate::manifest::{LogEntry, LogState, Manifest, PartEntry};
use crate::part::{PartReader, PartWriter, path_of};
use crate::record::{Entries, Entry, Record};
use crate::row::{Kind, Row, encode_value};

/// Which reader an input goes to is its first byte.
const ROW: u8 = 0;
const RECORD: u8 = 1;
const PART: u8 = 2;
const MANIFEST: u8 = 3;

const GENERATION: u64 = 3;

fn dir() -> &'static Path {
    Path::new("/")
}

fn headed(kind: u8, bytes: &[u8]) -> Vec<u8> {
    [&[kind], bytes].concat()
}

fn rows() -> Vec<Vec<u8>> {
    let mut value = Vec::new();
    encode_value(b"value", 7, 1_700_000_000_000, &mut value);
    let mut buf = RowBuf::new();
    buf.set_value(b"");
    let mut empty = Vec::new();
    buf.encode(1, &mut empty);
    // Columns: three ends, of which two are the same; fields: one name with one value.
    let columns = [&[1][..], &9_u64.to_le_bytes(), &parts(&[3, 3, 5]), b"abcde"].concat();
    let fields = [&[2][..], &9_u64.to_le_bytes(), &parts(&[4, 9]), b"namevalue"].concat();
    vec![value, empty, columns, fields]
}

fn parts(ends: &[u32]) -> Vec<u8> {
    let count = ends.len() as u32;
    [count].iter().chain(ends).flat_map(|number| number.to_le_bytes()).collect()
}

fn record() -> Vec<u8> {
    let mut record = Record::new();
    let entry = record.begin(b"key");
    encode_value(b"value", 0, 0, record.tail());
    record.put(entry, 7);
    let entry = record.begin(b"");
    record.remove(entry, 8);
    record.push_clear(9);
    record.bytes().to_vec()
}

fn part() -> Vec<u8> {
    let fs = MemFs::new();
    let mut writer = PartWriter::create(&fs, dir(), GENERATION, 1).unwrap();
    for row in rows() {
        writer.push(b"key", &row);
    }
    writer.finish().unwrap();
    fs.read(&path_of(dir(), GENERATION, 1)).unwrap()
}

fn manifest() -> Vec<u8> {
    let log = |path: &str, start, state| LogEntry { path: path.into(), start, state, id: 3 };
    let manifest = Manifest {
        has_plain_keys: true,
        generation: 5,
        id: 0,
        clock: 99,
        watermarks: vec![1, 2],
        logs: vec![log("log", 77, LogState::Begun), log("/other", 0, LogState::New)],
        parts: vec![PartEntry { dir: "".into(), bytes: 10, rows: 1, checksum: 9 }],
    };
    manifest.encode().unwrap()
}

fn check_row(bytes: &[u8]) -> Shape {
    let Some(row) = Row::check(bytes) else { return 0 };
    // Whatever passes the check can be asked for all that it has.
    let count = row.columns();
    let mut bytes = 0;
    for index in 0..count {
        bytes += match row.kind() {
            Kind::Fields => row.field(index).map(|(name, value)| name.len() + value.len()),
            Kind::Value | Kind::Columns | Kind::Collection => row.column(index).map(<[u8]>::len),
        }
        .expect("a part below the count");
    }
    assert!(bytes < row.bytes().len(), "parts lie in the row");
    assert_eq!((row.column(count), row.field(count)), (None, None), "nor is there one more");
    let _ = (row.value(), row.find(b"name"), row.marks(), row.cas());
    shape((row.kind() as u8, count.min(9), row.flags() != 0, row.expires_ms() != 0))
}

fn check_record(bytes: &[u8]) -> Shape {
    let mut entries = match Entries::of(bytes) {
        Ok(entries) => entries,
        Err((_, what)) => return shape(what),
    };
    let (mut seen, mut taken) = (Vec::new(), 0);
    let end = loop {
        match entries.next() {
            Ok(None) => break "end",
            Err((at, what)) => {
                assert!(at < bytes.len(), "damage lies in the record");
                break what;
            }
            Ok(Some((entry, raw))) => {
                taken += raw.len();
                seen.push(match entry {
                    Entry::Put { key, row } => {
                        assert!(key.len() + row.bytes().len() < raw.len());
                        check_row(row.bytes())
                    }
                    Entry::Remove { .. } => 1,
                    Entry::Clear { .. } => 2,
                });
            }
        }
    };
    assert!(taken < bytes.len(), "entries lie behind the head");
    seen.truncate(4);
    shape((end, seen))
}

/// Reads a part whose blocks have the right checksums and places.
fn check_part(input: &[u8], dice: &mut Dice) -> Shape {
    let (mut bytes, mut at) = (input.to_vec(), 0);
    let rows = dice.below(6) as u64;
    while let Some(head) = bytes.get(at..at + 32) {
        let payload = head[4..8].first_chunk().map_or(0, |n| u32::from_le_bytes(*n)) as usize;
        if !dice.once_in(8) {
            bytes[at + 12..at + 16].copy_from_slice(&1_u32.to_le_bytes());
            bytes[at + 16..at + 24].copy_from_slice(&GENERATION.to_le_bytes());
            bytes[at + 24..at + 32].copy_from_slice(&(at as u64).to_le_bytes());
        }
        let Some(block) = bytes.get(at + 4..at + 32 + payload) else { break };
        let sum = crc32_iscsi(block);
        bytes[at..at + 4].copy_from_slice(&sum.to_le_bytes());
        at += 32 + payload;
    }
    let fs = MemFs::new();
    let options = OpenOptions::new().write(true).create(true);
    fs.open(&path_of(dir(), GENERATION, 1), &options).unwrap().write_at(0, &bytes).unwrap();
    let entry = PartEntry { dir: "".into(), bytes: bytes.len() as u64, rows, checksum: 0 };
    let mut reader = PartReader::open(&fs, dir(), GENERATION, 1, &entry).unwrap();
    let mut blocks = 0;
    loop {
        match reader.next() {
            Ok(Some(found)) => {
                blocks += 1;
                for (key, row) in found {
                    assert!(key.len() + row.bytes().len() < bytes.len());
                    check_row(row.bytes());
                }
            }
            Ok(None) => return shape((PART, blocks)),
            Err(Error::Corruption { offset, detail: what, .. }) => {
                assert!(offset <= bytes.len() as u64, "damage lies in the file");
                let what: String = what.chars().filter(|c| !c.is_ascii_hexdigit()).collect();
                return shape((what, blocks));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn check_manifest(input: &[u8]) -> Shape {
    let mut bytes = input.to_vec();
    if let Some((body, sum)) = bytes.split_last_chunk_mut::<4>() {
        *sum = crc32_iscsi(body).to_le_bytes();
    }
    match Manifest::decode(Path::new("/m"), &bytes) {
        Ok(manifest) => {
            assert_eq!(
                manifest.encode().ok().as_deref(),
                Some(&bytes[..]),
                "nothing is passed over"
            );
            shape((manifest.watermarks.len(), manifest.logs.len(), manifest.parts.len()))
        }
        Err(Error::Corruption { offset, detail: what, .. }) => {
            assert!(offset <= bytes.len() as u64, "damage lies in the file");
            let what: String = what.chars().filter(|c| !c.is_ascii_hexdigit()).collect();
            shape(what)
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn what_was_made_up_is_refused_or_can_be_used() {
    let mut fuzzer = Fuzzer::new("rowstore.files", env!("CARGO_MANIFEST_DIR"), 20_000)
        .sample(headed(RECORD, &record()))
        .sample(headed(PART, &part()))
        .sample(headed(MANIFEST, &manifest()));
    for row in rows() {
        fuzzer = fuzzer.sample(headed(ROW, &row));
    }
    fuzzer.run(|input, dice| {
        let Some((kind, bytes)) = input.split_first() else { return 0 };
        match kind % 4 {
            ROW => check_row(bytes),
            RECORD => check_record(bytes),
            PART => check_part(bytes, dice),
            _ => check_manifest(bytes),
        }
    });
}

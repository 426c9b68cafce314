//! Traces that somebody made up: whatever their format says, they are refused with their place, or
//! read record by record, and reading them twice gives the same.

use std::path::Path;

use keyrack_testkit::fuzz::{Fuzzer, Shape, shape};
use keyrack_vfs::{Fs, MemFs, OpenOptions};

use crate::codec::{Context, decode};
use crate::{Format, Outcome, Phase, Record, Recorder, Trace, Verb, Which, Write, survey};

/// Which reader an input goes to is its first byte.
const CODEC: u8 = 0;
const NATIVE: u8 = 1;
const ROCKSDB: u8 = 2;
const CACHELIB: u8 = 3;

/// Records of one input that are read: a count in a line can stand for billions.
const RECORDS_MAX: usize = 2_000;

fn path() -> &'static Path {
    Path::new("/trace")
}

fn headed(kind: u8, bytes: &[u8]) -> Vec<u8> {
    [&[kind], bytes].concat()
}

/// A small trace of ours: the whole file.
fn native() -> Vec<u8> {
    let fs = MemFs::new();
    let recorder = Recorder::create(&fs, path(), &crate::Origin::default()).unwrap();
    let mut tape = recorder.tape(Phase::Run, 0);
    for at_ns in 0..20 {
        let put = crate::Entry { key: b"key", write: Write::Put(5) };
        tape.note((Verb::Put, Outcome::Done, at_ns), 0, 1, [put].into_iter());
        tape.note_range((Verb::RangeDown, Outcome::Done, at_ns), (b"a", Some(b"b")), 100, 3);
    }
    drop(tape);
    recorder.finish().unwrap();
    fs.read(path()).unwrap()
}

/// Records as they stand in a block.
fn records() -> Vec<u8> {
    let mut out = Vec::new();
    // A put of `key` with 5 bytes, a get of it with 300, a range of two ends.
    out.extend_from_slice(&[put_head(Verb::Put), 2, 0, 0, 3]);
    out.extend_from_slice(b"key\x07");
    out.extend_from_slice(&[put_head(Verb::Get), 4, 0, 3, 0, 0xac, 2]);
    out.extend_from_slice(&[put_head(Verb::Range), 2, 0, 2, 1, 1, b'x', 2, 0, 100, 3]);
    out
}

fn put_head(verb: Verb) -> u8 {
    let place = Verb::ALL.iter().position(|known| *known == verb);
    u8::try_from(place.expect("a verb")).expect("few verbs")
}

/// A binary trace of RocksDB: its head, a put, a get, a seek, the end.
fn rocksdb() -> Vec<u8> {
    let mut out = Vec::new();
    let mut record = |kind: u8, payload: &[u8]| {
        out.extend_from_slice(&1_000_u64.to_le_bytes());
        out.push(kind);
        out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        out.extend_from_slice(payload);
    };
    record(
        1,
        b"feedcafedeadbeef\tTrace Version: 0.2\tRocksDB Version: 9.1\tFormat: Timestamp OpType \
          Payload\n",
    );
    let batch = [&[0; 8][..], &1_u32.to_le_bytes(), b"\x01\x05alpha\x03123"].concat();
    record(3, &[&2_u64.to_le_bytes()[..], &[batch.len() as u8], &batch].concat());
    record(4, &[&12_u64.to_le_bytes()[..], &3_u32.to_le_bytes(), b"\x05alpha"].concat());
    record(5, &[&48_u64.to_le_bytes()[..], &0_u32.to_le_bytes(), b"\x02al"].concat());
    record(2, b"");
    out
}

fn check_codec(bytes: &[u8]) -> Shape {
    let (mut rest, mut context, mut record) = (bytes, Context::default(), Record::default());
    let mut seen = Vec::new();
    while seen.len() < RECORDS_MAX && !rest.is_empty() {
        let before = rest.len();
        if decode(&mut rest, &mut context, &mut record).is_none() {
            return shape((false, seen.len().min(9), seen.last().copied()));
        }
        assert!(rest.len() < before, "a record has bytes");
        assert_eq!(record.entries().count(), record.len());
        seen.push(record.verb as u8);
    }
    shape((true, seen.len().min(9), seen.last().copied()))
}

/// What reading came to: records of each verb, and the error without its numbers.
fn read(fs: &MemFs, format: Format, timed: bool) -> (Vec<u64>, String) {
    let which = Which { timed, thread: None };
    let mut counts = vec![0; 16];
    let mut record = Record::default();
    let words = |error: crate::Error| {
        let text = error.to_string();
        assert_eq!(text.lines().count(), 1, "{text}");
        text
    };
    let mut trace = match Trace::open(fs, path(), format, which) {
        Ok(trace) => trace,
        Err(error) => return (counts, words(error)),
    };
    for _ in 0..RECORDS_MAX {
        match trace.next(&mut record) {
            Ok(true) => counts[record.verb as usize] += record.entries().count() as u64,
            Ok(false) => return (counts, trace.skipped().unwrap_or_default()),
            Err(error) => return (counts, words(error)),
        }
    }
    (counts, "goes on".to_owned())
}

fn check_file(bytes: &[u8], format: Format) -> Shape {
    let fs = MemFs::new();
    let file = fs.open(path(), &OpenOptions::new().write(true).create(true)).unwrap();
    file.write_at(0, bytes).unwrap();
    let _ = Format::detect(&fs, path());
    let (counts, words) = read(&fs, format, true);
    assert_eq!(read(&fs, format, true), (counts.clone(), words.clone()), "twice the same");
    if format == Format::Keyrack {
        read(&fs, format, false);
        let _ = survey(&fs, path(), format, &|_, thread| thread);
    }
    let words: String = words.chars().filter(|c| !c.is_ascii_hexdigit()).take(60).collect();
    shape((counts.iter().map(|count| (*count).min(3)).collect::<Vec<_>>(), words))
}

#[test]
fn traces_that_were_made_up_are_refused_or_read() {
    let cachelib = "op_time,key,key_size,op,op_count,size,cache_hits\n\
                    5,abc,6,GET,2,100,1\n6,d,1,SET,1,7,0\n7,e,1,DELETE,1,0,0\n";
    let text = "0x616263 0 3 5 1000\n0x61 1 0 5 1001\n";
    Fuzzer::new("trace.files", env!("CARGO_MANIFEST_DIR"), 8_000)
        .sample(headed(CODEC, &records()))
        .sample(headed(NATIVE, &native()))
        .sample(headed(ROCKSDB, &rocksdb()))
        .sample(headed(ROCKSDB, text.as_bytes()))
        .sample(headed(CACHELIB, cachelib.as_bytes()))
        .words(&[b",", b"\n", b"0x", b"GET", b"op_count", b"18446744073709551616", b"-1"])
        .run(|input, _| {
            let Some((kind, bytes)) = input.split_first() else { return 0 };
            match kind % 4 {
                CODEC => check_codec(bytes),
                NATIVE => check_file(bytes, Format::Keyrack),
                ROCKSDB => check_file(bytes, Format::RocksDb),
                _ => check_file(bytes, Format::CacheLib),
            }
        });
}

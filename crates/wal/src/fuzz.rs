//! Segments that somebody made up, with checksums that are right: recovery and salvage refuse them,
//! or give records that are in the file, in order, and end where they say.

use std::path::Path;
use std::sync::Arc;

use keyrack_testkit::fuzz::{Dice, Fuzzer, Shape, shape};
use keyrack_vfs::{Fs, MemFs, OpenOptions};

use crate::error::Error;
use crate::format::{
    FRONT_BYTES, HEADER_BYTES, Header, Incarnation, Mark, RECORD_BYTES, Record, RecordChecksum,
    SEAL_BYTES, SEAL_OFFSET, Seal, head,
};
use crate::marker;
use crate::names::path_of;
use crate::options::{Options, Sync};
use crate::recovery::recover;
use crate::{Log, salvage};

const SEGMENT_BYTES: u64 = 4 << 10;

fn dir() -> &'static Path {
    Path::new("/log")
}

fn disk() -> MemFs {
    let fs = MemFs::new();
    fs.create_dir(dir()).unwrap();
    fs
}

/// The bytes of the only segment of a small log; cut behind its records, for zeros say nothing.
fn sample(lengths: &[usize], closed: bool) -> Vec<u8> {
    let fs = Arc::new(disk());
    let options = Options { segment_bytes: SEGMENT_BYTES, sync: Sync::Os, ..Options::default() };
    let nothing = &mut |_, _: &[u8]| Ok::<(), Error>(());
    let (log, _) = Log::open(fs.clone(), dir(), 0, options, nothing).unwrap();
    for (index, length) in lengths.iter().enumerate() {
        let mut record = log.reserve(*length).unwrap();
        record.write(&[&vec![index as u8 + 1; *length]]).unwrap();
        record.publish();
    }
    if closed {
        log.close().unwrap();
    } else {
        drop(log);
    }
    let name = fs.list(dir()).unwrap().into_iter().map(|entry| entry.name).min().unwrap();
    let mut bytes = fs.read(&dir().join(name)).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    bytes.truncate(used.next_multiple_of(64));
    bytes
}

/// Makes the checksums right: that of the header and of the seal, and those of the records one
/// after the other.
fn repair(bytes: &mut [u8]) -> Option<Header> {
    const SUM: usize = HEADER_BYTES - 4;
    let front = bytes.first_chunk_mut::<{ FRONT_BYTES as usize }>()?;
    let sum = Header::checksum(front.first_chunk::<HEADER_BYTES>()?);
    front[SUM..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
    let header = Header::decode(front.first_chunk()?).ok()?;
    // Whoever opens the file looks at its size first.
    if header.segment_bytes == 0 {
        return None;
    }
    let seal = SEAL_OFFSET as usize;
    let fields =
        |at: usize| front[seal + at..].first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk));
    if front[seal] != 0 {
        let sealed = Seal { start: fields(8), epoch: fields(16), end: fields(24) };
        front[seal..seal + SEAL_BYTES].copy_from_slice(&sealed.encode());
    }
    let (incarnation, mut at) = (header.incarnation(), FRONT_BYTES as usize);
    while let Some(found) = record(bytes, &header, incarnation, at) {
        let payload = at + RECORD_BYTES;
        let lsn = header.start.wrapping_add(at as u64 - FRONT_BYTES);
        let mut checksum = RecordChecksum::new(lsn, &found);
        if found.kind == crate::format::Kind::Data {
            checksum.add(&bytes[payload..payload + found.length as usize]);
        }
        let right = Record { checksum: checksum.sum(), ..found };
        bytes[at..payload].copy_from_slice(&head(&right));
        at += found.log_bytes() as usize;
    }
    Some(header)
}

fn record(bytes: &[u8], header: &Header, incarnation: Incarnation, at: usize) -> Option<Record> {
    let chunk = bytes.get(at..)?.first_chunk()?;
    let lsn = header.start.wrapping_add(at as u64 - FRONT_BYTES);
    Record::parse(chunk, incarnation, lsn, (bytes.len() - at) as u64)
}

/// A marker whose checksums are right, with a number now and then that no log would write.
fn marks(id: u64, start: u64, dice: &mut Dice) -> Vec<u8> {
    let odd = |dice: &mut Dice, number: u64| {
        if dice.once_in(12) { *dice.one_of(&[0, 8, u64::MAX - 7, u64::MAX]) } else { number }
    };
    let end = if dice.once_in(2) { 0 } else { start.wrapping_add(*dice.one_of(&[8, 32, 80])) };
    let mut slot = |sequence: u64| {
        Mark {
            id: odd(dice, id),
            sequence: odd(dice, sequence),
            start: odd(dice, start),
            segment_bytes: odd(dice, SEGMENT_BYTES),
            end: odd(dice, end),
        }
        .encode()
    };
    [slot(2), slot(1)].concat()
}

/// What recovery makes of the one segment of a log.
fn check(input: &[u8], dice: &mut Dice) -> Shape {
    let mut bytes = input.to_vec();
    let header = if dice.once_in(8) { None } else { repair(&mut bytes) };
    if let Some(header) = header {
        assert_eq!(Header::decode(&header.encode()), Ok(header));
    }
    // A file of a segment is as long as it says, as a rule.
    if !dice.once_in(4) {
        bytes.resize((FRONT_BYTES + SEGMENT_BYTES) as usize, 0);
    }
    let start = header.map_or(0, |header| header.start);
    let fs = disk();
    let path = path_of(dir(), start);
    let file = fs.open(&path, &OpenOptions::new().write(true).create(true)).unwrap();
    file.write_at(0, &bytes).unwrap();
    let id = header.map_or(1, |header| header.id);
    if !dice.once_in(8) {
        fs.write_atomic(&marker::path_in(dir()), &marks(id, start, dice)).unwrap();
    }
    let mut records = Vec::new();
    let mut last = None;
    let options = Options { segment_bytes: SEGMENT_BYTES, id: id.max(1), ..Options::default() };
    let outcome = recover(&fs, dir(), start, &options, &mut |lsn, payload| {
        assert!(last < Some(lsn), "LSNs ascend");
        last = Some(lsn);
        let from = (FRONT_BYTES + lsn - start) as usize + RECORD_BYTES;
        assert_eq!(&bytes[from..from + payload.len()], payload, "what the file has");
        records.push((lsn, payload.len()));
        Ok::<(), Error>(())
    });
    let mut salvaged = Vec::new();
    let saved = salvage(&fs, dir(), None, None, &mut |lsn, payload: &[u8]| {
        salvaged.push((lsn, payload.len()));
        Ok::<(), Error>(())
    });
    match (&outcome, &saved) {
        (Ok(found), Ok(_)) => {
            assert!(found.report.end >= start && last <= Some(found.report.end));
            assert!(salvaged.starts_with(&records), "salvage gives what recovery does, and more");
        }
        (Err(Error::Io(error)), _) => panic!("{error}"),
        _ => {}
    }
    if outcome.is_ok() {
        goes_on(&fs, start, options, records.len());
    }
    let kind = match &outcome {
        Ok(_) => "ok".to_owned(),
        Err(error) => error.to_string().chars().filter(|c| !c.is_ascii_hexdigit()).collect(),
    };
    shape((kind, records.len(), salvaged.len(), saved.is_ok()))
}

/// A log that opens takes a record, and has it when it is opened again.
fn goes_on(fs: &MemFs, start: u64, options: Options, records: usize) {
    let fs: Arc<dyn Fs> = Arc::new(fs.clone());
    let nothing = &mut |_, _: &[u8]| Ok::<(), Error>(());
    let (log, _) = Log::open(Arc::clone(&fs), dir(), start, options, nothing).unwrap();
    let mut record = match log.reserve(8) {
        Ok(record) => record,
        Err(Error::Usage(what)) => return assert!(what.contains("no LSNs left"), "{what}"),
        Err(error) => panic!("{error}"),
    };
    record.write(&[&[7; 8]]).unwrap();
    record.publish();
    log.close().unwrap();
    let again = Log::open(fs, dir(), start, options, nothing).unwrap().1;
    assert_eq!(again.records, records as u64 + 1);
}

#[test]
fn segments_that_were_made_up_are_refused_or_read() {
    Fuzzer::new("wal.segment", env!("CARGO_MANIFEST_DIR"), 60)
        .sample(sample(&[0, 1, 7, 300, 16], false))
        .sample(sample(&[5, 224, 225, 0], true))
        .sample(sample(&[16], true))
        .run(check);
}

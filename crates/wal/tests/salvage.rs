//! What is read out of damaged logs.

use std::path::Path;

use keyrack_vfs::{CrashPolicy, Fs, MemFs};
use keyrack_wal::{Error, Salvaged, salvage};

use crate::tool::{
    DIR, Records, append, copy, file, new_disk, open, open_from, payload, salvaged, segments, small,
};
use keyrack_testkit::random::{Announced, Draw, successive_seeds};

fn flip(disk: &MemFs, path: &Path, at: u64) {
    let file = file(disk, path);
    let mut byte = [0];
    file.read_exact_at(at, &mut byte).unwrap();
    file.write_at(at, &[byte[0] ^ 0x41]).unwrap();
}

fn read(disk: &MemFs, from: Option<u64>) -> (Salvaged, Records) {
    salvaged(disk, from, None)
}

/// A closed log of four segments and more.
fn sample() -> (MemFs, Records) {
    let disk = new_disk();
    let (log, _) = open(&disk, small());
    let mut written = Records::new();
    for number in 0..120_u8 {
        let payload: Vec<u8> = (0..number).map(|at| at ^ number).collect();
        written.push((append(&log, &payload).unwrap().0, payload));
    }
    log.close().unwrap();
    assert!(segments(&disk).len() >= 3);
    (disk, written)
}

/// Only what was written is given, and of that everything that is in no hole. Returns how many
/// records are missing.
fn judge(disk: &MemFs, written: &Records, what: &str) -> usize {
    let (salvaged, records) = read(disk, Some(0));
    assert!(records.iter().all(|record| written.contains(record)), "{what}: wrong records");
    assert!(records.is_sorted_by(|a, b| a.0 < b.0), "{what}");
    let is_lost = |lsn: u64| {
        salvaged.holes.iter().any(|hole| (hole.from..hole.to).contains(&lsn)) || lsn >= salvaged.end
    };
    for record in written {
        assert_ne!(records.contains(record), is_lost(record.0), "{what}: {}", record.0);
    }
    written.len() - records.len()
}

#[test]
fn a_whole_log_is_given_whole() {
    let (disk, written) = sample();
    let before: Vec<_> = segments(&disk).iter().map(|path| disk.read(path).unwrap()).collect();
    for from in [None, Some(0), Some(written[50].0)] {
        let (salvaged, records) = read(&disk, from);
        let wanted = written.iter().filter(|(at, _)| *at >= from.unwrap_or(0)).cloned();
        assert_eq!(records, wanted.collect::<Records>());
        let Salvaged { holes, dropped_bytes, dropped_records, end, top, .. } = salvaged;
        assert_eq!((holes, dropped_bytes, dropped_records), (Vec::new(), 0, 0));
        assert!(end > written.last().unwrap().0 && top >= end);
    }
    let after: Vec<_> = segments(&disk).iter().map(|path| disk.read(path).unwrap()).collect();
    assert_eq!(before, after, "nothing is written");
    let (salvaged, records) = read(&new_disk(), None);
    assert_eq!((records, salvaged), (Records::new(), Salvaged::default()), "no log");
}

#[test]
fn a_flipped_byte_costs_one_record() {
    let (disk, written) = sample();
    for path in segments(&disk) {
        let len = disk.metadata(&path).unwrap().len;
        for at in (0..640).step_by(3).chain((4_096..len).step_by(7)) {
            let damaged = copy(&disk);
            flip(&damaged, &path, at);
            let missing = judge(&damaged, &written, &format!("{}: {at}", path.display()));
            assert!(missing <= usize::from(at >= 4_096), "{}: {at}: {missing}", path.display());
        }
    }
}

#[test]
fn files_that_are_cut_cost_what_was_in_them() {
    let (disk, written) = sample();
    for path in segments(&disk) {
        // The close has cut the last one.
        let whole = disk.metadata(&path).unwrap().len;
        let lens = [0, 100, 512, 4_096, 4_097, 5_000, whole - 1];
        for len in lens.into_iter().filter(|len| *len < whole) {
            let damaged = copy(&disk);
            file(&damaged, &path).set_len(len).unwrap();
            judge(&damaged, &written, &format!("{} cut at {len}", path.display()));
            let (salvaged, _) = read(&damaged, Some(0));
            assert!(!salvaged.holes.is_empty(), "{} cut at {len}", path.display());
        }
        let damaged = copy(&disk);
        damaged.remove_file(&path).unwrap();
        judge(&damaged, &written, &format!("{} removed", path.display()));
    }
}

/// Without an LSN to start from, what lies below a missing segment is not believed: it may be
/// left over from a release.
#[test]
fn what_is_not_connected_with_the_end_needs_somebody_who_asks_for_it() {
    let (disk, written) = sample();
    let all = segments(&disk);
    disk.remove_file(&all[1]).unwrap();
    let (asked, records) = read(&disk, Some(0));
    assert!(records.contains(&written[0]) && records.contains(written.last().unwrap()));
    assert_eq!((asked.begin, asked.holes.len()), (0, 1));
    let (unasked, records) = read(&disk, None);
    assert!(!records.contains(&written[0]) && records.contains(written.last().unwrap()));
    assert!(unasked.holes.is_empty());
    assert!(records.iter().all(|(lsn, _)| *lsn >= unasked.begin));
}

/// What an opening dropped stays dropped, even if the header that says so is lost.
#[test]
fn what_was_dropped_does_not_come_back() {
    for seed in successive_seeds(40) {
        let _seed = Announced(seed);
        let mut draw = Draw::new(seed);
        let disk = new_disk();
        let (log, _) = open(&disk, small());
        let mut written = Records::new();
        for _ in 0..60 {
            let payload = payload(&mut draw, 300);
            written.push((append(&log, &payload).unwrap().0, payload));
            if draw.below(20) == 0 {
                log.sync(log.published()).unwrap();
            }
        }
        let torn = disk.crash_image(draw.next(), CrashPolicy::Reordered);
        drop(log);
        let (log, recovered, mut kept) = open_from(&torn, 0, small()).unwrap();
        let (salvaged, same) = read(&torn, Some(0));
        assert_eq!(same, kept, "as an opening does");
        assert_eq!(salvaged.holes, [], "a torn end is no damage");
        let dropped = (salvaged.dropped_bytes, salvaged.dropped_records);
        assert_eq!(dropped, (recovered.dropped_bytes, recovered.dropped_records));
        for _ in 0..20 {
            let payload = payload(&mut draw, 300);
            kept.push((append(&log, &payload).unwrap().0, payload));
        }
        log.close().unwrap();
        for path in segments(&torn) {
            let damaged = copy(&torn);
            flip(&damaged, &path, draw.below(56));
            let (_, records) = read(&damaged, Some(0));
            assert!(records.iter().all(|record| kept.contains(record)), "{}", path.display());
            let records_len = torn.metadata(&path).unwrap().len - 4_096;
            if records_len == 0 {
                continue;
            }
            flip(&damaged, &path, 4_096 + draw.below(records_len));
            let (_, records) = read(&damaged, Some(0));
            assert!(records.iter().all(|record| kept.contains(record)), "{}", path.display());
        }
    }
}

#[test]
fn a_log_of_a_later_version_is_not_taken_for_damage() {
    let (disk, _) = sample();
    let path = segments(&disk).pop().unwrap();
    let file = file(&disk, &path);
    let mut header = [0; 512];
    file.read_exact_at(0, &mut header).unwrap();
    header[8] = 2;
    let sum = crc_fast::crc32_iscsi(&header[..508]).rotate_right(15).wrapping_add(0xa282_ead8);
    header[508..].copy_from_slice(&sum.to_le_bytes());
    file.write_at(0, &header).unwrap();
    let error =
        salvage(&disk, Path::new(DIR), None, None, &mut |_, _| Ok::<_, Error>(())).unwrap_err();
    assert!(matches!(&error, Error::Usage(what) if what.contains("version")), "{error}");
}

//! Files that do not hold what was written to them.

use std::path::{Path, PathBuf};

use keyrack_vfs::{Fs, MemFs};
use keyrack_wal::{Error, Options, Recovered};

use crate::tool::{
    DIR, Records, append, copy, file, new_disk, open, open_from, segments, small, start_of,
};
use keyrack_testkit::random::{Announced, Draw, successive_seeds};

/// The file that holds an LSN, and where in it.
fn place_of(disk: &MemFs, lsn: u64) -> (PathBuf, u64) {
    let path = segments(disk).into_iter().rfind(|path| start_of(path) <= lsn).unwrap();
    let place = 4_096 + (lsn - start_of(&path));
    (path, place)
}

/// A log of two segments. Records up to the returned LSN are synced, two more are not.
fn sample(closed: bool) -> (MemFs, Records, u64) {
    let disk = new_disk();
    let (log, _) = open(&disk, small());
    let (mut written, mut synced) = (Vec::new(), 0);
    for number in 0..40_u8 {
        let payload: Vec<u8> = (0..number * 5).map(|at| at ^ number).collect();
        let (lsn, end) = append(&log, &payload).unwrap();
        written.push((lsn, payload));
        if number == 35 || number == 37 {
            log.sync(end).unwrap();
            synced = end;
        }
    }
    let killed = disk.process_crash_image();
    drop(log);
    (copy(if closed { &disk } else { &killed }), written, synced)
}

/// The log is refused, or gives a first part of what was written and reports what it dropped.
/// Returns the number of records, `None` if it was refused.
fn judge(disk: &MemFs, written: &Records, what: &str) -> Option<(usize, Recovered)> {
    match open_from(disk, 0, small()) {
        Err(Error::Corruption { path, offset, .. }) => {
            assert!(path.starts_with(DIR), "{what}");
            assert!(offset <= 8_192, "{what}");
            None
        }
        Err(error) => panic!("{what}: {error}"),
        Ok((_, recovered, records)) => {
            assert!(written.starts_with(&records), "{what}: wrong records");
            if records.len() < written.len() {
                assert!(recovered.dropped_bytes > 0, "{what}: dropped in silence");
            }
            Some((records.len(), recovered))
        }
    }
}

/// Flips one bit at every byte of every file. Most of the free space is passed over in steps.
fn flip_all(closed: bool, check: impl Fn(Option<(usize, Recovered)>, &str)) {
    let (disk, written, _) = sample(closed);
    let all = segments(&disk);
    assert_eq!(all.len(), 2);
    let last = written.last().map_or(0, |(lsn, payload)| lsn + payload.len() as u64 + 16);
    for path in &all {
        let len = disk.metadata(path).unwrap().len;
        let start = start_of(path);
        let mut offset = 0;
        while offset < len {
            let image = copy(&disk);
            let damaged = file(&image, path);
            let mut byte = [0];
            damaged.read_exact_at(offset, &mut byte).unwrap();
            byte[0] ^= 1 << (offset % 8);
            damaged.write_at(offset, &byte).unwrap();
            let what = format!("byte {offset} of {}", path.display());
            check(judge(&image, &written, &what), &what);
            let is_free = (1_024..4_096).contains(&offset) || offset >= 4_096 + 32 + last - start;
            offset += if offset >= 1_024 && is_free { 97 } else { 1 };
        }
    }
}

#[test]
fn a_flipped_bit_is_an_error_or_a_reported_drop_and_never_a_wrong_record() {
    let (_, written, synced) = sample(false);
    // The mark of the last sync stands in the records behind it.
    let marked = written.iter().filter(|(lsn, _)| *lsn < synced).count();
    flip_all(false, |found, what| {
        if let Some((count, _)) = found {
            assert!(count >= marked, "{what}: {count} of {marked} synced records");
        }
    });
}

#[test]
fn in_a_log_that_was_closed_no_record_is_dropped() {
    let (_, written, _) = sample(true);
    flip_all(true, |found, what| {
        if let Some((count, recovered)) = found {
            assert_eq!(count, written.len(), "{what}");
            assert_eq!(recovered.dropped_records, 0, "{what}");
        }
    });
}

/// The bytes of the last record from each offset on are not there: zeros, or others.
#[test]
fn a_torn_tail_is_dropped_at_every_byte() {
    let (disk, written, _) = sample(false);
    let (lsn, payload) = written.last().unwrap();
    let (path, place) = place_of(&disk, *lsn);
    let length = 16 + payload.len();
    for filler in [0, 0x55, 0xff] {
        for kept in 0..length {
            let image = copy(&disk);
            let torn = file(&image, &path);
            torn.write_at(place + kept as u64, &vec![filler; length - kept]).unwrap();
            let what = format!("{kept} of {length} bytes, then {filler}");
            let (log, recovered, records) = open_from(&image, 0, small()).unwrap();
            assert_eq!(records, written[..written.len() - 1], "{what}");
            assert_eq!(recovered.end, *lsn, "{what}");
            assert_eq!(recovered.dropped_records, 0, "{what}");
            assert!(kept + usize::from(filler) == 0 || recovered.dropped_bytes > 0, "{what}");
            // And the log goes on, for good.
            let (next, _) = append(&log, b"next").unwrap();
            drop(log);
            let again = open(&image, small()).1;
            assert_eq!(again[..records.len()], records, "{what}");
            assert_eq!(again[records.len()..], [(next, b"next".to_vec())], "{what}");
        }
    }
}

#[test]
fn a_record_torn_before_whole_ones_is_reported_with_them() {
    let disk = new_disk();
    let (log, _) = open(&disk, small());
    let first = append(&log, b"first").unwrap();
    // A writer that is killed before it has copied; those behind it have.
    let mut held = [log.reserve(100).unwrap(), log.reserve(8).unwrap()];
    held[1].write(&[b"unheard!"]).unwrap();
    let end = held[1].end();
    let killed = disk.process_crash_image();
    let (_, recovered, records) = open_from(&killed, 0, small()).unwrap();
    assert_eq!(records, [(first.0, b"first".to_vec())]);
    assert_eq!((recovered.end, recovered.dropped_records), (first.1, 1));
    assert_eq!(recovered.dropped_bytes, end - first.1);
    held.into_iter().for_each(|record| record.publish());
}

#[test]
fn a_log_with_a_file_cut_removed_or_swapped_is_refused_or_loses_only_the_unsynced() {
    let disk = new_disk();
    let (log, _) = open(&disk, small());
    let mut written = Vec::new();
    for number in 0..200_u8 {
        written.push((append(&log, &[number; 60]).unwrap().0, vec![number; 60]));
    }
    drop(log);
    let all = segments(&disk);
    assert_eq!(all.len(), 4);
    let refused = |image: &MemFs, what: &str| {
        assert_eq!(judge(image, &written, what).map(|found| found.0), None, "{what}");
    };
    for (index, path) in all.iter().enumerate() {
        // The close has cut the last one.
        let whole = disk.metadata(path).unwrap().len;
        let lens = [0, 1, 511, 512, 4_095, 4_096, 5_000, whole - 1];
        for len in lens.into_iter().filter(|len| *len < whole) {
            let image = copy(&disk);
            file(&image, path).set_len(len).unwrap();
            refused(&image, &format!("{} cut to {len}", path.display()));
        }
        let image = copy(&disk);
        file(&image, path).set_len(8_193).unwrap();
        refused(&image, "longer");
        let image = copy(&disk);
        image.remove_file(path).unwrap();
        refused(&image, "missing");
        let image = copy(&disk);
        let swapped = &all[(index + 1) % all.len()];
        let bytes = image.read(swapped).unwrap();
        file(&image, path).write_at(0, &bytes).unwrap();
        refused(&image, "swapped");
        // A copy under a later name claims to be the newest.
        let image = copy(&disk);
        let extra = Path::new(DIR).join("0000000000100000.wal");
        image.hard_link(path, &extra).unwrap();
        refused(&image, "wrongly named");
    }
}

/// Random bytes over random places: nothing but errors, and records that were written.
#[test]
fn random_damage_never_gives_a_wrong_record() {
    let (disk, written, _) = sample(false);
    let all = segments(&disk);
    let mut kinds = [0; 3];
    for seed in successive_seeds(1_500) {
        let _announced = Announced(seed);
        let mut draw = Draw::new(seed);
        let image = copy(&disk);
        for _ in 0..=draw.below(3) {
            let damaged = file(&image, &all[draw.below(2) as usize]);
            // Mostly where the records are, in words of 8 bytes or not.
            let offset =
                if draw.below(4) == 0 { draw.below(8_192) } else { 4_096 + draw.below(2_500) };
            let bytes: Vec<u8> = (0..1 + draw.below(40)).map(|_| draw.next() as u8).collect();
            let count = bytes.len().min((8_192 - offset) as usize);
            damaged.write_at(offset, &bytes[..count]).unwrap();
        }
        match judge(&image, &written, "random") {
            None => kinds[0] += 1,
            Some((count, _)) if count == written.len() => kinds[1] += 1,
            Some(_) => kinds[2] += 1,
        }
    }
    assert!(kinds.iter().all(|count| *count > 0), "{kinds:?}");
}

/// A payload full of things that look like heads of long records does not stop the search for
/// records behind the end.
#[test]
fn the_search_behind_the_end_is_bounded() {
    let options = Options { segment_bytes: 1 << 20, ..Options::default() };
    let disk = new_disk();
    let (log, _) = open(&disk, options);
    let (lsn, _) = append(&log, b"first").unwrap();
    // Heads copied out of the log itself, so that their tag is right, with long lengths.
    let (path, place) = place_of(&disk, lsn);
    let mut head = [0; 16];
    file(&disk, &path).read_exact_at(place, &mut head).unwrap();
    head[4..8].copy_from_slice(&300_000_u32.to_le_bytes());
    let mut torn = log.reserve(900_000).unwrap();
    torn.write(&[&head.repeat(900_000 / 16)]).unwrap();
    let (path, place) = place_of(&disk, torn.lsn());
    let killed = disk.process_crash_image();
    file(&killed, &path).write_at(place, &[0xff; 8]).unwrap();
    let (_, recovered, records) = open_from(&killed, 0, options).unwrap();
    assert_eq!(records, [(lsn, b"first".to_vec())]);
    assert!(recovered.dropped_bytes > 0);
    torn.publish();
}

#[test]
fn a_closed_segment_may_end_anywhere_behind_its_records_and_nowhere_before() {
    let (disk, written, _) = sample(true);
    let path = segments(&disk).pop().unwrap();
    let whole = disk.metadata(&path).unwrap().len;
    let bytes = 4_096 + small().segment_bytes;
    assert!(whole < bytes, "the close has cut it");
    for (len, is_read) in [
        (whole - 1, false),
        (4_096, false),
        (whole, true),
        (whole + 8, true),
        (bytes, true),
        (bytes + 1, false),
    ] {
        let disk = copy(&disk);
        let options = keyrack_vfs::OpenOptions::new().read(true).write(true);
        disk.open(&path, &options).unwrap().set_len(len).unwrap();
        match (open_from(&disk, 0, small()), is_read) {
            (Ok((_, _, records)), true) => assert_eq!(records, written, "{len}"),
            (Err(Error::Corruption { path: of, .. }), false) => assert_eq!(of, path, "{len}"),
            (other, _) => panic!("{len} bytes: {:?}", other.map(|(_, recovered, _)| recovered)),
        }
    }
}

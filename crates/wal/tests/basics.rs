//! What one thread sees when nothing goes wrong.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use keyrack_vfs::{Fault, FaultFs, FaultPlan, Fs, OpenOptions, Operation};
use keyrack_wal::{Error, Log, Options, Sync};

use crate::tool::{DIR, append, new_disk, open, open_from, small};

#[test]
fn records_of_all_sizes_come_back() {
    let disk = new_disk();
    let (log, _) = open(&disk, small());
    let max = log.record_bytes_max();
    assert_eq!(max, 4_096 - 16);
    let mut written = Vec::new();
    for length in [0, 1, 7, 8, 9, 223, 224, 225, 1_023, max, 0, max - 1, 3, max, 5] {
        let payload: Vec<u8> = (0..length).map(|at| (at + length) as u8).collect();
        let (lsn, end) = append(&log, &payload).unwrap();
        assert_eq!(end - lsn, (16 + length as u64).next_multiple_of(8));
        assert_eq!(log.published(), end);
        written.push((lsn, payload));
    }
    log.close().unwrap();
    assert_eq!(open(&disk, small()).1, written);
}

#[test]
fn records_longer_than_a_read_come_back() {
    let options = Options { segment_bytes: 4 << 20, ..Options::default() };
    let disk = new_disk();
    let (log, _) = open(&disk, options);
    let mut written = Vec::new();
    for length in [300_000, 262_144, 262_128, 262_127, 1_500_000, 10] {
        let payload: Vec<u8> = (0..length).map(|at| (at * 31 + length) as u8).collect();
        let (lsn, _) = append(&log, &payload).unwrap();
        written.push((lsn, payload));
    }
    drop(log);
    assert_eq!(open(&disk, options).1, written);
}

#[test]
fn too_long_a_record_is_refused_and_takes_no_space() {
    let (log, _) = open(&new_disk(), small());
    let before = append(&log, b"x").unwrap().1;
    let error = log.reserve(log.record_bytes_max() + 1).unwrap_err();
    assert!(matches!(error, Error::Usage(_)), "{error}");
    assert_eq!(append(&log, b"y").unwrap().0, before);
}

#[test]
fn a_payload_of_another_length_is_refused() {
    let disk = new_disk();
    let (log, _) = open(&disk, small());
    let mut record = log.reserve(4).unwrap();
    assert!(matches!(record.write(&[b"abc"]), Err(Error::Usage(_))));
    assert!(matches!(record.write(&[b"abc", b"de"]), Err(Error::Usage(_))));
    record.write(&[b"abcd"]).unwrap();
    record.write(&[b"ef", b"gh"]).unwrap();
    let lsn = record.lsn();
    record.publish();
    drop(log);
    assert_eq!(open(&disk, small()).1, [(lsn, b"efgh".to_vec())]);
}

#[test]
fn a_reservation_that_is_dropped_leaves_a_void_and_holds_nobody_up() {
    let disk = new_disk();
    let (log, _) = open(&disk, small());
    let first = append(&log, b"first").unwrap();
    drop(log.reserve(3_000).unwrap());
    log.reserve(10).unwrap().publish();
    // This one leaves room at the end of the segment, too.
    drop(log.reserve(2_000).unwrap());
    let last = append(&log, b"last").unwrap();
    assert_eq!(log.published(), last.1);
    drop(log);
    let expected = [(first.0, b"first".to_vec()), (last.0, b"last".to_vec())];
    assert_eq!(open(&disk, small()).1, expected);
}

#[test]
fn lsns_only_grow() {
    let disk = new_disk();
    let mut last = 0;
    let mut written = Vec::new();
    for round in 0..5_u8 {
        let (log, records) = open(&disk, small());
        assert_eq!(records, written);
        assert!(log.published() >= last);
        for _ in 0..round * 30 {
            let (lsn, end) = append(&log, &[round; 50]).unwrap();
            assert!(lsn >= last);
            last = end;
            written.push((lsn, vec![round; 50]));
        }
    }
}

#[test]
fn new_records_begin_where_they_are_told() {
    for (first_lsn, expected) in [(0, 4_096), (4_096, 4_096), (10_000, 12_288)] {
        let options = Options { first_lsn, ..small() };
        let disk = new_disk();
        let (log, _) = open(&disk, options);
        assert_eq!(append(&log, b"x").unwrap().0, expected);
        drop(log);
        // Below the end it means nothing; above, LSNs are left out.
        let (log, records) = open(&disk, options);
        assert_eq!(records.len(), 1);
        assert_eq!(append(&log, b"y").unwrap().0, expected + 4_096);
        drop(log);
        let (log, records) = open(&disk, Options { first_lsn: 1 << 40, ..small() });
        assert_eq!(records.len(), 2);
        assert_eq!(append(&log, b"z").unwrap().0, 1 << 40);
        drop(log);
        assert_eq!(open(&disk, small()).1.len(), 3);
    }
}

#[test]
fn reading_begins_at_any_record() {
    let disk = new_disk();
    let mut places = Vec::new();
    for _ in 0..3 {
        let (log, _) = open(&disk, small());
        for number in 0..100_u8 {
            places.push(append(&log, &[number; 70]).unwrap());
        }
    }
    for (index, (lsn, end)) in places.iter().enumerate() {
        for (from, skipped) in [(*lsn, index), (*end, index + 1)] {
            let (log, recovered, records) = open_from(&disk, from, small()).unwrap();
            let lsns: Vec<_> = records.iter().map(|(lsn, _)| *lsn).collect();
            let expected: Vec<_> = places[skipped..].iter().map(|place| place.0).collect();
            assert_eq!(lsns, expected, "from {from}");
            assert!(recovered.end >= from);
            // It was closed in peace and nothing is written, so nothing changes.
            drop(log);
        }
    }
}

/// The store that uses the log may have made its tables durable further than the log was.
#[test]
fn a_log_that_ends_below_the_start_goes_on_above_it() {
    let disk = new_disk();
    let (log, _) = open(&disk, small());
    let end = append(&log, b"lost sight of").unwrap().1;
    drop(log);
    for from in [end + 8, 4_096 * 2, 1 << 30] {
        let disk = disk.crash_image(0, keyrack_vfs::CrashPolicy::KeepAll);
        let (log, recovered, records) = open_from(&disk, from, small()).unwrap();
        assert_eq!((records.len(), recovered.end), (0, from));
        let (lsn, _) = append(&log, b"new").unwrap();
        assert!(lsn >= from);
        drop(log);
        let (_, _, records) = open_from(&disk, from, small()).unwrap();
        assert_eq!(records, [(lsn, b"new".to_vec())]);
    }
}

#[test]
fn impossible_lsns_are_refused() {
    let disk = new_disk();
    for from in [1, 4_097, 1 << 56, u64::MAX] {
        assert!(matches!(open_from(&disk, from, small()), Err(Error::Usage(_))), "{from}");
    }
    let from = (1 << 56) - 4_096;
    let (log, _, _) = open_from(&disk, from, small()).unwrap();
    append(&log, &[0; 4_000]).expect("the last segment of all");
    assert!(matches!(append(&log, &[0; 4_000]), Err(Error::Usage(_))));
}

#[test]
fn options_that_cannot_be_are_refused() {
    let disk = new_disk();
    for segment_bytes in [0, 1, 2_048, 5_000, 1 << 31, u64::MAX] {
        let options = Options { segment_bytes, ..small() };
        assert!(matches!(open_from(&disk, 0, options), Err(Error::Usage(_))), "{segment_bytes}");
    }
    let options = Options { sync: Sync::Interval(Duration::ZERO), ..small() };
    assert!(matches!(open_from(&disk, 0, options), Err(Error::Usage(_))));
}

#[test]
fn a_log_goes_on_with_segments_of_another_size() {
    let disk = new_disk();
    let mut written = Vec::new();
    for (round, log2) in [12, 16, 12, 14, 13].into_iter().enumerate() {
        let options = Options { segment_bytes: 1 << log2, ..small() };
        let (log, records) = open(&disk, options);
        assert_eq!(records, written);
        for number in 0..150_u8 {
            let payload = vec![number; 40 * (round + 1)];
            written.push((append(&log, &payload).unwrap().0, payload));
        }
    }
    assert_eq!(open(&disk, small()).1, written);
}

#[test]
fn the_log_syncs_as_its_durability_asks() {
    for (sync, flushes) in [(Sync::Os, 0), (Sync::Always, 1)] {
        let (log, _) = open(&new_disk(), Options { sync, ..small() });
        let end = append(&log, b"x").unwrap().1;
        log.commit(end).unwrap();
        assert_eq!(log.stats().flushes, flushes);
        log.sync(end).unwrap();
        assert_eq!((log.synced(), log.stats().flushes), (end, 1));
        log.sync(end - 8).unwrap();
        assert_eq!(log.stats().flushes, 1, "it is durable already");
        assert!(matches!(log.sync(end + 8), Err(Error::Usage(_))), "nobody will write that");
    }
}

#[test]
fn an_interval_log_syncs_by_itself() {
    let sync = Sync::Interval(Duration::from_millis(1));
    let disk = new_disk();
    let (log, _) = open(&disk, Options { sync, ..small() });
    for _ in 0..3 {
        let end = append(&log, b"x").unwrap().1;
        log.commit(end).unwrap();
        while log.synced() < end {
            std::thread::yield_now();
        }
        let image = disk.crash_image(0, keyrack_vfs::CrashPolicy::DropAll);
        let (_, _, records) = open_from(&image, 0, small()).unwrap();
        assert_eq!(records.last().map(|(lsn, _)| *lsn), Some(end - 24));
    }
}

#[test]
fn without_durability_there_are_lsns_and_no_files() {
    let disk = new_disk();
    let fs = FaultFs::new(Arc::new(disk));
    let options = Options { sync: Sync::None, first_lsn: 77, ..small() };
    let (log, records) = open(&fs, options);
    assert_eq!(records, []);
    let mut last = 77;
    for length in [0, 5, 4_000] {
        let (lsn, end) = append(&log, &vec![1; length]).unwrap();
        assert!(lsn >= last && end == log.published());
        last = end;
    }
    drop(log.reserve(5).unwrap());
    assert!(log.reserve(5_000).is_err());
    log.commit(last).unwrap();
    log.sync(last).unwrap();
    log.release(last).unwrap();
    assert_eq!(log.stats(), keyrack_wal::Stats::default());
    log.close().unwrap();
    assert_eq!(fs.operations(), 0);
}

#[test]
fn opening_writes_nothing() {
    let disk = new_disk();
    let fs = FaultFs::new(Arc::new(disk.clone()));
    drop(open(&fs, small()));
    assert!(!fs.exists(Path::new(DIR)).unwrap());
    let (log, _) = open(&fs, small());
    let written = append(&log, b"x").unwrap().0;
    // The process dies with an unsynced record, and the disk is full.
    let disk = disk.process_crash_image();
    disk.set_capacity(0);
    let fs = FaultFs::new(Arc::new(disk.clone()));
    let (log, records) = open(&fs, small());
    assert_eq!(records, [(written, b"x".to_vec())]);
    let reading = [Operation::Open, Operation::Read, Operation::List, Operation::Metadata];
    let read: u64 = reading.iter().map(|kind| fs.operations_of(*kind)).sum();
    assert_eq!(fs.operations(), read, "only reading");
    assert!(matches!(log.reserve(1), Err(Error::Io(error)) if error.is_no_space()));
    disk.set_capacity(1 << 20);
    append(&log, b"y").unwrap();
    drop(log);
    assert_eq!(open(&disk, small()).1.len(), 2);
}

#[test]
fn a_log_leaves_the_files_of_others_alone() {
    let disk = new_disk();
    let others = ["notes", "000.wal", "00000000000A0000.wal", "0000000000000010.wal.old"];
    disk.create_dir(Path::new(DIR)).unwrap();
    for name in others {
        let path = Path::new(DIR).join(name);
        disk.open(&path, &OpenOptions::new().write(true).create(true)).unwrap();
    }
    let options = Options { recycled_max: 0, ..small() };
    let mut from = 0;
    for _ in 0..2 {
        let (log, _, _) = open_from(&disk, from, options).unwrap();
        for _ in 0..300 {
            append(&log, &[0; 100]).unwrap();
        }
        from = log.published();
        log.release(from).unwrap();
    }
    for name in others {
        assert!(disk.exists(&Path::new(DIR).join(name)).unwrap(), "{name}");
    }
}

#[test]
fn the_error_of_the_one_who_replays_comes_through() {
    #[derive(Debug)]
    enum Mine {
        Log(Error),
        Refused(u64),
    }
    impl From<Error> for Mine {
        fn from(error: Error) -> Self {
            Mine::Log(error)
        }
    }
    let disk = new_disk();
    let (log, _) = open(&disk, small());
    append(&log, b"a").unwrap();
    let second = append(&log, b"b").unwrap().0;
    drop(log);
    let mut count = 0;
    let mut replay = |lsn, _: &[u8]| {
        count += 1;
        if count == 2 { Err(Mine::Refused(lsn)) } else { Ok(()) }
    };
    let open = Log::open(Arc::new(disk.clone()), Path::new(DIR), 0, small(), &mut replay);
    assert!(matches!(open, Err(Mine::Refused(lsn)) if lsn == second));
    let mut replay = |_, _: &[u8]| Ok(());
    let open = Log::open(Arc::new(disk), Path::new(DIR), 3, small(), &mut replay);
    assert!(matches!(open, Err(Mine::Log(Error::Usage(_)))));
}

#[test]
fn a_closed_log_stays_closed_when_the_disk_fails_later() {
    let disk = new_disk();
    let fs = FaultFs::new(Arc::new(disk.clone()));
    let (log, _) = open(&fs, small());
    append(&log, b"x").unwrap();
    fs.arm(FaultPlan::once(1, Fault::Io).only(&[Operation::Flush]));
    assert!(matches!(log.close(), Err(Error::Poisoned(_))), "nobody may believe it");
}

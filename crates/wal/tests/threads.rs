//! Many threads at once.

use std::sync::Mutex;

use keyrack_wal::{Log, Options, Sync};

use crate::tool::{Records, append, new_disk, open, open_from, payload, small};
use keyrack_testkit::random::{Announced, Draw, successive_seeds};

/// Appends drawn records from several threads and returns all that was written, in order.
fn write(log: &Log, seed: u64, threads: u64, count: usize) -> Records {
    let all = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let all = &all;
            scope.spawn(move || {
                let mut draw = Draw::new(seed ^ thread << 32);
                let mut mine = Vec::new();
                for _ in 0..count {
                    if draw.below(20) == 0 {
                        drop(log.reserve(draw.below(500) as usize).unwrap());
                        continue;
                    }
                    let payload = payload(&mut draw, log.record_bytes_max());
                    let (lsn, end) = append(log, &payload).unwrap();
                    assert!(log.published() >= end);
                    if draw.below(10) == 0 {
                        log.sync(end).unwrap();
                        assert!(log.synced() >= end);
                    }
                    mine.push((lsn, payload));
                }
                assert!(mine.is_sorted_by(|a, b| a.0 < b.0), "a thread's own are in order");
                all.lock().unwrap().extend(mine);
            });
        }
    });
    let mut all = all.into_inner().unwrap();
    all.sort();
    all
}

#[test]
fn all_records_of_all_threads_come_back_in_order() {
    for seed in successive_seeds(6) {
        let _announced = Announced(seed);
        let disk = new_disk();
        let (log, _) = open(&disk, small());
        let mut written = write(&log, seed, 4, 300);
        assert!(log.stats().made > 5, "{:?}", log.stats());
        drop(log);
        let (log, records) = open(&disk, small());
        assert_eq!(records, written);
        written.extend(write(&log, seed + 1, 3, 100));
        // Without a close.
        let killed = disk.process_crash_image();
        assert_eq!(open_from(&killed, 0, small()).unwrap().2, written);
    }
}

/// Each thread commits each record; what returned before a power loss is there after it.
#[test]
fn threads_that_commit_share_the_flushes() {
    const THREADS: u64 = 4;
    const COUNT: u64 = 200;
    let disk = new_disk();
    let (log, _) = open(&disk, Options { sync: Sync::Always, ..small() });
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let log = &log;
            scope.spawn(move || {
                for number in 0..COUNT {
                    let (_, end) = append(log, &(thread << 32 | number).to_le_bytes()).unwrap();
                    log.commit(end).unwrap();
                    assert!(log.synced() >= end);
                }
            });
        }
    });
    assert!(log.stats().flushes <= THREADS * COUNT);
    let image = disk.crash_image(0, keyrack_vfs::CrashPolicy::DropAll);
    assert_eq!(open_from(&image, 0, small()).unwrap().2.len() as u64, THREADS * COUNT);
}

/// Readers of `published` find every record below it whole, while writers go on.
#[test]
fn what_is_published_is_whole() {
    let disk = new_disk();
    let (log, _) = open(&disk, small());
    std::thread::scope(|scope| {
        for thread in 0..3_u8 {
            let log = &log;
            scope.spawn(move || {
                for number in 0..400_u64 {
                    append(log, &vec![thread; (number * 13 % 700) as usize]).unwrap();
                }
            });
        }
        for _ in 0..30 {
            let published = log.published();
            let (_, recovered, _) = open_from(&disk.process_crash_image(), 0, small()).unwrap();
            assert!(recovered.end >= published.min(recovered.end.next_multiple_of(4_096)));
            assert!(recovered.records == 0 || recovered.end >= published);
        }
    });
}

/// A thread may hold several reservations, if it publishes them in order.
#[test]
fn reservations_are_written_in_any_order_and_published_in_one() {
    let disk = new_disk();
    let (log, _) = open(&disk, small());
    let mut held: Vec<_> = (0..40_usize).map(|number| log.reserve(number * 20).unwrap()).collect();
    for (number, record) in held.iter_mut().enumerate().rev() {
        record.write(&[&vec![number as u8; number * 20]]).unwrap();
    }
    let lsns: Vec<_> = held.iter().map(|record| record.lsn()).collect();
    let end = held[39].end();
    assert!(log.published() <= lsns[0]);
    held.into_iter().for_each(|record| record.publish());
    assert_eq!(log.published(), end);
    drop(log);
    let records = open(&disk, small()).1;
    assert_eq!(records.iter().map(|record| record.0).collect::<Vec<_>>(), lsns);
    assert!(records.iter().enumerate().all(|(at, (_, p))| *p == vec![at as u8; at * 20]));
}

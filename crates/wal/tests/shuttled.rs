//! The log as a whole under shuttle: threads reserve, write, publish and commit together, over the
//! ends of segments, in random schedules; then the power goes.
//!
//! An acknowledgement is a promise at once: at the moment that a commit returns, a power loss that
//! drops whatever was not synced leaves the record, and all that were reserved before it.

use std::sync::{Arc, Mutex};

use keyrack_concurrent::schedules::explore;
use keyrack_vfs::{CrashPolicy, MemFs};
use keyrack_wal::{Log, Options, Sync};
use shuttle::thread;

use crate::tool::{append, new_disk, open_from};

const SCHEDULES: usize = 10_000;

fn options() -> Options {
    Options { segment_bytes: 4_096, sync: Sync::Always, ..Options::default() }
}

fn log_on(disk: &MemFs) -> Arc<Log> {
    Arc::new(open_from(disk, 0, options()).unwrap().0)
}

/// The records that a power loss leaves at this moment.
fn left(disk: &MemFs) -> Vec<(u64, Vec<u8>)> {
    open_from(&disk.crash_image(1, CrashPolicy::DropAll), 0, options()).unwrap().2
}

#[test]
fn what_was_committed_is_there_when_the_power_goes() {
    explore(SCHEDULES, || {
        let disk = new_disk();
        let log = log_on(&disk);
        let told = Arc::new(Mutex::new(Vec::new()));
        let writers: Vec<_> = (1..=3_u8)
            .map(|writer| {
                let (log, disk, told) = (Arc::clone(&log), disk.clone(), Arc::clone(&told));
                thread::spawn(move || {
                    for length in [1_300, 20] {
                        let payload = vec![writer; length + usize::from(writer)];
                        let (lsn, end) = append(&log, &payload).unwrap();
                        log.commit(end).unwrap();
                        assert!(log.published() >= end && log.synced() >= end);
                        // Looking at the disk changes no threads: it is that of this moment.
                        if length == 20 {
                            let left = left(&disk);
                            assert!(left.contains(&(lsn, payload.clone())), "{lsn}");
                        }
                        told.lock().unwrap().push((lsn, payload));
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let mut told = Arc::into_inner(told).unwrap().into_inner().unwrap();
        told.sort();
        assert_eq!(left(&disk), told, "all of them, once, and nothing else");
        drop(log);
    });
}

/// Nobody commits; one syncs what is published while others write.
#[test]
fn what_a_sync_covers_has_no_gap() {
    explore(SCHEDULES / 2, || {
        let disk = new_disk();
        let log = log_on(&disk);
        let writers: Vec<_> = (1..=2_u8)
            .map(|writer| {
                let log = Arc::clone(&log);
                thread::spawn(move || {
                    for length in [2_000, 8, 1_900] {
                        append(&log, &vec![writer; length]).unwrap();
                    }
                })
            })
            .collect();
        let synced: Vec<_> = (0..2)
            .map(|_| {
                let to = log.published();
                log.sync(to).unwrap();
                (to, left(&disk))
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        log.sync(log.published()).unwrap();
        let left = left(&disk);
        assert_eq!(left.len(), 6);
        for (to, early) in synced {
            assert!(left.starts_with(&early), "a beginning");
            let below = left.iter().filter(|(lsn, _)| *lsn < to).count();
            assert!(early.len() >= below, "{} of {below} records below {to}", early.len());
        }
        for writer in 1..=2 {
            let own = left.iter().filter(|(_, payload)| payload[0] == writer);
            let lengths: Vec<usize> = own.map(|(_, payload)| payload.len()).collect();
            assert_eq!(lengths, [2_000, 8, 1_900], "in the order of who wrote them");
        }
        drop(log);
    });
}

//! The log on a file system of the machine.

use keyrack_vfs::{Fs, OpenOptions, RealFs};
use keyrack_wal::{Error, Log, Options, Sync};
use std::sync::Arc;

use crate::tool::{Records, append};

fn open(dir: &tempfile::TempDir, from: u64, options: Options) -> (Log, Records) {
    let mut records = Records::new();
    let mut replay = |lsn, payload: &[u8]| {
        records.push((lsn, payload.to_vec()));
        Ok::<_, Error>(())
    };
    let path = dir.path().join("log");
    let (log, _) = Log::open(Arc::new(RealFs), &path, from, options, &mut replay).unwrap();
    (log, records)
}

#[test]
fn records_of_many_threads_come_back_from_a_real_disk() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { segment_bytes: 1 << 16, sync: Sync::Always, ..Options::default() };
    let (mut written, mut from) = (Records::new(), 0);
    for life in 0..3_u8 {
        let (log, records) = open(&dir, from, options);
        assert_eq!(records, written);
        let new: Records = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..3_u8)
                .map(|thread| {
                    let log = &log;
                    scope.spawn(move || {
                        let mut mine = Records::new();
                        for number in 0..300_usize {
                            let payload = vec![thread ^ life; number * 7 % 1_000];
                            let (lsn, end) = append(log, &payload).unwrap();
                            if number % 50 == 0 {
                                log.commit(end).unwrap();
                                assert!(log.synced() >= end);
                            }
                            mine.push((lsn, payload));
                        }
                        mine
                    })
                })
                .collect();
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
        });
        written.extend(new);
        written.sort();
        from = written[written.len() - 500].0;
        written.drain(..written.len() - 500);
        log.release(from).unwrap();
        for _ in 0..200 {
            let payload = vec![life; 1_000];
            written.push((append(&log, &payload).unwrap().0, payload));
        }
        let stats = log.stats();
        assert!(stats.made > 5 && stats.recycled > 0, "{stats:?}");
        if life == 1 {
            log.close().unwrap();
        }
    }
    assert_eq!(open(&dir, from, options).1, written);
}

/// As after the end of a process that closed nothing. Where the file system can do it, the records
/// went past the page cache.
#[test]
fn committed_records_are_in_the_files_of_an_open_log() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let options = Options { segment_bytes: 1 << 17, sync: Sync::Always, ..Options::default() };
    let (log, _) = open(&dir, 0, options);
    let mut written = Records::new();
    for number in 0..800_usize {
        let payload = vec![number as u8; number * 13 % 900];
        let (lsn, end) = append(&log, &payload).unwrap();
        written.push((lsn, payload));
        if number % 3 == 0 || number == 799 {
            log.commit(end).unwrap();
        }
    }
    assert!(log.stats().made > 2, "the first segment has grown, and others came");
    append(&log, b"may be lost").unwrap();
    let (from, to) = (dir.path().join("log"), copy.path().join("log"));
    RealFs.create_dir(&to).unwrap();
    let probe = RealFs
        .open(&dir.path().join("probe"), &OpenOptions::new().write(true).read(true).create(true));
    let is_direct = probe.unwrap().map_direct(4096).unwrap().is_some();
    for entry in RealFs.list(&from).unwrap() {
        let bytes = RealFs.read(&from.join(&entry.name)).unwrap();
        let is_written = bytes.windows(11).any(|bytes| bytes == b"may be lost");
        assert!(!(is_direct && is_written), "a record went into the page cache");
        RealFs.write_atomic(&to.join(&entry.name), &bytes).unwrap();
    }
    let (_, records) = open(&copy, 0, options);
    assert_eq!(records[..written.len()], written);
}

/// Each closed log kept a whole segment, and those that it would have used next.
#[test]
fn a_closed_log_holds_its_records_and_no_space_for_more() {
    let dir = tempfile::tempdir().unwrap();
    let bytes_on_disk = || -> u64 {
        let log = dir.path().join("log");
        let entries = RealFs.list(&log).unwrap();
        entries.iter().map(|entry| RealFs.metadata(&log.join(&entry.name)).unwrap().len).sum()
    };
    let segment_bytes = 1 << 20;
    let millisecond = std::time::Duration::from_millis(1);
    let mut written = Records::new();
    for (life, sync) in
        [Sync::Os, Sync::Always, Sync::Interval(millisecond)].into_iter().enumerate()
    {
        let options = Options { segment_bytes, sync, recycled_max: 4, ..Options::default() };
        let (log, records) = open(&dir, 0, options);
        assert_eq!(records, written);
        let count = if life == 1 { 20 } else { 2 };
        for number in 0..count {
            let payload = vec![number; 100_000];
            written.push((append(&log, &payload).unwrap().0, payload));
        }
        assert!(bytes_on_disk() > segment_bytes);
        log.close().unwrap();
        let payloads: usize = written.iter().map(|(_, payload)| payload.len()).sum();
        let used = bytes_on_disk();
        // Segments that are full hold their records, and what did not fit at their end.
        assert!(used < payloads as u64 + 200_000, "{used} bytes for {payloads}");
    }
    assert_eq!(open(&dir, 0, Options { segment_bytes, ..Options::default() }).1, written);
}

//! The log on a file system of the machine.

use keyrack_vfs::RealFs;
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
        let stats = log.stats();
        assert!(stats.made > 5, "{stats:?}");
        assert!(life == 0 || stats.recycled > 0, "{stats:?}");
        if life == 1 {
            log.close().unwrap();
        }
    }
    assert_eq!(open(&dir, from, options).1, written);
}

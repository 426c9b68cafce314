//! Releasing segments, and using their files again.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use keyrack_vfs::{CrashPolicy, Fault, FaultFs, FaultPlan, Fs, MemFs, Operation};
use keyrack_wal::{Log, Options};

use crate::tool::{DIR, Records, WAYS, Way, append, new_disk, open, open_from, small};

/// The names of the segments.
fn names(disk: &MemFs) -> Vec<String> {
    let entries = disk.list(Path::new(DIR)).unwrap();
    let names = entries.into_iter().map(|entry| entry.name.into_string().unwrap());
    names.filter(|name| name != "NEWEST").collect()
}

/// Appends records of one size; the same sizes make old and new records lie at the same places.
fn fill(log: &Log, count: usize, mark: u8, written: &mut Records) {
    for number in 0..count {
        let payload = vec![mark ^ number as u8; 112];
        written.push((append(log, &payload).unwrap().0, payload));
    }
}

#[test]
fn released_segments_are_used_again_and_never_replayed_as_what_they_were() {
    WAYS.into_iter().for_each(use_segments_again);
}

fn use_segments_again(way: Way) {
    let disk = way.disk();
    let options = Options { recycled_max: 3, ..way.options() };
    let (log, _) = open(&disk, options);
    let mut written = Vec::new();
    let mut below = 0;
    for round in 0..20_u8 {
        fill(&log, 70, round, &mut written);
        // At each stage the process may die.
        if way.is_lost_with_the_process() {
            let (_, _, records) = open_from(&disk.process_crash_image(), below, options).unwrap();
            let expected: Vec<_> = written.iter().filter(|(at, _)| *at >= below).cloned().collect();
            let synced = expected.iter().filter(|(at, _)| *at < log.synced()).count();
            assert!(expected.starts_with(&records) && records.len() >= synced, "round {round}");
            log.sync(log.published()).unwrap();
        }
        let killed = disk.process_crash_image();
        let (_, _, records) = open_from(&killed, below, options).unwrap();
        let expected: Vec<_> = written.iter().filter(|(at, _)| *at >= below).cloned().collect();
        assert_eq!(records, expected, "round {round}");
        if round % 2 == 1 {
            below = written[written.len() - 40].0;
            log.release(below).unwrap();
        }
    }
    let stats = log.stats();
    assert!(stats.recycled > 10 && stats.recycled < stats.made, "{stats:?}");
    assert!(stats.segments <= 6 && stats.spare_segments <= 4, "{stats:?}");
    assert_eq!(stats.file_bytes, (stats.segments + stats.spare_segments) * 8_192);
    // What was spare is found again, unless the log was closed.
    let disk = disk.process_crash_image();
    drop(log);
    let (log, _, records) = open_from(&disk, below, options).unwrap();
    let expected: Vec<_> = written.into_iter().filter(|(at, _)| *at >= below).collect();
    assert_eq!(records, expected);
    assert!(names(&disk).len() <= 8, "{:?}", names(&disk));
    let mut more = Vec::new();
    fill(&log, 200, 0, &mut more);
    assert!(log.stats().recycled > 0);
}

#[test]
fn segments_beyond_the_limit_are_removed() {
    for recycled_max in [0, 1, 5] {
        let disk = new_disk();
        let options = Options { recycled_max, ..small() };
        let (log, _) = open(&disk, options);
        fill(&log, 400, 0, &mut Vec::new());
        let before = log.stats();
        assert!(before.segments > 10, "{before:?}");
        log.release(log.published()).unwrap();
        let after = log.stats();
        assert_eq!(after.segments, 1);
        let prepared = before.spare_segments;
        assert_eq!(after.spare_segments, recycled_max as u64 + prepared);
        assert_eq!(names(&disk).len() as u64, 1 + after.spare_segments);
    }
}

#[test]
fn a_trimmed_log_has_no_spare_files_and_goes_on() {
    let disk = new_disk();
    let options = Options { recycled_max: 3, ..small() };
    let (log, _) = open(&disk, options);
    let mut written = Vec::new();
    let mut below = 0;
    for round in 0..6_u8 {
        // Ends in either half of a segment: with the next one made ahead, and without.
        fill(&log, 70 + 9 * usize::from(round), round, &mut written);
        below = written[written.len() - 5].0;
        log.release(below).unwrap();
        assert!(log.has_spares(), "round {round}");
        log.trim().unwrap();
        let stats = log.stats();
        assert_eq!((log.has_spares(), stats.spare_segments), (false, 0), "round {round}");
        assert_eq!(names(&disk).len() as u64, stats.segments, "round {round}");
        let killed = disk.process_crash_image();
        let (_, _, records) = open_from(&killed, below, options).unwrap();
        assert_eq!(records, written[written.len() - 5..], "round {round}");
    }
    drop(log);
    let (_, _, records) = open_from(&disk, below, options).unwrap();
    assert_eq!(records, written[written.len() - 5..]);
}

#[test]
fn a_spare_that_cannot_be_removed_stays_one() {
    let disk = new_disk();
    let faulty = FaultFs::new(Arc::new(disk.clone()));
    let (log, _) = open(&faulty, Options { recycled_max: 3, ..small() });
    fill(&log, 140, 0, &mut Vec::new());
    log.release(log.published()).unwrap();
    assert_eq!(log.stats().spare_segments, 3, "none is made ahead");
    faulty.arm(FaultPlan::once(1, Fault::Io).only(&[Operation::RemoveFile]));
    log.trim().unwrap_err();
    assert_eq!(log.stats().spare_segments, 3);
    log.trim().unwrap();
    assert_eq!((log.has_spares(), names(&disk).len()), (false, 1));
    fill(&log, 200, 0, &mut Vec::new());
}

#[test]
fn the_newest_segment_and_what_is_not_published_stay() {
    let disk = new_disk();
    let (log, _) = open(&disk, Options { recycled_max: 0, ..small() });
    let mut written = Vec::new();
    fill(&log, 100, 0, &mut written);
    let mut later = Vec::new();
    let held: Vec<_> = (0..100).map(|_| log.reserve(200).unwrap()).collect();
    log.release(u64::MAX).unwrap();
    let from = held[0].lsn();
    let (_, _, records) = open_from(&disk.process_crash_image(), from, small()).unwrap();
    assert_eq!(records, []);
    held.into_iter().for_each(|record| record.publish());
    log.release(u64::MAX).unwrap();
    assert_eq!(log.stats().segments, 1);
    let from = log.published();
    fill(&log, 100, 1, &mut later);
    drop(log);
    assert_eq!(open_from(&disk, from, small()).unwrap().2, later);
}

/// A log that is opened and closed again and again does not pile up files.
#[test]
fn reopening_does_not_pile_up_segments() {
    let disk = new_disk();
    let mut from = 0;
    for _ in 0..20 {
        let (log, _, _) = open_from(&disk, from, small()).unwrap();
        fill(&log, 20, 0, &mut Vec::new());
        from = log.published();
        log.release(from).unwrap();
        log.close().unwrap();
        assert!(names(&disk).len() <= 4, "{:?}", names(&disk));
    }
}

/// Old records lie behind the end of a recycled segment, at the very places where new ones would
/// be. After a kill nothing is reported dropped because of them.
#[test]
fn old_records_behind_the_end_are_not_taken_for_a_torn_tail() {
    WAYS.into_iter().for_each(leave_old_records_behind_the_end);
}

fn leave_old_records_behind_the_end(way: Way) {
    let disk = way.disk();
    let (log, _) = open(&disk, way.options());
    let mut written = Vec::new();
    let (mut quiet, mut recycled) = (0, 0);
    for round in 0..300 {
        fill(&log, 1, round as u8, &mut written);
        if round % 50 == 49 {
            log.release(log.published()).unwrap();
        }
        if way.is_lost_with_the_process() {
            log.sync(log.published()).unwrap();
        }
        let last = &written[written.len() - 10.min(written.len())..];
        let killed = disk.process_crash_image();
        let (_, recovered, records) = open_from(&killed, last[0].0, way.options()).unwrap();
        assert_eq!((records.as_slice(), recovered.dropped_records), (last, 0));
        quiet += usize::from(recovered.dropped_bytes == 0);
        recycled = log.stats().recycled;
    }
    assert!(recycled > 3);
    assert_eq!(quiet, 300);
}

/// What was recovered is released before anything is written: nothing of it has to be made durable
/// any more.
#[test]
fn recovered_segments_may_be_released_at_once() {
    let ways = [0, 1, 10].into_iter().flat_map(|recycled_max| WAYS.map(|way| (recycled_max, way)));
    for (recycled_max, way) in ways {
        let disk = way.disk();
        let options = Options { recycled_max, ..way.options() };
        let (log, _) = open(&disk, options);
        let mut written = Vec::new();
        fill(&log, 150, 0, &mut written);
        if way.is_lost_with_the_process() {
            log.sync(log.published()).unwrap();
        }
        let killed = disk.process_crash_image();
        let (log, _, records) = open_from(&killed, 0, options).unwrap();
        assert_eq!(records, written);
        assert!(log.synced() < log.published());
        log.release(log.published()).unwrap();
        let from = log.published();
        log.sync(from).unwrap();
        let (lsn, _) = append(&log, b"after").unwrap();
        log.close().unwrap();
        let image = killed.crash_image(0, CrashPolicy::DropAll);
        let (_, _, records) = open_from(&image, from, options).unwrap();
        assert_eq!(records, [(lsn, b"after".to_vec())]);
    }
}

/// A close cuts the newest segment. When its file was used again, only the header was synced: a
/// power loss could leave it as short as it was, and the log was damaged.
#[test]
fn a_file_that_a_close_has_cut_gets_its_length_back_durably() {
    for way in WAYS {
        let (disk, options) = (way.disk(), way.options());
        let (log, _) = open(&disk, options);
        append(&log, b"first").unwrap();
        log.close().unwrap();
        let (log, _) = open(&disk, options);
        append(&log, b"second").unwrap();
        let from = log.published();
        log.release(from).unwrap();
        let mut written = Vec::new();
        while log.stats().recycled == 0 {
            fill(&log, 1, 0, &mut written);
        }
        log.sync(log.published()).unwrap();
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Reordered] {
            let image = disk.crash_image(1, policy);
            let (_, _, records) = open_from(&image, from, options)
                .unwrap_or_else(|error| panic!("{way:?}, {policy:?}: {error}"));
            assert!(records == written, "{way:?}, {policy:?}: {} records", records.len());
        }
    }
}

/// Everything is released, the newest segment too, and the power goes out while its successor is
/// made: reading begins at the newest segment, so its file must not be used for that.
#[test]
fn the_newest_segment_is_not_recycled_before_there_is_a_newer_one() {
    WAYS.into_iter().for_each(release_the_newest_segment);
}

fn release_the_newest_segment(way: Way) {
    let disk = way.disk();
    let options = Options { recycled_max: 10, ..way.options() };
    let (log, _) = open(&disk, options);
    // The last segment is not half full, so that none is made ahead.
    fill(&log, 140, 0, &mut Vec::new());
    if way.is_lost_with_the_process() {
        log.sync(log.published()).unwrap();
    }
    let killed = disk.process_crash_image().crash_image(0, CrashPolicy::KeepAll);
    for n in 1.. {
        let image = killed.crash_image(n, CrashPolicy::KeepAll);
        let fs = FaultFs::new(Arc::new(image.clone()));
        let (log, _, _) = open_from(&fs, 0, options).unwrap();
        let from = log.published();
        fs.arm(FaultPlan::from_then_on(n, Fault::PowerOut));
        let appended = log.release(from).and_then(|()| append(&log, b"after"));
        let synced = appended.and_then(|(_, end)| log.sync(end));
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Reordered] {
            let image = image.crash_image(n, policy);
            let (after, _, records) = open_from(&image, from, options).unwrap();
            assert!(after.published() >= from);
            assert!(records.len() <= 1 && (synced.is_err() || records.len() == 1));
        }
        if fs.injected() == 0 {
            break;
        }
    }
}

/// The writer that crossed the middle of a segment waited for three syncs. With a caller that
/// prepares segments, writers sync nothing, and are told several times, since a segment that was
/// created ahead may have been trimmed.
#[test]
fn a_caller_that_prepares_segments_keeps_syncs_from_writers() {
    let disk = new_disk();
    let fs = FaultFs::new(Arc::new(disk.clone()));
    let syncs = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&syncs);
    fs.watch(move |operation, _| {
        let is_sync = matches!(operation, Operation::Sync | Operation::SyncDir | Operation::Flush);
        seen.fetch_add(usize::from(is_sync), Ordering::Relaxed);
    });
    let options = Options { prepared_by_caller: true, recycled_max: 1, ..small() };
    let (log, _) = open(&fs, options);
    let mut written = Vec::new();
    let mut put = |number: u8| {
        let mut record = log.reserve(112).unwrap();
        record.write(&[&[number; 112]]).unwrap();
        written.push((record.lsn(), vec![number; 112]));
        record.publish_asking()
    };
    put(0);
    let (mut asked, mut prepared, mut from) = (0, 0, 0);
    for number in 1..200_u8 {
        let before = syncs.load(Ordering::Relaxed);
        let asks = put(number);
        assert_eq!(syncs.load(Ordering::Relaxed), before, "record {number} waited for a sync");
        asked += usize::from(asks);
        if asks {
            log.prepare();
            prepared += usize::from(syncs.load(Ordering::Relaxed) > before);
            if number % 32 == 7 {
                // As when nobody writes for a while.
                log.trim().unwrap();
            }
        }
        if number == 100 {
            from = log.published();
            log.release(from).unwrap();
        }
    }
    assert!(prepared > 4 && asked > 2 * prepared, "{prepared} segments, asked {asked} times");
    let killed = disk.process_crash_image();
    let (_, _, records) = open_from(&killed, from, options).unwrap();
    assert_eq!(records.last(), written.last());
}

/// Segments that are prepared where they are filled fast.
const PREPARED_FAST: u64 = 4;

/// Fills segments, as fast as it goes, until that many are prepared.
fn fill_until_all_are_prepared(log: &Log, written: &mut Vec<(u64, Vec<u8>)>) {
    while log.stats().spare_segments < PREPARED_FAST {
        let number = written.len() as u8;
        let mut record = log.reserve(112).unwrap();
        record.write(&[&[number; 112]]).unwrap();
        written.push((record.lsn(), vec![number; 112]));
        if record.publish_asking() {
            log.prepare();
        }
    }
}

fn prepared_by_caller(way: Way) -> Options {
    Options { prepared_by_caller: true, recycled_max: 0, ..way.options() }
}

/// A writer at the end of a segment waited for the lock that a creation held, also where the
/// segment that it needed was there.
#[test]
fn a_writer_does_not_wait_for_a_creation_that_is_under_way() {
    let fs = FaultFs::new(Arc::new(new_disk()));
    let (log, _) = open(&fs, prepared_by_caller(Way::Cached));
    let mut written = Vec::new();
    fill_until_all_are_prepared(&log, &mut written);
    let (is_creating, creating) = mpsc::channel();
    let (is_written, wait) = mpsc::channel();
    // The first sync of the creation is held up until the writer is done. An hour is for ever.
    let held = Mutex::new(Some((is_creating, wait)));
    fs.watch(move |operation, _| {
        if matches!(operation, Operation::Sync | Operation::Flush)
            && let Some((is_creating, wait)) = held.lock().unwrap().take()
        {
            is_creating.send(()).unwrap();
            wait.recv_timeout(Duration::from_secs(3600)).unwrap();
        }
    });
    std::thread::scope(|scope| {
        // The writer goes on to the first of them.
        let segments = log.stats().segments;
        while log.stats().segments == segments {
            append(&log, &[1; 112]).unwrap();
        }
        scope.spawn(|| log.prepare());
        creating.recv().unwrap();
        while log.stats().segments == segments + 1 {
            append(&log, &[2; 112]).unwrap();
        }
        is_written.send(()).unwrap();
    });
    assert_eq!(log.stats().spare_segments, PREPARED_FAST, "that one, and one more");
}

/// The file of a later segment without the one before it would be damage.
#[test]
fn a_power_loss_while_prepared_segments_are_removed_loses_nothing() {
    WAYS.into_iter().for_each(remove_prepared_segments_without_power);
}

fn remove_prepared_segments_without_power(way: Way) {
    for n in 1.. {
        let disk = way.disk();
        let fs = FaultFs::new(Arc::new(disk.clone()));
        let (log, _) = open(&fs, prepared_by_caller(way));
        let mut written = Vec::new();
        fill_until_all_are_prepared(&log, &mut written);
        log.sync(log.published()).unwrap();
        fs.arm(FaultPlan::from_then_on(n, Fault::PowerOut));
        // Without power nothing has to succeed.
        let _ = log.trim();
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Reordered] {
            let image = disk.crash_image(n, policy);
            let (_, recovered, records) = open_from(&image, 0, prepared_by_caller(way)).unwrap();
            assert_eq!(
                (records, recovered.dropped_records),
                (written.clone(), 0),
                "{n} {policy:?}"
            );
        }
        if fs.injected() == 0 {
            break;
        }
    }
}

/// One that cannot be removed stays, and so does the one before it.
#[test]
fn a_prepared_segment_that_cannot_be_removed_is_made_again() {
    for fails in [1, 2] {
        let disk = new_disk();
        let fs = FaultFs::new(Arc::new(disk.clone()));
        let (log, _) = open(&fs, prepared_by_caller(Way::Cached));
        let mut written = Vec::new();
        fill_until_all_are_prepared(&log, &mut written);
        fs.arm(FaultPlan::once(fails, Fault::Io).only(&[Operation::RemoveFile]));
        log.trim().unwrap();
        assert_eq!((fs.injected(), log.stats().spare_segments), (1, 0));
        let killed = disk.process_crash_image();
        let (_, _, records) = open_from(&killed, 0, prepared_by_caller(Way::Cached)).unwrap();
        assert_eq!(records, written);
        fill_until_all_are_prepared(&log, &mut written);
        drop(log);
        let (_, _, records) = open_from(&disk, 0, prepared_by_caller(Way::Cached)).unwrap();
        assert_eq!(records, written);
    }
}

/// All records were released, so that an empty segment takes the place of all others. It left the
/// newest of the prepared ones alone with a hole before it.
#[test]
fn a_closed_log_without_records_has_no_hole_if_a_file_stays() {
    for fails in 1..=PREPARED_FAST {
        let disk = new_disk();
        let fs = FaultFs::new(Arc::new(disk.clone()));
        let (log, _) = open(&fs, prepared_by_caller(Way::Cached));
        fill_until_all_are_prepared(&log, &mut Vec::new());
        append(&log, b"last").unwrap();
        let end = log.published();
        log.release(end).unwrap();
        fs.arm(FaultPlan::once(fails, Fault::Io).only(&[Operation::RemoveFile]));
        log.close().unwrap();
        assert_eq!(fs.injected(), 1);
        let (log, _, records) = open_from(&disk, end, prepared_by_caller(Way::Cached)).unwrap();
        assert_eq!(records, []);
        let (lsn, _) = append(&log, b"after").unwrap();
        drop(log);
        let (_, _, records) = open_from(&disk, end, prepared_by_caller(Way::Cached)).unwrap();
        assert_eq!(records, [(lsn, b"after".to_vec())]);
    }
}

/// Prepares segments on a disk that fails once, and closes the log. What is left is no damage.
fn prepare_on_a_failing_disk(
    (fs, disk): (&FaultFs, &MemFs),
    (log, way): (Log, Way),
    written: &[(u64, Vec<u8>)],
    n: u64,
) {
    log.sync(log.published()).unwrap();
    fs.arm(FaultPlan::once(n, Fault::Io));
    log.prepare();
    // A failed sync is final.
    let _ = log.close();
    let (_, _, records) = open_from(disk, 0, prepared_by_caller(way))
        .unwrap_or_else(|error| panic!("operation {n} failed: {error}"));
    assert!(records == written, "operation {n} failed: {} records", records.len());
}

/// The mark of a prepared segment failed. Its file stayed when the close removed those before it:
/// the log could not be opened any more.
#[test]
fn a_prepared_segment_whose_mark_fails_leaves_no_hole() {
    WAYS.into_iter().for_each(fail_a_mark);
}

fn fail_a_mark(way: Way) {
    for n in 1.. {
        let disk = way.disk();
        let fs = FaultFs::new(Arc::new(disk.clone()));
        let (log, _) = open(&fs, prepared_by_caller(way));
        let mut written = Vec::new();
        fill_until_all_are_prepared(&log, &mut written);
        let segments = log.stats().segments;
        while log.stats().segments == segments {
            written.push(append(&log, &[1; 112]).map(|(lsn, _)| (lsn, vec![1; 112])).unwrap());
        }
        prepare_on_a_failing_disk((&fs, &disk), (log, way), &written, n);
        if fs.injected() == 0 {
            break;
        }
    }
}

/// Those that could not be removed were forgotten, and the close removed the one before them.
#[test]
fn prepared_segments_that_cannot_be_removed_leave_no_hole_later() {
    for (fails, way) in (1..=PREPARED_FAST).flat_map(|fails| WAYS.map(|way| (fails, way))) {
        for n in 1.. {
            let disk = way.disk();
            let fs = FaultFs::new(Arc::new(disk.clone()));
            let (log, _) = open(&fs, prepared_by_caller(way));
            let mut written = Vec::new();
            fill_until_all_are_prepared(&log, &mut written);
            fs.arm(FaultPlan::once(fails, Fault::Io).only(&[Operation::RemoveFile]));
            log.trim().unwrap();
            assert_eq!((fs.injected(), log.stats().spare_segments), (1, 0));
            prepare_on_a_failing_disk((&fs, &disk), (log, way), &written, n);
            if fs.injected() == 0 {
                break;
            }
        }
    }
}

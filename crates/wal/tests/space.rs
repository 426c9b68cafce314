//! The space that a log takes: while it grows, and after a close.

use std::path::Path;
use std::sync::Arc;

use keyrack_vfs::{CrashPolicy, Fault, FaultFs, FaultPlan, Fs, MemFs, Operation};
use keyrack_wal::{Error, Log, Options, salvage};

use crate::tool::{DIR, Records, WAYS, Way, append, new_disk, open, open_from, segments, small};

/// Bytes before the records of a segment.
const FRONT_BYTES: u64 = 4_096;

fn large(way: Way) -> Options {
    Options { segment_bytes: 16 << 20, ..way.options() }
}

/// Bytes of all files of the log.
fn bytes_of(disk: &MemFs) -> u64 {
    let entries = disk.list(Path::new(DIR)).unwrap();
    let len = |name| disk.metadata(&Path::new(DIR).join(name)).unwrap().len;
    entries.into_iter().map(|entry| len(entry.name)).sum()
}

/// A segment had all its space, 16 MiB, with its first record.
#[test]
fn the_space_of_the_first_segment_grows_with_its_records() {
    WAYS.into_iter().for_each(grow_the_first_segment);
}

fn grow_the_first_segment(way: Way) {
    let (disk, options) = (way.disk(), large(way));
    let (log, _) = open(&disk, options);
    let mut written = Records::new();
    let mut spaces = Vec::new();
    for number in 0..3_000_u32 {
        let payload = vec![number as u8; 1_000];
        let (lsn, end) = append(&log, &payload).unwrap();
        written.push((lsn, payload));
        let used = end - written[0].0;
        let space = log.stats().file_bytes - FRONT_BYTES;
        let most = (2 * used).min((used * 5).div_ceil(4).max(1 << 20) + 4_096).max(64 << 10);
        assert!(space >= used && space <= most, "{used} bytes, {space}");
        spaces.push(space);
    }
    spaces.dedup();
    let doubled: Vec<u64> = (16..=20).map(|log2| 1 << log2).collect();
    assert_eq!(spaces[..5], doubled);
    let killed = disk.process_crash_image();
    let left = open(&killed, options).1;
    assert!(left == if way.is_lost_with_the_process() { vec![] } else { written.clone() });
    log.sync(log.published()).unwrap();
    for image in [disk.crash_image(1, CrashPolicy::DropAll), disk.process_crash_image()] {
        assert!(open(&image, options).1 == written, "{way:?}");
    }
}

#[test]
fn a_record_larger_than_the_space_gets_its_own() {
    let sizes = [(0, 1 << 20), (100, 1 << 20), (100, (16 << 20) - 64)];
    for ((before, length), way) in sizes.into_iter().flat_map(|it| WAYS.map(|way| (it, way))) {
        let disk = way.disk();
        let (log, _) = open(&disk, large(way));
        let mut written = Records::new();
        for payload in [vec![1; before], vec![2; length], vec![3; 10]] {
            written.push((append(&log, &payload).unwrap().0, payload));
        }
        log.close().unwrap();
        assert!(open(&disk, large(way)).1 == written, "{before} and {length} bytes, {way:?}");
    }
}

#[test]
fn without_space_to_grow_nothing_is_reserved_and_the_next_call_tries_again() {
    WAYS.into_iter().for_each(grow_without_space);
}

fn grow_without_space(way: Way) {
    let (disk, options) = (way.disk(), large(way));
    let faulty = FaultFs::new(Arc::new(disk.clone()));
    let (log, _) = open(&faulty, options);
    let grows = if way == Way::Direct { Operation::Allocate } else { Operation::Map };
    let mut written = Records::new();
    let mut refused = 0;
    for number in 0..1_000 {
        if number % 50 == 0 {
            faulty.arm(FaultPlan::once(1, Fault::NoSpace).only(&[grows]));
        }
        let payload = vec![number as u8; 1_000];
        let place = match append(&log, &payload) {
            Ok(place) => place,
            Err(Error::Io(error)) => {
                assert!(error.is_no_space(), "{error}");
                refused += 1;
                append(&log, &payload).unwrap()
            }
            Err(error) => panic!("{error}"),
        };
        written.push((place.0, payload));
    }
    assert!(refused >= 4, "{refused}: it grows four times");
    drop(log);
    assert!(open(&disk, options).1 == written, "{way:?}");
}

/// A log of some segments, and where its records end.
fn filled(fs: &(impl Fs + Clone + 'static), options: Options) -> Result<(Log, u64), Error> {
    let (log, _, _) = open_from(fs, 0, options)?;
    let mut end = 0;
    for number in 0..100_u8 {
        end = append(&log, &[number; 150])?.1;
    }
    Ok((log, end))
}

/// The newest segment kept its records after a close, although nobody would read them.
#[test]
fn a_close_after_everything_was_released_leaves_an_empty_segment() {
    for (options, way) in WAYS.into_iter().flat_map(|way| [(way.options(), way), (large(way), way)])
    {
        let is_small = options == way.options();
        let disk = way.disk();
        let mut end = 0;
        for round in 0..3 {
            let (log, recovered, records) = open_from(&disk, end, options).unwrap();
            assert_eq!((records.len(), recovered.dropped_bytes), (0, 0), "round {round}");
            let mut last = 0;
            for number in 0..100_u8 {
                let (lsn, behind) = append(&log, &[number; 150]).unwrap();
                assert!(lsn >= end, "LSNs only grow");
                last = behind;
            }
            end = last;
            log.release(end).unwrap();
            log.close().unwrap();
            assert_eq!(segments(&disk).len(), 1);
            // A front and the marker; a few records are not worth the syncs.
            let few = if is_small { 4_096 } else { 0 };
            let bytes = bytes_of(&disk);
            assert!(bytes <= FRONT_BYTES + 1_024 + few, "round {round}: {bytes}");
        }
        // Whoever does not know where to begin finds that nothing is left.
        let mut any = |_: u64, _: &[u8]| Ok(());
        let salvaged = salvage::<Error>(&disk, Path::new(DIR), None, None, &mut any).unwrap();
        assert_eq!(salvaged.holes, []);
        assert!(salvaged.records == 0 || is_small, "{salvaged:?}");
        // What was not released stays.
        let (log, _, _) = open_from(&disk, end, options).unwrap();
        let (kept, behind) =
            append(&log, &[7; 5_000][..options.segment_bytes.min(4_000) as usize]).unwrap();
        log.release(kept).unwrap();
        log.close().unwrap();
        let (log, _, records) = open_from(&disk, kept, options).unwrap();
        assert_eq!(records.len(), 1);
        assert!(log.published() >= behind);
    }
}

/// A removed empty segment is noticed, as any newest one.
#[test]
fn the_empty_segment_is_missed_when_it_is_gone() {
    let disk = new_disk();
    let (log, end) = filled(&disk, small()).unwrap();
    log.release(end).unwrap();
    log.close().unwrap();
    disk.remove_file(&segments(&disk)[0]).unwrap();
    let Err(Error::Corruption { .. }) = open_from(&disk, end, small()) else { panic!("unnoticed") };
}

#[test]
fn a_close_that_a_crash_interrupts_leaves_a_sound_log() {
    for (options, way) in WAYS.into_iter().flat_map(|way| [(way.options(), way), (large(way), way)])
    {
        for n in 1.. {
            let disk = way.disk();
            let faulty = FaultFs::new(Arc::new(disk.clone()));
            let (log, end) = filled(&faulty, options).unwrap();
            // The caller has made durable what it took from the log, and the log has an identity.
            log.sync(end).unwrap();
            log.release(end).unwrap();
            faulty.arm(FaultPlan::from_then_on(n, Fault::PowerOut));
            let closed = log.close();
            let [none, all] = [CrashPolicy::DropAll, CrashPolicy::KeepAll];
            let some = [CrashPolicy::Ordered, CrashPolicy::Reordered];
            for (seed, policy) in [none, all].into_iter().chain(some.repeat(4)).enumerate() {
                let image = disk.crash_image(seed as u64 ^ n << 8, policy);
                let (log, _, records) = open_from(&image, end, options).unwrap();
                assert_eq!(records, [], "operation {n}, {policy:?}");
                let (lsn, behind) = append(&log, b"next").unwrap();
                assert!(lsn >= end);
                log.close().unwrap();
                let (_, _, records) = open_from(&image, end, options).unwrap();
                assert_eq!(records, [(lsn, b"next".to_vec())]);
                assert!(behind > lsn);
            }
            if faulty.injected() == 0 {
                closed.unwrap();
                assert!(n > 5, "a close has more operations");
                break;
            }
        }
    }
}

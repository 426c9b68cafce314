//! The space that a log takes: while it grows, and after a close.

use std::path::Path;
use std::sync::Arc;

use keyrack_vfs::{CrashPolicy, Fault, FaultFs, FaultPlan, Fs, MemFs, Operation};
use keyrack_wal::{Error, Log, Options, salvage};

use crate::tool::{DIR, Records, append, new_disk, open, open_from, segments, small};

/// Bytes before the records of a segment.
const FRONT_BYTES: u64 = 4_096;

fn large() -> Options {
    Options { segment_bytes: 16 << 20, ..Options::default() }
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
    let disk = new_disk();
    let (log, _) = open(&disk, large());
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
    assert_eq!(open(&killed, large()).1, written);
    log.sync(log.published()).unwrap();
    let lost = disk.crash_image(1, CrashPolicy::DropAll);
    assert_eq!(open(&lost, large()).1, written);
}

#[test]
fn a_record_larger_than_the_space_gets_its_own() {
    for (before, length) in [(0, 1 << 20), (100, 1 << 20), (100, (16 << 20) - 64)] {
        let disk = new_disk();
        let (log, _) = open(&disk, large());
        let mut written = Records::new();
        for payload in [vec![1; before], vec![2; length], vec![3; 10]] {
            written.push((append(&log, &payload).unwrap().0, payload));
        }
        log.close().unwrap();
        assert_eq!(open(&disk, large()).1, written, "{before} and {length} bytes");
    }
}

#[test]
fn without_space_to_grow_nothing_is_reserved_and_the_next_call_tries_again() {
    let disk = new_disk();
    let faulty = FaultFs::new(Arc::new(disk.clone()));
    let (log, _) = open(&faulty, large());
    let mut written = Records::new();
    let mut refused = 0;
    for number in 0..1_000 {
        if number % 50 == 0 {
            faulty.arm(FaultPlan::once(1, Fault::NoSpace).only(&[Operation::Map]));
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
    assert_eq!(open(&disk, large()).1, written);
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
    for options in [small(), large()] {
        let disk = new_disk();
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
            let few = if options == small() { 4_096 } else { 0 };
            let bytes = bytes_of(&disk);
            assert!(bytes <= FRONT_BYTES + 1_024 + few, "round {round}: {bytes}");
        }
        // Whoever does not know where to begin finds that nothing is left.
        let mut any = |_: u64, _: &[u8]| Ok(());
        let salvaged = salvage::<Error>(&disk, Path::new(DIR), None, None, &mut any).unwrap();
        assert_eq!(salvaged.holes, []);
        assert!(salvaged.records == 0 || options == small(), "{salvaged:?}");
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
    for options in [small(), large()] {
        for n in 1.. {
            let disk = new_disk();
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

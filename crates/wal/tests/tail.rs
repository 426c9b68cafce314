//! Reading the log while it is written, and its past after that: every record in order, or an error
//! that says from where on there are some.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use keyrack_testkit::camera::POLICIES;
use keyrack_testkit::random::{Announced, Draw, successive_seeds};
use keyrack_vfs::{Fault, FaultFs, FaultPlan, Fs, MemFs, Operation};
use keyrack_wal::{Error, Log, Options, Retention, Tail};

use crate::tool::{
    Records, WAYS, Way, append, bounded, file, new_disk, open, open_from, payload, segments, small,
};

const EVERYTHING: Retention = Retention { bytes: 1 << 40, seconds: 0, held_bytes: 0 };

fn keeping(retention: Retention) -> Options {
    Options { retention, ..small() }
}

/// Everything that a tail has by now.
fn rest(tail: &mut Tail, log: &Log) -> Result<Records, Error> {
    let bound = log.position_of(log.published().min(log.synced().max(log.position())));
    rest_below(tail, log, bound)
}

fn rest_below(tail: &mut Tail, log: &Log, bound: u64) -> Result<Records, Error> {
    let mut records = Records::new();
    while let Some(entry) = tail.next(log, bound)? {
        assert!(entry.lsn < entry.end && entry.end == tail.lsn() && entry.end <= bound);
        records.push((entry.lsn, entry.payload));
    }
    Ok(records)
}

#[test]
fn a_tail_has_each_record_once_it_is_published() {
    for way in WAYS {
        let (log, _) = open(&way.disk(), Options { retention: EVERYTHING, ..way.options() });
        let mut tail = log.tail(0).unwrap();
        assert_eq!(tail.next(&log, log.position()).unwrap(), None);
        let draw = &mut Draw::new(7);
        for round in 0..300_u32 {
            let payload = payload(draw, log.record_bytes_max());
            if round % 7 == 0 {
                drop(log.reserve(payload.len()).unwrap());
            }
            let (lsn, end) = append(&log, &payload).unwrap();
            log.sync(end).unwrap();
            log.release(lsn).unwrap();
            let entry = tail.next(&log, log.position()).unwrap().unwrap();
            assert_eq!((entry.lsn, entry.end, entry.payload), (lsn, end, payload), "{way:?}");
            assert_eq!(tail.next(&log, log.position()).unwrap(), None, "round {round}");
        }
    }
}

#[test]
fn nothing_at_or_above_the_bound_is_read() {
    let (log, _) = open(&new_disk(), small());
    let (_, first) = append(&log, b"first").unwrap();
    append(&log, b"second").unwrap();
    let mut tail = log.tail(0).unwrap();
    assert_eq!(rest_below(&mut tail, &log, first).unwrap().len(), 1);
    assert_eq!(rest_below(&mut tail, &log, first).unwrap().len(), 0);
    assert_eq!(rest(&mut tail, &log).unwrap()[0].1, b"second");
}

#[test]
fn time_marks_are_passed_and_no_recovery_sees_them() {
    let disk = new_disk();
    let (log, _) = open(&disk, small());
    let mut tail = log.tail(0).unwrap();
    assert_eq!(tail.time(), None);
    append(&log, b"one").unwrap();
    log.mark_time(|| 5_000).unwrap();
    let marked = log.position();
    append(&log, b"two").unwrap();
    assert_eq!(tail.next(&log, log.position()).unwrap().unwrap().payload, b"one");
    assert_eq!(tail.time(), None, "the mark is behind it");
    assert_eq!(tail.next(&log, log.position()).unwrap().unwrap().payload, b"two");
    let time = tail.time().unwrap();
    assert_eq!((time.end, time.unix_ms), (marked, 5_000));
    // The clock was set back.
    log.mark_time(|| 4_000).unwrap();
    assert_eq!(tail.next(&log, log.position()).unwrap(), None);
    assert_eq!(tail.time().unwrap().unix_ms, 5_000);
    assert_eq!(tail.time().unwrap().end, log.position());
    // One that begins behind a mark knows it all the same.
    assert_eq!(log.tail(marked).unwrap().time(), Some(time));
    drop(log);
    let records = open(&disk, small()).1;
    assert_eq!(records.iter().map(|(_, it)| &it[..]).collect::<Vec<_>>(), [b"one", b"two"]);
}

/// The clock went back between two openings, and so did the marks: a time stood for two places.
#[test]
fn the_times_of_marks_do_not_decrease_over_openings() {
    for way in WAYS {
        let options = || Options { retention: EVERYTHING, ..way.options() };
        let (disk, mut from) = (way.disk(), 0);
        for life in 0..6 {
            let (log, _, _) = open_from(&disk, from, options()).unwrap();
            append(&log, &[life; 100]).unwrap();
            log.mark_time(|| 9_000 - 1_000 * u64::from(life)).unwrap();
            // In some lives what is behind the mark fills more than a segment.
            for _ in 0..100 * (life % 3) {
                append(&log, &[life; 100]).unwrap();
            }
            // All of it was released, so a recovery reads nothing.
            if life % 2 == 1 {
                from = log.position();
                log.release(from).unwrap();
            }
            log.sync(log.published()).unwrap();
            let mut tail = log.tail(0).unwrap();
            let mut times = Vec::new();
            while tail.next(&log, log.position()).unwrap().is_some() {
                times.extend(tail.time().map(|mark| mark.unix_ms));
            }
            times.extend(tail.time().map(|mark| mark.unix_ms));
            assert!(times.iter().all(|time| *time == 9_000), "{way:?}, life {life}: {times:?}");
            if life > 2 {
                log.close().unwrap();
            }
        }
    }
}

/// Without retention, what was released was never synced. A power loss took it, and an opening with
/// retention took the hole for damage.
#[test]
fn a_hole_in_what_nobody_kept_is_no_damage() {
    for count in [20, 100_u32] {
        let disk = new_disk();
        let (log, _) = open(&disk, small());
        for number in 0..count {
            append(&log, &[number as u8; 100]).unwrap();
        }
        let from = log.position();
        log.release(from).unwrap();
        let (_, end) = append(&log, b"needed").unwrap();
        let image = disk.crash_image(1, POLICIES[0]);
        drop(log);
        let (log, _, _) = open_from(&image, from, keeping(EVERYTHING)).unwrap();
        let error = log.tail(0).and_then(|mut tail| rest(&mut tail, &log)).unwrap_err();
        let Error::NotKept { lsn, first } = error else { panic!("{error}") };
        assert!(lsn < first && first <= from && first == log.kept_from(), "{lsn}, {first}, {from}");
        // It is kept from there on, so a tail from there has all that is new.
        append(&log, b"new").unwrap();
        let found = rest(&mut log.tail(first).unwrap(), &log).unwrap();
        assert_eq!(found.last().unwrap().1, b"new");
        // What the crash took, and what the recovery needed, is damage or lost as before.
        assert!(log.tail(end - 8).is_err());
    }
}

/// What the log has given, over all openings.
struct History {
    written: Records,
    /// The ends of the records.
    ends: Vec<u64>,
    /// Those that a power loss took.
    lost: Vec<u64>,
    from: u64,
}

impl History {
    /// From some of the LSNs that were ever given, a tail has all records behind it, or says why
    /// not.
    fn check(&self, log: &Log, draw: &mut Draw) {
        let kept_from = log.kept_from();
        let chosen = (0..20).map(|_| draw.below(self.ends.len().max(1)));
        for at in chosen.chain([self.ends.len().saturating_sub(1)]) {
            let Some(end) = self.ends.get(at) else { break };
            let found = log.tail(*end).and_then(|mut tail| rest(&mut tail, log));
            match found {
                Ok(records) => assert_eq!(records, self.written[at + 1..], "from {end}"),
                Err(Error::NotKept { lsn, first }) => {
                    assert!(lsn == *end && first == kept_from && *end < kept_from);
                }
                Err(error) => panic!("from {end}: {error}"),
            }
        }
        for end in &self.lost {
            let error = log.tail(*end).unwrap_err();
            let is_told = match error {
                Error::NotWritten { lsn, end: before } => lsn == *end && before < *end,
                Error::NotKept { lsn, first } => lsn == *end && *end < first,
                _ => false,
            };
            assert!(is_told, "lost {end}: {error}");
        }
    }

    /// After a power loss: what was not found is lost.
    fn lose(&mut self, found: &[(u64, Vec<u8>)]) {
        let kept = self.written.iter().filter(|(lsn, _)| *lsn < self.from).count() + found.len();
        self.written.truncate(kept);
        self.lost.extend(self.ends.drain(kept..));
    }
}

#[test]
fn positions_mean_the_same_after_every_opening() {
    for seed in successive_seeds(30) {
        let _seed = Announced(seed);
        positions_mean_the_same(seed);
    }
}

fn positions_mean_the_same(seed: u64) {
    let draw = &mut Draw::new(seed);
    let way = WAYS[draw.below(3) as usize];
    let bytes = [1 << 40, 30_000, 9_000, 0][draw.below(4) as usize];
    let retention = Retention { bytes, seconds: 0, held_bytes: 0 };
    let options = Options { retention, recycled_max: draw.below(3) as usize, ..way.options() };
    let mut disk = way.disk();
    let mut history = History { written: Vec::new(), ends: Vec::new(), lost: Vec::new(), from: 0 };
    let mut log = open(&disk, options).0;
    for _ in 0..60 {
        match draw.below(12) {
            0..=5 => {
                for _ in 0..draw.below(60) {
                    let payload = payload(draw, 700);
                    let (lsn, end) = append(&log, &payload).unwrap();
                    history.written.push((lsn, payload));
                    history.ends.push(end);
                }
            }
            6 => _ = log.mark_time(|| draw.below(1_000)).unwrap(),
            7 => log.sync(log.published()).unwrap(),
            8 => {
                // As a caller does that keeps the log: durable first.
                log.sync(log.published()).unwrap();
                if let Some(last) = history.written.last() {
                    history.from = last.0;
                    log.release(history.from).unwrap();
                }
            }
            9 => {
                log.close().unwrap();
                log = open_from(&disk, history.from, options).unwrap().0;
            }
            _ => {
                let is_power_loss = draw.below(2) == 0;
                let image = match is_power_loss {
                    true => disk.crash_image(draw.next(), POLICIES[draw.below(3) as usize]),
                    false => disk.process_crash_image(),
                };
                let (reopened, _, found) = open_from(&image, history.from, options).unwrap();
                history.lose(&found);
                (disk, log) = (image, reopened);
                if way == Way::Direct || way == Way::Synced {
                    log.sync(log.published()).unwrap();
                }
            }
        }
        if way == Way::Direct {
            log.sync(log.published()).unwrap();
        }
        history.check(&log, draw);
    }
}

#[test]
fn a_position_within_a_record_or_above_the_end_is_refused() {
    let (log, _) = open(&new_disk(), small());
    let (lsn, end) = append(&log, b"some bytes").unwrap();
    append(&log, b"more").unwrap();
    for from in [lsn + 8, log.position() + 8, 1 << 40] {
        let error = log.tail(from).unwrap_err();
        assert!(matches!(error, Error::NotWritten { lsn, .. } if lsn == from), "{error}");
    }
    assert_eq!(rest(&mut log.tail(end).unwrap(), &log).unwrap().len(), 1);
    assert_eq!(rest(&mut log.tail(lsn).unwrap(), &log).unwrap().len(), 2);
}

#[test]
fn an_open_tail_holds_the_log_up_to_its_limit() {
    let retention = Retention { held_bytes: 5 * 4_096, ..Retention::default() };
    let (log, _) = open(&new_disk(), keeping(retention));
    let first = append(&log, &[1; 100]).unwrap();
    let mut slow = log.tail(0).unwrap();
    let mut written = vec![(first.0, vec![1; 100])];
    while log.stats().segments < 6 {
        written.push((append(&log, &[2; 100]).unwrap().0, vec![2; 100]));
    }
    log.release(written.last().unwrap().0).unwrap();
    assert_eq!((log.stats().segments, log.stats().kept_segments), (1, 5));
    assert_eq!(rest(&mut slow, &log).unwrap(), written);
    log.expire().unwrap();
    assert_eq!(log.stats().kept_segments, 0, "it holds what it has not read");
    drop(slow);

    let mut slow = log.tail(log.position()).unwrap();
    append(&log, &[3; 100]).unwrap();
    while log.stats().segments < 8 {
        append(&log, &[4; 100]).unwrap();
    }
    log.release(log.position()).unwrap();
    assert!(log.stats().kept_segments <= 5, "{:?}", log.stats());
    let error = rest(&mut slow, &log).unwrap_err();
    let Error::NotKept { lsn, first } = error else { panic!("{error}") };
    assert!(lsn < first && first == log.kept_from());
    let mut again = log.tail(first).unwrap();
    assert!(!rest(&mut again, &log).unwrap().is_empty());
    // Without a tail nothing is kept.
    drop((slow, again));
    log.expire().unwrap();
    assert_eq!(log.stats().kept_segments, 0);
}

/// The bytes of the file that a tail has open become those of another segment.
#[test]
fn a_tail_in_a_segment_that_is_used_again_gets_no_other_record() {
    for way in WAYS {
        let (log, _) = open(&way.disk(), Options { recycled_max: 3, ..way.options() });
        let mut expected = Vec::new();
        for number in 0..40_u8 {
            expected.push((append(&log, &[number; 112]).unwrap().0, vec![number; 112]));
        }
        log.sync(log.published()).unwrap();
        let mut tail = log.tail(0).unwrap();
        let end = log.position();
        assert_eq!(tail.next(&log, end).unwrap().unwrap().payload, [0; 112]);
        for number in 0..200_u8 {
            append(&log, &[number ^ 0xff; 112]).unwrap();
            log.sync(log.published()).unwrap();
            log.release(log.position()).unwrap();
        }
        assert!(log.stats().recycled > 3, "{way:?}: {:?}", log.stats());
        let error = rest(&mut tail, &log).unwrap_err();
        assert!(matches!(error, Error::NotKept { .. }), "{way:?}: {error}");
    }
}

#[test]
fn writers_and_a_live_reader_agree() {
    bounded(|| {
        for seed in successive_seeds(4) {
            let _seed = Announced(seed);
            let way = WAYS[seed as usize % 3];
            let retention = Retention { held_bytes: 1 << 40, ..Retention::default() };
            let options = Options { retention, segment_bytes: 16 << 10, ..way.options() };
            let (log, _) = open(&way.disk(), options);
            let mut tail = log.tail(0).unwrap();
            let is_over = AtomicBool::new(false);
            let (mut written, read) = std::thread::scope(|scope| {
                let log = &log;
                let write = |thread: u64| {
                    let draw = &mut Draw::new(seed ^ thread << 32);
                    let mut written = Records::new();
                    for _ in 0..400 {
                        let payload = payload(draw, 2_000);
                        let (lsn, end) = append(log, &payload).unwrap();
                        written.push((lsn, payload));
                        if way != Way::Cached || draw.below(8) == 0 {
                            log.sync(end).unwrap();
                        }
                        if draw.below(20) == 0 {
                            log.release(log.synced()).unwrap();
                        }
                    }
                    written
                };
                let writers = [1, 2, 3].map(|thread| scope.spawn(move || write(thread)));
                let reader = scope.spawn(|| {
                    let mut read = Records::new();
                    loop {
                        let is_last = is_over.load(Ordering::Acquire);
                        let bound = if way == Way::Cached { log.position() } else { log.synced() };
                        read.extend(rest_below(&mut tail, log, bound).unwrap());
                        if is_last {
                            return read;
                        }
                    }
                });
                let written = writers.into_iter().flat_map(|it| it.join().unwrap());
                let written: Records = written.collect();
                is_over.store(true, Ordering::Release);
                (written, reader.join().unwrap())
            });
            written.sort();
            assert!(written == read, "{} were written, {} read", written.len(), read.len());
        }
    });
}

#[test]
fn damage_is_an_error_with_its_place() {
    for is_front in [false, true] {
        let disk = new_disk();
        let (log, _) = open(&disk, keeping(EVERYTHING));
        let mut places = Vec::new();
        while log.stats().segments < 4 {
            places.push(append(&log, &[7; 200]).unwrap().0);
        }
        log.sync(log.published()).unwrap();
        log.release(log.position()).unwrap();
        let second = &segments(&disk)[1];
        let start = crate::tool::start_of(second);
        let lsn = *places.iter().find(|lsn| **lsn > start).unwrap();
        let at = if is_front { 20 } else { 4_096 + lsn - start };
        file(&disk, second).write_at(at + 20, &[1; 8]).unwrap();
        let error = rest(&mut log.tail(0).unwrap(), &log).unwrap_err();
        let Error::Corruption { path, offset, .. } = &error else { panic!("{error}") };
        assert_eq!((path, *offset), (second, if is_front { 508 } else { at }), "{error}");
        // Behind it all is well.
        let third = crate::tool::start_of(&segments(&disk)[2]);
        assert!(!rest(&mut log.tail(third).unwrap(), &log).unwrap().is_empty());
    }
}

#[test]
fn every_failed_operation_of_a_tail_is_an_error_and_the_next_try_goes_on() {
    let disk = new_disk();
    let fs = FaultFs::new(Arc::new(disk.clone()));
    let (log, _) = open(&fs, keeping(EVERYTHING));
    let mut written = Records::new();
    while log.stats().segments < 4 {
        written.push((append(&log, &[7; 200]).unwrap().0, vec![7; 200]));
    }
    let kinds = [Operation::Open, Operation::Read, Operation::Metadata];
    for at in 1.. {
        let mut tail = log.tail(0).unwrap();
        fs.arm(FaultPlan::once(at, Fault::Io).only(&kinds));
        let (mut read, mut failures) = (Records::new(), 0);
        loop {
            match tail.next(&log, log.position()) {
                Ok(Some(entry)) => read.push((entry.lsn, entry.payload)),
                Ok(None) => break,
                Err(Error::Io(_)) => failures += 1,
                Err(error) => panic!("operation {at}: {error}"),
            }
        }
        fs.disarm();
        assert_eq!(read, written, "operation {at}");
        if failures == 0 {
            assert!(at > 4, "{at}");
            return;
        }
    }
}

#[test]
fn what_is_kept_survives_and_obeys_its_limit_after_an_opening() {
    let disk = new_disk();
    let options = keeping(Retention { bytes: 20 * 4_096, ..Retention::default() });
    let mut written = Records::new();
    let mut from = 0;
    for round in 0..5 {
        let (log, _, _) = open_from(&disk, from, options).unwrap();
        for _ in 0..200 {
            written.push((append(&log, &[9; 150]).unwrap().0, vec![9; 150]));
        }
        log.sync(log.published()).unwrap();
        from = log.position();
        log.release(from).unwrap();
        let stats = log.stats();
        let wanted = if round == 0 { 8..=8 } else { 15..=20 };
        assert!(wanted.contains(&stats.kept_segments), "{round}: {stats:?}");
        let first = log.kept_from();
        let records = rest(&mut log.tail(first).unwrap(), &log).unwrap();
        assert!(written.ends_with(&records) && records.len() >= 200, "{}", records.len());
        log.close().unwrap();
    }
    // Without the option, the next opening that writes drops it.
    let (log, _, _) = open_from(&disk, from, small()).unwrap();
    append(&log, b"more").unwrap();
    assert_eq!(log.stats().kept_segments, 0);
    let error = log.tail(0).unwrap_err();
    assert!(matches!(error, Error::NotKept { lsn: 0, .. }), "{error}");
    assert!(disk.list(Path::new("/db/log")).unwrap().len() < 8);
}

#[test]
fn segments_age_and_go() {
    let disk = MemFs::new();
    disk.create_dir(Path::new("/db")).unwrap();
    let retention = Retention { seconds: 3_600, ..Retention::default() };
    let (log, _) = open(&disk, keeping(retention));
    while log.stats().segments < 4 {
        append(&log, &[9; 150]).unwrap();
    }
    log.sync(log.published()).unwrap();
    let end = log.position();
    log.release(end).unwrap();
    assert_eq!(log.stats().kept_segments, 3, "they are younger than an hour");
    log.close().unwrap();
    // This disk has the times of 1970.
    let (log, _, _) = open_from(&disk, end, keeping(retention)).unwrap();
    assert_eq!(log.stats().kept_segments, 3);
    log.expire().unwrap();
    assert_eq!(log.stats().kept_segments, 0);
}

#[test]
fn a_time_mark_reads_the_clock_when_everything_below_is_published() {
    let (log, _) = open(&new_disk(), small());
    for _ in 0..100 {
        let place = log.reserve(3).unwrap();
        let end = place.end();
        std::thread::scope(|scope| {
            let marks = scope.spawn(|| {
                let read = || {
                    assert!(log.published() >= end, "a later record would be below this time");
                    7
                };
                log.mark_time(read).unwrap()
            });
            place.publish();
            assert!(marks.join().unwrap().0 > end);
        });
    }
}

#[test]
fn what_a_recovery_passed_over_is_not_kept_and_no_damage() {
    for keeps in [false, true] {
        let retention = if keeps { EVERYTHING } else { Retention::default() };
        let disk = new_disk();
        let (log, _) = open(&disk, small());
        let (first, end) = append(&log, &[1; 100]).unwrap();
        let (from, _) = append(&log, b"two").unwrap();
        let (last, position) = append(&log, b"three").unwrap();
        log.sync(position).unwrap();
        drop(log);
        // A power loss has taken what nobody had synced, and needs no more.
        let path = segments(&disk).pop().unwrap();
        file(&disk, &path).write_at(4_096 + first % 4_096, &[0; 64]).unwrap();
        let (log, _, found) = open_from(&disk, from, keeping(retention)).unwrap();
        assert_eq!((found.len(), end), (2, from));
        for at in [from, last] {
            let records = rest(&mut log.tail(at).unwrap(), &log).unwrap();
            assert_eq!(records.last().unwrap().1, b"three");
        }
        if !keeps {
            let error = log.tail(0).unwrap_err();
            assert!(matches!(error, Error::NotKept { first, .. } if first == from), "{error}");
        }
    }
}

#[test]
fn the_end_of_a_lost_record_is_no_position_of_the_next_segment() {
    let disk = new_disk();
    let (log, _) = open(&disk, small());
    let (begin, synced) = append(&log, &[1; 8]).unwrap();
    log.sync(synced).unwrap();
    // What a power loss leaves of it: nothing behind what was synced.
    let image = disk.crash_image(1, POLICIES[0]);
    let segment_end = synced.next_multiple_of(4_096);
    let left = (segment_end - synced) as usize;
    let (lsn, lost) = append(&log, &vec![2; left - ((synced - begin) as usize - 8)]).unwrap();
    assert_eq!((lsn, lost), (synced, segment_end));
    let (log, records) = open(&image, small());
    assert_eq!(records.len(), 1, "the last one is lost");
    append(&log, b"new").unwrap();
    let error = log.tail(lost).unwrap_err();
    assert!(matches!(error, Error::NotWritten { lsn, .. } if lsn == lost), "{error}");
}

/// Where the log ended with a segment, a tail went on in the next one, however far above it is.
#[test]
fn a_gap_behind_a_full_segment_is_not_passed_over() {
    for missing in [0, 8] {
        let disk = new_disk();
        let (log, _) = open(&disk, keeping(EVERYTHING));
        let (begin, first) = append(&log, &[1; 8]).unwrap();
        let segment_end = first.next_multiple_of(4_096);
        let left = (segment_end - first) as usize - missing;
        let (_, end) = append(&log, &vec![2; left - ((first - begin) as usize - 8)]).unwrap();
        assert_eq!(end + missing as u64, segment_end);
        log.close().unwrap();
        // Others were written without a log.
        let from = segment_end + 2 * 4_096 + 64;
        let options = Options { first_lsn: from, ..keeping(EVERYTHING) };
        let (log, _, _) = open_from(&disk, from, options).unwrap();
        append(&log, b"new").unwrap();
        for at in [0, first, end] {
            let error = log.tail(at).and_then(|mut tail| rest(&mut tail, &log)).unwrap_err();
            assert!(matches!(error, Error::NotKept { first, .. } if first == from), "{error}");
        }
        // The hole ends where the next segment says, also if that is not where it begins.
        for at in [from, log.kept_from()] {
            assert_eq!(rest(&mut log.tail(at).unwrap(), &log).unwrap().len(), 1);
        }
    }
}

/// Nothing lies between the end of a segment's records and the next segment, which an earlier
/// opening has begun. A tail from that end was refused after another one had met the hole.
#[test]
fn the_log_is_kept_from_the_end_of_a_segment_with_a_hole() {
    let disk = new_disk();
    let (log, _) = open(&disk, small());
    for number in 0..20 {
        append(&log, &[number; 100]).unwrap();
    }
    let from = log.position();
    log.release(from).unwrap();
    // Nobody has synced it.
    let image = disk.crash_image(1, POLICIES[0]);
    drop(log);
    let options = Options { first_lsn: from, ..keeping(EVERYTHING) };
    let (log, _, _) = open_from(&image, from, options).unwrap();
    assert_eq!(log.position(), from);
    let (second, released) = append(&log, b"second").unwrap();
    assert!(second > from, "it begins a segment");
    log.release(released).unwrap();
    log.close().unwrap();
    let (log, _, _) = open_from(&image, released, options).unwrap();
    for _ in 0..2 {
        let error = log.tail(0).and_then(|mut tail| rest(&mut tail, &log)).unwrap_err();
        assert!(matches!(error, Error::NotKept { first, .. } if first == from), "{error}");
        assert_eq!(rest(&mut log.tail(from).unwrap(), &log).unwrap().len(), 1);
    }
}

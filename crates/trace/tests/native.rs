//! Our own format: what was written comes back, and what is damaged does not.

use keyrack_trace::{
    Entry, Format, Origin, Outcome, Phase, Record, Recorder, Summary, Trace, Verb, Which, Write,
    survey,
};
use keyrack_vfs::{Fs, MemFs};
use std::path::Path;
use std::sync::Arc;

const PATH: &str = "/trace";

fn entry(key: &[u8], write: Write) -> Entry<'_> {
    Entry { key, write }
}

/// Two threads, a load each, then every verb; enough of them for several blocks.
fn write(fs: &MemFs, rounds: u64) -> Summary {
    let origin = Origin { workload: "mixed".into(), engine: "btree".into(), version: "1".into() };
    let recorder = Recorder::create(fs, Path::new(PATH), &origin).unwrap();
    for thread in 0..2 {
        let mut tape = recorder.tape(Phase::Load, thread);
        let keys = [b"a".to_vec(), b"ab".to_vec()];
        let entries = keys.iter().map(|key| entry(key, Write::Put(100)));
        tape.sample(&[b'v'; 100]);
        tape.note((Verb::Mput, Outcome::Done, 5), 0, 2, entries);
        tape.enter(Phase::Run);
        for round in 0..rounds {
            let at_ns = 1_000 + 10 * round;
            let key = format!("key:{round:08}");
            let key = key.as_bytes();
            let put = entry(key, Write::Put(round as u32));
            tape.note((Verb::Put, Outcome::Done, at_ns), 0, 1, [put].into_iter());
            let get = entry(key, Write::Nothing);
            tape.note((Verb::Get, Outcome::Hit, at_ns + 1), round, 1, [get].into_iter());
            let removed = entry(key, Write::Remove);
            tape.note((Verb::Del, Outcome::Miss, at_ns + 2), 0, 1, [removed].into_iter());
            let range = (Verb::RangeDown, Outcome::Done, at_ns);
            tape.note_range(range, (b"key:", Some(key)), 100, 3);
        }
    }
    recorder.finish().unwrap()
}

fn read(fs: &MemFs, which: Which) -> Result<Vec<Record>, keyrack_trace::Error> {
    let mut trace = Trace::open(fs, Path::new(PATH), Format::Keyrack, which)?;
    let (mut all, mut record) = (Vec::new(), Record::default());
    while trace.next(&mut record)? {
        all.push(record.clone());
    }
    Ok(all)
}

#[test]
fn what_was_recorded_comes_back_in_the_order_of_each_thread() {
    let fs = MemFs::new();
    let summary = write(&fs, 4_000);
    assert_eq!(summary.records, 2 + 2 * 4 * 4_000);
    assert_eq!(summary.file_bytes, fs.metadata(Path::new(PATH)).unwrap().len);
    for thread in 0..2 {
        let load = read(&fs, Which { timed: false, thread: Some(thread) }).unwrap();
        assert_eq!(load.len(), 1);
        assert_eq!((load[0].verb, load[0].at_ns, load[0].len()), (Verb::Mput, 5, 2));
        assert_eq!(load[0].entry(1), Some(entry(b"ab", Write::Put(100))));
        let run = read(&fs, Which { timed: true, thread: Some(thread) }).unwrap();
        assert_eq!(run.len(), 16_000);
        for (round, calls) in run.chunks(4).enumerate() {
            let at_ns = 1_000 + 10 * round as u64;
            let key = format!("key:{round:08}");
            let key = key.as_bytes();
            let seen = |call: &Record| (call.verb, call.result, call.at_ns);
            assert_eq!(seen(&calls[0]), (Verb::Put, Outcome::Done, at_ns));
            assert_eq!(calls[0].entry(0), Some(entry(key, Write::Put(round as u32))));
            assert_eq!(seen(&calls[1]), (Verb::Get, Outcome::Hit, at_ns + 1));
            assert_eq!((calls[1].key(), calls[1].value_bytes), (key, round as u64));
            assert_eq!(calls[2].entry(0), Some(entry(key, Write::Remove)));
            // It began before the two calls in front of it.
            assert_eq!(seen(&calls[3]), (Verb::RangeDown, Outcome::Done, at_ns));
            assert_eq!((calls[3].limit, calls[3].rows), (100, 3));
            assert_eq!(calls[3].entry(1), Some(entry(key, Write::Nothing)));
        }
    }
    let survey = survey(&fs, Path::new(PATH), Format::Keyrack, &|_, thread| thread).unwrap();
    assert_eq!((survey.before, survey.timed), (vec![1, 1], vec![16_000, 16_000]));
    assert_eq!(survey.span_ns, Some((1_000, 1_000 + 10 * 3_999 + 2)));
    assert_eq!(survey.value_bytes_max, 3_999);
    assert_eq!(survey.origin.map(|origin| origin.workload), Some("mixed".to_owned()));
    // A hundred times one byte all but vanishes.
    assert!(survey.compress.unwrap() > 0.7, "{:?}", survey.compress);
}

#[test]
fn a_trace_that_was_cut_anywhere_is_refused() {
    let fs = MemFs::new();
    write(&fs, 3);
    let bytes = fs.read(Path::new(PATH)).unwrap();
    for end in 0..bytes.len() {
        fs.write_atomic(Path::new(PATH), &bytes[..end]).unwrap();
        let error = read(&fs, Which { timed: true, thread: None }).unwrap_err().to_string();
        assert!(error.starts_with(PATH) && error.lines().count() == 1, "{end}: {error}");
    }
}

#[test]
fn a_flipped_bit_anywhere_is_found_by_the_survey() {
    let fs = MemFs::new();
    write(&fs, 3);
    let bytes = fs.read(Path::new(PATH)).unwrap();
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 1 << (place % 8);
        fs.write_atomic(Path::new(PATH), &damaged).unwrap();
        let result = survey(&fs, Path::new(PATH), Format::Keyrack, &|_, thread| thread);
        assert!(result.is_err(), "byte {place} of {}", bytes.len());
    }
}

#[test]
fn a_trace_may_be_compressed_as_a_whole() {
    let fs = MemFs::new();
    write(&fs, 100);
    let plain = read(&fs, Which { timed: true, thread: Some(1) }).unwrap();
    let bytes = fs.read(Path::new(PATH)).unwrap();
    let packed = zstd::encode_all(&bytes[..], 1).unwrap();
    fs.write_atomic(Path::new(PATH), &packed).unwrap();
    assert_eq!(read(&fs, Which { timed: true, thread: Some(1) }).unwrap(), plain);
    assert_eq!(Format::detect(&fs, Path::new(PATH)).unwrap(), Format::Keyrack);
}

#[test]
fn a_disk_that_is_full_is_an_error_of_the_recording_and_stops_nobody() {
    use keyrack_vfs::{Fault, FaultFs, FaultPlan, Operation};
    let fs = FaultFs::new(Arc::new(MemFs::new()));
    let plan = FaultPlan::from_then_on(3, Fault::NoSpace).only(&[Operation::Write]);
    fs.arm(plan);
    let recorder = Recorder::create(&fs, Path::new(PATH), &Origin::default()).unwrap();
    let mut tape = recorder.tape(Phase::Run, 0);
    for round in 0..60_000u64 {
        let key = keyrack_key(round);
        let put = entry(&key, Write::Put(1));
        tape.note((Verb::Put, Outcome::Done, round), 0, 1, [put].into_iter());
    }
    drop(tape);
    let error = recorder.finish().unwrap_err().to_string();
    assert!(error.contains(PATH), "{error}");
}

/// Keys that share nothing, so that blocks fill.
fn keyrack_key(round: u64) -> [u8; 8] {
    round.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

//! Exports read back by the other library's own readers, and by ours; texts that are neither.

use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use hdrhistogram::serialization::{Serializer, V2Serializer};

use super::*;
use keyrack_testkit::random::{Draw, seed_or};

/// The seed of a random test. Tests name it in their messages.
fn seed() -> u64 {
    seed_or(20_260_729)
}

fn sample(random: &mut Draw, n: usize) -> Histogram {
    let mut histogram = Histogram::new();
    for _ in 0..n {
        let octave = random.below(39);
        histogram.record(random.next() & ((2 << octave) - 1));
    }
    histogram
}

/// The other library's decoder on our base64.
fn peer_of(encoded: &str) -> Peer {
    let bytes = BASE64_STANDARD.decode(encoded).unwrap();
    Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap()
}

#[test]
fn the_other_library_reads_the_same_distribution() {
    let seed = seed();
    let histogram = sample(&mut Draw::new(seed), 20_000);
    let peer = peer_of(&export(&histogram));
    assert_eq!(peer.len(), histogram.count());
    for p in [0.0, 1.0, 50.0, 90.0, 99.0, 99.9, 100.0] {
        let ours = histogram.percentile(p).unwrap() as f64;
        let theirs = peer.value_at_percentile(p) as f64;
        // The other library may count a rank further on: at most into the next of our buckets.
        assert!((theirs - ours).abs() <= ours / 100.0, "SEED={seed}: p{p}: {theirs}, not {ours}");
    }
    let max = histogram.max().unwrap();
    assert!(peer.equivalent(peer.max(), max) && peer.equivalent(peer.min(), 0));
}

#[test]
fn what_is_exported_comes_back() {
    let seed = seed();
    let mut random = Draw::new(seed);
    for n in [1, 2, 3, 1000, 20_000] {
        let histogram = sample(&mut random, n);
        let back = import(&export(&histogram)).unwrap();
        assert!(back.buckets().eq(histogram.buckets()), "SEED={seed}: n = {n}");
        for p in [0.0, 50.0, 99.0, 99.9, 100.0] {
            let (was, is) = (histogram.percentile(p).unwrap(), back.percentile(p).unwrap());
            assert!(was.abs_diff(is) as f64 <= was as f64 / 1024.0, "SEED={seed}: {was} {is}");
        }
        let off = (back.sum() as f64 / histogram.sum().max(1) as f64 - 1.0).abs();
        assert!(off <= 1.0 / 128.0 || histogram.sum() == 0, "SEED={seed}: n = {n}: {off}");
    }
}

#[test]
fn small_latencies_come_back_exactly() {
    let mut histogram = Histogram::new();
    for value in 0..256 {
        histogram.record_n(value, value + 1);
    }
    assert_eq!(import(&export(&histogram)).unwrap(), histogram);
}

#[test]
fn extreme_histograms_survive() {
    let empty = Histogram::new();
    assert_eq!(import(&export(&empty)).unwrap(), empty);
    let mut zero = Histogram::new();
    zero.record_n(0, 5);
    assert_eq!(import(&export(&zero)).unwrap(), zero);
    let mut huge = Histogram::new();
    huge.record(u64::MAX);
    huge.record_n(1 << 45, 3);
    huge.record_n(77, u64::MAX);
    let back = import(&export(&huge)).unwrap();
    assert_eq!(back.clamped(), 4);
    assert_eq!(back.min(), Some(77));
    assert!(back.max().unwrap() > 1 << 62, "limited by the format to 63 bits");
    assert_eq!(back.count(), i64::MAX as u64 + 4);
}

#[test]
fn an_interval_estimate_keeps_its_count() {
    // After a subtraction both ends may be estimates within one bucket of a single value.
    let mut earlier = Histogram::new();
    earlier.record(1_000_000);
    earlier.record(2_000_000);
    let mut later = earlier.clone();
    later.record(1_500_000);
    let interval = later.subtract(&earlier);
    let back = import(&export(&interval)).unwrap();
    assert_eq!(back.count(), 1);
    assert!(back.buckets().eq(interval.buckets()));
}

#[test]
fn a_log_is_read_by_the_log_reader() {
    let seed = seed();
    let mut random = Draw::new(seed);
    let intervals = [("get", 0.0, 1.0), ("put", 1.0, 1.25), ("", 2.25, 0.5)];
    let histograms: Vec<_> = intervals.iter().map(|_| sample(&mut random, 500)).collect();
    let mut log = log_header(1_700_000_000.25);
    for ((tag, start_s, interval_s), histogram) in intervals.iter().zip(&histograms) {
        log += &log_line(tag, *start_s, *interval_s, histogram);
    }
    let mut entries = IntervalLogIterator::new(log.as_bytes()).map(Result::unwrap);
    let start = Duration::from_millis(1_700_000_000_250);
    assert_eq!(entries.next(), Some(LogEntry::StartTime(start)));
    assert_eq!(entries.next(), Some(LogEntry::BaseTime(start)));
    for ((tag, start_s, interval_s), histogram) in intervals.iter().zip(&histograms) {
        let Some(LogEntry::Interval(entry)) = entries.next() else { panic!("no interval") };
        let read_tag = entry.tag().map_or("", |tag| tag.as_str());
        assert_eq!(read_tag, *tag);
        assert_eq!(entry.start_timestamp(), seconds(*start_s));
        assert_eq!(entry.duration(), seconds(*interval_s));
        let max_ms = histogram.max().unwrap() as f64 / NS_PER_MS;
        assert!((entry.max() - max_ms).abs() <= max_ms / 1000.0 + 0.001, "SEED={seed}");
        let back = import(entry.encoded_histogram()).unwrap();
        assert!(back.buckets().eq(histogram.buckets()), "SEED={seed}");
    }
    assert_eq!(entries.next(), None);
}

#[test]
fn the_header_is_what_log_readers_expect() {
    let expected = "\
#[Histogram log format version 1.3]
#[StartTime: 1700000000.000 (seconds since epoch)]
#[BaseTime: 1700000000.000 (seconds since epoch)]
#[MaxValueDivisor: 1000000.000]
\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"
";
    assert_eq!(log_header(1_700_000_000.0), expected);
    assert!(log_header(f64::NAN).contains("StartTime: 0.000 "));
    assert!(log_header(1e19).starts_with("#[Histogram log"));
}

#[test]
fn a_line_is_one_line_whatever_the_tag() {
    let line = log_line("a, b\nc\u{7}", -1.0, f64::INFINITY, &Histogram::new());
    assert!(line.starts_with("Tag=a__b_c_,0.000,0.000,0.000,HIST"), "{line}");
    assert_eq!(line.matches('\n').count(), 1);
    assert!(log_line("", 1.5, 2.0, &Histogram::new()).starts_with("1.500,2.000,0.000,HIST"));
}

#[test]
fn uncompressed_histograms_of_others_are_read() {
    let mut peer = Peer::new_with_bounds(1, 1 << 30, 2).unwrap();
    peer.record_n(100, 3).unwrap();
    peer.record(1_000_000).unwrap();
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(&peer, &mut bytes).unwrap();
    let histogram = import(&format!(" {}\n", BASE64_STANDARD.encode(&bytes))).unwrap();
    assert_eq!((histogram.count(), histogram.percentile(50.0)), (4, Some(100)));
}

#[test]
fn broken_text_is_an_error() {
    for (text, offset) in
        [("not base64!!", 3), ("Zg", 2), ("Zm9vYg=", 7), ("Z===", 1), ("====", 0), ("Zh==", 1)]
    {
        assert_eq!(import(text), Err(Error::Base64 { offset }), "{text}");
    }
    let good = export(&sample(&mut Draw::new(1), 100));
    let whole = BASE64_STANDARD.decode(&good).unwrap();
    for length in 0..whole.len() {
        let cut = import(&BASE64_STANDARD.encode(&whole[..length]));
        assert!(matches!(cut, Err(Error::Encoding { .. })), "cut to {length}: {cut:?}");
    }
    let mut other_format = whole;
    other_format[3] ^= 0x55;
    let reason = "unknown format 0x1c849341".to_owned();
    assert_eq!(import(&BASE64_STANDARD.encode(&other_format)), Err(Error::Encoding { reason }));
    assert_eq!(
        import("AAAA").unwrap_err().to_string(),
        "invalid encoded histogram: 3 bytes are too few"
    );
}

#[test]
fn damaged_bytes_never_panic() {
    let seed = seed();
    let mut random = Draw::new(seed);
    let mut peer = Peer::new_with_bounds(1, 1 << 30, 3).unwrap();
    for value in [1, 50, 70_000, 70_000, 1 << 29] {
        peer.record(value).unwrap();
    }
    let mut good = Vec::new();
    V2Serializer::new().serialize(&peer, &mut good).unwrap();
    const HEADER_BYTES: usize = 40;
    for _ in 0..500 {
        let mut bytes = good.clone();
        let place = HEADER_BYTES + random.below((good.len() - HEADER_BYTES) as u64) as usize;
        bytes[place] = random.next() as u8;
        // Either outcome is fine; ending the test is not.
        let _ = import(&BASE64_STANDARD.encode(&bytes));
    }
    // Nine bytes of ones are the least number that the format can express: a run of 2^63 zeros.
    let mut zeros = good[..HEADER_BYTES].to_vec();
    zeros[4..8].copy_from_slice(&9u32.to_be_bytes());
    zeros.extend([0xff; 9]);
    assert!(matches!(import(&BASE64_STANDARD.encode(&zeros)), Err(Error::Encoding { .. })));
}

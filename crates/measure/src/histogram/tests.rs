//! Histograms against sorted vectors: resolution, percentiles, merging, intervals.

use super::*;
use crate::live::LiveHistogram;
use crate::stats::seeded::seed;
use keyrack_testkit::random::Draw;

const PERCENTILES: [f64; 13] =
    [0.0, 0.1, 1.0, 10.0, 25.0, 50.0, 66.6, 75.0, 90.0, 99.0, 99.9, 99.99, 100.0];

fn histogram_of(values: &[u64]) -> Histogram {
    let mut histogram = Histogram::new();
    for &value in values {
        histogram.record(value);
    }
    histogram
}

/// Values spread evenly over the octaves up to 2^`bits`.
fn spread(random: &mut Draw, bits: u32, n: usize) -> Vec<u64> {
    (0..n)
        .map(|_| {
            let octave = random.below(u64::from(bits));
            random.next() & ((2 << octave) - 1)
        })
        .collect()
}

/// The value at the nearest rank, counted in integers: `p` is in thousandths of a percent.
fn nearest_rank_of(sorted: &[u64], p: f64) -> u64 {
    let thousandths = (p * 1000.0).round() as usize;
    let rank = (thousandths * sorted.len()).div_ceil(100_000).max(1);
    sorted[rank - 1]
}

fn assert_close(got: u64, expected: u64) {
    if expected < 256 {
        assert_eq!(got, expected);
    } else {
        let error = got.abs_diff(expected) as f64 / expected as f64;
        assert!(error <= 1.0 / 128.0, "{expected} read back as {got}");
    }
}

/// The value that a histogram holds between two others, read as a median: not an end, so its
/// bucket decides.
fn read_back(value: u64) -> u64 {
    histogram_of(&[0, value, 1 << 50]).percentile(50.0).unwrap()
}

#[test]
fn sub_64_ns_latencies_read_back_exactly() {
    for value in 0..64 {
        assert_eq!(read_back(value), value);
        let mut alone = Histogram::new();
        alone.record_n(value, 1000);
        for p in PERCENTILES {
            assert_eq!(alone.percentile(p), Some(value));
        }
    }
}

#[test]
fn values_below_256_are_exact() {
    for value in 0..256 {
        assert_eq!(read_back(value), value);
    }
    let all: Vec<u64> = (0..256).collect();
    let histogram = histogram_of(&all);
    for p in PERCENTILES {
        assert_eq!(histogram.percentile(p), Some(nearest_rank_of(&all, p)), "p{p}");
    }
}

#[test]
fn values_up_to_a_quarter_of_an_hour_are_within_a_128th() {
    let mut value = 1.0f64;
    while value <= 1e12 {
        assert_close(read_back(value as u64), value as u64);
        value *= 1.003;
    }
    for bits in 0..40 {
        for value in [(1u64 << bits) - 1, 1 << bits, (1 << bits) + 1] {
            assert_close(read_back(value), value);
        }
    }
    let seed = seed();
    let mut random = Draw::new(seed);
    for value in spread(&mut random, 39, 20_000) {
        assert_close(read_back(value), value);
    }
}

#[test]
fn percentiles_are_nearest_rank() {
    let seed = seed();
    let mut random = Draw::new(seed);
    for n in [1, 2, 3, 10, 99, 100, 101, 1000, 5000] {
        let mut values = spread(&mut random, 39, n);
        let histogram = histogram_of(&values);
        values.sort_unstable();
        for p in PERCENTILES {
            let expected = nearest_rank_of(&values, p);
            let got = histogram.percentile(p).unwrap();
            let error = got.abs_diff(expected) as f64 / expected.max(1) as f64;
            let fine = if expected < 256 { got == expected } else { error <= 1.0 / 128.0 };
            assert!(fine, "SEED={seed}: p{p} of {n} values is {got}, not {expected}");
        }
        assert_eq!(histogram.percentile(0.0), values.first().copied());
        assert_eq!(histogram.percentile(100.0), values.last().copied());
    }
}

#[test]
fn the_rank_of_a_decimal_percentile_is_not_off_by_one() {
    // 99.9 * 1000 / 100 may come out a hair above 999.
    for (p, n, rank) in [
        (99.9, 1000, 999),
        (99.9, 10_000, 9990),
        (99.99, 10_000, 9999),
        (0.1, 1000, 1),
        (0.1, 1001, 2),
        (29.0, 100, 29),
        (57.0, 100, 57),
        (50.0, 5, 3),
        (0.0, 5, 1),
        (100.0, 5, 5),
    ] {
        assert_eq!(nearest_rank(p, n), rank, "p{p} of {n}");
    }
    assert_eq!(nearest_rank(100.0, u64::MAX), u64::MAX);
}

#[test]
fn sums_and_extremes_are_exact() {
    let histogram = histogram_of(&[1_000_003, 7, 123_456_789]);
    assert_eq!(histogram.count(), 3);
    assert_eq!(histogram.sum(), 1_000_003 + 7 + 123_456_789);
    assert_eq!((histogram.min(), histogram.max()), (Some(7), Some(123_456_789)));
    assert_eq!(histogram.mean(), Some(124_456_799.0 / 3.0));
}

#[test]
fn an_empty_histogram_has_no_statistics() {
    let mut empty = Histogram::new();
    empty.record_n(5, 0);
    assert!(empty.is_empty());
    assert_eq!((empty.count(), empty.sum(), empty.clamped()), (0, 0, 0));
    assert_eq!((empty.min(), empty.max(), empty.percentile(50.0)), (None, None, None));
    assert_eq!(empty.mean(), None);
    assert_eq!(empty.buckets().count(), 0);
    assert_eq!(empty, Histogram::default());
}

#[test]
fn percentiles_outside_0_to_100_do_not_exist() {
    let histogram = histogram_of(&[1, 2, 3]);
    for p in [-0.1, 100.1, f64::NAN, f64::INFINITY] {
        assert_eq!(histogram.percentile(p), None);
    }
}

#[test]
fn too_large_values_are_clamped_and_counted() {
    let histogram = histogram_of(&[1, (1 << 40) - 1, 1 << 40, u64::MAX]);
    assert_eq!(histogram.clamped(), 2);
    assert_eq!(histogram.max(), Some(u64::MAX));
    assert_eq!(histogram.sum(), u64::MAX, "the sum stops instead of wrapping");
    assert!(histogram.percentile(75.0).unwrap() >= 1 << 40);
    assert_eq!(histogram.buckets().last(), Some((1 << 40, u64::MAX, 2)));
}

#[test]
fn counts_stop_instead_of_wrapping() {
    let mut histogram = Histogram::new();
    histogram.record_n(10, u64::MAX);
    histogram.record_n(20, u64::MAX);
    assert_eq!(histogram.count(), u64::MAX);
    assert_eq!(histogram.percentile(50.0), Some(10));
    let twice = histogram.clone();
    histogram.merge(&twice);
    assert_eq!(histogram.count(), u64::MAX);
}

#[test]
fn merging_is_associative_and_commutative() {
    let seed = seed();
    let mut random = Draw::new(seed);
    let [a, b, c] = [1, 500, 3000].map(|n| spread(&mut random, 44, n));
    let all: Vec<u64> = [a.as_slice(), &b, &c].concat();
    let [a, b, c] = [a, b, c].map(|values| histogram_of(&values));
    let merged = |parts: [&Histogram; 2]| {
        let mut sum = parts[0].clone();
        sum.merge(parts[1]);
        sum
    };
    let expected = histogram_of(&all);
    assert_eq!(merged([&merged([&a, &b]), &c]), expected, "SEED={seed}");
    assert_eq!(merged([&a, &merged([&b, &c])]), expected, "SEED={seed}");
    assert_eq!(merged([&merged([&c, &b]), &a]), expected, "SEED={seed}");
    assert_eq!(merged([&Histogram::new(), &a]), a);
    assert_eq!(merged([&a, &Histogram::new()]), a);
}

#[test]
fn a_difference_is_the_histogram_of_the_interval() {
    let seed = seed();
    let mut random = Draw::new(seed);
    let before = spread(&mut random, 39, 1000);
    let between = spread(&mut random, 39, 700);
    let earlier = histogram_of(&before);
    let mut later = earlier.clone();
    let expected = histogram_of(&between);
    later.merge(&expected);
    let interval = later.subtract(&earlier);
    assert_eq!(interval.count(), 700);
    assert_eq!(interval.sum(), expected.sum());
    assert!(interval.buckets().eq(expected.buckets()), "SEED={seed}");
    assert!(interval.min() <= expected.min() && interval.max() >= expected.max(), "SEED={seed}");
    let mut sorted = between;
    sorted.sort_unstable();
    for p in PERCENTILES {
        assert_close(interval.percentile(p).unwrap(), nearest_rank_of(&sorted, p));
    }
}

#[test]
fn an_interval_knows_its_new_extremes_exactly() {
    let earlier = histogram_of(&[1_000_000, 2_000_003]);
    let mut later = earlier.clone();
    later.record(300_007);
    later.record(5_000_011);
    let interval = later.subtract(&earlier);
    assert_eq!((interval.min(), interval.max()), (Some(300_007), Some(5_000_011)));
    assert_eq!(later.subtract(&later), Histogram::new());
    assert_eq!(later.subtract(&Histogram::new()), later);
    // Not a previous state: nothing goes below zero.
    assert_eq!(earlier.subtract(&later), Histogram::new());
}

#[test]
fn buckets_account_for_every_value() {
    let values = [0, 0, 5, 255, 256, 257, 1000];
    let histogram = histogram_of(&values);
    let buckets: Vec<_> = histogram.buckets().collect();
    let expected = vec![(0, 0, 2), (5, 5, 1), (255, 255, 1), (256, 257, 2), (1000, 1003, 1)];
    assert_eq!(buckets, expected);
}

#[test]
fn a_live_histogram_holds_the_same_as_a_plain_one() {
    let seed = seed();
    let mut random = Draw::new(seed);
    let values = spread(&mut random, 44, 5000);
    let live = LiveHistogram::new();
    for &value in &values {
        live.record(value);
    }
    let mut snapshot = histogram_of(&[1, 2, 3]);
    live.snapshot_into(&mut snapshot);
    assert_eq!(snapshot, histogram_of(&values), "SEED={seed}");
}

#[test]
fn parts_make_an_equal_histogram() {
    let mut random = Draw::new(seed());
    let mut histogram = Histogram::new();
    assert_eq!(Histogram::of_parts(&histogram.parts()), Some(histogram.clone()));
    for shift in 0..64 {
        histogram.record_n(random.next() >> shift, 1 + random.below(5));
        assert_eq!(Histogram::of_parts(&histogram.parts()), Some(histogram.clone()));
    }
    let parts = histogram.parts();
    let mut swapped = parts.clone();
    swapped.buckets.swap(0, 1);
    let mut between = parts.clone();
    // Large values share buckets, so behind the first of one comes no other's first.
    if let Some(last) = between.buckets.last_mut() {
        last.0 += 1;
    }
    let mut outside = parts.clone();
    outside.max = parts.min;
    let mut empty = parts.clone();
    empty.buckets.clear();
    for broken in [swapped, between, outside, empty] {
        assert_eq!(Histogram::of_parts(&broken), None);
    }
}

//! Tests of the key streams: every distribution against its distribution, growth, shards and
//! replay.

use std::collections::HashSet;

use statrs::distribution::{ContinuousCDF, Normal};

use super::*;
use crate::check::{SEED, assert_chi_square, assert_ks};
use crate::rng::Phase;
use crate::trace::TraceHash;

fn spec(count: u64, distribution: &str, scramble: bool) -> KeySpec {
    KeySpec {
        format: KeyFormat::parse("k:%012d").unwrap(),
        count,
        first: 0,
        distribution: KeyDistribution::parse(distribution).unwrap(),
        scramble,
    }
}

fn source(count: u64, distribution: &str, scramble: bool) -> KeySource {
    let rng = Rng::stream(SEED, Phase::Run, 0, 0);
    KeySource::new(&spec(count, distribution, scramble), rng, None, None).unwrap()
}

fn histogram(source: &mut KeySource, draws: u64) -> Vec<u64> {
    let mut counts = vec![0; source.count() as usize];
    for _ in 0..draws {
        counts[source.next_index() as usize] += 1;
    }
    counts
}

/// Draws as fractions of the population, each moved to a uniform place within its key, so that a
/// continuous distribution can be tested.
fn fractions(source: &mut KeySource, draws: u64) -> Vec<f64> {
    let mut rng = Rng::from_seed(SEED);
    let count = source.count() as f64;
    (0..draws).map(|_| (source.next_index() as f64 + rng.unit()) / count).collect()
}

#[test]
fn uniform_is_uniform() {
    let counts = histogram(&mut source(777, "uniform", false), 200_000);
    assert_chi_square("uniform", &counts, &vec![1.0; 777]);
    let counts = histogram(&mut source(777, "uniform", true), 200_000);
    assert_chi_square("uniform, scrambled", &counts, &vec![1.0; 777]);
}

#[test]
fn hotspot_has_two_levels() {
    let counts = histogram(&mut source(1000, "hotspot:0.2,0.8", false), 400_000);
    let weights: Vec<f64> =
        (0..1000).map(|i| if i < 200 { 0.8 / 200.0 } else { 0.2 / 800.0 }).collect();
    assert_chi_square("hotspot", &counts, &weights);
    let all_hot = histogram(&mut source(10, "hotspot:1,0.3", false), 10_000);
    assert_chi_square("hotspot, all hot", &all_hot, &[1.0; 10]);
}

#[test]
fn gaussian_is_a_cut_normal() {
    let cut_normal = |mean: f64, stddev: f64| {
        let normal = Normal::new(mean, stddev).unwrap();
        let (low, high) = (normal.cdf(0.0), normal.cdf(1.0));
        move |x: f64| (normal.cdf(x) - low) / (high - low)
    };
    let samples = fractions(&mut source(1_000_000, "gaussian:0.5,0.1", false), 100_000);
    assert_ks("gaussian", samples, cut_normal(0.5, 0.1));
    let samples = fractions(&mut source(1_000_000, "gaussian:0.1,0.3", false), 100_000);
    assert_ks("gaussian at the edge", samples, cut_normal(0.1, 0.3));
}

#[test]
fn exponential_has_ycsb_percentile() {
    let rate = -(0.05f64).ln() / 0.857_142_857_1;
    let whole = 1.0 - (-rate).exp();
    let samples = fractions(&mut source(1_000_000, "exponential", false), 100_000);
    let within = samples.iter().filter(|x| **x < 0.857_142_857_1).count() as f64 / 100_000.0;
    assert!((within * whole - 0.95).abs() < 0.003, "{within} of the draws; SEED={SEED}");
    assert_ks("exponential", samples, |x| (1.0 - (-rate * x).exp()) / whole);
}

#[test]
fn scrambling_a_zipf_law_moves_keys_and_keeps_shares() {
    let plain = histogram(&mut source(1000, "zipf:0.99", false), 300_000);
    let weights: Vec<f64> = (1..=1000).map(|k| f64::from(k).powf(-0.99)).collect();
    assert_chi_square("zipf", &plain, &weights);
    let mut scrambled = source(1000, "zipf:0.99", true);
    let counts = histogram(&mut scrambled, 300_000);
    let permutation = Permutation::new(1000);
    let unscrambled: Vec<u64> =
        (0..1000).map(|rank| counts[permutation.apply(rank) as usize]).collect();
    assert_chi_square("zipf, scrambled", &unscrambled, &weights);
    let hottest = counts.iter().enumerate().max_by_key(|(_, n)| **n).unwrap().0;
    assert_ne!(hottest, 0);
}

#[test]
fn zipf_heads_of_a_million_keys() {
    for (name, scramble, share) in [("zipf:0.99", true, 0.0650), ("zipf_ycsb:0.99", false, 0.0378)]
    {
        let counts = histogram(&mut source(1_000_000, name, scramble), 1_000_000);
        let head = *counts.iter().max().unwrap() as f64 / 1_000_000.0;
        assert!((head / share - 1.0).abs() < 0.02, "{name}: head {head}; SEED={SEED}");
    }
}

#[test]
fn latest_follows_a_moving_cursor() {
    let counter = Counter::new(1000);
    let rng = Rng::from_seed(SEED);
    let spec = spec(1000, "latest:0.99", false);
    let mut source = KeySource::new(&spec, rng, Some(counter.clone()), None).unwrap();
    for _ in 0..20 {
        let newest = counter.get() - 1;
        let mut distances = vec![0u64; counter.get() as usize];
        for _ in 0..20_000 {
            distances[(newest - source.next_index()) as usize] += 1;
        }
        let weights: Vec<f64> = (1..=distances.len()).map(|k| (k as f64).powf(-0.99)).collect();
        assert_chi_square("latest", &distances, &weights);
        for _ in 0..500 {
            counter.next();
        }
    }
    assert_eq!(source.count(), 11_000);
}

#[test]
fn latest_waits_for_acknowledgement() {
    let counter = Counter::acknowledged(1000);
    let reads = spec(1000, "latest:2", false);
    let inserts = spec(1000, "insert", false);
    let shared = || Some(counter.clone());
    let mut reader = KeySource::new(&reads, Rng::from_seed(SEED), shared(), None).unwrap();
    let mut writer = KeySource::new(&inserts, Rng::from_seed(SEED), shared(), None).unwrap();
    assert_eq!((writer.next_index(), writer.next_index()), (1000, 1001));
    assert!((0..1000).all(|_| reader.next_index() < 1000));
    writer.complete();
    assert_eq!(reader.count(), 1002);
    assert!((0..1000).any(|_| reader.next_index() == 1001));
}

#[test]
fn every_distribution_sees_new_keys() {
    for name in ["uniform", "zipf:0.5", "hotspot", "gaussian:0.9,0.5", "exponential:50,1"] {
        for scramble in [false, true] {
            let counter = Counter::new(100);
            let spec = spec(100, name, scramble);
            let rng = Rng::from_seed(SEED);
            let mut source = KeySource::new(&spec, rng, Some(counter.clone()), None).unwrap();
            assert!((0..10_000).all(|_| source.next_index() < 100), "{name}");
            for _ in 0..100 {
                counter.next();
            }
            let seen: HashSet<u64> = (0..20_000).map(|_| source.next_index()).collect();
            assert_eq!(seen.len(), 200, "{name}, scramble {scramble}; SEED={SEED}");
        }
    }
}

#[test]
fn the_hot_key_stays_hot_while_the_population_grows() {
    let counter = Counter::new(1000);
    let spec = spec(1000, "zipf:0.99", true);
    let rng = Rng::from_seed(SEED);
    let mut source = KeySource::new(&spec, rng, Some(counter.clone()), None).unwrap();
    let hottest = Permutation::new(1000).apply(0);
    for _ in 0..5 {
        let counts = histogram(&mut source, 20_000);
        let most = counts.iter().enumerate().max_by_key(|(_, n)| **n).unwrap().0;
        assert_eq!(most as u64, hottest);
        for _ in 0..700 {
            counter.next();
        }
    }
}

#[test]
fn sequential_shards_cover_all_keys_once_and_wrap() {
    for count in [1u64, 2, 5, 10, 11] {
        for threads in [1u32, 2, 3, 16] {
            let mut seen = Vec::new();
            for thread in 0..threads {
                let rng = Rng::from_seed(SEED);
                let spec = spec(count, "sequential", false);
                let mut source = KeySource::new(&spec, rng, None, Some((thread, threads))).unwrap();
                let lap: Vec<u64> = (0..source.lap()).map(|_| source.next_index()).collect();
                if let Some(first) = lap.first() {
                    assert_eq!(*first, u64::from(thread));
                    assert_eq!(source.next_index(), *first, "wraps");
                }
                assert!(source.next_index() < count);
                seen.extend(lap);
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..count).collect::<Vec<u64>>());
        }
    }
}

#[test]
fn a_shared_cursor_wraps_and_a_scrambled_lap_is_a_permutation() {
    let cursor = Counter::new(0);
    let spec = KeySpec { first: 50, ..spec(10, "sequential", false) };
    let build = || KeySource::new(&spec, Rng::from_seed(SEED), Some(cursor.clone()), None).unwrap();
    let (mut a, mut b) = (build(), build());
    let drawn: Vec<u64> =
        (0..12).map(|i| if i % 2 == 0 { a.next_index() } else { b.next_index() }).collect();
    assert_eq!(drawn, [50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 50, 51]);
    assert_eq!(a.count(), 10);
    let mut scrambled = source(1000, "sequential", true);
    let lap: Vec<u64> = (0..1000).map(|_| scrambled.next_index()).collect();
    assert_eq!(lap.iter().collect::<HashSet<_>>().len(), 1000);
    assert_ne!(lap, (0..1000).collect::<Vec<u64>>());
}

#[test]
fn keys_carry_index_and_first() {
    let spec = KeySpec { first: 100, ..spec(10, "sequential", false) };
    let mut source = KeySource::new(&spec, Rng::from_seed(SEED), None, None).unwrap();
    assert_eq!(source.last_index(), 100);
    assert_eq!(source.next_key(), b"k:000000000100");
    assert_eq!(source.next_key(), b"k:000000000101");
    assert_eq!(source.last_index(), 101);
    assert_eq!(source.key_at(7), b"k:000000000007");
    assert_eq!(source.last_index(), 101);
    assert_eq!(source.next_key(), b"k:000000000102");
}

#[test]
fn one_seed_gives_one_trace_per_thread() {
    // The streams of the first two workers are the same whether two or eight run.
    let traces = |seed: u64, threads: u32| -> Vec<u64> {
        (0..threads)
            .map(|thread| {
                let rng = Rng::stream(seed, Phase::Run, thread, 0);
                let spec = spec(10_000, "zipf:0.99", true);
                let shard = Some((thread, threads));
                let mut source = KeySource::new(&spec, rng, None, shard).unwrap();
                let mut trace = TraceHash::new();
                (0..1000).for_each(|_| trace.update(source.next_key()));
                trace.finish()
            })
            .collect()
    };
    let (two, eight) = (traces(SEED, 2), traces(SEED, 8));
    assert_eq!(two, eight[..2]);
    assert_eq!(eight.iter().collect::<HashSet<_>>().len(), 8);
    assert_ne!(two, traces(SEED + 1, 2));
}

#[test]
fn mistakes_are_refused() {
    let build = |spec: &KeySpec, shard| KeySource::new(spec, Rng::from_seed(SEED), None, shard);
    let message = |spec: &KeySpec, shard| build(spec, shard).unwrap_err().to_string();
    assert!(message(&spec(0, "uniform", false), None).contains("number of keys is 0"));
    assert!(message(&spec(1 << 54, "uniform", false), None).contains("number of keys"));
    let far = KeySpec { first: u64::MAX, ..spec(1, "uniform", false) };
    assert!(message(&far, None).contains("first key"));
    assert!(message(&spec(1, "uniform", false), Some((2, 2))).contains("shard is 2 of 2"));
    assert!(message(&spec(1, "uniform", false), Some((0, 0))).contains("shard is 0 of 0"));
    assert!(message(&spec(9, "latest", true), None).contains("scramble"));
    assert_eq!(build(&spec(9, "insert", false), None).unwrap_err(), Error::CounterMissing);
    let theta = KeyDistribution::Zipf { theta: -1.0 };
    let bad = KeySpec { distribution: theta, ..spec(9, "uniform", false) };
    assert!(message(&bad, None).contains("theta is -1"));
}

#[test]
fn tiny_populations_work() {
    let names = [
        "uniform",
        "zipf",
        "zipf_ycsb",
        "latest",
        "hotspot",
        "gaussian",
        "exponential",
        "sequential",
    ];
    for name in names {
        for count in [1, 2, 3] {
            let mut source = source(count, name, false);
            let seen: HashSet<u64> = (0..5000).map(|_| source.next_index()).collect();
            assert!(seen.iter().all(|index| *index < count), "{name} over {count}");
        }
    }
    let empty = spec(0, "insert", true);
    let counter = Some(Counter::new(0));
    let mut inserts = KeySource::new(&empty, Rng::from_seed(SEED), counter, None).unwrap();
    assert_eq!((inserts.next_index(), inserts.next_index()), (0, 1));
}

#[test]
fn descriptions_say_what_is_drawn() {
    let words = source(1_000_000, "zipf:0.99", true).describe();
    assert_eq!(words, "zipf:0.99 over 1000000 keys \"k:%012d\", scrambled, hottest key 6.50 %");
    assert!(source(10, "zipf_ycsb", false).describe().contains("hottest key 3.78 %"));
    assert!(!source(10, "uniform", false).describe().contains("hottest"));
}

//! Streams that have nothing in common, rates that add up, files, bounds.

use std::collections::HashSet;

use keyrack_vfs::{Fs, MemFs, OpenOptions};
use keyrack_workload::{Distribution, Rng};
use statrs::distribution::{ContinuousCDF, Exp};

use super::*;

const SEED: u64 = 20_261_122;

/// The largest distance of the samples' distribution from `cdf`, held against the critical value of
/// one false alarm in a million.
fn assert_ks(label: &str, mut samples: Vec<f64>, cdf: impl Fn(f64) -> f64) {
    samples.sort_by(f64::total_cmp);
    let n = samples.len() as f64;
    let distances = samples.iter().enumerate().map(|(i, x)| {
        let p = cdf(*x);
        (p - i as f64 / n).max((i + 1) as f64 / n - p)
    });
    let (distance, critical) = (distances.fold(0.0, f64::max), (14.5 / (2.0 * n)).sqrt());
    assert!(distance < critical, "{label}: distance {distance}, at most {critical}; SEED={SEED}");
}

#[test]
fn streams_differ_in_every_coordinate_and_purpose() {
    let purposes = [
        Purpose::Gaps,
        Purpose::Keys,
        Purpose::Values,
        Purpose::Mix,
        Purpose::Connection,
        Purpose::Faults,
    ];
    let mut seen = HashSet::new();
    for seed in 0..4 {
        for agent in 0..9 {
            for thread in 0..8 {
                for connection in 0..8 {
                    let stream = Stream { seed, agent, thread, connection };
                    seen.extend(purposes.map(|purpose| stream.rng(purpose).next_u64()));
                }
            }
        }
    }
    assert_eq!(seen.len(), 4 * 9 * 8 * 8 * 6);
    let one = Stream { seed: 7, agent: 1, thread: 2, connection: 3 };
    assert_eq!(one.rng(Purpose::Keys).next_u64(), one.rng(Purpose::Keys).next_u64());
}

#[test]
fn poisson_connections_add_up_to_one_poisson_process() {
    let distribution = Distribution::parse("exponential").unwrap();
    let mut offsets = Vec::new();
    for connection in 0..16 {
        let stream = Stream { seed: SEED, agent: 0, thread: 0, connection };
        let mut one = schedule(&distribution, 10_000.0, &stream, connection, 16).unwrap();
        offsets.extend(
            std::iter::repeat_with(|| one.next_at_ns()).take_while(|at| *at < 5_000_000_000),
        );
    }
    offsets.sort_unstable();
    assert!((offsets.len() as f64 - 50_000.0).abs() < 5.0 * 50_000f64.sqrt(), "{}", offsets.len());
    let gaps = offsets.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e5).collect();
    let theory = Exp::new(1.0).unwrap();
    assert_ks("gaps of the whole", gaps, |x| theory.cdf(x));
}

#[test]
fn equal_gaps_of_many_connections_are_evenly_spaced() {
    let distribution = Distribution::parse("fixed:1").unwrap();
    let mut offsets: Vec<u64> = (0..8)
        .flat_map(|index| {
            let stream = Stream { seed: SEED, agent: 0, thread: 0, connection: index };
            let mut one = schedule(&distribution, 1000.0, &stream, index, 8).unwrap();
            (0..10).map(|_| one.next_at_ns()).collect::<Vec<u64>>()
        })
        .collect();
    offsets.sort_unstable();
    assert_eq!(offsets, (0..80).map(|k| k * 1_000_000).collect::<Vec<u64>>());
}

#[test]
fn a_measured_law_comes_from_a_file() {
    let fs = MemFs::new();
    let options = OpenOptions::new().write(true).create(true);
    let file = fs.open(Path::new("/sizes.txt"), &options).unwrap();
    file.append(b"0 0\n100 100\n").unwrap();
    let distribution = distribution("cdf:/sizes.txt", &fs).unwrap();
    assert_eq!(distribution.mean(), 50.0);
    assert_eq!(super::distribution("200", &fs).unwrap(), Distribution::Fixed(200.0));
    let missing = super::distribution("cdf:/none", &fs).unwrap_err().to_string();
    assert!(missing.contains("/none"), "{missing}");
}

#[test]
fn sizes_stay_within_their_bounds() {
    let sizes = |text: &str, max| Sizes::new(&Distribution::parse(text).unwrap(), max);
    let mut rng = Rng::from_seed(SEED);
    for (text, max) in [
        ("pareto:15,214,0.9", 1000),
        ("normal:10,50", 30),
        ("fb_value", 200),
        ("gev:0,100,0.9", 500),
        ("lognormal:5,4", 4096),
        ("exponential:0.0001", 77),
    ] {
        let sizes = sizes(text, Some(max)).unwrap();
        let drawn: Vec<u32> = (0..20_000).map(|_| sizes.sample(&mut rng)).collect();
        assert_eq!(drawn.iter().max(), Some(&max), "{text} reaches its limit; SEED={SEED}");
    }
    assert_eq!(sizes("fixed:2000000", None).unwrap().sample(&mut rng), 2_000_000);
    assert_eq!(sizes("200.9", None).unwrap().fixed(), Some(200));
    assert_eq!(sizes("fb_value", None).unwrap().max(), 1_000_000);
    for text in ["uniform", "exponential", "pareto:1", "gev:30", "fixed:1e9"] {
        let refused = sizes(text, None).unwrap_err().to_string();
        assert!(refused.contains("is 0") || refused.contains("largest size"), "{text}: {refused}");
    }
}

//! Distributions against theory: Kolmogorov-Smirnov for those with a density, chi-square for the
//! others.

use statrs::distribution::{ContinuousCDF, LogNormal, Normal};

use super::*;
use crate::check::{SEED, assert_chi_square, assert_ks};

fn distribution(text: &str) -> Distribution {
    Distribution::parse(text).unwrap()
}

fn draws(distribution: &Distribution, count: usize) -> Vec<f64> {
    let mut rng = Rng::from_seed(SEED);
    (0..count).map(|_| distribution.sample(&mut rng)).collect()
}

fn pareto_cdf(location: f64, scale: f64, shape: f64) -> impl Fn(f64) -> f64 {
    move |x| 1.0 - (1.0 + shape * (x - location) / scale).max(0.0).powf(-1.0 / shape)
}

fn gev_cdf(location: f64, scale: f64, shape: f64) -> impl Fn(f64) -> f64 {
    move |x| (-(1.0 + shape * (x - location) / scale).max(0.0).powf(-1.0 / shape)).exp()
}

#[test]
fn draws_follow_their_laws() {
    let check = |text: &str, cdf: &dyn Fn(f64) -> f64| {
        assert_ks(text, draws(&distribution(text), 50_000), cdf);
    };
    check("uniform:400", &|x| x / 400.0);
    let normal = Normal::new(200.0, 25.0).unwrap();
    check("normal:200,25", &|x| normal.cdf(x));
    check("exponential:0.005", &|x| 1.0 - (-0.005 * x).exp());
    check("pareto:15,214.476,0.348238", &pareto_cdf(15.0, 214.476, 0.348238));
    check("pareto:3,2,-0.4", &pareto_cdf(3.0, 2.0, -0.4));
    check("pareto:0,2,0", &|x| 1.0 - (-x / 2.0).exp());
    check("fb_ia", &pareto_cdf(0.0, 16.0292, 0.154971));
    check("fb_key", &gev_cdf(30.7984, 8.20449, 0.078688));
    check("gev:100,5,-0.3", &gev_cdf(100.0, 5.0, -0.3));
    check("gev:100,5,0", &|x| (-(-(x - 100.0) / 5.0).exp()).exp());
    let lognormal = LogNormal::new(3.0, 0.7).unwrap();
    check("lognormal:3,0.7", &|x| lognormal.cdf(x));
}

#[test]
fn a_normal_law_has_no_number_below_zero() {
    let cut = distribution("normal:1,2");
    let sample = draws(&cut, 50_000);
    assert!(sample.iter().all(|x| *x >= 0.0));
    let zeros = sample.iter().filter(|x| **x == 0.0).count() as u64;
    let share = Normal::new(1.0, 2.0).unwrap().cdf(0.0);
    assert_chi_square("cut", &[zeros, 50_000 - zeros], &[share, 1.0 - share]);
    let mean = sample.iter().sum::<f64>() / 50_000.0;
    assert!((mean - cut.mean()).abs() < 0.03, "{mean} and {}; SEED={SEED}", cut.mean());
}

#[test]
fn two_numbers_and_measured_points() {
    let bimodal = draws(&distribution("bimodal:100,900,0.1"), 50_000);
    let high = bimodal.iter().filter(|x| **x == 900.0).count() as u64;
    assert_eq!(bimodal.iter().filter(|x| **x == 100.0).count() as u64, 50_000 - high);
    assert_chi_square("bimodal", &[high, 50_000 - high], &[0.1, 0.9]);

    // Half of all is 10; the rest lies evenly on 10 to 20 (30 %) and on 20 to 100 (20 %).
    let points = Distribution::empirical("# size share\n10 50\n20, 80\n100\t100\n").unwrap();
    let sample = draws(&points, 50_000);
    let count =
        |low: f64, high: f64| sample.iter().filter(|x| (low..=high).contains(*x)).count() as u64;
    let counts = [count(10.0, 10.0), count(10.1, 20.0), count(20.1, 60.0), count(60.1, 100.0)];
    assert_chi_square("points", &counts, &[0.5, 0.297, 0.09975, 0.09975]);
    assert!((points.mean() - (5.0 + 15.0 * 0.3 + 60.0 * 0.2)).abs() < 1e-9);
}

#[test]
fn value_sizes_of_the_pool_are_those_of_the_size_distribution() {
    let sample = draws(&Distribution::FbValue, 100_000);
    let share =
        |low: f64, high: f64| sample.iter().filter(|x| (low..high).contains(*x)).count() as u64;
    let tail = pareto_cdf(15.0, 214.476, 0.348238);
    let weights = [0.00536, 0.00047 + 0.17820, 0.44155 - 0.18403, 0.55845 * tail(100.0)];
    let counts = [share(0.0, 1.0), share(1.0, 3.0), share(3.0, 15.0), share(15.0, 100.0)];
    let rest = 100_000 - counts.iter().sum::<u64>();
    let weights = [&weights[..], &[0.55845 * (1.0 - tail(100.0))]].concat();
    assert_chi_square("fb_value", &[&counts[..], &[rest]].concat(), &weights);
}

#[test]
fn means_are_those_of_theory() {
    let cases = [
        ("fixed:7", 7.0),
        ("uniform:10", 5.0),
        ("normal:200,5", 200.0),
        ("exponential:4", 0.25),
        ("pareto:15,214.476,0.348238", 15.0 + 214.476 / (1.0 - 0.348238)),
        ("pareto:1,2,-0.5", 1.0 + 2.0 / 1.5),
        // The gamma function at 1 - 0.25 is 1.2254167024651776; Euler's constant is 0.5772...
        ("gev:100,5,0.25", 100.0 + 5.0 * (1.225_416_702_465_177_6 - 1.0) / 0.25),
        ("gev:100,5,0", 100.0 + 5.0 * 0.577_215_664_901_532_9),
        ("lognormal:1,0.5", (1.0f64 + 0.125).exp()),
        ("bimodal:1,11,0.25", 3.5),
        // What is left of a standard normal number above 0, on average.
        ("normal:0,1", 1.0 / (2.0 * std::f64::consts::PI).sqrt()),
        ("fb_value", 194.0),
    ];
    for (text, expected) in cases {
        let mean = distribution(text).mean();
        let tolerance = if text == "fb_value" { 0.01 } else { 1e-6 };
        assert!((mean / expected - 1.0).abs() < tolerance, "{text}: {mean}, not {expected}");
    }
}

#[test]
fn a_law_is_fitted_to_a_mean() {
    let texts = [
        "fixed",
        "uniform",
        "normal:0,0.2",
        "normal:5,9",
        "exponential",
        "pareto:0.1,3,0.3",
        "fb_ia",
        "gev:30,8,0.078",
        "lognormal:2,1",
        "bimodal:1,3,0.5",
        "fb_value",
    ];
    for text in texts {
        let fitted = distribution(text).with_mean(0.25).unwrap();
        let mean = fitted.mean();
        assert!((mean / 0.25 - 1.0).abs() < 1e-3, "{text}: {fitted} has mean {mean}");
    }
    for text in ["bimodal:0,0,0.5", "gev", "normal:-9,0.1", "pareto:-9,1,-1"] {
        assert!(distribution(text).with_mean(0.25).is_err(), "{text}");
    }
    assert!(distribution("fixed:1").with_mean(0.0).is_err());
}

#[test]
fn a_law_is_scaled_to_a_mean_in_all_its_lengths() {
    let scaled = |text: &str, mean| distribution(text).with_mean(mean).unwrap().to_string();
    let Distribution::Normal { mean, stddev } =
        distribution("normal:10,2").with_mean(1e-3).unwrap()
    else {
        panic!("it is no longer normal");
    };
    assert!((mean / 1e-3 - 1.0).abs() < 1e-6 && (stddev / 2e-4 - 1.0).abs() < 1e-6);
    assert_eq!(scaled("normal:10,0", 0.5), "normal:0.5,0");
    assert_eq!(scaled("pareto:30,7.5,0.25", 4.0), "pareto:3,0.75,0.25");
    assert_eq!(scaled("pareto", 0.25), "pareto:0,0.25,0");
    assert_eq!(scaled("bimodal:1,3,0.5", 4.0), "bimodal:2,6,0.5");
    for text in [
        "uniform:7",
        "normal:10,2",
        "normal:1,3",
        "exponential:4",
        "pareto:15,214,0.3",
        "gev:30,8,0.08",
        "lognormal:5,1",
        "bimodal:1,10,0.1",
        "fb_value",
    ] {
        let (own, fitted) = (distribution(text), distribution(text).with_mean(1e-3).unwrap());
        let (before, after) = (own.variation(), fitted.variation());
        // The table of value sizes is cut, and becomes points with lines between them.
        assert!((after / before - 1.0).abs() < 1e-2, "{text}: {before} and {after}");
        // And that is the deviation of what is drawn.
        let mut rng = Rng::from_seed(SEED);
        let drawn: Vec<f64> = (0..400_000).map(|_| fitted.sample(&mut rng)).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let square = drawn.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / drawn.len() as f64;
        assert!((mean / 1e-3 - 1.0).abs() < 0.02, "{text}: mean {mean}; SEED={SEED}");
        let found = square.sqrt() / mean;
        assert!((found / after - 1.0).abs() < 0.1, "{text}: {found}, not {after}; SEED={SEED}");
    }
    assert_eq!(distribution("pareto:1,2,0.5").variation(), f64::INFINITY);
    assert_eq!(distribution("fixed:3").variation(), 0.0);
}

#[test]
fn names_are_found_as_mutilate_finds_them() {
    assert_eq!(distribution("200"), Distribution::Fixed(200.0));
    assert_eq!(distribution("0.5"), Distribution::Fixed(0.5));
    assert_eq!(distribution("FIXED:3"), Distribution::Fixed(3.0));
    assert_eq!(distribution("gpareto:1,2,0.3"), distribution("pareto:1,2,0.3"));
    assert_eq!(distribution("Exponential"), Distribution::Exponential { rate: 0.0 });
    assert_eq!(distribution("fb_key").to_string(), "gev:30.7984,8.20449,0.078688");
    assert_eq!(distribution("fb_ia").to_string(), "pareto:0,16.0292,0.154971");
    for text in ["uniform:9", "normal:1,2", "lognormal:1,2", "bimodal:1,2,0.5", "gev:1,2,0.3"] {
        assert_eq!(distribution(text).to_string(), text);
    }
}

#[test]
fn mistakes_are_named() {
    let cases = [
        ("zipf", "expected a number"),
        ("", "expected a number"),
        ("fixed:", "nothing follows"),
        ("fixed:a", "\"a\" is not a number"),
        ("uniform:1,2", "at most 1 numbers"),
        ("-1", "value is -1"),
        ("nan", "value is NaN"),
        ("normal:1,-2", "standard deviation is -2"),
        ("pareto:0,1,1", "shape is 1"),
        ("gev:0,-1,0.1", "scale is -1"),
        ("bimodal:1,2,3", "share is 3"),
        ("exponential:inf", "rate is inf"),
    ];
    for (text, problem) in cases {
        let message = Distribution::parse(text).unwrap_err().to_string();
        assert!(message.contains(problem), "{text}: {message}");
    }
    let files = [
        ("", "last probability"),
        ("1 0.5\n", "last probability"),
        ("1 0.5\n2 0.4\n", "line 2: values and probabilities must ascend"),
        ("2 0.5\n1 1\n", "line 2"),
        ("\nsize 1\n", "line 2: expected VALUE"),
        ("-1 1\n", "below 0"),
    ];
    for (text, problem) in files {
        let message = Distribution::empirical(text).unwrap_err().to_string();
        assert!(message.contains(problem), "{text:?}: {message}");
    }
}

#[test]
fn key_sizes_are_those_of_mutilate() {
    // Sizes by its arithmetic, for hashes that are a tenth, a half, nine tenths of all.
    let key = distribution("fb_key");
    let expected = |u: f64| 30.7984 + 8.20449 * ((-u.ln()).powf(-0.078688) - 1.0) / 0.078688;
    for u in [1e-9, 0.1, 0.5, 0.9, 0.999_999] {
        assert_eq!(key.key_size(u), expected(u));
    }
    assert_eq!(distribution("uniform:50").key_size(0.5), 25.0);
    assert_eq!(distribution("exponential:0.1").key_size(0.5), -(0.5f64.ln()) / 0.1);
    assert_eq!(distribution("fb_value").key_size(0.1), 2.0);
    let tail = 15.0 + 214.476 * (0.5f64.powf(-0.348238) - 1.0) / 0.348238;
    assert_eq!(distribution("fb_value").key_size(0.5), tail);
    let normal = distribution("normal:30,5");
    assert!((normal.key_size(0.975) - (30.0 + 5.0 * 1.959_963_984_540_054)).abs() < 1e-7);
    assert!((normal.key_size(0.001) - (30.0 - 5.0 * 3.090_232_306_167_813_5)).abs() < 1e-7);
}

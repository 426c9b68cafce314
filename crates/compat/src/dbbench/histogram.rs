//! A histogram as `db_bench` prints it: microseconds, in the original's buckets.

use keyrack_measure::Histogram;

const NS_PER_MICROSECOND: f64 = 1000.0;
/// Stars of a bucket that holds everything, less what follows from rounding.
const STARS: f64 = 20.0;
/// The upper bounds of buckets from 10 on, in tenths of a decade.
const TENTHS: [u64; 15] = [12, 14, 16, 18, 20, 25, 30, 35, 40, 45, 50, 60, 70, 80, 90];
/// The last bucket begins here.
const LAST: f64 = 1e10;

/// The upper bounds of buckets: 1 to 10, then fifteen in each decade and its end, and no bound.
fn bounds() -> Vec<f64> {
    let mut bounds: Vec<f64> = (1..=10).map(f64::from).collect();
    let mut decade = 10.0;
    while decade < LAST {
        bounds.extend(TENTHS.iter().map(|tenth| *tenth as f64 * (decade / 10.0)));
        decade *= 10.0;
        bounds.push(decade);
    }
    bounds.push(f64::INFINITY);
    bounds
}

/// The lines. O(buckets of both).
pub(super) fn text(times: &Histogram) -> String {
    let bounds = bounds();
    let mut counts = vec![0_u64; bounds.len()];
    let (mut sum, mut squares) = (0.0, 0.0);
    for (low, high, count) in times.buckets() {
        let micros = (low as f64 + high as f64) / 2.0 / NS_PER_MICROSECOND;
        let bucket = bounds.partition_point(|bound| *bound <= micros);
        counts[bucket] += count;
        sum += micros * count as f64;
        squares += micros * micros * count as f64;
    }
    let count = times.count() as f64;
    let micros = |ns: Option<u64>| ns.map_or(0.0, |ns| ns as f64 / NS_PER_MICROSECOND);
    let mean = if count > 0.0 { sum / count } else { 0.0 };
    let variance = if count > 0.0 { (squares / count - mean * mean).max(0.0) } else { 0.0 };
    let mut text = format!(
        "Count: {count:.0}  Average: {:.4}  StdDev: {:.2}\n\
         Min: {:.4}  Median: {:.4}  Max: {:.4}\n{}\n",
        times.mean().map_or(0.0, |ns| ns / NS_PER_MICROSECOND),
        variance.sqrt(),
        micros(times.min()),
        micros(times.percentile(50.0)),
        micros(times.max()),
        "-".repeat(54)
    );
    let mut so_far = 0;
    for (index, held) in counts.iter().enumerate().filter(|(_, held)| **held > 0) {
        so_far += held;
        let low = if index == 0 { 0.0 } else { bounds[index - 1] };
        let percent = |part: u64| 100.0 * part as f64 / count;
        let stars = "#".repeat((STARS * *held as f64 / count + 0.5) as usize);
        text.push_str(&format!(
            "[ {low:>7.0}, {:>7.0} ) {held:>7} {:>7.3}% {:>7.3}% {stars}\n",
            bounds[index],
            percent(*held),
            percent(so_far)
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_stand_in_the_buckets_of_the_original() {
        let mut times = Histogram::new();
        times.record_n(500, 1);
        times.record_n(13_000, 2);
        times.record_n(1_900_000, 1);
        let text = text(&times);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("Count: 4  Average: 481.6"), "{text}");
        assert!(lines[0].contains("  StdDev: 8"), "{text}");
        assert!(lines[1].starts_with("Min: 0.5000  Median: 1"), "{text}");
        assert_eq!(lines[2], "------------------------------------------------------");
        let expected = [
            "[       0,       1 )       1  25.000%  25.000% #####",
            "[      12,      14 )       2  50.000%  75.000% ##########",
            "[    1800,    2000 )       1  25.000% 100.000% #####",
        ];
        assert_eq!(lines[3..], expected, "{text}");
    }

    #[test]
    fn no_times_are_no_buckets() {
        let text = text(&Histogram::new());
        assert!(text.starts_with("Count: 0  Average: 0.0000  StdDev: 0.00\n"), "{text}");
        assert_eq!(text.lines().count(), 3, "{text}");
    }

    #[test]
    fn bounds_ascend_to_infinity() {
        let bounds = bounds();
        assert!(bounds.windows(2).all(|pair| pair[0] < pair[1]), "{bounds:?}");
        assert_eq!((bounds[9], bounds[10], bounds[24], bounds[25]), (10.0, 12.0, 90.0, 100.0));
    }
}

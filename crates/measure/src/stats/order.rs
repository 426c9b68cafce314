//! Which two of n sorted values enclose a percentile of what they were drawn from.
//!
//! How many of n independent values lie below the true percentile is binomial with mean n p and
//! variance n p (1 - p), whatever the values are. So the values whose ranks lie z standard
//! deviations on either side of n p enclose it with the probability that belongs to z.

use super::student_t_quantile;

/// The ranks (1 is the least of `count` values) of the two values that enclose percentile `p`,
/// 0 to 100, with probability `level`. `None` when one of them would lie outside: there are too few
/// values to say so much.
#[must_use]
pub fn percentile_ranks(count: u64, p: f64, level: f64) -> Option<(u64, u64)> {
    let makes_sense = (0.0..=100.0).contains(&p) && level > 0.0 && level < 1.0;
    if !makes_sense || count == 0 {
        return None;
    }
    let (n, share) = (count as f64, p / 100.0);
    let z = student_t_quantile(f64::INFINITY, 0.5 + level / 2.0);
    let reach = z * (n * share * (1.0 - share)).sqrt();
    let (low, high) = ((n * share - reach).floor(), (n * share + reach).ceil() + 1.0);
    (low >= 1.0 && high <= n).then_some((low as u64, high as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Histogram;
    use crate::stats::seeded::{Distributions, seed};
    use keyrack_testkit::random::Draw;

    #[test]
    fn ranks_need_enough_values() {
        assert_eq!(percentile_ranks(0, 50.0, 0.95), None);
        assert_eq!(percentile_ranks(1, 50.0, 0.95), None);
        assert_eq!(percentile_ranks(100, 99.0, 0.95), None, "the highest would be above all");
        assert_eq!(percentile_ranks(10_000, 50.0, 0.95), Some((4902, 5099)));
        assert_eq!(percentile_ranks(10_000, 99.0, 0.95), Some((9880, 9921)));
        for (p, level) in [(101.0, 0.95), (-1.0, 0.95), (50.0, 0.0), (50.0, 1.0), (f64::NAN, 0.9)] {
            assert_eq!(percentile_ranks(1000, p, level), None);
        }
    }

    #[test]
    fn intervals_cover_the_true_percentile_as_often_as_they_say() {
        let mut random = Draw::new(seed());
        for p in [50.0, 90.0, 99.0] {
            let truth = -(1.0f64 - p / 100.0).ln() * 1e5;
            let mut covered = 0;
            for _ in 0..400 {
                let mut histogram = Histogram::new();
                for _ in 0..2000 {
                    histogram.record((-random.unit().ln() * 1e5) as u64);
                }
                let interval = histogram.percentile_interval(p, 0.95).unwrap();
                // A bucket is 1/128 wide.
                let (low, high) = (interval.low * 0.992, interval.high * 1.008);
                covered += u32::from((low..=high).contains(&truth));
            }
            assert!(covered >= 370, "p{p}: {covered} of 400; KEYRACK_SEED={}", seed());
        }
    }
}

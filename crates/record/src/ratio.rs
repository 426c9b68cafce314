//! One cell's samples set against another's.
//!
//! The ratio is that of the medians, new over base. Its 95 % interval and the Mann-Whitney p are
//! there only with two or more samples on both sides: one repeat says nothing about the spread,
//! so it can show a ratio and never a difference. The verdict rests on the interval alone; p is
//! printed for readers who want a test that assumes no distribution.

use keyrack_measure::stats::{Interval, mann_whitney, median, ratio_interval};

/// New over base.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Median of the base samples.
    pub base: f64,
    /// Median of the new samples.
    pub new: f64,
    /// `new / base`.
    pub ratio: f64,
    /// 95 % interval of the ratio; `None` with one sample on either side.
    pub interval: Option<(f64, f64)>,
    /// Two-sided Mann-Whitney p; `None` with one sample on either side.
    pub p: Option<f64>,
}

/// What a [`Ratio`] shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The whole interval lies above 1.
    Up,
    /// The whole interval lies below 1.
    Down,
    /// The interval contains 1.
    Same,
    /// There is no interval.
    Unsure,
}

impl Ratio {
    /// Sets `new` against `base`; `None` where a side is empty or holds a sample that is not
    /// positive and finite, since then there is no ratio. `draw` feeds the bootstrap: the same
    /// draws give the same interval. O(samples x resamples) at most.
    pub fn of(base: &[f64], new: &[f64], draw: &mut dyn FnMut() -> u64) -> Option<Ratio> {
        let sound = |samples: &[f64]| samples.iter().all(|x| x.is_finite() && *x > 0.0);
        if !sound(base) || !sound(new) {
            return None;
        }
        let (base_median, new_median) = (median(base)?, median(new)?);
        let many = base.len() > 1 && new.len() > 1;
        let interval = if many { ratio_interval(new, base, 0.95, draw) } else { None };
        Some(Ratio {
            base: base_median,
            new: new_median,
            ratio: new_median / base_median,
            interval: interval.map(|Interval { low, high }| (low, high)),
            p: if many { mann_whitney(new, base) } else { None },
        })
    }

    /// What it shows.
    #[must_use]
    pub fn change(&self) -> Change {
        match self.interval {
            None => Change::Unsure,
            Some((low, _)) if low > 1.0 => Change::Up,
            Some((_, high)) if high < 1.0 => Change::Down,
            Some(_) => Change::Same,
        }
    }
}

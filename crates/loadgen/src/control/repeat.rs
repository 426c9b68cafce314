//! The same measurement again and again: medians, and intervals that hold the noise between runs.
//!
//! What one run's interval cannot show is what differs between runs: which server thread got which
//! connection, what the neighbours did. Five runs and more show it.

use keyrack_measure::stats::{self, Interval};
use keyrack_workload::{Phase, Rng};

use super::{Figures, LEVEL};

/// Runs, and what they have in common.
#[derive(Clone, Debug)]
pub struct Repeated {
    /// Each run.
    pub runs: Vec<Figures>,
    seed: u64,
}

impl Repeated {
    /// The median of the achieved rates, with its interval where there are runs enough.
    #[must_use]
    pub fn rate_per_s(&self) -> Option<(f64, Option<Interval>)> {
        self.summary(|run| Some(run.achieved_per_s()))
    }

    /// The median of a percentile of response time, in nanoseconds.
    #[must_use]
    pub fn percentile_ns(&self, percentile: f64) -> Option<(f64, Option<Interval>)> {
        self.summary(|run| run.response.percentile(percentile).map(|ns| ns as f64))
    }

    fn summary(&self, of: impl Fn(&Figures) -> Option<f64>) -> Option<(f64, Option<Interval>)> {
        let values: Vec<f64> = self.runs.iter().filter_map(of).collect();
        let median = stats::median(&values)?;
        let mut rng = Rng::stream(self.seed, Phase::Setup, 0, 0);
        Some((median, stats::rate_interval(&values, LEVEL, &mut || rng.next_u64())))
    }
}

/// Measures `count` times. `seed` is that of the run: the same figures give the same intervals.
///
/// # Errors
/// The first of the closure; what was measured before is lost.
pub fn repeat<E>(
    count: u32,
    seed: u64,
    run: &mut dyn FnMut(u32) -> Result<Figures, E>,
) -> Result<Repeated, E> {
    let runs = (0..count).map(run).collect::<Result<Vec<Figures>, E>>()?;
    Ok(Repeated { runs, seed })
}

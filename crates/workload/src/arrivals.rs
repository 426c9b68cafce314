//! When requests are due in an open loop.
//!
//! A schedule gives the offset of each arrival from the start of the run. It reads no clock and
//! never looks at what became of earlier requests; the caller waits until an offset has passed, and
//! counts the response from that offset even when it is late.
//!
//! A schedule must not drift: rounding a gap to whole nanoseconds and adding it up loses 0.03 % of
//! the rate at 1 M/s. A constant rate is therefore computed, arrival `k` being due at `k * 1e9 /
//! rate`. Random gaps are summed with Kahan's compensation, which keeps the sum exact to its own
//! precision, 1/8 ns after ten days.

use crate::distribution::Distribution;
use crate::error::Error;
use crate::fb;
use crate::rng::Rng;

/// The distribution of the gaps between requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Arrivals {
    /// Equal gaps.
    Constant,
    /// A Poisson process: independent exponential gaps.
    Poisson,
    /// Independent generalised Pareto gaps with shape 0.154971, as observed at the ETC pool:
    /// somewhat burstier than Poisson.
    FbGap,
}

impl Arrivals {
    /// Reads `constant` (or `const`), `poisson` (or `exponential`) or `fb_ia`.
    ///
    /// # Errors
    ///
    /// [`Error::Syntax`] for anything else.
    pub fn parse(text: &str) -> Result<Arrivals, Error> {
        match text {
            "constant" | "const" => Ok(Arrivals::Constant),
            "poisson" | "exponential" => Ok(Arrivals::Poisson),
            "fb_ia" => Ok(Arrivals::FbGap),
            _ => Err(Error::syntax("arrivals", text, "expected constant, poisson or fb_ia")),
        }
    }

    /// The name, which [`Arrivals::parse`] reads.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Arrivals::Constant => "constant",
            Arrivals::Poisson => "poisson",
            Arrivals::FbGap => "fb_ia",
        }
    }
}

/// Where gaps come from.
#[derive(Clone, Debug)]
enum Gaps {
    /// Equal ones, computed.
    Constant,
    /// Exponential ones.
    Poisson,
    /// Those of the ETC pool.
    Fb,
    /// Those of a distribution, in seconds.
    Distribution(Box<Distribution>),
}

/// The offsets at which the requests of one worker are due, in order.
#[derive(Clone, Debug)]
pub struct ArrivalSchedule {
    gaps: Gaps,
    gap_ns: f64,
    rng: Rng,
    /// Arrivals given out.
    count: u64,
    /// The offset of the first arrival, where it is not the schedule's own.
    start_ns: f64,
    /// The sum of the random gaps so far, and what rounding took from it.
    sum_ns: f64,
    lost_ns: f64,
    /// The offset of the last arrival, not rounded.
    last_ns: f64,
}

impl ArrivalSchedule {
    /// A schedule of `rate_per_s` arrivals a second on average.
    ///
    /// The first constant arrival is due at 0; the first random one after a random gap.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] unless the rate lies in 10^-6 to 10^12.
    pub fn new(arrivals: Arrivals, rate_per_s: f64, rng: Rng) -> Result<ArrivalSchedule, Error> {
        let gaps = match arrivals {
            Arrivals::Constant => Gaps::Constant,
            Arrivals::Poisson => Gaps::Poisson,
            Arrivals::FbGap => Gaps::Fb,
        };
        ArrivalSchedule::of_gaps(gaps, rate_per_s, rng)
    }

    /// A schedule of `rate_per_s` arrivals a second on average, whose gaps in seconds have the
    /// shape of `distribution`: [`Distribution::with_mean`]. A distribution without any variance is
    /// the constant schedule.
    ///
    /// # Errors
    ///
    /// [`Error::Parameter`] unless the rate lies in 10^-6 to 10^12, or when the distribution cannot
    /// have it.
    pub fn from_distribution(
        distribution: &Distribution,
        rate_per_s: f64,
        rng: Rng,
    ) -> Result<ArrivalSchedule, Error> {
        check_rate(rate_per_s)?;
        let fitted = distribution.with_mean(1.0 / rate_per_s)?;
        let gaps = match fitted {
            _ if fitted.is_fixed() => Gaps::Constant,
            Distribution::Exponential { .. } => Gaps::Poisson,
            _ => Gaps::Distribution(Box::new(fitted)),
        };
        ArrivalSchedule::of_gaps(gaps, rate_per_s, rng)
    }

    fn of_gaps(gaps: Gaps, rate_per_s: f64, rng: Rng) -> Result<ArrivalSchedule, Error> {
        check_rate(rate_per_s)?;
        Ok(ArrivalSchedule {
            gaps,
            gap_ns: 1e9 / rate_per_s,
            rng,
            count: 0,
            start_ns: 0.0,
            sum_ns: 0.0,
            lost_ns: 0.0,
            last_ns: 0.0,
        })
    }

    /// Shifts constant arrivals by `thread / threads` of a gap, so that the arrivals of all threads
    /// are evenly spaced together. Random schedules need no shift. To be called before the first
    /// arrival.
    #[must_use]
    pub fn staggered(mut self, thread: u32, threads: u32) -> ArrivalSchedule {
        if matches!(self.gaps, Gaps::Constant) {
            self.start_ns = self.gap_ns * f64::from(thread) / f64::from(threads.max(1));
        }
        self
    }

    /// The offset of the next arrival from the start, rounded to a nanosecond. Never decreases.
    #[inline]
    pub fn next_at_ns(&mut self) -> u64 {
        self.advance();
        (self.last_ns + 0.5) as u64
    }

    /// The gap in nanoseconds from the last arrival, or from the start, to the next one, not
    /// rounded.
    ///
    /// Moves the schedule like [`ArrivalSchedule::next_at_ns`]; use one of the two. Gaps that a
    /// caller rounds and adds up drift, offsets do not.
    #[inline]
    pub fn next_gap_ns(&mut self) -> f64 {
        let before_ns = self.last_ns;
        self.advance();
        self.last_ns - before_ns
    }

    /// Moves to the next arrival.
    #[inline]
    fn advance(&mut self) {
        if self.count == 0 && self.start_ns > 0.0 && !matches!(self.gaps, Gaps::Constant) {
            self.last_ns = self.accumulate(self.start_ns);
            self.count = 1;
            return;
        }
        self.last_ns = match &self.gaps {
            Gaps::Constant => self.start_ns + self.count as f64 * self.gap_ns,
            Gaps::Poisson => {
                let gap = self.rng.exponential() * self.gap_ns;
                self.accumulate(gap)
            }
            Gaps::Fb => {
                let gap = fb::gap(&mut self.rng) * self.gap_ns;
                self.accumulate(gap)
            }
            Gaps::Distribution(distribution) => {
                let gap = distribution.sample(&mut self.rng) * 1e9;
                self.accumulate(gap)
            }
        };
        self.count += 1;
    }

    /// Lets a random schedule begin as if it had run for ever: the first gap is what is left of the
    /// one that is under way at a random moment. Without this, many schedules with gaps of little
    /// variance would keep step, all of them having begun together. Constant ones are staggered
    /// instead, and gaps of a Poisson process have no memory. To be called before the first
    /// arrival.
    #[must_use]
    pub fn stationary(mut self) -> ArrivalSchedule {
        /// Mean gaps after which a schedule has forgotten how it began.
        const GAPS: f64 = 64.0;
        if matches!(self.gaps, Gaps::Constant | Gaps::Poisson) {
            return self;
        }
        let moment_ns = (GAPS + self.rng.unit()) * self.gap_ns;
        while self.last_ns < moment_ns {
            self.advance();
        }
        // No first gap is longer than what was waited for: a distribution without variance has
        // such.
        let first_ns = (self.last_ns - moment_ns).min(moment_ns);
        self.start_ns = first_ns;
        (self.count, self.sum_ns, self.lost_ns, self.last_ns) = (0, 0.0, 0.0, 0.0);
        self
    }

    /// The average gap, in nanoseconds.
    #[must_use]
    pub fn mean_gap_ns(&self) -> f64 {
        self.gap_ns
    }

    /// The number of arrivals given out.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Adds a gap; returns the sum.
    #[inline]
    fn accumulate(&mut self, gap_ns: f64) -> f64 {
        let addend = gap_ns - self.lost_ns;
        let sum = self.sum_ns + addend;
        self.lost_ns = (sum - self.sum_ns) - addend;
        self.sum_ns = sum;
        sum
    }
}

fn check_rate(rate_per_s: f64) -> Result<(), Error> {
    let is_fine = (1e-6..=1e12).contains(&rate_per_s);
    Error::check("rate per second", rate_per_s, is_fine, "1e-6 to 1e12")
}

#[cfg(test)]
mod tests {
    use statrs::distribution::{ContinuousCDF, Exp};

    use super::*;
    use crate::check::{SEED, assert_ks};

    fn schedule(arrivals: Arrivals, rate_per_s: f64) -> ArrivalSchedule {
        ArrivalSchedule::new(arrivals, rate_per_s, Rng::from_seed(SEED)).unwrap()
    }

    #[test]
    fn constant_arrivals_are_computed_not_summed() {
        let mut even = schedule(Arrivals::Constant, 1000.0);
        assert_eq!(
            [even.next_at_ns(), even.next_at_ns(), even.next_at_ns()],
            [0, 1_000_000, 2_000_000]
        );
        // A third of a nanosecond is lost at every arrival if gaps are rounded.
        let mut odd = schedule(Arrivals::Constant, 3e6);
        let last = (0..=3_000_000).map(|_| odd.next_at_ns()).last().unwrap();
        assert_eq!(last, 1_000_000_000);
        assert_eq!(odd.count(), 3_000_001);
    }

    #[test]
    fn staggered_threads_are_evenly_spaced() {
        let mut all: Vec<u64> = (0..4)
            .flat_map(|thread| {
                let mut one = schedule(Arrivals::Constant, 250.0).staggered(thread, 4);
                (0..10).map(move |_| one.next_at_ns()).collect::<Vec<u64>>()
            })
            .collect();
        all.sort_unstable();
        assert_eq!(all, (0..40).map(|k| k * 1_000_000).collect::<Vec<u64>>());
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let mut poisson = schedule(Arrivals::Poisson, 1000.0);
        let offsets: Vec<u64> = (0..100_000).map(|_| poisson.next_at_ns()).collect();
        let gaps = offsets.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect();
        let distribution = Exp::new(1.0).unwrap();
        assert_ks("poisson gaps", gaps, |x| distribution.cdf(x));
    }

    #[test]
    fn random_arrivals_keep_the_rate() {
        for arrivals in [Arrivals::Poisson, Arrivals::FbGap] {
            let mut random = schedule(arrivals, 5000.0);
            let last = (0..1_000_000).map(|_| random.next_at_ns()).last().unwrap() as f64 / 1e9;
            assert!((last / 200.0 - 1.0).abs() < 0.006, "{arrivals:?}: {last} s; SEED={SEED}");
        }
    }

    #[test]
    fn compensation_keeps_small_gaps_after_a_long_time() {
        // Ten days in, one nanosecond is eight units in the last place of the sum; a tenth of a
        // nanosecond is lost by plain addition.
        let mut late = schedule(Arrivals::Poisson, 1e9);
        late.sum_ns = 8.64e14;
        let before = late.sum_ns;
        for _ in 0..100_000 {
            late.accumulate(0.1);
        }
        let moved = late.sum_ns - before - late.lost_ns;
        assert!((moved - 10_000.0).abs() < 0.01, "{moved}");
    }

    #[test]
    fn gaps_sum_to_offsets() {
        for arrivals in [Arrivals::Constant, Arrivals::Poisson, Arrivals::FbGap] {
            let mut offsets = schedule(arrivals, 12_345.0).staggered(1, 3);
            let mut gaps = offsets.clone();
            let sum: f64 = (0..10_000).map(|_| gaps.next_gap_ns()).sum();
            let last = (0..10_000).map(|_| offsets.next_at_ns()).last().unwrap();
            assert!((sum - last as f64).abs() < 1.0, "{arrivals:?}: {sum} and {last}");
        }
    }

    #[test]
    fn offsets_never_decrease() {
        for arrivals in [Arrivals::Constant, Arrivals::Poisson, Arrivals::FbGap] {
            let mut fast = schedule(arrivals, 1e9);
            let offsets: Vec<u64> = (0..10_000).map(|_| fast.next_at_ns()).collect();
            assert!(offsets.is_sorted());
        }
    }

    #[test]
    fn schedules_of_laws_keep_the_rate_and_never_go_back() {
        let texts = [
            "fixed:1",
            "uniform",
            "normal:0,0.0001",
            "normal:0,0.01",
            "normal:10,2",
            "pareto:0.01,1,0.1",
            "pareto:-1,4,0.1",
            "exponential",
            "fb_ia",
            "pareto:0,1,0.3",
            "gev:30,8,0.08",
            "lognormal:0,1",
            "bimodal:1,10,0.1",
            "fb_value",
        ];
        for text in texts {
            let distribution = Distribution::parse(text).unwrap();
            let rng = Rng::from_seed(SEED);
            let mut schedule = ArrivalSchedule::from_distribution(&distribution, 5000.0, rng)
                .unwrap()
                .stationary();
            let offsets: Vec<u64> = (0..200_000).map(|_| schedule.next_at_ns()).collect();
            assert!(offsets.is_sorted(), "{text}");
            let rate = offsets.len() as f64 / (*offsets.last().unwrap() as f64 / 1e9);
            assert!((rate / 5000.0 - 1.0).abs() < 0.03, "{text}: {rate}/s; SEED={SEED}");
        }
        let beyond = Distribution::parse("normal:-9,0.1").unwrap();
        let refused =
            ArrivalSchedule::from_distribution(&beyond, 5000.0, Rng::from_seed(1)).unwrap_err();
        assert!(refused.to_string().contains("mean of the distribution is 0"), "{refused}");
    }

    #[test]
    fn the_first_gap_of_a_stationary_schedule_is_what_is_left_of_one() {
        // Of a uniform gap from 0 to 2 the rest at a random moment has the density 1 - x/2.
        let distribution = Distribution::parse("uniform").unwrap();
        let firsts = (0..20_000).map(|seed| {
            let rng = Rng::stream(SEED, crate::Phase::Run, 0, seed);
            let schedule =
                ArrivalSchedule::from_distribution(&distribution, 1e9 / 1e6, rng).unwrap();
            schedule.stationary().next_at_ns() as f64 / 1e6
        });
        assert_ks("first gaps", firsts.collect(), |x| {
            let x = x.clamp(0.0, 2.0);
            x - x * x / 4.0
        });
    }

    #[test]
    fn no_seed_has_a_first_gap_out_of_all_proportion() {
        for text in ["exponential", "fb_ia", "gev:30,8,0.6", "normal:0,0.1", "fixed:1"] {
            let distribution = Distribution::parse(text).unwrap();
            for seed in 0..2000 {
                let rng = Rng::stream(seed, crate::Phase::Run, 0, 0);
                let mut one = ArrivalSchedule::from_distribution(&distribution, 1000.0, rng)
                    .unwrap()
                    .stationary();
                let first_ns = one.next_at_ns();
                assert!(first_ns < 65_000_000, "{text} with seed {seed}: {first_ns} ns");
            }
        }
    }

    #[test]
    fn names_and_mistakes() {
        for arrivals in [Arrivals::Constant, Arrivals::Poisson, Arrivals::FbGap] {
            assert_eq!(Arrivals::parse(arrivals.name()).unwrap(), arrivals);
        }
        assert!(Arrivals::parse("bursty").unwrap_err().to_string().contains("\"bursty\""));
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(ArrivalSchedule::new(Arrivals::Poisson, rate, Rng::from_seed(1)).is_err());
        }
    }
}

//! The highest rate that meets a goal, as an interval: a rate that does, and a rate that does not.
//!
//! ```text
//!   peak        a closed loop says what the server can do at most
//!   bracket     0.9 of it; while that misses, half of it; if it meets, the peak itself
//!   bisect      the geometric mean of the two, until they are within 2 %
//!   confirm     the rate that met the goal once more; if it does not now, it is the upper end
//! ```
//!
//! A probe is judged by the confidence interval of its percentile. While that holds the limit, or
//! there are too few replies for one, the probe goes on: the same rate again, merged with what
//! there is. After [`Search::extensions_max`] the percentile itself decides, and the finding says
//! so.
//!
//! Goodput counts as much as latency: a rate that was not served does not meet a goal, however fast
//! its replies were.

use std::fmt;

use super::{Figures, Goal, Judgement};

/// How close both ends are in the end.
const CLOSE_ENOUGH: f64 = 1.02;
/// Where a bracket begins, as a share of the peak.
const FIRST_SHARE: f64 = 0.9;
/// Below this share of the peak nobody looks for a rate.
const LEAST_SHARE: f64 = 1.0 / 1024.0;
/// Rates at most: ten halvings, and a bisection from a factor of two to 2 % with second chances.
const RATES_MAX: usize = 40;
/// How often a rate that met the goal may turn out not to.
const RETRACTIONS_MAX: u32 = 3;

/// A search for the highest rate that meets a goal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Search {
    /// What is wanted.
    pub goal: Goal,
    /// How often a probe that is undecided is extended by its own length.
    pub extensions_max: u32,
}

/// One rate that was looked at.
#[derive(Clone, Debug, PartialEq)]
pub struct Probed {
    /// The rate.
    pub rate_per_s: f64,
    /// What came of it, all extensions together.
    pub figures: Figures,
    /// Whether it met the goal.
    pub is_met: bool,
    /// Whether the interval said so; if not, the percentile alone did.
    pub is_sure: bool,
}

/// What a search has found.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What was wanted.
    pub goal: Goal,
    /// The closed loop.
    pub peak: Figures,
    /// Every rate that was looked at, in that order.
    pub probes: Vec<Probed>,
    /// The highest rate that met the goal.
    pub met: Option<Probed>,
    /// The lowest rate above it that did not; `None` when the peak itself met it.
    pub missed: Option<Probed>,
}

impl Search {
    /// A search with up to four extensions of a probe.
    #[must_use]
    pub fn new(goal: Goal) -> Search {
        Search { goal, extensions_max: 4 }
    }

    /// Searches. `probe` measures at a rate, or with `None` a closed loop; it is called again with
    /// the same rate when more is needed.
    ///
    /// # Errors
    /// The first of the closure.
    pub fn run<E>(
        &self,
        probe: &mut dyn FnMut(Option<f64>) -> Result<Figures, E>,
    ) -> Result<Finding, E> {
        let peak = probe(None)?;
        let peak_per_s = peak.achieved_per_s();
        let mut finding =
            Finding { goal: self.goal, peak, probes: Vec::new(), met: None, missed: None };
        let mut retractions = 0;
        let mut rate = peak_per_s * FIRST_SHARE;
        while rate > 0.0 && rate >= peak_per_s * LEAST_SHARE && finding.probes.len() < RATES_MAX {
            let probed = self.probe(rate, probe)?;
            finding.record(probed);
            rate = match finding.next_rate(peak_per_s) {
                Some(rate) => rate,
                None => {
                    let Some(met) = &finding.met else { break };
                    let again = self.probe(met.rate_per_s, probe)?;
                    let holds = again.is_met;
                    finding.retract_unless(again);
                    retractions += 1;
                    if holds || retractions > RETRACTIONS_MAX {
                        break;
                    }
                    finding.next_rate(peak_per_s).unwrap_or(0.0)
                }
            };
        }
        Ok(finding)
    }

    /// Measures at a rate until the goal is judged.
    fn probe<E>(
        &self,
        rate_per_s: f64,
        probe: &mut dyn FnMut(Option<f64>) -> Result<Figures, E>,
    ) -> Result<Probed, E> {
        let mut figures = probe(Some(rate_per_s))?;
        let mut extensions = 0;
        loop {
            let judgement = self.goal.judge(&figures);
            if judgement != Judgement::Open {
                let is_met = judgement == Judgement::Met;
                return Ok(Probed { rate_per_s, figures, is_met, is_sure: true });
            }
            if extensions == self.extensions_max {
                let is_met = self.goal.guess(&figures) == Judgement::Met;
                return Ok(Probed { rate_per_s, figures, is_met, is_sure: false });
            }
            figures.merge(&probe(Some(rate_per_s))?);
            extensions += 1;
        }
    }
}

impl Finding {
    /// Notes a probe, and moves the end of the interval that it is for.
    fn record(&mut self, probed: Probed) {
        let end = if probed.is_met { &mut self.met } else { &mut self.missed };
        *end = Some(probed.clone());
        self.probes.push(probed);
    }

    /// The rate to look at next; `None` when both ends are close enough.
    fn next_rate(&self, peak_per_s: f64) -> Option<f64> {
        match (&self.met, &self.missed) {
            (None, Some(missed)) => Some(missed.rate_per_s / 2.0),
            (Some(met), None) if met.rate_per_s < peak_per_s => Some(peak_per_s),
            (Some(met), Some(missed)) => {
                let is_close = missed.rate_per_s / met.rate_per_s <= CLOSE_ENOUGH;
                (!is_close).then(|| (met.rate_per_s * missed.rate_per_s).sqrt())
            }
            _ => None,
        }
    }

    /// Takes in the second look at the rate that met the goal. If it does not, the best of what is
    /// below is the lower end again.
    fn retract_unless(&mut self, again: Probed) {
        if !again.is_met {
            let below = self.probes.iter().filter(|p| p.is_met && p.rate_per_s < again.rate_per_s);
            self.met = below.max_by(|a, b| a.rate_per_s.total_cmp(&b.rate_per_s)).cloned();
            self.missed = Some(again.clone());
        } else if let Some(met) = &mut self.met {
            met.figures.merge(&again.figures);
            met.is_sure &= again.is_sure;
        }
        self.probes.push(again);
    }
}

impl fmt::Display for Finding {
    /// The finding in a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peak = self.peak.achieved_per_s();
        let unsure = |probed: &Probed| if probed.is_sure { "" } else { " (barely)" };
        match (&self.met, &self.missed) {
            (Some(met), Some(missed)) => {
                let (low, high) = (met.rate_per_s, missed.rate_per_s);
                write!(f, "{low:.0} requests/s meet {}{}", self.goal, unsure(met))?;
                write!(f, ", {high:.0} do not{}", unsure(missed))?;
            }
            (Some(met), None) => {
                write!(f, "{:.0} requests/s meet {}", met.rate_per_s, self.goal)?;
                f.write_str(", and nothing above was reached")?;
            }
            (None, Some(missed)) => {
                write!(
                    f,
                    "no rate meets {}: {:.0} requests/s do not",
                    self.goal, missed.rate_per_s
                )?;
            }
            (None, None) => write!(f, "no rate meets {}: nothing was served", self.goal)?,
        }
        write!(f, " (closed loop: {peak:.0})")
    }
}

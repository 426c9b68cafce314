//! A list of rates: `min:max:step`, or with `:geometric` a factor instead of a step.

use super::Error;

/// The most rates of a list.
const RATES_MAX: usize = 10_000;

/// Rates to be measured one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Scan {
    rates_per_s: Vec<f64>,
}

impl Scan {
    /// Reads `min:max:step[:geometric]`. The last rate is the largest that is not above `max`.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse(text: &str) -> Result<Scan, Error> {
        let words: Vec<&str> = text.split(':').collect();
        let (numbers, is_geometric) = match words.as_slice() {
            [numbers @ .., "geometric" | "geo"] => (numbers, true),
            numbers => (numbers, false),
        };
        let refuse = || Error::usage(text, "expected MIN:MAX:STEP or MIN:MAX:FACTOR:geometric");
        let read = |word: &&str| word.trim().parse::<f64>().ok().filter(|n| n.is_finite());
        let numbers: Option<Vec<f64>> = numbers.iter().map(read).collect();
        let [min, max, step] = numbers.as_deref().ok_or_else(refuse)? else { return Err(refuse()) };
        let (min, max, step) = (*min, *max, *step);
        if min <= 0.0 || max < min {
            return Err(Error::usage(
                text,
                "the least rate is more than 0 and at most the largest",
            ));
        }
        if step <= 0.0 || is_geometric && step <= 1.0 {
            let problem =
                if is_geometric { "a factor is more than 1" } else { "a step is more than 0" };
            return Err(Error::usage(text, problem));
        }
        // Computed, not added up; a hair above the largest is still the largest.
        let rate =
            |k: usize| if is_geometric { min * step.powi(k as i32) } else { min + step * k as f64 };
        let rates_per_s: Vec<f64> =
            (0..=RATES_MAX).map(rate).take_while(|rate| *rate <= max * (1.0 + 1e-12)).collect();
        if rates_per_s.len() > RATES_MAX {
            return Err(Error::usage(text, format!("more than {RATES_MAX} rates")));
        }
        Ok(Scan { rates_per_s })
    }

    /// The rates, ascending.
    #[must_use]
    pub fn rates_per_s(&self) -> &[f64] {
        &self.rates_per_s
    }
}

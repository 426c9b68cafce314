//! The grid of a workload: its cells, and the order in which they are measured.
//!
//! | order | nesting, outermost first | for |
//! |---|---|---|
//! | engine | engines, threads, values, rates, repeats | the original's row order; `--seed-once` |
//! | interleave | threads, values, rates, repeats, engines | drift hits all engines of a cell alike |
//! | shuffle | all in an order drawn from the seed | drift and position become noise |
//!
//! Interleaved, each repeat starts with another engine, so that none is always first.

use crate::settings::MeasurementOrder;
use keyrack_record::{Cell, SweepValue};
use keyrack_workload::Rng;

/// The dimensions of a workload's grid.
#[derive(Clone, Debug)]
pub(crate) struct Dimensions<'a> {
    pub(crate) workload: &'a str,
    pub(crate) engines: Vec<&'a str>,
    pub(crate) threads: &'a [u32],
    pub(crate) values: Vec<Option<(String, i64)>>,
    /// Offered rates; one `None` in a closed loop.
    pub(crate) rates: Vec<Option<f64>>,
    pub(crate) repeats: u32,
    /// Whether one load serves several values, so that values are nested inside.
    pub(crate) share_values: bool,
}

/// One measurement to be done.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    /// Index into the engines.
    pub(crate) engine: usize,
    pub(crate) cell: Cell,
    /// From 1.
    pub(crate) repeat: u32,
}

/// All measurements of a grid in their order.
pub(crate) fn steps(dimensions: &Dimensions<'_>, order: MeasurementOrder, seed: u64) -> Vec<Step> {
    let engines: Vec<usize> = (0..dimensions.engines.len()).collect();
    let mut steps = Vec::new();
    match order {
        MeasurementOrder::Engine => {
            for &engine in &engines {
                for (threads, value, rate) in inner(dimensions) {
                    for repeat in 1..=dimensions.repeats {
                        steps.push(dimensions.step(engine, threads, value, rate, repeat));
                    }
                }
            }
        }
        MeasurementOrder::Interleave => {
            for (threads, value, rate) in inner(dimensions) {
                for repeat in 1..=dimensions.repeats {
                    for turn in 0..engines.len() {
                        let engine = (turn + repeat as usize - 1) % engines.len();
                        steps.push(dimensions.step(engine, threads, value, rate, repeat));
                    }
                }
            }
        }
        MeasurementOrder::Shuffle => {
            steps = self::steps(dimensions, MeasurementOrder::Engine, seed);
            let mut rng = Rng::from_seed(seed);
            for last in (1..steps.len()).rev() {
                steps.swap(last, rng.below(last as u64 + 1) as usize);
            }
        }
    }
    steps
}

type Inner<'d> = (u32, &'d Option<(String, i64)>, Option<f64>);

/// Threads, values and rates; values outside of threads when each needs a load of its own.
fn inner<'d>(dimensions: &'d Dimensions<'_>) -> Vec<Inner<'d>> {
    let mut list = Vec::new();
    for &threads in dimensions.threads {
        for value in &dimensions.values {
            for &rate in &dimensions.rates {
                list.push((threads, value, rate));
            }
        }
    }
    if dimensions.share_values {
        // A kept store is loaded once a value, or once for all: the value changes slowest.
        list.sort_by_key(|(_, value, _)| dimensions.values.iter().position(|v| v == *value));
    }
    list
}

impl Dimensions<'_> {
    fn step(
        &self,
        engine: usize,
        threads: u32,
        value: &Option<(String, i64)>,
        rate: Option<f64>,
        repeat: u32,
    ) -> Step {
        let sweep = value.clone().map(|(param, value)| SweepValue { param, value });
        let (workload, name) = (self.workload.to_owned(), self.engines[engine].to_owned());
        Step {
            engine,
            cell: Cell { workload, engine: name, threads, sweep, rate, part: None },
            repeat,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dimensions(repeats: u32) -> Dimensions<'static> {
        Dimensions {
            workload: "w",
            engines: vec!["a", "b"],
            threads: &[1, 4],
            values: vec![None],
            rates: vec![None],
            repeats,
            share_values: false,
        }
    }

    fn shape(steps: &[Step]) -> Vec<String> {
        steps.iter().map(|s| format!("{}{}r{}", s.cell.engine, s.cell.threads, s.repeat)).collect()
    }

    #[test]
    fn engine_order_is_the_originals() {
        let steps = steps(&dimensions(2), MeasurementOrder::Engine, 1);
        assert_eq!(shape(&steps), ["a1r1", "a1r2", "a4r1", "a4r2", "b1r1", "b1r2", "b4r1", "b4r2"]);
    }

    #[test]
    fn drift_does_not_masquerade_as_an_engine_difference() {
        // Engines take turns within each cell, and none is always first.
        let steps = steps(&dimensions(2), MeasurementOrder::Interleave, 1);
        assert_eq!(shape(&steps), ["a1r1", "b1r1", "b1r2", "a1r2", "a4r1", "b4r1", "b4r2", "a4r2"]);
    }

    #[test]
    fn a_shuffle_is_a_permutation_that_the_seed_decides() {
        let (one, again) = (
            steps(&dimensions(4), MeasurementOrder::Shuffle, 7),
            steps(&dimensions(4), MeasurementOrder::Shuffle, 7),
        );
        assert_eq!(one, again);
        let other = steps(&dimensions(4), MeasurementOrder::Shuffle, 8);
        assert_ne!(shape(&one), shape(&other));
        let sorted = |steps: &[Step]| {
            let mut names = shape(steps);
            names.sort();
            names
        };
        assert_eq!(sorted(&one), sorted(&steps(&dimensions(4), MeasurementOrder::Engine, 7)));
    }
}

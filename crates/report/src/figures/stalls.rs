//! Stalls: how much of its time a store made next to no progress, from the samples of the rate.
//!
//! An interval between two samples of a repeat is stalled when its rate is below a tenth of that
//! repeat's median, or nothing was done in it at all: a store that stands still most of the time
//! has a median of 0. Neighbouring stalled intervals are one stall. What is shorter than an
//! interval cannot be seen; the note says how long intervals were.

use super::chart::{Bar, BarGroup, BarPanel, Body, Chart, Group, Unit};
use super::figure::Dot;
use super::resolve::Resolver;
use super::select::{Workload, detail};
use super::timeline::Sample;
use keyrack_measure::stats::median;

/// Of the median rate; below it an interval is stalled.
const SHARE: f64 = 0.1;
/// Intervals below which there is no median worth the name.
const INTERVALS_MIN: usize = 10;

/// What was seen of one cell, over its repeats.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Stalls {
    /// Of the time that was sampled, 0 to 100.
    percent: f64,
    longest_s: f64,
    /// The typical interval, in seconds.
    interval_s: f64,
}

/// Two panels over all workloads; `None` without samples.
pub(super) fn chart(resolver: &Resolver<'_>, workloads: &[Workload<'_>]) -> Option<Chart> {
    let mut intervals = Vec::new();
    let mut share = Vec::new();
    let mut longest = Vec::new();
    for workload in workloads {
        let found: Vec<Option<(Stalls, bool)>> = (0..workload.series_count)
            .map(|series| {
                let point = workload.head(series)?;
                let metrics = resolver.metrics(series, point, "run")?;
                let stalls = stalls(metrics.get("wu_per_s")?)?;
                Some((stalls, !point.flags.is_empty()))
            })
            .collect();
        if found.iter().all(Option::is_none) {
            continue;
        }
        intervals.extend(found.iter().flatten().map(|(stalls, _)| stalls.interval_s));
        let group = |value: &dyn Fn(&Stalls) -> f64| BarGroup {
            label: workload.name.clone(),
            detail: detail(workload),
            bars: found
                .iter()
                .map(|found| {
                    let (stalls, flagged) = found.as_ref()?;
                    Some(Bar { dot: Dot::plain(0.0, value(stalls)), flagged: *flagged })
                })
                .collect(),
        };
        share.push(group(&|stalls| stalls.percent));
        longest.push(group(&|stalls| stalls.longest_s));
    }
    let interval_s = median(&intervals)?;
    Some(Chart {
        name: "stalls".to_owned(),
        title: "Stalls".to_owned(),
        notes: vec![format!(
            "stalled: nothing done, or less than a tenth of the median rate, over an interval of \
             about {interval_s:.2} s; shorter ones are not seen"
        )],
        group: Group::OverTime,
        body: Body::Bars(vec![
            BarPanel { title: "time stalled".to_owned(), unit: Unit::Percent, groups: share },
            BarPanel { title: "longest stall".to_owned(), unit: Unit::Seconds, groups: longest },
        ]),
    })
}

fn stalls(samples: &[Sample]) -> Option<Stalls> {
    let mut repeats: Vec<u32> = samples.iter().map(|sample| sample.repeat).collect();
    repeats.sort_unstable();
    repeats.dedup();
    let (mut all_s, mut stalled_s, mut longest_s) = (0.0, 0.0, 0.0_f64);
    let mut lengths = Vec::new();
    for repeat in repeats {
        let own: Vec<&Sample> = samples.iter().filter(|s| s.repeat == repeat).collect();
        if own.len() < INTERVALS_MIN {
            continue;
        }
        let typical = median(&own.iter().map(|sample| sample.value).collect::<Vec<f64>>())?;
        let (mut before_s, mut going_s) = (0.0, 0.0);
        for sample in own {
            let interval_s = (sample.elapsed_s - before_s).max(0.0);
            before_s = sample.elapsed_s;
            lengths.push(interval_s);
            all_s += interval_s;
            if sample.value <= 0.0 || sample.value < SHARE * typical {
                stalled_s += interval_s;
                going_s += interval_s;
                longest_s = longest_s.max(going_s);
            } else {
                going_s = 0.0;
            }
        }
    }
    let interval_s = median(&lengths)?;
    let percent = if all_s > 0.0 { stalled_s / all_s * 100.0 } else { 0.0 };
    Some(Stalls { percent, longest_s, interval_s })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates(repeat: u32, rates: &[f64]) -> Vec<Sample> {
        let at = |(index, &value): (usize, &f64)| Sample {
            repeat,
            elapsed_s: 0.5 * (index + 1) as f64,
            value,
        };
        rates.iter().enumerate().map(at).collect()
    }

    #[test]
    fn neighbouring_stalled_intervals_are_one_stall() {
        let mut samples = rates(
            1,
            &[100.0, 0.0, 9.0, 100.0, 100.0, 11.0, 100.0, 100.0, 0.0, 100.0, 100.0, 100.0],
        );
        samples.extend(rates(2, &[100.0; 12]));
        let found = stalls(&samples).unwrap();
        assert_eq!(found, Stalls { percent: 12.5, longest_s: 1.0, interval_s: 0.5 });
    }

    /// Nothing is below a tenth of a median of 0: the worst store was said to have no stalls.
    #[test]
    fn a_store_that_stands_still_most_of_the_time_is_stalled() {
        let mut samples = [0.0; 20];
        (samples[3], samples[15]) = (100.0, 90.0);
        let found = stalls(&rates(1, &samples)).unwrap();
        assert_eq!(found, Stalls { percent: 90.0, longest_s: 5.5, interval_s: 0.5 });
    }

    #[test]
    fn few_samples_show_no_stalls() {
        assert_eq!(stalls(&rates(1, &[100.0, 0.0, 100.0])), None);
        assert_eq!(stalls(&[]), None);
    }
}

//! `timeline.tsv` in memory: what was sampled while the cells ran.
//!
//! Columns are found by name, as `docs/formats/tsv.md` says. A last line without its end is that of
//! a run which was killed, and is left out.

use crate::Error;
use keyrack_record::{Point, tsv_field};
use std::collections::{BTreeMap, HashMap};

/// The samples of a run.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    cells: HashMap<Key, Metrics>,
}

/// Samples of each metric of one cell and phase.
pub(crate) type Metrics = BTreeMap<String, Vec<Sample>>;

/// A cell and `seed` or `run`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    workload: String,
    engine_version: String,
    threads: String,
    sweep_value: String,
    rate: String,
    phase: String,
    /// Declared phase and role.
    part: (String, String),
}

/// One value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) repeat: u32,
    pub(crate) elapsed_s: f64,
    pub(crate) value: f64,
}

const COLUMNS: [&str; 10] = [
    "workload",
    "engine",
    "threads",
    "sweep_value",
    "rate",
    "phase",
    "elapsed_s",
    "metric",
    "value",
    "repeat",
];

impl Timeline {
    /// Reads the text of a `timeline.tsv`. `name` is for messages.
    ///
    /// # Errors
    /// [`Error::Samples`] for a text without the columns, or with a line that does not fit them.
    pub fn parse(name: &str, text: &str) -> Result<Timeline, Error> {
        let mut timeline = Timeline::default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut lines = whole.lines().zip(1..);
        let Some((header, _)) = lines.next() else { return Ok(timeline) };
        let refuse =
            |line: usize, what: String| Error::Samples { name: name.to_owned(), line, what };
        let header: Vec<&str> = header.split('\t').collect();
        let mut places = [0; COLUMNS.len()];
        for (place, column) in places.iter_mut().zip(COLUMNS) {
            let at = header.iter().position(|other| *other == column);
            *place = at.ok_or_else(|| refuse(1, format!("there is no column '{column}'")))?;
        }
        // Files of older versions have none.
        let optional = |column: &str| header.iter().position(|other| *other == column);
        let (script_phase, role) = (optional("script_phase"), optional("role"));
        for (line, number) in lines {
            let fields: Vec<&str> = line.split('\t').collect();
            if fields.len() != header.len() {
                let what = format!("{} fields, not {}", fields.len(), header.len());
                return Err(refuse(number, what));
            }
            let [workload, engine, threads, sweep_value, rate, phase, at, metric, value, repeat] =
                places.map(|place| fields[place]);
            let sample = || {
                Some(Sample {
                    repeat: repeat.parse().ok()?,
                    elapsed_s: at.parse().ok().filter(|at: &f64| at.is_finite())?,
                    value: value.parse().ok().filter(|value: &f64| value.is_finite())?,
                })
            };
            let sample = sample().ok_or_else(|| {
                refuse(number, "time, value or repeat is not a finite number".to_owned())
            })?;
            let key = Key {
                workload: workload.to_owned(),
                engine_version: engine.to_owned(),
                threads: threads.to_owned(),
                sweep_value: sweep_value.to_owned(),
                rate: rate.to_owned(),
                phase: phase.to_owned(),
                part: (
                    script_phase.map_or("", |place| fields[place]).to_owned(),
                    role.map_or("", |place| fields[place]).to_owned(),
                ),
            };
            let metrics = timeline.cells.entry(key).or_default();
            match metrics.get_mut(metric) {
                Some(samples) => samples.push(sample),
                None => {
                    metrics.insert(metric.to_owned(), vec![sample]);
                }
            }
        }
        Ok(timeline)
    }

    /// The metrics of a cell in a phase. O(1).
    pub(crate) fn metrics(&self, point: &Point, phase: &str) -> Option<&Metrics> {
        let cell = &point.cell;
        let (script_phase, role) = super::select::part(cell, phase);
        // A load is that of the whole cell, whatever the rate of its part.
        let is_of_part = cell.part.is_some() && phase == "seed";
        let rate = cell.rate.filter(|_| !is_of_part);
        self.cells.get(&Key {
            workload: tsv_field(&cell.workload),
            engine_version: tsv_field(&point.engine_version),
            threads: cell.threads.to_string(),
            sweep_value: cell.sweep.as_ref().map_or(1, |sweep| sweep.value).to_string(),
            // As the timeline sink writes rates.
            rate: rate.map(|rate| format!("{rate:.1}")).unwrap_or_default(),
            phase: phase.to_owned(),
            part: (tsv_field(&script_phase), tsv_field(&role)),
        })
    }
}

/// Counts that run on from the start of the process, each from the first sample of its repeat on.
pub(crate) fn from_first(samples: &[Sample]) -> Vec<Sample> {
    let mut firsts: BTreeMap<u32, Sample> = BTreeMap::new();
    for sample in samples {
        let first = firsts.entry(sample.repeat).or_insert(*sample);
        if sample.elapsed_s < first.elapsed_s {
            *first = *sample;
        }
    }
    let from = |sample: &Sample| Sample {
        value: sample.value - firsts.get(&sample.repeat).map_or(0.0, |first| first.value),
        ..*sample
    };
    samples.iter().map(from).collect()
}

/// How long most of the repeats last, by their last samples. What comes later is of a few alone: an
/// average with those would fall or jump where the others end.
fn lasting_s(samples: &[Sample]) -> f64 {
    let mut ends: BTreeMap<u32, f64> = BTreeMap::new();
    for sample in samples {
        let end = ends.entry(sample.repeat).or_insert(sample.elapsed_s);
        *end = end.max(sample.elapsed_s);
    }
    let mut ends: Vec<f64> = ends.into_values().collect();
    ends.sort_unstable_by(f64::total_cmp);
    ends.get((ends.len().max(1) - 1) / 2).copied().unwrap_or(0.0)
}

/// Samples of all repeats, or of one, averaged over equal intervals of time, so that at most
/// `count_max` are left: time and value, as long as most repeats last. Values of one repeat are not
/// averaged where they are few.
pub(crate) fn averaged(
    samples: &[Sample],
    repeat: Option<u32>,
    divisor: f64,
    count_max: usize,
) -> Vec<(f64, f64)> {
    let end_s = if repeat.is_none() { lasting_s(samples) + BIN_S / 2.0 } else { f64::INFINITY };
    let wanted = |sample: &&Sample| {
        repeat.is_none_or(|repeat| repeat == sample.repeat) && sample.elapsed_s <= end_s
    };
    let latest = samples.iter().filter(wanted).map(|s| s.elapsed_s).fold(0.0, f64::max);
    let bin_s = BIN_S.max(latest / count_max.max(1) as f64);
    let mut bins: BTreeMap<u64, (f64, f64, f64)> = BTreeMap::new();
    for sample in samples.iter().filter(wanted) {
        let bin = bins.entry((sample.elapsed_s.max(0.0) / bin_s).round() as u64).or_default();
        *bin = (bin.0 + sample.elapsed_s, bin.1 + sample.value / divisor, bin.2 + 1.0);
    }
    bins.into_values().map(|(time, value, count)| (time / count, value / count)).collect()
}

/// Samples of repeats that lie this close are one moment, in seconds.
const BIN_S: f64 = 0.1;

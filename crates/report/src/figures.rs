//! What a report shows, before anything is known of pixels or pages.
//!
//! ```text
//!   Run, timeline.tsv --select--> Figure --resolve--> Chart --+
//!          |                                                  +--> draw, html
//!          +--spectrum, stalls, engine_stats, costs, forest---+
//! ```
//!
//! `select` chooses the figures that the gnuplot script has too; there the numbers over time stay
//! in their file. A [`Chart`] holds all its numbers. The other modules add charts that need
//! histograms, samples or intervals.

pub(crate) mod chart;
mod costs;
mod engine_stats;
pub(crate) mod figure;
mod forest;
pub(crate) mod heading;
pub(crate) mod palette;
mod resolve;
pub(crate) mod select;
mod spectrum;
mod stalls;
#[cfg(test)]
mod tests;
pub(crate) mod text;
mod timeline;

use crate::figures::chart::{Chart, Group};
use crate::figures::select::Named;
use keyrack_record::{Cell, Run};

pub use heading::Heading;
pub use palette::{Look, Palette, Shape};
pub use timeline::Timeline;

/// A recorded run with what lay beside it.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// What to call it where there are several: the name of its directory.
    pub name: String,
    /// The run.
    pub run: Run,
    /// Its samples; empty where none were taken.
    pub timeline: Timeline,
}

/// An engine of a run, as it looks and is called in all charts.
#[derive(Clone, Debug)]
pub struct Series {
    /// The name with the version, and with the run where several have it.
    pub label: String,
    /// Colours, mark and line.
    pub look: Look,
    pub(crate) of: figure::Series,
}

/// The charts of some runs.
#[derive(Clone, Debug)]
pub struct Charts {
    /// What is said of each run.
    pub headings: Vec<Heading>,
    /// The engines.
    pub series: Vec<Series>,
    pub(crate) charts: Vec<Chart>,
}

/// Points of a curve over time: more are averaged in wider intervals.
pub(crate) const SAMPLES_MAX: usize = 240;

impl Charts {
    /// All charts of `runs`, of which the first is what the others are compared with. `draw` feeds
    /// the bootstrap of intervals; the same draws give the same charts.
    /// O(points x verbs + samples).
    #[must_use]
    pub fn of(runs: &[Recorded], palette: &Palette, draw: &mut dyn FnMut() -> u64) -> Charts {
        Charts::with(runs, palette, SAMPLES_MAX, draw)
    }

    /// As [`Charts::of`], with at most `samples_max` points on a curve over time.
    pub(crate) fn with(
        runs: &[Recorded],
        palette: &Palette,
        samples_max: usize,
        draw: &mut dyn FnMut() -> u64,
    ) -> Charts {
        let named: Vec<Named<'_>> = runs
            .iter()
            .map(|recorded| Named { name: recorded.name.clone(), run: &recorded.run })
            .collect();
        let known = select::series(&named);
        let workloads = select::workloads(&named, &known);
        let mut charts: Vec<Chart> = Vec::new();
        let figures = select::figures(&named, &known);
        let (over_time, others): (Vec<_>, Vec<_>) =
            figures.iter().partition(|figure| figure.content.is_sampled());
        let resolver = resolve::Resolver { runs, series: &known, samples_max };
        charts.extend(others.into_iter().filter_map(|figure| resolver.chart(figure)));
        charts.extend(forest::engines(runs, &workloads, &known, draw));
        charts.extend(forest::runs(runs, &known, draw));
        charts.extend(workloads.iter().flat_map(spectrum::charts));
        charts.extend(costs::charts(&workloads, known.len()));
        charts.extend(costs::counters(&workloads, known.len()));
        charts.extend(over_time.into_iter().filter_map(|figure| resolver.chart(figure)));
        charts.extend(stalls::chart(&resolver, &workloads));
        charts.extend(engine_stats::charts(&resolver, &workloads));
        // What belongs together stands together; within a group the order stays.
        charts.sort_by_key(|chart| Group::ALL.iter().position(|group| *group == chart.group));
        // Roles look like engines of their own, so that colours tell them apart too.
        let names: Vec<String> = known
            .iter()
            .map(|series| match &series.role {
                Some(role) => format!("{}: {role}", series.engine),
                None => series.engine.clone(),
            })
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let looks = palette.looks(&names);
        Charts {
            headings: runs.iter().map(|one| Heading::of(&one.run, one.name.clone())).collect(),
            series: known
                .into_iter()
                .zip(looks)
                .map(|(of, look)| Series { label: of.label.clone(), look, of })
                .collect(),
            charts: chart::with_distinct_names(charts, |chart| &mut chart.name),
        }
    }

    /// The series of a cell of a run, or the first one.
    pub(crate) fn series_of(&self, run: usize, cell: &Cell) -> usize {
        let is_its = |series: &Series| series.of.run == run && series.of.has(cell);
        self.series.iter().position(is_its).unwrap_or(0)
    }

    /// The names of the charts' files without their endings, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.charts.iter().map(|chart| chart.name.as_str())
    }
}

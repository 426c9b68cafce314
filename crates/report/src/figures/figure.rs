//! What a figure consists of, before anything is known of pixels.
//!
//! ```text
//!   Figure
//!    +- Bars: groups along x, in each one bar per series     (throughput_compare)
//!    +- Panels: each with its axes and curves, one per series (everything else)
//! ```
//!
//! A series is an engine of a run, or a role of its workers that a script declares; it has the same
//! colour in every figure. Values keep the units of the record: per second and nanoseconds.

use super::chart::{BarGroup, Unit, ascending};

/// An engine, as the legend names it.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// Index of the run that it belongs to.
    pub(crate) run: usize,
    /// The engine's name on the command line: the key of its points.
    pub(crate) engine: String,
    /// The role, where it is one that a script declares.
    pub(crate) role: Option<String>,
    /// What the legend says: the name with the version.
    pub(crate) label: String,
}

/// One file.
#[derive(Debug)]
pub(crate) struct Figure {
    /// The file's name without its extension, already safe.
    pub(crate) name: String,
    pub(crate) title: String,
    /// Small print under the title that only this figure needs; may be empty.
    pub(crate) note: String,
    pub(crate) content: Content,
}

#[derive(Debug)]
pub(crate) enum Content {
    Bars(Vec<BarGroup>),
    Panels(Vec<Panel>),
}

#[derive(Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) x: XAxis,
    pub(crate) y: Unit,
    /// About how large the samples are, where the numbers are not in the figure.
    pub(crate) typical: Option<f64>,
    pub(crate) curves: Vec<Curve>,
}

#[derive(Debug)]
pub(crate) enum XAxis {
    /// Marks at these values, ascending; a logarithm of base 2 where all of them are positive.
    Values { label: String, values: Vec<f64> },
    /// Seconds of a phase, from zero to the last sample.
    Elapsed,
}

#[derive(Debug)]
pub(crate) struct Curve {
    /// Index of the series.
    pub(crate) series: usize,
    pub(crate) source: Source,
}

#[derive(Debug)]
pub(crate) enum Source {
    /// Numbers of the record, ascending in x.
    Dots(Vec<Dot>),
    /// Rows of `timeline.tsv`.
    Samples(Samples),
}

/// Which rows of `timeline.tsv`, and how their value is divided.
#[derive(Clone, Debug)]
pub(crate) struct Samples {
    pub(crate) workload: String,
    pub(crate) engine_version: String,
    pub(crate) threads: u32,
    pub(crate) sweep_value: i64,
    /// The declared phase and role; both empty in the load and where a script declares none.
    pub(crate) part: (String, String),
    /// All repeats where there is none: they are averaged.
    pub(crate) repeat: Option<u32>,
    pub(crate) phase: &'static str,
    pub(crate) metric: &'static str,
    pub(crate) divisor: f64,
}

/// A value with its range over the repeats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dot {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// Smallest of the repeats; `y` where there is no range.
    pub(crate) low: f64,
    /// Largest of the repeats; `y` where there is no range.
    pub(crate) high: f64,
}

impl Series {
    /// Whether the points of this cell of its run are its own.
    pub(crate) fn has(&self, cell: &keyrack_record::Cell) -> bool {
        self.engine == cell.engine && self.role.as_deref() == cell.role()
    }
}

impl Dot {
    /// A value without a range.
    pub(crate) fn plain(x: f64, y: f64) -> Dot {
        Dot { x, y, low: y, high: y }
    }

    pub(crate) fn has_range(&self) -> bool {
        self.low < self.high
    }
}

impl Panel {
    /// The dots of all curves.
    pub(crate) fn dots(&self) -> impl Iterator<Item = &Dot> {
        self.curves.iter().flat_map(|curve| match &curve.source {
            Source::Dots(dots) => dots.as_slice(),
            Source::Samples(_) => &[],
        })
    }
}

impl Content {
    /// Whether it is drawn from `timeline.tsv`.
    pub(crate) fn is_sampled(&self) -> bool {
        let Content::Panels(panels) = self else { return false };
        let mut curves = panels.iter().flat_map(|panel| &panel.curves);
        curves.any(|curve| matches!(curve.source, Source::Samples(_)))
    }

    /// Whether any value has a range over the repeats.
    pub(crate) fn has_ranges(&self) -> bool {
        match self {
            Content::Bars(groups) => groups
                .iter()
                .flat_map(|group| group.bars.iter().flatten())
                .any(|b| b.dot.has_range()),
            Content::Panels(panels) => panels.iter().flat_map(Panel::dots).any(Dot::has_range),
        }
    }

    /// Indices of the series in it, ascending.
    pub(crate) fn series(&self) -> Vec<usize> {
        match self {
            Content::Bars(groups) => ascending(groups.iter().flat_map(BarGroup::series)),
            Content::Panels(panels) => {
                let curves = panels.iter().flat_map(|panel| &panel.curves);
                ascending(curves.map(|curve| curve.series))
            }
        }
    }
}

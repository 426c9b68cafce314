//! Sinks: renderings of the record of a run, written while the run goes on.
//!
//! ```text
//!   begin(header)                 once, before anything is measured
//!     probe(..) ...               what the machine and the build are
//!     row(..) ... point(..)       samples of a cell while it runs, then the cell
//!     failure(..)                 instead of a point
//!   end(run)                      once, with everything
//! ```
//!
//! | name       | renders                                             | when           |
//! |------------|-----------------------------------------------------|----------------|
//! | `console`  | a report for people                                 | all along      |
//! | `tsv`      | one row per verb of each cell                       | at each point  |
//! | `timeline` | one row per metric of each sample                   | at each row    |
//! | `json`     | the whole record                                    | at the end     |
//! | `hdr`      | histograms as an HdrHistogram log                   | at each point  |
//! | `notebook` | an experiment, added to those of the file           | at the end     |
//! | `gnuplot`  | candlesticks over threads, as a gnuplot script      | at the end     |
//! | `dbbench`  | a line per benchmark, as LevelDB's `db_bench`       | at each point  |
//!
//! **Invariant:** a sink is a pure function of what it is given. It reads no clock, no file and no
//! machine, so the same record always gives the same bytes; golden files hold it to that. The
//! notebook is given its old text by its [`Page`].
//! **Invariant:** what a point has added is flushed before [`Sink::point`] returns, so that a run
//! that is killed keeps every finished cell. Those that write at the end have nothing to keep
//! before.
//!
//! The shapes of the machine-readable sinks are described in `docs/formats/tsv.md`,
//! `docs/formats/run.md` and `docs/formats/notebook.md`.

mod compare;
mod console;
mod dbbench;
mod experiment;
mod gnuplot;
mod hdr;
mod json;
mod notebook;
mod spec;
mod summary;
#[cfg(test)]
mod tests;
mod text;
mod timeline;
mod tsv;
mod value;

pub use dbbench::{EntryShape, db_bench_head, db_bench_lines};
pub use experiment::{Experiment, Trial};
pub use gnuplot::{Candlesticks, Normalize};
pub(crate) use notebook::NotebookSink;
pub use notebook::{Notebook, NotebookError, Page, Stream, append};
pub use spec::{SINKS_MAX, SinkKind, SinkSpec, SpecError, Target};
pub use text::fmt_latency;
pub use value::Value;

use keyrack_record::{Failure, Header, Point, Probe, Run, TimelineRow};
use std::io::{self, Write};

/// Which program's words and shapes a console report uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// Ours: intervals, engine share, durability, comparisons; percentiles of few samples withheld.
    #[default]
    Keyrack,
    /// The shapes that parsers of `keybench` 0.1.0 read.
    Seed,
}

/// One rendering of a run. Every method may fail as its output does; a sink that has failed is not
/// written to again.
pub trait Sink {
    /// The run begins.
    ///
    /// # Errors
    /// Those of the output.
    fn begin(&mut self, header: &Header) -> io::Result<()> {
        let _ = header;
        Ok(())
    }

    /// What one probe found.
    ///
    /// # Errors
    /// Those of the output.
    fn probe(&mut self, probe: &Probe) -> io::Result<()> {
        let _ = probe;
        Ok(())
    }

    /// A cell has been measured.
    ///
    /// # Errors
    /// Those of the output.
    fn point(&mut self, point: &Point, header: &Header) -> io::Result<()> {
        let _ = (point, header);
        Ok(())
    }

    /// A cell could not be measured.
    ///
    /// # Errors
    /// Those of the output.
    fn failure(&mut self, failure: &Failure) -> io::Result<()> {
        let _ = failure;
        Ok(())
    }

    /// A sample of a running cell.
    ///
    /// # Errors
    /// Those of the output.
    fn row(&mut self, row: &TimelineRow) -> io::Result<()> {
        let _ = row;
        Ok(())
    }

    /// The run has ended; `run` holds everything that was passed before.
    ///
    /// # Errors
    /// Those of the output.
    fn end(&mut self, run: &Run) -> io::Result<()>;

    /// A line for the user about what [`Sink::end`] has written.
    fn said(&self) -> Option<String> {
        None
    }
}

/// Makes the sink of a kind over `out`, where a notebook is a new one. `dialect` and `draw` matter
/// to the console alone: `draw` feeds the bootstrap of its engine comparison and should be seeded
/// by the run's seed, so that the same record prints the same intervals.
#[must_use]
pub fn open(
    kind: SinkKind,
    out: Box<dyn Write>,
    dialect: Dialect,
    draw: Box<dyn FnMut() -> u64>,
) -> Box<dyn Sink> {
    match kind {
        SinkKind::Console => Box::new(console::Console { out, dialect, draw }),
        SinkKind::Tsv => Box::new(tsv::Tsv { out }),
        SinkKind::Timeline => Box::new(timeline::Timeline { out, moment: None }),
        SinkKind::Json => Box::new(json::Json { out }),
        SinkKind::Hdr => Box::new(hdr::Hdr { out }),
        SinkKind::Notebook => {
            Box::new(NotebookSink::new(Box::new(Stream::new(String::new(), out))))
        }
        SinkKind::Gnuplot => Box::new(gnuplot::Gnuplot { out }),
        SinkKind::DbBench => Box::new(dbbench::DbBench::new(out)),
    }
}

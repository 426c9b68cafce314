//! # keyrack-record: what a benchmark run leaves behind
//!
//! One [`Run`] holds everything that was asked for, seen and measured. Console tables, TSV, JSON,
//! reports and comparisons are renderings of it and of nothing else, so they cannot disagree.
//!
//! ```text
//!   Run
//!    +- header: versions, command line, seed, grid, parameters, workload texts, warnings
//!    +- probes: what the machine and the build are
//!    +- points: one per cell of the grid, each with its repeats
//!    |    +- Repeat: rates, wall time, counts, one OpStats per verb with its histogram,
//!    |    |          one ThreadRow per thread of a job
//!    |    +- Summary: medians and intervals over the repeats, computed by `Summary::of`
//!    +- failures: cells that could not be measured, with the reason
//! ```
//!
//! The JSON form is this structure as serde writes it; `docs/formats/run.md` describes it and
//! `docs/formats/run.schema.json` is its schema. Readers accept the schema number
//! [`SCHEMA`] and refuse others. Latencies are nanoseconds, rates are per second. Every number in
//! a record is finite: [`Run::to_json`] refuses the rest.
//!
//! Two cells are set against each other by [`Ratio`], which the console and `compare` share.
#![forbid(unsafe_code)]

mod counters;
mod finite;
mod pace;
mod point;
mod ratio;
mod rows;
mod run;
mod summary;
#[cfg(test)]
mod tests;
mod timeline;
mod traffic;

pub use counters::{CgroupUse, Counters};
pub use pace::{LOOK_S, Pace, PaceKeeper, STALL_S};
pub use point::{
    Aftermath, Cell, Footprint, Load, OpStats, OpenLoop, Part, Point, Repeat, SweepValue,
    UnitStats, VERBS, rate_text,
};
pub use ratio::{Change, Ratio};
pub use rows::{FieldValue, ThreadRow};
pub use run::{Error, Failure, Header, Probe, Run, SCHEMA, WorkloadText};
pub use summary::{OpSummary, RateSummary, Summary, distinct};
pub use timeline::{Phase, TimelineRow, tsv_field};
pub use traffic::Traffic;

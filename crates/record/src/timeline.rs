//! Samples taken while a cell runs, in long format: one metric a row.

use crate::Cell;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Which part of a measurement a sample belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The load before the timed phase.
    Seed,
    /// The timed phase.
    Run,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Phase::Seed => "seed",
            Phase::Run => "run",
        })
    }
}

/// One metric at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimelineRow {
    /// The cell that was running.
    pub cell: Cell,
    /// What the engine calls itself.
    pub engine_version: String,
    /// Its repeat, from 1.
    pub repeat: u32,
    /// Load or timed phase.
    pub phase: Phase,
    /// Seconds since the phase began.
    pub elapsed_s: f64,
    /// The metric's name: `wu_per_s`, `get_p99_ns`, an engine's statistic.
    pub metric: String,
    /// Its value.
    pub value: f64,
}

/// `text` on one line and in one column, as fields of the machine-readable files have names: tab,
/// line feed, carriage return and backslash by their letters, other control characters as `\u{..}`.
#[must_use]
pub fn tsv_field(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

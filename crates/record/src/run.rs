//! The whole run: what was asked for, on what, and what came of it.

use crate::Point;
use serde::{Deserialize, Serialize};

/// Number of the JSON form. It grows when a field changes its meaning or goes away.
pub const SCHEMA: u32 = 1;

/// A benchmark run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// [`SCHEMA`] of the writer.
    pub schema: u32,
    /// What was asked for.
    pub header: Header,
    /// What the machine and the build are.
    pub probes: Vec<Probe>,
    /// Cells that were measured, in the order in which they ended.
    pub points: Vec<Point>,
    /// Cells that could not be measured.
    pub failures: Vec<Failure>,
    /// Whether the run was ended early by a signal or a full disk; the points are those that were
    /// whole by then.
    pub interrupted: Option<String>,
}

/// What was asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Header {
    /// The version of the program.
    pub version: String,
    /// When the run began, RFC 3339 in UTC.
    pub started: String,
    /// The command line.
    pub argv: Vec<String>,
    /// Base seed.
    pub seed: u64,
    /// Repeats of each cell.
    pub repeat: u32,
    /// Order of the measurements: `interleave`, `engine` or `shuffle`.
    pub order: String,
    /// Engines asked for.
    pub backends: Vec<String>,
    /// Thread counts asked for.
    pub threads: Vec<u32>,
    /// Global batch list.
    pub batch: Vec<i64>,
    /// Units per cell in count mode.
    pub ops: Option<u64>,
    /// Seconds per cell in clock mode.
    pub secs: Option<f64>,
    /// Seconds of warm-up before each timed phase.
    pub warmup: f64,
    /// `ctx.users`.
    pub users: u64,
    /// `ctx.items`.
    pub items: u64,
    /// The data directory, where one was given.
    pub data_dir: Option<String>,
    /// Where latency clocks come from: `tsc`, `vdso` or `fake`.
    pub clock: String,
    /// Script virtual machine: `Lua 5.4` or `LuaJIT`.
    pub vm: String,
    /// Script parameters given with `-P`.
    pub params: Vec<(String, String)>,
    /// Workloads, each with its text where it is a script.
    pub workloads: Vec<WorkloadText>,
    /// What a reader must know before believing the numbers.
    pub warnings: Vec<String>,
}

/// A workload as it ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkloadText {
    /// File path or native name as given.
    pub source: String,
    /// The name under which it reports.
    pub name: String,
    /// SHA-256 of the text in hexadecimal; empty for native workloads.
    pub sha256: String,
    /// The script itself; empty for native workloads.
    pub text: String,
}

/// Facts from one probe, in its order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Probe {
    /// The probe: `system` or `build`.
    pub name: String,
    /// Key and value; a field that could not be read says `n/a`.
    pub fields: Vec<(String, String)>,
}

/// A cell that could not be measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// Which cell.
    pub cell: crate::Cell,
    /// Which repeat, from 1.
    pub repeat: u32,
    /// One line.
    pub reason: String,
    /// More lines: a script's traceback.
    pub detail: String,
}

/// Why a run could not be written as JSON or read back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Not JSON, or not this structure.
    #[error("not a recorded run: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A number that JSON cannot carry: not a number, or infinite.
    #[error("'{field}' of {place} is {value}, which no record may hold")]
    NotFinite {
        /// The header, or the cell.
        place: String,
        /// The field's name.
        field: &'static str,
        /// What it held.
        value: f64,
    },
    /// Written by a version that this one does not know.
    #[error("recorded with schema {found}, this program reads schema {SCHEMA}")]
    Schema {
        /// The number in the file.
        found: u64,
    },
}

impl Run {
    /// Renders the run as indented JSON with a line end after it. O(points x repeats x buckets).
    ///
    /// # Errors
    /// [`Error::NotFinite`] for the first number that is not finite.
    pub fn to_json(&self) -> Result<String, Error> {
        self.check_finite()?;
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    /// Reads a run that [`Run::to_json`] wrote. Fields that this version does not know are passed
    /// over: a field may be added without a new schema number.
    ///
    /// # Errors
    /// [`Error::Schema`] for another schema number, [`Error::Malformed`] for everything else.
    pub fn from_json(text: &str) -> Result<Run, Error> {
        // The number is looked at first, so that a newer file is called newer and not malformed.
        let value: serde_json::Value = serde_json::from_str(text)?;
        match value.get("schema").and_then(serde_json::Value::as_u64) {
            Some(found) if found != u64::from(SCHEMA) => Err(Error::Schema { found }),
            // Read from the text, since a `Value` does not keep the order of keys.
            _ => Ok(serde_json::from_str(text)?),
        }
    }

    /// Whether every cell was measured without a failure, an error or a missed rate.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.failures.is_empty()
            && self.interrupted.is_none()
            && self.points.iter().all(|point| point.flags.is_empty())
    }
}

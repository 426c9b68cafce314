//! One cell of the grid and what its repeats measured.

use crate::{CgroupUse, Counters, Pace, Summary, ThreadRow, Traffic};
use keyrack_measure::Histogram;
use keyrack_measure::stats::median;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The verbs, in report order. Any other name in [`OpStats::op`] is a label of `kb.time`, whose
/// span holds calls of verbs; labels are reported but never merged with verbs.
pub const VERBS: [&str; 8] = ["put", "get", "del", "range", "mget", "mput", "mdel", "rmw"];

/// What identifies a cell of the grid: two runs are compared cell by cell under this key.
#[derive(Clone, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Cell {
    /// The workload's name.
    pub workload: String,
    /// The engine's name on the command line.
    pub engine: String,
    /// Worker threads.
    pub threads: u32,
    /// The value of the swept parameter, where the workload sweeps one.
    pub sweep: Option<SweepValue>,
    /// Offered units per second of an open loop; `None` in a closed loop.
    pub rate: Option<f64>,
    /// Which phase and role, where the workload declares phases; else absent in JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<Part>,
}

/// A part of a measurement: a phase that the workload declares, or one role in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Part {
    /// The phase's name.
    pub phase: String,
    /// The role's name; `None` for all workers of the phase together.
    pub role: Option<String>,
    /// Worker threads of this part, which may be fewer than those of the cell.
    pub workers: u32,
}

impl Cell {
    /// The name of the role, where the cell is one.
    #[must_use]
    pub fn role(&self) -> Option<&str> {
        self.part.as_ref()?.role.as_deref()
    }

    /// The workload's name, with that of the phase behind it where the workload declares phases.
    #[must_use]
    pub fn title(&self) -> String {
        match &self.part {
            Some(part) => format!("{} {}", self.workload, part.phase),
            None => self.workload.clone(),
        }
    }
}

/// `phase=run role=writer workers=1`; the role only where it is one.
impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "phase={}", self.phase)?;
        if let Some(role) = &self.role {
            write!(f, " role={role}")?;
        }
        write!(f, " workers={}", self.workers)
    }
}

/// One line for people: `mixed skiplist t4 batch=64 rate=1000`. The part, the sweep and the rate
/// are there only where the cell has them.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} t{}", self.workload, self.engine, self.threads)?;
        if let Some(part) = &self.part {
            write!(f, " {part}")?;
        }
        if let Some(SweepValue { param, value }) = &self.sweep {
            write!(f, " {param}={value}")?;
        }
        if let Some(rate) = self.rate {
            write!(f, " rate={rate}")?;
        }
        Ok(())
    }
}

/// The swept parameter of a cell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SweepValue {
    /// The parameter's name, `batch` for the global batch list.
    pub param: String,
    /// Its value in this cell.
    pub value: i64,
}

/// A measured cell.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Point {
    /// Which cell.
    pub cell: Cell,
    /// What the engine calls itself, with its version.
    pub engine_version: String,
    /// What an acknowledged write survives, as [`Display`](std::fmt::Display) of the store's
    /// durability.
    pub durability: String,
    /// One entry a repeat, in the order of their index.
    pub repeats: Vec<Repeat>,
    /// Medians and intervals over the repeats.
    pub summary: Summary,
    /// What a reader must know before believing the numbers: errors, a missed rate, a RAM file
    /// system. Empty for a clean point.
    pub flags: Vec<String>,
    /// Findings that cast no doubt on the point: what a rate search found, trace hashes.
    pub notes: Vec<String>,
}

/// An open loop over the repeats of a cell: what was asked for, what was reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpenLoop {
    /// Units per second that were to be started; median.
    pub offered_per_s: f64,
    /// Units per second that were completed; median.
    pub achieved_per_s: f64,
    /// The largest backlog of any repeat, in units.
    pub backlog_max: u64,
    /// The largest backlog at the end of any repeat, in units.
    pub backlog_end: u64,
    /// Units that were due in a repeat; median. Those never started count with the time they had
    /// waited by the end.
    pub units: u64,
    /// Units that were served in a repeat; median.
    pub served: u64,
    /// Repeats that missed the rate.
    pub missed: u32,
    /// The lowest achieved rate of any repeat, units per second.
    pub worst_per_s: f64,
}

/// A rate for people: whole units a second, below ten with two decimals.
#[must_use]
pub fn rate_text(per_s: f64) -> String {
    if per_s < 10.0 { format!("{per_s:.2}") } else { format!("{per_s:.0}") }
}

impl OpenLoop {
    /// `RATE MISSED: offered X, achieved Y` with the worst repeat's rate, where any repeat missed.
    #[must_use]
    pub fn missed_text(&self) -> Option<String> {
        (self.missed > 0).then(|| {
            format!(
                "RATE MISSED: offered {}, achieved {}",
                rate_text(self.offered_per_s),
                rate_text(self.worst_per_s)
            )
        })
    }
}

impl Point {
    /// The open loop over the repeats; `None` in a closed loop. O(repeats).
    #[must_use]
    pub fn open_loop(&self) -> Option<OpenLoop> {
        let units: Vec<&UnitStats> = self.repeats.iter().filter_map(|r| r.unit.as_ref()).collect();
        let over = |f: &dyn Fn(&UnitStats) -> f64| {
            median(&units.iter().map(|unit| f(unit)).collect::<Vec<f64>>())
        };
        Some(OpenLoop {
            offered_per_s: over(&|unit| unit.offered_per_s)?,
            achieved_per_s: over(&|unit| unit.achieved_per_s)?,
            backlog_max: units.iter().map(|unit| unit.backlog_max).max()?,
            backlog_end: units.iter().map(|unit| unit.backlog_end).max()?,
            units: over(&|unit| unit.response.count() as f64)?.round() as u64,
            served: over(&|unit| unit.service.count() as f64)?.round() as u64,
            missed: units.iter().filter(|unit| unit.missed()).count() as u32,
            worst_per_s: units.iter().map(|unit| unit.achieved_per_s).reduce(f64::min)?,
        })
    }

    /// Write, read and space amplification: medians over the repeats that know them.
    #[must_use]
    pub fn amplification(&self) -> [Option<f64>; 3] {
        let traffic: Vec<&Traffic> =
            self.repeats.iter().filter_map(|r| r.traffic.as_ref()).collect();
        let over = |of: &dyn Fn(&Traffic) -> Option<f64>| {
            median(&traffic.iter().filter_map(|traffic| of(traffic)).collect::<Vec<f64>>())
        };
        [
            over(&Traffic::write_amplification),
            over(&Traffic::read_amplification),
            over(&Traffic::space_amplification),
        ]
    }

    /// Events for each primitive operation, in the order of [`Counters::NAMES`]: medians over the
    /// repeats that counted them.
    #[must_use]
    pub fn counters_per_op(&self) -> [Option<f64>; 6] {
        let mut index = 0;
        [(); 6].map(|()| {
            let per_op = |repeat: &Repeat| {
                let count = repeat.counters.as_ref()?.values()[index]?;
                (repeat.prim_ops > 0).then(|| count as f64 / repeat.prim_ops as f64)
            };
            let known: Vec<f64> = self.repeats.iter().filter_map(per_op).collect();
            index += 1;
            median(&known)
        })
    }

    /// Whether any of its counts leaves out what ran inside the kernel.
    #[must_use]
    pub fn counts_user_alone(&self) -> bool {
        let mut counters = self.repeats.iter().filter_map(|repeat| repeat.counters.as_ref());
        counters.any(|counters| !counters.with_kernel)
    }

    /// A number of the control group: the median over the repeats that know it.
    #[must_use]
    pub fn cgroup(&self, of: impl Fn(&CgroupUse) -> Option<f64>) -> Option<f64> {
        let groups = self.repeats.iter().filter_map(|repeat| repeat.cgroup.as_ref());
        median(&groups.filter_map(of).collect::<Vec<f64>>())
    }

    /// The median over the repeats of what the engine held in the end.
    #[must_use]
    pub fn footprint(&self, of: impl Fn(&Footprint) -> Option<f64>) -> Option<f64> {
        let held = self.repeats.iter().filter_map(|repeat| repeat.footprint.as_ref());
        median(&held.filter_map(of).collect::<Vec<f64>>())
    }

    /// The first error text of `op` in any repeat.
    #[must_use]
    pub fn first_error(&self, op: &str) -> Option<&str> {
        let all = self.repeats.iter().flat_map(|r| &r.ops);
        all.filter(|o| o.op == op).find_map(|o| o.first_error.as_deref())
    }
}

/// One measurement of a cell on a store of its own.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Repeat {
    /// Which repeat, from 1.
    pub index: u32,
    /// When the timed phase began, in seconds since the run began.
    pub started_s: f64,
    /// From the common start of all workers to the end of the last one, in seconds. Start-up of
    /// scripts and the load phase are not in it.
    pub wall_s: f64,
    /// How much later the last worker ended than the first, in seconds.
    pub straggle_s: f64,
    /// Warm-up that preceded, in seconds; not in any number.
    pub warmup_s: f64,
    /// Units completed: calls of the workload's `run`.
    pub units: u64,
    /// Primitive operations: one a verb call, one a key in batched verbs.
    pub prim_ops: u64,
    /// Units per second of wall time.
    pub wu_per_s: f64,
    /// Primitive operations per second of wall time.
    pub ops_per_s: f64,
    /// CPU seconds (user and system) of the whole process during the timed phase; of a role those
    /// of its workers alone.
    pub cpu_s: f64,
    /// Share of the workers' time spent inside engine calls, 0 to 1.
    pub engine_busy: f64,
    /// One entry a verb that was used, in report order.
    pub ops: Vec<OpStats>,
    /// Whole units under an open loop.
    pub unit: Option<UnitStats>,
    /// The load phase, where the workload has one.
    pub load: Option<Load>,
    /// Hash of all keys that each thread issued, in order of threads, for checking that engines saw
    /// the same trace; empty unless asked for. In JSON 16 hexadecimal digits each: a reader that
    /// keeps numbers as doubles would round them.
    #[serde(with = "crate::point::hex")]
    pub trace_hashes: Vec<u64>,
    /// Deviation of the clock from the system's since calibration, parts per million.
    pub clock_drift_ppm: f64,
    /// What the threads of a job reported, in order of jobs and threads; empty for workloads that
    /// are not jobs, and then absent in JSON.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<ThreadRow>,
    /// What a store on disk had cost in the end; absent for stores in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aftermath: Option<Aftermath>,
    /// What the workload and the machine moved; absent in jobs and for stores in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Traffic>,
    /// How evenly it went; absent where nobody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// Events of processor and kernel; absent where none is counted, and for a role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<Counters>,
    /// What the control group of the process used; absent where nothing is told, and for a role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<CgroupUse>,
    /// What the engine itself held in the end; absent in records of before, and for a role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub footprint: Option<Footprint>,
}

/// What an engine holds after a timed phase, when its flushes and compactions are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footprint {
    /// Resident memory of the process, less what it had before the store was opened. Memory that
    /// an allocator kept from an earlier store and gave to this one is missing. `None` where the
    /// system does not say.
    pub memory_bytes: Option<u64>,
    /// Bytes of the files in the data directory; `None` for a store in memory.
    pub disk_bytes: Option<u64>,
    /// Whether the engine said that no flush and no compaction was under way any more, or has none.
    pub is_idle: bool,
}

/// What a store on disk has cost when its own threads have caught up, as far as they were waited
/// for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Aftermath {
    /// From the end of the timed phase until the engine's threads were idle, in seconds; as long as
    /// was waited when they were not.
    pub settle_s: f64,
    /// Whether they were idle in the end. Without `--settle` nobody waited, and nobody knows.
    pub is_settled: bool,
    /// CPU seconds (user and system) of the whole process in the timed phase and the wait.
    pub cpu_s: f64,
    /// Bytes that the process has sent on their way to storage in that time, logs and background
    /// work included; `None` where the kernel does not say.
    pub written_bytes: Option<u64>,
    /// Bytes of the files in the data directory in the end. Holes and space that was allocated in
    /// advance count.
    pub disk_bytes: Option<u64>,
}

/// Counts and latency of one verb in one repeat.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct OpStats {
    /// One of [`VERBS`], or a label of `kb.time`.
    pub op: String,
    /// Timed calls.
    pub calls: u64,
    /// Primitive operations in them: keys of batched verbs.
    pub prim_ops: u64,
    /// Lookups that found their key.
    pub hits: u64,
    /// Lookups that did not.
    pub misses: u64,
    /// Calls that the engine failed.
    pub errors: u64,
    /// The first error's text, where there was one.
    pub first_error: Option<String>,
    /// Service time: from the call to its return.
    #[serde(with = "crate::point::hdr")]
    pub service: Histogram,
}

/// Latency of whole units under an open loop.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct UnitStats {
    /// Units per second that were to be started.
    pub offered_per_s: f64,
    /// Units per second that were completed.
    pub achieved_per_s: f64,
    /// Units that the schedule started within the phase, served or not.
    pub due: u64,
    /// The largest number of units that were due and not yet started.
    pub backlog_max: u64,
    /// Units due and not started when the phase ended.
    pub backlog_end: u64,
    /// From the intended start to the end of the unit.
    #[serde(with = "crate::point::hdr")]
    pub response: Histogram,
    /// From the actual start to the end of the unit.
    #[serde(with = "crate::point::hdr")]
    pub service: Histogram,
}

impl UnitStats {
    /// Whether the schedule was not kept up with: more than 1 % of the units that were due, and
    /// more than two, were not served. Judged by what was due, since random arrivals offer a little
    /// more or less than their rate.
    #[must_use]
    pub fn missed(&self) -> bool {
        let unserved = self.due.saturating_sub(self.service.count());
        unserved > (self.due / 100).max(2)
    }
}

/// The load phase of one repeat.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Load {
    /// Seconds from the common start to the last worker's end.
    pub wall_s: f64,
    /// Primitive operations issued.
    pub keys: u64,
    /// Threads that loaded.
    pub threads: u32,
    /// Whether the store had been loaded for an earlier repeat and was used again.
    pub reused: bool,
    /// The durability of the load, where it was not that of the measurement: the files were synced
    /// once at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durability: Option<String>,
}

/// Histograms travel as base64 of the compressed HdrHistogram V2 encoding.
mod hdr {
    use keyrack_measure::Histogram;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        histogram: &Histogram,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&keyrack_hdr::export(histogram))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Histogram, D::Error> {
        let text = String::deserialize(deserializer)?;
        keyrack_hdr::import(&text).map_err(serde::de::Error::custom)
    }
}

/// 64-bit hashes travel as 16 hexadecimal digits.
mod hex {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        hashes: &[u64],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(hashes.iter().map(|hash| format!("{hash:016x}")))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u64>, D::Error> {
        let read = |text: String| {
            let digits = text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
            u64::from_str_radix(&text, 16).ok().filter(|_| digits).ok_or_else(|| {
                serde::de::Error::custom(format!("'{text}' is not 16 hexadecimal digits"))
            })
        };
        Vec::<String>::deserialize(deserializer)?.into_iter().map(read).collect()
    }
}

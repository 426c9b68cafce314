//! The TSV sink: one row per verb of each cell, tab separated, a header first.
//!
//! The first fifteen columns are those of keybench, always filled; ours follow. Where a column of
//! ours does not apply (no interval, no open loop) it is empty. Rates repeat on each row of a
//! cell. `docs/formats/tsv.md` describes each column.

use super::Sink;
use super::text::{escape, sweep_columns};
use keyrack_measure::stats::median;
use keyrack_record::{CgroupUse, Header, OpSummary, Pace, Part, Point, RateSummary, Run, Traffic};
use std::io::{self, Write};

const COLUMNS: [&str; 68] = [
    "workload",
    "engine",
    "threads",
    "sweep_param",
    "sweep_value",
    "op",
    "count",
    "p50_ns",
    "p99_ns",
    "p999_ns",
    "max_ns",
    "hit_rate",
    "err_rate",
    "wu_per_s",
    "ops_per_s",
    // Ours.
    "mean_ns",
    "repeats",
    "wu_lo",
    "wu_hi",
    "wu_ci_lo",
    "wu_ci_hi",
    "ops_lo",
    "ops_hi",
    "ops_ci_lo",
    "ops_ci_hi",
    "rate",
    "achieved",
    "resp_p50_ns",
    "resp_p99_ns",
    "resp_p999_ns",
    "resp_max_ns",
    "engine_busy",
    "cpu_us_per_unit",
    "durability",
    "flags",
    "notes",
    // What was moved, and how evenly.
    "user_written_bytes",
    "user_read_bytes",
    "written_bytes",
    "read_bytes",
    "disk_bytes",
    "live_bytes",
    "write_amp",
    "read_amp",
    "space_amp",
    "stalls",
    "stalled_s",
    "longest_stall_s",
    "steady",
    "drift",
    "variation",
    // Of scripts that declare phases.
    "script_phase",
    "role",
    "workers",
    // What was counted beside the operations.
    "cycles_per_op",
    "instructions_per_op",
    "cache_misses_per_op",
    "branch_misses_per_op",
    "page_faults_per_op",
    "context_switches_per_op",
    "cgroup_cpu_s",
    "cgroup_throttled_periods",
    "cgroup_throttled_s",
    "cgroup_memory_peak_bytes",
    "cgroup_read_bytes",
    "cgroup_written_bytes",
    "cgroup_reads",
    "cgroup_writes",
];

/// See the module.
pub(super) struct Tsv {
    pub(super) out: Box<dyn Write>,
}

impl Sink for Tsv {
    fn begin(&mut self, _: &Header) -> io::Result<()> {
        writeln!(self.out, "{}", COLUMNS.join("\t"))?;
        self.out.flush()
    }

    fn point(&mut self, point: &Point, _: &Header) -> io::Result<()> {
        for op in &point.summary.ops {
            let row = row(point, op);
            debug_assert_eq!(row.len(), COLUMNS.len());
            writeln!(self.out, "{}", row.join("\t"))?;
        }
        self.out.flush()
    }

    fn end(&mut self, _: &Run) -> io::Result<()> {
        self.out.flush()
    }
}

fn row(point: &Point, op: &OpSummary) -> Vec<String> {
    let (cell, summary) = (&point.cell, &point.summary);
    let (param, value) = sweep_columns(cell.sweep.as_ref());
    let mut row = vec![
        escape(&cell.workload),
        escape(&point.engine_version),
        cell.threads.to_string(),
        param,
        value.to_string(),
        escape(&op.op),
        op.calls.to_string(),
        format!("{:.0}", op.p50_ns),
        format!("{:.0}", op.p99_ns),
        format!("{:.0}", op.p999_ns),
        format!("{:.0}", op.max_ns),
        // A verb that looks nothing up has no hit rate; the column stays a number for old readers.
        format!("{:.3}", op.hit_rate.unwrap_or(0.0) * 100.0),
        format!("{:.3}", op.error_rate * 100.0),
        format!("{:.1}", summary.wu_per_s.median),
        format!("{:.1}", summary.ops_per_s.median),
        format!("{:.1}", op.mean_ns),
        point.repeats.len().to_string(),
    ];
    row.extend(spread(&summary.wu_per_s));
    row.extend(spread(&summary.ops_per_s));
    row.push(cell.rate.map(|rate| format!("{rate:.1}")).unwrap_or_default());
    let open = point.open_loop();
    row.push(open.map(|open| format!("{:.1}", open.achieved_per_s)).unwrap_or_default());
    row.extend(match summary.response_ns {
        Some(response) => response.map(|ns| format!("{ns:.0}")),
        None => Default::default(),
    });
    row.push(format!("{:.3}", summary.engine_busy));
    row.push(format!("{:.3}", summary.cpu_us_per_unit));
    row.push(escape(&point.durability));
    row.push(escape(&point.flags.join("; ")));
    row.push(escape(&point.notes.join("; ")));
    row.extend(moved(point));
    row.extend(evenness(point));
    row.extend(match &cell.part {
        Some(Part { phase, role, workers }) => {
            [escape(phase), role.as_deref().map(escape).unwrap_or_default(), workers.to_string()]
        }
        None => Default::default(),
    });
    let per_op = point.counters_per_op();
    row.extend(per_op.map(|value| value.map(|v| format!("{v:.4}")).unwrap_or_default()));
    row.extend(group(point));
    row
}

/// The control group: medians of the repeats that know each number.
fn group(point: &Point) -> [String; 8] {
    let seconds = |of: &dyn Fn(&CgroupUse) -> Option<f64>| {
        point.cgroup(of).map(|s| format!("{s:.4}")).unwrap_or_default()
    };
    let count = |of: &dyn Fn(&CgroupUse) -> Option<u64>| {
        let value = point.cgroup(|group| of(group).map(|count| count as f64));
        value.map(|count| format!("{count:.0}")).unwrap_or_default()
    };
    [
        seconds(&|group| group.cpu_s),
        count(&|group| group.throttled_periods),
        seconds(&|group| group.throttled_s),
        count(&|group| group.memory_peak_bytes),
        count(&|group| group.read_bytes),
        count(&|group| group.written_bytes),
        count(&|group| group.reads),
        count(&|group| group.writes),
    ]
}

/// The parts of the three amplifications and the amplifications, each the median of the repeats
/// that know it.
fn moved(point: &Point) -> [String; 9] {
    let bytes = |of: &dyn Fn(&Traffic) -> Option<u64>| {
        let traffic = point.repeats.iter().filter_map(|repeat| repeat.traffic.as_ref());
        let known: Vec<f64> = traffic.filter_map(|t| of(t).map(|bytes| bytes as f64)).collect();
        median(&known).map(|bytes| format!("{bytes:.0}")).unwrap_or_default()
    };
    let [write, read, space] =
        point.amplification().map(|ratio| ratio.map(|r| format!("{r:.4}")).unwrap_or_default());
    [
        bytes(&|traffic| Some(traffic.user_written_bytes)),
        bytes(&|traffic| Some(traffic.user_read_bytes)),
        bytes(&|traffic| traffic.written_bytes),
        bytes(&|traffic| traffic.read_bytes),
        bytes(&|traffic| traffic.disk_bytes),
        bytes(&|traffic| traffic.live_bytes),
        write,
        read,
        space,
    ]
}

/// Stalls over all repeats, and whether each was steady; drift and variation are medians.
fn evenness(point: &Point) -> [String; 6] {
    let paces: Vec<&Pace> =
        point.repeats.iter().filter_map(|repeat| repeat.pace.as_ref()).collect();
    if paces.is_empty() {
        return Default::default();
    }
    let stalls: u64 = paces.iter().map(|pace| pace.stalls).sum();
    let stalled_s: f64 = paces.iter().map(|pace| pace.stalled_s).sum();
    let longest_s = paces.iter().map(|pace| pace.longest_s).fold(0.0, f64::max);
    let judged: Vec<bool> = paces.iter().filter_map(|pace| pace.is_steady).collect();
    let steady = match judged.as_slice() {
        [] => "",
        all if all.iter().all(|is_steady| *is_steady) => "yes",
        _ => "no",
    };
    let over = |of: &dyn Fn(&Pace) -> Option<f64>| {
        let known: Vec<f64> = paces.iter().filter_map(|pace| of(pace)).collect();
        median(&known).map(|value| format!("{value:.4}")).unwrap_or_default()
    };
    [
        stalls.to_string(),
        format!("{stalled_s:.3}"),
        format!("{longest_s:.3}"),
        steady.to_owned(),
        over(&|pace| pace.drift),
        over(&|pace| pace.variation),
    ]
}

/// Smallest, largest, and both ends of the interval.
fn spread(rate: &RateSummary) -> [String; 4] {
    let end = |end: Option<f64>| end.map(|rate| format!("{rate:.1}")).unwrap_or_default();
    [
        format!("{:.1}", rate.low),
        format!("{:.1}", rate.high),
        end(rate.interval.map(|(low, _)| low)),
        end(rate.interval.map(|(_, high)| high)),
    ]
}

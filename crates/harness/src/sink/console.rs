//! The console sink: the report for people.
//!
//! ```text
//! keyrack 0.1.0: 1 workload(s), engine=skiplist,btree seed=1 repeat=3
//!   threads: 1,2   batch: 1
//!   ops: 200000   users: 100000   items: 100000
//!   order: interleave   clock: tsc   vm: Lua 5.4
//! [probe: system]
//!   host           name
//!
//! === mixed ===
//! engine=skiplist 0.1.3  threads=1  durability=none  (median of 3 runs)
//! op             count        p50        p99      p99.9        max
//! put            60404    8.64 us   22.91 us   75.26 us  376.62 us
//! get hit rate: 92.2% (median)
//! throughput: 17819 /sec (1 op per unit)  (17000..18000 over 3 runs) [95% CI 17100..17950]
//! engine busy 61%, cpu 1.23 us/unit
//! ```
//!
//! Under the throughput of a job stand the rates that its threads reported, phase by phase:
//!
//! ```text
//! puts/s            812345  (sum over 2 threads)
//! gets/s            934112  (sum over 2 threads)
//! ops/s             869011  (sum over 2 threads)
//! ```
//!
//! In an open loop the verbs stay service times, under a line that says so, and whole units follow
//! with their response time, which counts from the intended start. The end of the run adds the
//! table of each workload with more than one point, the comparison of engines, the failed cells
//! and the reason of an early end.
//!
//! [`Dialect::Seed`] prints what keybench 0.1.0 printed and nothing that its parsers would not
//! expect before or between: no intervals, no second header, percentiles always. What keybench had
//! no shape for (errors, flags, notes, an open loop) is printed in both.
//!
//! A percentile is the value of a rank. With fewer than 100 samples p99 is the maximum or near it,
//! with fewer than 1000 so is p99.9: ours are withheld there, as `-`.

use super::text::{escape, fmt_latency, list, runs};
use super::{Dialect, Sink, compare, summary};
use keyrack_measure::stats::median;
use keyrack_record::{
    Cell, Counters, Failure, Header, OpSummary, OpenLoop, Part, Point, Probe, RateSummary, Repeat,
    Run, STALL_S, SweepValue, distinct, rate_text,
};
use std::io::{self, Write};

/// Samples below which our dialect withholds p99.
const P99_SAMPLES_MIN: u64 = 100;
/// Samples below which our dialect withholds p99.9.
const P999_SAMPLES_MIN: u64 = 1000;
/// How the name of a rate ends that a job reports.
const PER_SEC: &str = "_per_sec";
/// Width of the first column of the verb table, where no name is longer.
const OP_WIDTH: usize = 7;

/// See the module.
pub(super) struct Console {
    pub(super) out: Box<dyn Write>,
    pub(super) dialect: Dialect,
    /// Feeds the bootstrap of the engine comparison.
    pub(super) draw: Box<dyn FnMut() -> u64>,
}

impl Console {
    fn text(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }
}

impl Sink for Console {
    fn begin(&mut self, header: &Header) -> io::Result<()> {
        let lines = header_lines(header, self.dialect);
        self.text(&lines)
    }

    fn probe(&mut self, probe: &Probe) -> io::Result<()> {
        // keybench has two probes.
        if self.dialect == Dialect::Seed && !["system", "build"].contains(&probe.name.as_str()) {
            return Ok(());
        }
        self.text(&probe_lines(probe))
    }

    fn point(&mut self, point: &Point, _: &Header) -> io::Result<()> {
        let lines = point_lines(point, self.dialect);
        self.text(&lines)
    }

    fn end(&mut self, run: &Run) -> io::Result<()> {
        let mut text = String::new();
        for workload in distinct(run.points.iter().map(|point| point.cell.workload.as_str())) {
            text.push_str(&summary::table(run, workload, self.dialect));
            if self.dialect == Dialect::Keyrack {
                text.push_str(&compare::engines(run, workload, &mut *self.draw));
            }
        }
        text.push_str(&failure_lines(&run.failures));
        if let Some(reason) = &run.interrupted {
            text.push_str(&format!("\ninterrupted: {}\n", escape(reason)));
        }
        self.text(&text)
    }
}

fn header_lines(header: &Header, dialect: Dialect) -> String {
    let program = match dialect {
        Dialect::Keyrack => "keyrack",
        Dialect::Seed => "keybench",
    };
    let mut text = format!(
        "{program} {}: {} workload(s), engine={} seed={} repeat={}\n",
        header.version,
        header.workloads.len(),
        list(&header.backends),
        header.seed,
        header.repeat,
    );
    text.push_str(&format!(
        "  threads: {}   batch: {}\n",
        list(&header.threads),
        list(&header.batch)
    ));
    if dialect == Dialect::Seed {
        return text;
    }
    let bound = match (header.secs, header.ops) {
        (Some(secs), _) => format!("secs: {secs}"),
        (None, Some(ops)) => format!("ops: {ops}"),
        (None, None) => "ops: 0".to_owned(),
    };
    text.push_str(&format!("  {bound}   users: {}   items: {}", header.users, header.items));
    if header.warmup > 0.0 {
        text.push_str(&format!("   warmup: {} s", header.warmup));
    }
    text.push_str(&format!(
        "\n  order: {}   clock: {}   vm: {}\n",
        header.order, header.clock, header.vm
    ));
    if !header.params.is_empty() {
        let params: Vec<String> =
            header.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
        text.push_str(&format!("  params: {}\n", escape(&params.join(" "))));
    }
    for warning in &header.warnings {
        text.push_str(&format!("! {}\n", escape(warning)));
    }
    text
}

fn probe_lines(probe: &Probe) -> String {
    let mut text = format!("[probe: {}]\n", probe.name);
    for (key, value) in &probe.fields {
        text.push_str(&format!("  {key:<14} {}\n", escape(value)));
    }
    text
}

fn point_lines(point: &Point, dialect: Dialect) -> String {
    let mut text = format!("\n=== {} ===\n", escape(&point.cell.workload));
    text.push_str(&engine_line(point, dialect));
    let open = point.open_loop();
    if open.is_some() {
        text.push_str("verbs: service time, from the call to its return\n");
    }
    if !is_untimed(point) {
        text.push_str(&verb_table(&point.summary.ops, dialect));
    }
    text.push_str(&rate_lines_of_verbs(point, dialect));
    text.push_str(&throughput_lines(point, dialect));
    text.push_str(&job_lines(point));
    if let Some(open) = open {
        text.push_str(&open_loop_lines(point, &open, dialect));
    }
    if dialect == Dialect::Keyrack {
        let busy = point.summary.engine_busy * 100.0;
        let cpu = point.summary.cpu_us_per_unit;
        text.push_str(&format!("engine busy {busy:.0}%, cpu {cpu:.2} us/unit\n"));
        text.push_str(&counter_line(point));
        text.push_str(&load_line(point));
        text.push_str(&footprint_line(point));
        text.push_str(&cgroup_line(point));
        text.push_str(&amplification_line(point));
        text.push_str(&stall_line(point));
    }
    for note in &point.notes {
        text.push_str(&format!("{}\n", escape(note)));
    }
    for flag in &point.flags {
        text.push_str(&format!("! {}\n", escape(flag)));
    }
    text
}

/// Where the numbers come from is in the line: none of them is the engine's own word.
fn amplification_line(point: &Point) -> String {
    let [write, read, space] = point.amplification();
    let parts = [
        ("write", write, "bytes sent to storage / written by the workload"),
        ("read", read, "fetched from storage / read by the workload"),
        ("space", space, "files / rows"),
    ];
    let known = parts.into_iter().filter_map(|(name, value, source)| {
        value.map(|value| format!("{name} {value:.2} ({source})"))
    });
    let known: Vec<String> = known.collect();
    if known.is_empty() { String::new() } else { format!("amplification: {}\n", known.join(", ")) }
}

/// Events for each operation; those that are not counted here are not in the line.
fn counter_line(point: &Point) -> String {
    let counted = Counters::NAMES.into_iter().zip(point.counters_per_op());
    let shown: Vec<String> = counted
        .filter_map(|(name, value)| Some(format!("{} {}", name.replace('_', " "), short(value?))))
        .collect();
    if shown.is_empty() {
        return String::new();
    }
    let scope = if point.counts_user_alone() { " (outside of the kernel)" } else { "" };
    format!("per op: {}{scope}\n", shown.join(", "))
}

/// How the store was loaded, where that was not as it was measured.
fn load_line(point: &Point) -> String {
    let loads = point.repeats.iter().filter_map(|repeat| repeat.load.as_ref());
    let Some((load, level)) = loads.filter_map(|l| Some((l, l.durability.as_ref()?))).next() else {
        return String::new();
    };
    let (keys, wall_s) = (load.keys, load.wall_s);
    format!("load: {keys} keys in {wall_s:.2} s with durability {level}, then one sync\n")
}

/// What the engine holds in memory and on disk in the end: the medians over the repeats.
fn footprint_line(point: &Point) -> String {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let parts = [
        ("memory", point.footprint(|held| held.memory_bytes.map(mib))),
        ("disk", point.footprint(|held| held.disk_bytes.map(mib))),
    ];
    let known: Vec<String> = parts
        .into_iter()
        .filter_map(|(name, value)| value.map(|value| format!("{name} {value:.1} MiB")))
        .collect();
    if known.is_empty() {
        return String::new();
    }
    let held = point.repeats.iter().filter_map(|repeat| repeat.footprint);
    let is_idle = held.into_iter().all(|held| held.is_idle);
    let remark = if is_idle { "" } else { ", flushes and compactions still under way" };
    format!("engine holds: {}{remark}\n", known.join(", "))
}

/// What the control group went through that can explain a number.
fn cgroup_line(point: &Point) -> String {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let parts = [
        point.cgroup(|group| group.cpu_s).map(|s| format!("cpu {s:.2} s")),
        point
            .cgroup(|group| group.throttled_s)
            .filter(|s| *s > 0.0)
            .map(|s| format!("held back {s:.2} s")),
        point.cgroup(|group| group.read_bytes.map(mib)).map(|m| format!("read {m:.1} MiB")),
        point.cgroup(|group| group.written_bytes.map(mib)).map(|m| format!("written {m:.1} MiB")),
    ];
    let known: Vec<String> = parts.into_iter().flatten().collect();
    if known.is_empty() { String::new() } else { format!("cgroup: {}\n", known.join(", ")) }
}

/// Three digits or so.
fn short(value: f64) -> String {
    match value {
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

fn stall_line(point: &Point) -> String {
    let paces = || point.repeats.iter().filter_map(|repeat| repeat.pace.as_ref());
    let stalls: u64 = paces().map(|pace| pace.stalls).sum();
    if stalls == 0 {
        return String::new();
    }
    let (all, longest) = paces().fold((0.0, 0.0_f64), |(all, longest), pace| {
        (all + pace.stalled_s, longest.max(pace.longest_s))
    });
    format!("stalls of {STALL_S} s or more: {stalls}, longest {longest:.2} s, in all {all:.2} s\n")
}

fn engine_line(point: &Point, dialect: Dialect) -> String {
    let Cell { threads, sweep, rate, part, .. } = &point.cell;
    let mut line = format!("engine={}  threads={threads}  ", escape(&point.engine_version));
    if let Some(Part { phase, role, workers }) = part {
        line.push_str(&format!("phase={}  ", escape(phase)));
        if let Some(role) = role {
            line.push_str(&format!("role={}  ", escape(role)));
        }
        line.push_str(&format!("workers={workers}  "));
    }
    match (sweep, dialect) {
        (Some(SweepValue { param, value }), _) => {
            line.push_str(&format!("{}={value}  ", escape(param)));
        }
        (None, Dialect::Seed) => line.push_str("batch=1  "),
        (None, Dialect::Keyrack) => {}
    }
    if let Some(rate) = rate {
        line.push_str(&format!("rate={rate}  "));
    }
    if dialect == Dialect::Keyrack {
        line.push_str(&format!("durability={}  ", escape(&point.durability)));
    }
    format!("{line}(median of {})\n", runs(point.repeats.len()))
}

fn verb_table(ops: &[OpSummary], dialect: Dialect) -> String {
    let names: Vec<String> = ops.iter().map(|op| escape(&op.op)).collect();
    let width = names.iter().map(|name| name.chars().count()).fold(OP_WIDTH, usize::max);
    let mut text = table_head("op", width);
    for (op, name) in ops.iter().zip(&names) {
        let latencies = [op.p50_ns, op.p99_ns, op.p999_ns, op.max_ns];
        text.push_str(&table_row(name, width, op.calls, latencies, dialect));
    }
    text
}

fn table_head(title: &str, width: usize) -> String {
    format!(
        "{title:<width$} {:>12} {:>10} {:>10} {:>10} {:>10}\n",
        "count", "p50", "p99", "p99.9", "max"
    )
}

/// One row: the latencies are p50, p99, p99.9 and the maximum, in nanoseconds.
fn table_row(
    name: &str,
    width: usize,
    count: u64,
    latencies: [f64; 4],
    dialect: Dialect,
) -> String {
    let [p50, p99, p999, max] = latencies.map(fmt_latency);
    let unless_few = |text: String, samples_min: u64| match dialect {
        Dialect::Keyrack if count < samples_min => "-".to_owned(),
        Dialect::Keyrack | Dialect::Seed => text,
    };
    let p99 = unless_few(p99, P99_SAMPLES_MIN);
    let p999 = unless_few(p999, P999_SAMPLES_MIN);
    format!("{name:<width$} {count:>12} {p50:>10} {p99:>10} {p999:>10} {max:>10}\n")
}

/// Hit and error rates, one line each. Our dialect adds the text of the first error.
fn rate_lines_of_verbs(point: &Point, dialect: Dialect) -> String {
    let mut text = String::new();
    let median = if point.repeats.len() > 1 { " (median)" } else { "" };
    for op in &point.summary.ops {
        let name = escape(&op.op);
        if let Some(hit_rate) = op.hit_rate {
            text.push_str(&format!("{name} hit rate: {:.1}%{median}\n", hit_rate * 100.0));
        }
        let first = point.first_error(&op.op).filter(|_| dialect == Dialect::Keyrack);
        if op.error_rate > 0.0 || first.is_some() {
            text.push_str(&format!("{name} error rate: {:.1}%{median}", op.error_rate * 100.0));
            if let Some(first) = first {
                text.push_str(&format!("  first: {}", escape(first)));
            }
            text.push('\n');
        }
    }
    text
}

fn throughput_lines(point: &Point, dialect: Dialect) -> String {
    let (wu, ops) = (&point.summary.wu_per_s, &point.summary.ops_per_s);
    let repeats = point.repeats.len();
    let spread = |rate: &RateSummary| spread(rate, repeats, dialect);
    if wu.median == ops.median {
        format!("throughput: {:.0} /sec (1 op per unit){}\n", wu.median, spread(wu))
    } else {
        format!(
            "workload units: {:.0} wu/sec{}\nprimitive ops:  {:.0} ops/sec{}\n",
            wu.median,
            spread(wu),
            ops.median,
            spread(ops)
        )
    }
}

/// Whether these are the numbers of a job whose operations were not timed by themselves.
fn is_untimed(point: &Point) -> bool {
    point.summary.ops.is_empty() && point.repeats.iter().any(|repeat| !repeat.rows.is_empty())
}

/// What the threads of a job reported, a line for each rate: the sum over the threads, and of
/// several repeats the median. A sequence of jobs says which of them.
fn job_lines(point: &Point) -> String {
    let mut names: Vec<(&str, &str)> = Vec::new();
    for row in point.repeats.iter().flat_map(|repeat| &repeat.rows) {
        for (name, _) in row.fields.iter().filter(|(name, _)| name.ends_with(PER_SEC)) {
            if !names.contains(&(&row.test, name)) {
                names.push((&row.test, name));
            }
        }
    }
    let mut text = String::new();
    for (test, name) in names {
        let sum = |repeat: &Repeat| -> f64 {
            let rows = repeat.rows.iter().filter(|row| row.test == test);
            rows.filter_map(|row| row.get(name)?.as_f64()).sum()
        };
        let sums: Vec<f64> = point.repeats.iter().map(sum).collect();
        let rate = median(&sums).unwrap_or(0.0);
        let shown = format!("{}/s", name.trim_end_matches(PER_SEC));
        let place = test.rfind('@').map_or("", |at| &test[at..]);
        let threads = point.cell.threads;
        let s = if threads == 1 { "" } else { "s" };
        text.push_str(&format!("{:<9}", format!("{shown}{place}")));
        text.push_str(&format!(" {:>14}  (sum over {threads} thread{s})\n", rate_text(rate)));
    }
    text
}

fn spread(rate: &RateSummary, repeats: usize, dialect: Dialect) -> String {
    if repeats < 2 {
        return String::new();
    }
    let mut text = format!("  ({:.0}..{:.0} over {})", rate.low, rate.high, runs(repeats));
    if let (Some((low, high)), Dialect::Keyrack) = (rate.interval, dialect) {
        text.push_str(&format!(" [95% CI {low:.0}..{high:.0}]"));
    }
    text
}

fn open_loop_lines(point: &Point, open: &OpenLoop, dialect: Dialect) -> String {
    let mut text = format!(
        "open loop: offered {}/sec, achieved {}/sec, backlog max {} end {} units\n",
        rate_text(open.offered_per_s),
        rate_text(open.achieved_per_s),
        open.backlog_max,
        open.backlog_end
    );
    let width = "response".len();
    text.push_str(&table_head("unit", width));
    if let Some(response) = point.summary.response_ns {
        text.push_str(&table_row("response", width, open.units, response, dialect));
    }
    if let Some(service) = point.summary.unit_service_ns {
        text.push_str(&table_row("service", width, open.served, service, dialect));
    }
    if let Some(missed) = open.missed_text() {
        // The harness flags the point in the same words; once is enough.
        if !point.flags.contains(&missed) {
            text.push_str(&format!("! {missed}\n"));
        }
    }
    text
}

fn failure_lines(failures: &[Failure]) -> String {
    if failures.is_empty() {
        return String::new();
    }
    let mut text = String::from("\nfailed cells:\n");
    for failure in failures {
        text.push_str(&format!(
            "  {}: repeat {}: {}\n",
            escape(&failure.cell.to_string()),
            failure.repeat,
            escape(&failure.reason)
        ));
        for line in failure.detail.lines() {
            text.push_str(&format!("    {}\n", escape(line).replace("\\t", "  ")));
        }
    }
    text
}

//! The dbbench sink: a line per benchmark, as LevelDB's `db_bench` prints them.
//!
//! ```text
//!   Keyrack:    version 0.1.0
//!   ...
//!   ------------------------------------------------
//!   Engine:     flodb 0.1.0, 1 thread, durability os
//!   fillseq      :       1.765 micros/op;   62.7 MB/s
//!   readrandom   :      16.677 micros/op; (1000000 of 1000000 found)
//! ```
//!
//! Jobs that say when they began and ended have a line each, those of a sequence one after the
//! other, and each repeat has its own. As in the original, `micros/op` is the time of all threads,
//! added up, by the operations of all; `MB/s` is what they moved, in units of 2^20 bytes, from the
//! first begin to the last end. What was found is added up too, where the original shows one
//! thread's. The sizes above the line are those of the parameters, estimated as there; they stand
//! only where a workload `db/...` runs.
//!
//! A job that reports lines of text, as `db/stats` does, has those in place of a line.
//!
//! Of every other workload each verb has a line: the mean time of its calls, of batches by their
//! keys, and what they found. What was loaded before and is not counted stands with the engine.

use super::Sink;
use super::text::escape;
use keyrack_calendar as calendar;
use keyrack_record::{
    Cell, Failure, FieldValue, Header, OpStats, Point, Probe, Repeat, Run, ThreadRow, distinct,
};
use std::io::{self, Write};

/// The workloads that have keys and values of the original.
const PREFIX: &str = "db/";
const KEY_BYTES: u64 = 16;
const MEBI: f64 = 1_048_576.0;
const RULE: &str = "------------------------------------------------\n";

/// See the module.
pub(super) struct DbBench {
    out: Box<dyn Write>,
    /// What stands above the line and has not been written.
    sizes: Option<String>,
    /// The engine that was last named.
    engine: String,
}

impl DbBench {
    pub(super) fn new(out: Box<dyn Write>) -> DbBench {
        DbBench { out, sizes: None, engine: String::new() }
    }

    fn draw_line(&mut self) -> io::Result<()> {
        match self.sizes.take() {
            None => Ok(()),
            Some(sizes) => write!(self.out, "{sizes}{RULE}"),
        }
    }
}

impl Sink for DbBench {
    fn begin(&mut self, header: &Header) -> io::Result<()> {
        self.sizes = Some(sizes_of(header));
        write!(self.out, "{}", program(&header.version, &header.started))?;
        self.out.flush()
    }

    fn probe(&mut self, probe: &Probe) -> io::Result<()> {
        write!(self.out, "{}", processor(&probe.fields))?;
        self.out.flush()
    }

    fn point(&mut self, point: &Point, _: &Header) -> io::Result<()> {
        self.draw_line()?;
        let engine = engine_of(point);
        if engine != self.engine {
            writeln!(self.out, "Engine:     {engine}")?;
            self.engine = engine;
        }
        for repeat in &point.repeats {
            for line in db_bench_lines(&point.cell, repeat) {
                writeln!(self.out, "{line}")?;
            }
        }
        for flag in &point.flags {
            writeln!(self.out, "! {}", escape(flag))?;
        }
        self.out.flush()
    }

    fn failure(&mut self, failure: &Failure) -> io::Result<()> {
        self.draw_line()?;
        let cell = escape(&failure.cell.to_string());
        writeln!(self.out, "! {cell}: {}", escape(&failure.reason))?;
        self.out.flush()
    }

    fn end(&mut self, _: &Run) -> io::Result<()> {
        self.draw_line()?;
        self.out.flush()
    }
}

/// The entries of a store, from which sizes are estimated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EntryShape {
    /// How many there are.
    pub entries: u64,
    /// Bytes of a key in front of its sixteen digits.
    pub key_prefix: u64,
    /// Bytes of a value.
    pub value_bytes: u64,
    /// Bytes of a value after compression, by those before.
    pub compression_ratio: f64,
}

/// What `db_bench` prints above its lines: the version of the program, when it was started
/// (RFC 3339), the machine as the rows of a system probe, and the sizes of the store.
#[must_use]
pub fn db_bench_head(
    version: &str,
    started: &str,
    machine: &[(String, String)],
    shape: &EntryShape,
) -> String {
    program(version, started) + &processor(machine) + &sizes(shape) + RULE
}

fn program(version: &str, started: &str) -> String {
    let date = calendar::ctime(started).unwrap_or_else(|| started.to_owned());
    format!("Keyrack:    version {version}\nDate:       {date}\n")
}

fn processor(machine: &[(String, String)]) -> String {
    let row = |name: &str| {
        let row = machine.iter().find(|(key, _)| key == name);
        row.map(|(_, value)| escape(value))
    };
    let mut text = String::new();
    if let (Some(cpu), Some(cores)) = (row("cpu"), row("cpu_cores")) {
        text.push_str(&format!("CPU:        {cores} * {cpu}\n"));
    }
    if let Some(cache) = row("cpu_cache") {
        text.push_str(&format!("CPUCache:   {cache}\n"));
    }
    text
}

/// The sizes that a header says; nothing where no workload has the original's entries.
fn sizes_of(header: &Header) -> String {
    let is_named = |list: &str| list.split(',').any(|name| name.starts_with(PREFIX));
    if !header.workloads.iter().any(|workload| is_named(&workload.source)) {
        return String::new();
    }
    fn number<T: std::str::FromStr>(header: &Header, name: &str, default: T) -> T {
        let given = header.params.iter().find(|(known, _)| known == name);
        given.and_then(|(_, value)| value.parse().ok()).unwrap_or(default)
    }
    sizes(&EntryShape {
        entries: number(header, "num", 1_000_000),
        key_prefix: number(header, "key_prefix", 0),
        value_bytes: number(header, "value_size", 100),
        compression_ratio: number(header, "compression_ratio", 0.5),
    })
}

/// Keys, values and entries, and the sizes that follow from them.
fn sizes(shape: &EntryShape) -> String {
    let (value, ratio) = (shape.value_bytes as f64, shape.compression_ratio);
    let entries = shape.entries;
    let key = (KEY_BYTES + shape.key_prefix) as f64;
    let mb = |value_bytes: f64| (key + value_bytes) * entries as f64 / MEBI;
    format!(
        "Keys:       {key:.0} bytes each\n\
         Values:     {value:.0} bytes each ({:.0} bytes after compression)\n\
         Entries:    {entries}\n\
         RawSize:    {:.1} MB (estimated)\n\
         FileSize:   {:.1} MB (estimated)\n",
        (value * ratio + 0.5).floor(),
        mb(value),
        mb(value * ratio)
    )
}

fn engine_of(point: &Point) -> String {
    let threads = point.cell.threads;
    let s = if threads == 1 { "" } else { "s" };
    let (version, durability) = (escape(&point.engine_version), escape(&point.durability));
    let mut text = format!("{version}, {threads} thread{s}, durability {durability}");
    if let Some(part) = &point.cell.part {
        text.push_str(&format!(", {}", escape(&part.to_string())));
    }
    if let Some(sweep) = &point.cell.sweep {
        text.push_str(&format!(", {} {}", escape(&sweep.param), sweep.value));
    }
    if let Some(rate) = point.cell.rate {
        text.push_str(&format!(", rate {rate}"));
    }
    let load = point.repeats.first().and_then(|repeat| repeat.load.as_ref());
    if let Some(load) = load.filter(|load| load.keys > 0) {
        text.push_str(&format!(", after a load of {} keys", load.keys));
    }
    text
}

/// One line of the report.
#[derive(Clone, Debug, Default, PartialEq)]
struct Line {
    name: String,
    ops: u64,
    /// Of all threads, added up.
    seconds: f64,
    /// What was moved, and the seconds from the first begin to the last end.
    moved: Option<(u64, f64)>,
    /// Lookups, and how many of them found their key.
    found: Option<(u64, u64)>,
    /// Whether the operations are fewer than there are entries, which is said.
    is_part: bool,
    /// What the job says about itself, in brackets.
    note: Option<String>,
}

impl Line {
    fn text(&self) -> String {
        let micros = self.seconds * 1e6 / self.ops.max(1) as f64;
        let mut text = format!("{:<12} : {micros:>11.3} micros/op;", self.name);
        if let Some((bytes, seconds)) = self.moved
            && bytes > 0
            && seconds > 0.0
        {
            text.push_str(&format!(" {:>6.1} MB/s", bytes as f64 / MEBI / seconds));
        }
        if self.is_part {
            text.push_str(&format!(" ({} ops)", self.ops));
        }
        if let Some((reads, found)) = self.found {
            text.push_str(&format!(" ({found} of {reads} found)"));
        }
        if let Some(note) = &self.note {
            text.push_str(&format!(" {}", escape(note)));
        }
        text
    }
}

/// A line for each benchmark of a repeat: for jobs that say when they began or report text, else
/// for each verb. O(rows).
#[must_use]
pub fn db_bench_lines(cell: &Cell, repeat: &Repeat) -> Vec<String> {
    let is_job = |row: &&ThreadRow| row.get("begin_s").is_some() || row.get("text").is_some();
    let tests = distinct(repeat.rows.iter().filter(is_job).map(|row| row.test.as_str()));
    if tests.is_empty() {
        return repeat.ops.iter().map(|op| line_of_verb(&cell.title(), op).text()).collect();
    }
    let rows_of = |test: &str| -> Vec<&ThreadRow> {
        repeat.rows.iter().filter(is_job).filter(|row| row.test == test).collect()
    };
    let of_job = |test: &str| {
        let rows = rows_of(test);
        let Some(FieldValue::List(lines)) = rows.iter().find_map(|row| row.get("text")) else {
            return line_of_job(job_of(test), &rows).text();
        };
        lines.iter().fold("\n".to_owned(), |text, line| text + &escape(line) + "\n")
    };
    tests.into_iter().map(of_job).collect()
}

/// The job of a test, which is its name or the name of a sequence, `@` and a place.
fn job_of(test: &str) -> &str {
    let placed = |(names, place): (&'_ str, &str)| -> Option<usize> {
        let place = place.parse().ok()?;
        (place < names.split(',').count()).then_some(place)
    };
    let Some((names, place)) = test.rsplit_once('@') else { return test };
    placed((names, place)).and_then(|place| names.split(',').nth(place)).unwrap_or(test)
}

fn line_of_job(name: &str, rows: &[&ThreadRow]) -> Line {
    let number = |row: &ThreadRow, name: &str| row.get(name).and_then(FieldValue::as_f64);
    let count = |name: &str| -> Option<u64> {
        let counts = rows.iter().filter_map(|row| match row.get(name) {
            Some(FieldValue::Count(count)) => Some(*count),
            _ => None,
        });
        counts.reduce(|sum, count| sum + count)
    };
    let span = |row: &&ThreadRow| Some((number(row, "begin_s")?, number(row, "end_s")?));
    let spans: Vec<(f64, f64)> = rows.iter().filter_map(span).collect();
    let first = spans.iter().map(|span| span.0).fold(f64::INFINITY, f64::min);
    let last = spans.iter().map(|span| span.1).fold(f64::NEG_INFINITY, f64::max);
    let shown = name.strip_prefix(PREFIX).unwrap_or(name);
    Line {
        name: escape(shown),
        ops: count("ops").unwrap_or(0),
        seconds: spans.iter().map(|(begin, end)| end - begin).sum(),
        moved: count("bytes").map(|bytes| (bytes, last - first)),
        found: count("reads").zip(count("found")),
        is_part: ["fillsync", "fill100K"].contains(&shown),
        note: rows.iter().find_map(|row| match row.get("note") {
            Some(FieldValue::Text(note)) => Some(note.clone()),
            _ => None,
        }),
    }
}

fn line_of_verb(workload: &str, op: &OpStats) -> Line {
    let looked_up = op.hits + op.misses;
    Line {
        name: escape(&format!("{workload} {}", op.op)),
        ops: if op.prim_ops > 0 { op.prim_ops } else { op.calls },
        seconds: op.service.sum() as f64 / 1e9,
        found: (looked_up > 0).then_some((looked_up, op.hits)),
        ..Line::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(test: &str, thread: u32, fields: &[(&str, FieldValue)]) -> ThreadRow {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        ThreadRow { test: test.to_owned(), thread, fields: fields.collect() }
    }

    /// The published lines of LevelDB 1.1, from what they must have been made of.
    #[test]
    fn lines_are_those_of_the_original() {
        let line = |name: &str, ops, seconds| Line {
            name: name.to_owned(),
            ops,
            seconds,
            ..Line::default()
        };
        let mebi = |mb: f64| (mb * MEBI) as u64;
        let moved = |mb: f64, line: Line| Line { moved: Some((mebi(mb), line.seconds)), ..line };
        for (line, text) in [
            (
                moved(110.66, line("fillseq", 1_000_000, 1.765)),
                "fillseq      :       1.765 micros/op;   62.7 MB/s",
            ),
            (
                Line { is_part: true, ..moved(1.1, line("fillsync", 10_000, 2.684_09)) },
                "fillsync     :     268.409 micros/op;    0.4 MB/s (10000 ops)",
            ),
            (
                Line { found: Some((9, 4)), ..line("readrandom", 9, 0.000_150_093) },
                "readrandom   :      16.677 micros/op; (4 of 9 found)",
            ),
            (line("deleteseq", 0, 0.5), "deleteseq    :  500000.000 micros/op;"),
            (line("readwhilewriting", 1, 2e-6), "readwhilewriting :       2.000 micros/op;"),
        ] {
            assert_eq!(line.text(), text);
        }
    }

    #[test]
    fn threads_add_their_times_and_share_their_span() {
        let fields = |begin: f64, end: f64, ops: u64| {
            [
                ("ops", FieldValue::Count(ops)),
                ("begin_s", FieldValue::Number(begin)),
                ("end_s", FieldValue::Number(end)),
                ("bytes", FieldValue::Count(ops * 1_048_576)),
            ]
        };
        let rows = [row("x", 0, &fields(0.5, 1.5, 4)), row("x", 1, &fields(1.0, 2.5, 6))];
        let line = line_of_job("db/overwrite", &rows.iter().collect::<Vec<_>>());
        let text = line.text();
        assert_eq!(text, "overwrite    :  250000.000 micros/op;    5.0 MB/s");
    }

    #[test]
    fn a_test_is_a_job_or_a_place_in_a_sequence() {
        for (test, job) in [
            ("db/fillseq", "db/fillseq"),
            ("db/fillseq,db/readseq@1", "db/readseq"),
            ("db/fillseq,db/readseq@2", "db/fillseq,db/readseq@2"),
            ("a@b", "a@b"),
        ] {
            assert_eq!(job_of(test), job);
        }
    }
}

//! An experiment: what one run measured, in the words of notebooks and candlestick plots.
//!
//! ```text
//!   Run                              Experiment
//!    +- header, probes       -->      +- revision, time, machine, cores
//!    +- points                        +- trials, each "test/table/trial"
//!         +- repeats                       +- one row per thread
//!              +- rows per thread
//! ```
//!
//! `test` is the workload, `table` the engine, `trial` the repeat, counted from 0. Where a run
//! measured a workload in cells that differ in more than the engine (thread counts, a sweep,
//! rates), the rest of the cell follows the test's name behind a blank: `rw1 t2`.
//!
//! Cells that a signal cut short are left out.
//!
//! A row is an object that begins with `table`, `test`, `trial` and `thread`; what the thread
//! reported follows in its own order. A workload that is no job reports nothing per thread: it has
//! one row, with `threads` in place of `thread`, its primitive operations as `ops` and their rate
//! as `ops_per_sec`.

use super::value::Value;
use keyrack_calendar as calendar;
use keyrack_record::{Cell, FieldValue, Point, Run, ThreadRow};

/// What a run measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Which program measured: a revision, or the version.
    pub revision: String,
    /// When it began, as `Wed Oct 24 14:54:39 2012` in local time.
    pub time: String,
    /// A mark of the user's own.
    pub gid: Option<String>,
    /// The machine's name, where it is known.
    pub machine: Option<String>,
    /// Threads that measured; the most of them where the run had several counts.
    pub cores: u32,
    /// What was measured, in order.
    pub trials: Vec<Trial>,
}

/// One measurement of a test on a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// The test.
    pub test: String,
    /// The engine.
    pub table: String,
    /// Which measurement, from 0.
    pub trial: u32,
    /// One row per thread, objects.
    pub rows: Vec<Value>,
}

impl Trial {
    /// Collects `rows` of one test, which is the name that they carry.
    #[must_use]
    pub fn new(test: &str, table: &str, trial: u32, rows: &[ThreadRow]) -> Trial {
        let head = |row: &ThreadRow| {
            let mut members = head(test, table, trial);
            members.push(("thread".to_owned(), Value::Count(u64::from(row.thread))));
            members
        };
        let row = |row: &ThreadRow| {
            let fields = row.fields.iter().map(|(name, value)| (name.clone(), field(value)));
            Value::Object(head(row).into_iter().chain(fields).collect())
        };
        let rows = rows.iter().map(row).collect();
        Trial { test: test.to_owned(), table: table.to_owned(), trial, rows }
    }

    /// `test/table/trial`.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{}/{}/{}", self.test, self.table, self.trial)
    }
}

impl Experiment {
    /// What `run` measured. O(points^2 + rows).
    #[must_use]
    pub fn of(run: &Run) -> Experiment {
        let started = &run.header.started;
        Experiment {
            revision: probed(run, "build", "revision").unwrap_or(&run.header.version).to_owned(),
            time: calendar::ctime(started).unwrap_or_else(|| started.clone()),
            gid: None,
            machine: probed(run, "system", "host").map(str::to_owned),
            cores: run.header.threads.iter().copied().max().unwrap_or(1),
            trials: whole(run).flat_map(|point| trials(run, point)).collect(),
        }
    }
}

/// What a probe of the run read, where it did.
fn probed<'r>(run: &'r Run, probe: &str, key: &str) -> Option<&'r str> {
    let fields = run.probes.iter().filter(|of| of.name == probe).flat_map(|of| &of.fields);
    let mut values = fields.filter(|(name, _)| name == key).map(|(_, value)| value.as_str());
    values.next().filter(|value| *value != crate::probe::NOT_AVAILABLE)
}

/// The points that were measured to their end.
fn whole(run: &Run) -> impl Iterator<Item = &Point> {
    let is_cut = |point: &Point| point.flags.iter().any(|flag| flag.starts_with("PARTIAL"));
    run.points.iter().filter(move |point| !is_cut(point))
}

fn trials(run: &Run, point: &Point) -> Vec<Trial> {
    let cell = &point.cell;
    let behind = qualifier(run, cell);
    let mut trials = Vec::new();
    for repeat in &point.repeats {
        let trial = repeat.index.saturating_sub(1);
        if repeat.rows.is_empty() {
            let test = format!("{}{behind}", cell.workload);
            let mut members = head(&test, &cell.engine, trial);
            members.extend([
                ("threads".to_owned(), Value::Count(u64::from(cell.threads))),
                ("ops".to_owned(), Value::Count(repeat.prim_ops)),
                ("ops_per_sec".to_owned(), Value::rounded(repeat.ops_per_s)),
            ]);
            let rows = vec![Value::Object(members)];
            trials.push(Trial { test, table: cell.engine.clone(), trial, rows });
        }
        for rows in repeat.rows.chunk_by(|a, b| a.test == b.test) {
            let test = format!("{}{behind}", rows[0].test);
            trials.push(Trial::new(&test, &cell.engine, trial, rows));
        }
    }
    trials
}

/// What tells `cell` from others of its workload, ` t2 batch=64`; nothing where those differ in the
/// engine alone.
fn qualifier(run: &Run, cell: &Cell) -> String {
    let of_workload = |cell: &Cell| {
        let whole = cell.to_string();
        let rest = whole.strip_prefix(&format!("{} {}", cell.workload, cell.engine));
        rest.unwrap_or_default().to_owned()
    };
    let own = of_workload(cell);
    let mut siblings = whole(run).filter(|point| point.cell.workload == cell.workload);
    if siblings.any(|point| of_workload(&point.cell) != own) { own } else { String::new() }
}

fn head(test: &str, table: &str, trial: u32) -> Vec<(String, Value)> {
    vec![
        ("table".to_owned(), Value::text(table)),
        ("test".to_owned(), Value::text(test)),
        ("trial".to_owned(), Value::Count(u64::from(trial))),
    ]
}

fn field(value: &FieldValue) -> Value {
    match value {
        FieldValue::Flag(flag) => Value::Flag(*flag),
        FieldValue::Count(count) => Value::Count(*count),
        FieldValue::Number(number) => Value::rounded(*number),
        FieldValue::Text(text) => Value::text(text),
        FieldValue::List(lines) => {
            Value::List(lines.iter().map(|line| Value::text(line)).collect())
        }
    }
}

//! `db_bench`, LevelDB's benchmark, on `flodb`.
//!
//! ```text
//!   --benchmarks=fillseq,readseq,compact,readseq,fillrandom,readrandom
//!                '--- one store, kept open ----' '--- a new store ---'   a run of the harness each
//!                 standard output:  the head, a line for each benchmark, histograms
//!                 standard error:   what has no meaning here, warnings, failures
//! ```
//!
//! Flags, names, lines and their meaning are those of LevelDB's `db_bench`; exit status 1 says that
//! something failed or was refused, 130 that a signal ended it. What differs, on purpose:
//!
//! - A flag that is not given leaves the engine's own default, not LevelDB's.
//! - Lines appear when the benchmarks on one store are through.
//! - With `--histogram=1` the store is opened again for each benchmark, and a walk over rows is one
//!   operation.
//! - A benchmark that is not known is refused before anything runs.

mod histogram;
mod options;

use super::line::Tool;
use crate::{Program, run_messages};
use keyrack_calendar as calendar;
use keyrack_flodb::Db;
use keyrack_harness::probe::{LinuxHost, PinInfo, system_info};
use keyrack_harness::sink::{Dialect, EntryShape, db_bench_head, db_bench_lines};
use keyrack_harness::{Bound, Event, Observer, Outputs, Pin, Plan, Settings, Stop, Surroundings};
use keyrack_record::Run;
use keyrack_store::OpenOptions;
use keyrack_vfs::{Fs, RealFs, access};
use keyrack_workload::dbbench::jobs;
use keyrack_workload::kvtest::Job;
use options::{OPEN, Options, PREFIX};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PROGRAM: &str = "db_bench";
const ENGINE: &str = "flodb";
/// Where the original's directory is.
const DIR_VARIABLE: &str = "TEST_TMPDIR";
const DIR_NAME: &str = "dbbench";
/// The job that the name `open` stands for opens a store once for so many entries.
const OPEN_SHARE: u64 = 10_000;
/// More operations than any benchmark has.
const NO_LIMIT: u64 = 1 << 62;

const TOOL: Tool =
    Tool { name: PROGRAM, hint: "Use --help for help", refused: keyrack_console::NO };

/// `db_bench [--NAME=VALUE ...]`. Returns the exit status.
pub(super) fn main(argv: &[String], program: &dyn Program) -> u8 {
    TOOL.main(Options::parse(argv), options::help, |options| run(options, argv, program))
}

/// A part of the run.
#[derive(Debug)]
enum Step {
    /// These jobs on one store, which is a new one if the first of them fills it.
    Jobs(Vec<&'static Job>),
    /// The store is opened and closed, over and over.
    Open,
    /// A benchmark that would fill a store that is to be used.
    Skip(String),
}

/// The steps of the benchmarks.
fn steps(options: &Options) -> Vec<Step> {
    let mut steps = Vec::new();
    for name in &options.benchmarks {
        let job = jobs().iter().find(|job| job.name.strip_prefix(PREFIX) == Some(name));
        match (job, steps.last_mut()) {
            (None, _) => steps.push(Step::Open),
            (Some(job), _) if job.wants_fresh && options.uses_existing => {
                steps.push(Step::Skip(name.clone()));
            }
            (Some(job), Some(Step::Jobs(jobs))) if !job.wants_fresh && !options.has_histograms => {
                jobs.push(job);
            }
            (Some(job), _) => steps.push(Step::Jobs(vec![job])),
        }
    }
    steps
}

/// Runs and prints. An error is a refusal: nothing has run.
fn run(options: &Options, argv: &[String], program: &dyn Program) -> Result<u8, String> {
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let bench = Bench { options, dir: dir_of(options)?, fs: &fs, stop: Stop::default() };
    let surroundings = program.surroundings(&fs, argv, PROGRAM);
    let steps = steps(options);
    // A benchmark that cannot run is refused before anything is removed.
    for step in &steps {
        if let Step::Jobs(jobs) = step {
            bench.plan(jobs, &surroundings)?;
        }
    }
    keyrack_console::set_on_signals(&bench.stop.flag)?;
    for line in &options.explained {
        keyrack_console::refuse(PROGRAM, line);
    }
    let machine = system_info(&LinuxHost, Some(&bench.dir), PinInfo::Off);
    let shape = EntryShape {
        entries: options.num,
        key_prefix: options.key_prefix,
        value_bytes: options.value_size,
        compression_ratio: options.compression_ratio,
    };
    let version = &surroundings.facts.version;
    let head = db_bench_head(version, &calendar::rfc3339_now(), &machine, &shape);
    let mut status = keyrack_console::print(&head);
    if status == keyrack_console::DONE && !options.uses_existing {
        bench.remove()?;
    }
    for step in &steps {
        if status != keyrack_console::DONE {
            break;
        }
        status = match step {
            Step::Jobs(jobs) => bench.measure(jobs, &surroundings)?,
            Step::Open => bench.open(&surroundings)?,
            Step::Skip(name) => {
                let line = format!("{name:<12} : skipped (--use_existing_db is true)\n");
                keyrack_console::print(&line)
            }
        };
    }
    Ok(status)
}

/// The directory of the store.
fn dir_of(options: &Options) -> Result<PathBuf, String> {
    if let Some(dir) = &options.db {
        return Ok(dir.clone());
    }
    if let Some(dir) = std::env::var_os(DIR_VARIABLE).filter(|dir| !dir.is_empty()) {
        return Ok(PathBuf::from(dir).join(DIR_NAME));
    }
    // One that no other user has made.
    let own = access(Path::new("/proc/self")).map_err(|error| error.to_string())?.own;
    Ok(std::env::temp_dir().join(format!("keyracktest-{own}")).join(DIR_NAME))
}

struct Bench<'a> {
    options: &'a Options,
    dir: PathBuf,
    fs: &'a Arc<dyn Fs>,
    stop: Stop,
}

impl Bench<'_> {
    /// Removes the store.
    fn remove(&self) -> Result<(), String> {
        Db::destroy(&**self.fs, &self.dir).map_err(|error| error.to_string())
    }

    fn plan(&self, jobs: &[&Job], surroundings: &Surroundings) -> Result<Plan, String> {
        let options = self.options;
        let params = [
            ("num", Some(options.num.to_string())),
            ("reads", options.reads.map(|reads| reads.to_string())),
            ("key_prefix", Some(options.key_prefix.to_string())),
            ("value_size", Some(options.value_size.to_string())),
            ("compression_ratio", Some(options.compression_ratio.to_string())),
            // As the original: what is there, and nothing behind the key that was sought.
            ("fill", Some("none".to_owned())),
            ("nexts", Some("0".to_owned())),
        ];
        let is_taken = |name: &str| jobs.iter().any(|job| job.params.contains(&name));
        let taken = params.into_iter().filter(|(name, _)| is_taken(name));
        let names: Vec<&str> = jobs.iter().map(|job| job.name).collect();
        let settings = Settings {
            backend: vec![ENGINE.to_owned()],
            workloads: vec![names.join(",")],
            threads: vec![options.threads],
            // The counts are the jobs' own.
            bound: Bound::Ops(NO_LIMIT),
            bounded: true,
            timing: options.has_histograms,
            store: Some(self.dir.clone()),
            params: taken.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect(),
            pin: Pin::Never,
            probe: Some(vec!["none".to_owned()]),
            engine_options: [(ENGINE.to_owned(), options.engine_options.clone())].into(),
            ..Settings::default()
        };
        Plan::new(settings, surroundings.clone()).map_err(|refusal| refusal.0)
    }

    /// Runs jobs on one store, and prints their lines. Returns the exit status.
    fn measure(&self, jobs: &[&Job], surroundings: &Surroundings) -> Result<u8, String> {
        if jobs.first().is_some_and(|job| job.wants_fresh) {
            self.remove()?;
        }
        let plan = self.plan(jobs, surroundings)?;
        for line in plan.warnings.iter().chain(&plan.notes) {
            keyrack_console::refuse(PROGRAM, line);
        }
        let nowhere = || -> Box<dyn Write> { Box::new(std::io::sink()) };
        let mut outputs = Outputs::open(&[], self.fs, &nowhere, Dialect::Keyrack, 1)?;
        let record = keyrack_harness::run(&plan, &mut outputs, &mut Notes, &self.stop)?;
        let printed = keyrack_console::print(&self.lines(&record));
        let status = run_messages::status(PROGRAM, &record, &self.stop);
        Ok(if printed == keyrack_console::DONE { status } else { printed })
    }

    fn lines(&self, record: &Run) -> String {
        let mut text = String::new();
        for point in &record.points {
            for repeat in &point.repeats {
                for line in db_bench_lines(&point.cell, repeat) {
                    text.push_str(&line);
                    text.push('\n');
                }
                for verb in repeat.ops.iter().filter(|_| self.options.has_histograms) {
                    let times = histogram::text(&verb.service);
                    text.push_str(&format!("Microseconds per op:\n{times}\n"));
                }
            }
        }
        text
    }

    /// Opens and closes the store, once for ten thousand entries, and prints the line.
    fn open(&self, surroundings: &Surroundings) -> Result<u8, String> {
        let engine = surroundings.registry.find(ENGINE);
        let engine = engine.ok_or_else(|| surroundings.registry.not_found("engine", ENGINE))?;
        let given = OpenOptions {
            data_dir: Some(self.dir.clone()),
            options: self.options.engine_options.clone(),
            ..OpenOptions::in_memory(Arc::clone(self.fs))
        };
        let opens = (self.options.num / OPEN_SHARE).max(1);
        let (clock, mut ns) = (&surroundings.clock, 0);
        for _ in 0..opens {
            let begun = clock.ticks();
            let store = (engine.open)(&given).map_err(|error| error.to_string())?;
            ns += clock.ns_between(begun, clock.ticks());
            store.close().map_err(|error| error.to_string())?;
        }
        let micros = ns as f64 / 1000.0 / opens as f64;
        Ok(keyrack_console::print(&format!("{OPEN:<12} : {micros:>11.3} micros/op;\n")))
    }
}

/// Prints the notes of a run.
struct Notes;

impl Observer for Notes {
    fn event(&mut self, event: &Event<'_>) {
        run_messages::note(PROGRAM, event);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> Vec<String> {
        let words = std::iter::once("db_bench").chain(line.split_whitespace());
        let words: Vec<String> = words.map(str::to_owned).collect();
        let show = |step: Step| match step {
            Step::Jobs(jobs) => jobs.iter().map(|job| job.name).collect::<Vec<_>>().join("+"),
            Step::Open => "open".to_owned(),
            Step::Skip(name) => format!("skip {name}"),
        };
        steps(&Options::parse(&words).unwrap()).into_iter().map(show).collect()
    }

    #[test]
    fn a_benchmark_that_fills_begins_a_store() {
        let list = "--benchmarks=readseq,fillseq,compact,readseq,open,readseq,fillrandom";
        let expected = ["db/readseq", "db/fillseq+db/compact+db/readseq", "open", "db/readseq"];
        let found = shown(list);
        assert_eq!(found[..4], expected);
        assert_eq!(found[4..], ["db/fillrandom"]);
        let each = shown("--benchmarks=fillseq,readseq --histogram=1");
        assert_eq!(each, ["db/fillseq", "db/readseq"]);
        let existing = shown("--benchmarks=fillseq,readseq --use_existing_db=1");
        assert_eq!(existing, ["skip fillseq", "db/readseq"]);
    }
}

//! `db_test`, the test of FloDB: threads that put, remove and get keys of one range for a while.
//!
//! ```text
//!   options --> the workload flodb/mixed, as a plan of the harness
//!                 standard output:  what was asked for, files of each level before,
//!                                   the table, #txs, #Mops, files of each level after
//!                 standard error:   what has no meaning here, warnings, failures
//! ```
//!
//! Names, shapes and meanings are those of the original, and exit status 1 says that something
//! failed or was refused, 130 that a signal ended it. What differs, on purpose:
//!
//! - Compile flags are long options. Those without a meaning are taken, and a line says why.
//! - A store without rows is filled in random order unless `--init` says otherwise; one that has
//!   rows is used as it is. Without `--db` and `TEST_TMPDIR` the store is a temporary one.
//! - There is no wait between the fill and the test unless `-w` says so.
//! - A share of nothing is 0.0 %, not `nan`. Scans have found what they saw.

mod options;
mod report;

use super::line::Tool;
use crate::{Program, run_messages};
use keyrack_harness::sink::{Dialect, SinkKind, SinkSpec, Target};
use keyrack_harness::{Bound, Event, Observer, Outputs, Pin, Plan, Settings, Stop};
use keyrack_record::Run;
use keyrack_store::Store;
use keyrack_vfs::{Fs, RealFs};
use options::Options;
use report::{Levels, Report};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

const PROGRAM: &str = "db_test";
const WORKLOAD: &str = "flodb/mixed";
/// Where the original's directory is.
const DIR_VARIABLE: &str = "TEST_TMPDIR";
const DIR_NAME: &str = "db_test";
/// Seconds from one line of `--time-test` to the next.
const TIME_TEST_S: f64 = 0.25;

const TOOL: Tool =
    Tool { name: PROGRAM, hint: "Use -h or --help for help", refused: keyrack_console::NO };

/// `db_test [OPTIONS]`. Returns the exit status.
pub(super) fn main(argv: &[String], program: &dyn Program) -> u8 {
    TOOL.main(Options::parse(argv, |name| std::env::var(name).ok()), options::help, |options| {
        run(options, argv, program)
    })
}

/// Runs and prints. An error is a refusal: nothing has run.
fn run(options: &Options, argv: &[String], program: &dyn Program) -> Result<u8, String> {
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let surroundings = program.surroundings(&fs, argv, PROGRAM);
    let is_persistent = match surroundings.registry.find(&options.engine) {
        Some(engine) => engine.persistent,
        None => return Err(surroundings.registry.not_found("engine", &options.engine)),
    };
    let settings = settings(options, is_persistent)?;
    let plan = Plan::new(settings, surroundings).map_err(|refusal| refusal.0)?;
    let stop = Stop::default();
    keyrack_console::set_on_signals(&stop.flag)?;
    for line in options.explained.iter().chain(&plan.warnings).chain(&plan.notes) {
        keyrack_console::refuse(PROGRAM, line);
    }
    let printed = keyrack_console::print(&report::head(options));
    if printed != keyrack_console::DONE {
        return Ok(printed);
    }
    let mut watch = Watch::default();
    let nowhere = || -> Box<dyn Write> { Box::new(std::io::sink()) };
    let timeline = Captured::default();
    let captured = || -> Box<dyn Write> { Box::new(timeline.clone()) };
    let timeline_sink = SinkSpec { kind: SinkKind::Timeline, target: Target::Stdout };
    let (sinks, out): (&[SinkSpec], &dyn Fn() -> Box<dyn Write>) =
        if options.shows_time { (&[timeline_sink], &captured) } else { (&[], &nowhere) };
    let mut outputs = Outputs::open(sinks, &fs, out, Dialect::Keyrack, options.seed)?;
    let record = keyrack_harness::run(&plan, &mut outputs, &mut watch, &stop)?;
    let printed = keyrack_console::print(&report::throughput(&timeline.text()));
    if printed != keyrack_console::DONE {
        return Ok(printed);
    }
    Ok(conclude(options, &record, &watch, &stop))
}

/// Keeps the output of a sink.
#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Prints what came of it. Returns the exit status.
fn conclude(options: &Options, record: &Run, watch: &Watch, stop: &Stop) -> u8 {
    let status = run_messages::status(PROGRAM, record, stop);
    if let Some(point) = record.points.first()
        && let Some(repeat) = point.repeats.first()
        && !repeat.rows.is_empty()
    {
        let (before, after) = (&watch.before, &watch.after);
        let stats = options.collects_stats.then_some(watch.stats.as_slice());
        let report = Report { options, repeat, before, after, stats };
        let printed = keyrack_console::print(&report.text());
        if printed != keyrack_console::DONE {
            return printed;
        }
    }
    status
}

/// The directory of a store that stays, where one was named.
fn kept_dir(options: &Options) -> Option<PathBuf> {
    let given = std::env::var_os(DIR_VARIABLE).filter(|dir| !dir.is_empty());
    options.db.clone().or_else(|| Some(PathBuf::from(given?).join(DIR_NAME)))
}

fn settings(options: &Options, is_persistent: bool) -> Result<Settings, String> {
    let mut params = vec![
        ("initial", options.initial.to_string()),
        ("range", options.plain_range().to_string()),
        ("updates", options.updates.to_string()),
        ("one_writer", if options.has_one_writer { "yes" } else { "no" }.to_owned()),
        ("scans", if options.scans { "yes" } else { "no" }.to_owned()),
        ("bursts", if options.shows_time { "yes" } else { "no" }.to_owned()),
        ("latency", if options.shows_latency { "yes" } else { "no" }.to_owned()),
        ("wait", options.wait_s.to_string()),
        ("fill", options.init.clone().unwrap_or_else(|| "auto".to_owned())),
    ];
    params.extend(options.skew.map(|skew| ("skew", skew.to_string())));
    params.extend(options.value_size.map(|bytes| ("value_size", bytes.to_string())));
    let store = kept_dir(options).filter(|_| is_persistent);
    let durability = options.durability.as_deref().map(str::parse).transpose();
    Ok(Settings {
        backend: vec![options.engine.clone()],
        workloads: vec![WORKLOAD.to_owned()],
        threads: vec![options.threads],
        bound: Bound::Secs(options.duration_ms as f64 / 1000.0),
        bounded: true,
        // As the original, which looks at no clock within the test.
        timing: false,
        timeline: if options.shows_time { TIME_TEST_S } else { 0.0 },
        seed: options.seed,
        data_dir: (is_persistent && store.is_none()).then(std::env::temp_dir),
        store,
        durability: durability.map_err(|why: keyrack_store::Error| why.to_string())?,
        params: params.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        pin: if options.is_pinned { Pin::Auto } else { Pin::Never },
        probe: Some(vec!["none".to_owned()]),
        engine_options: [(options.engine.clone(), options.engine_options.clone())].into(),
        ..Settings::default()
    })
}

/// Looks at the store before and after.
#[derive(Default)]
struct Watch {
    before: Levels,
    after: Levels,
    stats: Vec<(String, f64)>,
}

impl Observer for Watch {
    fn event(&mut self, event: &Event<'_>) {
        run_messages::note(PROGRAM, event);
    }

    fn opened(&mut self, store: &dyn Store) {
        self.before = Levels::of(store);
    }

    fn measured(&mut self, store: &dyn Store) {
        self.after = Levels::of(store);
        store.stats(&mut |name, value| self.stats.push((name.to_owned(), value)));
    }
}

//! The runs of one call: which tests on which trees, in which order, and what is said of them.

use super::PROGRAM;
use super::options::{self, Options};
use crate::line::processors;
use keyrack_console::say;
use keyrack_harness::probe::{Host, LinuxHost};
use keyrack_harness::sink::{Dialect, Trial, Value};
use keyrack_harness::{Bound, Event, Observer, Outputs, Pin, Plan, Settings, Stop, Surroundings};
use keyrack_record::{Failure, Point, Run};
use keyrack_store::{Registry, Store, unknown};
use keyrack_vfs::Fs;
use keyrack_workload::{Rng, kvtest};
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The engine that the original is about, and its name in tables.
const MASSTREE: &str = "masstree";
const MASSTREE_TABLE: &str = "mb";
/// Its names on the command line, in the order of the help.
const MASSTREE_TREES: [&str; 5] = ["m", "mb", "mbtree", "mass", "masstree"];
/// What `-r` sets.
const RSCALE: &str = "rscale_ncores";
/// How wide the line is that `-q` draws over.
const QUIET_WIDTH: usize = 60;

/// Everything that a call runs, checked.
pub(super) struct Runs<'o> {
    options: &'o Options,
    threads: u32,
    /// The CPU of each thread, where they were named.
    cpus: Vec<usize>,
    fs: Arc<dyn Fs>,
    /// In the order of the original's numbers: trees, in each the tests, of each the trials.
    runs: Vec<One>,
    plans: Vec<Plan>,
}

/// One run.
struct One {
    /// As on the command line.
    test: String,
    tree: String,
    table: String,
    trial: u32,
    /// Index of its plan.
    plan: usize,
}

/// What the words of the command line mean.
#[derive(Default)]
struct Words {
    tests: Vec<String>,
    /// Names as given, with the engines.
    trees: Vec<(String, &'static str)>,
    params: Vec<(String, String)>,
}

impl Words {
    fn of(
        words: &[String],
        rscale_threads: Option<u32>,
        registry: &Registry,
    ) -> Result<Words, String> {
        let mut meant = Words::default();
        for word in words {
            if let Some((name, value)) = word.split_once('=') {
                // A value may be JSON; of a text in quotes the text counts.
                let value = match Value::parse(value) {
                    Ok(Value::Text(text)) => text,
                    _ => value.to_owned(),
                };
                meant.params.push((name.to_owned(), value));
            } else if let Some(engine) = engine_of(word, registry)? {
                meant.trees.push((word.clone(), engine));
            } else {
                check_test(word)?;
                meant.tests.push(word.clone());
            }
        }
        if let Some(threads) = rscale_threads {
            meant.params.push((RSCALE.to_owned(), threads.to_string()));
        }
        if meant.trees.is_empty() {
            meant.trees.push(("m".to_owned(), MASSTREE));
        }
        if meant.tests.is_empty() {
            meant.tests.push("rw1".to_owned());
        }
        let known: Vec<&str> = meant.tests.iter().flat_map(|test| params_of(test)).collect();
        // -r may stand there though no test is for it.
        let is_known = |name: &str| known.contains(&name) || name == RSCALE;
        match meant.params.iter().find(|(name, _)| !is_known(name)) {
            Some((name, _)) => Err(unknown("parameter", name, &known)),
            None => Ok(meant),
        }
    }
}

/// The engine of a tree's name; `None` when the word names no tree.
fn engine_of(word: &str, registry: &Registry) -> Result<Option<&'static str>, String> {
    if MASSTREE_TREES.contains(&word) {
        return Ok(Some(MASSTREE));
    }
    match registry.find(word) {
        Some(engine) if engine.stores && !engine.persistent => Ok(Some(engine.name)),
        Some(engine) => Err(format!(
            "engine '{0}' is no tree in memory; measure it with: keyrack bench --backend {0} ..",
            engine.name
        )),
        None => Ok(None),
    }
}

/// The parameters of a test, or of a sequence of tests.
fn params_of(test: &str) -> Vec<&'static str> {
    test.split(',').filter_map(kvtest::job).flat_map(|job| job.params).copied().collect()
}

fn check_test(word: &str) -> Result<(), String> {
    let names = test_names();
    match word.split(',').find(|name| !names.contains(name)) {
        Some(name) => Err(unknown("test", name, &names)),
        None => Ok(()),
    }
}

fn test_names() -> Vec<&'static str> {
    kvtest::jobs().iter().map(|job| job.name).collect()
}

/// The help, with what this build has.
pub(super) fn help(registry: &Registry) -> String {
    let others = registry.iter().filter(|engine| engine.stores && !engine.persistent);
    let others = others.filter(|engine| engine.fixed_key_bytes().is_none());
    let others = others.map(|engine| engine.name).filter(|name| *name != MASSTREE);
    let trees: Vec<&str> = MASSTREE_TREES.into_iter().chain(others).collect();
    options::help(processors(), &test_names(), &trees)
}

/// The CPUs of `--cores`; none where threads are not pinned.
fn chosen_cpus(options: &Options, threads: u32) -> Result<Vec<usize>, String> {
    match options.cores.as_ref().filter(|_| options.is_pinned) {
        Some(cores) => cores.allowed(threads, &LinuxHost.affinity()),
        None => Ok(Vec::new()),
    }
}

impl<'o> Runs<'o> {
    /// Checks what was asked for.
    pub(super) fn new(
        options: &'o Options,
        fs: &Arc<dyn Fs>,
        surroundings: &dyn Fn() -> Surroundings,
    ) -> Result<Runs<'o>, String> {
        let registry = surroundings().registry;
        let words = Words::of(&options.words, options.rscale_threads, &registry)?;
        let threads = options.threads.unwrap_or_else(processors);
        let mut all = Runs {
            options,
            threads,
            cpus: chosen_cpus(options, threads)?,
            fs: Arc::clone(fs),
            runs: Vec::new(),
            plans: Vec::new(),
        };
        for (tree, engine) in &words.trees {
            for test in &words.tests {
                if options.trials > 0 {
                    let plan = all.plan(engine, test, &words.params, surroundings())?;
                    all.plans.push(plan);
                }
                let table = if *engine == MASSTREE { MASSTREE_TABLE } else { engine };
                for _ in 0..options.trials {
                    let earlier =
                        all.runs.iter().filter(|run| run.test == *test && run.table == table);
                    let trial = earlier.count() as u32;
                    let (test, tree, table) = (test.clone(), tree.clone(), table.to_owned());
                    all.runs.push(One { test, tree, table, trial, plan: all.plans.len() - 1 });
                }
            }
        }
        Ok(all)
    }

    pub(super) fn threads(&self) -> u32 {
        self.threads
    }

    fn plan(
        &self,
        engine: &str,
        test: &str,
        params: &[(String, String)],
        surroundings: Surroundings,
    ) -> Result<Plan, String> {
        let options = self.options;
        let known = params_of(test);
        let params = params.iter().filter(|(name, _)| known.contains(&name.as_str())).cloned();
        let settings = Settings {
            backend: vec![engine.to_owned()],
            workloads: vec![test.to_owned()],
            threads: vec![self.threads],
            bound: Bound::Secs(match options.duration_s {
                0.0 => f64::INFINITY,
                seconds => seconds,
            }),
            bounded: true,
            limit: options.limit,
            // As the original, which looks at the clock once a phase.
            timing: false,
            params: params.collect(),
            pin: if options.is_pinned { Pin::Always } else { Pin::Never },
            cpus: self.cpus.clone(),
            probe: Some(vec!["none".to_owned()]),
            ..Settings::default()
        };
        Plan::new(settings, surroundings).map_err(|refusal| refusal.0)
    }

    /// Runs everything. Returns what was measured, in the order of running, and the exit status.
    pub(super) fn run(&self, stop: &Stop) -> (Vec<Trial>, u8) {
        let (mut trials, mut status) = (Vec::new(), keyrack_console::DONE);
        let total = self.runs.len();
        if total > 1 && !self.options.is_quiet {
            say!("order: seed {}", self.options.seed);
        }
        for (index, &place) in order(total, self.options.seed).iter().enumerate() {
            let one = &self.runs[place];
            self.announce(index + 1, one);
            let came = self.one(one, stop, &mut trials);
            if self.options.is_quiet {
                let _ = write!(std::io::stderr(), "\r{:QUIET_WIDTH$}\r", "");
            }
            for line in came.warnings.iter().chain(&came.failures) {
                keyrack_console::refuse(PROGRAM, &format!("{}/{}: {line}", one.test, one.tree));
            }
            if !came.failures.is_empty() {
                status = keyrack_console::NO;
            }
            if stop.is_set() {
                keyrack_console::refuse(PROGRAM, "interrupted; what was whole is kept");
                return (trials, keyrack_console::INTERRUPTED);
            }
        }
        (trials, status)
    }

    fn announce(&self, number: usize, one: &One) {
        let line = format!("{number}/{} {}/{}", self.runs.len(), one.test, one.tree);
        if self.options.is_quiet {
            let _ = write!(std::io::stderr(), "{line}      ");
        } else {
            say!("{line}");
        }
    }

    /// Runs one and adds its trials.
    fn one(&self, one: &One, stop: &Stop, trials: &mut Vec<Trial>) -> Came {
        let mut watch = Watch { options: self.options, stats: Vec::new(), notes: Vec::new() };
        let nowhere = || -> Box<dyn Write> { Box::new(std::io::sink()) };
        let outputs = Outputs::open(&[], &self.fs, &nowhere, Dialect::Keyrack, 1);
        let record = outputs.and_then(|mut outputs| {
            keyrack_harness::run(&self.plans[one.plan], &mut outputs, &mut watch, stop)
        });
        match record {
            Ok(record) => {
                let mut found = measured(&record, one);
                self.report(&mut found, &watch.stats, one);
                trials.extend(found);
                Came::of(&record, &watch.notes)
            }
            Err(why) => Came { failures: vec![why], ..Came::default() },
        }
    }

    /// Prints the rows and the statistics that were asked for, and adds those to the last row.
    fn report(&self, trials: &mut [Trial], stats: &[(String, f64)], one: &One) {
        let rows = trials.iter().flat_map(|trial| &trial.rows);
        for row in rows.filter(|_| !self.options.is_quiet) {
            let thread = row.get("thread").and_then(Value::as_f64).unwrap_or(0.0);
            say!("{thread}: {}", row.one_line());
        }
        let counted: Vec<(String, Value)> =
            stats.iter().map(|(name, value)| (name.clone(), counted(*value))).collect();
        if self.options.prints_stats {
            let texts: Vec<String> = counted
                .iter()
                .map(|(name, value)| format!("{name} {}", value.one_line()))
                .collect();
            say!("{}: {}", one.table, texts.join(", "));
        }
        if self.options.adds_stats && !counted.is_empty() {
            let _ = write!(std::io::stderr(), "{}", Value::Object(counted.clone()).notebook());
            let last = trials.last_mut().and_then(|trial| trial.rows.last_mut());
            if let Some(Value::Object(members)) = last {
                members.extend(counted);
            }
        }
    }
}

/// What an engine counts is whole, mostly.
fn counted(value: f64) -> Value {
    let is_whole = value.fract() == 0.0 && (0.0..9e15).contains(&value);
    if is_whole { Value::Count(value as u64) } else { Value::rounded(value) }
}

/// The order of so many runs: 0.. for one, else drawn.
fn order(total: usize, seed: u64) -> Vec<usize> {
    let mut left: Vec<usize> = (0..total).collect();
    let mut rng = Rng::from_seed(seed);
    let mut order = Vec::with_capacity(total);
    while !left.is_empty() {
        let drawn = rng.below(left.len() as u64) as usize;
        order.push(left.swap_remove(drawn));
    }
    order
}

/// The trials of a run: one, or one for each test of a sequence. One that a signal cut short is
/// none.
fn measured(record: &Run, one: &One) -> Vec<Trial> {
    let is_cut = |point: &&Point| point.flags.iter().any(|flag| flag.starts_with("PARTIAL"));
    let points = record.points.iter().filter(|point| !is_cut(point));
    let rows: Vec<_> =
        points.flat_map(|point| &point.repeats).flat_map(|r| &r.rows).cloned().collect();
    let tests = rows.chunk_by(|a, b| a.test == b.test);
    tests.map(|rows| Trial::new(&rows[0].test, &one.table, one.trial, rows)).collect()
}

/// What a person must know of a run, a line each.
#[derive(Default)]
struct Came {
    warnings: Vec<String>,
    failures: Vec<String>,
}

impl Came {
    fn of(record: &Run, notes: &[String]) -> Came {
        let failures = record.failures.iter().map(|Failure { reason, .. }| reason.clone());
        let flags = record.points.iter().flat_map(|point| point.flags.clone());
        let flags = flags.filter(|_| record.interrupted.is_none());
        // A failure is noted too, in the harness's words.
        let is_failure =
            |note: &&String| record.failures.iter().any(|failure| note.ends_with(&failure.reason));
        Came {
            warnings: notes.iter().filter(|note| !is_failure(note)).cloned().collect(),
            failures: failures.chain(flags).collect(),
        }
    }
}

/// Looks at the store when a test has ended.
struct Watch<'o> {
    options: &'o Options,
    stats: Vec<(String, f64)>,
    /// What the harness and the tests have to say to a person.
    notes: Vec<String>,
}

impl Observer for Watch<'_> {
    fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Notice { thread, text, .. } if !self.options.is_quiet => {
                say!("{thread}: {text}");
            }
            Event::Note(note) => self.notes.push((*note).to_owned()),
            _ => {}
        }
    }

    fn measured(&mut self, store: &dyn Store) {
        if self.options.prints_rows {
            print_rows(store);
        }
        if self.options.adds_stats || self.options.prints_stats {
            store.stats(&mut |name, value| self.stats.push((name.to_owned(), value)));
        }
    }
}

/// Every row of the store on standard output, bytes that are no letters escaped.
fn print_rows(store: &dyn Store) {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut write = |key: &[u8], value: &[u8]| {
        match writeln!(out, "{}: {}", key.escape_ascii(), value.escape_ascii()) {
            Ok(()) => ControlFlow::Continue(()),
            // A reader that went away, such as `head`, has all it wanted.
            Err(_) => ControlFlow::Break(()),
        }
    };
    let scanned = store.session().and_then(|mut session| session.scan(b"", None, &mut write));
    if let Err(error) = scanned {
        keyrack_console::refuse(PROGRAM, &format!("cannot print the rows: {error}"));
    }
    let _ = out.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Result<Words, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let mut engines = keyrack_peers::engines();
        engines.push(keyrack_masstree_engine::engine());
        Words::of(&words, Some(3), &Registry::new(engines))
    }

    #[test]
    fn words_are_parameters_trees_or_tests() {
        let line =
            "m rw1,wd3 skiplist nkeys=1 prefix=\"x\\u0020y\" rangesize= wcol1,rcol1 masstree";
        let found = words(line).unwrap();
        let trees: Vec<(&str, &str)> = found.trees.iter().map(|(t, e)| (t.as_str(), *e)).collect();
        assert_eq!(trees, [("m", "masstree"), ("skiplist", "skiplist"), ("masstree", "masstree")]);
        assert_eq!(found.tests, ["rw1,wd3", "wcol1,rcol1"]);
        let params: Vec<(&str, &str)> =
            found.params.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let given = [("nkeys", "1"), ("prefix", "x y"), ("rangesize", "")];
        assert_eq!(params, [&given[..], &[("rscale_ncores", "3")]].concat());
        let nothing = words("").unwrap();
        assert_eq!(nothing.tests, ["rw1"]);
        assert_eq!(nothing.trees[0].1, "masstree");
    }

    #[test]
    fn words_that_mean_nothing_are_named() {
        for (line, why) in [
            ("rw9", "unknown test 'rw9'; did you mean 'rw"),
            ("rw1,", "unknown test ''"),
            ("rw1,rwx", "unknown test 'rwx'"),
            ("null", "engine 'null' is no tree in memory"),
            ("wd3 nkesy=1", "unknown parameter 'nkesy'; did you mean 'nkeys'?"),
            ("rw1 nkeys=1", "unknown parameter 'nkeys'"),
        ] {
            let Err(error) = words(line) else { panic!("{line} was taken") };
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn an_order_has_every_run_once_and_depends_on_the_seed() {
        assert_eq!(order(1, 7), [0]);
        let mut orders: Vec<Vec<usize>> = (0..20).map(|seed| order(6, seed)).collect();
        assert_eq!(order(6, 3), orders[3]);
        for order in &mut orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3, 4, 5]);
        }
        orders.dedup();
        assert!(orders.len() > 10, "{orders:?}");
    }
}

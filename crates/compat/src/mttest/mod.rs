//! `mttest`, the tester of Masstree: tests on trees in one process, a line of JSON per thread, a
//! notebook, a plot.
//!
//! ```text
//!   options --> every trial of every test on every tree, as a plan of the harness each
//!                 standard error:  RUN/TOTAL test/tree
//!                                  ID: now getting
//!                                  ID: {"table":"mb","test":"rw1","trial":0,"thread":0,..}
//!           --> the notebook grows by an experiment      EXPERIMENT x0
//!           --> gnuplot script to standard output, unless that is a terminal
//! ```
//!
//! Names, shapes and meanings are those of the original, and exit status 1 says that something
//! failed or was refused, 130 that a signal ended it. What differs, on purpose:
//!
//! - A tree may also be another engine of ours. Then it is the `table` too; the Masstree is `mb`.
//! - A test that fails its check ends with one line, no abort; the other runs go on. Rows come when
//!   all threads of a test have ended, in order of threads.
//! - Every run has a store of its own in this process, where the original forks one for each.
//! - Unknown tests, trees, parameters and a notebook that is none are refused before anything runs.
//! - Of a test named twice on one tree, or on two names of one tree, the trials are counted on, so
//!   that all of them are in the notebook.
//! - The order of several runs is drawn from `--seed`, which is said.
//! - `--tree-stats` and `--stats` show what the engine counts; `--print` shows rows, not nodes.

mod compare;
mod options;
mod runs;

use super::line::Tool;
use crate::Program;
use compare::Pattern;
use keyrack_calendar as calendar;
use keyrack_console::say;
use keyrack_harness::probe::{Host, LinuxHost};
use keyrack_harness::sink::{
    Candlesticks, Experiment, Notebook, Page, Stream, Trial, Value, append,
};
use keyrack_harness::{NotebookFile, Stop, Surroundings};
use keyrack_vfs::{Fs, RealFs};
use options::{Options, Place};
use std::io::{IsTerminal, Read};
use std::sync::Arc;

const PROGRAM: &str = "mttest";

const TOOL: Tool = Tool {
    name: PROGRAM,
    hint: "Usage: mttest [-jN] TESTS...\nTry 'mttest --help' for options.",
    refused: keyrack_console::NO,
};

/// `mttest [OPTIONS] [PARAM=VALUE...] [TREE...] [TEST...]`. Returns the exit status.
pub(super) fn main(argv: &[String], program: &dyn Program) -> u8 {
    let fs: Arc<dyn Fs> = Arc::new(RealFs);
    let surroundings = || program.surroundings(&fs, argv, PROGRAM);
    let help = || runs::help(&surroundings().registry);
    TOOL.main(Options::parse(argv), help, |options| run(options, &fs, &surroundings))
}

/// Runs, writes and plots. An error is a refusal: nothing has run.
fn run(
    options: &Options,
    fs: &Arc<dyn Fs>,
    surroundings: &dyn Fn() -> Surroundings,
) -> Result<u8, String> {
    let runs = runs::Runs::new(options, fs, surroundings)?;
    let mut book = Book::open(&options.notebook, fs)?;
    if !options.compare.is_empty() && book.page.is_none() {
        return Err("-c compares with experiments of the notebook, and there is none".to_owned());
    }
    let facts = surroundings().facts;
    let started = calendar::rfc3339_now();
    let machine = LinuxHost.hostname();
    let (trials, mut status) = if options.trials > 0 {
        let stop = Stop::default();
        keyrack_console::set_on_signals(&stop.flag)?;
        runs.run(&stop)
    } else {
        (Vec::new(), keyrack_console::DONE)
    };
    let experiment = Experiment {
        revision: facts.revision.unwrap_or(facts.version),
        time: calendar::ctime(&started).unwrap_or(started),
        gid: options.gid.clone(),
        machine: machine.clone(),
        cores: runs.threads(),
        trials,
    };
    if let Err(why) = book.add(&experiment) {
        keyrack_console::refuse(PROGRAM, &why);
        status = status.max(keyrack_console::NO);
    }
    let plots =
        !std::io::stdout().is_terminal() || (options.trials == 0 && !options.compare.is_empty());
    if plots {
        let trials = chosen(options, experiment.trials, &book.old);
        let plot = Candlesticks {
            machine: machine.as_deref(),
            cores: runs.threads(),
            normalize: options.normalize,
            yrange: options.yrange.as_deref(),
            trials: &trials,
        };
        let script = plot.script();
        if script.is_none() && options.trials == 0 && !options.compare.is_empty() {
            status = keyrack_console::NO;
        }
        status = status.max(keyrack_console::print(&script.unwrap_or_default()));
    }
    Ok(status)
}

/// What is plotted: the present trials and those of the notebook that were asked for.
fn chosen(options: &Options, trials: Vec<Trial>, old: &Notebook) -> Vec<(String, Vec<Value>)> {
    let mut chosen: Vec<(String, Vec<Value>)> =
        trials.into_iter().map(|trial| (trial.key(), trial.rows)).collect();
    let patterns: Vec<Pattern> = options.compare.iter().map(|word| Pattern::of(word)).collect();
    for (word, pattern) in options.compare.iter().zip(&patterns) {
        if !old.data().any(|(key, _)| pattern.matches(key)) {
            keyrack_console::refuse(
                PROGRAM,
                &format!("-c {word}: the notebook has no such experiment"),
            );
        }
    }
    let is_asked_for = |key: &str| patterns.iter().any(|pattern| pattern.matches(key));
    let old = old.data().filter(|(key, _)| is_asked_for(key));
    chosen.extend(old.map(|(key, rows)| (key.to_owned(), rows.to_vec())));
    chosen
}

/// The notebook of the options.
struct Book {
    /// For messages.
    name: String,
    page: Option<Box<dyn Page>>,
    /// As it was before.
    old: Notebook,
}

impl Book {
    fn open(place: &Place, fs: &Arc<dyn Fs>) -> Result<Book, String> {
        let (name, page): (String, Option<Box<dyn Page>>) = match place {
            Place::Nowhere => (String::new(), None),
            Place::Streams => {
                let mut text = String::new();
                let read = std::io::stdin().read_to_string(&mut text);
                read.map_err(|error| format!("cannot read standard input: {error}"))?;
                let page = Stream::new(text, Box::new(std::io::stdout()));
                ("standard input".to_owned(), Some(Box::new(page)))
            }
            Place::File(path) => {
                let page = NotebookFile::open(fs, path)?;
                (path.display().to_string(), Some(Box::new(page)))
            }
        };
        let mut book = Book { name, page, old: Notebook::parse("").map_err(|e| e.to_string())? };
        if let Some(page) = &mut book.page {
            let name = &book.name;
            let text = page.read().map_err(|error| format!("{name}: {error}"))?;
            book.old = Notebook::parse(&text).map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(book)
    }

    /// Adds an experiment, if it measured anything, and says so.
    fn add(&mut self, experiment: &Experiment) -> Result<(), String> {
        let Some(page) = &mut self.page else { return Ok(()) };
        match append(&mut **page, experiment) {
            Ok(Some(name)) => say!("EXPERIMENT {name}"),
            Ok(None) => {}
            Err(error) => return Err(format!("{}: {error}", self.name)),
        }
        Ok(())
    }
}

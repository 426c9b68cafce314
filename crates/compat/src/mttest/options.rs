//! The command line of `mttest`, read into [`Options`].
//!
//! Long options may be shortened as far as they stay unique, as the original's could. An option
//! that is given twice counts where it stands last, and so do an option and its `--no-` form, and
//! `-n` and `-T`.

use crate::line::{
    self, COUNT, Cores, Exit, NONE, Opt, SUFFIXED, count, flag, read, seconds, suffixed, value,
};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use keyrack_harness::sink::Normalize;
use std::path::PathBuf;

/// Where the notebook is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Nowhere,
    /// Read from standard input, written to standard output.
    Streams,
    File(PathBuf),
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Options {
    /// `None`: as many as there are CPUs.
    pub(super) threads: Option<u32>,
    pub(super) is_pinned: bool,
    pub(super) cores: Option<Cores>,
    /// 0: run nothing.
    pub(super) trials: u32,
    pub(super) is_quiet: bool,
    /// Operations per thread, where they are limited.
    pub(super) limit: Option<u64>,
    /// Seconds; 0 is no limit.
    pub(super) duration_s: f64,
    pub(super) notebook: Place,
    /// Marks the experiment.
    pub(super) gid: Option<String>,
    /// Print keys and values at the end.
    pub(super) prints_rows: bool,
    /// Print the engine's statistics as JSON, and add them to the last row.
    pub(super) adds_stats: bool,
    /// Print the engine's statistics.
    pub(super) prints_stats: bool,
    /// Experiments to plot beside the present one.
    pub(super) compare: Vec<String>,
    pub(super) normalize: Normalize,
    pub(super) yrange: Option<String>,
    /// Threads of `rscale` that work.
    pub(super) rscale_threads: Option<u32>,
    /// Of the order of runs.
    pub(super) seed: u64,
    /// Tests, trees and parameters as they stand on the line.
    pub(super) words: Vec<String>,
}

const OPTIONS: &[Opt] = &[
    value("threads", 'j', "THREADS", "Run with THREADS threads (default: one per CPU)"),
    value("cores", NONE, "CORES", "Pin to these: FIRST, FIRST+STRIDE or A,B,C; needs --pin"),
    value("trials", 'T', "TRIALS", "Run each test TRIALS times"),
    value(
        "limit",
        'l',
        "LIMIT",
        "Limit relevant tests to LIMIT operations (k, m, g, b: thousands ..)",
    ),
    value(
        "duration",
        'd',
        "TIME",
        "Limit relevant tests to TIME seconds (default 10; 0: no limit)",
    ),
    value(
        "notebook",
        'b',
        "FILE",
        "Record JSON results in FILE (notebook-mttest.json); - reads standard input and writes \
         standard output",
    ),
    value("gid", 'g', "STRING", "Mark the experiment in the notebook with STRING"),
    value("compare", 'c', "EXPERIMENT", "Compare with EXPERIMENT of the notebook in the plot")
        .list(),
    value("normalize", NONE, "HOW", "Divide plotted values: none, pertest (default) or firsttest"),
    value("yrange", NONE, "LOW:HIGH", "Set the range of y in the plot"),
    value("rscale_ncores", 'r', "THREADS", "Threads of the test rscale that work"),
    value("test", NONE, "TEST", "Run TEST").list(),
    value("seed", NONE, "SEED", "Seed of the random order of several runs (default 1)"),
    value("port", NONE, "PORT", ""),
    flag("pin", 'p', "Pin each thread to a CPU of its own"),
    flag("quiet", 'q', "Do not report what threads do"),
    flag("print", NONE, "Print keys and values after each run"),
    flag(
        "stats",
        NONE,
        "Print statistics of the tree as JSON, and add them to the last thread's row",
    ),
    flag("tree-stats", NONE, "Print statistics of the tree"),
    flag("no-run", 'n', "Run nothing"),
];

/// Options that take back another.
const NEGATIONS: [&str; 5] = ["no-pin", "no-quiet", "no-print", "no-notebook", "no-normalize"];

/// Tests that have an option of their own.
const NAMED_TESTS: [&str; 5] = ["test-rw1", "test-rw2", "test-rw3", "test-rw4", "test-rd1"];

const NOTEBOOK: &str = "notebook-mttest.json";

fn command() -> Command {
    let mut command =
        line::command("mttest", OPTIONS).infer_long_args(true).arg(Arg::new("word").num_args(0..));
    for name in NEGATIONS {
        let other = name.trim_start_matches("no-");
        let arg = Arg::new(name).long(name).action(ArgAction::SetTrue);
        command = command.arg(arg.overrides_with(other));
    }
    command.args(NAMED_TESTS.map(|name| Arg::new(name).long(name).action(ArgAction::SetTrue)))
}

impl Options {
    /// Reads a command line, program name first.
    pub(super) fn parse(argv: &[String]) -> Result<Options, Exit> {
        line::parse(argv, command, Options::of)
    }

    fn of(matches: &ArgMatches) -> Result<Options, String> {
        let text = |name: &str| line::text(matches, name);
        let list = |name: &str| -> Vec<String> {
            matches.get_many::<String>(name).into_iter().flatten().cloned().collect()
        };
        let named = NAMED_TESTS.iter().filter(|name| matches.get_flag(name));
        let mut words: Vec<String> = list("test");
        words.extend(named.map(|name| name.trim_start_matches("test-").to_owned()));
        words.extend(list("word"));
        let runs_nothing = place(matches, "no-run") > place(matches, "trials");
        let trials = read(text("trials"), "-T", COUNT, count)?.unwrap_or(1);
        let range = |range: &str| {
            let is_clean = |c: char| c.is_ascii_digit() || ".:-+*eE".contains(c);
            (range.contains(':') && range.chars().all(is_clean)).then(|| range.to_owned())
        };
        Ok(Options {
            threads: read(text("threads"), "-j", COUNT, count)?,
            is_pinned: matches.get_flag("pin"),
            cores: read(text("cores"), "--cores", Cores::EXPECTED, Cores::parse)?,
            trials: if runs_nothing { 0 } else { trials },
            is_quiet: matches.get_flag("quiet"),
            limit: read(text("limit"), "-l", SUFFIXED, suffixed)?,
            duration_s: read(text("duration"), "-d", "seconds, 0 or more", seconds)?
                .unwrap_or(10.0),
            notebook: match text("notebook") {
                _ if matches.get_flag("no-notebook") => Place::Nowhere,
                Some("-") => Place::Streams,
                Some("") => return Err("-b needs the name of a file".to_owned()),
                name => Place::File(PathBuf::from(name.unwrap_or(NOTEBOOK))),
            },
            gid: text("gid").map(str::to_owned),
            prints_rows: matches.get_flag("print"),
            adds_stats: matches.get_flag("stats"),
            prints_stats: matches.get_flag("tree-stats"),
            compare: list("compare"),
            normalize: match text("normalize") {
                _ if matches.get_flag("no-normalize") => Normalize::None,
                given => read(given, "--normalize", "none, pertest, test or firsttest", |text| {
                    Some(match text {
                        "none" => Normalize::None,
                        "pertest" | "test" => Normalize::PerTest,
                        "firsttest" => Normalize::FirstTest,
                        _ => return None,
                    })
                })?
                .unwrap_or_default(),
            },
            yrange: read(text("yrange"), "--yrange", "LOW:HIGH", range)?,
            rscale_threads: read(text("rscale_ncores"), "-r", "a number", |text| {
                text.parse().ok()
            })?,
            seed: read(text("seed"), "--seed", "a number", |text| text.parse().ok())?.unwrap_or(1),
            words,
        })
    }
}

/// Where `name` stands last on the command line, if it does.
fn place(matches: &ArgMatches, name: &str) -> Option<usize> {
    let given = matches.value_source(name) == Some(ValueSource::CommandLine);
    matches.indices_of(name).filter(|_| given)?.next_back()
}

/// The help, with the tests and trees that there are.
pub(super) fn help(threads: u32, tests: &[&str], trees: &[&str]) -> String {
    let mut text = String::from(
        "Keyrack, called as mttest: test trees in one process\n\
         Usage: mttest [-jTHREADS] [OPTIONS] [PARAM=VALUE...] [TREE...] TEST...\n       \
         mttest -n -c EXPERIMENT...\n\nOptions:\n",
    );
    line::list(&mut text, OPTIONS);
    let no = NEGATIONS.map(|name| format!("--{name}")).join(", ");
    text.push_str(&format!("  {no} take the option back.\n"));
    text.push_str(&format!("\nThis machine has {threads} CPUs.\n\nKnown TESTs:\n"));
    columns(&mut text, tests, 5);
    text.push_str("Or say TEST1,TEST2,... to run several tests in sequence on the same tree.\n");
    text.push_str("\nKnown TREEs (default m):\n");
    columns(&mut text, trees, 5);
    text
}

/// Names in columns that are read downwards.
fn columns(text: &mut String, names: &[&str], count: usize) {
    let rows = names.len().div_ceil(count);
    let width = names.iter().map(|name| name.len()).max().unwrap_or(0) + 3;
    for row in 0..rows {
        let line: String =
            names.iter().skip(row).step_by(rows).map(|name| format!("{name:<width$}")).collect();
        text.push_str(&format!("   {}\n", line.trim_end()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, Exit> {
        let words = std::iter::once("mttest").chain(line.split_whitespace());
        Options::parse(&words.map(str::to_owned).collect::<Vec<_>>())
    }

    #[track_caller]
    fn options(line: &str) -> Options {
        parse(line).unwrap()
    }

    #[test]
    fn nothing_said_is_the_default() {
        let options = options("");
        assert_eq!((options.threads, options.trials, options.limit), (None, 1, None));
        assert_eq!(options.duration_s, 10.0);
        assert_eq!(options.notebook, Place::File(PathBuf::from("notebook-mttest.json")));
        assert_eq!((options.normalize, options.seed), (Normalize::PerTest, 1));
        assert!(options.words.is_empty() && !options.is_pinned && !options.is_quiet);
    }

    #[test]
    fn letters_and_words_say_the_same() {
        let short = options("-j2 -T 3 -qp -l 5k -d.5 -b f.json -g now -c x0 -c rw1 -r 4 rw1 m");
        let long = options(
            "--threads=2 --trials 3 --quiet --pin --limit=5000 --duration=0.5 --notebook f.json \
             --gid=now --compare=x0 --compare rw1 --rscale_ncores=4 rw1 m",
        );
        assert_eq!(short, long);
        assert_eq!((short.threads, short.trials, short.limit), (Some(2), 3, Some(5000)));
        assert_eq!(short.compare, ["x0", "rw1"]);
        assert_eq!(options("--thr 2 --dur 1 --lim 1m").limit, Some(1_000_000));
        let tests = options("--test wd1 --test-rw3 rw1 a=1");
        assert_eq!(tests.words, ["wd1", "rw3", "rw1", "a=1"]);
        assert_eq!(options("rw1 -j 2 -- -odd").words, ["rw1", "-odd"]);
    }

    #[test]
    fn the_later_one_counts() {
        assert!(!options("-q --no-quiet").is_quiet);
        assert!(options("--no-quiet -q").is_quiet);
        assert_eq!(options("-b f --no-notebook").notebook, Place::Nowhere);
        assert_eq!(options("--no-notebook -b -").notebook, Place::Streams);
        assert_eq!(options("--normalize firsttest --no-normalize").normalize, Normalize::None);
        assert_eq!(options("-T3 -n").trials, 0);
        assert_eq!(options("-n -T3").trials, 3);
        assert_eq!(options("-j1 -j 4").threads, Some(4));
    }

    #[test]
    fn what_does_not_parse_is_named() {
        for (line, words) in [
            ("--bogus", "unknown option '--bogus'"),
            ("--qiuet", "did you mean '--quiet'?"),
            ("-x", "unknown option '-x'"),
            ("-j", "needs a value"),
            ("-j x", "-j expects a number from 1 to 1024, not 'x'"),
            ("-j 0", "not '0'"),
            ("-j 2,3", "not '2,3'"),
            ("-T -1", "not '-1'"),
            ("-l 10x", "-l expects"),
            ("-d -1", "-d expects seconds, 0 or more, not '-1'"),
            ("-d inf", "not 'inf'"),
            ("--cores x", "--cores expects FIRST"),
            ("--normalize all", "--normalize expects none"),
            ("--yrange 1", "--yrange expects LOW:HIGH"),
            ("--yrange 0:1];!x", "not '0:1];!x'"),
            ("--no-", "--no-"),
        ] {
            let Err(Exit::Usage(why)) = parse(line) else { panic!("{line} was taken") };
            assert!(why.contains(words) && why.lines().count() == 1, "{line}: {why}");
        }
        assert_eq!(parse("--help -j 2"), Err(Exit::Help));
    }

    #[test]
    fn help_names_every_test_once() {
        let tests = ["a", "b", "c", "d", "e", "f", "g"];
        let text = help(2, &tests, &["m", "skiplist"]);
        assert!(text.contains("   a   c   e   g\n   b   d   f\n"), "{text}");
        assert!(text.contains("-j, --threads=THREADS"), "{text}");
        assert!(!text.contains("--port"), "{text}");
    }
}

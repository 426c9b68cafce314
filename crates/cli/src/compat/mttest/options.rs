//! The command line of `mttest`, read into [`Options`].
//!
//! Long options may be shortened as far as they stay unique, as the original's could. An option
//! that is given twice counts where it stands last, and so do an option and its `--no-` form, and
//! `-n` and `-T`.

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

/// Which CPUs threads are pinned to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cores {
    /// The first, and the distance to the next.
    From(usize, usize),
    /// The first ones; they go on behind the last of the list.
    List(Vec<usize>),
}

impl Cores {
    fn parse(text: &str) -> Option<Cores> {
        if let Some((first, stride)) = text.split_once('+') {
            return Some(Cores::From(first.parse().ok()?, stride.parse().ok()?));
        }
        let list: Option<Vec<usize>> = text.split(',').map(|core| core.parse().ok()).collect();
        match list?.as_slice() {
            [first] => Some(Cores::From(*first, 1)),
            list => Some(Cores::List(list.to_vec())),
        }
    }

    /// The CPU of each of so many threads.
    pub(super) fn of(&self, threads: u32) -> Vec<usize> {
        let (head, next, stride) = match self {
            Cores::From(first, stride) => (&[][..], *first, *stride),
            Cores::List(list) => (list.as_slice(), list.last().map_or(0, |last| last + 1), 1),
        };
        let tail = (0..).map(|index: usize| next.saturating_add(index.saturating_mul(stride)));
        head.iter().copied().chain(tail).take(threads as usize).collect()
    }
}

/// Why there are no options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// Help was asked for.
    Help,
    /// One line about what is wrong.
    Usage(String),
}

/// Options that take a value: name, letter, value's name, help. Without help they are not listed.
const VALUES: &[(&str, char, &str, &str)] = &[
    ("threads", 'j', "THREADS", "Run with THREADS threads (default: one per CPU)"),
    ("cores", '\0', "CORES", "Pin to these: FIRST, FIRST+STRIDE or A,B,C; needs --pin"),
    ("trials", 'T', "TRIALS", "Run each test TRIALS times"),
    ("limit", 'l', "LIMIT", "Limit relevant tests to LIMIT operations (k, m, g, b: thousands ..)"),
    ("duration", 'd', "TIME", "Limit relevant tests to TIME seconds (default 10; 0: no limit)"),
    (
        "notebook",
        'b',
        "FILE",
        "Record JSON results in FILE (notebook-mttest.json); - reads standard input and writes \
         standard output",
    ),
    ("gid", 'g', "STRING", "Mark the experiment in the notebook with STRING"),
    ("compare", 'c', "EXPERIMENT", "Compare with EXPERIMENT of the notebook in the plot"),
    ("normalize", '\0', "HOW", "Divide plotted values: none, pertest (default) or firsttest"),
    ("yrange", '\0', "LOW:HIGH", "Set the range of y in the plot"),
    ("rscale_ncores", 'r', "THREADS", "Threads of the test rscale that work"),
    ("test", '\0', "TEST", "Run TEST"),
    ("seed", '\0', "SEED", "Seed of the random order of several runs (default 1)"),
    ("port", '\0', "PORT", ""),
];

/// Options without a value: name, letter, help.
const FLAGS: &[(&str, char, &str)] = &[
    ("pin", 'p', "Pin each thread to a CPU of its own"),
    ("quiet", 'q', "Do not report what threads do"),
    ("print", '\0', "Print keys and values after each run"),
    ("stats", '\0', "Print statistics of the tree as JSON, and add them to the last thread's row"),
    ("tree-stats", '\0', "Print statistics of the tree"),
    ("no-run", 'n', "Run nothing"),
];

/// Options that take back another.
const NEGATIONS: [&str; 5] = ["no-pin", "no-quiet", "no-print", "no-notebook", "no-normalize"];

/// Tests that have an option of their own.
const NAMED_TESTS: [&str; 5] = ["test-rw1", "test-rw2", "test-rw3", "test-rw4", "test-rd1"];

const NOTEBOOK: &str = "notebook-mttest.json";
/// Threads and trials at most.
const COUNT_MAX: u32 = 1024;

fn command() -> Command {
    let mut command = Command::new("mttest")
        .disable_version_flag(true)
        .disable_help_flag(true)
        .infer_long_args(true)
        .args_override_self(true)
        .arg(Arg::new("help").long("help").action(ArgAction::SetTrue))
        .arg(Arg::new("word").num_args(0..));
    let named = |name: &'static str, letter: char| {
        let arg = Arg::new(name).long(name);
        if letter == '\0' { arg } else { arg.short(letter) }
    };
    for (name, letter, ..) in VALUES {
        let is_list = ["test", "compare"].contains(name);
        let action = if is_list { ArgAction::Append } else { ArgAction::Set };
        command = command.arg(named(name, *letter).action(action).allow_hyphen_values(true));
    }
    for (name, letter, _) in FLAGS {
        command = command.arg(named(name, *letter).action(ArgAction::SetTrue));
    }
    for name in NEGATIONS {
        let other = name.trim_start_matches("no-");
        command = command.arg(named(name, '\0').action(ArgAction::SetTrue).overrides_with(other));
    }
    let flags = NAMED_TESTS.map(|name| named(name, '\0').action(ArgAction::SetTrue));
    command.args(flags)
}

impl Options {
    /// Reads a command line, program name first.
    pub(super) fn parse(argv: &[String]) -> Result<Options, Exit> {
        let matches = command()
            .try_get_matches_from(argv)
            .map_err(|error| Exit::Usage(crate::flags::one_line(&error, &command())))?;
        if matches.get_flag("help") {
            return Err(Exit::Help);
        }
        Options::of(&matches).map_err(Exit::Usage)
    }

    fn of(matches: &ArgMatches) -> Result<Options, String> {
        let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
        let list = |name: &str| -> Vec<String> {
            matches.get_many::<String>(name).into_iter().flatten().cloned().collect()
        };
        let named = NAMED_TESTS.iter().filter(|name| matches.get_flag(name));
        let mut words: Vec<String> = list("test");
        words.extend(named.map(|name| name.trim_start_matches("test-").to_owned()));
        words.extend(list("word"));
        let runs_nothing = place(matches, "no-run") > place(matches, "trials");
        let trials = read(text("trials"), "-T", "a number from 1 to 1024", count)?.unwrap_or(1);
        let range = |range: &str| {
            let is_clean = |c: char| c.is_ascii_digit() || ".:-+*eE".contains(c);
            (range.contains(':') && range.chars().all(is_clean)).then(|| range.to_owned())
        };
        Ok(Options {
            threads: read(text("threads"), "-j", "a number from 1 to 1024", count)?,
            is_pinned: matches.get_flag("pin"),
            cores: read(text("cores"), "--cores", "FIRST, FIRST+STRIDE or A,B,C", Cores::parse)?,
            trials: if runs_nothing { 0 } else { trials },
            is_quiet: matches.get_flag("quiet"),
            limit: read(text("limit"), "-l", "a number such as 5000 or 1.5m", suffixed)?,
            duration_s: read(text("duration"), "-d", "seconds, 0 or more", |text| {
                text.parse().ok().filter(|&s: &f64| (0.0..=1e9).contains(&s))
            })?
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

fn read<T>(
    text: Option<&str>,
    option: &str,
    wanted: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, String> {
    let Some(text) = text else { return Ok(None) };
    let parsed = parse(text).ok_or_else(|| format!("{option} expects {wanted}, not '{text}'"))?;
    Ok(Some(parsed))
}

fn count(text: &str) -> Option<u32> {
    text.parse().ok().filter(|count| (1..=COUNT_MAX).contains(count))
}

/// A number with a decimal suffix: k, m, g or b.
fn suffixed(text: &str) -> Option<u64> {
    let (digits, factor) = match text.char_indices().next_back()? {
        (end, 'k' | 'K') => (&text[..end], 1e3),
        (end, 'm' | 'M') => (&text[..end], 1e6),
        (end, 'g' | 'G' | 'b' | 'B') => (&text[..end], 1e9),
        _ => (text, 1.0),
    };
    let number = digits.parse::<f64>().ok()? * factor;
    (0.0..1e19).contains(&number).then_some(number as u64)
}

/// The help, with the tests and trees that there are.
pub(super) fn help(threads: u32, tests: &[&str], trees: &[&str]) -> String {
    let mut text = String::from(
        "Keyrack, called as mttest: test trees in one process\n\
         Usage: mttest [-jTHREADS] [OPTIONS] [PARAM=VALUE...] [TREE...] TEST...\n       \
         mttest -n -c EXPERIMENT...\n\nOptions:\n",
    );
    let mut line = |name: &str, letter: char, value: &str, help: &str| {
        let short = if letter == '\0' { "   ".to_owned() } else { format!("-{letter},") };
        let equals = if value.is_empty() { "" } else { "=" };
        text.push_str(&format!("  {short} {:<23} {help}\n", format!("--{name}{equals}{value}")));
    };
    for (name, letter, value, help) in VALUES.iter().filter(|(.., help)| !help.is_empty()) {
        line(name, *letter, value, help);
    }
    for (name, letter, help) in FLAGS {
        line(name, *letter, "", help);
    }
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
    fn limits_have_decimal_suffixes() {
        for (text, limit) in
            [("0", 0), ("12", 12), ("1.5k", 1500), ("2M", 2_000_000), ("1g", 1 << 30), ("3b", 0)]
        {
            let limit = match text {
                "1g" => 1_000_000_000,
                "3b" => 3_000_000_000,
                _ => limit,
            };
            assert_eq!(suffixed(text), Some(limit), "{text}");
        }
        for text in ["", "k", "-1", "1x", "10kk", "nan", "1e30", "\u{e9}"] {
            assert_eq!(suffixed(text), None, "{text}");
        }
    }

    #[test]
    fn cores_are_dealt_out() {
        for (text, expected) in [
            ("3", Some(vec![3, 4, 5, 6])),
            ("0+2", Some(vec![0, 2, 4, 6])),
            ("5+0", Some(vec![5, 5, 5, 5])),
            ("7,1", Some(vec![7, 1, 2, 3])),
            ("4,3,2,1,0", Some(vec![4, 3, 2, 1])),
            ("", None),
            ("x", None),
            ("1,", None),
            ("-1", None),
            ("1+2+3", None),
        ] {
            assert_eq!(Cores::parse(text).map(|cores| cores.of(4)), expected, "{text}");
        }
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

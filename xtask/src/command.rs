//! The command line: one table of commands and options, from which both the parser and the help
//! text are made.
//!
//! An unknown word is answered by one line that names the nearest command, measured by edit
//! distance, and exit code 2. Nothing is run before the whole line has been understood.

use crate::bench;
use crate::chores;
use crate::examples;
use crate::fuzz;
use crate::instrumented;
use crate::options::Options;
use crate::python;
use crate::soak;
use crate::stage::{Outcome, Stop};
use crate::tidy;
use crate::workspace::Workspace;

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    about: &'static str,
    options: &'static [Flag],
    pub(crate) run: fn(&Workspace, &Options) -> Outcome,
}

/// An option of a command.
#[derive(Debug)]
struct Flag {
    name: &'static str,
    /// The name of its number in the help text, or nothing for a switch and for an operand, which
    /// is a word without dashes.
    number: Option<&'static str>,
    about: &'static str,
}

const fn command(
    name: &'static str,
    about: &'static str,
    options: &'static [Flag],
    run: fn(&Workspace, &Options) -> Outcome,
) -> Command {
    Command { name, about, options, run }
}

/// A switch, or an operand where `name` has no dashes.
const fn switch(name: &'static str, about: &'static str) -> Flag {
    Flag { name, number: None, about }
}

const fn number(name: &'static str, number: &'static str, about: &'static str) -> Flag {
    Flag { name, number: Some(number), about }
}

/// Every command, in the order of the help text.
pub(crate) const COMMANDS: &[Command] = &[
    command(
        "check",
        "formatting, lints, documentation, tidy; stops at the first that fails",
        &[],
        chores::check,
    ),
    command("test", "tidy and every test; closes with `N passed, N failed`", &[], chores::test),
    command(
        "ci",
        "check, smoke, python, loom, shuttle, test",
        &[switch(
            "--without-test",
            "leave out the last stage, for a caller that runs it by itself",
        )],
        chores::ci,
    ),
    command("tidy", "the rules of this repository that no compiler checks", &[], tidy::command),
    command(
        "features",
        "the store and the binary under each set of features that is promised to build",
        &[switch(
            "--all",
            "also those that compile RocksDB and TidesDB, with a self-test of each engine",
        )],
        chores::features,
    ),
    command(
        "smoke",
        "the release binary over every engine, every workload and every claim, small",
        &[],
        chores::smoke,
    ),
    command(
        "python",
        "the tests of the Python package, with the pinned packages of PyPI",
        &[],
        python::tests,
    ),
    command(
        "wheel",
        "a wheel of the Python package in target/wheels, and the glibc that it asks for",
        &[],
        python::wheel,
    ),
    command(
        "overhead",
        "the instructions that the harness spends on a unit, against their budgets",
        &[],
        chores::overhead,
    ),
    command(
        "seeds",
        "the tests of the crates that draw, with the seed of the commit",
        &[],
        chores::seeds,
    ),
    command(
        "fuzz",
        "every fuzzer of bytes from outside, a minute a format",
        &[number("--seconds", "N", "seconds of a format (default 60)")],
        fuzz::command,
    ),
    command(
        "loom",
        "the models of a few crates under loom: every interleaving up to a bound",
        &[],
        instrumented::loom,
    ),
    command(
        "shuttle",
        "whole structures under shuttle, ten thousand schedules each",
        &[],
        instrumented::shuttle,
    ),
    command(
        "asan",
        "the tests of a few crates under AddressSanitizer, with a nightly compiler",
        &[],
        instrumented::asan,
    ),
    command(
        "soak",
        "hostile messages for every codec, the server with kills and full disks, then every \
                engine beside the model, many seeds",
        &[
            number("--minutes", "M", "start no run after M minutes (default 10)"),
            number("--first", "N", "the first seed (default 1)"),
            number("--serve-minutes", "M", "minutes of the server's soak (default 2)"),
            number("--messages", "N", "messages of each fuzzer (default 10000000)"),
        ],
        soak::command,
    ),
    command(
        "bench",
        "a claim of docs/results.md, measured again; without one, the list of them",
        &[
            switch("CLAIM", "a file of benchmarks/definitions"),
            switch("--quick", "as small as it goes, below the target directory: no figures"),
        ],
        bench::command,
    ),
    command(
        "figures",
        "the pictures of the documentation, drawn again from the newest records",
        &[],
        chores::figures,
    ),
    command(
        "examples",
        "the programs of examples/ over the library for C, in C, Go and JavaScript",
        &[],
        examples::command,
    ),
    command("fmt", "format the tree", &[], chores::fmt),
];

/// What a command line asks for.
#[derive(Debug)]
pub(crate) enum Request {
    Help,
    Run(&'static Command, Options),
}

/// Understands a whole command line.
///
/// # Errors
/// `Usage`, with the one line to print.
pub(crate) fn parse(words: &[String]) -> Outcome<Request> {
    let Some((first, rest)) = words.split_first() else {
        let names: Vec<&str> = COMMANDS.iter().map(|command| command.name).collect();
        return Err(Stop::Usage(format!("no command (have: {})", names.join(", "))));
    };
    if is_help(first) {
        return Ok(Request::Help);
    }
    let Some(command) = COMMANDS.iter().find(|command| command.name == first) else {
        let near = nearest(first, COMMANDS.iter().map(|command| command.name));
        return Err(Stop::Usage(format!("unknown command '{first}'; did you mean '{near}'?")));
    };
    if rest.iter().any(|word| is_help(word)) {
        return Ok(Request::Help);
    }
    options(command, rest).map(|options| Request::Run(command, options))
}

fn options(command: &Command, words: &[String]) -> Outcome<Options> {
    let mut options = Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let takes_operand = command.options.iter().any(|flag| !flag.name.starts_with('-'));
        if takes_operand && !word.starts_with('-') {
            if let Some(first) = options.operand.replace(word.clone()) {
                return Err(Stop::Usage(format!("{}: '{first}' or '{word}'?", command.name)));
            }
            continue;
        }
        let (name, joined) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (word.as_str(), None),
        };
        let Some(flag) = command.options.iter().find(|flag| flag.name == name) else {
            return Err(Stop::Usage(unknown_option(command, name)));
        };
        let number = match (flag.number, joined) {
            (None, None) => None,
            (None, Some(_)) => {
                return Err(Stop::Usage(format!("{name} takes no value")));
            }
            (Some(noun), joined) => {
                let Some(text) = joined.or_else(|| words.next().map(String::as_str)) else {
                    return Err(Stop::Usage(format!("{name} needs a number {noun}")));
                };
                let number = text.parse().map_err(|_| {
                    Stop::Usage(format!("{name} needs a whole number, not '{text}'"))
                })?;
                Some(number)
            }
        };
        options.given.push((flag.name, number));
    }
    Ok(options)
}

fn unknown_option(command: &Command, name: &str) -> String {
    if command.options.is_empty() {
        return format!("{} takes no options, but got '{name}'", command.name);
    }
    let near = nearest(name, command.options.iter().map(|flag| flag.name));
    format!("unknown option '{name}' of {}; did you mean '{near}'?", command.name)
}

fn is_help(word: &str) -> bool {
    matches!(word, "help" | "-h" | "--help")
}

pub(crate) fn help() -> String {
    let mut text = String::from("usage: cargo xtask COMMAND [OPTIONS]\n\n");
    for command in COMMANDS {
        text.push_str(&format!("  {:<10}{}\n", command.name, command.about));
        for flag in command.options {
            let shown = match flag.number {
                Some(noun) => format!("{} {noun}", flag.name),
                None => flag.name.to_string(),
            };
            text.push_str(&format!("    {shown:<18}{}\n", flag.about));
        }
    }
    text.push_str("\nexit codes: 0 done, 1 a stage failed, 2 could not run\n");
    text
}

/// The candidate with the smallest edit distance; of equals, the first.
fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> &'a str {
    candidates.min_by_key(|candidate| edit_distance(word, candidate)).unwrap_or("help")
}

/// Insertions, deletions and replacements that turn one word into the other; O(length squared).
fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    // `row[j]` is the distance between the letters of `left` seen so far and `right[..j]`.
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, letter) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for j in 0..right.len() {
            let replaced = diagonal + usize::from(letter != right[j]);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Outcome<Request> {
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        parse(&words)
    }

    fn refusal(line: &str) -> String {
        match parse_line(line) {
            Err(Stop::Usage(text)) => text,
            other => panic!("'{line}' was not refused: {other:?}"),
        }
    }

    #[test]
    fn every_command_parses_and_stands_in_the_help() {
        for command in COMMANDS {
            let parsed = parse_line(command.name);
            assert!(matches!(parsed, Ok(Request::Run(found, _)) if found.name == command.name));
            assert!(help().contains(&format!("\n  {}", command.name)), "{}", command.name);
            for flag in command.options {
                assert!(help().contains(flag.name), "{}", flag.name);
            }
        }
    }

    #[test]
    fn an_unknown_command_gets_one_line_with_the_nearest_name() {
        assert_eq!(refusal("tdy"), "unknown command 'tdy'; did you mean 'tidy'?");
        assert_eq!(refusal("tests"), "unknown command 'tests'; did you mean 'test'?");
        assert!(refusal("").starts_with("no command (have: check, test"));
        assert_eq!(Stop::Usage(refusal("tdy")).exit_code(), 2);
    }

    #[test]
    fn options_belong_to_their_command() {
        assert_eq!(refusal("fmt --minutes 3"), "fmt takes no options, but got '--minutes'");
        assert_eq!(
            refusal("soak --minute 3"),
            "unknown option '--minute' of soak; did you mean '--minutes'?"
        );
        assert_eq!(refusal("soak --minutes"), "--minutes needs a number M");
        assert_eq!(refusal("soak --minutes x"), "--minutes needs a whole number, not 'x'");
        assert_eq!(refusal("ci --without-test=1"), "--without-test takes no value");
    }

    #[test]
    fn an_operand_is_a_word_without_dashes() {
        for line in ["bench stores --quick", "bench --quick stores"] {
            let Ok(Request::Run(_, options)) = parse_line(line) else { panic!("refused") };
            assert_eq!(options.operand(), Some("stores"));
            assert!(options.has("--quick"));
        }
        let Ok(Request::Run(_, options)) = parse_line("bench") else { panic!("refused") };
        assert_eq!(options.operand(), None);
        assert_eq!(refusal("bench a b"), "bench: 'a' or 'b'?");
        assert_eq!(refusal("tidy a"), "tidy takes no options, but got 'a'");
    }

    #[test]
    fn numbers_are_read_in_both_spellings_and_the_last_wins() {
        let Ok(Request::Run(_, options)) = parse_line("soak --minutes=3 --first 9 --minutes 4")
        else {
            panic!("refused");
        };
        assert_eq!(options.number("--minutes"), Some(4));
        assert_eq!(options.number("--first"), Some(9));
        assert!(!options.has("--without-test"));
    }

    #[test]
    fn help_is_answered_anywhere() {
        assert!(matches!(parse_line("--help"), Ok(Request::Help)));
        assert!(matches!(parse_line("soak --help"), Ok(Request::Help)));
    }

    #[test]
    fn edit_distance_counts_the_three_edits() {
        assert_eq!(edit_distance("", "abc"), 3);
        assert_eq!(edit_distance("abc", ""), 3);
        assert_eq!(edit_distance("check", "chek"), 1);
        assert_eq!(edit_distance("soak", "soap"), 1);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
    }
}

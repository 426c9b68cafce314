//! What the binary has: commands with their options, old names with theirs, engines, crates.

use super::pages;
use crate::support::Lab;
use std::collections::{BTreeMap, BTreeSet};

/// Names that the binary is called by, whose options `--help` tells.
const OLD_NAMES: [&str; 7] =
    ["keybench", "mttest", "mtd", "mtclient", "mutilate", "db_test", "db_bench"];
/// Those that have no `--help`, as the programs that they stand for had none: the tables of their
/// options are read from the source.
const TABLES: [(&str, &str); 3] = [
    ("deltafs_bm_svr", "SERVER"),
    ("deltafs_bm_cli", "CLIENT"),
    ("parallel_compactor", "COMPACTOR"),
];

/// All that can be named.
pub(super) struct Known {
    /// Options by command, `fs ls`; the binary itself is the empty one.
    commands: BTreeMap<String, BTreeSet<String>>,
    old: BTreeMap<String, BTreeSet<String>>,
    engines: BTreeSet<String>,
    crates: BTreeSet<String>,
}

impl Known {
    pub(super) fn ask() -> Known {
        let lab = Lab::new();
        let mut commands = BTreeMap::new();
        let mut left = vec![String::new()];
        while let Some(command) = left.pop() {
            let help = lab.run(&format!("{command} --help")).exits(0).stdout;
            let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
            for line in listed.take_while(|line| line.starts_with("  ")) {
                if let Some(name) = line.strip_prefix("  ").filter(|line| !line.starts_with(' ')) {
                    let name = name.split_whitespace().next().expect("a line that is not blank");
                    left.push(format!("{command} {name}").trim_start().to_owned());
                }
            }
            commands.insert(command, options_of(&help));
        }
        assert!(commands.len() > 50, "{:?}", commands.keys());
        let mut old = BTreeMap::new();
        for name in OLD_NAMES {
            let help = lab.called(name, "--help").exits(0);
            old.insert(name.to_owned(), options_of(&(help.stdout + &help.stderr)));
        }
        let source = pages::read("crates/compat/src/deltafs/programs.rs");
        for (name, table) in TABLES {
            let start = source.find(&format!("const {table}: &[Spec]")).unwrap();
            let table = &source[start..start + source[start..].find("];").unwrap()];
            let names = table.split("(\"").skip(1).filter_map(|row| row.split('"').next());
            old.insert(name.to_owned(), names.map(|name| format!("--{name}")).collect());
        }
        let listed = lab.run("bench --list").exits(0).stdout;
        let built = listed.lines().skip_while(|line| *line != "engines:").skip(1);
        let built = built.take_while(|line| line.starts_with("  "));
        let built = built.filter(|line| !line.starts_with("   "));
        let missing = listed.lines().filter_map(|line| line.strip_prefix("not built in: "));
        let first = |line: &str| line.trim().split([' ', ',']).next().unwrap().to_owned();
        let engines: BTreeSet<String> = built.chain(missing).map(first).collect();
        assert!(engines.len() > 10, "{engines:?}");
        let crates = crate::support::names_in(&pages::root().join("crates")).into_iter().collect();
        Known { commands, old, engines, crates }
    }

    /// The program of ours that a word calls: `keyrack`, or an old name, by any path.
    pub(super) fn program<'w>(&self, word: &'w str) -> Option<&'w str> {
        let name = word.rsplit('/').next().unwrap_or(word);
        (name == "keyrack" || self.old.contains_key(name)).then_some(name)
    }

    /// Whether any program of ours has the option.
    pub(super) fn has_option(&self, option: &str) -> bool {
        self.commands.values().chain(self.old.values()).any(|all| all.contains(option))
    }

    /// A command and those in it, with their options.
    fn below(&self, command: &str) -> impl Iterator<Item = (&String, &BTreeSet<String>)> {
        let start = format!("{command} ");
        self.commands.iter().filter(move |(known, _)| {
            start == " " || **known == start.trim_end() || known.starts_with(&start)
        })
    }

    pub(super) fn check_call(&self, program: &str, arguments: &[&str]) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut called = program.to_owned();
        let mut options = self.old.get(program).cloned();
        let mut rest = arguments;
        if options.is_none() {
            let mut command = String::new();
            while let Some((word, behind)) = rest.split_first() {
                let below = format!("{command} {word}").trim_start().to_owned();
                let is_group = self.below(&command).count() > 1;
                match (self.commands.contains_key(&below), is_group && pages::is_word(word)) {
                    (true, _) => (command, rest) = (below, behind),
                    (false, true) => return vec![format!("there is no command keyrack {below}")],
                    (false, false) => break,
                }
            }
            // Of a group it may be an option of any command in it: `keyrack fs --store`.
            options = Some(self.below(&command).flat_map(|(_, all)| all.iter().cloned()).collect());
            called = format!("keyrack {command}").trim_end().to_owned();
        }
        let Some(options) = options else { return wrong };
        for (index, word) in rest.iter().enumerate() {
            if *word == "--" {
                let behind = &rest[index + 1..];
                if let Some(program) = behind.first().and_then(|word| self.program(word)) {
                    wrong.extend(self.check_call(program, &behind[1..]));
                }
                break;
            }
            if let Some(option) = pages::option(word)
                && !options.contains(option)
                && !matches!(option, "--help" | "--version")
            {
                wrong.push(format!("{called} has no option {option}"));
            }
        }
        wrong
    }

    /// Engines that a line chooses and that are none.
    pub(super) fn check_engines(&self, words: &[&str], examples: &[(&str, &str)]) -> Vec<String> {
        let mut wrong = Vec::new();
        for (index, word) in words.iter().enumerate() {
            let (option, value) = match word.split_once('=') {
                Some((option, value)) => (option, Some(value)),
                None => (*word, words.get(index + 1).copied()),
            };
            if !matches!(option, "--backend" | "--backends" | "--engine") {
                continue;
            }
            for engine in value.unwrap_or_default().split(',') {
                let engine = engine.trim_end_matches(['?', ']', '.', ')']);
                let is_known = self.engines.contains(engine)
                    || examples.iter().any(|(name, _)| *name == engine);
                if pages::is_word(engine) && !is_known {
                    wrong.push(format!("there is no engine {engine}"));
                }
            }
        }
        wrong
    }

    /// Something in a sentence that exists: an option or a command in a code span, the engine that
    /// there is "no" of; outside of lists also a crate or an engine by its bare name.
    pub(super) fn named_in(&self, text: &str, is_item: bool) -> Option<String> {
        for (index, code) in text.split('`').enumerate().filter(|(index, _)| index % 2 == 1) {
            let option = code.split_whitespace().filter_map(pages::option);
            if let Some(option) = option.into_iter().find(|option| self.has_option(option)) {
                return Some(option.to_owned());
            }
            let command = code.strip_prefix("keyrack ").unwrap_or_default();
            if self.commands.contains_key(command) && !command.is_empty() {
                return Some(code.to_owned());
            }
            let before = text.split('`').nth(index - 1).unwrap_or_default();
            if before.ends_with("no ") && self.engines.contains(code) {
                return Some(code.to_owned());
            }
        }
        if is_item {
            return None;
        }
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        let mut names = words.map(str::to_lowercase);
        names.find(|name| self.crates.contains(name) || self.engines.contains(name))
    }
}

fn options_of(help: &str) -> BTreeSet<String> {
    help.split_whitespace().filter_map(pages::option).map(str::to_owned).collect()
}

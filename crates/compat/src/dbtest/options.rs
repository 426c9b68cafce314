//! The command line of `db_test`, read into [`Options`].
//!
//! The first options are those of the original. Its compile flags are long options here, and are
//! taken from the environment under their own names, too; an option on the command line wins. Those
//! that have no meaning are taken, and one line says why.

use crate::line::{self, Exit, NONE, Opt, flag, value};
use clap::{Arg, ArgAction, ArgMatches, Command};
use std::path::PathBuf;

/// What was asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Options {
    pub(super) threads: u32,
    pub(super) initial: u64,
    /// `None`: twice the initial keys.
    pub(super) range: Option<u64>,
    pub(super) updates: u64,
    pub(super) duration_ms: u64,
    pub(super) wait_s: u64,
    /// `seq`, `random` or `none`; `None` fills a store without rows in random order.
    pub(super) init: Option<String>,
    /// Of the range, in percent.
    pub(super) skew: Option<f64>,
    pub(super) has_one_writer: bool,
    pub(super) scans: bool,
    pub(super) has_hash_level: bool,
    pub(super) collects_stats: bool,
    /// Whether the throughput is printed as it goes, with bursts of updates.
    pub(super) shows_time: bool,
    pub(super) shows_latency: bool,
    /// The directory of the store.
    pub(super) db: Option<PathBuf>,
    pub(super) engine: String,
    pub(super) durability: Option<String>,
    pub(super) value_size: Option<u64>,
    pub(super) seed: u64,
    pub(super) is_pinned: bool,
    /// Options of the engine, by its own names.
    pub(super) engine_options: Vec<(String, String)>,
    /// What has no meaning here, a line each.
    pub(super) explained: Vec<String>,
}

/// What the original has, and what was a flag of its compiler.
const OPTIONS: &[Opt] = &[
    value("num-threads", 'n', "N", "Number of threads (4)"),
    value(
        "initial-size",
        'i',
        "N",
        "Keys put before the test, rounded up to a power of two (1024)",
    ),
    value("update-rate", 'u', "PERCENT", "Percentage of updates, half puts, half removals (0)"),
    value("duration", 'd', "MS", "Duration of the test in milliseconds (10)"),
    value("wait", 'w', "S", "Seconds between the fill and the test (0)"),
    value(
        "range",
        'r',
        "N",
        "Range of keys, rounded up to a power of two (twice the initial keys)",
    ),
    value(
        "init",
        NONE,
        "HOW",
        "seq, random or none: fill half the range first [INIT] (random in a store without rows)",
    ),
    value("skew", NONE, "X", "X % of the range get 100-X % of the accesses [SKEW]"),
    value("list-mb", NONE, "X", "MiB of the memory component [MSL]"),
    value("hash-mb", NONE, "X", "MiB of the part of it without order, 32 bytes an entry [MHT]"),
    value("use-ht", NONE, "0|1", "0: no hash level [USE_HT]"),
    value("set-cpu", NONE, "0|1", "0: do not pin threads [SET_CPU]"),
    value(
        "db",
        NONE,
        "DIR",
        "The store to use, or to make; it stays (TEST_TMPDIR/db_test; temporary)",
    ),
    value("engine", NONE, "NAME", "Another engine of this build (flodb)"),
    value("durability", NONE, "LEVEL", "none, os, interval:MS or sync (the engine's)"),
    value("value-size", NONE, "BYTES", "Bytes of a value (256)"),
    value("seed", NONE, "N", "Seed of everything random (1)"),
    flag("one-writer", NONE, "Thread 0 writes, the others read [ONEWRITER]"),
    flag("scans", NONE, "Reads are scans of 100 keys, each counted as 100 operations [SCANS]"),
    flag("collect-stats", NONE, "Print what the engine counts, by level [COLLECT_STATS]"),
    flag(
        "dummy-persist",
        NONE,
        "Drop full memtables: the memory component alone, without a log [DUMMY_PERSIST]",
    ),
    flag(
        "time-test",
        NONE,
        "Print the throughput four times a second; one second in ten has updates alone [TIME_TEST]",
    ),
    value("latency", NONE, "1..5", "Print the times of puts, removals and reads [LATENCY]"),
];

/// The original's compile flags, and the options that they are here.
const VARIABLES: &[(&str, &str)] = &[
    ("MSL", "list-mb"),
    ("MHT", "hash-mb"),
    ("USE_HT", "use-ht"),
    ("SET_CPU", "set-cpu"),
    ("INIT", "init"),
    ("SKEW", "skew"),
    ("ONEWRITER", "one-writer"),
    ("SCANS", "scans"),
    ("COLLECT_STATS", "collect-stats"),
    ("DUMMY_PERSIST", "dummy-persist"),
    ("TIME_TEST", "time-test"),
    ("LATENCY", "latency"),
    ("N_DRAINING_THREADS", "drain-threads"),
    ("ASCY_MEMTABLE", "memtable"),
    ("CLHT_K", "clht-k"),
    ("TIGHT_ALLOC", "tight-alloc"),
    ("POWER", "power"),
    ("STATS", "retry-stats"),
];
/// MiB of a mebi of entries, which is the unit of `MHT`.
const HASH_MB: u64 = (ENTRY_BYTES << 20) >> 20;

/// Options that are taken and mean nothing: name, whether they take a value, why.
const WITHOUT_MEANING: &[(&str, bool, &str)] = &[
    ("drain-threads", true, "order is made when somebody needs it; no thread drains"),
    ("memtable", true, "there is one memory component; --use-ht 0 leaves the hash level out"),
    ("clht-k", true, "the hash level is not partitioned by the bits of keys"),
    ("tight-alloc", true, "no node has a tower of pointers"),
    ("power", false, "energy is not measured"),
    ("retry-stats", false, "nothing retries"),
];

/// Bytes of an entry of the original's hash table.
const ENTRY_BYTES: u64 = 32;
const THREADS_MAX: u64 = 1024;

fn command() -> Command {
    let mut command = line::command("db_test", OPTIONS).mut_arg("help", |help| help.short('h'));
    for (name, takes_value, _) in WITHOUT_MEANING {
        let arg = Arg::new(*name).long(*name);
        command = command.arg(if *takes_value {
            arg.allow_hyphen_values(true)
        } else {
            arg.action(ArgAction::SetTrue)
        });
    }
    command
}

impl Options {
    /// Reads the variables of the environment and then a command line, program name first.
    pub(super) fn parse(
        argv: &[String],
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Options, Exit> {
        let given = |name: &str| variable(name).filter(|value| !value.is_empty());
        let mut words: Vec<String> = argv.iter().take(1).cloned().collect();
        for (name, option) in VARIABLES {
            let Some(value) = given(name) else { continue };
            let Some(word) = word_of(name, option, &value).map_err(Exit::Usage)? else { continue };
            words.push(word);
            // A wrong value is refused by the name that the user gave it.
            let alone = [&words[0], &words[words.len() - 1]].map(Clone::clone);
            line::parse(&alone, command, Options::of).map_err(|exit| match exit {
                Exit::Usage(why) => Exit::Usage(format!("{name}: {why}")),
                exit => exit,
            })?;
        }
        words.extend_from_slice(argv.get(1..).unwrap_or_default());
        line::parse(&words, command, Options::of)
    }

    fn of(matches: &ArgMatches) -> Result<Options, String> {
        let text = |name: &str| matches.get_one::<String>(name).cloned();
        let number = |name: &str, least: u64, most: u64| whole(matches, name, least, most);
        let engine = text("engine").unwrap_or_else(|| "flodb".to_owned());
        let is_dummy = matches.get_flag("dummy-persist");
        let init = text("init");
        if let Some(other) = init.as_deref().filter(|how| !["seq", "random", "none"].contains(how))
        {
            return Err(format!("--init expects seq, random or none, not '{other}'"));
        }
        let skew = match text("skew") {
            None => None,
            Some(text) => {
                let skew = text.parse().ok().filter(|skew| (0.0..=100.0).contains(skew));
                let skew = skew.filter(|skew| *skew > 0.0);
                Some(skew.ok_or_else(|| format!("--skew expects 1 to 100, not '{text}'"))?)
            }
        };
        Ok(Options {
            threads: number("num-threads", 1, THREADS_MAX)?.unwrap_or(4) as u32,
            initial: number("initial-size", 1, 1 << 62)?.unwrap_or(1024),
            range: number("range", 1, 1 << 63)?,
            updates: number("update-rate", 0, 100)?.unwrap_or(0),
            duration_ms: number("duration", 1, 10_000_000_000)?.unwrap_or(10),
            wait_s: number("wait", 0, 1_000_000)?.unwrap_or(0),
            init,
            skew,
            has_one_writer: matches.get_flag("one-writer"),
            scans: matches.get_flag("scans"),
            has_hash_level: either(matches, "use-ht")?.unwrap_or(true),
            collects_stats: matches.get_flag("collect-stats"),
            shows_time: matches.get_flag("time-test"),
            shows_latency: number("latency", 0, 5)?.is_some_and(|what| what > 0),
            db: match text("db") {
                Some(dir) if dir.is_empty() => return Err("--db needs a directory".to_owned()),
                dir => dir.map(PathBuf::from),
            },
            engine_options: engine_options(matches, &engine)?,
            engine,
            durability: text("durability").or_else(|| is_dummy.then(|| "none".to_owned())),
            value_size: number("value-size", 0, 64 << 20)?,
            seed: number("seed", 0, u64::MAX)?.unwrap_or(1),
            is_pinned: either(matches, "set-cpu")?.unwrap_or(true),
            explained: explained(matches),
        })
    }

    /// The initial keys, rounded up.
    pub(super) fn rounded_initial(&self) -> u64 {
        self.initial.next_power_of_two()
    }

    /// The range, before it is rounded up.
    pub(super) fn plain_range(&self) -> u64 {
        let initial = self.rounded_initial();
        self.range.filter(|range| *range >= initial).unwrap_or(2 * initial)
    }

    pub(super) fn rounded_range(&self) -> u64 {
        self.plain_range().next_power_of_two()
    }
}

/// The options of the engine that the options of the tool stand for.
fn engine_options(matches: &ArgMatches, engine: &str) -> Result<Vec<(String, String)>, String> {
    let mut options = Vec::new();
    let mut option = |key: &str, value: String| options.push((key.to_owned(), value));
    if let Some(mb) = whole(matches, "list-mb", 1, 1 << 30)? {
        option("memory_bytes", format!("{mb}M"));
    }
    if let Some(mb) = whole(matches, "hash-mb", 1, 1 << 30)? {
        option("unordered_max", ((mb << 20) / ENTRY_BYTES).to_string());
    }
    if let Some(uses) = either(matches, "use-ht")? {
        option("hash_level", if uses { "yes" } else { "no" }.to_owned());
    }
    if matches.get_flag("dummy-persist") {
        option("discard", "yes".to_owned());
    }
    if engine != "flodb" {
        return match options.first() {
            Some((name, _)) => {
                Err(format!("{name} is an option of flodb; engine '{engine}' has its own"))
            }
            None => Ok(options),
        };
    }
    if matches.get_flag("collect-stats") {
        options.push(("count_reads".to_owned(), "yes".to_owned()));
    }
    Ok(options)
}

/// A line for each option that was given and has no meaning.
fn explained(matches: &ArgMatches) -> Vec<String> {
    let is_given = |(name, takes_value, _): &&(&str, bool, &str)| {
        if *takes_value { matches.contains_id(name) } else { matches.get_flag(name) }
    };
    let explain = |(name, _, why): &(&str, bool, &str)| {
        let variable = VARIABLES.iter().find(|(_, option)| option == name);
        let made = variable.map(|(made, _)| format!(" ({made})")).unwrap_or_default();
        format!("--{name}{made} has no meaning here: {why}")
    };
    WITHOUT_MEANING.iter().filter(is_given).map(explain).collect()
}

fn either(matches: &ArgMatches, name: &str) -> Result<Option<bool>, String> {
    match line::text(matches, name) {
        None => Ok(None),
        Some("0") => Ok(Some(false)),
        Some("1") => Ok(Some(true)),
        Some(other) => Err(format!("--{name} expects 0 or 1, not '{other}'")),
    }
}

/// The word of the command line that a variable of the environment stands for.
fn word_of(name: &str, option: &str, value: &str) -> Result<Option<String>, String> {
    let takes_value = OPTIONS.iter().any(|known| known.name == option && !known.value.is_empty())
        || WITHOUT_MEANING.iter().any(|(known, takes_value, _)| *known == option && *takes_value);
    match (name, value) {
        ("MHT", value) => {
            let millions: u64 =
                value.parse().map_err(|_| format!("MHT expects a whole number, not '{value}'"))?;
            Ok(Some(format!("--{option}={}", millions.saturating_mul(HASH_MB))))
        }
        _ if takes_value => Ok(Some(format!("--{option}={value}"))),
        (_, "0") => Ok(None),
        (_, "1") => Ok(Some(format!("--{option}"))),
        _ => Err(format!("{name} expects 0 or 1, not '{value}'")),
    }
}

fn whole(matches: &ArgMatches, name: &str, least: u64, most: u64) -> Result<Option<u64>, String> {
    let option = OPTIONS.iter().find(|option| option.name == name);
    let shown = option.map(Opt::shown).unwrap_or_default();
    let wanted = format!("a whole number from {least} to {most}");
    let parse = |text: &str| text.parse().ok().filter(|number| (least..=most).contains(number));
    line::read(line::text(matches, name), &shown, &wanted, parse)
}

pub(super) fn help() -> String {
    let mut text = String::from(
        "Keyrack, called as db_test: the test of FloDB\n\nUsage:\n  db_test [options...]\n\n\
         Options:\n  -h, --help\n        Print this message\n",
    );
    for Opt { name, letter, value, help, .. } in OPTIONS {
        let short = if *letter == NONE { String::new() } else { format!("-{letter}, ") };
        let value = if value.is_empty() { String::new() } else { format!(" <{value}>") };
        text.push_str(&format!("  {short}--{name}{value}\n        {help}\n"));
    }
    text.push_str("\nTaken from the environment, too: ");
    let names: Vec<&str> = VARIABLES.iter().map(|(name, _)| *name).collect();
    text.push_str(&names.join(", "));
    text.push_str("\n\nTaken, without a meaning here:\n");
    for (name, takes_value, why) in WITHOUT_MEANING {
        let value = if *takes_value { " <X>" } else { "" };
        text.push_str(&format!("  --{name}{value}\n        {why}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, Exit> {
        let words = std::iter::once("db_test").chain(line.split_whitespace());
        Options::parse(&words.map(str::to_owned).collect::<Vec<_>>(), |_| None)
    }

    fn parse_with(line: &str, variables: &[(&str, &str)]) -> Result<Options, Exit> {
        let words = std::iter::once("db_test").chain(line.split_whitespace());
        Options::parse(&words.map(str::to_owned).collect::<Vec<_>>(), |name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[track_caller]
    fn options(line: &str) -> Options {
        parse(line).unwrap()
    }

    #[test]
    fn nothing_said_is_the_default() {
        let options = options("");
        assert_eq!((options.threads, options.initial, options.updates), (4, 1024, 0));
        assert_eq!((options.duration_ms, options.wait_s, options.range), (10, 0, None));
        assert_eq!((options.rounded_initial(), options.rounded_range()), (1024, 2048));
        assert_eq!((options.engine.as_str(), options.seed, options.is_pinned), ("flodb", 1, true));
        assert!(options.engine_options.is_empty() && options.explained.is_empty());
    }

    #[test]
    fn letters_take_their_value_with_or_without_a_blank() {
        let tight = options("-n16 -i200000000 -u50 -d10000 -w1 -r1000000000");
        let loose = options("-n 16 -i 200000000 -u 50 -d 10000 -w 1 -r 1000000000");
        let long = options(
            "--num-threads 16 --initial-size=200000000 --update-rate 50 --duration=10000 --wait 1 \
             --range 1000000000",
        );
        assert_eq!(tight, loose);
        assert_eq!(tight, long);
        assert_eq!((tight.rounded_initial(), tight.rounded_range()), (1 << 28, 1 << 30));
        assert_eq!(options("-n1 -n 3").threads, 3);
    }

    #[test]
    fn a_range_has_room_for_the_initial_keys() {
        assert_eq!(options("-i 1000 -r 10").rounded_range(), 2048);
        assert_eq!(options("-i 1000 -r 1024").rounded_range(), 1024);
        assert_eq!(options("-i 1000 -r 1025").rounded_range(), 2048);
    }

    #[test]
    fn compile_flags_are_options_of_the_engine() {
        let options = options(
            "--list-mb 96 --hash-mb 32 --use-ht 0 --init random --skew 2 --one-writer --scans \
             --collect-stats --set-cpu 0",
        );
        let expected = [
            ("memory_bytes", "96M"),
            ("unordered_max", "1048576"),
            ("hash_level", "no"),
            ("count_reads", "yes"),
        ];
        let given: Vec<(&str, &str)> =
            options.engine_options.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(given, expected);
        assert!(options.has_one_writer && options.scans && options.collects_stats);
        assert_eq!((options.init.as_deref(), options.skew), (Some("random"), Some(2.0)));
        assert!(!options.is_pinned);
    }

    #[test]
    fn what_has_no_meaning_is_explained_in_a_line_each() {
        let options = options(
            "--drain-threads 1 --memtable 3 --clht-k 16 --tight-alloc 0 --power --retry-stats",
        );
        assert_eq!(options.explained.len(), WITHOUT_MEANING.len());
        for line in &options.explained {
            assert!(line.starts_with("--") && line.contains(" has no meaning here: "), "{line}");
            assert_eq!(line.lines().count(), 1);
        }
    }

    /// What the guide of FloDB gives to `make`.
    #[test]
    fn make_variables_are_taken_from_the_environment() {
        let guide = [
            ("MHT", "1"),
            ("MSL", "96"),
            ("ASCY_MEMTABLE", "3"),
            ("N_DRAINING_THREADS", "1"),
            ("COLLECT_STATS", "1"),
            ("INIT", "random"),
            ("SCANS", "0"),
            ("ONEWRITER", ""),
        ];
        let options = parse_with("-n1", &guide).unwrap();
        let line = "-n1 --hash-mb 32 --list-mb 96 --memtable 3 --drain-threads 1 --collect-stats \
                    --init random";
        assert_eq!(options, parse(line).unwrap());
        assert!(options.explained[0].starts_with("--drain-threads (N_DRAINING_THREADS) has no"));
        let options = parse_with("--list-mb 7 --set-cpu 1", &[("MSL", "96"), ("SET_CPU", "0")]);
        let options = options.unwrap();
        assert_eq!(options.engine_options, [("memory_bytes".to_owned(), "7M".to_owned())]);
        assert!(options.is_pinned);
        for (name, option) in VARIABLES {
            let known = OPTIONS.iter().any(|known| known.name == *option);
            assert!(known || WITHOUT_MEANING.iter().any(|it| it.0 == *option), "{name}");
        }
        for (name, value, words) in [
            ("SCANS", "yes", "SCANS expects 0 or 1, not 'yes'"),
            ("MHT", "x", "MHT expects a whole number, not 'x'"),
            ("MSL", "x", "MSL: --list-mb expects"),
            ("INIT", "all", "INIT: --init expects seq, random or none, not 'all'"),
        ] {
            let Err(Exit::Usage(why)) = parse_with("", &[(name, value)]) else { panic!("{name}") };
            assert!(why.contains(words), "{why}");
        }
    }

    #[test]
    fn the_memory_component_alone_has_no_log() {
        let options = parse("--dummy-persist --collect-stats").unwrap();
        let expected = [("discard", "yes"), ("count_reads", "yes")];
        let given: Vec<(&str, &str)> =
            options.engine_options.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(
            (given.as_slice(), options.durability.as_deref()),
            (&expected[..], Some("none"))
        );
        assert!(parse("--latency 0").unwrap() == parse("").unwrap());
        let both = parse("--latency 3 --time-test").unwrap();
        assert!(both.shows_latency && both.shows_time);
    }

    #[test]
    fn what_does_not_parse_is_named() {
        for (line, words) in [
            ("--bogus", "unknown option '--bogus'"),
            ("--scan", "did you mean '--scans'?"),
            ("-x", "unknown option '-x'"),
            ("-n", "needs a value"),
            ("-n 0", "-n expects a whole number from 1 to 1024, not '0'"),
            ("-n -1", "not '-1'"),
            ("-u 101", "-u expects a whole number from 0 to 100"),
            ("-d 0", "-d expects"),
            ("-i 1e6", "-i expects"),
            ("--init all", "--init expects seq, random or none, not 'all'"),
            ("--skew 0", "--skew expects 1 to 100, not '0'"),
            ("--skew x", "not 'x'"),
            ("--use-ht 2", "--use-ht expects 0 or 1, not '2'"),
            ("--list-mb 0", "--list-mb expects a whole number from 1"),
            ("--engine btree --list-mb 9", "memory_bytes is an option of flodb"),
            ("--db=", "--db needs a directory"),
            ("word", "word"),
        ] {
            let Err(Exit::Usage(why)) = parse(line) else { panic!("{line} was taken") };
            assert!(why.contains(words) && why.lines().count() == 1, "{line}: {why}");
        }
        assert_eq!(parse("-h -n 2"), Err(Exit::Help));
    }

    #[test]
    fn the_help_names_every_option_once() {
        let text = help();
        for arg in command().get_arguments() {
            let name = format!("--{}", arg.get_long().unwrap());
            let lines = text.lines().filter(|line| {
                let mut words = line.split_whitespace();
                words.any(|word| word == name) && line.starts_with("  ") && !line.starts_with("   ")
            });
            assert_eq!(lines.count(), 1, "{name}");
        }
    }
}

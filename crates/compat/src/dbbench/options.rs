//! The command line of `db_bench`, read into [`Options`].

use crate::line::{self, Exit, NONE, Opt, value};
use clap::{ArgMatches, Command};
use keyrack_store::unknown;
use keyrack_workload::dbbench::jobs;
use std::path::PathBuf;
use std::str::FromStr;

/// What was asked for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Options {
    /// Without the prefix of their workloads.
    pub(super) benchmarks: Vec<String>,
    pub(super) num: u64,
    /// `None`: as many as `num`.
    pub(super) reads: Option<u64>,
    pub(super) threads: u32,
    pub(super) key_prefix: u64,
    pub(super) value_size: u64,
    pub(super) compression_ratio: f64,
    pub(super) has_histograms: bool,
    pub(super) uses_existing: bool,
    pub(super) db: Option<PathBuf>,
    /// Options of the engine, by its own names.
    pub(super) engine_options: Vec<(String, String)>,
    /// What has no meaning here, a line each.
    pub(super) explained: Vec<String>,
}

/// The benchmarks of a command line that names none.
const DEFAULTS: &str = "fillseq,fillsync,fillrandom,overwrite,readrandom,readrandom,readseq,\
                        readreverse,compact,readrandom,readseq,readreverse,fill100K,crc32c,\
                        snappycomp,snappyuncomp,zstdcomp,zstduncomp";
/// The workloads that are the original's benchmarks.
pub(super) const PREFIX: &str = "db/";
/// A workload of ours that the original does not have.
const NOT_THERE: &str = "db/mixed";
/// What opens the store over and over.
pub(super) const OPEN: &str = "open";

const OPTIONS: &[Opt] = &[
    value("benchmarks", NONE, "A,B,..", "Benchmarks, in this order"),
    value("num", NONE, "N", "Entries (1000000)"),
    value("reads", NONE, "N", "Reads of a benchmark that reads (-1: as many as entries)"),
    value("threads", NONE, "N", "Threads, each of which does everything (1)"),
    value("key_prefix", NONE, "BYTES", "Bytes of a key in front of its sixteen digits (0)"),
    value("value_size", NONE, "BYTES", "Bytes of a value (100)"),
    value(
        "compression_ratio",
        NONE,
        "X",
        "Bytes of a value after compression, by those before (0.5)",
    ),
    value("histogram", NONE, "0|1", "1: print a histogram of the times of the operations"),
    value("comparisons", NONE, "0|1", "Taken, without a meaning here"),
    value("write_buffer_size", NONE, "BYTES", "Bytes of a memtable [memory_bytes]"),
    value(
        "max_file_size",
        NONE,
        "BYTES",
        "Bytes of a table that a compaction writes [table_bytes]",
    ),
    value("block_size", NONE, "BYTES", "Bytes of a block of a table [block_bytes]"),
    value(
        "cache_size",
        NONE,
        "BYTES",
        "Bytes of blocks kept in memory (-1: by the memory) [cache_bytes]",
    ),
    value("bloom_bits", NONE, "N", "Bits of a filter for each key (-1: 10) [filter_bits]"),
    value("open_files", NONE, "N", "Files of tables open at once (0: 512) [files_max]"),
    value("compression", NONE, "0|1", "0: none; 1: Snappy on every level (none, none, LZ4)"),
    value("reuse_logs", NONE, "0|1", "Taken, without a meaning here"),
    value(
        "use_existing_db",
        NONE,
        "0|1",
        "1: use the store that is there, and skip what fills one",
    ),
    value("db", NONE, "DIR", "The store; it stays (TEST_TMPDIR/dbbench, or one of the user's own)"),
];

/// Options that are taken and mean nothing, and why.
const WITHOUT_MEANING: &[(&str, &str)] = &[
    ("comparisons", "keys are compared in place, and not counted"),
    ("reuse_logs", "a store that is opened replays its log and goes on in a new segment"),
];

const NUM_MAX: u64 = 10_000_000_000_000_000;

fn command() -> Command {
    line::command("db_bench", OPTIONS)
}

impl Options {
    /// Reads a command line, program name first.
    pub(super) fn parse(argv: &[String]) -> Result<Options, Exit> {
        line::parse(argv, command, Options::of)
    }

    fn of(matches: &ArgMatches) -> Result<Options, String> {
        let of = Of(matches);
        let mut engine_options = Vec::new();
        let mut option = |key: &str, value: String| engine_options.push((key.to_owned(), value));
        for (name, key) in [
            ("write_buffer_size", "memory_bytes"),
            ("max_file_size", "table_bytes"),
            ("block_size", "block_bytes"),
        ] {
            if let Some(bytes) = of.number(name, 1, u64::MAX >> 1)? {
                option(key, bytes.to_string());
            }
        }
        for (name, key) in [("cache_size", "cache_bytes"), ("bloom_bits", "filter_bits")] {
            if let Some(bytes) = of.natural(name)? {
                option(key, bytes.to_string());
            }
        }
        // 0 is the default there, and no limit as an option of the engine.
        if let Some(files) = of.number("open_files", 0, u64::MAX >> 1)?.filter(|files| *files > 0) {
            option("files_max", files.to_string());
        }
        if let Some(compresses) = of.switch("compression")? {
            option("compression", if compresses { "snappy" } else { "none" }.to_owned());
        }
        let mut explained = Vec::new();
        for (name, why) in WITHOUT_MEANING {
            if of.number::<i64>(name, i64::MIN, i64::MAX)?.is_some() {
                explained.push(format!("--{name} has no meaning here: {why}"));
            }
        }
        Ok(Options {
            benchmarks: benchmarks(line::text(matches, "benchmarks").unwrap_or(DEFAULTS))?,
            num: of.number("num", 1, NUM_MAX)?.unwrap_or(1_000_000),
            reads: of.natural("reads")?,
            threads: of.number("threads", 1, 1024)?.unwrap_or(1),
            key_prefix: of.number("key_prefix", 0, 1007)?.unwrap_or(0),
            value_size: of.number("value_size", 0, 64 << 20)?.unwrap_or(100),
            compression_ratio: of.number("compression_ratio", 0.0, 1.0)?.unwrap_or(0.5),
            has_histograms: of.switch("histogram")?.unwrap_or(false),
            uses_existing: of.switch("use_existing_db")?.unwrap_or(false),
            db: match line::text(matches, "db") {
                Some("") => return Err("--db needs a directory".to_owned()),
                dir => dir.map(PathBuf::from),
            },
            engine_options,
            explained,
        })
    }
}

/// The values of a command line.
struct Of<'m>(&'m ArgMatches);

impl Of<'_> {
    fn number<T>(&self, name: &str, least: T, most: T) -> Result<Option<T>, String>
    where
        T: FromStr + PartialOrd + Copy + std::fmt::Display,
    {
        let wanted = format!("a number from {least} to {most}");
        let parse = |text: &str| {
            let number = text.parse::<T>().ok();
            number.filter(|number| (least..=most).contains(number))
        };
        line::read(line::text(self.0, name), &format!("--{name}"), &wanted, parse)
    }

    /// A number of which -1 is none.
    fn natural(&self, name: &str) -> Result<Option<u64>, String> {
        let number = self.number::<i64>(name, -1, i64::MAX)?;
        Ok(number.and_then(|number| u64::try_from(number).ok()))
    }

    fn switch(&self, name: &str) -> Result<Option<bool>, String> {
        Ok(self.number::<u8>(name, 0, 1)?.map(|number| number == 1))
    }
}

/// The names of a list.
fn benchmarks(list: &str) -> Result<Vec<String>, String> {
    let known: Vec<&str> = jobs()
        .iter()
        .filter(|job| job.name != NOT_THERE)
        .filter_map(|job| job.name.strip_prefix(PREFIX))
        .chain([OPEN])
        .collect();
    let named: Vec<&str> = list.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
    if named.is_empty() {
        return Err("--benchmarks names none".to_owned());
    }
    match named.iter().find(|name| !known.contains(name)) {
        Some(name) => Err(unknown("benchmark", name, &known)),
        None => Ok(named.into_iter().map(str::to_owned).collect()),
    }
}

pub(super) fn help() -> String {
    let mut text = String::from(
        "Keyrack, called as db_bench: LevelDB's benchmark on flodb\n\nUsage:\n  \
         db_bench [--name=value ...]\n\nOptions:\n",
    );
    line::list(&mut text, OPTIONS);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, Exit> {
        let words = std::iter::once("db_bench").chain(line.split_whitespace());
        Options::parse(&words.map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn nothing_said_is_the_default() {
        let options = parse("").unwrap();
        assert_eq!((options.num, options.reads, options.threads), (1_000_000, None, 1));
        assert_eq!((options.value_size, options.compression_ratio), (100, 0.5));
        assert_eq!(options.key_prefix, 0);
        assert_eq!((options.benchmarks.len(), options.benchmarks[8].as_str()), (18, "compact"));
        assert!(options.engine_options.is_empty() && options.explained.is_empty());
        assert!(!options.has_histograms && !options.uses_existing && options.db.is_none());
    }

    #[test]
    fn flags_are_options_of_the_engine() {
        let options = parse(
            "--benchmarks=fillseq,open --write_buffer_size=4194304 --max_file_size=2097152 \
             --block_size=4096 --cache_size=8388608 --bloom_bits=0 --open_files=100 \
             --compression=0 --reads=7 --histogram=1 --use_existing_db=1 --db=/x --num=9 \
             --threads=2",
        )
        .unwrap();
        let given: Vec<String> =
            options.engine_options.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let expected = "memory_bytes=4194304 table_bytes=2097152 block_bytes=4096 \
                        cache_bytes=8388608 filter_bits=0 files_max=100 compression=none";
        assert_eq!(given.join(" "), expected);
        assert_eq!((options.num, options.reads, options.threads), (9, Some(7), 2));
        assert!(options.has_histograms && options.uses_existing);
        let unset = parse("--cache_size=-1 --bloom_bits=-1 --reads=-1 --open_files=0").unwrap();
        assert!(unset.engine_options.is_empty() && unset.reads.is_none());
        let snappy = parse("--compression=1").unwrap().engine_options;
        assert_eq!(snappy, [("compression".to_owned(), "snappy".to_owned())]);
    }

    #[test]
    fn what_has_no_meaning_is_explained_in_a_line_each() {
        let options = parse("--comparisons=1 --reuse_logs=1").unwrap();
        assert_eq!(options.explained.len(), WITHOUT_MEANING.len());
        assert!(options.explained[0].starts_with("--comparisons has no meaning here: "));
    }

    #[test]
    fn what_does_not_parse_is_named() {
        for (line, words) in [
            ("--bogus=1", "unknown option '--bogus'"),
            ("--num", "needs a value"),
            ("--num=0", "--num expects a number from 1 to"),
            ("--num=x", "not 'x'"),
            ("--key_prefix=1008", "--key_prefix expects a number from 0 to 1007, not '1008'"),
            ("--threads=1025", "--threads expects a number from 1 to 1024, not '1025'"),
            ("--histogram=2", "--histogram expects a number from 0 to 1, not '2'"),
            ("--compression_ratio=1.5", "--compression_ratio expects a number from 0 to 1"),
            ("--cache_size=-2", "--cache_size expects a number from -1"),
            ("--benchmarks=fillsq", "unknown benchmark 'fillsq'; did you mean 'fillseq'?"),
            ("--benchmarks=mixed", "unknown benchmark 'mixed'"),
            ("--benchmarks=,", "--benchmarks names none"),
            ("--db=", "--db needs a directory"),
            ("word", "word"),
        ] {
            let Err(Exit::Usage(why)) = parse(line) else { panic!("{line} was taken") };
            assert!(why.contains(words) && why.lines().count() == 1, "{line}: {why}");
        }
        assert_eq!(parse("--help"), Err(Exit::Help));
    }
}

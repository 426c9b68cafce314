//! The command line of `mtd`, read into [`Options`].
//!
//! An option and its `--no-` form take each other back: the last one counts. What has no meaning
//! here is taken, and a line says why.

use crate::line::{
    self, COUNT, Cores, Exit, NONE, Opt, SUFFIXED, count, flag, read, seconds, suffixed, value,
};
use clap::{Arg, ArgAction, ArgMatches, Command};
use keyrack_store::Durability;
use keyrack_store::unknown;
use keyrack_workload::kvtest::{self, Job};
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checkpoints {
    /// When there is enough log, and when a client asks.
    ByLog,
    /// And when the last one ended so long ago.
    Every(Duration),
    /// When a client asks.
    Never,
}

/// What was asked for, checked.
#[derive(Debug)]
pub(super) struct Options {
    /// Logs, loops and threads of checkpoints.
    pub(super) threads: u32,
    pub(super) is_pinned: bool,
    pub(super) cores: Option<Cores>,
    pub(super) has_log: bool,
    /// Recover, then end.
    pub(super) runs_nothing: bool,
    pub(super) log_dirs: Vec<PathBuf>,
    pub(super) checkpoint_dirs: Vec<PathBuf>,
    pub(super) checkpoints: Checkpoints,
    pub(super) durability: Durability,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) is_insecure: bool,
    /// A test to run in this process instead of serving.
    pub(super) test: Option<&'static Job>,
    pub(super) duration_s: f64,
    pub(super) limit: Option<u64>,
    pub(super) prints: bool,
    /// What has no meaning here, a line each.
    pub(super) explained: Vec<String>,
}

const OPTIONS: &[Opt] = &[
    flag("no-log", 'n', "Keep rows in memory alone: no log, no checkpoints").or(&["no-logging"]),
    flag("no-run", NONE, "Recover what is in the directories, then exit"),
    flag("pin", 'p', "Pin each thread to a CPU of its own"),
    value("cores", NONE, "CORES", "Pin to these: FIRST, FIRST+STRIDE or A,B,C; needs --pin"),
    value("logdir", NONE, "DIRS", "Directories of logs, dealt out in turn (default .)").or(&["ld"]),
    value("ckpdir", NONE, "DIRS", "Directories of checkpoints, dealt out in turn (default .)")
        .or(&["ckdir", "cd"]),
    value(
        "checkpoint",
        'c',
        "SECS",
        "Write a checkpoint every SECS seconds, too (30 without SECS; 0: none by itself)",
    )
    .or(&["ckp"]),
    value("port", NONE, "PORT", "TCP port, and UDP port of thread 0 (default 2117)"),
    value("threads", 'j', "THREADS", "Threads and logs (default: one per CPU)"),
    value("epoch-interval", NONE, "MS", "Taken, and means nothing: memory is not freed by a clock"),
    value("test", NONE, "TEST", "Run TEST in this process, with the log, print and exit"),
    value("duration", 'd', "TIME", "Limit the test to TIME seconds (default 10; 0: no limit)"),
    value("limit", 'l', "LIMIT", "Limit the test to LIMIT operations (k, m, g, b: thousands ..)"),
    flag("print", NONE, "Print keys and values after the test"),
    value("durability", NONE, "LEVEL", "What an answered write survives: os, interval:MS, sync"),
    value("host", NONE, "HOST", "Where to listen (default 127.0.0.1)"),
    flag("insecure", NONE, "Listen to other machines, though there is no password"),
];

/// Options that take back another.
const NEGATIONS: [(&str, &str); 6] = [
    ("log", "no-log"),
    ("run", "no-run"),
    ("no-pin", "pin"),
    ("no-checkpoint", "checkpoint"),
    ("no-print", "print"),
    ("no-insecure", "insecure"),
];

const PORT: u16 = 2117;
/// What `-c` means without a number.
const CHECKPOINT_S: &str = "30";

fn command() -> Command {
    let optional =
        |arg: Arg| arg.num_args(0..=1).require_equals(true).default_missing_value(CHECKPOINT_S);
    let mut command =
        line::command("mtd", OPTIONS).infer_long_args(true).mut_arg("checkpoint", optional);
    for (name, other) in NEGATIONS {
        let arg = Arg::new(name).long(name).action(ArgAction::SetTrue).overrides_with(other);
        command = command.arg(match name {
            "no-checkpoint" => arg.alias("no-ckp"),
            "log" => arg.alias("logging"),
            _ => arg,
        });
    }
    command
}

impl Options {
    /// Reads a command line, program name first.
    pub(super) fn parse(argv: &[String]) -> Result<Options, Exit> {
        let argv: Vec<String> = argv.iter().map(|word| with_equals(word)).collect();
        line::parse(&argv, command, Options::of)
    }

    fn of(matches: &ArgMatches) -> Result<Options, String> {
        let text = |name: &str| line::text(matches, name);
        let explained = explained(matches);
        let threads = read(text("threads"), "-j", COUNT, count)?;
        let options = Options {
            threads: threads.unwrap_or_else(line::processors),
            is_pinned: matches.get_flag("pin"),
            cores: read(text("cores"), "--cores", Cores::EXPECTED, Cores::parse)?,
            has_log: !matches.get_flag("no-log"),
            runs_nothing: matches.get_flag("no-run"),
            log_dirs: dirs("--logdir", text("logdir"))?,
            checkpoint_dirs: dirs("--ckpdir", text("ckpdir"))?,
            checkpoints: checkpoints(matches)?,
            durability: durability(text("durability"))?,
            host: match text("host").unwrap_or("127.0.0.1") {
                "" => return Err("--host needs a name or an address".to_owned()),
                ip if ip.contains(':') && !ip.starts_with('[') => format!("[{ip}]"),
                host => host.to_owned(),
            },
            port: read(text("port"), "--port", "a port", |text| text.parse().ok())?.unwrap_or(PORT),
            is_insecure: matches.get_flag("insecure"),
            test: text("test").map(job).transpose()?,
            duration_s: read(text("duration"), "-d", "seconds, 0 or more", seconds)?
                .unwrap_or(10.0),
            limit: read(text("limit"), "-l", SUFFIXED, suffixed)?,
            prints: matches.get_flag("print"),
            explained,
        };
        // It is looked at, and then not needed.
        read(text("epoch-interval"), "--epoch-interval", "milliseconds, 0 or more", seconds)?;
        options.check()?;
        Ok(options)
    }

    fn check(&self) -> Result<(), String> {
        let last = u32::from(self.port) + self.threads - 1;
        if self.port > 0 && last > u32::from(u16::MAX) {
            return Err(format!(
                "--port {}: {} threads have UDP ports up to {last}; there are 65535",
                self.port, self.threads
            ));
        }
        if self.runs_nothing && !self.has_log {
            return Err("--no-run recovers from logs, and -n has none".to_owned());
        }
        if self.runs_nothing && self.test.is_some() {
            return Err("--no-run runs nothing, and --test runs a test".to_owned());
        }
        if self.cores.is_some() && !self.is_pinned {
            return Err("--cores says where threads are pinned: it needs --pin".to_owned());
        }
        Ok(())
    }
}

/// A number that stands right behind `-c` belongs to it, and no other number does.
fn with_equals(word: &str) -> String {
    let is_number =
        |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    match word.strip_prefix("-c").filter(|rest| is_number(rest)) {
        Some(number) => format!("-c={number}"),
        None => word.to_owned(),
    }
}

/// A line for each option that is taken and has no meaning, or not with the others.
fn explained(matches: &ArgMatches) -> Vec<String> {
    let is_given = |name: &str| matches.contains_id(name);
    let mut lines = Vec::new();
    if is_given("epoch-interval") {
        lines.push(
            "--epoch-interval has no meaning here: memory is freed as operations go, not by a clock"
                .to_owned(),
        );
    }
    if matches.get_flag("no-log") {
        let unused = ["logdir", "ckpdir", "checkpoint", "durability"];
        for name in unused.into_iter().filter(|name| is_given(name)) {
            lines
                .push(format!("--{name} has no meaning with -n, which keeps rows in memory alone"));
        }
    }
    if is_given("test") && matches.get_flag("pin") {
        lines.push("--pin has no meaning with --test, whose threads run anywhere".to_owned());
    }
    if !is_given("test") {
        for (name, shown) in [("duration", "-d"), ("limit", "-l")] {
            if is_given(name) {
                lines.push(format!("{shown} has no meaning without --test, which it limits"));
            }
        }
        if matches.get_flag("print") {
            lines.push("--print has no meaning without --test, after which it prints".to_owned());
        }
    }
    lines
}

fn job(name: &str) -> Result<&'static Job, String> {
    let names: Vec<&str> = kvtest::jobs().iter().map(|job| job.name).collect();
    kvtest::job(name).ok_or_else(|| unknown("test", name, &names))
}

fn dirs(option: &str, text: Option<&str>) -> Result<Vec<PathBuf>, String> {
    let dirs: Vec<PathBuf> = text.unwrap_or(".").split(',').map(PathBuf::from).collect();
    if dirs.iter().any(|dir| dir.as_os_str().is_empty()) {
        Err(format!("{option} expects directories, A,B,C, not '{}'", text.unwrap_or("")))
    } else {
        Ok(dirs)
    }
}

fn checkpoints(matches: &ArgMatches) -> Result<Checkpoints, String> {
    if matches.get_flag("no-checkpoint") {
        return Ok(Checkpoints::Never);
    }
    let number = |text: &str| text.parse().ok().filter(|s: &f64| s.is_finite() && *s <= 1e9);
    let every = read(line::text(matches, "checkpoint"), "-c", "seconds", number)?;
    Ok(match every {
        None => Checkpoints::ByLog,
        Some(seconds) if seconds <= 0.0 => Checkpoints::Never,
        Some(seconds) => Checkpoints::Every(Duration::from_secs_f64(seconds)),
    })
}

fn durability(text: Option<&str>) -> Result<Durability, String> {
    let wanted = "os, interval:MS or sync (none is -n)";
    let parse = |text: &str| text.parse().ok().filter(|found| *found != Durability::None);
    Ok(read(text, "--durability", wanted, parse)?.unwrap_or(Durability::Os))
}

/// The help, with the tests that there are.
pub(super) fn help() -> String {
    let mut text = String::from(
        "Keyrack, called as mtd: a durable store for clients of Masstree's protocol\n\
         Usage: mtd [-jTHREADS] [--logdir=A,B] [--ckpdir=C] [OPTIONS]\n\nOptions:\n",
    );
    line::list(&mut text, OPTIONS);
    let no = NEGATIONS.map(|(name, _)| format!("--{name}")).join(", ");
    text.push_str(&format!("  {no} take the option back.\n\nTests:\n"));
    for job in kvtest::jobs() {
        text.push_str(&format!("   {:<14} {}\n", job.name, job.about));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, Exit> {
        let words = std::iter::once("mtd").chain(line.split_whitespace());
        Options::parse(&words.map(str::to_owned).collect::<Vec<_>>())
    }

    #[track_caller]
    fn options(line: &str) -> Options {
        parse(line).unwrap()
    }

    #[test]
    fn nothing_said_is_the_default() {
        let options = options("");
        assert!(options.has_log && !options.runs_nothing && !options.is_pinned);
        assert_eq!((options.host.as_str(), options.port), ("127.0.0.1", 2117));
        assert_eq!(options.log_dirs, [PathBuf::from(".")]);
        assert_eq!(options.checkpoint_dirs, [PathBuf::from(".")]);
        assert_eq!(options.checkpoints, Checkpoints::ByLog);
        assert_eq!((options.durability, options.threads), (Durability::Os, line::processors()));
        assert!(options.test.is_none() && options.explained.is_empty() && !options.is_insecure);
    }

    #[test]
    fn every_option_is_read() {
        let given = options(
            "-p --cores=1+2 --ld=a,b --ckdir c -c5 --port 99 -j 3 --durability sync --host ::1 \
             --insecure --test rw1 -d 0.5 -l 2k --print",
        );
        assert!(given.is_pinned && given.is_insecure && given.prints);
        assert_eq!(given.cores, Some(Cores::From(1, 2)));
        assert_eq!(given.log_dirs, [PathBuf::from("a"), PathBuf::from("b")]);
        assert_eq!(given.checkpoint_dirs, [PathBuf::from("c")]);
        assert_eq!(given.checkpoints, Checkpoints::Every(Duration::from_secs(5)));
        assert_eq!((given.port, given.threads, given.host.as_str()), (99, 3, "[::1]"));
        assert_eq!((given.durability, given.test.unwrap().name), (Durability::Sync, "rw1"));
        assert_eq!((given.duration_s, given.limit), (0.5, Some(2000)));
        let names: Vec<&str> = OPTIONS.iter().map(|option| option.name).collect();
        assert_eq!(names.len(), 17, "an option is not in this test: {names:?}");
        assert!(!options("-n").has_log && !options("--no-log").has_log);
        assert!(options("--no-run").runs_nothing);
        for cd in ["--ckpdir=x", "--ckdir=x", "--cd x", "--ckpd x"] {
            assert_eq!(options(cd).checkpoint_dirs, [PathBuf::from("x")], "{cd}");
        }
    }

    #[test]
    fn checkpoints_are_by_log_by_time_or_never() {
        let every = |s| Checkpoints::Every(Duration::from_secs_f64(s));
        for (line, expected) in [
            ("-c", every(30.0)),
            ("--checkpoint", every(30.0)),
            ("--ckp=2.5", every(2.5)),
            ("-c7", every(7.0)),
            ("-c=7", every(7.0)),
            ("-c -j2", every(30.0)),
            ("-c.5", every(0.5)),
            ("-c0", Checkpoints::Never),
            ("-c-1", Checkpoints::Never),
            ("--checkpoint=-3", Checkpoints::Never),
            ("--no-checkpoint", Checkpoints::Never),
            ("-c5 --no-ckp", Checkpoints::Never),
            ("--no-checkpoint -c5", every(5.0)),
        ] {
            assert_eq!(options(line).checkpoints, expected, "{line}");
        }
    }

    #[test]
    fn the_later_one_counts() {
        assert!(options("-n --log").has_log && !options("--log -n").has_log);
        assert!(!options("-p --no-pin").is_pinned && options("--no-pin -p").is_pinned);
        assert!(!options("--no-run --run").runs_nothing);
        assert_eq!(options("-j1 -j 4").threads, 4);
    }

    #[test]
    fn what_has_no_meaning_is_explained_in_a_line_each() {
        for (line, starts) in [
            ("--epoch-interval 0", &["--epoch-interval"][..]),
            ("-n --ld a --cd b -c --durability os", &["--logdir", "--ckpdir", "--check", "--dur"]),
            ("-d1 -l 5 --print", &["-d", "-l", "--print"]),
            ("--test rw1 -d1 -l 5 --print", &[]),
            ("--test rw1 -p", &["--pin"]),
        ] {
            let explained = options(line).explained;
            assert_eq!(explained.len(), starts.len(), "{line}: {explained:?}");
            for start in starts {
                assert!(explained.iter().any(|line| line.starts_with(start)), "{explained:?}");
            }
            assert!(explained.iter().all(|line| line.contains(" has no meaning ")));
        }
    }

    #[test]
    fn what_does_not_parse_is_named() {
        for (line, words) in [
            ("--bogus", "unknown option '--bogus'"),
            ("--prot 1", "did you mean '--port'?"),
            ("-x", "unknown option '-x'"),
            ("word", "word"),
            ("--port", "needs a value"),
            ("--port 65536", "--port expects a port, not '65536'"),
            ("--port x", "not 'x'"),
            ("--port 65530 -j 10", "UDP ports up to 65539"),
            ("-j 0", "-j expects a number from 1 to 1024, not '0'"),
            ("-j 1025", "not '1025'"),
            ("-cx", "unknown option '-x'"),
            ("--checkpoint=soon", "-c expects seconds, not 'soon'"),
            ("--checkpoint=inf", "not 'inf'"),
            ("--logdir=a,,b", "--logdir expects directories, A,B,C, not 'a,,b'"),
            ("--ckpdir=", "--ckpdir expects directories"),
            ("--cores 1", "--cores says where threads are pinned: it needs --pin"),
            ("-p --cores x", "--cores expects FIRST"),
            ("--durability none", "--durability expects os, interval:MS or sync (none is -n)"),
            ("--durability maybe", "not 'maybe'"),
            ("--test rw99", "unknown test 'rw99'"),
            ("-n --no-run", "--no-run recovers"),
            ("--no-run --test rw1", "--no-run runs nothing"),
            ("-d -1 --test rw1", "-d expects seconds"),
            ("-l x --test rw1", "-l expects"),
            ("--epoch-interval x", "--epoch-interval expects"),
            ("--host=", "--host needs"),
        ] {
            let Err(Exit::Usage(why)) = parse(line) else { panic!("{line} was taken") };
            assert!(why.contains(words) && why.lines().count() == 1, "{line}: {why}");
        }
        assert!(matches!(parse("--help -j 2"), Err(Exit::Help)));
    }

    #[test]
    fn the_help_names_every_option_and_test() {
        let text = help();
        for option in OPTIONS {
            assert!(text.contains(&format!("--{}", option.name)), "{}", option.name);
        }
        assert!(kvtest::jobs().iter().all(|job| text.contains(job.about)), "{text}");
    }
}

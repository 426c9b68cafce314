//! The command line of `mtclient`.

use super::table::{self, Test};
use clap::{Arg, ArgAction, ArgMatches, Command};
use keyrack_harness::unknown;
use keyrack_net::Endpoint;
use std::time::Duration;

/// What was asked for, checked.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) endpoint: Endpoint,
    pub(super) children: u32,
    pub(super) window: u32,
    /// Of the two stages, in whole seconds; 0 is no end.
    pub(super) durations_s: [f64; 2],
    pub(super) limit: Option<u64>,
    pub(super) is_quiet: bool,
    pub(super) first_seed: u32,
    pub(super) timeout: Duration,
    pub(super) params: Vec<(String, String)>,
    pub(super) test: &'static Test,
}

/// Why there are no options.
#[derive(Debug)]
pub(super) enum Exit {
    /// Help was asked for.
    Help,
    /// One line about what is wrong.
    Usage(String),
}

/// Options that take a value: name, other name, letter, value's name, help.
const VALUES: &[(&str, &str, char, &str, &str)] = &[
    ("server-ip", "", 's', "SERVER", "Host of the server, or unix:PATH (default 127.0.0.1)"),
    ("first-server-port", "fsp", '\0', "PORT", "Port of the server (default 2117)"),
    ("threads", "", 'j', "CHILDREN", "Run with CHILDREN children (default: one per CPU)"),
    ("window", "", 'w', "WINDOW", "Requests under way, a power of two up to 512 (default 512)"),
    ("duration", "", 'd', "TIME", "Limit tests to TIME seconds, rounded up (default 10)"),
    ("duration2", "d2", '\0', "TIME", "Limit their second stage to TIME seconds (default: none)"),
    ("limit", "", 'l', "LIMIT", "Limit tests to LIMIT operations (k, m, g, b: thousands ..)"),
    ("first_seed", "first-seed", '\0', "SEED", "Seed of the first child (default 0)"),
    ("rscale_partsz", "", '\0', "KEYS", "Keys of a part of ruscale_init, rscale, uscale"),
    ("timeout", "", '\0', "SECONDS", "Fail when an answer takes so long (default 60)"),
];

/// Options without a value: name, letter, help.
const FLAGS: &[(&str, char, &str)] = &[
    ("quiet", 'q', "Do not report what children do"),
    ("no-fork", '\0', "Taken, and means nothing: children are threads; for one child alone"),
    ("share-server-port", '\0', "Taken, and means nothing: TCP has one port"),
];

const CHILDREN_MAX: u32 = 1024;
const WINDOW_MAX: u32 = 512;
const SECONDS_MAX: f64 = 1e9;
const TIMEOUT_S_MAX: u64 = 86_400;
const PORT: u16 = 2117;

fn command() -> Command {
    let mut command = Command::new("mtclient")
        .disable_version_flag(true)
        .disable_help_flag(true)
        .infer_long_args(true)
        .args_override_self(true)
        .arg(Arg::new("help").long("help").action(ArgAction::SetTrue))
        .arg(Arg::new("children").short('n').action(ArgAction::Set))
        .arg(Arg::new("word").num_args(0..));
    for &(name, other, letter, ..) in VALUES {
        let mut arg = Arg::new(name).long(name).action(ArgAction::Set).allow_hyphen_values(true);
        if !other.is_empty() {
            arg = arg.alias(other);
        }
        command = command.arg(if letter == '\0' { arg } else { arg.short(letter) });
    }
    for &(name, letter, _) in FLAGS {
        let mut arg = Arg::new(name).long(name).action(ArgAction::SetTrue);
        if name == "share-server-port" {
            arg = arg.alias("ssp");
        }
        command = command.arg(if letter == '\0' { arg } else { arg.short(letter) });
    }
    command
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
        let count = |text: &str| text.parse().ok().filter(|n| (1..=CHILDREN_MAX).contains(n));
        let given = read(text("threads"), "-j", "a number from 1 to 1024", count)?.or(read(
            text("children"),
            "-n",
            "a number from 1 to 1024",
            count,
        )?);
        let is_single = matches.get_flag("no-fork");
        let children = given.unwrap_or_else(|| if is_single { 1 } else { cpus() });
        if is_single && children > 1 {
            return Err(format!("--no-fork has one child, not {children}"));
        }
        let window = |text: &str| {
            let window: u32 = text.parse().ok()?;
            (window.is_power_of_two() && window <= WINDOW_MAX).then_some(window)
        };
        let duration = |text: &str| {
            let seconds: f64 = text.parse().ok()?;
            (0.0..=SECONDS_MAX).contains(&seconds).then(|| seconds.ceil())
        };
        let timeout = |text: &str| text.parse().ok().filter(|s| (1..=TIMEOUT_S_MAX).contains(s));
        let (test, mut params) = words(matches)?;
        if let Some(keys) = text("rscale_partsz") {
            params.push(("partsize".to_owned(), keys.to_owned()));
        }
        let first = read(text("duration"), "-d", "seconds, 0 or more", duration)?.unwrap_or(10.0);
        let second = read(text("duration2"), "--d2", "seconds, 0 or more", duration)?;
        Ok(Options {
            endpoint: endpoint(text("server-ip"), text("first-server-port"))?,
            children,
            window: read(text("window"), "-w", "a power of two up to 512", window)?
                .unwrap_or(WINDOW_MAX),
            durations_s: [first, second.unwrap_or(0.0)],
            limit: read(text("limit"), "-l", "a number such as 5000 or 1.5m", suffixed)?,
            is_quiet: matches.get_flag("quiet"),
            first_seed: read(text("first_seed"), "--first_seed", "a number", |text| {
                text.parse().ok()
            })?
            .unwrap_or(0),
            timeout: Duration::from_secs(
                read(text("timeout"), "--timeout", "seconds, 1 or more", timeout)?.unwrap_or(60),
            ),
            params,
            test,
        })
    }
}

/// The one test and the parameters among the words.
fn words(matches: &ArgMatches) -> Result<(&'static Test, Vec<(String, String)>), String> {
    let tests: &'static [Test] = Vec::leak(table::all());
    let (mut named, mut params) = (Vec::new(), Vec::new());
    for word in matches.get_many::<String>("word").into_iter().flatten() {
        match word.split_once('=') {
            Some((name, value)) => params.push((name.to_owned(), value.to_owned())),
            None => named.push(word.as_str()),
        }
    }
    let name = match named[..] {
        [] => "rw1",
        [name] => name,
        _ => return Err(format!("one test at a time, not {}", named.join(" and "))),
    };
    let names: Vec<&str> = tests.iter().map(|test| test.name).collect();
    let test = tests.iter().find(|test| test.name == name);
    let test = test.ok_or_else(|| unknown("test", name, &names))?;
    let known = match test.body {
        table::Body::Job(job) => job.params,
        table::Body::Own(_) => &[],
    };
    match params.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        Some((name, _)) => Err(unknown("parameter", name, known)),
        None => Ok((test, params)),
    }
}

fn endpoint(server: Option<&str>, port: Option<&str>) -> Result<Endpoint, String> {
    let server = server.unwrap_or("127.0.0.1");
    let port = read(port, "--fsp", "a port", |text| text.parse().ok().filter(|&port| port > 0))?
        .unwrap_or(PORT);
    let text = match server {
        unix if unix.starts_with("unix:") => unix.to_owned(),
        ip if ip.contains(':') => format!("[{ip}]:{port}"),
        host => format!("{host}:{port}"),
    };
    text.parse().map_err(|error: keyrack_net::Error| error.to_string())
}

/// Children when nobody says how many.
fn cpus() -> u32 {
    let found = std::thread::available_parallelism();
    found.ok().and_then(|count| u32::try_from(count.get()).ok()).unwrap_or(1).min(CHILDREN_MAX)
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

/// The help, with the tests that there are.
pub(super) fn help() -> String {
    let mut text = String::from(
        "Keyrack, called as mtclient: test a server that speaks Masstree's protocol\n\
         Usage: mtclient [-s SERVER] [-w WINDOW] [-jCHILDREN] [OPTIONS] [PARAM=VALUE...] [TEST]\n\n\
         Options:\n",
    );
    let mut line = |name: &str, letter: char, help: &str| {
        let short = if letter == '\0' { "   ".to_owned() } else { format!("-{letter},") };
        text.push_str(&format!("  {short} --{name:<25} {help}\n"));
    };
    for (name, other, letter, value, help) in VALUES {
        let other = if other.is_empty() { String::new() } else { format!(", --{other}") };
        line(&format!("{name}={value}{other}"), *letter, help);
    }
    for (name, letter, help) in FLAGS {
        line(name, *letter, help);
    }
    text.push_str("\nTests (default rw1):\n");
    for test in table::all() {
        text.push_str(&format!("   {:<14} {}\n", test.name, test.about));
    }
    text
}

#[cfg(test)]
mod unit {
    use super::*;

    fn parse(line: &str) -> Result<Options, Exit> {
        let words = std::iter::once("mtclient").chain(line.split_whitespace());
        Options::parse(&words.map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_of_the_original_are_taken() {
        let options = parse("").unwrap();
        assert_eq!((options.test.name, options.window, options.first_seed), ("rw1", 512, 0));
        assert_eq!((options.durations_s, options.limit), ([10.0, 0.0], None));
        assert_eq!(options.endpoint.to_string(), "127.0.0.1:2117");
        let options = parse(
            "-s 10.0.0.1 --fsp 99 -j3 -w 64 -d 0.2 --d2=3 -l 1.5k -q --ssp --first_seed=31949 \
             sync_rw1",
        )
        .unwrap();
        assert_eq!((options.test.name, options.test.window), ("sync_rw1", Some(1)));
        assert_eq!((options.children, options.window, options.is_quiet), (3, 64, true));
        assert_eq!((options.durations_s, options.limit), ([1.0, 3.0], Some(1500)));
        assert_eq!(options.first_seed, 31_949);
        assert_eq!(options.endpoint.to_string(), "10.0.0.1:99");
        let options = parse("-s ::1 --no-fork -n 1 uscale parts=2 --rscale_partsz 7").unwrap();
        assert_eq!((options.endpoint.to_string(), options.children), ("[::1]:2117".to_owned(), 1));
        let params: Vec<String> = options.params.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(params, ["parts=2", "partsize=7"]);
        assert_eq!(parse("-s unix:/run/m").unwrap().endpoint.to_string(), "unix:/run/m");
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (line, why) in [
            ("-w 3", "-w expects a power of two up to 512, not '3'"),
            ("-w 1024", "not '1024'"),
            ("-w 0", "not '0'"),
            ("-j 0", "-j expects"),
            ("-d -1", "-d expects"),
            ("-l x", "-l expects"),
            ("--fsp 0", "--fsp expects"),
            ("--no-fork -j2", "--no-fork has one child"),
            ("rw1 rw2", "one test at a time, not rw1 and rw2"),
            ("rw9", "unknown test 'rw9'; did you mean 'rw"),
            ("rw1 nkeys=1", "unknown parameter 'nkeys'"),
            ("--udp", "--udp"),
        ] {
            match parse(line) {
                Err(Exit::Usage(error)) => assert!(error.contains(why), "{line}: {error}"),
                other => panic!("{line} was taken: {other:?}"),
            }
        }
    }
}

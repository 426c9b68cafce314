//! The command line of `mtclient`.

use super::settings::{Long, PORTS, Server, Settings};
use super::table::{self, Body, Test};
use crate::line::{
    self, COUNT, Exit, NONE, Opt, SUFFIXED, count, flag, read, seconds, suffixed, value,
};
use clap::{Arg, ArgAction, ArgMatches, Command};
use keyrack_store::unknown;
use std::path::PathBuf;
use std::time::Duration;

/// What was asked for, checked.
#[derive(Debug)]
pub(super) struct Options {
    pub(super) settings: Settings,
    pub(super) test: &'static Test,
    /// What has no meaning here, a line each.
    pub(super) explained: Vec<String>,
}

const OPTIONS: &[Opt] = &[
    value("server-ip", 's', "SERVER", "Host of the server, or unix:PATH (default 127.0.0.1)"),
    value("first-server-port", NONE, "PORT", "Port of the server (default 2117)").or(&["fsp"]),
    value("threads", 'j', "CHILDREN", "Run with CHILDREN children (default: one per CPU)"),
    value(
        "window",
        'w',
        "WINDOW",
        "Requests under way, a power of two up to 512 (default 512, with -u 64)",
    ),
    flag("udp", 'u', "Send datagrams, each child to a port of its own"),
    flag("share-server-port", NONE, "With -u: all children send to one port").or(&["ssp"]),
    value(
        "first-local-port",
        NONE,
        "PORT",
        "With -u: child 0 sends from PORT, child 1 from the next",
    )
    .or(&["flp"]),
    value("duration", 'd', "TIME", "Limit tests to TIME seconds, rounded up (default 10)"),
    value("duration2", NONE, "TIME", "Limit their second stage to TIME seconds (default: none)")
        .or(&["d2"]),
    value("limit", 'l', "LIMIT", "Limit tests to LIMIT operations (k, m, g, b: thousands ..)"),
    value("first_seed", NONE, "SEED", "Seed of the first child (default 0)").or(&["first-seed"]),
    value("input", 'i', "FILE", "Lines of the test url, as its parameter file=FILE"),
    value("keylen", NONE, "BYTES", "Bytes of a key of long_init and long_go (default 32)"),
    value("prefixLen", NONE, "BYTES", "Those that all these keys begin with (default 0)"),
    value("nkeys", NONE, "KEYS", "Such keys of each child (default 1m)"),
    value("getratio", NONE, "PERCENT", "Gets of long_go, the others are puts (default 50)"),
    value("minkeyletter", NONE, "LETTER", "The first letter of these keys (default 0)"),
    value("maxkeyletter", NONE, "LETTER", "The last one (default 9)"),
    value("rsinit_part", NONE, "PART", "The part that child 0 of ruscale_init puts (default 0)"),
    value("rscale_partsz", NONE, "KEYS", "Keys of a part of ruscale_init, rscale, uscale"),
    value("timeout", NONE, "SECONDS", "Fail when an answer takes so long (default 60)"),
    flag("quiet", 'q', "Do not report what children do"),
    flag("no-fork", NONE, "Taken, and means nothing: children are threads; for one child alone"),
];

const WINDOW_MAX: u32 = 512;
/// More datagrams at once are lost where a server's buffer is as small as kernels make it.
const DATAGRAM_WINDOW: u32 = 64;
const TIMEOUT_S_MAX: u64 = 86_400;
const PORT: u16 = 2117;
/// Bytes of the longest key that every server takes.
const KEY_BYTES_MAX: usize = 255;

fn command() -> Command {
    line::command("mtclient", OPTIONS)
        .infer_long_args(true)
        .arg(Arg::new("children").short('n').action(ArgAction::Set))
        .arg(Arg::new("word").num_args(0..))
}

impl Options {
    /// Reads a command line, program name first.
    pub(super) fn parse(argv: &[String]) -> Result<Options, Exit> {
        line::parse(argv, command, Options::of)
    }

    fn of(matches: &ArgMatches) -> Result<Options, String> {
        let text = |name: &str| line::text(matches, name);
        let given = read(text("threads"), "-j", COUNT, count)?.or(read(
            text("children"),
            "-n",
            COUNT,
            count,
        )?);
        let is_single = matches.get_flag("no-fork");
        let children = given.unwrap_or_else(|| if is_single { 1 } else { line::processors() });
        if is_single && children > 1 {
            return Err(format!("--no-fork has one child, not {children}"));
        }
        let window = |text: &str| {
            let window: u32 = text.parse().ok()?;
            (window.is_power_of_two() && window <= WINDOW_MAX).then_some(window)
        };
        let whole_seconds = |text: &str| seconds(text).map(f64::ceil);
        let timeout = |text: &str| text.parse().ok().filter(|s| (1..=TIMEOUT_S_MAX).contains(s));
        let input = text("input").map(PathBuf::from);
        let (test, params) = words(matches, input.is_some())?;
        let file = params.iter().find(|(name, _)| name == "file");
        let input = input.or_else(|| file.map(|(_, path)| PathBuf::from(path)));
        let first = read(text("duration"), "-d", "seconds, 0 or more", whole_seconds)?;
        let second = read(text("duration2"), "--d2", "seconds, 0 or more", whole_seconds)?;
        let (server, explained) = server(matches, test, children)?;
        let window_default = match server {
            Server::Stream(_) => WINDOW_MAX,
            Server::Datagrams { .. } => DATAGRAM_WINDOW,
        };
        let window = read(text("window"), "-w", "a power of two up to 512", window)?;
        let window = window.unwrap_or(window_default);
        let settings = Settings {
            server,
            children,
            window,
            in_flight: test.window.unwrap_or(window),
            durations_s: [first.unwrap_or(10.0), second.unwrap_or(0.0)],
            limit: read(text("limit"), "-l", SUFFIXED, suffixed)?,
            is_quiet: matches.get_flag("quiet"),
            first_seed: read(text("first_seed"), "--first_seed", "a number", |text| {
                text.parse().ok()
            })?
            .unwrap_or(0),
            timeout: Duration::from_secs(
                read(text("timeout"), "--timeout", "seconds, 1 or more", timeout)?.unwrap_or(60),
            ),
            params,
            input,
            long: long(matches)?,
        };
        Ok(Options { settings, test, explained })
    }
}

/// The one test and the parameters among the words, with those that options stand for.
fn words(
    matches: &ArgMatches,
    has_input: bool,
) -> Result<(&'static Test, Vec<(String, String)>), String> {
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
        Body::Job(job) => job.params,
        Body::Own(_) => &[],
    };
    for (option, name) in [("rscale_partsz", "partsize"), ("rsinit_part", "part")] {
        let parse = |text: &str| text.parse::<u64>().ok();
        let given = line::text(matches, option);
        if let Some(number) = read(given, &format!("--{option}"), "a whole number", parse)?
            && known.contains(&name)
        {
            params.push((name.to_owned(), number.to_string()));
        }
    }
    if let Some((name, _)) = params.iter().find(|(name, _)| !known.contains(&name.as_str())) {
        return Err(unknown("parameter", name, known));
    }
    let takes_file = known.contains(&"file");
    let has_file = params.iter().any(|(name, _)| name == "file");
    match (takes_file, has_file, has_input) {
        (true, false, false) => Err(format!("{name} needs -i FILE, lines of two words")),
        (true, true, true) => Err("-i FILE and file=FILE are the same: give one".to_owned()),
        (false, _, true) => Err(format!("-i goes with the test url, not {name}")),
        _ => Ok((test, params)),
    }
}

/// Whom to ask, and what of that has no meaning.
fn server(
    matches: &ArgMatches,
    test: &Test,
    children: u32,
) -> Result<(Server, Vec<String>), String> {
    let text = |name: &str| line::text(matches, name);
    let some_port = |text: &str| text.parse().ok().filter(|&port: &u16| port > 0);
    let host = text("server-ip").unwrap_or("127.0.0.1");
    let port = read(text("first-server-port"), "--fsp", "a port", some_port)?.unwrap_or(PORT);
    let local_port = read(text("first-local-port"), "--flp", "a port", some_port)?;
    let is_shared = matches.get_flag("share-server-port");
    let unix = host.starts_with("unix:");
    let in_brackets = match host {
        ip if !unix && ip.contains(':') => format!("[{ip}]"),
        host => host.to_owned(),
    };
    if matches.get_flag("udp") || test.is_by_datagrams {
        let fits = |first: u16, more: u32| u32::from(first) + more <= u32::from(u16::MAX);
        let more = if is_shared { 0 } else { children.min(PORTS) - 1 };
        return if unix {
            Err("datagrams (-u) need a host, not a unix socket".to_owned())
        } else if !fits(port, more) || !fits(local_port.unwrap_or(1), children - 1) {
            Err(format!("{children} children have ports above 65535"))
        } else {
            let host = in_brackets;
            Ok((Server::Datagrams { host, port, is_shared, local_port }, Vec::new()))
        };
    }
    let mut explained = Vec::new();
    if is_shared {
        explained.push("--ssp has no meaning without -u: TCP has one port".to_owned());
    }
    if local_port.is_some() {
        explained.push("--flp has no meaning without -u: the kernel chooses the ports".to_owned());
    }
    let endpoint = if unix { in_brackets } else { format!("{in_brackets}:{port}") };
    let endpoint = endpoint.parse().map_err(|error: keyrack_net::Error| error.to_string())?;
    Ok((Server::Stream(endpoint), explained))
}

fn long(matches: &ArgMatches) -> Result<Long, String> {
    let text = |name: &str| line::text(matches, name);
    let bytes = |text: &str| text.parse().ok().filter(|bytes| *bytes <= KEY_BYTES_MAX);
    let wanted = "bytes, up to 255";
    let key_bytes = read(text("keylen"), "--keylen", wanted, bytes)?.unwrap_or(32);
    let prefix_bytes = read(text("prefixLen"), "--prefixLen", wanted, bytes)?.unwrap_or(0);
    if prefix_bytes >= key_bytes {
        return Err(format!(
            "--prefixLen {prefix_bytes} leaves nothing of --keylen {key_bytes} to tell keys apart"
        ));
    }
    let letter = |text: &str| match text.as_bytes() {
        [letter] if letter.is_ascii_graphic() => Some(*letter),
        _ => None,
    };
    let first = read(text("minkeyletter"), "--minkeyletter", "one letter", letter)?;
    let last = read(text("maxkeyletter"), "--maxkeyletter", "one letter", letter)?;
    let letters = (first.unwrap_or(b'0'), last.unwrap_or(b'9'));
    if letters.0 > letters.1 {
        let (first, last) = (char::from(letters.0), char::from(letters.1));
        return Err(format!("--minkeyletter {first} is behind --maxkeyletter {last}"));
    }
    let keys = |text: &str| suffixed(text).filter(|keys| (1..=1 << 31).contains(keys));
    let percent = |text: &str| text.parse().ok().filter(|percent| *percent <= 100);
    Ok(Long {
        key_bytes,
        prefix_bytes,
        keys: read(text("nkeys"), "--nkeys", SUFFIXED, keys)?.unwrap_or(1_000_000),
        get_percent: read(text("getratio"), "--getratio", "a number from 0 to 100", percent)?
            .unwrap_or(50),
        letters,
    })
}

/// The help, with the tests that there are.
pub(super) fn help() -> String {
    let mut text = String::from(
        "Keyrack, called as mtclient: test a server that speaks Masstree's protocol\n\
         Usage: mtclient [-s SERVER] [-w WINDOW] [-jCHILDREN] [OPTIONS] [PARAM=VALUE...] [TEST]\n\n\
         Options:\n",
    );
    line::list(&mut text, OPTIONS);
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
        assert_eq!(
            (options.test.name, options.settings.window, options.settings.first_seed),
            ("rw1", 512, 0)
        );
        assert_eq!((options.settings.durations_s, options.settings.limit), ([10.0, 0.0], None));
        assert_eq!(endpoint(&options), "127.0.0.1:2117");
        let options = parse(
            "-s 10.0.0.1 --fsp 99 -j3 -w 64 -d 0.2 --d2=3 -l 1.5k -q --ssp --first_seed=31949 \
             sync_rw1",
        )
        .unwrap();
        assert_eq!((options.test.name, options.test.window), ("sync_rw1", Some(1)));
        assert_eq!(
            (options.settings.children, options.settings.window, options.settings.is_quiet),
            (3, 64, true)
        );
        assert_eq!(
            (options.settings.durations_s, options.settings.limit),
            ([1.0, 3.0], Some(1500))
        );
        assert_eq!(options.settings.first_seed, 31_949);
        assert_eq!(endpoint(&options), "10.0.0.1:99");
        let options = parse("-s ::1 --no-fork -n 1 uscale parts=2 --rscale_partsz 7").unwrap();
        assert_eq!((endpoint(&options), options.settings.children), ("[::1]:2117".to_owned(), 1));
        let params: Vec<String> =
            options.settings.params.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(params, ["parts=2", "partsize=7"]);
        let options = parse("ruscale_init --rsinit_part 3").unwrap();
        assert_eq!(options.settings.param("part"), Some("3"));
        assert_eq!(endpoint(&parse("-s unix:/run/m").unwrap()), "unix:/run/m");
    }

    fn endpoint(options: &Options) -> String {
        match &options.settings.server {
            Server::Stream(endpoint) => endpoint.to_string(),
            Server::Datagrams { host, port, .. } => format!("udp {host}:{port}"),
        }
    }

    #[test]
    fn datagrams_have_a_port_for_each_child() {
        let options = parse("-u -j3 --fsp 5 --flp 7").unwrap();
        let expected = Server::Datagrams {
            host: "127.0.0.1".to_owned(),
            port: 5,
            is_shared: false,
            local_port: Some(7),
        };
        assert_eq!((&options.settings.server, options.settings.window), (&expected, 64));
        assert!(options.explained.is_empty());
        let options = parse("-s ::1 udp1 --ssp -w 128").unwrap();
        assert_eq!((endpoint(&options).as_str(), options.settings.window), ("udp [::1]:2117", 128));
        assert_eq!(parse("--ssp --flp 5").unwrap().explained.len(), 2);
    }

    #[test]
    fn long_keys_and_files_are_described() {
        let options = parse(
            "long_go --keylen 100 --prefixLen=90 --nkeys 2k --getratio 0 --minkeyletter a \
             --maxkeyletter z",
        )
        .unwrap();
        let expected = Long {
            key_bytes: 100,
            prefix_bytes: 90,
            keys: 2000,
            get_percent: 0,
            letters: (b'a', b'z'),
        };
        assert_eq!(options.settings.long, expected);
        assert_eq!(parse("-i f url").unwrap().settings.input, Some(PathBuf::from("f")));
        assert_eq!(parse("url file=f").unwrap().settings.input, Some(PathBuf::from("f")));
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
            ("-u -s unix:/x", "datagrams (-u) need a host"),
            ("-u -j 100 --fsp 65500", "ports above 65535"),
            ("-u -j 10 --flp 65530", "ports above 65535"),
            ("url", "url needs -i FILE"),
            ("-i f rw1", "-i goes with the test url, not rw1"),
            ("-i f url file=f", "give one"),
            ("--keylen 0 long_go", "leaves nothing of --keylen 0"),
            ("--keylen 300 long_go", "--keylen expects bytes, up to 255, not '300'"),
            ("--keylen 8 --prefixLen 8 long_go", "--prefixLen 8 leaves nothing"),
            ("--nkeys 0 long_go", "--nkeys expects"),
            ("--getratio 101 long_go", "--getratio expects"),
            ("--minkeyletter ab long_go", "--minkeyletter expects one letter, not 'ab'"),
            ("--minkeyletter z --maxkeyletter a long_go", "--minkeyletter z is behind"),
            ("--rsinit_part x ruscale_init", "--rsinit_part expects a whole number"),
        ] {
            match parse(line) {
                Err(Exit::Usage(error)) => assert!(error.contains(why), "{line}: {error}"),
                other => panic!("{line} was taken: {other:?}"),
            }
        }
    }
}

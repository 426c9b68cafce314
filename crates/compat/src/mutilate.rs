//! `mutilate` 0.1: its options are ours under the same names, with its table. What differs on
//! purpose is in docs/load.md: rates are kept whatever the server does, latencies count from when a
//! request was due, and what did not work is said and is exit status 1 or 2.

use crate::{LoadStyle, Program};
use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command};
use keyrack_loadgen::output::Columns;

const MUTILATE: LoadStyle = LoadStyle { program: "mutilate", columns: Columns::Readme };

/// The long options of the original. What abbreviates one of them still does, whatever ours are.
const ORIGINAL: [&str; 50] = [
    "help",
    "version",
    "verbose",
    "quiet",
    "server",
    "unix_socket",
    "binary",
    "redis",
    "getset",
    "getsetorset",
    "successful",
    "prefix",
    "delete90",
    "assoc",
    "qps",
    "time",
    "read_file",
    "twitter_trace",
    "keysize",
    "valuesize",
    "records",
    "misswindow",
    "queries",
    "update",
    "username",
    "password",
    "threads",
    "affinity",
    "connections",
    "depth",
    "roundrobin",
    "iadist",
    "skip",
    "moderate",
    "noload",
    "loadonly",
    "blocking",
    "no_nodelay",
    "warmup",
    "wait",
    "save",
    "search",
    "scan",
    "agentmode",
    "agent",
    "agent_port",
    "lambda_mul",
    "measure_connections",
    "measure_qps",
    "measure_depth",
];

/// A word of the command line with its option in full, where it abbreviates one of the original.
fn in_full(word: &str) -> String {
    let Some(text) = word.strip_prefix("--") else { return word.to_owned() };
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (text, None),
    };
    let is_exact = ORIGINAL.contains(&name);
    let mut found = ORIGINAL.iter().filter(|option| option.starts_with(name));
    match (found.next(), found.next()) {
        (Some(option), None) if !name.is_empty() && !is_exact => match value {
            Some(value) => format!("--{option}={value}"),
            None => format!("--{option}"),
        },
        _ => word.to_owned(),
    }
}

/// `mutilate -s server[:port] [options]`.
pub(super) fn main(argv: &[String], program: &dyn Program) -> u8 {
    let argv: Vec<String> = argv.iter().map(|word| in_full(word)).collect();
    let command = || {
        program
            .load_command(Command::new("mutilate"))
            .about("\"High-performance\" memcached benchmarking tool")
            .version("0.1")
            .disable_version_flag(true)
            .arg(
                Arg::new("version")
                    .long("version")
                    .action(ArgAction::Version)
                    .help("Print version"),
            )
            .infer_long_args(true)
    };
    match command().try_get_matches_from(argv) {
        Ok(matches) => program.load(&matches, &MUTILATE),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                keyrack_console::print(&error.render().to_string())
            }
            _ => {
                keyrack_console::refuse(
                    "mutilate",
                    &keyrack_console::usage_line(&error, &command()),
                );
                keyrack_console::COULD_NOT
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abbreviations_are_those_of_the_original() {
        for (word, expected) in [
            ("--ti", "--time"),
            ("--rec=5", "--records=5"),
            ("--getset", "--getset"),
            ("--agent", "--agent"),
            ("--agentm", "--agentmode"),
            ("--t", "--t"),
            ("--tier", "--tier"),
            ("--reconnect", "--reconnect"),
            ("-t", "-t"),
            ("--", "--"),
            ("host", "host"),
        ] {
            assert_eq!(in_full(word), expected);
        }
        let names: std::collections::BTreeSet<&str> = ORIGINAL.into_iter().collect();
        assert_eq!(names.len(), ORIGINAL.len());
    }
}

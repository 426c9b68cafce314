//! The flags of `keyrack bench`, made from the harness's table of settings.

use clap::{Arg, ArgAction, ArgMatches, Command};
use keyrack_harness::{Form, KEYS};

/// Flags that are not settings: they choose what to do.
const MODES: &[(&str, &str)] = &[
    ("overhead", "Print what the harness itself costs on each workload, in nanoseconds a unit"),
    ("selftest", "Check the engines against the contract instead of measuring them"),
    ("list", "List engines with their options, workloads, bundled scripts, sinks and probes"),
];

/// Libraries that engines are loaded from: the flag, the engine whose option `lib` it is.
const LIBRARIES: &[(&str, &str)] = &[("rocksdb-lib", "rocksdb"), ("leveldb-lib", "leveldb")];

/// The `bench` subcommand.
pub(crate) fn bench_command() -> Command {
    with_settings(Command::new("bench").about("Measure stores on workloads").long_about(
        "Measure stores on workloads. A workload is a Lua file or a native name such as \
                 ycsb/a. Without one, workloads/mixed.lua runs for 5 seconds on each engine that \
                 stores in memory.",
    ))
}

/// Adds every setting, mode and the workloads to `command`.
pub(crate) fn with_settings(command: Command) -> Command {
    let mut command = command.args_override_self(true);
    for key in KEYS.iter().filter(|key| key.name != "workload") {
        let arg = Arg::new(key.name).long(key.name).help(key.help).help_heading(key.group);
        let arg = match key.form {
            Form::Flag => arg.action(ArgAction::SetTrue),
            Form::Value(name) => arg.value_name(name).allow_hyphen_values(true),
            Form::Repeated(name) => arg.value_name(name).action(ArgAction::Append),
        };
        // `--no-pin` and `--pin` take each other back: the later one counts.
        let arg = match key.name.strip_prefix("no-") {
            Some(other) => arg.overrides_with(other),
            None => arg,
        };
        command = command.arg(match key.short {
            Some(short) => arg.short(short),
            None => arg,
        });
    }
    for (name, engine) in LIBRARIES {
        let help = format!(
            "Shared library of the engine {engine} [default: the system's, highest version]"
        );
        let arg = Arg::new(*name).long(*name).help(help).help_heading("Stores");
        command = command.arg(arg.value_name("PATH").allow_hyphen_values(true));
    }
    command = command.arg(
        Arg::new("tui")
            .long("tui")
            .action(ArgAction::SetTrue)
            .conflicts_with("progress")
            .help_heading("Output")
            .help(
                "Draw the run over the whole terminal while it goes on; q ends it and prints the \
                 results",
            ),
    );
    command =
        command.arg(
            Arg::new("watch").long("watch").value_name("[HOST:]PORT").help_heading("Output").help(
                "Show the figures here to Prometheus while it goes on [default host: 127.0.0.1]",
            ),
        );
    for (name, help) in MODES {
        let arg = Arg::new(*name).long(*name).help(*help).help_heading("Instead of measuring");
        command = command.arg(arg.action(ArgAction::SetTrue));
    }
    command.arg(
        Arg::new("workload")
            .value_name("WORKLOAD")
            .help("Workload files, or native names")
            .num_args(0..),
    )
}

/// The settings that were given as flags, in the order of the table.
pub(crate) fn pairs(matches: &ArgMatches) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    for key in KEYS.iter().filter(|key| !["config", "save-config"].contains(&key.name)) {
        let mut push = |value: &str| pairs.push((key.name.to_owned(), value.to_owned()));
        match key.form {
            Form::Flag if matches.get_flag(key.name) => push("yes"),
            Form::Flag => {}
            Form::Value(_) | Form::Repeated(_) => {
                let values = matches.get_many::<String>(key.name);
                values.into_iter().flatten().for_each(|value| push(value));
            }
        }
    }
    pairs
}

/// The libraries that were given as flags: engine and path.
pub(crate) fn libraries(matches: &ArgMatches) -> Vec<(&'static str, String)> {
    let given = |(name, engine): &(&'static str, &'static str)| {
        matches.get_one::<String>(name).map(|path| (*engine, path.clone()))
    };
    LIBRARIES.iter().filter_map(given).collect()
}

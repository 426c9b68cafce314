//! `keyrack`: one command for ordered key-value stores.
//!
//! | call | does |
//! |---|---|
//! | `keyrack bench [WORKLOAD...]` | measures stores on workloads |
//! | `keyrack compare BASE NEW` | sets two recorded runs against each other |
//! | `keyrack report` | draws recorded runs: pictures, a page, comparisons |
//! | `keyrack doctor` | says whether this machine is fit to measure on |
//! | `keyrack serve` | serves a store to clients of memcached, Redis and Masstree |
//! | `keyrack load` | puts load on servers of memcached and Redis, and measures it |
//! | `keyrack db` | looks into a store of the engine `flodb`, mends it, moves it, tortures it |
//! | `keyrack backup` | makes, lists, checks and deletes backups of stores |
//! | `keyrack restore` | makes a store of a backup |
//! | `keyrack import` | takes strings and hashes from other servers and files |
//! | `keyrack export` | writes them as commands or JSON lines |
//! | `keyrack fs` | name spaces of files: changes them, looks at them, publishes and measures them |
//!
//! Called by the name `keybench`, `plot.py`, `mttest`, `mtd`, `mtclient`, `mutilate`, `db_test`,
//! `db_bench`, `deltafs_bm_svr`, `deltafs_bm_cli` or `parallel_compactor`, the binary takes that
//! tool's command line and prints its shapes.
//!
//! Results go to standard output, talk to standard error. Exit status: 0 done, 1 the answer is no
//! (a cell failed, a regression, a key that is not there), 2 could not run (usage, set-up), 3 a
//! store is damaged (of `load --strict`: figures are not to be trusted), 130 interrupted.
#![forbid(unsafe_code)]

mod allocator;
mod backup;
mod bench;
mod bundled;
mod compare;
mod db;
mod doctor;
mod engines;
mod flags;
mod fs;
mod load;
mod migrate;
mod modes;
mod progress;
mod report;
mod serve;
#[cfg(feature = "tui")]
mod tui;
#[cfg(not(feature = "tui"))]
#[path = "tui_absent.rs"]
mod tui;
mod watch;

use clap::{ArgMatches, Args, Command};
use keyrack_compat::{BenchStyle, LoadStyle, Program};
use keyrack_harness::Surroundings;
use keyrack_vfs::Fs;
use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    let argv: Vec<String> =
        std::env::args_os().map(|argument| argument.to_string_lossy().into_owned()).collect();
    tui::install();
    let status = keyrack_compat::main(&argv, &OldNames);
    ExitCode::from(status.unwrap_or_else(|| keyrack(&argv)))
}

struct OldNames;

impl Program for OldNames {
    fn bench_command(&self, command: Command) -> Command {
        flags::with_settings(command)
    }

    fn bench(
        &self,
        matches: &ArgMatches,
        argv: &[String],
        style: &BenchStyle,
    ) -> Result<u8, String> {
        bench::run(matches, argv, style)
    }

    fn load_command(&self, command: Command) -> Command {
        load::Options::augment_args(command)
    }

    fn load(&self, matches: &ArgMatches, style: &LoadStyle) -> u8 {
        load::run_as(matches, style)
    }

    fn plot_command(&self, command: Command) -> Command {
        report::with_plot(command)
    }

    fn plot(&self, matches: &ArgMatches) -> Result<u8, String> {
        report::plot(matches)
    }

    fn surroundings(&self, fs: &Arc<dyn Fs>, argv: &[String], name: &str) -> Surroundings {
        bench::surroundings(fs, argv, name)
    }
}

fn keyrack(argv: &[String]) -> u8 {
    // Paths of name spaces are bytes; elsewhere what is no text is shown as well as can be.
    let parsed = match argv.get(1).map(String::as_str) {
        Some("fs") => command().try_get_matches_from(std::env::args_os()),
        _ => command().try_get_matches_from(argv),
    };
    match parsed {
        Ok(matches) => dispatch(&matches, argv),
        Err(error) => keyrack_console::explain(&error, &command(), argv),
    }
}

fn command() -> Command {
    Command::new("keyrack")
        .about("Ordered key-value stores: embed, serve, measure")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .subcommand(flags::bench_command())
        .subcommand(compare::command())
        .subcommand(doctor::command())
        .subcommand(report::command())
        .subcommand(db::command())
        .subcommand(backup::command())
        .subcommand(backup::restore_command())
        .subcommand(serve::command())
        .subcommand(load::command())
        .subcommand(migrate::import_command())
        .subcommand(migrate::export_command())
        .subcommand(fs::command())
}

fn dispatch(matches: &ArgMatches, argv: &[String]) -> u8 {
    let result = match matches.subcommand() {
        Some(("bench", matches)) => bench::run(matches, argv, &bench::KEYRACK),
        Some(("compare", matches)) => compare::run(matches),
        Some(("report", matches)) => report::run(matches),
        Some(("doctor", matches)) => doctor::run(matches),
        Some(("db", matches)) => Ok(db::run(matches)),
        Some(("backup", matches)) => Ok(backup::run(matches)),
        Some(("restore", matches)) => Ok(backup::run_restore(matches)),
        Some(("serve", matches)) => Ok(serve::run(matches)),
        Some(("load", matches)) => Ok(load::run(matches)),
        Some(("import", matches)) => Ok(migrate::run_import(matches)),
        Some(("export", matches)) => Ok(migrate::run_export(matches)),
        Some(("fs", matches)) => Ok(fs::run(matches)),
        _ => Err("no such command; see keyrack --help".to_owned()),
    };
    result.unwrap_or_else(|message| {
        keyrack_console::refuse("keyrack", &message);
        keyrack_console::COULD_NOT
    })
}

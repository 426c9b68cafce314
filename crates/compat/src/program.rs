//! What the program brings that its old names use: `keyrack bench`, `keyrack load`, its engines.

use clap::{ArgMatches, Command};
use keyrack_harness::sink::Dialect;
use keyrack_harness::{Pin, Surroundings};
use keyrack_loadgen::output::Columns;
use keyrack_vfs::Fs;
use std::sync::Arc;

/// The commands of the program that an old name runs in its own style.
pub trait Program {
    /// Adds the settings of `keyrack bench` to a command.
    fn bench_command(&self, command: Command) -> Command;

    /// Runs a benchmark with parsed settings and returns the exit status.
    ///
    /// # Errors
    /// One line if the settings are refused; nothing was measured then.
    fn bench(
        &self,
        matches: &ArgMatches,
        argv: &[String],
        style: &BenchStyle,
    ) -> Result<u8, String>;

    /// Adds the options of `keyrack load` to a command.
    fn load_command(&self, command: Command) -> Command;

    /// Puts load on a server with parsed options and returns the exit status.
    fn load(&self, matches: &ArgMatches, style: &LoadStyle) -> u8;

    /// Adds the options of `keyrack report plot` to a command.
    fn plot_command(&self, command: Command) -> Command;

    /// Draws the figures of recorded runs and returns the exit status.
    ///
    /// # Errors
    /// One line if the options are refused, a run cannot be read, or a figure cannot be written.
    fn plot(&self, matches: &ArgMatches) -> Result<u8, String>;

    /// The engines, the clock and the facts of a benchmark that `name` starts.
    fn surroundings(&self, fs: &Arc<dyn Fs>, argv: &[String], name: &str) -> Surroundings;
}

/// How a name presents a benchmark.
#[derive(Clone, Copy, Debug)]
pub struct BenchStyle {
    /// The name in messages.
    pub program: &'static str,
    /// The shapes of reports and of the plain progress lines.
    pub dialect: Dialect,
    /// The engine of a run that names none; `None` is every engine that needs no data directory.
    pub default_backend: Option<&'static str>,
    /// Whether a run without a workload runs the bundled one.
    pub default_workload: bool,
    /// Whether workers are pinned if no option says so.
    pub default_pin: Pin,
}

/// How a name presents load on a server.
#[derive(Clone, Copy, Debug)]
pub struct LoadStyle {
    /// The name in messages.
    pub program: &'static str,
    /// The table if `--table` names none.
    pub columns: Columns,
}

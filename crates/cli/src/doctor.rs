//! `keyrack doctor`: is this machine fit to measure on, and what to do where it is not?

use clap::{Arg, ArgAction, ArgMatches, Command};
use keyrack_harness::probe::{Checkup, Finding, Host, LinuxHost, Status, doctor};
use keyrack_measure::Clock;
use std::path::PathBuf;

/// The subcommand.
pub(crate) fn command() -> Command {
    Command::new("doctor")
        .about("Check whether this machine is fit to measure on")
        .arg(
            Arg::new("data-dir")
                .long("data-dir")
                .value_name("DIR")
                .help("Check the disk under DIR too"),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .help("Print the findings as JSON"),
        )
}

/// How long the neighbours are listened to.
const WINDOW_NS: u64 = 500_000_000;

/// Runs the command: status 1 when something makes measurements meaningless.
pub(crate) fn run(matches: &ArgMatches) -> Result<u8, String> {
    let data_dir = matches.get_one::<String>("data-dir").map(PathBuf::from);
    if let Some(dir) = &data_dir
        && !dir.is_dir()
    {
        return Err(format!("--data-dir {}: not a directory", dir.display()));
    }
    let read = || LinuxHost.read("/proc/stat").unwrap_or_default();
    let before = read();
    let clock = Clock::calibrated();
    clock.wait_until(clock.ticks() + clock.ticks_of_ns(WINDOW_NS));
    let after = read();
    let checkup = Checkup {
        data_dir: data_dir.as_deref(),
        stats: Some((&before, &after)),
        // Where there are as many CPUs as workers, as is the default of a run.
        pinned: true,
        optimized: !cfg!(debug_assertions),
    };
    let findings = doctor(&LinuxHost, &checkup);
    let text = if matches.get_flag("json") {
        serde_json::to_string_pretty(&findings).map_err(|error| error.to_string())? + "\n"
    } else {
        let count = |status| findings.iter().filter(|finding| finding.status == status).count();
        let lines: String = findings.iter().map(render).collect();
        format!(
            "{lines}{} checks: {} ok, {} to look at, {} to mend, {} unknown\n",
            findings.len(),
            count(Status::Ok),
            count(Status::Warn),
            count(Status::Fail),
            count(Status::Unknown)
        )
    };
    let broken = findings.iter().any(|finding| finding.status == Status::Fail);
    let printed = keyrack_console::print(&text);
    Ok(if broken { keyrack_console::NO } else { printed })
}

fn render(finding: &Finding) -> String {
    let mark = match finding.status {
        Status::Ok => "ok  ",
        Status::Unknown => "?   ",
        Status::Warn => "warn",
        Status::Fail => "FAIL",
    };
    let mut text = format!("{mark}  {:<14} {}\n", finding.name, finding.fact);
    if !finding.remedy.is_empty() {
        text.push_str(&format!("{:>20} -> {}\n", "", finding.remedy));
    }
    text
}

//! `keyrack db repair`: restores what can be restored of a damaged store.

use super::store::{file_options, has_spaces};
use super::verify::{check_dir, findings_json, findings_text};
use crate::db::args::{explain, flag, on_store, path};
use clap::{ArgMatches, Command};
use keyrack_console::{Failure, Outcome};
use keyrack_flodb::RepairReport;
use keyrack_vfs::RealFs;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) fn command() -> Command {
    on_store("repair", "Restore what can be restored of a damaged store, and say what is lost")
        .long_about(
            "Restore what can be restored of a damaged store, and say what is lost. Nothing is \
             removed: files that are damaged or of no use go to the directory lost in it. A sound \
             store stays as it is. The exit status is 0 when the store can be used again, whatever \
             was lost: that is on standard output.",
        )
        .arg(flag("json", "Print the report as JSON"))
        .arg(flag(
            "spaces",
            "The store has key spaces; to be said where no manifest and no table can say it",
        ))
}

pub(super) fn run(matches: &ArgMatches) -> Outcome {
    let dir = path(matches, "dir");
    check_dir(&dir)?;
    let says = has_spaces(&dir)?;
    if says == Some(false) && matches.get_flag("spaces") {
        let dir = dir.display();
        return Err(Failure::Usage(format!("{dir}: it has no key spaces; leave out --spaces")));
    }
    let with = file_options(says.unwrap_or(matches.get_flag("spaces")))?;
    let report = keyrack_flodb::repair(Arc::new(RealFs), &dir, &with)
        .map_err(|error| explain(&dir, error))?;
    let is_json = matches.get_flag("json");
    Ok(keyrack_console::print(&if is_json { as_json(&report) } else { as_text(&report) }))
}

fn as_text(report: &RepairReport) -> String {
    let mut text = findings_text(&report.losses);
    for path in &report.moved {
        text.push_str(&format!("moved: {}\n", path.display()));
    }
    let verdict = match (report.changed, report.losses.is_empty()) {
        (false, _) => "nothing to repair",
        (true, true) => "repaired, nothing lost",
        (true, false) => "repaired, see above for what is lost",
    };
    text + &format!(
        "{} tables with {} entries, {} records of the log: {verdict}\n",
        report.tables, report.entries, report.log_records
    )
}

fn as_json(report: &RepairReport) -> String {
    let moved: Value = report.moved.iter().map(|path| path.display().to_string()).collect();
    let value = json!({
        "changed": report.changed,
        "tables": report.tables,
        "entries": report.entries,
        "log_records": report.log_records,
        "moved": moved,
        "losses": findings_json(&report.losses),
    });
    format!("{value:#}\n")
}

//! `keyrack db verify`: reads every file of a store, and says what is wrong.

use super::store::{file_options, has_spaces};
use crate::db::args::{check_store, explain, flag, on_store, path};
use clap::{ArgMatches, Command};
use keyrack_console::{Failure, Outcome};
use keyrack_flodb::{Finding, FindingKind, Report};
use keyrack_vfs::{Fs, RealFs};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

pub(super) fn command() -> Command {
    on_store("verify", "Read every file of the store, and say what is wrong; change nothing")
        .long_about(
            "Read every file of the store, and say what is wrong. Nothing is changed; the store \
             may not be in use. What a crash has left, the torn end of a log and files that are in \
             no use, is told and is no damage.",
        )
        .arg(flag("json", "Print the report as JSON"))
}

pub(super) fn run(matches: &ArgMatches) -> Outcome {
    let dir = path(matches, "dir");
    // A store without its file CURRENT is one to be checked, so a directory is enough.
    check_dir(&dir)?;
    let with = file_options(has_spaces(&dir)?.unwrap_or(false))?;
    let report = keyrack_flodb::verify(Arc::new(RealFs), &dir, &with)
        .map_err(|error| explain(&dir, error))?;
    let text = if matches.get_flag("json") { as_json(&report) } else { as_text(&report) };
    let printed = keyrack_console::print(&text);
    Ok(if report.is_sound() { printed } else { keyrack_console::DAMAGED })
}

/// Refuses a directory in which nothing has the look of a store.
pub(super) fn check_dir(dir: &Path) -> Result<(), Failure> {
    // What cannot be listed has no look at all: the refusal before stands.
    let has_ours = || {
        let names = RealFs.list(dir).unwrap_or_default();
        names.iter().any(|entry| {
            let name = entry.name.to_string_lossy();
            name.ends_with(".table") || name.ends_with(".blob") || name.starts_with("MANIFEST-")
        }) || RealFs.list(&dir.join("log")).is_ok_and(|log| !log.is_empty())
    };
    match check_store(&RealFs, dir) {
        Err(Failure::Usage(_)) if has_ours() => Ok(()),
        other => other,
    }
}

/// What a finding counts as, in one word.
pub(super) fn word(kind: FindingKind) -> &'static str {
    match kind {
        FindingKind::Damage => "damage",
        FindingKind::Tail => "torn end",
        FindingKind::Extra => "extra",
        _ => "other",
    }
}

pub(super) fn findings_text(findings: &[Finding]) -> String {
    findings.iter().map(|finding| format!("{}: {finding}\n", word(finding.kind))).collect()
}

pub(super) fn findings_json(findings: &[Finding]) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "kind": word(finding.kind),
            "path": finding.path.display().to_string(),
            "offset": finding.offset,
            "what": finding.what,
        })
    };
    findings.iter().map(finding).collect()
}

fn as_text(report: &Report) -> String {
    let findings = findings_text(&report.findings);
    let blobs = match report.blobs {
        0 => String::new(),
        files => format!(" and {files} blob files"),
    };
    let verdict = if report.is_sound() { "sound" } else { "DAMAGED" };
    format!(
        "{findings}{} tables{} with {} entries in {} bytes, {} records of the log: {verdict}\n",
        report.tables, blobs, report.entries, report.bytes, report.log_records
    )
}

fn as_json(report: &Report) -> String {
    let value = json!({
        "sound": report.is_sound(),
        "tables": report.tables,
        "blob_files": report.blobs,
        "entries": report.entries,
        "bytes": report.bytes,
        "log_records": report.log_records,
        "findings": findings_json(&report.findings),
    });
    format!("{value:#}\n")
}

//! `keyrack compare BASE NEW`: two recorded runs, cell by cell; the gate of a change. With
//! `--engines` one run, its engines set against each other.

use clap::{Arg, ArgAction, ArgMatches, Command};
use keyrack_console::say;
use keyrack_record::Run;
use keyrack_report::Comparison;
use keyrack_vfs::{FileKind, Fs, RealFs};
use keyrack_workload::Rng;
use std::path::{Path, PathBuf};

/// The subcommand.
pub(crate) fn command() -> Command {
    Command::new("compare")
        .about("Compare two recorded runs, cell by cell")
        .long_about(
            "Compare two recorded runs, cell by cell. BASE and NEW are what --report-dir was given \
             (its newest report counts), one report in it, or JSON files (of --report json:FILE). \
             With --fail-on, the exit status is 1 when a cell has become worse by more than that \
             and the difference is significant. With --engines there is one run, and its engines \
             are compared: rates, CPU time, bytes.",
        )
        .arg(Arg::new("base").value_name("BASE").required(true).help("The run to compare with"))
        .arg(
            Arg::new("new")
                .value_name("NEW")
                .required_unless_present("engines")
                .help("The run that is judged"),
        )
        .arg(
            Arg::new("engines")
                .long("engines")
                .action(ArgAction::SetTrue)
                .conflicts_with_all(["new", "fail-on"])
                .help("Compare the engines of one run with each other"),
        )
        .arg(
            Arg::new("to")
                .long("to")
                .value_name("ENGINE")
                .help("The engine that ratios are to [default: the first]"),
        )
        .arg(
            Arg::new("fail-on")
                .long("fail-on")
                .value_name("PERCENT")
                .help("Exit with 1 on a significant regression of more than PERCENT, such as 5%"),
        )
        .arg(
            Arg::new("markdown")
                .long("markdown")
                .action(ArgAction::SetTrue)
                .help("Print a Markdown table"),
        )
}

pub(crate) fn run(matches: &ArgMatches) -> Result<u8, String> {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let fail_on = text("fail-on").map(percent).transpose()?;
    let base = load(text("base").unwrap_or_default())?;
    if matches.get_flag("engines") {
        return engines(&base, text("to"), matches.get_flag("markdown"));
    }
    if text("to").is_some() {
        return Err("--to: goes with --engines; two runs are compared engine by engine".to_owned());
    }
    let new = load(text("new").unwrap_or_default())?;
    let mut rng = Rng::from_seed(base.header.seed);
    let comparison = keyrack_report::compare(&base, &new, &mut || rng.next_u64());
    let printed = keyrack_console::print(&if matches.get_flag("markdown") {
        keyrack_report::render_markdown(&comparison)
    } else {
        keyrack_report::render_text(&comparison)
    });
    if comparison.rows.is_empty() {
        return Err("the two runs have no cell in common: nothing was compared".to_owned());
    }
    let Some(fail_on) = fail_on else { return Ok(printed) };
    // What NEW could not measure has not become better.
    let unmeasured = unmeasured(&comparison, &new);
    for line in &unmeasured {
        say!("not measured in NEW: {line}");
    }
    let regressions = comparison.regressions(fail_on);
    for row in &regressions {
        say!(
            "regression: {} {}: {:.3}x, more than {:.1}% worse",
            row.cell,
            row.metric,
            row.ratio,
            fail_on * 100.0
        );
    }
    Ok(if regressions.is_empty() && unmeasured.is_empty() { printed } else { keyrack_console::NO })
}

fn engines(run: &Run, to: Option<&str>, markdown: bool) -> Result<u8, String> {
    let Some(engines) = keyrack_report::compare_engines(run, to) else {
        let names = run.header.backends.join(", ");
        return Err(format!(
            "--to: '{}' is no engine of the run ({names})",
            to.unwrap_or_default()
        ));
    };
    Ok(keyrack_console::print(&if markdown {
        keyrack_report::render_engines_markdown(&engines)
    } else {
        keyrack_report::render_engines_text(&engines)
    }))
}

/// Cells of BASE that NEW lacks, and why where it says so.
fn unmeasured(comparison: &Comparison, new: &Run) -> Vec<String> {
    let missing = comparison.missing.iter().map(|cell| {
        let failure = new.failures.iter().find(|failure| failure.cell == *cell);
        match failure {
            Some(failure) => format!("{cell}: {}", failure.reason),
            None => cell.to_string(),
        }
    });
    let nothing = comparison.refused.iter().filter(|refusal| refusal.reason.contains("of new"));
    missing.chain(nothing.map(|refusal| format!("{}: {}", refusal.cell, refusal.reason))).collect()
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim();
    match number.strip_suffix('%').unwrap_or(number).parse::<f64>() {
        Ok(percent) if (0.0..100.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err(format!("--fail-on: '{text}' is not a percentage below 100, such as 5%")),
    }
}

/// Reads the run that a person means by `given`.
pub(crate) fn load(given: &str) -> Result<Run, String> {
    let path = run_file(Path::new(given))?;
    let text = RealFs.read_to_string(&path).map_err(|error| error.to_string())?;
    keyrack_report::load(&path.display().to_string(), &text).map_err(|error| error.to_string())
}

/// The JSON file of a run: the path itself, `run.json` in it, or that of the newest report in it.
pub(crate) fn run_file(path: &Path) -> Result<PathBuf, String> {
    let found = RealFs.metadata(path).map_err(|error| error.to_string())?;
    if found.kind != FileKind::Dir {
        return Ok(path.to_owned());
    }
    let direct = path.join("run.json");
    if RealFs.exists(&direct).map_err(|error| error.to_string())? {
        return Ok(direct);
    }
    let entries = RealFs.list(path).map_err(|error| error.to_string())?;
    let reports = entries.into_iter().filter(|entry| entry.kind == FileKind::Dir);
    let mut files: Vec<PathBuf> =
        reports.map(|entry| path.join(entry.name).join("run.json")).collect();
    // An empty file is that of a run that is going on, or was killed.
    files.retain(|file| RealFs.metadata(file).is_ok_and(|found| found.len > 0));
    // Directory names are times, so the last in order is the newest.
    files.sort();
    match files.pop() {
        Some(newest) => {
            say!("keyrack: {} is the newest report of {}", newest.display(), path.display());
            Ok(newest)
        }
        None => Err(format!(
            "{}: no run.json here or one level below; give a directory that --report-dir made",
            path.display()
        )),
    }
}

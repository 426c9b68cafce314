//! `keyrack fs log`, `views`, `publish`, `diff`, `gc`, `fsck`: logs, and what is made of them.

use super::{
    flag, list, log_dir, on_log, open_references, open_to_read, open_view, option, os, reading,
    registry, shown, text, words,
};
use clap::{Arg, ArgAction, ArgMatches, Command};
use keyrack_console::{Failure, Outcome, Output, say};
use keyrack_deltafs::{Difference, GcOptions, LogHead, Namespace, Reference, Registry, Said};
use keyrack_flodb::Options;
use keyrack_measure::wall;
use keyrack_vfs::{Fs, RealFs};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

pub(super) fn commands() -> Vec<Command> {
    let given =
        |help| Arg::new("word").value_name("NAME[@VERSION]").action(ArgAction::Append).help(help);
    let saved = Arg::new("view").value_name("VIEW").required(true).help("The name of the list");
    let views = on_log("views", "List publications and views, and make views")
        .subcommand_negates_reqs(true)
        .arg(flag("json", "An object a line"))
        .subcommand(
            on_log("save", "Give a list of publications a name")
                .arg(saved)
                .arg(given("Publications, the highest first").required(true)),
        )
        .subcommand(
            on_log("conflicts", "Say where publications hide something of one another")
                .arg(given("Publications, the highest first").required(true)),
        );
    vec![
        reading("log", "Print what the log says, a path a line")
            .arg(flag("head", "Print only what it is and what it was begun on")),
        views,
        on_log("publish", "Publish the log under a name")
            .arg(Arg::new("name").value_name("NAME").required(true).help("The name"))
            .arg(option("version", "N", "Only as this version [default: the next]")),
        on_log("diff", "Print what differs between two views; . is the log")
            .arg(Arg::new("old").value_name("OLD").required(true).help("NAME[@VERSION],.. or ."))
            .arg(Arg::new("new").value_name("NEW").required(true).help("NAME[@VERSION],.. or .")),
        on_log("gc", "Remove publications and copies that nobody needs")
            .arg(option("keep", "N", "Versions of each name that stay [default: all]"))
            .arg(
                option("older-than", "HOURS", "How old a copy must be that no publication names")
                    .default_value("24"),
            )
            .arg(flag("dry-run", "Only say what would go")),
        reading("fsck", "Check a log or a view, and with --deep every file")
            .arg(flag("deep", "Read every block and large file, and hold publications to digests")),
    ]
}

pub(super) fn run(name: &str, matches: &ArgMatches) -> Option<Outcome> {
    let run: fn(&ArgMatches) -> Outcome = match name {
        "log" => log,
        "views" => views,
        "publish" => publish,
        "diff" => diff,
        "gc" => gc,
        "fsck" => fsck,
        _ => return None,
    };
    Some(run(matches))
}

fn log(matches: &ArgMatches) -> Outcome {
    let space = open_to_read(matches)?;
    let mut out = Output::new();
    if matches.get_flag("head") {
        let head = LogHead::of(&space.stores()[0])?.expect("a log that was opened has a head");
        let base = head.base;
        let base: Vec<String> = base.iter().map(ToString::to_string).collect();
        let base = if base.is_empty() { "-".to_owned() } else { base.join(",") };
        let line = format!("log    {}\nepoch  {}\nbase   {base}\n", space.log(), space.epoch());
        out.write(line.as_bytes())?;
        return out.finish();
    }
    let mut failed = None;
    space.changes(|path, said, _| {
        let line = match said {
            Said::Is(kind) => format!("+{} {}\n", kind.letter(), shown(path)),
            Said::IsNot => format!("-  {}\n", shown(path)),
            Said::Changed => format!("~d {}\n", shown(path)),
        };
        out.write(line.as_bytes()).unwrap_or_else(|failure| {
            failed = Some(failure);
            false
        })
    })?;
    failed.map_or_else(|| out.finish(), Err)
}

fn views(matches: &ArgMatches) -> Outcome {
    match matches.subcommand() {
        Some(("save", inner)) => {
            let registry = registry_of(matches, inner)?;
            let references = registry.resolve(&words(inner, "word"))?;
            registry.save_view(text(inner, "view").unwrap_or_default(), &references)?;
            Ok(keyrack_console::DONE)
        }
        Some(("conflicts", inner)) => conflicts(&registry_of(matches, inner)?, inner),
        _ => list_views(matches),
    }
}

/// The registry of a command of a command: the options may stand in either place.
fn registry_of(outer: &ArgMatches, inner: &ArgMatches) -> Result<Registry, Failure> {
    let is_given = |name: &&str| inner.value_source(name).is_some();
    registry(if ["store", "registry", "db"].iter().any(is_given) { inner } else { outer })
}

fn list_views(matches: &ArgMatches) -> Outcome {
    let registry = registry(matches)?;
    let as_json = matches.get_flag("json");
    let mut out = Output::new();
    let joined = |references: &[Reference]| {
        let names: Vec<String> = references.iter().map(ToString::to_string).collect();
        names.join(",")
    };
    for name in registry.names()? {
        for version in registry.versions(&name)? {
            let reference = Reference { name: name.clone(), version };
            let found = registry.publication(&reference)?;
            let bytes: u64 = found.files.iter().map(|file| file.bytes).sum();
            let line = if as_json {
                json!({
                    "publication": name, "version": version, "log": found.log,
                    "epoch": found.epoch, "records": found.records, "bytes": bytes,
                    "base": joined(&found.base), "published_ns": found.published_ns,
                })
                .to_string()
            } else {
                let at = wall::rfc3339_of_ns(found.published_ns);
                let base = match found.base.is_empty() {
                    true => String::new(),
                    false => format!(" on {}", joined(&found.base)),
                };
                format!("{reference}\t{at}\t{} records\t{bytes} bytes{base}", found.records)
            };
            out.write((line + "\n").as_bytes())?;
        }
    }
    for name in registry.views()? {
        let of = joined(&registry.view(&name)?);
        let line = match as_json {
            true => json!({ "view": name, "publications": of }).to_string(),
            false => format!("{name}\tview of {of}"),
        };
        out.write((line + "\n").as_bytes())?;
    }
    out.finish()
}

fn conflicts(registry: &Registry, matches: &ArgMatches) -> Outcome {
    let references = registry.with_bases(&registry.resolve(&words(matches, "word"))?)?;
    let mut bases = Vec::new();
    for reference in &references {
        bases.push(registry.publication(reference)?.base);
    }
    let space = open_references(registry, &references)?;
    let mut out = Output::new();
    let mut count = 0_u64;
    let mut failed = None;
    space.conflicts(
        |above, below| bases[above].contains(&references[below]),
        |conflict| {
            count += 1;
            let line = format!(
                "{}\t{} of {} hides {} of {}\n",
                shown(&conflict.path),
                conflict.kind.letter(),
                references[conflict.winner],
                conflict.hidden.letter(),
                references[conflict.loser]
            );
            out.write(line.as_bytes()).unwrap_or_else(|failure| {
                failed = Some(failure);
                false
            })
        },
    )?;
    if let Some(failure) = failed {
        return Err(failure);
    }
    out.finish()?;
    Ok(if count == 0 { keyrack_console::DONE } else { keyrack_console::NO })
}

fn publish(matches: &ArgMatches) -> Outcome {
    let name = text(matches, "name").unwrap_or_default();
    let version = super::find::number(matches, "version")?;
    let space = super::open(matches, false)?;
    let published = registry(matches)?.publish(&space, name, version)?;
    super::finish(space)?;
    let line = format!("{name}@{}\t{} records\n", published.version, published.records);
    Ok(keyrack_console::print(&line))
}

/// A view by its words, or the log.
fn side(matches: &ArgMatches, name: &str) -> Result<Namespace, Failure> {
    match text(matches, name).unwrap_or_default() {
        "." => super::open_log(matches),
        words => open_view(&registry(matches)?, &list(words)),
    }
}

fn diff(matches: &ArgMatches) -> Outcome {
    let (old, new) = (side(matches, "old")?, side(matches, "new")?);
    let mut out = Output::new();
    let mut failed = None;
    let mut count = 0_u64;
    old.diff(&new, |path, difference, kind| {
        count += 1;
        let sign = match difference {
            Difference::Added => '+',
            Difference::Removed => '-',
            Difference::Changed => '~',
        };
        let line = format!("{sign}{} {}\n", kind.letter(), shown(path));
        out.write(line.as_bytes()).unwrap_or_else(|failure| {
            failed = Some(failure);
            false
        })
    })?;
    if let Some(failure) = failed {
        return Err(failure);
    }
    out.finish()?;
    Ok(if count == 0 { keyrack_console::DONE } else { keyrack_console::NO })
}

fn gc(matches: &ArgMatches) -> Outcome {
    let hours = super::find::number(matches, "older-than")?.unwrap_or(24);
    let dry_run = matches.get_flag("dry-run");
    let keep = super::find::number(matches, "keep")?;
    if keep == Some(0) {
        return Err(Failure::Usage("--keep: the newest version of a name always stays".to_owned()));
    }
    let done = registry(matches)?.gc(&GcOptions {
        keep_versions: keep.map(|keep| usize::try_from(keep).unwrap_or(usize::MAX)),
        older_than: Duration::from_secs(hours.saturating_mul(3600)),
        dry_run,
    })?;
    let mut text = String::new();
    for reference in &done.publications {
        text += &format!("{reference}\n");
    }
    for log in &done.logs {
        text += &format!("logs/{log}\n");
    }
    let verb = if dry_run { "would free" } else { "freed" };
    say!("{verb} up to {} bytes, as far as no other name shares them", done.bytes);
    Ok(keyrack_console::print(&text))
}

fn fsck(matches: &ArgMatches) -> Outcome {
    let mut flaws: Vec<String> = Vec::new();
    if matches.get_flag("deep") {
        if os(matches, "db").is_some() {
            let fs: Arc<dyn Fs> = Arc::new(RealFs);
            let report = keyrack_flodb::verify(fs, &log_dir(matches)?, &Options::default())?;
            let damage =
                |kind: keyrack_flodb::FindingKind| kind == keyrack_flodb::FindingKind::Damage;
            let found = report.findings.iter().filter(|finding| damage(finding.kind));
            flaws.extend(found.map(ToString::to_string));
        }
        flaws.extend(registry(matches)?.check()?);
    }
    if flaws.is_empty() {
        let space = open_to_read(matches)?;
        let mut checked = space.fsck()?;
        if matches.get_flag("deep") {
            checked.flaws.extend(space.check_contents()?);
        }
        say!(
            "{} directories, {} files, {} links, {} whiteouts",
            checked.dirs,
            checked.files,
            checked.symlinks,
            checked.whiteouts
        );
        let lines =
            checked.flaws.iter().map(|flaw| format!("{}: {}", shown(&flaw.path), flaw.what));
        flaws.extend(lines);
    }
    let text: String = flaws.iter().map(|flaw| flaw.clone() + "\n").collect();
    let printed = keyrack_console::print(&text);
    match flaws.len() {
        0 => Ok(printed),
        count => Err(Failure::Damaged(format!("flaws: {count}"))),
    }
}

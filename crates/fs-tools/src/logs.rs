//! Logs, and what is made of them: publications, views, differences, collection, checks.

use crate::Place;
use crate::paths::shown;
use crate::place::{finish, open_references, open_view};
use keyrack_calendar as calendar;
use keyrack_console::{DONE, Failure, NO, Outcome, Output, say};
use keyrack_deltafs::{Difference, GcOptions, Kind, LogHead, Namespace, Reference, Said};
use keyrack_flodb::Options;
use keyrack_vfs::{Fs, RealFs};
use serde_json::json;
use std::sync::Arc;

/// Prints what a log says, a path a line; with `head_only`, what it is and what it began on.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
///
/// # Panics
/// If a log that was opened has no head.
pub fn log(place: &Place, head_only: bool) -> Outcome {
    let space = place.open_to_read()?;
    if head_only {
        let head = LogHead::of(&space.stores()[0])?.expect("a log that was opened has a head");
        let base = head.base;
        let base: Vec<String> = base.iter().map(ToString::to_string).collect();
        let base = if base.is_empty() { "-".to_owned() } else { base.join(",") };
        let line = format!("log    {}\nepoch  {}\nbase   {base}\n", space.log(), space.epoch());
        let mut out = Output::new();
        out.write(line.as_bytes())?;
        return out.finish();
    }
    print_lines(|print| {
        space.changes(|path, said, stat| {
            print(match said {
                Said::Is(kind) => format!("+{} {}\n", kind.letter(), shown(path)),
                Said::IsNot => format!("-  {}\n", shown(path)),
                Said::Changed => {
                    // Of a directory the log has no facts of its own.
                    let kind = stat.map_or(Kind::Dir, |stat| stat.kind);
                    format!("~{} {}\n", kind.letter(), shown(path))
                }
            })
        })
    })
    .map(|_| DONE)
}

/// Prints the lines that `find` finds, until the reader has gone. Returns how many there were.
fn print_lines(
    find: impl FnOnce(&mut dyn FnMut(String) -> bool) -> keyrack_deltafs::Result<()>,
) -> Result<u64, Failure> {
    let (mut out, mut count, mut failed) = (Output::new(), 0, None);
    find(&mut |line| {
        count += 1;
        out.write(line.as_bytes()).unwrap_or_else(|failure| {
            failed = Some(failure);
            false
        })
    })?;
    match failed {
        Some(failure) => Err(failure),
        None => out.finish().map(|_| count),
    }
}

/// Gives a list of publications a name.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
pub fn save_view(place: &Place, view: &str, words: &[&str]) -> Outcome {
    let registry = place.registry()?;
    registry.save_view(view, &registry.resolve(words)?)?;
    Ok(DONE)
}

/// Lists publications and views.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
pub fn list_views(place: &Place, as_json: bool) -> Outcome {
    let registry = place.registry()?;
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
                let at = calendar::rfc3339_of_ns(found.published_ns);
                let base = if found.base.is_empty() {
                    String::new()
                } else {
                    format!(" on {}", joined(&found.base))
                };
                format!("{reference}\t{at}\t{} records\t{bytes} bytes{base}", found.records)
            };
            out.write((line + "\n").as_bytes())?;
        }
    }
    for name in registry.views()? {
        let of = joined(&registry.view(&name)?);
        let line = if as_json {
            json!({ "view": name, "publications": of }).to_string()
        } else {
            format!("{name}\tview of {of}")
        };
        out.write((line + "\n").as_bytes())?;
    }
    out.finish()
}

/// Prints where publications hide something of one another. The exit status is 1 if they do.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
pub fn conflicts(place: &Place, words: &[&str]) -> Outcome {
    let registry = place.registry()?;
    let references = registry.with_bases(&registry.resolve(words)?)?;
    let mut bases = Vec::new();
    for reference in &references {
        bases.push(registry.publication(reference)?.base);
    }
    let space = open_references(&registry, &references)?;
    let is_built_on = |above: usize, below: usize| bases[above].contains(&references[below]);
    let count = print_lines(|print| {
        space.conflicts(is_built_on, |conflict| {
            print(format!(
                "{}\t{} of {} hides {} of {}\n",
                shown(&conflict.path),
                conflict.kind.letter(),
                references[conflict.winner],
                conflict.hidden.letter(),
                references[conflict.loser]
            ))
        })
    })?;
    Ok(if count == 0 { DONE } else { NO })
}

/// Publishes the log under a name; as `version` only, if one is given.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
pub fn publish(place: &Place, name: &str, version: Option<u64>) -> Outcome {
    let space = place.open()?;
    let published = place.registry()?.publish(&space, name, version)?;
    finish(space)?;
    let line = format!("{name}@{}\t{} records\n", published.version, published.records);
    Ok(keyrack_console::print(&line))
}

/// A view by its words; `.` is the log.
fn side(place: &Place, words: &str) -> Result<Namespace, Failure> {
    if words == "." { place.open_log() } else { open_view(&place.registry()?, words) }
}

/// Prints what differs between two views. The exit status is 1 if something does.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
pub fn diff(place: &Place, old: &str, new: &str) -> Outcome {
    let (old, new) = (side(place, old)?, side(place, new)?);
    let count = print_lines(|print| {
        old.diff(&new, |path, difference, kind| {
            let sign = match difference {
                Difference::Added => '+',
                Difference::Removed => '-',
                Difference::Changed => '~',
            };
            print(format!("{sign}{} {}\n", kind.letter(), shown(path)))
        })
    })?;
    Ok(if count == 0 { DONE } else { NO })
}

/// Removes publications and copies that nobody needs.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
pub fn gc(place: &Place, options: &GcOptions) -> Outcome {
    if options.keep_versions == Some(0) {
        return Err(Failure::Usage("--keep: the newest version of a name always stays".to_owned()));
    }
    let done = place.registry()?.gc(options)?;
    let mut text = String::new();
    for reference in &done.publications {
        text += &format!("{reference}\n");
    }
    for log in &done.logs {
        text += &format!("logs/{log}\n");
    }
    let verb = if options.dry_run { "would free" } else { "freed" };
    say!("{verb} up to {} bytes, as far as no other name shares them", done.bytes);
    Ok(keyrack_console::print(&text))
}

/// Checks a log or a view; with `deep`, reads every block and large file.
///
/// # Errors
/// As every tool: [`Failure`], by its kind.
pub fn fsck(place: &Place, deep: bool) -> Outcome {
    let mut flaws: Vec<String> = Vec::new();
    if deep {
        if let Some(dir) = &place.db {
            let fs: Arc<dyn Fs> = Arc::new(RealFs);
            let report = keyrack_flodb::verify(fs, dir, &Options::default())?;
            let damage =
                |kind: keyrack_flodb::FindingKind| kind == keyrack_flodb::FindingKind::Damage;
            let found = report.findings.iter().filter(|finding| damage(finding.kind));
            flaws.extend(found.map(ToString::to_string));
        }
        flaws.extend(place.registry()?.check()?);
    }
    if flaws.is_empty() {
        let space = place.open_to_read()?;
        let mut checked = space.fsck()?;
        if deep {
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

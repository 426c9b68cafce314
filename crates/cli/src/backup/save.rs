//! `keyrack backup DIR DEST`, and what is told of it.

use super::progress::Shown;
use super::{info_json, keep, log, target};
use crate::db::{check_store, open, path};
use clap::ArgMatches;
use keyrack_backup::{Backup, Deleted, FileSet, LogShipped, Repository, Saved};
use keyrack_console::{Failure, Outcome};
use keyrack_rowstore::RowStore;
use keyrack_store::parse_size;
use keyrack_vfs::RealFs;
use serde_json::json;
use std::sync::Arc;

/// What was done, for the person who asked for it.
#[derive(Default)]
pub(super) struct Report {
    saved: Option<Saved>,
    pub(super) shipped: Option<LogShipped>,
    deleted: Option<Deleted>,
}

pub(super) fn run(matches: &ArgMatches) -> Outcome {
    let limit = limit(matches)?;
    let keep = keep(matches)?;
    let dir = path(matches, "dir");
    let is_log = matches.get_flag("log");
    // Said before anything is made.
    let is_rows = RowStore::is_in(&RealFs, &dir)?;
    if !is_rows {
        check_store(&RealFs, &dir)?;
    } else if is_log {
        let what = "the log of a rowstore is not shipped; leave out --log";
        return Err(Failure::Usage(format!("{}: {what}", dir.display())));
    }
    let repository = Repository::create(target(matches)?)?;
    let mut report = Report::default();
    let save = |set: FileSet, report: &mut Report| -> Result<(), Failure> {
        let shown = Shown::new(matches);
        let backup = Backup::of(set).limit(limit).watch(|now| shown.tell(now));
        let saved = backup.save_to(&repository);
        shown.end();
        report.saved = Some(saved?);
        Ok(())
    };
    let mut act = || -> Result<(), Failure> {
        if is_rows {
            save(RowStore::file_set_of(Arc::new(RealFs), &dir)?, &mut report)?;
        } else {
            let store = open(matches)?;
            let save = |report: &mut Report| save(store.file_set()?, report);
            match is_log {
                true => log::ship(&repository, &store, &mut report, save)?,
                false => save(&mut report)?,
            }
            store.close()?;
        }
        report.deleted = keep.map(|count| repository.keep_newest(count)).transpose()?;
        Ok(())
    };
    let done = act();
    let is_nothing_done = report.saved.is_none() && report.shipped.is_none();
    let done = match done {
        Err(failure) if is_nothing_done => return Err(failure),
        // What is done is told, whatever came after it.
        done => done,
    };
    let is_json = matches.get_flag("json");
    let printed =
        keyrack_console::print(&if is_json { as_json(&report) } else { as_text(&report) });
    done.map(|()| printed)
}

fn limit(matches: &ArgMatches) -> Result<u64, Failure> {
    let Some(given) = matches.get_one::<String>("limit") else { return Ok(0) };
    let bytes = parse_size(given).map_err(|what| Failure::Usage(format!("--limit: {what}")))?;
    if bytes == 0 {
        return Err(Failure::Usage("--limit must be at least 1 byte a second (got 0)".to_owned()));
    }
    Ok(bytes)
}

fn as_text(report: &Report) -> String {
    let saved = report.saved.as_ref().map(|saved| {
        let Saved { info, copied_files, copied_bytes, .. } = saved;
        format!(
            "{}: {} files in {} bytes, of which {copied_files} in {copied_bytes} bytes are new\n",
            info.id, info.files, info.bytes
        )
    });
    let shipped = report.shipped.as_ref().map(log::as_text);
    let deleted = report.deleted.as_ref().map(deleted_text);
    saved.into_iter().chain(shipped).chain(deleted).collect()
}

fn as_json(report: &Report) -> String {
    let mut value = json!({});
    if let Some(saved) = &report.saved {
        value = info_json(&saved.info);
        value["copied_files"] = json!(saved.copied_files);
        value["copied_bytes"] = json!(saved.copied_bytes);
        value["found_files"] = json!(saved.found_files);
    }
    if let Some(shipped) = &report.shipped {
        value["shipped"] = log::as_json(shipped);
    }
    if let Some(deleted) = &report.deleted {
        value["deleted"] = deleted_json(deleted);
    }
    format!("{value:#}\n")
}

pub(super) fn deleted_text(deleted: &Deleted) -> String {
    let Deleted { backups, objects, bytes, .. } = deleted;
    let noun = if *backups == 1 { "backup" } else { "backups" };
    format!("deleted {backups} {noun}, {objects} objects in {bytes} bytes\n")
}

pub(super) fn deleted_json(deleted: &Deleted) -> serde_json::Value {
    json!({
        "backups": deleted.backups,
        "objects": deleted.objects,
        "bytes": deleted.bytes,
    })
}

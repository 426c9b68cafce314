//! `keyrack backup DIR DEST`.

use super::progress::Shown;
use super::{info_json, keep, target};
use crate::db::{Store, check_store, open, path};
use clap::ArgMatches;
use keyrack_backup::{Backup, Deleted, FileSet, Repository, Saved};
use keyrack_console::{Failure, Outcome};
use keyrack_rowstore::RowStore;
use keyrack_store::parse_size;
use keyrack_vfs::RealFs;
use serde_json::json;
use std::sync::Arc;

pub(super) fn run(matches: &ArgMatches) -> Outcome {
    let limit = limit(matches)?;
    let keep = keep(matches)?;
    let dir = path(matches, "dir");
    // Said before anything is made.
    let is_rows = RowStore::is_in(&RealFs, &dir)?;
    if !is_rows {
        check_store(&RealFs, &dir)?;
    }
    let repository = Repository::create(target(matches)?)?;
    let (store, set): (Option<Store>, FileSet) = if is_rows {
        (None, RowStore::file_set_of(Arc::new(RealFs), &dir)?)
    } else {
        let store = open(matches)?;
        let set = store.file_set()?;
        (Some(store), set)
    };
    let shown = Shown::new(matches);
    let backup = Backup::of(set).limit(limit).watch(|now| shown.tell(now));
    let saved = backup.save_to(&repository);
    shown.end();
    let saved = saved?;
    let after = after(store, &repository, keep);
    // There is a backup, whatever came after it.
    let deleted = after.as_ref().ok().and_then(Option::as_ref);
    let text =
        if matches.get_flag("json") { as_json(&saved, deleted) } else { as_text(&saved, deleted) };
    let printed = keyrack_console::print(&text);
    after.map(|_| printed)
}

/// What is left to do when the backup is made.
fn after(
    store: Option<Store>,
    repository: &Repository,
    keep: Option<usize>,
) -> Result<Option<Deleted>, Failure> {
    store.map_or(Ok(()), Store::close)?;
    Ok(keep.map(|count| repository.keep_newest(count)).transpose()?)
}

fn limit(matches: &ArgMatches) -> Result<u64, Failure> {
    let Some(given) = matches.get_one::<String>("limit") else { return Ok(0) };
    let bytes = parse_size(given).map_err(|what| Failure::Usage(format!("--limit: {what}")))?;
    if bytes == 0 {
        return Err(Failure::Usage("--limit must be at least 1 byte a second (got 0)".to_owned()));
    }
    Ok(bytes)
}

fn as_text(saved: &Saved, deleted: Option<&Deleted>) -> String {
    let Saved { info, copied_files, copied_bytes, .. } = saved;
    let deleted = deleted.map_or_else(String::new, deleted_text);
    format!(
        "{}: {} files in {} bytes, of which {copied_files} in {copied_bytes} bytes are new\n\
         {deleted}",
        info.id, info.files, info.bytes
    )
}

fn as_json(saved: &Saved, deleted: Option<&Deleted>) -> String {
    let mut value = info_json(&saved.info);
    value["copied_files"] = json!(saved.copied_files);
    value["copied_bytes"] = json!(saved.copied_bytes);
    value["found_files"] = json!(saved.found_files);
    if let Some(deleted) = deleted {
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

//! `keyrack backup DEST --list`, `--verify`, `--delete`, `--keep`.

use super::progress::Shown;
use super::save::{deleted_json, deleted_text};
use super::{id, info_json, keep, parse_id, repository};
use clap::ArgMatches;
use keyrack_backup::{BackupId, BackupInfo, Damage, Error, VerifyReport};
use keyrack_console::{Failure, Outcome};
use serde_json::{Value, json};

pub(super) fn list(matches: &ArgMatches) -> Outcome {
    let backups = repository(matches)?.backups()?;
    let is_later = |error: &Error| matches!(error, Error::Usage(_));
    let errors = || backups.iter().filter_map(|(_, info)| info.as_ref().err());
    let status = status(errors().any(|error| !is_later(error)), errors().any(is_later));
    let text = if matches.get_flag("json") {
        let rows = backups.iter().map(|(id, info)| match info {
            Ok(info) => info_json(info),
            Err(error) => {
                let key = if is_later(error) { "later" } else { "damage" };
                json!({ "id": id.to_string(), key: error.to_string() })
            }
        });
        format!("{:#}\n", rows.collect::<Value>())
    } else {
        backups.iter().map(row).collect()
    };
    let printed = keyrack_console::print(&text);
    Ok(status.unwrap_or(printed))
}

/// The status that damage and later versions have, if there are any.
fn status(is_damaged: bool, is_later: bool) -> Option<u8> {
    let later = is_later.then_some(keyrack_console::COULD_NOT);
    if is_damaged { Some(keyrack_console::DAMAGED) } else { later }
}

fn row((id, info): &(BackupId, keyrack_backup::Result<BackupInfo>)) -> String {
    match info {
        Ok(info) => format!("{id}\t{}\t{} files\t{} bytes\n", info.engine, info.files, info.bytes),
        Err(error @ Error::Usage(_)) => format!("{id}\tlater\t{error}\n"),
        Err(error) => format!("{id}\tdamaged\t{error}\n"),
    }
}

pub(super) fn verify(matches: &ArgMatches) -> Outcome {
    let id = id(matches)?;
    let shown = Shown::new(matches);
    let report = repository(matches)?.verify(id.as_ref(), |now| shown.tell(now));
    shown.end();
    let report = report?;
    let text = if matches.get_flag("json") { as_json(&report) } else { as_text(&report) };
    let printed = keyrack_console::print(&text);
    Ok(status(!report.damage.is_empty(), !report.later.is_empty()).unwrap_or(printed))
}

fn as_text(report: &VerifyReport) -> String {
    let damage: String = report.damage.iter().map(|damage| format!("damage: {damage}\n")).collect();
    let later: String =
        report.later.iter().map(|(_, what)| format!("not read: {what}\n")).collect();
    let VerifyReport { backups, objects, bytes, unused_objects, .. } = report;
    let noun = if *backups == 1 { "backup" } else { "backups" };
    let unused = match unused_objects {
        0 => String::new(),
        count => format!(", {count} objects in no backup"),
    };
    let verdict = match (report.damage.is_empty(), report.is_sound()) {
        (_, true) => "sound",
        (true, false) => "NOT ALL READ",
        (false, false) => "DAMAGED",
    };
    format!(
        "{damage}{later}{backups} {noun}, {objects} objects in {bytes} bytes{unused}: {verdict}\n"
    )
}

fn as_json(report: &VerifyReport) -> String {
    let damage = |damage: &Damage| {
        let backups = damage.backups.iter().map(BackupId::to_string);
        json!({
            "place": damage.place,
            "what": damage.what,
            "backups": backups.collect::<Vec<_>>(),
        })
    };
    let value = json!({
        "sound": report.is_sound(),
        "backups": report.backups,
        "objects": report.objects,
        "bytes": report.bytes,
        "unused_objects": report.unused_objects,
        "damage": report.damage.iter().map(damage).collect::<Value>(),
        "later": report.later.iter().map(|(id, _)| id.to_string()).collect::<Value>(),
    });
    format!("{value:#}\n")
}

pub(super) fn delete(matches: &ArgMatches) -> Outcome {
    let given = matches.get_many::<String>("delete").into_iter().flatten();
    let ids = given.map(|given| parse_id(given)).collect::<Result<Vec<_>, Failure>>()?;
    let keep = keep(matches)?;
    if keep.is_some() && !ids.is_empty() {
        return Err(Failure::Usage("--delete and --keep exclude each other".to_owned()));
    }
    let repository = repository(matches)?;
    let deleted = match keep {
        Some(count) => repository.keep_newest(count)?,
        None => repository.delete(&ids)?,
    };
    let text = if matches.get_flag("json") {
        format!("{:#}\n", deleted_json(&deleted))
    } else {
        deleted_text(&deleted)
    };
    Ok(keyrack_console::print(&text))
}

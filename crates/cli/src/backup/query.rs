//! `keyrack backup DEST --list`, `--verify`, `--delete`, `--keep`.

use super::progress::Shown;
use super::save::{deleted_json, deleted_text};
use super::{id, info_json, keep, parse_id, repository, stamp};
use clap::ArgMatches;
use keyrack_backup::{BackupId, BackupInfo, Damage, Error, Moments, VerifyReport};
use keyrack_console::{Failure, Outcome};
use serde_json::{Value, json};

pub(super) fn list(matches: &ArgMatches) -> Outcome {
    let repository = repository(matches)?;
    let backups = repository.backups()?;
    let moments = repository.moments();
    let after = |id: &BackupId| {
        let all = moments.as_ref().ok().into_iter().flatten();
        all.into_iter().find(|moments| moments.backup == *id)
    };
    let is_later = |error: &Error| matches!(error, Error::Usage(_));
    let errors = || backups.iter().filter_map(|(_, info)| info.as_ref().err());
    let status = status(errors().any(|error| !is_later(error)), errors().any(is_later));
    let text = if matches.get_flag("json") {
        let rows = backups.iter().map(|(id, info)| match info {
            Ok(info) => {
                let mut value = info_json(info);
                if let Some(moments) = after(id) {
                    value["moments"] = moments_json(moments);
                }
                value
            }
            Err(error) => {
                let key = if is_later(error) { "later" } else { "damage" };
                json!({ "id": id.to_string(), key: error.to_string() })
            }
        });
        format!("{:#}\n", rows.collect::<Value>())
    } else {
        backups.iter().map(|backup| row(backup, after(&backup.0))).collect()
    };
    let printed = keyrack_console::print(&text);
    // What the log after the backups has cannot be told.
    moments?;
    Ok(status.unwrap_or(printed))
}

/// The status that damage and later versions have, if there are any.
fn status(is_damaged: bool, is_later: bool) -> Option<u8> {
    let later = is_later.then_some(keyrack_console::COULD_NOT);
    if is_damaged { Some(keyrack_console::DAMAGED) } else { later }
}

fn moments_json(moments: &Moments) -> Value {
    json!({
        "from_position": moments.from,
        "to_position": moments.to,
        "to_time": moments.to_ms.map(stamp),
    })
}

fn row(
    (id, info): &(BackupId, keyrack_backup::Result<BackupInfo>),
    moments: Option<&Moments>,
) -> String {
    match info {
        Ok(info) => {
            let BackupInfo { engine, files, bytes, .. } = info;
            let moments = moments.map_or_else(String::new, |moments| {
                let time = moments.to_ms.map_or_else(String::new, |ms| format!(", {}", stamp(ms)));
                format!("\tmoments from position {} to {}{time}", moments.from, moments.to)
            });
            format!("{id}\t{engine}\t{files} files\t{bytes} bytes{moments}\n")
        }
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
    let logs = match report.log_objects {
        0 => String::new(),
        1 => format!(", 1 part of a log in {} bytes", report.log_bytes),
        count => format!(", {count} parts of logs in {} bytes", report.log_bytes),
    };
    let verdict = match (report.damage.is_empty(), report.is_sound()) {
        (_, true) => "sound",
        (true, false) => "NOT ALL READ",
        (false, false) => "DAMAGED",
    };
    format!(
        "{damage}{later}{backups} {noun}, {objects} objects in {bytes} bytes{logs}{unused}: \
         {verdict}\n"
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
        "log_objects": report.log_objects,
        "log_bytes": report.log_bytes,
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

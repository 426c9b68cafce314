//! `keyrack backup DIR DEST --log`: what the log of a store has after its last shipped end.
//!
//! ```text
//!   begin --> mark the time --> ship
//!      +---------- a gap ---------+-----> a backup, and once more
//! ```
//!
//! A store that nobody has a feed of, and that keeps no log, has no time marks. So the time is
//! marked before something is shipped: everything in it was committed by then.

use super::save::Report;
use super::stamp;
use crate::db::Store;
use keyrack_backup::{Error, LogShipped, LogSource, Repository, Shipper};
use keyrack_console::{Failure, say};
use serde_json::{Value, json};
use std::time::Duration;

/// Ships the log of a store; after a backup by `save` if there is none to begin at.
pub(super) fn ship(
    repository: &Repository,
    store: &Store,
    report: &mut Report,
    save: impl FnOnce(&mut Report) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let shipped = match try_to_ship(repository, store) {
        Err(Error::BackupNeeded(why)) => {
            let is_first = !has_backup(repository, store.log_source())?;
            save(report)?;
            // The first backup of a store is no news.
            if !is_first {
                say!("keyrack backup: {why}: made a backup");
            }
            try_to_ship(repository, store)
        }
        shipped => shipped,
    };
    report.shipped = Some(shipped?);
    Ok(())
}

fn try_to_ship(repository: &Repository, store: &Store) -> keyrack_backup::Result<LogShipped> {
    let mut shipper = Shipper::begin(repository, store.log_source())?;
    if shipper.wait(Duration::ZERO)? {
        store.mark_time()?;
    }
    shipper.ship()
}

/// Whether there is a backup of the store.
fn has_backup(repository: &Repository, source: &dyn LogSource) -> Result<bool, Failure> {
    let log_id = source.log_id();
    let backups = repository.backups()?;
    let mut infos = backups.iter().filter_map(|(_, info)| info.as_ref().ok());
    Ok(infos.any(|info| info.log.is_some_and(|log| log.log_id == log_id)))
}

pub(super) fn as_text(shipped: &LogShipped) -> String {
    let LogShipped { objects, bytes, position, unix_ms, .. } = shipped;
    let time = unix_ms.map_or_else(String::new, |unix_ms| format!(", {}", stamp(unix_ms)));
    let noun = if *objects == 1 { "part" } else { "parts" };
    format!("log: up to position {position}{time}, {objects} {noun} in {bytes} bytes are new\n")
}

pub(super) fn as_json(shipped: &LogShipped) -> Value {
    json!({
        "parts": shipped.objects,
        "bytes": shipped.bytes,
        "position": shipped.position,
        "time": shipped.unix_ms.map(stamp),
    })
}

//! Restoring the store of any moment: a backup, and what was shipped of the log after it.
//!
//! ```text
//!   position    the newest backup at or before it, and the batches up to it
//!   time        the last time mark by then, or the last backup taken by then: its position
//! ```
//!
//! **Times.** A mark says that every batch below it was committed by its time. Marks are about a
//! second apart while there are writes, so the store of a time may lack what was committed in the
//! second before it. Nothing that was committed after it is there.
//!
//! **Account.** A restoration to a position reads the objects of the backup, and those of the log
//! after it. One to a time reads the newest parts of the log first, back to the time.
//!
//! The batches are applied in the hidden directory of the restoration, so a store is at the target
//! when it is whole.

use crate::error::{Error, Result};
use crate::log_object::{LogName, Shipped};
use crate::progress::Progress;
use crate::repository::{BackupId, BackupInfo, Repository};
use crate::ship::Base;
use keyrack_store::LogReplay;
use keyrack_vfs::Fs;
use std::fmt;
use std::path::Path;

/// Which state of a store is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Everything up to this position of its log, and nothing after it.
    Position(u64),
    /// What was committed by this time, in milliseconds since 1970.
    UnixMs(u64),
}

/// The moments that can be restored without a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Moments {
    /// The identity of the log.
    pub log_id: u64,
    /// The backup at which they begin.
    pub backup: BackupId,
    /// The position of the backup.
    pub from: u64,
    /// When it was taken, in milliseconds since 1970.
    pub from_ms: u64,
    /// The last position.
    pub to: u64,
    /// The last time, if something with a time was shipped.
    pub to_ms: Option<u64>,
}

/// A store that was restored to a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoredMoment {
    /// The backup.
    pub info: BackupInfo,
    /// Everything up to here is in the store.
    pub position: u64,
    /// Batches that were applied after the backup.
    pub batches: u64,
}

/// Opens the store in a directory that was restored, to apply batches.
pub type OpenReplay<'a> = dyn FnMut(&Path) -> keyrack_store::Result<Box<dyn LogReplay>> + 'a;

/// What a restoration to a moment is made of.
struct Plan {
    base: Base,
    position: u64,
    parts: Vec<LogName>,
}

/// The last moment, for a person.
struct Last {
    position: u64,
    unix_ms: Option<u64>,
}

impl fmt::Display for Last {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "position {}", self.position)?;
        self.unix_ms.map_or(Ok(()), |unix_ms| write!(f, ", {}", stamp(unix_ms)))
    }
}

fn stamp(unix_ms: u64) -> String {
    keyrack_calendar::rfc3339_of_ms(unix_ms)
}

impl Repository {
    /// The moments that can be restored: for each log, one range for each chain of parts that
    /// begins at a backup. Backups of which nothing was shipped are left out.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the last part of a chain is damaged; the machine's.
    pub fn moments(&self) -> Result<Vec<Moments>> {
        let names: Vec<LogName> = self.log_names()?.into_keys().collect();
        let mut moments = Vec::new();
        for log in names.chunk_by(|a, b| a.log_id == b.log_id) {
            let bases = self.bases(log[0].log_id)?;
            for chain in log.chunk_by(|a, b| a.end == b.first) {
                moments.extend(self.moments_of(chain, &bases)?);
            }
        }
        Ok(moments)
    }

    /// The moments of one chain of parts.
    fn moments_of(&self, chain: &[LogName], bases: &[Base]) -> Result<Option<Moments>> {
        let (first, last) = (chain[0].first, chain[chain.len() - 1]);
        let in_chain = |base: &&Base| first <= base.position && base.position < last.end;
        let Some(base) = bases.iter().find(in_chain) else { return Ok(None) };
        Ok(Some(Moments {
            log_id: last.log_id,
            backup: base.id.clone(),
            from: base.position,
            from_ms: base.taken_ns / 1_000_000,
            to: last.end,
            to_ms: self.mark_before(chain, u64::MAX)?.map(|(_, unix_ms)| unix_ms),
        }))
    }

    /// The last time mark with that time or an earlier one, and its position.
    fn mark_before(&self, parts: &[LogName], unix_ms: u64) -> Result<Option<(u64, u64)>> {
        for part in parts.iter().rev() {
            let object = self.log_object(part)?;
            let mark = |(position, entry)| match entry {
                Shipped::Time(time) if time <= unix_ms => Some((position, time)),
                _ => None,
            };
            if let Some(found) = object.entries().filter_map(mark).last() {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Makes the store of a moment in the directory `target` of `fs`, as [`Repository::restore`]
    /// does. `open` opens the store of the backup, to which the batches are applied. The log is
    /// that of the newest backup that has one, or of the backup `of`.
    ///
    /// # Errors
    /// As for [`Repository::restore`]. [`Error::Usage`] if the moment is before the first backup or
    /// after the last one that was shipped. [`Error::Corruption`] if a part of the log is damaged,
    /// missing, or has positions that another one has. The errors of the store.
    pub fn restore_at(
        &self,
        moment: Moment,
        of: Option<&BackupId>,
        (fs, target): (&dyn Fs, &Path),
        open: &mut OpenReplay<'_>,
        watch: impl FnMut(Progress),
    ) -> Result<RestoredMoment> {
        let Plan { base, position, parts } = self.plan(moment, of)?;
        let mut batches = 0;
        let mut finish = |dir: &Path| -> Result<()> {
            if parts.is_empty() {
                return Ok(());
            }
            let mut store = open(dir)?;
            for part in &parts {
                batches += self.replay(part, base.position, position, &mut *store)?;
            }
            Ok(store.end()?)
        };
        let info = self.restore_then(&base.id, (fs, target), &mut finish, watch)?;
        Ok(RestoredMoment { info, position, batches })
    }

    /// Applies the batches of a part that come after `from`, up to `to`. How many there are.
    fn replay(&self, part: &LogName, from: u64, to: u64, store: &mut dyn LogReplay) -> Result<u64> {
        let mut batches = 0;
        let object = self.log_object(part)?;
        for (position, entry) in object.entries() {
            match entry {
                _ if position <= from || position > to => {}
                Shipped::Time(_) => {}
                Shipped::Batch(payload) => {
                    store.apply(payload)?;
                    batches += 1;
                }
                Shipped::Break => {
                    let place = self.target.place(Some(&part.object()));
                    let what = format!(
                        "at position {position} tables were added that the log does not have; \
                         restore a moment before it, or one after the next backup"
                    );
                    return Err(Error::Usage(format!("{place}: {what}")));
                }
            }
        }
        Ok(batches)
    }

    /// Which backup and which parts of the log make the moment.
    fn plan(&self, moment: Moment, of: Option<&BackupId>) -> Result<Plan> {
        let log_id = self.log_of(of)?;
        let bases = self.bases(log_id)?;
        let names = self.log_names()?.into_keys();
        let parts: Vec<LogName> = names.filter(|part| part.log_id == log_id).collect();
        let position = match moment {
            Moment::Position(position) => position,
            Moment::UnixMs(unix_ms) => self.position_at(unix_ms, &bases, &parts)?,
        };
        let Some(base) = bases.iter().rfind(|base| base.position <= position) else {
            return Err(self.too_early(&bases));
        };
        let (mut needed, mut reached) = (Vec::new(), base.position);
        for part in parts.into_iter().filter(|part| part.end > base.position) {
            if reached >= position {
                break;
            }
            let place = || self.target.place(Some(&part.object()));
            if !needed.is_empty() && part.first < reached {
                let what = format!("it has positions below {reached}, as the part before it has");
                return Err(Error::corruption(place(), what));
            }
            if part.first > reached {
                let what = format!(
                    "the positions from {reached} to {} are missing before it; restore a moment up \
                     to position {reached}, or one after the next backup",
                    part.first
                );
                return Err(Error::corruption(place(), what));
            }
            reached = part.end;
            needed.push(part);
        }
        if reached < position {
            return Err(self.too_late(&Last { position: reached, unix_ms: None }));
        }
        Ok(Plan { base: base.clone(), position, parts: needed })
    }

    /// The log of a backup, or of the newest one that has a log.
    fn log_of(&self, of: Option<&BackupId>) -> Result<u64> {
        let log = match of {
            Some(id) => self.named(id)?.log,
            None => {
                let manifests = self.manifests()?.into_iter().rev();
                manifests.filter_map(|(_, manifest)| manifest.ok()?.log).next()
            }
        };
        let what = "has no backup with a position in a log; restore a backup as it is";
        let none = || Error::Usage(format!("{} {what}", self.place()));
        log.map(|log| log.log_id).ok_or_else(none)
    }

    /// The position of the last mark or backup by that time.
    fn position_at(&self, unix_ms: u64, bases: &[Base], parts: &[LogName]) -> Result<u64> {
        let newest = self.mark_before(parts, u64::MAX)?;
        let Some((_, last_ms)) = newest.filter(|(_, last_ms)| unix_ms <= *last_ms) else {
            return Err(match (newest, parts.last()) {
                (Some((_, last_ms)), Some(part)) => {
                    self.too_late(&Last { position: part.end, unix_ms: Some(last_ms) })
                }
                _ => {
                    let what = "has no time in the log that was shipped; restore a backup as it is";
                    Error::Usage(format!("{} {what}", self.place()))
                }
            });
        };
        let mark = if unix_ms == last_ms { newest } else { self.mark_before(parts, unix_ms)? };
        let by_then = bases.iter().filter(|base| base.taken_ns / 1_000_000 <= unix_ms);
        let base = by_then.map(|base| base.position).max();
        mark.map(|(position, _)| position).max(base).ok_or_else(|| self.too_early(bases))
    }

    fn too_early(&self, bases: &[Base]) -> Error {
        let first = bases.first().expect("the log is that of a backup");
        let when = stamp(first.taken_ns / 1_000_000);
        Error::Usage(format!(
            "{}: the first moment is that of the backup {}, position {}, {when}",
            self.place(),
            first.id,
            first.position
        ))
    }

    fn too_late(&self, last: &Last) -> Error {
        let what = "restore that one, or ship more of the log";
        Error::Usage(format!(
            "{}: the last moment that was shipped is {last}; {what}",
            self.place()
        ))
    }
}

//! Events of a source, applied to a destination.
//!
//! ```text
//!   event --> database? expired? --> encoder --> target --outcome--> report
//!                                \-> flags ----> cache               unclear keys
//! ```
//!
//! Rows with flags go by memcached's protocol where the destination has it, all others by Redis'.

use crate::client::Value;
use crate::encode::{Commands, Encoder, Role};
use crate::error::{Error, Result};
use crate::event::{Entry, Event, Phase, Progress};
use crate::memcached::Cache;
use crate::redis::Method;
use crate::report::Report;
use crate::target::{Outcome, Target};
use crate::unclear::KeySet;
use crate::url::{Protocol, Url};
use keyrack_measure::wall;
use std::sync::atomic::{AtomicBool, Ordering};

/// What happens to a row whose key the destination has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnConflict {
    /// It replaces the row there.
    #[default]
    Replace,
    /// The row there stays.
    Keep,
    /// It ends the import.
    Fail,
}

/// How an import goes on.
pub type Observe<'o> = &'o mut dyn FnMut(&Progress, &Report);

/// What an import is told.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What happens to a row whose key the destination has.
    pub on_conflict: OnConflict,
    /// The database to import; the first one if none is named.
    pub db: Option<u32>,
    /// How the rows of a running server are read.
    pub method: Method,
    /// Whether what changes on a running server meanwhile is left out.
    pub no_changes: bool,
    /// Whether the changes of a running server are followed until the import is stopped.
    pub follow: bool,
}

/// Events between two calls of the observer.
const OBSERVED_EVERY: u64 = 256;

pub(crate) struct Importer<'a> {
    /// Absent where the destination speaks only memcached's protocol.
    target: Option<Target>,
    cache: Option<Cache>,
    encoder: Encoder,
    options: &'a Options,
    report: Report,
    unclear: KeySet,
    /// The kind of the hash at hand.
    hash: HashState,
    was_empty: bool,
    /// The source is a file: it cannot be asked for a key again.
    is_file: bool,
    /// Keys are read again: one that is no row now is removed.
    is_resolving: bool,
    stop: &'a AtomicBool,
    observe: Observe<'a>,
    events: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HashState {
    #[default]
    None,
    Skipped,
    Open,
}

impl<'a> Importer<'a> {
    pub(crate) fn connect(
        to: &Url,
        options: &'a Options,
        stop: &'a AtomicBool,
        observe: Observe<'a>,
    ) -> Result<Self> {
        let mut target = match to.protocol {
            Protocol::Memcached => None,
            Protocol::Redis | Protocol::Mixed => Some(Target::connect(to)?),
        };
        let cache = match to.protocol {
            Protocol::Redis => None,
            Protocol::Memcached | Protocol::Mixed => Some(Cache::connect(to, options.on_conflict)?),
        };
        let was_empty = match &mut target {
            Some(target) => target.ask(&[b"DBSIZE"])? == Value::Integer(0),
            None => false,
        };
        // What another client writes during the import is no conflict.
        let only_if_absent = options.on_conflict != OnConflict::Replace && !was_empty;
        Ok(Importer {
            target,
            cache,
            encoder: Encoder::new(only_if_absent),
            options,
            report: Report::default(),
            unclear: KeySet::default(),
            hash: HashState::None,
            was_empty,
            is_file: false,
            is_resolving: false,
            stop,
            observe,
            events: 0,
        })
    }

    /// Refuses a source with commands where they could meet rows that were kept, or no server that
    /// knows them.
    pub(crate) fn check_changes(&self) -> Result<()> {
        if self.target.is_none() {
            return Err(Error::usage(
                "a destination of memcached's protocol gets rows and no changes: use --no-changes, \
                 or a destination with Redis' protocol",
            ));
        }
        if self.options.on_conflict == OnConflict::Replace || self.was_empty {
            return Ok(());
        }
        Err(Error::usage(
            "the source has changes and not only rows, and the destination has rows: use \
             --on-conflict replace, or an empty destination",
        ))
    }

    /// Notes that the source is a file.
    pub(crate) fn source_is_file(&mut self) {
        self.is_file = true;
    }

    pub(crate) fn report_mut(&mut self) -> &mut Report {
        &mut self.report
    }

    /// The keys that have to be read again, once all changes are applied.
    pub(crate) fn take_unclear(&mut self) -> Result<Vec<Vec<u8>>> {
        self.drain()?;
        Ok(self.unclear.take())
    }

    /// Waits for all replies. Keys that were not read again are lost.
    pub(crate) fn finish(mut self) -> Result<Report> {
        self.drain()?;
        self.unclear.take().iter().for_each(|key| self.report.unclear.add(key));
        Ok(self.report)
    }

    pub(crate) fn event(&mut self, event: Event<'_>) -> Result<()> {
        match event {
            Event::String { entry, value } => self.string(&entry, value)?,
            Event::Hash(entry) => self.begin_hash(&entry)?,
            Event::Field { name, value, expires_ms } => self.field(name, value, expires_ms)?,
            Event::EndHash => self.end_hash()?,
            Event::LeftOut { db, kind, key } if self.is_ours(db) => {
                self.report.left_out.entry(kind.to_owned()).or_default().add(key);
                self.remove_unclear(key)?;
            }
            Event::Gone { key } => self.remove_unclear(key)?,
            Event::ReadAgain(count) => {
                self.is_resolving = true;
                self.report.read_again += count;
            }
            Event::Command { db, args } if self.is_ours(db) || is_flush_all(args) => {
                self.change(args)?;
            }
            Event::Unclear { db, key: Some(key), .. } if self.is_ours(db) => {
                self.unclear.insert(key)?;
            }
            Event::Unclear { db, name, key: None } if self.is_ours(db) => {
                *self.report.left_out_commands.entry(name.to_owned()).or_default() += 1;
            }
            Event::Swapped { db } if self.is_ours(db) => {
                return Err(Error::usage(format!(
                    "the source exchanged database {db} with another one (SWAPDB), which an import \
                     cannot repeat: import it again, or its snapshot"
                )));
            }
            Event::LeftOut { .. }
            | Event::Command { .. }
            | Event::Unclear { .. }
            | Event::Swapped { .. } => {
                self.report.other_databases += u64::from(self.options.db.is_none());
            }
            Event::Progress(progress) => self.progress(&progress)?,
        }
        self.take_outcomes()
    }

    fn is_ours(&self, db: u32) -> bool {
        db == self.options.db.unwrap_or(0)
    }

    /// Whether a row is to be moved; counts it otherwise. Of one that has expired an older copy
    /// is removed.
    fn admits(&mut self, entry: &Entry<'_>) -> Result<bool> {
        if !self.is_ours(entry.db) {
            self.report.other_databases += u64::from(self.options.db.is_none());
            return Ok(false);
        }
        let has_expired = entry.expires_ms.is_some_and(|time| time <= wall::unix_ms());
        if has_expired {
            self.report.expired += 1;
            self.remove_unclear(entry.key)?;
        }
        Ok(!has_expired)
    }

    fn string(&mut self, entry: &Entry<'_>, value: &[u8]) -> Result<()> {
        if !self.admits(entry)? {
            return Ok(());
        }
        match (&mut self.target, &mut self.cache) {
            (None, Some(cache)) => cache.store(entry, value),
            (_, Some(cache)) if entry.flags != 0 && cache.can_hold(entry) => {
                cache.store(entry, value)
            }
            (Some(target), _) => {
                self.report.flags_lost += u64::from(entry.flags != 0);
                self.encoder.string(entry, value, target)
            }
            (None, None) => unreachable!("a destination speaks one protocol at least"),
        }
    }

    fn begin_hash(&mut self, entry: &Entry<'_>) -> Result<()> {
        self.hash = HashState::Skipped;
        if !self.admits(entry)? {
            return Ok(());
        }
        let Some(target) = &mut self.target else {
            self.report.left_out.entry("hash".to_owned()).or_default().add(entry.key);
            return Ok(());
        };
        if self.encoder.only_if_absent && target.ask(&[b"EXISTS", entry.key])? != Value::Integer(0)
        {
            return self.exists(entry.key);
        }
        self.encoder.begin_hash(entry);
        self.hash = HashState::Open;
        Ok(())
    }

    fn field(&mut self, name: &[u8], value: &[u8], expires_ms: Option<u64>) -> Result<()> {
        let (HashState::Open, Some(target)) = (self.hash, &mut self.target) else {
            return Ok(());
        };
        if let Some(time) = expires_ms {
            if time <= wall::unix_ms() {
                self.report.expired += 1;
                return Ok(());
            }
            self.report.field_expiries += 1;
        }
        self.report.fields += 1;
        self.encoder.field(name, value, target)
    }

    fn end_hash(&mut self) -> Result<()> {
        let state = std::mem::take(&mut self.hash);
        if let (HashState::Open, Some(target)) = (state, &mut self.target) {
            // Without fields all of them had expired, and were counted.
            if !self.encoder.end_hash(target)? {
                let key = self.encoder.key().to_vec();
                self.remove_unclear(&key)?;
            }
        }
        Ok(())
    }

    fn change(&mut self, args: &[&[u8]]) -> Result<()> {
        self.check_changes()?;
        let target = self.target.as_mut().expect("there is a target for changes");
        if args[0].to_ascii_uppercase().starts_with(b"FLUSH") && !self.was_empty {
            return Err(Error::usage(
                "the source was emptied (FLUSHALL or FLUSHDB), and the destination had rows of \
                 its own before the import: import into an empty destination",
            ));
        }
        if self.is_file && !self.was_empty && is_relative(args) {
            return Err(Error::usage(format!(
                "the source has {}, which adds to a row, and the destination had rows of its own \
                 before the import, perhaps of an earlier one: import into an empty destination",
                args[0].escape_ascii().to_string().to_ascii_uppercase()
            )));
        }
        self.report.changes += 1;
        if is_flush_all(args) {
            // The destination may have other databases, which are not those of the source.
            return target.command(Role::Change, b"", &[b"FLUSHDB"]);
        }
        target.command(Role::Change, args.get(1).copied().unwrap_or_default(), args)
    }

    fn remove_unclear(&mut self, key: &[u8]) -> Result<()> {
        match &mut self.target {
            Some(target) if self.is_resolving => target.command(Role::Part, key, &[b"DEL", key]),
            _ => Ok(()),
        }
    }

    fn progress(&mut self, progress: &Progress) -> Result<()> {
        if progress.phase == Phase::Changes {
            self.drain()?;
        } else if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        self.events += 1;
        if self.events.is_multiple_of(OBSERVED_EVERY) || progress.phase == Phase::Changes {
            (self.observe)(progress, &self.report);
        }
        Ok(())
    }

    fn drain(&mut self) -> Result<()> {
        if let Some(target) = &mut self.target {
            target.drain()?;
        }
        if let Some(cache) = &mut self.cache {
            cache.drain()?;
        }
        self.take_outcomes()
    }

    fn take_outcomes(&mut self) -> Result<()> {
        let mut outcomes = match &mut self.target {
            Some(target) => target.take_outcomes(),
            None => Vec::new(),
        };
        if let Some(cache) = &mut self.cache {
            outcomes.extend(cache.take_outcomes());
        }
        for (key, outcome) in outcomes {
            match outcome {
                Outcome::String => self.report.strings += 1,
                Outcome::Hash => self.report.hashes += 1,
                Outcome::Exists => self.exists(&key)?,
                Outcome::Unclear => self.unclear.insert(&key)?,
                Outcome::Follows(other) if self.unclear.contains(&other) => {
                    self.unclear.insert(&key)?;
                }
                Outcome::Follows(_) => {}
                Outcome::Refused(error) => {
                    let shown = format!("{}: {error}", String::from_utf8_lossy(&key));
                    self.report.refused.add(shown.as_bytes());
                }
            }
        }
        Ok(())
    }

    fn exists(&mut self, key: &[u8]) -> Result<()> {
        if self.options.on_conflict == OnConflict::Fail {
            return Err(Error::Conflict(key.escape_ascii().to_string()));
        }
        self.report.kept.add(key);
        Ok(())
    }
}

fn is_flush_all(args: &[&[u8]]) -> bool {
    args[0].eq_ignore_ascii_case(b"FLUSHALL")
}

/// Whether the outcome of a change depends on what the row was.
fn is_relative(args: &[&[u8]]) -> bool {
    matches!(
        args[0].to_ascii_uppercase().as_slice(),
        b"APPEND"
            | b"SETRANGE"
            | b"INCR"
            | b"DECR"
            | b"INCRBY"
            | b"DECRBY"
            | b"INCRBYFLOAT"
            | b"HINCRBY"
            | b"HINCRBYFLOAT"
    )
}

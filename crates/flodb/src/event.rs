//! Events: what a store tells the program of its background work.
//!
//! [`EventListener`] has the rules, and `db::events` carries them out. An event can also be taken
//! apart by names, see [`Event::visit`]: so languages that call C see what Rust does.

use crate::error::{Error, Result};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Hears what a store does in the background, see
/// [`Options::listener`](field@crate::Options::listener). A closure is one.
///
/// **Thread.** Every event is told on one thread of the store, `flodb-events`, one after the other.
/// The thread holds no lock of the store, and the store does not wait for it. So a listener may use
/// the store in any way, also write to it, flush it and close it; and a slow listener delays no
/// reader, no writer and no background job.
///
/// **Order.** Events come in the order in which they happened. Several compactions may run at once:
/// `job` says which begin and end are a pair. An event may be old news when it is told.
///
/// **Limit.** At most 1,024 events wait for the listener. Of those that come while so many wait,
/// only their number is kept: see [`Event::Lost`].
///
/// **End.** [`Db::close`](crate::Db::close) and the drop of the last handle return when all events
/// are told. Afterwards there are none. A listener that closes the store itself is told nothing
/// more.
///
/// **Panics.** A panic of the listener ends its call and nothing else. The metric
/// `listener_panics` counts them.
///
/// A listener that keeps a handle of the store keeps the store open until it drops the handle, or
/// somebody calls `close`.
pub trait EventListener: Send + Sync {
    /// Is told of an event.
    fn event(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync> EventListener for F {
    fn event(&self, event: &Event) {
        self(event);
    }
}

impl fmt::Debug for dyn EventListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventListener")
    }
}

/// What has happened in a store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// A flush begins to write a memtable into a table.
    #[non_exhaustive]
    FlushBegun {
        /// The number of the job. Flushes and compactions are counted together.
        job: u64,
        /// Bytes of the entries of the memtable.
        memtable_bytes: u64,
    },
    /// A flush has ended.
    #[non_exhaustive]
    FlushEnded {
        /// As at its begin.
        job: u64,
        /// Since its begin.
        duration: Duration,
        /// What it has written. After an error the memtable stays.
        result: Result<Outputs>,
    },
    /// A compaction begins.
    #[non_exhaustive]
    CompactionBegun {
        /// The number of the job. Flushes and compactions are counted together.
        job: u64,
        /// Why.
        reason: CompactionReason,
        /// The upper level that it takes tables of.
        level: usize,
        /// The level that it writes to.
        output_level: usize,
        /// The numbers of the tables that it takes.
        tables: Vec<u64>,
        /// Bytes of these tables.
        table_bytes: u64,
    },
    /// A compaction has ended.
    #[non_exhaustive]
    CompactionEnded {
        /// As at its begin.
        job: u64,
        /// As at its begin.
        level: usize,
        /// As at its begin.
        output_level: usize,
        /// Since its begin.
        duration: Duration,
        /// What it has written. After an error, parts that were complete before stay.
        result: Result<Outputs>,
    },
    /// Writers are slowed down, stopped, or let go again.
    #[non_exhaustive]
    WriteStall {
        /// From now on.
        stall: Stall,
    },
    /// The store refuses writes from here on.
    #[non_exhaustive]
    BackgroundErrorRaised {
        /// Why.
        error: Error,
        /// Whether it does so until it is opened again. Otherwise the work is tried again, and
        /// [`Event::BackgroundErrorCleared`] follows when it succeeds.
        is_final: bool,
    },
    /// What failed before has succeeded. Writes are taken again, unless another error was raised
    /// that is not cleared.
    #[non_exhaustive]
    BackgroundErrorCleared {
        /// The error that was raised.
        error: Error,
    },
    /// Tables from outside were taken in, see [`Db::ingest`](crate::Db::ingest).
    #[non_exhaustive]
    Ingested {
        /// Their numbers in the store.
        tables: Vec<u64>,
        /// Bytes of the tables.
        table_bytes: u64,
        /// Their entries.
        entries: u64,
    },
    /// A copy is complete, see [`Db::checkpoint`](crate::Db::checkpoint).
    #[non_exhaustive]
    CheckpointMade {
        /// The directory of the copy.
        path: PathBuf,
    },
    /// The file of a table or of blobs was removed: neither the store nor a reader needs it. Those
    /// that an opening or a close removes are not told.
    #[non_exhaustive]
    FileRemoved {
        /// Which file.
        path: PathBuf,
    },
    /// Events were not told here, because too many waited for the listener.
    #[non_exhaustive]
    Lost {
        /// How many.
        events: u64,
    },
}

/// The files that a flush or a compaction has written. Number 12 is `000012.table` or `000012.blob`
/// in the directory of the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outputs {
    /// The numbers of the tables. A compaction that only moves a table to a lower level has this
    /// table here, and no bytes.
    pub tables: Vec<u64>,
    /// Bytes written to tables.
    pub table_bytes: u64,
    /// The numbers of the blob files.
    pub blobs: Vec<u64>,
    /// Bytes written to blob files.
    pub blob_bytes: u64,
}

impl Outputs {
    /// These and those of another part.
    pub(crate) fn add(&mut self, part: Outputs) {
        self.tables.extend(part.tables);
        self.table_bytes += part.table_bytes;
        self.blobs.extend(part.blobs);
        self.blob_bytes += part.blob_bytes;
    }
}

/// Why there is a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompactionReason {
    /// A level has too many tables or bytes.
    Levels,
    /// Much of the blob files that a table refers to is dead.
    BlobGarbage,
    /// Much of a table has expired.
    Expired,
    /// A caller asked for it.
    Caller,
}

impl CompactionReason {
    /// Its name, as [`Event::visit`] has it.
    fn name(self) -> &'static str {
        match self {
            CompactionReason::Levels => "levels",
            CompactionReason::BlobGarbage => "blob_garbage",
            CompactionReason::Expired => "expired",
            CompactionReason::Caller => "caller",
        }
    }
}

/// Whether writers wait for the background.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stall {
    /// They do not.
    #[default]
    None,
    /// They are slowed down to a rate.
    Slowdown(StallCause),
    /// They wait until the cause is gone.
    Stop(StallCause),
}

/// Why writers wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum StallCause {
    /// Memtables wait for their flush.
    Memtables,
    /// Level 0 has many tables.
    Level0,
    /// Compactions have much to do.
    Debt,
}

impl Stall {
    /// The names of state and cause, as [`Event::visit`] has them.
    fn names(self) -> (&'static str, Option<&'static str>) {
        let cause = |cause| match cause {
            StallCause::Memtables => Some("memtables"),
            StallCause::Level0 => Some("level0"),
            StallCause::Debt => Some("debt"),
        };
        match self {
            Stall::None => ("none", None),
            Stall::Slowdown(why) => ("slowdown", cause(why)),
            Stall::Stop(why) => ("stop", cause(why)),
        }
    }
}

/// A field of an event, see [`Event::visit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventField<'a> {
    /// A count, a size in bytes, a time in nanoseconds; or 1 for yes and 0 for no.
    Number(u64),
    /// The numbers of files.
    Numbers(&'a [u64]),
    /// A name, a path or a message.
    Text(&'a str),
}

impl Event {
    /// The name of its kind, such as `flush_ended`: `docs/engines/flodb.md` has all of them.
    ///
    /// ```
    /// use keyrack_flodb::{Db, Event, Options};
    /// use std::sync::{Arc, Mutex};
    ///
    /// let told = Arc::new(Mutex::new(Vec::new()));
    /// let tell = Arc::clone(&told);
    /// let listener = move |event: &Event| tell.lock().unwrap().push(event.name());
    /// # let fs = Arc::new(keyrack_vfs::MemFs::new());
    /// let db = Db::open_in(fs, "/store".as_ref(), Options::new().listener(listener))?;
    /// db.put(b"key", b"value")?;
    /// db.flush()?;
    /// db.close()?;
    /// assert_eq!(*told.lock().unwrap(), ["flush_begun", "flush_ended"]);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Event::FlushBegun { .. } => "flush_begun",
            Event::FlushEnded { .. } => "flush_ended",
            Event::CompactionBegun { .. } => "compaction_begun",
            Event::CompactionEnded { .. } => "compaction_ended",
            Event::WriteStall { .. } => "write_stall",
            Event::BackgroundErrorRaised { .. } => "background_error_raised",
            Event::BackgroundErrorCleared { .. } => "background_error_cleared",
            Event::Ingested { .. } => "ingested",
            Event::CheckpointMade { .. } => "checkpoint_made",
            Event::FileRemoved { .. } => "file_removed",
            Event::Lost { .. } => "lost",
        }
    }

    /// Shows each field with its name, for a log or another language.
    ///
    /// ```
    /// use keyrack_flodb::{Db, Event, EventField, Options};
    ///
    /// let listener = |event: &Event| {
    ///     event.visit(&mut |name, field| {
    ///         if let (Event::FlushEnded { .. }, EventField::Numbers(files)) = (event, field) {
    ///             assert!(name == "tables" && files.len() == 1 || name == "blobs");
    ///         }
    ///     });
    /// };
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// let db = Db::open_in(fs, "/store".as_ref(), Options::new().listener(listener))?;
    /// db.put(b"key", b"value")?;
    /// db.flush()?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    pub fn visit(&self, visit: &mut dyn FnMut(&'static str, EventField<'_>)) {
        use EventField::{Number, Numbers, Text};
        match self {
            Event::FlushBegun { job, memtable_bytes } => {
                visit("job", Number(*job));
                visit("memtable_bytes", Number(*memtable_bytes));
            }
            Event::FlushEnded { job, duration, result } => {
                visit("job", Number(*job));
                visit_end(*duration, result, visit);
            }
            Event::CompactionBegun { job, reason, level, output_level, tables, table_bytes } => {
                visit("job", Number(*job));
                visit("reason", Text(reason.name()));
                visit("level", Number(*level as u64));
                visit("output_level", Number(*output_level as u64));
                visit("tables", Numbers(tables));
                visit("table_bytes", Number(*table_bytes));
            }
            Event::CompactionEnded { job, level, output_level, duration, result } => {
                visit("job", Number(*job));
                visit("level", Number(*level as u64));
                visit("output_level", Number(*output_level as u64));
                visit_end(*duration, result, visit);
            }
            Event::WriteStall { stall } => {
                let (state, cause) = stall.names();
                visit("state", Text(state));
                cause.into_iter().for_each(|cause| visit("cause", Text(cause)));
            }
            Event::BackgroundErrorRaised { error, is_final } => {
                visit("error", Text(&error.to_string()));
                visit("is_final", Number((*is_final).into()));
            }
            Event::BackgroundErrorCleared { error } => visit("error", Text(&error.to_string())),
            Event::Ingested { tables, table_bytes, entries } => {
                visit("tables", Numbers(tables));
                visit("table_bytes", Number(*table_bytes));
                visit("entries", Number(*entries));
            }
            Event::CheckpointMade { path } | Event::FileRemoved { path } => {
                visit("path", Text(&path.to_string_lossy()));
            }
            Event::Lost { events } => visit("events", Number(*events)),
        }
    }
}

/// The fields of the end of a job.
fn visit_end(
    duration: Duration,
    result: &Result<Outputs>,
    visit: &mut dyn FnMut(&'static str, EventField<'_>),
) {
    use EventField::{Number, Numbers, Text};
    let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    visit("duration_ns", Number(ns));
    match result {
        Ok(outputs) => {
            visit("tables", Numbers(&outputs.tables));
            visit("table_bytes", Number(outputs.table_bytes));
            visit("blobs", Numbers(&outputs.blobs));
            visit("blob_bytes", Number(outputs.blob_bytes));
        }
        Err(error) => visit("error", Text(&error.to_string())),
    }
}

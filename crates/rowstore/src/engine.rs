//! The engine `rowstore`: the row store behind the contract of stores. A value is a row of one
//! value.
//!
//! | contract | here |
//! |---|---|
//! | durability `os` (the default), `none`, `interval:MS`, `sync` | that of the log; each write is a batch of one |
//! | `update` | the closure runs once, under the lock of one node; it must not use the store |
//! | `apply` | one record of the log: all or nothing after a crash. Batches exclude each other; readers and single writes may see a part of a batch |
//! | scans | weakly consistent: ordered, each key at most once, every key that was there all along |
//! | an error of the log | the write is visible and not durable; the session logs it with its next write |

use crate::error::out_of_memory;
use crate::options::{Eviction, Options};
use crate::record::{RECORD_HEAD_BYTES, entry_bytes};
use crate::row::HEAD_BYTES;
use crate::session::Session as RowStoreSession;
use crate::user_keys::UserKeys;
use crate::{RowSession, RowStore, Rows};
use keyrack_store::{
    Batch, BatchOp, Durability, Engine, EngineOption, Error, OpenOptions, Removed, Result, Session,
    Store, StoreInfo, Update, WriteOptions,
};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The engine's descriptor.
#[must_use]
pub fn engine() -> Engine {
    Engine {
        name: "rowstore",
        about: "masstree in memory, with logs and checkpoints on disk",
        persistent: true,
        stores: true,
        options: &[
            EngineOption {
                key: "logs",
                default: "1",
                about: "logs, which sessions use round robin",
            },
            EngineOption {
                key: "segment_bytes",
                default: "128M",
                about: "bytes of a segment of a log, a power of two; rows have at most half",
            },
            EngineOption {
                key: "checkpoint_log_bytes",
                default: "256M",
                about: "bytes of log after which a checkpoint begins; 0 for none",
            },
            EngineOption {
                key: "checkpoint_on_close",
                default: "no",
                about: "whether closing writes a checkpoint",
            },
            EngineOption {
                key: "threads",
                default: "0",
                about: "threads of a checkpoint and of a recovery; 0 for one a processor",
            },
            EngineOption {
                key: "memory_max",
                default: "0",
                about: "maximum bytes of rows in memory; 0 for no limit",
            },
            EngineOption {
                key: "eviction",
                default: "none",
                about: "what happens at memory_max: none (writes are refused) or clock",
            },
        ],
        open,
    }
}

fn open(given: &OpenOptions) -> Result<Box<dyn Store>> {
    let options = options_of(given)?;
    let rows = if options.durability == Durability::None {
        RowStore::in_memory(options)?
    } else {
        RowStore::open(given.fs.clone(), given.required_data_dir()?, options, &|_| {})?
    };
    Ok(Box::new(RowEngine { rows, batches: Mutex::default() }))
}

/// The options of a row store from those of an engine's section.
///
/// # Errors
/// [`Error::Usage`] that names key and value.
pub fn options_of(given: &OpenOptions) -> Result<Options> {
    let defaults = Options::default();
    let count = |key: &str, default: u64| -> Result<usize> {
        let value = given.size(key, default)?;
        usize::try_from(value).map_err(|_| Error::usage(format!("{key}: {value} is too many")))
    };
    let logs = count("logs", 1)?;
    if !(1..=crate::options::LOGS_MAX).contains(&logs) {
        let max = crate::options::LOGS_MAX;
        return Err(Error::usage(format!("logs: {logs} is not from 1 to {max}")));
    }
    let log_dirs = (0..logs).map(|log| match log {
        0 => PathBuf::from("log"),
        _ => PathBuf::from(format!("log-{log}")),
    });
    let eviction = match given.text("eviction") {
        None | Some("none") => Eviction::None,
        Some("clock") => Eviction::Clock,
        Some(other) => {
            return Err(Error::usage(format!("eviction: '{other}' is not one of none, clock")));
        }
    };
    let options = Options {
        // The default, unless the run asks for another.
        durability: given.durability.unwrap_or_default(),
        log_dirs: log_dirs.collect(),
        checkpoint_log_bytes: given.size("checkpoint_log_bytes", defaults.checkpoint_log_bytes)?,
        checkpoint_on_close: given.flag("checkpoint_on_close", false)?,
        threads: count("threads", 0)?,
        memory_max: given.size("memory_max", 0)?,
        eviction,
        ..defaults
    };
    let segment_bytes = given.size("segment_bytes", options.segment_bytes)?;
    Ok(options.with_segment_bytes(segment_bytes))
}

#[derive(Debug)]
struct RowEngine {
    rows: RowStore,
    /// Locked while a batch is applied.
    batches: Mutex<()>,
}

impl Store for RowEngine {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(EngineSession {
            engine: self,
            rows: UserKeys { rows: self.rows.own_session() },
            buffer: Vec::new(),
        }))
    }

    fn info(&self) -> StoreInfo {
        let durability = self.rows.durability();
        // Without a log nothing can be synced.
        let info = StoreInfo::new(self.rows.version(), durability)
            .with_synced_puts(durability != Durability::None);
        // A batch is one log record, as a group is.
        StoreInfo { batch_bytes_max: self.rows.options().group_bytes_max, ..info }
    }

    fn stats(&self, visit: &mut dyn FnMut(&str, f64)) {
        self.rows.stats(visit);
    }

    fn data_dir(&self) -> Option<&Path> {
        self.rows.dir()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Box::new(self.rows).close()
    }
}

struct EngineSession<'a> {
    engine: &'a RowEngine,
    rows: UserKeys<RowStoreSession<'a>>,
    /// For [`Session::update`].
    buffer: Vec<u8>,
}

impl EngineSession<'_> {
    /// Logs the writes of the session, and makes them as durable as the store promises.
    fn commit(&mut self) -> Result<()> {
        let position = self.rows.flush()?;
        if self.engine.rows.durability() == Durability::Sync {
            self.engine.rows.sync(position)?;
        }
        Ok(())
    }

    /// Checks all limits before a batch is applied, so that it does not fail halfway.
    fn check(&self, batch: &Batch) -> Result<()> {
        let options = self.engine.rows.options();
        let entry = |op: BatchOp<'_>| match op {
            BatchOp::Put(key, value) => entry_bytes(key.len(), Some(value.len() + HEAD_BYTES)),
            BatchOp::Remove(key) => entry_bytes(key.len(), None),
        };
        let record = batch.iter().map(entry).fold(RECORD_HEAD_BYTES, usize::saturating_add);
        if record > options.group_bytes_max {
            return Err(Error::usage(format!(
                "a batch takes {record} bytes of log; at most {} are possible",
                options.group_bytes_max
            )));
        }
        let added = batch.bytes() as i64 + crate::memory::cost(0, 0) * batch.len() as i64;
        if !self.engine.rows.has_room(added) {
            return Err(out_of_memory(options));
        }
        for op in batch.iter() {
            let (key, row) = match op {
                BatchOp::Put(key, value) => (key, value.len().saturating_add(HEAD_BYTES)),
                BatchOp::Remove(key) => (key, 0),
            };
            if key.len() > options.key_bytes_max || row > options.row_bytes_max {
                return Err(Error::usage(format!(
                    "a key of {} bytes and a row of {row} bytes; at most {} and {} are possible",
                    key.len(),
                    options.key_bytes_max,
                    options.row_bytes_max
                )));
            }
        }
        Ok(())
    }
}

impl Session for EngineSession<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.rows.get(key, &mut |row| visit(row.value()))
    }

    fn multi_get(
        &mut self,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.rows.multi_get(keys, &mut |index, row| visit(index, row.map(|row| row.value())))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.rows.put(key, value, 0, 0)?;
        self.commit()
    }

    fn put_with(&mut self, key: &[u8], value: &[u8], options: WriteOptions) -> Result<()> {
        if !options.sync {
            return self.put(key, value);
        }
        if self.engine.rows.durability() == Durability::None {
            return Err(Error::usage("with durability none there is no log to sync"));
        }
        self.rows.put(key, value, 0, 0)?;
        let position = self.rows.flush()?;
        self.engine.rows.sync(position)
    }

    fn remove(&mut self, key: &[u8]) -> Result<Removed> {
        let existed = self.rows.remove(key)?;
        self.commit()?;
        Ok(if existed { Removed::Existed } else { Removed::Absent })
    }

    fn update(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<&[u8]>, &mut Vec<u8>) -> Update,
    ) -> Result<()> {
        let buffer = &mut self.buffer;
        self.rows.update(key, &mut |row, new| {
            buffer.clear();
            let update = decide(row.map(|row| row.value()), buffer);
            if update == Update::Put {
                new.set_value(buffer);
            }
            update
        })?;
        self.commit()
    }

    fn scan(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<u64> {
        self.rows.scan(low, high, &mut |key, row| visit(key, row.value()))
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<u64> {
        self.rows.scan_rev(low, high, &mut |key, row| visit(key, row.value()))
    }

    fn apply(&mut self, batch: &Batch) -> Result<()> {
        self.check(batch)?;
        // The lock protects no data, so a panic of its holder does no harm.
        let _exclusive = self.engine.batches.lock().unwrap_or_else(PoisonError::into_inner);
        self.rows.rows.apply(batch)?;
        self.commit()
    }

    fn replace_all(&mut self, batch: &Batch) -> Result<()> {
        self.check(batch)?;
        let _exclusive = self.engine.batches.lock().unwrap_or_else(PoisonError::into_inner);
        self.rows.begin_group()?;
        let written = self.rows.clear().and_then(|()| {
            batch.iter().try_for_each(|op| match op {
                BatchOp::Put(key, value) => self.rows.put(key, value, 0, 0).map(|_| ()),
                BatchOp::Remove(key) => self.rows.remove(key).map(|_| ()),
            })
        });
        if let Err(error) = written {
            self.rows.cancel_group();
            return Err(error);
        }
        self.commit()
    }
}

//! What is tortured: the little that the runs ask of a store, for each engine that keeps files.
//!
//! ```text
//!   Engine --open--> Subject --writer--> Writer (one a thread): put, remove: back when on disk
//!                       |
//!                       +--> get, scan: what verify looks at
//! ```
//!
//! Sizes are small and follow from a number, so that each write is near the end of something: a
//! table, a segment, a checkpoint.

use crate::db::args::{check_store, explain};
use keyrack_console::Failure;
use keyrack_flodb::{Db, Options, WriteOptions};
use keyrack_rowstore::{Options as RowOptions, RowSession, RowStore, Rows};
use keyrack_store::Durability;
use keyrack_vfs::{Fs, RealFs};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A write is acknowledged when it is on disk.
const SYNCED: WriteOptions = WriteOptions { sync: true };

/// The engines by their names.
pub(super) const NAMES: [&str; 2] = ["flodb", "rowstore"];

/// An engine that keeps files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    Flodb,
    Rowstore,
}

/// A store, as far as it is tortured.
pub(super) trait Subject: Sync {
    /// A way to write for one thread.
    fn writer(&self) -> Result<Box<dyn Writer + '_>, Failure>;

    /// The value of a key.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure>;

    /// Everything, in order.
    fn scan(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Failure>;

    /// Ends it, and reports what failed.
    fn close(self: Box<Self>) -> Result<(), Failure>;
}

/// Writes that are on disk when they return.
pub(super) trait Writer {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure>;
    fn remove(&mut self, key: &[u8]) -> Result<(), Failure>;
}

impl Engine {
    pub(super) fn of(name: &str) -> Result<Self, Failure> {
        match name {
            "flodb" => Ok(Engine::Flodb),
            "rowstore" => Ok(Engine::Rowstore),
            _ => Err(Failure::Usage(keyrack_store::unknown("engine", name, &NAMES))),
        }
    }

    /// Opens the store in `dir`, and makes one if none is there.
    pub(super) fn open(self, dir: &Path, draw: u64) -> Result<Box<dyn Subject>, Failure> {
        match self {
            Engine::Flodb => Ok(Box::new(Db::open(dir, options(draw))?)),
            Engine::Rowstore => open_rows(dir, draw),
        }
    }

    /// Opens the store in `dir`; `None` if none is there.
    pub(super) fn open_there(
        self,
        dir: &Path,
        draw: u64,
    ) -> Result<Option<Box<dyn Subject>>, Failure> {
        match self {
            Engine::Flodb => {
                if check_store(&RealFs, dir).is_err() {
                    return Ok(None);
                }
                let options = Options { create_if_missing: false, ..options(draw) };
                let db = Db::open(dir, options).map_err(|error| explain(dir, error))?;
                Ok(Some(Box::new(db)))
            }
            Engine::Rowstore => {
                if !RealFs.exists(dir)? || RealFs.list(dir)?.is_empty() {
                    return Ok(None);
                }
                Ok(Some(open_rows(dir, draw)?))
            }
        }
    }
}

fn options(draw: u64) -> Options {
    Options {
        memtable_bytes: 64 << 10 << (draw % 4),
        segment_bytes: 64 << 10 << (draw / 4 % 4),
        table_bytes: 32 << 10 << (draw / 16 % 4),
        level0_tables: 2 + (draw / 64 % 3) as usize,
        level_base_bytes: 128 << 10,
        cache_bytes: 1 << 20,
        ..Options::default()
    }
}

impl Subject for Db {
    fn writer(&self) -> Result<Box<dyn Writer + '_>, Failure> {
        Ok(Box::new(self))
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        Ok(Db::get(self, key)?)
    }

    fn scan(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Failure> {
        let mut scan = self.iter()?;
        scan.seek_first()?;
        while let Some((key, value)) = scan.entry() {
            visit(key, value);
            scan.next()?;
        }
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(Db::close(*self)?)
    }
}

impl Writer for &Db {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        Ok(self.put_with(key, value, SYNCED)?)
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), Failure> {
        Ok(self.delete_with(key, SYNCED)?)
    }
}

/// From one opening to the next the number of logs changes, too.
fn open_rows(dir: &Path, draw: u64) -> Result<Box<dyn Subject>, Failure> {
    let logs = 1 + draw / 4 % 3;
    let options = RowOptions {
        durability: Durability::Sync,
        log_dirs: (0..logs).map(|log| PathBuf::from(format!("log-{log}"))).collect(),
        checkpoint_log_bytes: 32 << 10 << (draw / 16 % 4),
        checkpoint_on_close: (draw / 64).is_multiple_of(2),
        checkpoint_parts: 1 + (draw / 128 % 3) as usize,
        ..RowOptions::default()
    };
    let options = options.with_segment_bytes(128 << 10 << (draw % 4));
    let rows = RowStore::open(Arc::new(RealFs), dir, options, &|_| {})?;
    Ok(Box::new(Tables { rows }))
}

/// A row store: each row is one value.
struct Tables {
    rows: RowStore,
}

impl Subject for Tables {
    fn writer(&self) -> Result<Box<dyn Writer + '_>, Failure> {
        Ok(Box::new(RowWriter { rows: &self.rows, session: self.rows.session()? }))
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let mut value = None;
        self.rows.session()?.get(key, &mut |row| value = Some(row.value().to_vec()))?;
        Ok(value)
    }

    fn scan(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Failure> {
        let mut each = |key: &[u8], row: keyrack_rowstore::Row<'_>| {
            visit(key, row.value());
            ControlFlow::Continue(())
        };
        self.rows.session()?.scan(b"", None, &mut each)?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        Ok(Rows::close(Box::new(self.rows))?)
    }
}

struct RowWriter<'a> {
    rows: &'a RowStore,
    session: Box<dyn RowSession + 'a>,
}

impl RowWriter<'_> {
    fn wait(&mut self) -> Result<(), Failure> {
        let position = self.session.flush()?;
        if !self.session.is_durable(position) {
            self.rows.sync(position)?;
        }
        Ok(())
    }
}

impl Writer for RowWriter<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.session.put(key, value, 0, 0)?;
        self.wait()
    }

    fn remove(&mut self, key: &[u8]) -> Result<(), Failure> {
        self.session.remove(key)?;
        self.wait()
    }
}

//! Opens what holds the rows.

use crate::engines;
use keyrack_rowstore::{Eviction, Options as RowOptions, Progress, RowStore, Rows, StoreRows};
use keyrack_server::{Error, Options};
use keyrack_store::{Durability, OpenOptions};
use keyrack_vfs::Fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a row may have beside its value: a hash with many small fields, the row's head.
const ROW_MARGIN_BYTES: usize = 1 << 20;

/// The smallest segment of a log that is used.
const SEGMENT_BYTES: u64 = 128 << 20;

/// Opens the engine that the options name.
pub(super) fn open(options: &Options, fs: &Arc<dyn Fs>) -> Result<Box<dyn Rows>, Error> {
    let dir = options.data_dir.as_deref();
    match (options.engine.as_str(), dir) {
        ("rowstore", Some(dir)) => {
            let shown = AtomicU64::new(0);
            let report = |progress: Progress| show(progress, &shown);
            Ok(Box::new(RowStore::open(Arc::clone(fs), dir, row_options(options), &report)?))
        }
        ("masstree", _) => Ok(Box::new(RowStore::in_memory(row_options(options))?)),
        (name, _) => {
            let registry = engines::registry();
            let Some(engine) = registry.find(name) else {
                return Err(Error::usage(format!("engine '{name}' is not in this build")));
            };
            if let Some(dir) = dir {
                fs.create_dir_all(dir)?;
            }
            let open = OpenOptions {
                data_dir: options.data_dir.clone(),
                durability: Some(options.durability()),
                ..OpenOptions::in_memory(Arc::clone(fs))
            };
            Ok(Box::new(StoreRows::new((engine.open)(&open)?)?))
        }
    }
}

/// What the row store is opened with, by the options of a server.
pub(crate) fn row_options(options: &Options) -> RowOptions {
    let by_itself = RowOptions::default();
    // The protocols' limits differ only where nothing was said; Redis' is the larger one.
    let value_bytes_max = usize::try_from(options.resp_value_bytes_max()).unwrap_or(usize::MAX);
    let row_bytes_max =
        by_itself.row_bytes_max.max(value_bytes_max.saturating_add(ROW_MARGIN_BYTES));
    // A record holds a batch, a key and a row.
    let record = row_bytes_max + by_itself.key_bytes_max + by_itself.batch_bytes_max + (64 << 10);
    RowOptions {
        durability: match options.engine.as_str() {
            "masstree" => Durability::None,
            _ => options.durability(),
        },
        row_bytes_max,
        log_dirs: match options.log_dirs.as_slice() {
            [] => by_itself.log_dirs,
            dirs => dirs.to_vec(),
        },
        checkpoint_log_bytes: options.checkpoint_log_bytes,
        segment_bytes: (record as u64).next_power_of_two().max(SEGMENT_BYTES),
        memory_max: options.memory_bytes_max,
        eviction: match options.eviction {
            keyrack_server::Eviction::None => Eviction::None,
            keyrack_server::Eviction::Clock => Eviction::Clock,
        },
        ..by_itself
    }
}

/// A line for each tenth of a recovery.
pub(crate) fn show(progress: Progress, shown: &AtomicU64) {
    let tenth = progress.percent() / 10;
    if shown.fetch_max(tenth, Ordering::Relaxed) < tenth {
        tracing::info!(rows = progress.rows, percent = tenth * 10, "loading");
    }
}

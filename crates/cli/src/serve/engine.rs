//! Opens what holds the rows.

use crate::engines;
use keyrack_console::{log_progress, row_options};
use keyrack_rowstore::{Progress, RowStore, Rows, StoreRows};
use keyrack_server::{Control, Error, Options};
use keyrack_store::OpenOptions;
use keyrack_vfs::Fs;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

pub(crate) fn open(
    options: &Options,
    fs: &Arc<dyn Fs>,
    control: &Control,
) -> Result<Box<dyn Rows>, Error> {
    let dir = options.data_dir.as_deref();
    match (options.engine.as_str(), dir) {
        ("rowstore", Some(dir)) => {
            let shown = AtomicU64::new(0);
            let report = |progress: Progress| log_progress(progress, &shown, control);
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

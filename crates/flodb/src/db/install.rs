//! Putting new tables into the store: first into the manifest, then into the read state.

use super::Inner;
use crate::error::Result;
use crate::memtable::Memtable;
use crate::open_blob::{BlobFiles, OpenBlob};
use crate::open_table::OpenTable;
use crate::read_state::{ReadState, Tables};
use crate::version::VersionEdit;
use keyrack_concurrent::pin;
use std::collections::HashMap;
use std::sync::Arc;

impl Inner {
    /// Makes `edit` true: logs it, and exchanges the read state for one with the tables and blob
    /// files that it adds, without those that it deletes, and without `flushed`.
    ///
    /// After a failure it is not known whether the manifest has the edit: `added` stay on disk
    /// until another has succeeded.
    pub(crate) fn install(
        &self,
        edit: &VersionEdit,
        (added, blobs): (&[Arc<OpenTable>], &[Arc<OpenBlob>]),
        flushed: Option<&Arc<Memtable>>,
    ) -> Result<()> {
        let mut manifest = self.tables.manifest.lock();
        // Tables that were taken in meanwhile may have a larger number.
        let last_sequence = edit.last_sequence.map(|it| it.max(manifest.state().last_sequence));
        manifest.log(&VersionEdit { last_sequence, ..edit.clone() }).inspect_err(|_| {
            let mut orphans = self.tables.orphaned_outputs.lock();
            orphans.tables.extend(added.iter().cloned());
            orphans.blobs.extend(blobs.iter().cloned());
        })?;
        // The edits that named them do not count: this one, without them, does.
        self.tables.orphaned_outputs.lock().set_obsolete();
        let version = Arc::clone(&manifest.state().version);
        let exchange = self.read_path.lock_exchange();
        let read_state = self.read_state();
        let mut open: HashMap<u64, Arc<OpenTable>> = HashMap::new();
        for table in read_state.levels.iter().flat_map(|tables| tables.iter()).chain(added) {
            open.insert(table.file().number, Arc::clone(table));
        }
        let levels = std::array::from_fn(|level| -> Tables {
            let open = version.files(level).iter().map(|file| open.remove(&file.number));
            open.map(|table| table.expect("an edit adds only tables that are open")).collect()
        });
        let blobs = read_state.blobs.iter().chain(blobs).cloned();
        let blobs = Arc::new(BlobFiles::of_version(version.blobs().values(), blobs));
        let kept = |memtable: &&Arc<Memtable>| {
            flushed.is_none_or(|flushed| !Arc::ptr_eq(memtable, flushed))
        };
        let memtables = read_state.memtables.iter().filter(kept).cloned().collect();
        // What is left is named by no version.
        open.values().for_each(|table| table.set_obsolete());
        self.read_path.replace(ReadState::new(memtables, version, levels, blobs), &exchange);
        self.update_write_controller();
        drop((open, read_state));
        free_exchanged();
        Ok(())
    }

    /// Sets the write controller for the current read state: writers go on, are slowed down, or
    /// stop.
    pub(crate) fn update_write_controller(&self) {
        let read_state = self.read_state();
        let (immutable, level0) = (read_state.memtables.len() - 1, read_state.levels[0].len());
        let (options, throughput) = (&self.options, &self.compaction.throughput);
        let controller = &self.write_path.controller;
        let immutable_max = options.immutable_memtables_max;
        // Without threads that compact, a writer would wait for nothing.
        let compacts = options.compaction_threads > 0;
        if immutable > immutable_max || (compacts && level0 >= options.level0_stop) {
            controller.stop();
            return;
        }
        // A tenth slower than flushes, so that the memtables never fill up.
        let flush = throughput.flush().filter(|_| immutable > 0 && immutable == immutable_max);
        let flush = flush.map(|rate| rate - rate / 10);
        // From twice the rate of compactions of level 0 down to nothing, evenly.
        let merge = throughput.level0().filter(|_| compacts && level0 >= options.level0_slow);
        let span = (options.level0_stop - options.level0_slow).max(1) as u64;
        let left = options.level0_stop.saturating_sub(level0) as u64;
        let merge = merge.map(|rate| rate.saturating_mul(2 * left) / span);
        match flush.into_iter().chain(merge).min() {
            Some(bytes_per_ms) => controller.slow_down(bytes_per_ms),
            None => controller.release(),
        }
    }
}

/// Frees the read states that this thread has exchanged and nobody reads any more. They keep memory
/// and files, so they do not wait until there are many.
pub(crate) fn free_exchanged() {
    // The first time ends their lives, the second finds nobody pinned since.
    pin().flush();
    pin().flush();
}

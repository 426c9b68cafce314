//! Putting new tables into the store: first into the manifest, then into the read state.

use super::{Inner, lock};
use crate::error::Result;
use crate::memtable::Memtable;
use crate::open_table::OpenTable;
use crate::read_state::{ReadState, Tables};
use crate::version::VersionEdit;
use keyrack_concurrent::pin;
use std::collections::HashMap;
use std::sync::Arc;

impl Inner {
    /// Makes `edit` true: logs it, and exchanges the read state for one with the tables that it
    /// adds, without those that it deletes, and without `flushed`.
    ///
    /// After a failure it is not known whether the manifest has the edit: `added` stay on disk
    /// until another has succeeded.
    pub(crate) fn install(
        &self,
        edit: &VersionEdit,
        added: &[Arc<OpenTable>],
        flushed: Option<&Arc<Memtable>>,
    ) -> Result<()> {
        let mut manifest = lock(&self.manifest);
        // Tables that were taken in meanwhile may have a larger number.
        let last_sequence = edit.last_sequence.map(|it| it.max(manifest.state().last_sequence));
        manifest.log(&VersionEdit { last_sequence, ..edit.clone() }).inspect_err(|_| {
            lock(&self.orphaned_outputs).extend(added.iter().cloned());
        })?;
        // The edits that named them do not count: this one, without them, does.
        lock(&self.orphaned_outputs).drain(..).for_each(|table| table.set_obsolete());
        let version = Arc::clone(&manifest.state().version);
        let _exchange = lock(&self.exchange);
        let read_state = self.read_state();
        let mut open: HashMap<u64, Arc<OpenTable>> = HashMap::new();
        for table in read_state.levels.iter().flat_map(|tables| tables.iter()).chain(added) {
            open.insert(table.file().number, Arc::clone(table));
        }
        let levels = std::array::from_fn(|level| -> Tables {
            let open = version.files(level).iter().map(|file| open.remove(&file.number));
            open.map(|table| table.expect("an edit adds only tables that are open")).collect()
        });
        let kept = |memtable: &&Arc<Memtable>| {
            flushed.is_none_or(|flushed| !Arc::ptr_eq(memtable, flushed))
        };
        let memtables = read_state.memtables.iter().filter(kept).cloned().collect();
        // What is left is named by no version.
        open.values().for_each(|table| table.set_obsolete());
        self.read_state.store(Arc::new(ReadState::new(memtables, version, levels)), &pin());
        self.update_write_controller();
        drop((open, read_state));
        free_exchanged();
        Ok(())
    }

    /// Opens, narrows or shuts the write controller, as the read state asks for.
    pub(crate) fn update_write_controller(&self) {
        let read_state = self.read_state();
        let (frozen, level0) = (read_state.memtables.len() - 1, read_state.levels[0].len());
        let options = &self.options;
        // Where nobody compacts, there is nobody to wait for.
        let compacts = options.compaction_threads > 0;
        if frozen > options.immutable_memtables_max || (compacts && level0 >= options.level0_stop) {
            self.write_controller.stop();
            return;
        }
        // As fast as memory is written out, or a little less: then it is never full.
        let memory = self
            .throughput
            .flush()
            .filter(|_| frozen > 0 && frozen == options.immutable_memtables_max);
        let memory = memory.map(|speed| speed - speed / 10);
        // From twice as fast as level 0 is merged down to nothing, evenly.
        let level0_speed =
            self.throughput.level0().filter(|_| compacts && level0 >= options.level0_slow);
        let span = (options.level0_stop - options.level0_slow).max(1) as u64;
        let left = options.level0_stop.saturating_sub(level0) as u64;
        let level0_speed = level0_speed.map(|speed| speed.saturating_mul(2 * left) / span);
        match memory.into_iter().chain(level0_speed).min() {
            Some(bytes_per_ms) => self.write_controller.slow_down(bytes_per_ms),
            None => self.write_controller.release(),
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

//! Putting new tables into the store: first into the manifest, then into the read state.

use super::Inner;
use super::ranked_lock::RankedGuard;
use super::read_path::Exchange;
use crate::error::Result;
use crate::manifest::Manifest;
use crate::memtable::Memtable;
use crate::open_blob::{BlobFiles, OpenBlob};
use crate::open_table::OpenTable;
use crate::read_state::{ReadState, Tables};
use crate::snapshot::Closed;
use crate::version::VersionEdit;
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
        self.install_locked(self.tables.manifest.lock(), None, edit, (added, blobs), flushed)
    }

    /// The same, as long as nobody looks at a moment: `false` if anybody does, and then nothing
    /// was done. Snapshots and transactions that begin meanwhile wait for the end.
    pub(crate) fn install_unpinned(
        &self,
        edit: &VersionEdit,
        added: (&[Arc<OpenTable>], &[Arc<OpenBlob>]),
    ) -> Result<bool> {
        // First: whoever has this lock may wait for the moments.
        let manifest = self.tables.manifest.lock();
        let Some(closed) = self.read_path.snapshots.close() else { return Ok(false) };
        self.install_locked(manifest, Some(closed), edit, added, None)?;
        Ok(true)
    }

    fn install_locked(
        &self,
        mut manifest: RankedGuard<'_, Manifest>,
        closed: Option<Closed<'_>>,
        edit: &VersionEdit,
        (added, blobs): (&[Arc<OpenTable>], &[Arc<OpenBlob>]),
        flushed: Option<&Arc<Memtable>>,
    ) -> Result<()> {
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
        let memtables: Vec<_> = read_state.memtables.iter().filter(kept).cloned().collect();
        // What is left is named by no version.
        open.values().for_each(|table| table.set_obsolete());
        let next = ReadState::new(memtables, version, levels, blobs, &self.garbage);
        let old = self.read_path.replace(next, &exchange);
        drop(closed);
        self.update_write_controller(&exchange);
        drop(exchange);
        drop(manifest);
        // Writers wait for the exchange lock, and files take their time to go.
        self.garbage.leave(open);
        drop(read_state);
        self.garbage.leave_exchanged(old);
        self.tables.reader.cache.settle();
        Ok(())
    }

    /// Sets the write controller for the current read state: writers go on, are slowed down, or
    /// stop. Under the exchange lock: otherwise the state of an older read state could come last,
    /// and writers would stop until the next exchange.
    pub(crate) fn update_write_controller(&self, _exchange: &Exchange<'_>) {
        self.write_path.controller.set(self.pace());
    }
}

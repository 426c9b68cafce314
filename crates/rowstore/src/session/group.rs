//! The writes of a group and of a batch: one record, whose size is checked before any change.

use super::Session;
use super::write::{Outcome, admit};
use crate::group::{Found, Group, Wanted, decide_on};
use crate::keys;
use crate::memory::cost;
use crate::row::{HEAD_BYTES, set_version};
use crate::watermarks::hash;
use crate::{Position, Row, RowBuf, RowSession};
use keyrack_concurrent::pin;
use keyrack_store::{Batch, BatchOp, Result, Update};

impl Session<'_> {
    /// As [`RowSession::update`], but the write is pending in the group.
    pub(super) fn update_group(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<Row<'_>>, &mut RowBuf) -> Update,
    ) -> Result<u64> {
        self.check(key)?;
        self.group.as_ref().map_or(Ok(()), Group::check)?;
        let core = self.core;
        let Some(mut group) = self.group.take() else { return Ok(0) };
        let guard = pin();
        let decision = match group.find(key) {
            Found::Pending(row) => decide_on(row.map(Row::of), self.now_ms, &mut self.row, decide),
            Found::Stored => {
                let bytes = core.tree.get_hinted(key, &guard, &mut self.hint);
                // The watermark is above a dead row, so its version does not matter.
                let row = bytes.as_deref().map(Row::of).filter(|row| !core.is_dead(row));
                decide_on(row, self.now_ms, &mut self.row, decide)
            }
        };
        group.hold(&core.collections, key, &decision.wanted);
        let memory = |bytes: usize| cost(key.len(), bytes);
        let old_memory = decision.old_bytes.map_or(0, memory);
        let was_there = decision.old_bytes.is_some();
        let outcome = match decision.wanted {
            Wanted::Keep => Ok(Outcome::Kept),
            Wanted::Remove => group.write(key, None, was_there).map(|()| {
                group.memory_added -= old_memory;
                Outcome::Removed(0)
            }),
            Wanted::Put(mut bytes) => {
                let watermark = core.watermarks.of(hash(key));
                let version = decision.old_version.max(self.clock).max(watermark) + 1;
                set_version(&mut bytes, version);
                let (row_bytes, new_memory) = (bytes.len(), memory(bytes.len()));
                let own = self.unreported_bytes.saturating_add(group.memory_added);
                match admit(core, row_bytes, new_memory, old_memory, own) {
                    Err(outcome) => Ok(outcome),
                    Ok(()) => group.write(key, Some(bytes), was_there).map(|()| {
                        group.memory_added += new_memory - old_memory;
                        Outcome::Written(version)
                    }),
                }
            }
        };
        self.group = Some(group);
        if let Ok(Outcome::Written(version)) = outcome {
            self.note(version);
        }
        self.result_of(outcome?)
    }

    /// Applies the writes of a group, whose size was checked, to the tree and the record.
    ///
    /// # Panics
    /// If the record is larger than the size that was checked.
    pub(super) fn apply_group(&mut self, group: &Group) {
        self.is_atomic = true;
        let bytes_max = group.bytes();
        if let Some(version) = group.clear_version() {
            self.clear_now(version);
        }
        // Removals last: they raise watermarks, and rows keep the versions that they have got.
        for (key, row) in group.writes().filter(|(_, row)| row.is_some()) {
            self.apply_one(key, row);
        }
        for (key, _) in group.writes().filter(|(_, row)| row.is_none()) {
            self.apply_one(key, None);
        }
        let bytes = self.record.bytes().len();
        assert!(bytes <= bytes_max, "a record of {bytes} bytes was counted as {bytes_max}");
        self.is_atomic = false;
    }

    fn apply_one(&mut self, key: &[u8], row: Option<&[u8]>) {
        let entry = self.begin(key);
        match row {
            Some(row) => {
                let version = Some(Row::of(row).version());
                self.change(key, entry, version, |_, out| {
                    out.extend_from_slice(row);
                    Update::Put
                });
            }
            None => {
                self.change(key, entry, None, |_, _| Update::Remove);
            }
        }
    }

    /// Applies a batch of user keys, whose size was checked, as one record.
    pub(crate) fn apply(&mut self, batch: &Batch) -> Result<Position> {
        self.flush()?;
        let added = batch.bytes() as i64 + cost(0, HEAD_BYTES) * batch.len() as i64;
        self.make_room(added)?;
        self.append_record()?;
        self.is_atomic = true;
        let outcome = batch.iter().try_for_each(|op| match op {
            BatchOp::Put(key, value) => self.put(&keys::stored(key), value, 0, 0).map(|_| ()),
            BatchOp::Remove(key) => self.remove(&keys::stored(key)).map(|_| ()),
        });
        self.is_atomic = false;
        outcome.and_then(|()| self.append_record())
    }
}

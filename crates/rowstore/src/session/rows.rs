//! The contract of rows, as a session fulfils it.

use super::write::Outcome;
use super::{LogHandle, Session};
use crate::group::{Found, Group, RecordSize};
use crate::record::{RECORD_HEAD_BYTES, entry_bytes};
use crate::row::encode_value;
use crate::{Collection, Position, Row, RowBuf, RowSession};
use keyrack_concurrent::pin;
use keyrack_store::{Durability, Result, Update};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl RowSession for Session<'_> {
    fn at(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        // Relaxed: the sweeper may see it a moment later.
        self.core.now_ms.store(now_ms, Ordering::Relaxed);
    }

    #[inline]
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(Row<'_>)) -> Result<bool> {
        if let Some(group) = &self.group
            && let Found::Pending(row) = group.find(key)
        {
            let row = row.map(Row::of).filter(|row| !row.is_expired(self.now_ms));
            row.inspect(|row| visit(*row));
            return Ok(row.is_some());
        }
        let guard = pin();
        let bytes = self.core.tree.get_hinted(key, &guard, &mut self.hint);
        let row = bytes.as_deref().map(Row::of);
        let Some(row) = row.filter(|row| self.core.is_live(row, self.now_ms)) else {
            return Ok(false);
        };
        self.core.memory.note_read(key);
        visit(row);
        Ok(true)
    }

    fn multi_get(
        &mut self,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<Row<'_>>),
    ) -> Result<()> {
        if self.group.is_some() {
            for (index, key) in keys.iter().enumerate() {
                if !self.get(key, &mut |row| visit(index, Some(row)))? {
                    visit(index, None);
                }
            }
            return Ok(());
        }
        let (core, now_ms) = (self.core, self.now_ms);
        core.tree.multi_get(keys, &pin(), |index, bytes| {
            let row = bytes.as_deref().map(Row::of);
            let row = row.filter(|row| core.is_live(row, now_ms));
            if row.is_some() {
                core.memory.note_read(keys[index]);
            }
            visit(index, row);
        });
        Ok(())
    }

    fn prefetch(&mut self, keys: &[&[u8]]) {
        self.prefetched.clear();
        self.prefetched_used = 0;
        // One key alone gains nothing.
        if keys.len() > 1 {
            self.core.tree.multi_hint(keys, &pin(), &mut self.prefetched);
        }
    }

    fn update(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<Row<'_>>, &mut RowBuf) -> Update,
    ) -> Result<u64> {
        if self.group.is_some() {
            return self.update_group(key, decide);
        }
        let outcome = self.write(key, decide)?;
        self.result_of(outcome)
    }

    fn put(&mut self, key: &[u8], value: &[u8], flags: u32, expires_ms: u64) -> Result<u64> {
        if self.group.is_some() {
            return self.update_group(key, &mut |_, row| {
                row.set_value(value);
                row.set_flags(flags);
                row.set_expires_ms(expires_ms);
                Update::Put
            });
        }
        if value.len() > self.core.options.row_bytes_max {
            return self.result_of(Outcome::RowTooLarge(value.len()));
        }
        self.make_room(0)?;
        self.prepare(key)?;
        let entry = self.begin(key);
        // Before the lock is taken: only the version depends on the old row.
        encode_value(value, flags, expires_ms, self.record.tail());
        let outcome = self.change(key, entry, None, |_, _| Update::Put);
        self.result_of(outcome)
    }

    fn remove(&mut self, key: &[u8]) -> Result<bool> {
        if self.group.is_none() {
            return self.remove_if(key, |row| row.is_some());
        }
        let mut was_there = false;
        self.update_group(key, &mut |row, _| {
            was_there = row.is_some();
            if was_there { Update::Remove } else { Update::Keep }
        })?;
        Ok(was_there)
    }

    fn scan(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<u64> {
        Ok(self.visit_range((low, high), false, visit))
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<u64> {
        Ok(self.visit_range((low, high), true, visit))
    }

    fn create_collection(&mut self) -> Result<Arc<Collection>> {
        self.core.collections.create()
    }

    fn collection(&self, id: u64) -> Option<Arc<Collection>> {
        self.core.collections.get(id)
    }

    fn element_count(&self, collection: &Collection) -> u64 {
        let pending = self.group.as_ref().map_or(0, |group| group.elements_added(collection.id()));
        collection.len().saturating_add_signed(pending)
    }

    fn count(&self) -> u64 {
        let stored = self.core.count();
        self.group.as_ref().map_or(stored, |group| group.rows_after(stored))
    }

    fn clear(&mut self) -> Result<()> {
        let version = self.core.clock().max(self.clock);
        if let Some(group) = &mut self.group {
            group.clear(version)?;
            group.memory_added = -self.core.live_bytes();
            // The next writes of the group get versions above the clear.
            self.note(version);
            return Ok(());
        }
        self.prepare(b"")?;
        self.clear_now(version);
        Ok(())
    }

    fn begin_group(&mut self) -> Result<()> {
        self.flush()?;
        self.group = Some(Group::new(RecordSize {
            head_bytes: RECORD_HEAD_BYTES,
            entry_bytes,
            bytes_max: self.core.options.group_bytes_max,
        }));
        Ok(())
    }

    fn cancel_group(&mut self) {
        self.group = None;
    }

    fn commit_group(&mut self) -> Result<()> {
        // Every flush commits, and most have no group.
        let Some(group) = self.group.take() else { return Ok(()) };
        group.check()?;
        if !group.is_empty() {
            self.make_room(group.memory_added)?;
            self.append_record()?;
            self.apply_group(&group);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<Position> {
        self.row.shrink();
        self.commit_group()?;
        let position = self.append_record()?;
        self.forget_headers();
        Ok(position)
    }

    fn flush_headers(&mut self) -> Result<()> {
        if self.group.is_some() || self.headers.is_empty() {
            return Ok(());
        }
        let position = self.append_record()?;
        if let Some(LogHandle { disk, log }) = self.log
            && disk.logs.len() > 1
            && self.core.options.durability == Durability::Sync
        {
            // Each log is synced alone, so another could have an element before this one has the
            // header.
            disk.sync(log, position.lsn)?;
        }
        self.forget_headers();
        Ok(())
    }

    fn is_durable(&self, position: Position) -> bool {
        let Some(LogHandle { disk, .. }) = self.log else { return true };
        if self.core.options.durability != Durability::Sync {
            return true;
        }
        disk.logs.get(position.log as usize).is_none_or(|log| log.synced() >= position.lsn)
    }
}

impl Session<'_> {
    /// The headers are in the log.
    fn forget_headers(&mut self) {
        if !self.headers.is_empty() {
            self.core.collections.set_unlogged(&self.headers, false);
            self.headers.clear();
        }
    }

    /// Visits the live rows of a range. Returns how many.
    fn visit_range(
        &self,
        (low, high): (&[u8], Option<&[u8]>),
        is_reverse: bool,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> u64 {
        let (mut visited, core, now_ms) = (0, self.core, self.now_ms);
        let Some(group) = &self.group else {
            let each = |key: &[u8], row: Row<'_>| {
                if !core.is_live(&row, now_ms) {
                    return ControlFlow::Continue(());
                }
                visited += 1;
                visit(key, row)
            };
            self.visit_tree((low, high), is_reverse, each);
            return visited;
        };
        let mut merged = group.merge((low, high), is_reverse, now_ms, visit);
        if !group.is_cleared() {
            self.visit_tree((low, high), is_reverse, |key, row| {
                if core.is_dead(&row) { ControlFlow::Continue(()) } else { merged.stored(key, row) }
            });
        }
        merged.finish()
    }

    /// Visits all rows of a range in the tree, also dead and expired ones.
    fn visit_tree(
        &self,
        (low, high): (&[u8], Option<&[u8]>),
        is_reverse: bool,
        mut each: impl FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) {
        let tree = &self.core.tree;
        if is_reverse {
            tree.scan_rev(low, high, |key, bytes| each(key, Row::of(&bytes)));
        } else {
            tree.scan(low, high, |key, bytes| each(key, Row::of(&bytes)));
        }
    }
}

//! A session over a store of any kind.

use super::core::{Core, count_rows, entry_bytes, not_a_row};
use super::counts::RowCounts;
use super::mark::{self, MARK};
use super::writers::{WriterLock, lock};
use crate::collections::RowFacts;
use crate::group::{Found, Group, RecordSize, Wanted, decide_on};
use crate::keys;
use crate::row::set_version;
use crate::{Collection, Position, Row, RowBuf, RowSession};
use keyrack_store::{Batch, Result, Session, Update};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) struct StoreSession<'a> {
    pub(super) core: &'a Core,
    pub(super) session: Box<dyn Session + 'a>,
    pub(super) writer: WriterLock,
    now_ms: u64,
    row: RowBuf,
    group: Option<Group>,
}

impl Drop for StoreSession<'_> {
    fn drop(&mut self) {
        self.core.writers.unregister(&self.writer);
    }
}

impl<'a> StoreSession<'a> {
    pub(super) fn new(core: &'a Core) -> Result<Self> {
        let session = core.store.session()?;
        let writer = core.writers.register();
        Ok(StoreSession { core, session, writer, now_ms: 0, row: RowBuf::new(), group: None })
    }

    fn dir(&self) -> Option<&'a Path> {
        self.core.store.data_dir()
    }

    /// As [`RowSession::update`], into the group.
    fn update_group(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<Row<'_>>, &mut RowBuf) -> Update,
    ) -> Result<u64> {
        self.group.as_ref().map_or(Ok(()), Group::check)?;
        self.mark(key)?;
        let (core, now_ms, dir) = (self.core, self.now_ms, self.dir());
        let Some(group) = &mut self.group else { return Ok(0) };
        let decision = match group.find(key) {
            Found::Pending(row) => decide_on(row.map(Row::of), now_ms, &mut self.row, decide),
            Found::Stored => {
                let mut old = Vec::new();
                let found = self.session.get(key, &mut |value| old.extend_from_slice(value))?;
                let row = if found {
                    Some(Row::check(&old).ok_or_else(|| not_a_row(dir, key))?)
                } else {
                    None
                };
                decide_on(row, now_ms, &mut self.row, decide)
            }
        };
        group.hold(&core.collections, key, &decision.wanted);
        let was_there = decision.old_bytes.is_some();
        match decision.wanted {
            Wanted::Keep => Ok(0),
            Wanted::Remove => group.write(key, None, was_there).map(|()| 0),
            Wanted::Put(mut bytes) => {
                let version = core.version_after(decision.old_version);
                set_version(&mut bytes, version);
                group.write(key, Some(bytes), was_there).map(|()| version)
            }
        }
    }

    /// As [`RowSession::update`], but `decide` also sees an expired row.
    pub(super) fn update_stored(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<Row<'_>>, &mut RowBuf) -> Update,
    ) -> Result<u64> {
        self.mark(key)?;
        let (core, new, dir) = (self.core, &mut self.row, self.core.store.data_dir());
        let (mut version, mut is_bad, mut is_written) = (0, false, false);
        let (mut before, mut after) = (RowFacts::default(), RowFacts::default());
        let _held = lock(&self.writer);
        let outcome = self.session.update(key, &mut |old, out| {
            (version, is_bad, is_written) = (0, false, false);
            new.clear();
            let row = old.and_then(Row::check);
            if old.is_some() && row.is_none() {
                is_bad = true;
                return Update::Keep;
            }
            before = RowFacts::of(key, row.as_ref());
            after = before;
            match decide(row, new) {
                Update::Keep => Update::Keep,
                Update::Remove if old.is_none() => Update::Keep,
                Update::Remove => {
                    core.collections.save(key, row.as_ref());
                    after = RowFacts::default();
                    Update::Remove
                }
                Update::Put => {
                    version = core.version_after(row.map_or(0, |row| row.version()));
                    new.encode_over(row.as_ref(), 0, out);
                    set_version(out, version);
                    core.collections.save(key, row.as_ref());
                    let row = Row::of(out);
                    core.expiry.note(row.expires_ms());
                    after = RowFacts::of(key, Some(&row));
                    is_written = true;
                    Update::Put
                }
            }
        });
        if outcome.is_err() && before != after {
            // The store has either the old row or the new one.
            let found = facts_of(&mut *self.session, dir, &[key], &mut |_, _| {});
            after = found.map_or(before, |found| found[0]);
        }
        if is_written || before != after {
            core.note(key, before, after);
        }
        outcome?;
        if is_bad { Err(not_a_row(dir, key)) } else { Ok(version) }
    }

    /// Applies the writes of a group as one batch, while no other session writes.
    fn apply_group(&mut self, group: &Group) -> Result<()> {
        let mut batch = Batch::new();
        for (key, row) in group.writes() {
            match row {
                Some(row) => batch.put(key, row),
                None => batch.remove(key),
            }
        }
        let bytes = batch.logged_bytes();
        assert!(bytes <= group.bytes(), "{bytes} bytes were counted as {}", group.bytes());
        let (core, dir) = (self.core, self.dir());
        let session = &mut *self.session;
        core.writers.exclusive(|| {
            let keys: Vec<&[u8]> = group.writes().map(|(key, _)| key).collect();
            let wanted: Vec<RowFacts> = group
                .writes()
                .map(|(key, row)| {
                    let row = row.map(Row::of);
                    row.inspect(|row| core.expiry.note(row.expires_ms()));
                    RowFacts::of(key, row.as_ref())
                })
                .collect();
            let note = |before: &[RowFacts], after: &[RowFacts]| {
                for (key, (before, after)) in keys.iter().zip(before.iter().zip(after)) {
                    core.note(key, *before, *after);
                }
            };
            if !group.is_cleared() {
                let before = facts_of(session, dir, &keys, &mut |key, row| {
                    core.collections.save(key, row.as_ref());
                })?;
                let outcome = session.apply(&batch);
                match &outcome {
                    Ok(()) => note(&before, &wanted),
                    // All of it was applied, or none.
                    Err(_) => {
                        let after = facts_of(session, dir, &keys, &mut |_, _| {});
                        note(&before, after.as_ref().unwrap_or(&before));
                    }
                }
                return outcome;
            }
            if core.is_marked.load(Ordering::Acquire) {
                batch.put(MARK, &mark::row());
            }
            let outcome = session.replace_all(&batch);
            let counts = match &outcome {
                Ok(()) => {
                    core.collections.clear();
                    Ok(RowCounts::default())
                }
                // Some rows may be removed.
                Err(_) => {
                    core.collections.forget_counts();
                    count_rows(dir, session, &core.collections, &mut |_, _| {})
                }
            };
            if let Ok(counts) = counts {
                core.keys.store(counts.keys, Ordering::Relaxed);
                core.volatile.store(counts.volatile, Ordering::Relaxed);
            }
            if outcome.is_ok() {
                note(&vec![RowFacts::default(); keys.len()], &wanted);
            }
            core.notifier.notify_sweeper();
            outcome
        })
    }

    fn visit_range(
        &mut self,
        (low, high): (&[u8], Option<&[u8]>),
        is_reverse: bool,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<u64> {
        let (mut visited, mut bad) = (0, None);
        let (dir, now_ms) = (self.dir(), self.now_ms);
        let mut merged = self
            .group
            .as_ref()
            .map(|group| (group, group.is_cleared()))
            .filter(|(group, _)| !group.is_empty());
        let mut scan = |visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>| {
            let mut visit = |key: &[u8], value: &[u8]| match Row::check(value) {
                Some(row) => visit(key, row),
                None => {
                    bad = Some(not_a_row(dir, key));
                    ControlFlow::Break(())
                }
            };
            if is_reverse {
                self.session.scan_rev(low, high, &mut visit)
            } else {
                self.session.scan(low, high, &mut visit)
            }
        };
        match merged.take() {
            Some((group, is_cleared)) => {
                let mut merged = group.merge((low, high), is_reverse, now_ms, visit);
                if !is_cleared {
                    scan(&mut |key, row| merged.stored(key, row))?;
                }
                if let Some(error) = bad {
                    return Err(error);
                }
                visited = merged.finish();
            }
            None => {
                scan(&mut |key, row| {
                    if row.is_expired(now_ms) {
                        return ControlFlow::Continue(());
                    }
                    visited += 1;
                    visit(key, row)
                })?;
            }
        }
        bad.map_or(Ok(visited), Err)
    }

    /// Writes the mark of escaped keys before a reserved key.
    #[inline]
    fn mark(&mut self, key: &[u8]) -> Result<()> {
        if keys::is_reserved(key) { mark::mark(self.core, &mut *self.session) } else { Ok(()) }
    }

    /// Removes the row of `key` if it has expired, and the header of a collection with its last
    /// element. Returns whether the row was removed, or nothing if it has to stay until a group has
    /// ended.
    pub(super) fn remove_expired(&mut self, key: &[u8], now_ms: u64) -> Result<Option<bool>> {
        let Some((id, _)) = keys::element(key) else {
            return self.remove_if_expired(key, now_ms).map(Some);
        };
        let Some(collection) = self.core.collections.get(id) else { return Ok(Some(false)) };
        // Without it the elements are removed as those of an orphan.
        let Some(guard) = collection.lock() else { return Ok(Some(false)) };
        if collection.is_pending() {
            return Ok(None);
        }
        let is_removed = self.remove_if_expired(key, now_ms)?;
        for header in self.core.collections.keys_if_empty(&guard) {
            self.update_stored(
                &header,
                &mut |row, _| match row.and_then(|row| row.collection()) {
                    Some(found) if found == id => Update::Remove,
                    _ => Update::Keep,
                },
            )?;
        }
        Ok(Some(is_removed))
    }

    fn remove_if_expired(&mut self, key: &[u8], now_ms: u64) -> Result<bool> {
        let mut is_removed = false;
        self.update_stored(key, &mut |row, _| {
            is_removed = row.is_some_and(|row| row.is_expired(now_ms));
            if is_removed { Update::Remove } else { Update::Keep }
        })?;
        Ok(is_removed)
    }

    fn new_group(&self) -> Group {
        let bytes_max = self.core.group_bytes_max;
        Group::new(RecordSize { head_bytes: 0, entry_bytes, bytes_max })
    }
}

/// The facts about the rows under these keys; `visit` gets the rows.
fn facts_of(
    session: &mut dyn Session,
    dir: Option<&Path>,
    keys: &[&[u8]],
    visit: &mut dyn FnMut(&[u8], Option<Row<'_>>),
) -> Result<Vec<RowFacts>> {
    let (mut facts, mut bad) = (vec![RowFacts::default(); keys.len()], None);
    session.multi_get(keys, &mut |index, value| {
        let row = value.and_then(Row::check);
        if value.is_some() && row.is_none() {
            bad = Some(not_a_row(dir, keys[index]));
        }
        facts[index] = RowFacts::of(keys[index], row.as_ref());
        visit(keys[index], row);
    })?;
    bad.map_or(Ok(facts), Err)
}

impl RowSession for StoreSession<'_> {
    fn at(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
        // Relaxed: the sweeper may see it a moment later.
        self.core.now_ms.store(now_ms, Ordering::Relaxed);
    }

    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(Row<'_>)) -> Result<bool> {
        let (dir, now_ms) = (self.dir(), self.now_ms);
        let mut outcome = Ok(false);
        let mut look = |value: &[u8]| {
            outcome = match Row::check(value) {
                Some(row) if row.is_expired(now_ms) => Ok(false),
                Some(row) => {
                    visit(row);
                    Ok(true)
                }
                None => Err(not_a_row(dir, key)),
            };
        };
        match self.group.as_ref().map_or(Found::Stored, |group| group.find(key)) {
            Found::Pending(Some(row)) => look(row),
            Found::Pending(None) => {}
            Found::Stored => {
                self.session.get(key, &mut look)?;
            }
        }
        outcome
    }

    fn multi_get(
        &mut self,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<Row<'_>>),
    ) -> Result<()> {
        if self.group.as_ref().is_some_and(|group| !group.is_empty()) {
            for (index, key) in keys.iter().enumerate() {
                if !self.get(key, &mut |row| visit(index, Some(row)))? {
                    visit(index, None);
                }
            }
            return Ok(());
        }
        let (dir, now_ms) = (self.dir(), self.now_ms);
        let mut bad = None;
        self.session.multi_get(keys, &mut |index, value| {
            let row = value.and_then(Row::check);
            if value.is_some() && row.is_none() {
                bad = Some(not_a_row(dir, keys[index]));
            }
            visit(index, row.filter(|row| !row.is_expired(now_ms)));
        })?;
        bad.map_or(Ok(()), Err)
    }

    fn update(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<Row<'_>>, &mut RowBuf) -> Update,
    ) -> Result<u64> {
        if self.group.is_some() {
            return self.update_group(key, decide);
        }
        let now_ms = self.now_ms;
        self.update_stored(key, &mut |row, new| {
            decide(row.filter(|row| !row.is_expired(now_ms)), new)
        })
    }

    fn scan(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<u64> {
        self.visit_range((low, high), false, visit)
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], Row<'_>) -> ControlFlow<()>,
    ) -> Result<u64> {
        self.visit_range((low, high), true, visit)
    }

    fn create_collection(&mut self) -> Result<Arc<Collection>> {
        mark::mark(self.core, &mut *self.session)?;
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
        let stored = self.core.len();
        self.group.as_ref().map_or(stored, |group| group.rows_after(stored))
    }

    fn clear(&mut self) -> Result<()> {
        if let Some(group) = &mut self.group {
            return group.clear(0);
        }
        let mut group = self.new_group();
        group.clear(0)?;
        self.apply_group(&group)
    }

    fn begin_group(&mut self) -> Result<()> {
        self.flush()?;
        self.group = Some(self.new_group());
        Ok(())
    }

    fn cancel_group(&mut self) {
        self.group = None;
    }

    fn commit_group(&mut self) -> Result<()> {
        // Every flush commits, and most have no group.
        let Some(group) = self.group.take() else { return Ok(()) };
        group.check()?;
        if group.is_empty() { Ok(()) } else { self.apply_group(&group) }
    }

    fn flush(&mut self) -> Result<Position> {
        self.row.shrink();
        self.commit_group()?;
        Ok(Position::default())
    }

    fn is_durable(&self, _: Position) -> bool {
        true
    }
}

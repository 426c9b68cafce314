//! Removing all rows, while other sessions write.
//!
//! A clear has a version, and removes the rows up to it. Rows that are written meanwhile get larger
//! ones by the floors, and stay; a session that finds that its record was begun before the clear
//! gives its rows new versions before it logs them.

use super::Session;
use crate::Row;
use crate::floors::hash;
use crate::memory::cost;
use crate::row::set_version;
use keyrack_concurrent::pin;
use keyrack_masstree::Change as TreeChange;
use std::ops::ControlFlow;
use std::sync::atomic::{Ordering, fence};

/// Keys that are collected before they are removed.
const CLEAR_KEYS_MAX: usize = 256;

impl Session<'_> {
    /// Removes everything up to `version`, and logs that.
    pub(super) fn clear_now(&mut self, version: u64) {
        self.begin_record();
        let core = self.core;
        core.floors.raise_all(version);
        let before = core.clears.fetch_add(1, Ordering::SeqCst);
        if self.clears_seen == before {
            // What this session wrote before is to go, and what it writes next gets its versions
            // from the floors.
            self.clears_seen = before + 1;
        }
        fence(Ordering::SeqCst);
        self.clear_up_to(version);
        if self.way.is_some() {
            self.record.push_clear(version);
        }
    }

    /// Everything was removed since the record was begun: what is in it and still in the tree was
    /// written meanwhile. It stays, so it needs versions above those that were removed.
    pub(super) fn renew_after_clear(&mut self) {
        loop {
            // With the fence of `clear`: either it finds our rows, or we find its count.
            fence(Ordering::SeqCst);
            let clears = self.core.clears.load(Ordering::SeqCst);
            if clears == self.clears_seen {
                return;
            }
            self.clears_seen = clears;
            let (core, mut clock) = (self.core, self.clock);
            self.record.renew_rows(&mut |key, row| {
                let given = Row::of(row).version();
                let floor = core.floors.of(hash(key));
                if given > floor {
                    return;
                }
                let version = clock.max(floor) + 1;
                let mut is_ours = false;
                let found = &mut is_ours;
                core.tree.update(key, &pin(), move |old| {
                    let old = old.as_deref().map(Row::of);
                    *found = old.is_some_and(|old| old.version() == given);
                    if !*found {
                        return TreeChange::Keep;
                    }
                    set_version(row, version);
                    let row: &[u8] = row;
                    TreeChange::Put(row)
                });
                if is_ours {
                    clock = version;
                }
            });
            self.note(clock);
        }
    }

    /// Removes every row up to `version`.
    pub(crate) fn clear_up_to(&mut self, version: u64) {
        let core = self.core;
        let (mut from, mut next) = (Vec::new(), Vec::new());
        let mut keys: Vec<Vec<u8>> = Vec::new();
        loop {
            keys.clear();
            let mut is_end = true;
            core.tree.range(&from, None, |key, row| {
                if Row::of(&row).version() <= version {
                    keys.push(key.to_vec());
                }
                if keys.len() < CLEAR_KEYS_MAX {
                    return ControlFlow::Continue(());
                }
                is_end = false;
                next.clear();
                next.extend_from_slice(key);
                ControlFlow::Break(())
            });
            std::mem::swap(&mut from, &mut next);
            let guard = pin();
            for key in &keys {
                let mut removed = None;
                core.tree.update(key, &guard, |old| {
                    let old = old.as_deref().map(Row::of);
                    let Some(row) = old.filter(|row| row.version() <= version) else {
                        return TreeChange::Keep;
                    };
                    removed = Some((cost(key.len(), row.bytes().len()), row.expires_ms() != 0));
                    TreeChange::Remove
                });
                if let Some((bytes, is_volatile)) = removed {
                    self.held_bytes -= bytes;
                    core.memory.add_volatile(-i64::from(is_volatile));
                }
            }
            self.hand_in();
            if is_end {
                return;
            }
        }
    }
}

//! Rows that no reader finds any more: those that a clear covers, and elements without a header.
//!
//! An element of an orphan is removed from memory alone, like a dead row. Its put may be in a log
//! and in a checkpoint, where a recovery finds the orphan again. Its key is never written again,
//! because an id is never used twice, so no watermark is needed.

use crate::core::Core;
use crate::keys;
use crate::memory::cost;
use crate::{Row, cleared::SLICE_ROWS};
use keyrack_concurrent::{Change, Guard, pin};
use std::ops::ControlFlow;

impl Core {
    /// Whether there may be rows that no reader finds.
    pub(crate) fn has_garbage(&self) -> bool {
        self.collections.has_queued() || self.has_dead()
    }

    /// Removes one slice of the rows that no reader finds. Returns whether there may be more that
    /// can be removed now.
    pub(crate) fn sweep_garbage(&self) -> bool {
        self.sweep_orphan() || self.sweep_dead()
    }

    /// Removes elements of one orphan. Returns whether there was one.
    fn sweep_orphan(&self) -> bool {
        let Some(orphan) = self.collections.next_orphan() else { return false };
        let (start, end) = (keys::prefix(orphan.id()), keys::end(orphan.id()));
        let mut found: Vec<Vec<u8>> = Vec::new();
        self.tree.scan(&start, Some(&end), |key, _| {
            found.push(key.to_vec());
            if found.len() < SLICE_ROWS {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        let guard = pin();
        for key in &found {
            self.remove_dead(key, &guard);
            self.remove_orphaned(key, &guard);
        }
        if found.len() < SLICE_ROWS {
            self.collections.removed(&orphan);
        } else {
            self.collections.put_back(orphan);
        }
        true
    }

    fn remove_orphaned(&self, key: &[u8], guard: &Guard) {
        self.tree.update(key, guard, |old| {
            let Some(row) = old.as_deref().map(Row::of) else { return Change::Keep };
            self.memory.add(-cost(key.len(), row.bytes().len()));
            let volatile = i64::from(row.expires_ms() != 0);
            self.memory.add_volatile(-volatile);
            self.collections.forget(volatile);
            Change::Remove
        });
    }
}

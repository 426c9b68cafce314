//! The elements of removed collections, which are removed from the store a slice at a time.

use super::session::StoreSession;
use super::writers::lock;
use crate::collections::RowFacts;
use crate::keys;
use crate::{Row, store_rows::counts::RowCounts};
use keyrack_store::{Batch, Result, Update};
use std::ops::ControlFlow;

/// The number of elements in one slice.
const SLICE_ROWS: usize = 512;

impl StoreSession<'_> {
    /// Removes elements of one orphan. Returns whether there was one.
    pub(super) fn sweep_orphan(&mut self) -> Result<bool> {
        let core = self.core;
        let Some(orphan) = core.collections.next_orphan() else { return Ok(false) };
        let (start, end) = (keys::prefix(orphan.id()), keys::end(orphan.id()));
        let (mut batch, mut volatile) = (Batch::new(), Vec::new());
        let outcome = self.session.scan(&start, Some(&end), &mut |key, value| {
            batch.remove(key);
            // What is no row is removed as well.
            let row = Row::check(value);
            volatile.push(RowFacts::of(key, row.as_ref()).volatile);
            if batch.len() < SLICE_ROWS {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        let outcome = outcome.and_then(|_| {
            let _held = lock(&self.writer);
            if batch.is_empty() { Ok(()) } else { self.session.apply(&batch) }
        });
        if let Err(error) = outcome {
            core.collections.put_back(orphan);
            return Err(error);
        }
        volatile.iter().for_each(|&volatile| core.collections.forget(volatile));
        core.add(RowCounts { keys: 0, volatile: -volatile.iter().sum::<i64>() });
        if batch.len() < SLICE_ROWS {
            core.collections.removed(&orphan);
        } else {
            core.collections.put_back(orphan);
        }
        Ok(true)
    }

    /// Removes headers without elements: a crash came between the removal of the last element and
    /// that of the header.
    pub(super) fn remove_empty(&mut self) -> Result<()> {
        for (id, key) in self.core.collections.loaded() {
            self.update_stored(&key, &mut |row, _| match row.and_then(|row| row.collection()) {
                Some(found) if found == id => Update::Remove,
                _ => Update::Keep,
            })?;
        }
        Ok(())
    }
}

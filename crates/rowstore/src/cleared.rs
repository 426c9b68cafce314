//! Removing all rows at once: in constant time, whatever their number.
//!
//! A clear has a version. A row whose version is not above that of the last clear is *dead*: no
//! reader sees it, no checkpoint has it, and a replay does not apply it. Its memory is given back
//! later, by a pass over all rows, a slice at a time.
//!
//! ```text
//!   clear   watermarks raised -> version published -> sums of the dead noted     O(1)
//!   pass    slice, slice, slice ... end of the keys                          O(rows), later
//! ```
//!
//! **Invariant:** a write that begins after a clear gets a larger version, because the watermarks
//! were raised before. A write that began earlier gets a larger version and stays, or it does not
//! and is dead, in memory as at a replay. The entry of the clear in the log has the version, so the
//! order of the records makes no difference.
//!
//! A write that is dead when it is published may be in a place that the pass has left. So every
//! write looks at the version of the last clear once more after it is in the tree, behind a fence,
//! and removes what is dead ([`Core::remove_if_cleared`]). Either the pass finds the row, or the
//! writer finds the clear.
//!
//! The sums of the dead are exact if nobody writes during the clear, and after the end of each
//! pass: then no dead row is left, and the sums are set to 0. A negative sum counts as 0.

use crate::Row;
use crate::core::Core;
use crate::memory::cost;
use keyrack_concurrent::{Guard, pin};
use keyrack_masstree::Change as TreeChange;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Rows looked at in one slice of the pass.
const SLICE_ROWS: usize = 512;

/// A word that has a cache line of its own: readers load it for every row.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line(AtomicU64);

/// What was cleared, and what is left of it in the tree.
#[derive(Debug, Default)]
pub(crate) struct Cleared {
    /// The version of the last clear.
    version: Line,
    /// Dead rows in the tree.
    rows: AtomicI64,
    /// What they take.
    bytes: AtomicI64,
    /// How many of them have an expiry.
    volatile: AtomicI64,
    /// Whether the pass has an end to reach.
    is_under_way: AtomicBool,
    /// Held for a clear, for a slice, and to read the sums.
    pass: Mutex<Pass>,
}

/// Where the pass is.
#[derive(Debug, Default)]
struct Pass {
    from: Vec<u8>,
    /// How often it has to reach the last key. A clear in its middle does not set it back, so that
    /// frequent clears do not keep it from the last keys.
    ends_left: u8,
}

impl Cleared {
    fn pass(&self) -> MutexGuard<'_, Pass> {
        self.pass.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A dead row has left the tree. Called under the lock of its node.
    pub(crate) fn forget(&self, bytes: i64, volatile: i64) {
        self.add(-1, -bytes, -volatile);
    }

    fn add(&self, rows: i64, bytes: i64, volatile: i64) {
        self.rows.fetch_add(rows, Ordering::AcqRel);
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
        self.volatile.fetch_add(volatile, Ordering::AcqRel);
    }

    fn set(&self, rows: i64, bytes: i64, volatile: i64) {
        self.rows.store(rows, Ordering::Release);
        self.bytes.store(bytes, Ordering::Release);
        self.volatile.store(volatile, Ordering::Release);
    }
}

/// A sum of the dead.
fn sum(of: &AtomicI64) -> i64 {
    of.load(Ordering::Acquire).max(0)
}

impl Core {
    /// Whether a row is there at `now_ms`: neither cleared nor expired.
    #[inline]
    pub(crate) fn is_live(&self, row: &Row<'_>, now_ms: u64) -> bool {
        !self.is_dead(row) && !row.is_expired(now_ms)
    }

    /// Whether a row in the tree was cleared.
    #[inline]
    pub(crate) fn is_dead(&self, row: &Row<'_>) -> bool {
        // Acquire: a writer that sees the clear sees the watermarks that were raised for it.
        row.version() <= self.cleared.version.0.load(Ordering::Acquire)
    }

    /// Rows that are there, those included that have expired.
    pub(crate) fn count(&self) -> u64 {
        let _pass = self.cleared.pass();
        self.tree.len().saturating_sub(sum(&self.cleared.rows).unsigned_abs())
    }

    /// Dead rows in the tree.
    pub(crate) fn dead_rows(&self) -> u64 {
        let _pass = self.cleared.pass();
        sum(&self.cleared.rows).unsigned_abs()
    }

    /// What the rows take that are there.
    pub(crate) fn live_bytes(&self) -> i64 {
        self.memory.used() - sum(&self.cleared.bytes)
    }

    /// Rows that are there and will expire.
    pub(crate) fn live_volatile(&self) -> i64 {
        let _pass = self.cleared.pass();
        self.memory.volatile() - sum(&self.cleared.volatile)
    }

    /// Removes all rows up to `version`. O(1).
    pub(crate) fn clear(&self, version: u64) {
        let cleared = &self.cleared;
        let mut pass = cleared.pass();
        if version <= cleared.version.0.load(Ordering::Acquire) {
            return;
        }
        self.watermarks.raise_all(version);
        cleared.version.0.store(version, Ordering::SeqCst);
        // With the fence of `remove_if_cleared`.
        fence(Ordering::SeqCst);
        let rows = i64::try_from(self.tree.len()).expect("fewer than 2^63 rows");
        cleared.set(rows, self.memory.used(), self.memory.volatile());
        pass.ends_left = 1 + u8::from(!pass.from.is_empty());
        cleared.is_under_way.store(true, Ordering::Release);
        drop(pass);
        self.notifier.notify_sweeper();
    }

    /// Whether there may be dead rows.
    pub(crate) fn has_dead(&self) -> bool {
        self.cleared.is_under_way.load(Ordering::Acquire)
    }

    /// Looks at some rows, and removes those that are dead. Returns whether there may be more.
    pub(crate) fn sweep_dead(&self) -> bool {
        if !self.has_dead() {
            return false;
        }
        let cleared = &self.cleared;
        let mut pass = cleared.pass();
        if pass.ends_left == 0 {
            return false;
        }
        let mut dead: Vec<Vec<u8>> = Vec::new();
        let (mut rows, mut next) = (0, Vec::new());
        self.tree.range(&pass.from, None, |key, row| {
            rows += 1;
            if self.is_dead(&Row::of(&row)) {
                dead.push(key.to_vec());
            }
            if rows < SLICE_ROWS {
                return ControlFlow::Continue(());
            }
            next.extend_from_slice(key);
            next.push(0);
            ControlFlow::Break(())
        });
        let guard = pin();
        for key in &dead {
            self.remove_dead(key, &guard);
        }
        if next.is_empty() {
            pass.ends_left -= 1;
        }
        pass.from = next;
        if pass.ends_left > 0 {
            return true;
        }
        cleared.set(0, 0, 0);
        cleared.is_under_way.store(false, Ordering::Release);
        false
    }

    /// Removes the row of `key` if it is dead. Nothing is logged: the clear was.
    fn remove_dead(&self, key: &[u8], guard: &Guard) {
        self.tree.update(key, guard, |old| {
            let old = old.as_deref().map(Row::of);
            let Some(row) = old.filter(|row| self.is_dead(row)) else {
                return TreeChange::Keep;
            };
            let bytes = cost(key.len(), row.bytes().len());
            let volatile = i64::from(row.expires_ms() != 0);
            self.memory.add(-bytes);
            self.memory.add_volatile(-volatile);
            self.cleared.forget(bytes, volatile);
            TreeChange::Remove
        });
    }

    /// Removes a row that was written with this version if a clear overtook it.
    #[inline]
    pub(crate) fn remove_if_cleared(&self, key: &[u8], version: u64) {
        // With the fence of `clear`: the pass finds the row, or we find the clear.
        fence(Ordering::SeqCst);
        if version <= self.cleared.version.0.load(Ordering::Acquire) {
            self.remove_dead(key, &pin());
        }
    }
}

#[cfg(test)]
mod tests;

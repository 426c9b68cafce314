//! Clears: removing all rows in constant time.
//!
//! A clear has a version. A row whose version is not above that of the last clear is *dead*: no
//! reader sees it, no checkpoint has it, and a replay does not apply it. A pass over all
//! rows frees its memory later, a slice at a time.
//!
//! ```text
//!   clear   watermarks raised -> version published -> dead rows counted          O(1)
//!   pass    slice, slice, slice ... end of the keys                          O(rows), later
//! ```
//!
//! **Invariant:** a write that begins after a clear gets a larger version, because the watermarks
//! were raised before. A write that began earlier gets a larger version and stays, or it does not
//! and is dead, in memory as at a replay. The entry of the clear in the log has the version, so the
//! order of the records makes no difference.
//!
//! A write that is dead when it is published may be at a key that the pass has left. So every write
//! checks the version of the last clear again after it is in the tree, behind a fence, and removes
//! a dead row ([`Core::remove_if_cleared`]). Either the pass finds the row, or the writer finds the
//! clear.
//!
//! The counts of dead rows are exact if no session writes during the clear, and after each pass:
//! then no dead row is left, and the counts are set to 0. A negative count is read as 0.

use crate::Row;
use crate::core::Core;
use crate::memory::cost;
use keyrack_concurrent::{Change, Guard, pin};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The number of rows in one slice of the pass.
pub(crate) const SLICE_ROWS: usize = 512;

/// A word with a cache line of its own: readers load it for every row.
#[derive(Debug, Default)]
#[repr(align(128))]
struct CachePadded(AtomicU64);

/// The last clear, and the dead rows that are left in the tree.
#[derive(Debug, Default)]
pub(crate) struct Cleared {
    /// The version of the last clear.
    version: CachePadded,
    /// Dead rows in the tree.
    rows: AtomicI64,
    /// The memory of the dead rows.
    bytes: AtomicI64,
    /// The number of dead rows with an expiry.
    volatile: AtomicI64,
    /// Whether a pass is under way.
    is_under_way: AtomicBool,
    /// Locked for a clear, for a slice, and to read the counts.
    pass: Mutex<Pass>,
}

/// The progress of the pass.
#[derive(Debug, Default)]
struct Pass {
    from: Vec<u8>,
    /// How often it has to reach the last key. A clear does not restart the pass, so that it
    /// reaches the last keys even if clears are frequent.
    ends_left: u8,
}

impl Cleared {
    fn pass(&self) -> MutexGuard<'_, Pass> {
        self.pass.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a dead row that has left the tree. Called under the lock of its node.
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

/// A count of dead rows.
fn sum(of: &AtomicI64) -> i64 {
    of.load(Ordering::Acquire).max(0)
}

impl Core {
    /// Whether a row is live at `now_ms`: neither cleared nor expired.
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

    /// The number of keys whose rows are not dead, including expired ones.
    pub(crate) fn count(&self) -> u64 {
        let _pass = self.cleared.pass();
        let dead = sum(&self.cleared.rows).unsigned_abs();
        self.tree.len().saturating_sub(dead).saturating_sub(self.collections.rows())
    }

    /// Dead rows in the tree.
    pub(crate) fn dead_rows(&self) -> u64 {
        let _pass = self.cleared.pass();
        sum(&self.cleared.rows).unsigned_abs()
    }

    /// The memory of the rows that are not dead.
    pub(crate) fn live_bytes(&self) -> i64 {
        self.memory.used() - sum(&self.cleared.bytes)
    }

    /// The number of keys with an expiry whose rows are not dead.
    pub(crate) fn live_volatile(&self) -> i64 {
        let _pass = self.cleared.pass();
        self.memory.volatile() - sum(&self.cleared.volatile) - self.collections.volatile()
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
        // Pairs with the fence of `remove_if_cleared`.
        fence(Ordering::SeqCst);
        let rows = i64::try_from(self.tree.len()).expect("fewer than 2^63 rows");
        cleared.set(rows, self.memory.used(), self.memory.volatile());
        self.collections.clear();
        pass.ends_left = 1 + u8::from(!pass.from.is_empty());
        cleared.is_under_way.store(true, Ordering::Release);
        drop(pass);
        self.notifier.notify_sweeper();
    }

    /// Whether there may be dead rows.
    pub(crate) fn has_dead(&self) -> bool {
        self.cleared.is_under_way.load(Ordering::Acquire)
    }

    /// Removes the dead rows of one slice. Returns whether there may be more.
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
        self.tree.scan(&pass.from, None, |key, row| {
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

    /// Removes the row of `key` if it is dead. Logs nothing, because the clear is logged.
    pub(crate) fn remove_dead(&self, key: &[u8], guard: &Guard) {
        self.tree.update(key, guard, |old| {
            let old = old.as_deref().map(Row::of);
            let Some(row) = old.filter(|row| self.is_dead(row)) else {
                return Change::Keep;
            };
            let bytes = cost(key.len(), row.bytes().len());
            let volatile = i64::from(row.expires_ms() != 0);
            self.memory.add(-bytes);
            self.memory.add_volatile(-volatile);
            self.cleared.forget(bytes, volatile);
            Change::Remove
        });
    }

    /// Removes a row that was written with this version, if a later clear covers it.
    #[inline]
    pub(crate) fn remove_if_cleared(&self, key: &[u8], version: u64) {
        // Pairs with the fence of `clear`: the pass finds the row, or we find the clear.
        fence(Ordering::SeqCst);
        if version <= self.cleared.version.0.load(Ordering::Acquire) {
            self.remove_dead(key, &pin());
        }
    }
}

#[cfg(test)]
mod tests;

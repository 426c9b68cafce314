//! Rows as the values of any store, so that a server can serve an engine without rows.
//!
//! ```text
//!   RowSession::update --> Session::update        the value is the row's bytes
//!   begin_group ... commit_group --> apply        one batch
//!   clear --> replace_all                         a range removal where the engine has one
//!   sweeper: a slice of rows --> Session::update  removes expired rows
//! ```
//!
//! A write is as durable as the store promises when the call returns. Positions have no meaning,
//! and every position is durable. The writes of a group are pending in the session until the commit
//! applies them as one batch. Other sessions see them from then on, so the caller has to keep other
//! sessions away from the keys of a group until it is committed.
//!
//! **Versions** come from one clock. It begins at the milliseconds since 1970, times 2^20, and then
//! only counts. If a row with a larger version is found, the clock advances to it. So versions grow
//! over removals and restarts, unless a million writes come in each millisecond, or the system time
//! is set back.
//!
//! **Counts** are of applied writes. A session holds its own lock while it writes and counts. A
//! group and a clear hold the locks of all sessions, so that the rows they find are the rows they
//! replace.
//!
//! Keys are encoded as in the row store (see `keys`). The registry of collections is rebuilt by the
//! scan that counts the rows.
//!
//! A value that is not a row was not written through this type. It is reported as corruption.

mod core;
mod counts;
mod expiry;
mod garbage;
mod mark;
mod session;
mod sweep;
mod writers;

use self::core::{Core, count_rows};
use crate::collections::Collections;
use crate::notifier::Notifier;
use crate::user_keys::UserKeys;
use crate::{Position, RowSession, Rows};
use expiry::Expiry;
use keyrack_measure::wall::unix_ms;
use keyrack_store::{Durability, Result, Store};
use session::StoreSession;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use sweep::{Sweep, Sweeper};
use writers::WriterLocks;

/// Versions in a millisecond.
const VERSIONS_LOG2: u32 = 20;
/// The maximum bytes of a group, even if the store accepts more.
const GROUP_BYTES_MAX: usize = 64 << 20;
/// The time between two sweeps for expired rows.
const SWEEP_INTERVAL: Duration = Duration::from_millis(100);

/// Rows in a store of any kind.
pub struct StoreRows {
    sweeper: Option<Sweeper>,
    core: Arc<Core>,
}

impl std::fmt::Debug for StoreRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreRows")
            .field("store", &self.core.store.info().version)
            .finish_non_exhaustive()
    }
}

impl StoreRows {
    /// The rows of a store that contains only rows, or nothing. Counts them: O(rows). A thread
    /// removes expired rows.
    ///
    /// # Errors
    /// [`Corruption`](keyrack_store::Error::Corruption) for a value that is not a row; those of a
    /// scan; [`Io`](keyrack_store::Error::Io) when the thread does not start.
    pub fn new(store: Box<dyn Store>) -> Result<Self> {
        Self::with_sweep_interval(store, SWEEP_INTERVAL)
    }

    /// The same with another time between two sweeps. Zero: only [`StoreRows::sweep`] removes
    /// expired rows.
    ///
    /// # Errors
    /// As [`StoreRows::new`].
    pub fn with_sweep_interval(store: Box<dyn Store>, interval: Duration) -> Result<Self> {
        let mut clock = unix_ms() << VERSIONS_LOG2;
        let expiry = Arc::new(Expiry::new());
        let group_bytes_max = store.info().batch_bytes_max.min(GROUP_BYTES_MAX);
        let mut session = store.session()?;
        let is_marked = mark::escape_plain_keys(&mut *session, group_bytes_max)?;
        let collections = Collections::default();
        let counts = count_rows(store.data_dir(), &mut *session, &collections, &mut |_, row| {
            clock = clock.max(row.version());
            expiry.note(row.expires_ms());
        })?;
        drop(session);
        let filter = Arc::clone(&expiry);
        store.set_drop_filter(Arc::new(move |_, value| filter.is_swept(value)));
        let core = Arc::new(Core {
            clock: AtomicU64::new(clock),
            keys: AtomicI64::new(counts.keys),
            volatile: AtomicI64::new(counts.volatile),
            expired: AtomicU64::new(0),
            sweep_failures: AtomicU64::new(0),
            now_ms: AtomicU64::new(0),
            expiry,
            collections,
            is_marked: AtomicBool::new(is_marked),
            writers: WriterLocks::default(),
            notifier: Notifier::default(),
            group_bytes_max,
            store,
        });
        StoreSession::new(&core)?.remove_empty()?;
        let sweeper =
            if interval.is_zero() { None } else { Some(Sweeper::start(&core, interval)?) };
        Ok(StoreRows { sweeper, core })
    }

    /// Removes the elements of removed collections, and then all rows that have expired at
    /// `now_ms`. Returns how many expired. O(rows).
    ///
    /// # Errors
    /// As [`RowSession::remove`].
    pub fn sweep(&self, now_ms: u64) -> Result<u64> {
        let mut session = StoreSession::new(&self.core)?;
        while session.sweep_orphan()? {}
        let (mut sweep, mut removed) = (Sweep::default(), 0);
        loop {
            let slice = sweep.slice(&mut session, now_ms)?;
            removed += slice.removed;
            if slice.is_end {
                return Ok(removed);
            }
        }
    }
}

impl Rows for StoreRows {
    fn session(&self) -> Result<Box<dyn RowSession + '_>> {
        Ok(Box::new(UserKeys { rows: StoreSession::new(&self.core)? }))
    }

    fn durability(&self) -> Durability {
        self.core.store.info().durability
    }

    fn version(&self) -> String {
        self.core.store.info().version
    }

    fn len(&self) -> u64 {
        self.core.len()
    }

    fn stats(&self, visit: &mut dyn FnMut(&str, f64)) {
        let core = &self.core;
        visit("rows", self.len() as f64);
        visit("elements", core.collections.rows() as f64);
        let volatile = core.volatile.load(Ordering::Relaxed) - core.collections.volatile();
        visit("volatile_rows", volatile.max(0) as f64);
        visit("expired", core.expired.load(Ordering::Relaxed) as f64);
        visit("sweep_failures", core.sweep_failures.load(Ordering::Relaxed) as f64);
        core.store.stats(visit);
    }

    fn sync(&self, _: Position) -> Result<()> {
        Ok(())
    }

    fn checkpoint(&self) -> Result<bool> {
        Ok(false)
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        drop(self.sweeper.take());
        let core = Arc::into_inner(self.core).expect("the sweeper has ended, and sessions borrow");
        core.store.close()
    }
}

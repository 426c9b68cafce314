//! Leases: for how long a client may rely on the path of a directory.
//!
//! ```text
//!   opendir /a/b        a lease on /, /a and /a/b, for a second
//!   chmod /a            revokes the leases on /a and grants none; it is answered "later" until all
//!                       of them were returned or have expired; then it is done
//! ```
//!
//! A lease is on one directory; a path has one on each of its directories. A client with leases
//! knows that the path leads to its directory, and that its user may pass. So a change of the name,
//! the owner or the rights of a directory, or its removal, waits for the clients that rely on the
//! old state. A change gives up the leases of its own client.
//!
//! Only the first server grants leases. A change that revokes leases passes through it, because all
//! servers take part in such a change. A bit in the next reply tells a client that leases were
//! revoked; the client forgets what it knows, and returns them. A client that makes no call is
//! waited for until its lease expires, as in IndexFS (SC 2014).
//!
//! Leases are not written to the log. After a start, a server makes no such change before all
//! leases of the previous run have expired.

use crate::id::DirId;
use crate::rpc::lease_clock::{LeaseClock, LeaseTimer};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

type ClientId = [u8; 16];

/// The leases that a server has given.
#[derive(Debug)]
pub(crate) struct Leases {
    ticker: LeaseTimer,
    lease_ns: u64,
    /// Until then leases of a predecessor may run.
    quiet_until_ns: u64,
    /// Clients with leases to give back; read without the lock, by every answer.
    revocations: AtomicU64,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// Who has a lease on a directory, and until when.
    granted: HashMap<DirId, HashMap<ClientId, u64>>,
    /// Directories on which no lease is given now, and until when; [`CHANGES`] while one changes.
    closed: HashMap<DirId, u64>,
    /// Leases that are called back, and until when they run.
    revoked: HashMap<ClientId, HashMap<DirId, u64>>,
    sweep_at: usize,
}

/// When a directory that changes can be leased again: when that is said.
const CHANGES: u64 = u64::MAX;

/// Directories with leases before those that have run out are looked for.
const SWEEP_AT: usize = 4096;

impl Leases {
    /// Of a server whose log had another before, or had not.
    pub(crate) fn new(clock: &LeaseClock, lease: Duration, has_predecessor: bool) -> Leases {
        let ticker = clock.start();
        let lease_ns = u64::try_from(lease.as_nanos()).unwrap_or(u64::MAX);
        let wait_ns = if has_predecessor { lease_ns } else { 0 };
        let quiet_until_ns = ticker.now_ns().saturating_add(wait_ns);
        let table = Mutex::new(Table { sweep_at: SWEEP_AT, ..Table::default() });
        Leases { ticker, lease_ns, quiet_until_ns, revocations: AtomicU64::new(0), table }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lease on all directories of a path, or none: for how many milliseconds.
    pub(crate) fn grant(&self, client: ClientId, path: &[DirId]) -> u32 {
        let now = self.ticker.now_ns();
        let mut table = self.table();
        self.expire_revocations(&mut table, now);
        let is_closed = |dir| table.closed.get(dir).is_some_and(|until| *until > now);
        if self.lease_ns == 0 || path.iter().any(is_closed) {
            return 0;
        }
        if table.granted.len() >= table.sweep_at {
            table.granted.retain(|_, holders| {
                holders.retain(|_, until| *until > now);
                !holders.is_empty()
            });
            table.closed.retain(|_, until| *until > now);
            table.sweep_at = (2 * table.granted.len()).max(SWEEP_AT);
        }
        let until = now.saturating_add(self.lease_ns);
        for dir in path {
            table.granted.entry(*dir).or_default().insert(client, until);
        }
        // A longer lease is told as one of 49 days.
        u32::try_from(self.lease_ns / 1_000_000).unwrap_or(u32::MAX)
    }

    /// Somebody wants to change a directory: `true` if nobody else has a lease on it or changes it.
    /// Otherwise leases are called back, and the question is to be asked again.
    fn revoke(&self, dir: DirId, client: Option<ClientId>) -> bool {
        let now = self.ticker.now_ns();
        if now < self.quiet_until_ns {
            return false;
        }
        let mut table = self.table();
        self.expire_revocations(&mut table, now);
        // When one of two changes is done, leases are given that the other would know nothing of.
        if table.closed.get(&dir) == Some(&CHANGES) {
            return false;
        }
        let holders = table.granted.get_mut(&dir).map(|holders| {
            holders.retain(|holder, until| *until > now && Some(*holder) != client);
            holders.iter().map(|(holder, until)| (*holder, *until)).collect::<Vec<_>>()
        });
        // Nobody was given one.
        let holders = holders.unwrap_or_default();
        if holders.is_empty() {
            table.granted.remove(&dir);
            // None is given before the change is done.
            table.closed.insert(dir, CHANGES);
            return true;
        }
        // Whoever wants to change it comes again sooner than that.
        table.closed.insert(dir, now.saturating_add(2 * self.lease_ns));
        for (holder, until) in holders {
            table.revoked.entry(holder).or_default().insert(dir, until);
        }
        // Relaxed: who misses it sees it with the next answer.
        self.revocations.store(table.revoked.len() as u64, Ordering::Relaxed);
        false
    }

    /// What has run out need not be given back. A client that is gone would be waited for, by a
    /// look at the table with every answer to anybody, for ever.
    fn expire_revocations(&self, table: &mut Table, now: u64) {
        if table.revoked.is_empty() {
            return;
        }
        table.revoked.retain(|_, dirs| {
            dirs.retain(|_, until| *until > now);
            !dirs.is_empty()
        });
        self.revocations.store(table.revoked.len() as u64, Ordering::Relaxed);
    }

    /// Revokes the leases on all of `dirs`, or on none and gives `None`.
    pub(crate) fn revoke_all<'a>(
        &'a self,
        dirs: &'a [DirId],
        client: Option<ClientId>,
    ) -> Option<Revoked<'a>> {
        let mut revoked = Revoked { leases: self, dirs, count: 0 };
        for dir in dirs {
            if !self.revoke(*dir, client) {
                return None;
            }
            revoked.count += 1;
        }
        Some(revoked)
    }

    /// The change of a directory is done or given up: leases on it are granted again.
    pub(crate) fn change_done(&self, dir: DirId) {
        self.table().closed.remove(&dir);
    }

    /// Whether a client has leases to give back.
    #[inline]
    pub(crate) fn has_revoked(&self, client: &ClientId) -> bool {
        self.revocations.load(Ordering::Relaxed) > 0 && self.table().revoked.contains_key(client)
    }

    /// What a client has to forget, which it does before it asks: so it has those leases no more.
    pub(crate) fn return_revoked(&self, client: &ClientId) -> Vec<u128> {
        let mut table = self.table();
        // Another session of the client may have been told.
        let dirs = table.revoked.remove(client).unwrap_or_default();
        for dir in dirs.keys() {
            if let Some(holders) = table.granted.get_mut(dir) {
                holders.remove(client);
            }
        }
        self.revocations.store(table.revoked.len() as u64, Ordering::Relaxed);
        dirs.into_keys().map(|dir| dir.0).collect()
    }
}

/// Directories on which no client has a lease. When the guard is dropped, leases are granted again.
#[derive(Debug)]
pub(crate) struct Revoked<'a> {
    leases: &'a Leases,
    dirs: &'a [DirId],
    /// How many of `dirs` are revoked.
    count: usize,
}

impl Revoked<'_> {
    /// Keeps the leases revoked until [`Leases::change_done`].
    pub(crate) fn keep(mut self) {
        self.count = 0;
    }
}

impl Drop for Revoked<'_> {
    fn drop(&mut self) {
        self.dirs[..self.count].iter().for_each(|dir| self.leases.change_done(*dir));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn leases(lease_ms: u64, has_predecessor: bool) -> (Leases, Arc<AtomicU64>) {
        let now = Arc::new(AtomicU64::new(1_000));
        let clock = LeaseClock::Given(Arc::clone(&now));
        (Leases::new(&clock, Duration::from_millis(lease_ms), has_predecessor), now)
    }

    const A: ClientId = [1; 16];
    const B: ClientId = [2; 16];

    #[test]
    fn a_change_waits_until_leases_run_out() {
        let (leases, now) = leases(1000, false);
        let dir = DirId(5);
        assert_eq!(leases.grant(A, &[DirId::ROOT, dir]), 1000);
        assert!(!leases.revoke(dir, Some(B)));
        assert_eq!(leases.grant(B, &[DirId::ROOT, dir]), 0, "nobody gets one meanwhile");
        assert_eq!(leases.grant(B, &[DirId::ROOT]), 1000);
        now.fetch_add(999_999_999, Ordering::Relaxed);
        assert!(!leases.revoke(dir, Some(B)));
        now.fetch_add(2, Ordering::Relaxed);
        assert!(leases.revoke(dir, Some(B)));
        assert_eq!(leases.grant(B, &[dir]), 0, "it is being changed");
        leases.change_done(dir);
        assert_eq!(leases.grant(B, &[dir]), 1000);
    }

    #[test]
    fn a_change_does_not_wait_for_who_gives_up_or_makes_it() {
        let (leases, _) = leases(1000, false);
        let dir = DirId(5);
        leases.grant(A, &[dir]);
        assert!(leases.revoke(dir, Some(A)), "their own");
        leases.change_done(dir);
        leases.grant(A, &[dir]);
        assert!(!leases.has_revoked(&A));
        assert!(!leases.revoke(dir, None));
        assert!(leases.has_revoked(&A) && !leases.has_revoked(&B));
        assert_eq!(leases.return_revoked(&A), [5]);
        assert!(!leases.has_revoked(&A));
        assert!(leases.revoke(dir, None));
    }

    /// The first of two changes that was done let leases be given while the other went on.
    #[test]
    fn no_lease_is_given_while_a_second_change_is_under_way() {
        let (leases, _) = leases(1000, false);
        let dir = DirId(5);
        assert!(leases.revoke(dir, Some(A)));
        assert!(!leases.revoke(dir, Some(B)), "one after the other");
        leases.change_done(dir);
        assert!(leases.revoke(dir, Some(B)));
        assert_eq!(leases.grant(A, &[dir]), 0);
        leases.change_done(dir);
        assert_eq!(leases.grant(A, &[dir]), 1000);
    }

    /// It was remembered for ever, and every answer to anybody looked whether it was for it.
    #[test]
    fn a_client_that_is_gone_is_not_called_back_for_ever() {
        let (leases, now) = leases(1000, false);
        for client in 0..9 {
            leases.grant([client; 16], &[DirId(5), DirId(6)]);
        }
        assert!(!leases.revoke(DirId(5), None));
        assert_eq!(leases.revocations.load(Ordering::Relaxed), 9);
        now.fetch_add(1_000_000_001, Ordering::Relaxed);
        assert!(leases.revoke(DirId(5), None));
        assert_eq!(leases.revocations.load(Ordering::Relaxed), 0);
        assert!(leases.table().revoked.is_empty());
    }

    #[test]
    fn a_server_that_was_started_again_waits_for_leases_that_it_does_not_know() {
        let (leases, now) = leases(1000, true);
        assert!(!leases.revoke(DirId(5), Some(A)));
        now.fetch_add(1_000_000_000, Ordering::Relaxed);
        assert!(leases.revoke(DirId(5), Some(A)));
    }
}

//! The lock of a repository of backups in an object store: an object that its holder keeps young.
//!
//! ```text
//!   holder     put LOCK if absent   renew  renew  renew  ...    renew, remove
//!                                   every lease / 9
//!              writes nothing when the last renewal began more than lease / 3 ago
//!   another    sees LOCK, puts a probe, compares their times by the clock of the store
//!              younger than the lease: in use          older: put LOCK if it is as it was seen
//! ```
//!
//! A killed holder keeps others out for one lease. No clock of a client is compared with another
//! one. A renewal is a conditional put, so a holder that lost the lock learns it.
//!
//! **Account.** One request every ten seconds. Taking is one, and giving back two. Taking the lock
//! of a dead holder is six: a put, two reads of times with their probe, and a conditional put.
//!
//! **Giving back** removes the lock only if a conditional put has just found it to be the holder's
//! own. `object_store` has no conditional removal, which would make one request of the two.
//!
//! **Invariant:** a request that changes the repository begins within a third of the lease after a
//! renewal, and ends, by the limits of requests, before the lease does. What a machine sends later,
//! since it was stopped in between, is not kept out. So a commit confirms the lock afterwards.

use crate::bucket::of_backup;
use crate::remote::Remote;
use keyrack_backup::{Error, Result};
use keyrack_deltafs::{Tag, Text};
use keyrack_measure::{Clock, wall};
use keyrack_vfs::{Fs, RealFs, RelativePath};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

const LOCK: &str = "LOCK";
/// What the name of a probe begins with.
const PROBE: &str = "LOCK.probe-";
const FIRST: &str = "keyrack backup lock 1\n";
/// A lease that another program states counts up to this, in milliseconds.
const LEASE_MS_MAX: u64 = 3_600_000;
/// Times of objects are whole seconds with many servers.
const STORE_CLOCK_STEP_MS: u64 = 1000;

/// Whether an object of the repository's root belongs to the lock.
pub(crate) fn is_of_lock(name: &str) -> bool {
    name == LOCK || name.starts_with(PROBE)
}

/// The lock, held until this is dropped.
pub(crate) struct Lease {
    holding: Arc<Holding>,
    /// Ends the thread that renews by being dropped.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread that renews shares with those that write.
pub(crate) struct Holding {
    remote: Arc<Remote>,
    clock: Clock,
    lease: Duration,
    owner: String,
    /// What is there now, and how many renewals it took.
    seen: Mutex<(Tag, u64)>,
    /// When the last renewal began, in ticks.
    renewed: AtomicU64,
    /// Somebody else has it.
    is_lost: AtomicBool,
}

/// Who has left a lock, as far as its text says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Holder {
    lease_ms: u64,
    /// The host and the process.
    who: String,
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("owner", &self.holding.owner).finish_non_exhaustive()
    }
}

impl Lease {
    /// Takes the lock.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process has it; [`Error::Remote`].
    pub(crate) fn take(remote: &Arc<Remote>, lease: Duration) -> Result<Lease> {
        let clock = Clock::vdso();
        let owner = owner();
        let renewed = clock.ticks();
        let tag = acquire(remote, &owner, lease)?;
        let holding = Arc::new(Holding {
            remote: Arc::clone(remote),
            clock,
            lease,
            owner,
            seen: Mutex::new((tag, 0)),
            renewed: AtomicU64::new(renewed),
            is_lost: AtomicBool::new(false),
        });
        let (stop, stopped) = channel();
        let renewing = Arc::clone(&holding);
        let thread = std::thread::Builder::new()
            .name("backup-lock".to_owned())
            .spawn(move || renewing.keep_young(&stopped))
            .map_err(|error| Error::Remote(format!("cannot start a thread: {error}")))?;
        Ok(Lease { holding, stop: Some(stop), thread: Some(thread) })
    }

    pub(crate) fn holding(&self) -> &Arc<Holding> {
        &self.holding
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the thread that renews a lock does not panic");
        }
        // Another holder's is not ours to remove; what stays lapses. Its age says too little: the
        // clock may have stood still while the machine slept.
        if self.holding.confirm().is_ok() {
            let _ = self.holding.remote.remove(&name(LOCK));
        }
    }
}

impl Holding {
    /// Whether a request that changes something may begin.
    ///
    /// # Errors
    /// [`Error::Remote`] if the lock may be another's.
    pub(crate) fn check(&self) -> Result<()> {
        let ticks = self.clock.ticks().saturating_sub(self.renewed.load(Ordering::Acquire));
        let age = Duration::from_nanos(self.clock.ns(ticks));
        let place = self.remote.place(Some(&name(LOCK)));
        if self.is_lost.load(Ordering::Acquire) {
            let what = "another process has taken the lock, since this one did not renew it";
            return Err(Error::Remote(format!("{place}: {what}; check the network and try again")));
        }
        if age > self.lease / 3 {
            let what = format!("the lock could not be renewed for {} s", age.as_secs());
            return Err(Error::Remote(format!("{place}: {what}; check the network and try again")));
        }
        Ok(())
    }

    /// Renews now. What was done before was done while the lock was held.
    ///
    /// # Errors
    /// [`Error::Remote`] if the lock is another's, or nobody answers.
    pub(crate) fn confirm(&self) -> Result<()> {
        self.renew()?;
        self.check()
    }

    fn keep_young(&self, stopped: &Receiver<()>) {
        while stopped.recv_timeout(self.lease / 9) == Err(RecvTimeoutError::Timeout) {
            // It is tried again, until `check` says that it is too late.
            let _ = self.renew();
        }
    }

    fn renew(&self) -> Result<()> {
        let mut seen = self.seen();
        if self.is_lost.load(Ordering::Acquire) {
            return Ok(());
        }
        let begun = self.clock.ticks();
        // After an error the same bytes are put again, so a put that arrived is known as ours.
        let text = text(&self.owner, self.lease, seen.1 + 1);
        let put = self.remote.replace_tagged(&name(LOCK), text.as_bytes(), &seen.0);
        match put.map_err(of_backup)? {
            Some(tag) => {
                *seen = (tag, seen.1 + 1);
                // With the loads in `check`.
                self.renewed.store(begun, Ordering::Release);
            }
            None => self.is_lost.store(true, Ordering::Release),
        }
        Ok(())
    }

    fn seen(&self) -> MutexGuard<'_, (Tag, u64)> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts the lock where none is, or in the place of one whose lease is over.
fn acquire(remote: &Remote, owner: &str, lease: Duration) -> Result<Tag> {
    let lock = name(LOCK);
    let text = text(owner, lease, 0);
    if let Some(tag) = remote.create_tagged(&lock, text.as_bytes()).map_err(of_backup)? {
        return Ok(tag);
    }
    let busy = |who: &str, remedy: &str| {
        let place = remote.place(None);
        Err(Error::Locked(format!("{place} is in use by {who}; {remedy}")))
    };
    let Some((there, put_ns)) = remote.get_dated(&lock).map_err(of_backup)? else {
        return busy("another process that ends just now", "try again");
    };
    let holder = Holder::of(&there, lease);
    let age_ms = store_ns(remote, owner)?.saturating_sub(put_ns) / 1_000_000;
    let age_ms = u64::try_from(age_ms).unwrap_or(0);
    let lapses_ms = holder.lease_ms + STORE_CLOCK_STEP_MS;
    if age_ms < lapses_ms {
        let seconds = (lapses_ms - age_ms).div_ceil(1000);
        let remedy = format!("wait until it is done; if it was killed, try again in {seconds} s");
        return busy(&holder.who, &remedy);
    }
    let taken = remote.replace_tagged(&lock, text.as_bytes(), &there.tag);
    match taken.map_err(of_backup)? {
        Some(tag) => Ok(tag),
        None => busy("another process that began just now", "wait until that one is done"),
    }
}

/// The time by the clock of the store, in nanoseconds since 1970.
fn store_ns(remote: &Remote, owner: &str) -> Result<i64> {
    let probe = name(&format!("{PROBE}{owner}"));
    remote.create_tagged(&probe, b"probe").map_err(of_backup)?;
    let dated = remote.get_dated(&probe);
    remote.remove(&probe).map_err(of_backup)?;
    // One that is not there any more says nothing: the lock is taken for young.
    Ok(dated.map_err(of_backup)?.map_or(i64::MIN, |(_, put_ns)| put_ns))
}

/// A name that no other holder has.
fn owner() -> String {
    let process = (std::process::id(), wall::unix_ns());
    format!("{:016x}", RandomState::new().hash_one(process))
}

fn text(owner: &str, lease: Duration, renewals: u64) -> String {
    let host = RealFs.read(Path::new("/proc/sys/kernel/hostname")).unwrap_or_default();
    let host: String = String::from_utf8_lossy(&host).chars().filter(is_plain).take(64).collect();
    let process = std::process::id();
    let lease = lease.as_millis();
    format!("{FIRST}lease {lease}\nwho process {process} on {host}\n{owner} {renewals}\n")
}

fn is_plain(c: &char) -> bool {
    c.is_ascii_graphic()
}

impl Holder {
    /// What a lock says of its holder; with `lease`, if it says nothing.
    fn of(there: &Text, lease: Duration) -> Holder {
        let ours = u64::try_from(lease.as_millis()).unwrap_or(LEASE_MS_MAX);
        let text = std::str::from_utf8(&there.bytes).unwrap_or_default();
        let mut lines = text.strip_prefix(FIRST).unwrap_or_default().lines();
        let stated = lines.next().and_then(|line| line.strip_prefix("lease ")?.parse().ok());
        let who: String = lines
            .next()
            .and_then(|line| line.strip_prefix("who "))
            .unwrap_or("another process")
            .chars()
            .filter(|c| is_plain(c) || *c == ' ')
            .take(100)
            .collect();
        Holder { lease_ms: stated.unwrap_or(ours).min(LEASE_MS_MAX), who }
    }
}

fn name(text: &str) -> RelativePath {
    RelativePath::new(text).expect("composed of constants and digits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Whose;
    use object_store::memory::InMemory;

    /// The machine slept for longer than a lease, and its clock with it.
    #[test]
    fn a_lock_that_another_has_taken_meanwhile_stays() {
        let store = Arc::new(InMemory::new());
        let remote = Arc::new(Remote::new(store, "", Whose::memory()).unwrap());
        let lease = Lease::take(&remote, Duration::from_secs(3_600)).unwrap();
        let (ours, _) = remote.get_dated(&name(LOCK)).unwrap().unwrap();
        let theirs = text("another", Duration::from_secs(3_600), 0);
        assert!(remote.replace(&name(LOCK), theirs.as_bytes(), &ours.tag).unwrap());
        drop(lease);
        let there = remote.get(&name(LOCK)).unwrap().expect("it is not ours");
        assert_eq!(there.bytes, theirs.as_bytes());
        remote.remove(&name(LOCK)).unwrap();
        // One's own goes.
        drop(Lease::take(&remote, Duration::from_secs(3_600)).unwrap());
        assert!(remote.get(&name(LOCK)).unwrap().is_none());
    }
}

//! Misbehaviour on purpose, for checking that a tool notices: errors, a full disk, stalls.
//!
//! ```text
//!   fail_every = N       of the writes of one session, numbers N, 2N, 3N... fail with EIO
//!   fail_get_every = N   the same for keys looked up by get and multi_get
//!   full_after = N       the store accepts N writes; from then on every write fails with ENOSPC
//!   stall_every_ms, stall_ms
//!
//!   clock  0          every        2 every
//!          |------------|####---------|####---------   # operations that arrive wait for the end
//!                        stall_ms
//! ```
//!
//! A batch counts as as many writes as it holds and fails as a whole. A multi_get counts as as many
//! lookups as it has keys. Stalls follow the clock from the opening of the store and concern
//! all sessions and all operations, scans included; no operation is stalled twice.

use super::{PlainSession, count};
use crate::contract::{Decide, RowVisitor, ValueVisitor};
use keyrack_measure::Clock;
use keyrack_store::{Batch, Error, OpenOptions, Removed, Result, Session};
use std::io;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

/// The numbers of these errors on Linux and the BSDs alike.
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

const NS_PER_MS: u64 = 1_000_000;

/// What goes wrong, and when.
pub(crate) struct Faults {
    fail_every: Option<NonZeroU64>,
    fail_get_every: Option<NonZeroU64>,
    full_after: Option<NonZeroU64>,
    stall: Option<Stall>,
}

#[derive(Clone, Copy)]
struct Stall {
    every_ns: u64,
    length_ns: u64,
    /// The tick at which the store was opened.
    opened: u64,
}

impl Faults {
    /// The misbehaviour that `options` ask for, or `None` where they ask for none.
    pub(crate) fn parse(options: &OpenOptions) -> Result<Option<Self>> {
        let option = |key| count(options, key).map(NonZeroU64::new);
        let faults = Faults {
            fail_every: option("fail_every")?,
            fail_get_every: option("fail_get_every")?,
            full_after: option("full_after")?,
            stall: Stall::parse(count(options, "stall_every_ms")?, count(options, "stall_ms")?)?,
        };
        let any = faults.fail_every.or(faults.fail_get_every).or(faults.full_after).is_some();
        Ok((any || faults.stall.is_some()).then_some(faults))
    }
}

impl Stall {
    fn parse(every_ms: u64, length_ms: u64) -> Result<Option<Self>> {
        match (every_ms, length_ms) {
            (0, 0) => return Ok(None),
            (0, _) => return Err(Error::usage("stall_ms needs stall_every_ms")),
            (_, 0) => return Err(Error::usage("stall_every_ms needs stall_ms")),
            _ if length_ms >= every_ms => {
                return Err(Error::usage(format!(
                    "stall_ms: {length_ms} is not less than stall_every_ms, {every_ms}"
                )));
            }
            _ => {}
        }
        let ns = |ms: u64, key: &str| {
            let ns = ms.checked_mul(NS_PER_MS);
            ns.ok_or_else(|| Error::usage(format!("{key}: {ms} ms is more than 500 years")))
        };
        Ok(Some(Stall {
            every_ns: ns(every_ms, "stall_every_ms")?,
            length_ns: ns(length_ms, "stall_ms")?,
            opened: Clock::calibrated().ticks(),
        }))
    }

    /// Returns when no stall is on, by the clock at the time of the call.
    fn pass(self, clock: &Clock) {
        let elapsed_ns = clock.ns_between(self.opened, clock.ticks());
        let into_ns = elapsed_ns % self.every_ns;
        if elapsed_ns >= self.every_ns && into_ns < self.length_ns {
            let end_ns = elapsed_ns - into_ns + self.length_ns;
            clock.wait_until(self.opened + clock.ticks_of_ns(end_ns));
        }
    }
}

/// A plain session behind the faults of its store.
pub(crate) struct FaultySession<'a> {
    plain: PlainSession<'a>,
    faults: &'a Faults,
    /// Writes that the store has accepted.
    accepted: &'a AtomicU64,
    /// The clock of the stalls, where there are any.
    clock: Option<Clock>,
    writes: u64,
    gets: u64,
}

impl<'a> FaultySession<'a> {
    pub(crate) fn new(
        plain: PlainSession<'a>,
        faults: &'a Faults,
        accepted: &'a AtomicU64,
    ) -> Self {
        let clock = faults.stall.is_some().then(Clock::calibrated);
        FaultySession { plain, faults, accepted, clock, writes: 0, gets: 0 }
    }

    fn stall(&self) {
        if let (Some(stall), Some(clock)) = (self.faults.stall, &self.clock) {
            stall.pass(clock);
        }
    }

    fn before_gets(&mut self, keys: u64) -> Result<()> {
        self.stall();
        if reaches(&mut self.gets, keys, self.faults.fail_get_every) {
            return Err(fault("fail_get_every", EIO));
        }
        Ok(())
    }

    fn before_writes(&mut self, writes: u64) -> Result<()> {
        self.stall();
        if reaches(&mut self.writes, writes, self.faults.fail_every) {
            return Err(fault("fail_every", EIO));
        }
        if let Some(full_after) = self.faults.full_after {
            // Relaxed: the count orders nothing else. What does not fit is counted too, so a full
            // store stays full.
            let before = self.accepted.fetch_add(writes, Ordering::Relaxed);
            if before.saturating_add(writes) > full_after.get() {
                return Err(fault("full_after", ENOSPC));
            }
        }
        Ok(())
    }
}

/// Adds `add` to `counter` and tells whether it has reached a multiple of `every` on the way.
fn reaches(counter: &mut u64, add: u64, every: Option<NonZeroU64>) -> bool {
    let before = *counter;
    *counter = before.wrapping_add(add);
    every.is_some_and(|every| *counter / every > before / every)
}

fn fault(option: &str, errno: i32) -> Error {
    Error::io(format!("null, as {option} asks"), io::Error::from_raw_os_error(errno))
}

impl Session for FaultySession<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.before_gets(1)?;
        self.plain.get(key, visit)
    }

    fn multi_get(&mut self, keys: &[&[u8]], visit: &mut ValueVisitor<'_>) -> Result<()> {
        self.before_gets(keys.len() as u64)?;
        self.plain.multi_get(keys, visit)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.before_writes(1)?;
        self.plain.put(key, value)
    }

    fn remove(&mut self, key: &[u8]) -> Result<Removed> {
        self.before_writes(1)?;
        self.plain.remove(key)
    }

    fn update(&mut self, key: &[u8], decide: &mut Decide<'_>) -> Result<()> {
        self.before_writes(1)?;
        self.plain.update(key, decide)
    }

    fn scan(&mut self, low: &[u8], high: Option<&[u8]>, visit: &mut RowVisitor<'_>) -> Result<u64> {
        self.stall();
        self.plain.scan(low, high, visit)
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut RowVisitor<'_>,
    ) -> Result<u64> {
        self.stall();
        self.plain.scan_rev(low, high, visit)
    }

    fn apply(&mut self, batch: &Batch) -> Result<()> {
        self.before_writes(batch.len() as u64)?;
        self.plain.apply(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{NullStore, open};
    use super::*;
    use keyrack_store::{Store, Update};
    use keyrack_vfs::RealFs;
    use std::ops::ControlFlow;
    use std::sync::Arc;

    fn store(pairs: &[(&str, &str)]) -> Box<dyn Store> {
        let mut options = OpenOptions::in_memory(Arc::new(RealFs));
        let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        options.options = pairs.iter().map(owned).collect();
        open(&options).unwrap()
    }

    fn batch(writes: usize) -> Batch {
        let mut batch = Batch::new();
        (0..writes).for_each(|_| batch.put(b"k", b"v"));
        batch
    }

    #[test]
    fn every_nth_write_of_a_session_fails_and_no_get_does() {
        let store = store(&[("fail_every", "3")]);
        for _ in 0..2 {
            let mut session = store.session().unwrap();
            let mut outcomes = Vec::new();
            for _ in 0..2 {
                outcomes.push(session.put(b"k", b"v").is_ok());
                assert!(session.get(b"k", &mut |_| {}).unwrap());
                outcomes.push(session.remove(b"k").is_ok());
                outcomes.push(session.update(b"k", &mut |_, _| Update::Keep).is_ok());
            }
            assert_eq!(outcomes, [true, true, false, true, true, false]);
            assert!(session.apply(&batch(2)).is_ok());
            assert!(session.apply(&batch(0)).is_ok());
            let error = session.apply(&batch(2)).unwrap_err();
            assert!(error.to_string().contains("fail_every"), "{error}");
            assert!(
                matches!(error, Error::Io { source, .. } if source.raw_os_error() == Some(EIO))
            );
        }
    }

    #[test]
    fn every_nth_lookup_of_a_session_fails_and_no_write_does() {
        let store = store(&[("fail_get_every", "2")]);
        let mut session = store.session().unwrap();
        assert!(session.get(b"k", &mut |_| {}).is_ok());
        assert!(session.put(b"k", b"v").is_ok());
        assert!(session.get(b"k", &mut |_| panic!("lent a value")).is_err());
        assert!(session.multi_get(&[b"k"], &mut |_, _| {}).is_ok());
        assert!(session.multi_get(&[b"k", b"k"], &mut |_, _| panic!("visited")).is_err());
    }

    #[test]
    fn a_full_store_is_full_for_every_session_and_stays_full() {
        let store = store(&[("full_after", "4")]);
        let (mut one, mut two) = (store.session().unwrap(), store.session().unwrap());
        assert!(one.put(b"k", b"v").is_ok());
        assert!(two.apply(&batch(3)).is_ok());
        for session in [&mut one, &mut two] {
            assert!(session.put(b"k", b"v").unwrap_err().is_no_space());
            assert!(session.apply(&batch(2)).unwrap_err().is_no_space());
            assert!(session.remove(b"k").unwrap_err().is_no_space());
            assert!(session.get(b"k", &mut |_| {}).unwrap());
        }
    }

    /// The fake clock moves a millisecond with each reading, and to its end with each wait. An
    /// operation reads it once, and the test once after each operation.
    #[test]
    fn operations_that_arrive_in_a_stall_wait_for_its_end() {
        let stall = Stall { every_ns: 10 * NS_PER_MS, length_ns: 4 * NS_PER_MS, opened: 0 };
        let faults =
            Faults { fail_every: None, fail_get_every: None, full_after: None, stall: Some(stall) };
        let store = NullStore {
            value: (*b"v").into(),
            miss: false,
            rows_per_scan: 0,
            faults: None,
            writes: AtomicU64::new(0),
        };
        let mut session = FaultySession::new(store.plain(), &faults, &store.writes);
        session.clock = Some(Clock::fake(NS_PER_MS));
        // The stalls are from 10, 20, 30 and 40 ms on and last 4 ms. Operations arrive at 0, 2, 4,
        // 6, 8, 10 and wait until 14; then at 15, 17, 19, 21 and wait until 24; and so on.
        let mut ends_ms = Vec::new();
        for operation in 0..20 {
            match operation % 4 {
                0 => assert!(session.get(b"k", &mut |_| {}).unwrap()),
                1 => session.put(b"k", b"v").unwrap(),
                2 => session.apply(&batch(1)).unwrap(),
                _ => assert_eq!(
                    session.scan(b"", None, &mut |_, _| ControlFlow::Break(())).unwrap(),
                    0
                ),
            }
            let clock = session.clock.as_ref().unwrap();
            ends_ms.push(clock.ticks() / NS_PER_MS);
        }
        let expected = [1, 3, 5, 7, 9, 14, 16, 18, 20, 24, 26, 28, 30, 34, 36, 38, 40, 44, 46, 48];
        assert_eq!(ends_ms, expected);
    }

    #[test]
    fn without_faults_the_session_is_the_plain_one() {
        let mut options = OpenOptions::in_memory(Arc::new(RealFs));
        options.options = vec![("fail_every".to_owned(), "0".to_owned())];
        assert!(Faults::parse(&options).unwrap().is_none());
        options.options = vec![("full_after".to_owned(), "1".to_owned())];
        assert!(Faults::parse(&options).unwrap().is_some());
    }
}

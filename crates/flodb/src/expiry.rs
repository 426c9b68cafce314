//! Values that expire: how they are stored, what time it is, and what tables say of them.
//!
//! ```text
//!   value of the entry = expiry: u64 little-endian, milliseconds since 1970 | value
//! ```
//!
//! **The rule.** An expired value is to a reader what a tombstone with its sequence number is: it
//! hides what is older, and has nothing to show. A value is expired for a reader whose clock is not
//! before the expiry. A snapshot has the clock of the moment when it was taken, and so have
//! iterators and transactions; all others have that of now. So what a snapshot shows does not
//! change. A build replaces an expired value by its tombstone when it is expired for the oldest
//! snapshot, and then for everybody: clocks only grow. What becomes of the tombstone is decided as
//! for any other, see `db::build`.
//!
//! **The clock of a store never goes back** while the store is open, whatever its source does. A
//! value that was seen to be expired stays so. If the source goes back before the store is opened
//! again, values that no build has met come back for as long.
//!
//! **A store without such values pays** one load when an iterator or a snapshot is made, and one
//! comparison of the kind of an entry that is not a plain value. Nobody reads the clock.

use crate::coding::{Reader, put_varint};
use crossbeam_utils::CachePadded;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Bytes of the expiry before the value.
const EXPIRY_BYTES: usize = 8;

/// A table is rewritten for its expired values alone if they are at least one entry in this many.
const EXPIRED_SHARE: u64 = 4;

/// When a value goes, as [`Db::expiry`](crate::Db::expiry) says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// It stays until it is replaced or removed.
    Never,
    /// At this moment, in milliseconds since 1970.
    At(u64),
}

/// Where a store has its time from, in milliseconds since 1970. Only values that expire need it.
#[derive(Clone, Default)]
pub enum Clock {
    /// From the clock of the system.
    #[default]
    System,
    /// From somebody else: a test, or a simulation. Called for reads of values that expire, so it
    /// must be quick, and must not use the store.
    Custom(Arc<dyn Fn() -> u64 + Send + Sync>),
}

impl Clock {
    fn now_ms(&self) -> u64 {
        match self {
            Clock::System => keyrack_measure::wall::unix_ms(),
            Clock::Custom(now_ms) => now_ms(),
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Clock::System => "System",
            Clock::Custom(_) => "Custom",
        })
    }
}

/// The clock of an open store, and whether it has values that expire.
pub(crate) struct Expiries {
    is_used: AtomicBool,
    source: Clock,
    /// The last time that anybody was told.
    last_ms: CachePadded<AtomicU64>,
}

impl Expiries {
    pub(crate) fn new(source: Clock, is_used: bool) -> Self {
        Expiries { is_used: AtomicBool::new(is_used), source, last_ms: CachePadded::default() }
    }

    /// Whether the store may hold a value that expires. A thread that sees such a value sees this.
    #[inline]
    pub(crate) fn is_used(&self) -> bool {
        // Acquire, pairs with `set_used`. That comes before the write is published.
        self.is_used.load(Ordering::Acquire)
    }

    pub(crate) fn set_used(&self) {
        self.is_used.store(true, Ordering::Release);
    }

    /// What time it is. Never less than anybody was told before.
    pub(crate) fn now_ms(&self) -> u64 {
        let now_ms = self.source.now_ms();
        // Acquire and Release: whoever knows of an answer gets no smaller one.
        let last_ms = self.last_ms.load(Ordering::Acquire);
        if now_ms <= last_ms {
            return last_ms;
        }
        // Once in a millisecond.
        now_ms.max(self.last_ms.fetch_max(now_ms, Ordering::AcqRel))
    }

    /// The moment that comes so much later than now.
    pub(crate) fn after(&self, ttl: Duration) -> u64 {
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        self.now_ms().saturating_add(ttl_ms)
    }
}

/// A value as it is stored.
pub(crate) fn stored(expires_ms: u64, value: &[u8]) -> Vec<u8> {
    [&expires_ms.to_le_bytes()[..], value].concat()
}

/// Expiry and value of what is stored. `None` if it is too short.
#[inline]
pub(crate) fn split(stored: &[u8]) -> Option<(u64, &[u8])> {
    let (expires_ms, value) = stored.split_first_chunk::<EXPIRY_BYTES>()?;
    Some((u64::from_le_bytes(*expires_ms), value))
}

/// The same of what was put together here, or was checked before.
pub(crate) fn split_whole(stored: &[u8]) -> (u64, &[u8]) {
    split(stored).expect("a value that expires has its expiry")
}

/// What a table says of its values that expire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExpiryCount {
    pub(crate) count: u64,
    /// The first expiry; 0 if there are none.
    pub(crate) first_ms: u64,
    /// The last one.
    pub(crate) last_ms: u64,
}

impl ExpiryCount {
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Counts one more.
    pub(crate) fn add(&mut self, expires_ms: u64) {
        let first_ms = if self.is_empty() { expires_ms } else { self.first_ms };
        self.first_ms = first_ms.min(expires_ms);
        self.last_ms = self.last_ms.max(expires_ms);
        self.count += 1;
    }

    /// Whether the numbers can be those of a table with so many values.
    pub(crate) fn fits(&self, values: u64) -> bool {
        self.count <= values && self.first_ms <= self.last_ms
    }

    /// Whether at least one is expired at a moment.
    pub(crate) fn has_expired(&self, at_ms: u64) -> bool {
        !self.is_empty() && self.first_ms <= at_ms
    }

    /// Whether a table with so many entries is nothing but values that are expired at a moment.
    pub(crate) fn are_all(&self, entries: u64, at_ms: u64) -> bool {
        self.count == entries && self.last_ms <= at_ms
    }

    /// When enough of so many entries are expired that the table is worth writing anew, as if the
    /// expiries were spread evenly. `None` if they will never be.
    pub(crate) fn due_ms(&self, entries: u64) -> Option<u64> {
        let enough = entries.div_ceil(EXPIRED_SHARE);
        if self.is_empty() || self.count < enough {
            return None;
        }
        let span = u128::from(self.last_ms - self.first_ms);
        let passed = span * u128::from(enough) / u128::from(self.count);
        // Not more than the span, since enough is not more than all.
        Some(self.first_ms + passed as u64)
    }

    /// As the manifest and the properties of a table have it.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        [self.count, self.first_ms, self.last_ms].iter().for_each(|it| put_varint(out, *it));
    }

    pub(crate) fn take(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let count = reader.varint().filter(|count| *count > 0)?;
        let (first_ms, last_ms) = (reader.varint()?, reader.varint()?);
        let taken = ExpiryCount { count, first_ms, last_ms };
        Some(taken).filter(|taken| reader.is_empty() && taken.fits(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_back_with_its_expiry() {
        for (expires_ms, value) in [(0, &b""[..]), (1 << 40, b"value"), (u64::MAX, b"\0")] {
            assert_eq!(split(&stored(expires_ms, value)), Some((expires_ms, value)));
        }
        for bytes in 0..EXPIRY_BYTES {
            assert_eq!(split(&[7; EXPIRY_BYTES][..bytes]), None);
        }
    }

    #[test]
    fn the_clock_of_a_store_never_goes_back() {
        let source = Arc::new(AtomicU64::new(50));
        let of_clock = Arc::clone(&source);
        let clock = Clock::Custom(Arc::new(move || of_clock.load(Ordering::Relaxed)));
        let expiries = Expiries::new(clock, false);
        assert_eq!(expiries.now_ms(), 50);
        source.store(20, Ordering::Relaxed);
        assert_eq!(expiries.now_ms(), 50);
        assert_eq!(expiries.after(Duration::from_millis(7)), 57);
        source.store(51, Ordering::Relaxed);
        assert_eq!(expiries.now_ms(), 51);
        assert_eq!(expiries.after(Duration::MAX), u64::MAX);
    }

    #[test]
    fn counts_come_back_and_contradictions_are_refused() {
        let mut count = ExpiryCount::default();
        [7, 3, 1 << 60].iter().for_each(|at| count.add(*at));
        assert_eq!(count, ExpiryCount { count: 3, first_ms: 3, last_ms: 1 << 60 });
        let mut bytes = Vec::new();
        count.put(&mut bytes);
        assert_eq!(ExpiryCount::take(&bytes), Some(count));
        for end in 0..bytes.len() {
            assert_eq!(ExpiryCount::take(&bytes[..end]), None);
        }
        assert_eq!(ExpiryCount::take(&[&bytes[..], b"x"].concat()), None);
        assert_eq!(ExpiryCount::take(&[0, 0, 0]), None, "none at all is not written");
        assert_eq!(ExpiryCount::take(&[1, 5, 4]), None, "the last before the first");
        assert!(count.fits(3) && !count.fits(2));
    }

    #[test]
    fn a_table_is_due_when_a_quarter_of_it_is_expired() {
        let of = |count, first_ms, last_ms| ExpiryCount { count, first_ms, last_ms };
        assert_eq!(of(0, 0, 0).due_ms(10), None);
        assert_eq!(of(2, 5, 9).due_ms(10), None, "too few, even when all are over");
        assert_eq!(of(3, 5, 9).due_ms(10), Some(9), "three of ten: all of them");
        assert_eq!(of(100, 1_000, 2_000).due_ms(100), Some(1_250));
        assert_eq!(of(1, 7, 7).due_ms(1), Some(7));
        assert_eq!(of(u64::MAX, 0, u64::MAX).due_ms(u64::MAX), Some((u64::MAX).div_ceil(4)));
        assert!(of(3, 5, 9).has_expired(5) && !of(3, 5, 9).has_expired(4));
        assert!(of(3, 5, 9).are_all(3, 9) && !of(3, 5, 9).are_all(3, 8));
        assert!(!of(3, 5, 9).are_all(4, 9));
    }
}

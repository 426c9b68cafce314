//! The memory that connections hold: one limit for all loops, counted where it is held.
//!
//! ```text
//!   ClientMemory   one atomic total, never above the limit
//!     ^  steps of 64 KiB
//!   LoopMemory     what one loop has taken, and what of it is in use; no atomics
//!     ^  bytes
//!   Charge         one holder: a connection's buffers, a transaction, a pool
//!
//!   0 ......................... 7/8 ........ limit
//!   | any holder                | holders of at most 64 KiB |
//! ```
//!
//! The last eighth is for small holders. Connections that hold much are refused first, and clients
//! with small requests are served on.
//!
//! **Invariants:** the total never exceeds the limit. A [`Charge`] gives everything back when it is
//! dropped. A holder that neither grows nor shrinks writes to no shared memory.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Bytes that a loop reserves at once from the total.
const STEP_BYTES: usize = 64 << 10;

/// The most that a small holder holds.
const SMALL_BYTES: usize = 64 << 10;

/// The divisor of the limit that gives the part reserved for small holders.
const SMALL_SHARE: usize = 8;

/// The memory of the connections of all loops.
#[derive(Debug)]
pub struct ClientMemory {
    bytes_max: usize,
    taken: AtomicUsize,
    moves: AtomicU64,
}

impl ClientMemory {
    /// At most `bytes_max` bytes.
    #[must_use]
    pub fn new(bytes_max: u64) -> Arc<Self> {
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        Arc::new(ClientMemory { bytes_max, taken: AtomicUsize::new(0), moves: AtomicU64::new(0) })
    }

    /// As many bytes as there are.
    #[must_use]
    pub fn unlimited() -> Arc<Self> {
        Self::new(u64::MAX)
    }

    /// The limit.
    #[must_use]
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Bytes that loops have reserved: what connections hold, and less than 192 KiB more a loop.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.taken.load(Relaxed)
    }

    /// How often a loop has taken something, given it back, or was refused: as often it wrote to
    /// memory that loops share.
    #[must_use]
    pub fn moves(&self) -> u64 {
        self.moves.load(Relaxed)
    }

    /// The most that holders of more than 64 KiB come to together.
    #[must_use]
    pub fn large_bytes_max(&self) -> usize {
        self.bytes_max - self.bytes_max / SMALL_SHARE
    }

    /// Whether a large holder could reserve `bytes` now.
    #[must_use]
    pub fn has_room(&self, bytes: usize) -> bool {
        self.bytes().saturating_add(bytes) <= self.large_bytes_max()
    }

    /// Takes `least` bytes, and more up to a whole step where there are more.
    fn reserve(&self, least: usize, is_large: bool) -> Option<usize> {
        let most = if is_large { self.large_bytes_max() } else { self.bytes_max };
        self.moves.fetch_add(1, Relaxed);
        let mut got = 0;
        // Relaxed: the count alone is shared.
        let taken = self.taken.fetch_update(Relaxed, Relaxed, |taken| {
            let free = most.checked_sub(taken)?;
            got = least.checked_next_multiple_of(STEP_BYTES)?.min(free);
            (got >= least).then(|| taken + got)
        });
        taken.is_ok().then_some(got)
    }

    fn release(&self, bytes: usize) {
        self.moves.fetch_add(1, Relaxed);
        self.taken.fetch_sub(bytes, Relaxed);
    }
}

/// The part of it that one thread has taken.
#[derive(Clone, Debug)]
pub struct LoopMemory {
    part: Rc<Part>,
}

#[derive(Debug)]
struct Part {
    total: Arc<ClientMemory>,
    taken: Cell<usize>,
    used: Cell<usize>,
}

impl LoopMemory {
    /// Nothing so far.
    #[must_use]
    pub fn new(total: &Arc<ClientMemory>) -> Self {
        let total = Arc::clone(total);
        LoopMemory { part: Rc::new(Part { total, taken: Cell::new(0), used: Cell::new(0) }) }
    }

    /// A holder of nothing.
    #[must_use]
    pub fn charge(&self) -> Charge {
        Charge { memory: self.clone(), bytes: 0 }
    }

    /// Gives back what is not in use, but for a step or two. To be called between requests: what is
    /// released and taken again meanwhile touches no shared memory.
    pub fn trim(&self) {
        let Part { total, taken, used } = &*self.part;
        let kept = match used.get() {
            0 => 0,
            used => used.next_multiple_of(STEP_BYTES) + STEP_BYTES,
        };
        let surplus = taken.get().saturating_sub(kept);
        if surplus > STEP_BYTES || (kept == 0 && surplus > 0) {
            taken.set(taken.get() - surplus);
            total.release(surplus);
        }
    }

    fn grow(&self, by: usize, is_large: bool) -> bool {
        let Part { total, taken, used } = &*self.part;
        let Some(wanted) = used.get().checked_add(by) else { return false };
        if wanted > taken.get() {
            let Some(got) = total.reserve(wanted - taken.get(), is_large) else { return false };
            taken.set(taken.get() + got);
        }
        used.set(wanted);
        true
    }

    fn shrink(&self, by: usize) {
        self.part.used.set(self.part.used.get() - by);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.total.release(self.taken.get());
    }
}

/// The memory of one holder, until it is dropped.
#[derive(Debug)]
pub struct Charge {
    memory: LoopMemory,
    bytes: usize,
}

impl Charge {
    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Holds `bytes` from now on. False when that is more than before and not there: then it holds
    /// what it held.
    #[must_use]
    #[inline]
    pub fn set(&mut self, bytes: usize) -> bool {
        if bytes == self.bytes {
            return true;
        }
        self.change(bytes)
    }

    /// Holds nothing from now on.
    pub fn clear(&mut self) {
        self.memory.shrink(std::mem::take(&mut self.bytes));
    }

    fn change(&mut self, bytes: usize) -> bool {
        if bytes < self.bytes {
            self.memory.shrink(self.bytes - bytes);
        } else if !self.memory.grow(bytes - self.bytes, bytes > SMALL_BYTES) {
            return false;
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn the_limit_holds_to_the_byte_and_a_refusal_takes_nothing() {
        let total = ClientMemory::new(MIB as u64);
        let (one, two) = (LoopMemory::new(&total), LoopMemory::new(&total));
        let (mut first, mut second) = (one.charge(), two.charge());
        // Seven eighths, and not a byte more.
        assert!(!first.set(7 * MIB / 8 + 1));
        assert_eq!((first.bytes(), total.bytes()), (0, 0));
        assert!(first.set(7 * MIB / 8));
        assert!(!first.set(7 * MIB / 8 + 1));
        // The rest in small parts, and not a byte more.
        assert!(!second.set(SMALL_BYTES + 1));
        assert!(second.set(SMALL_BYTES));
        let mut third = two.charge();
        assert!(!third.set(SMALL_BYTES + 1) && third.set(SMALL_BYTES));
        let mut fourth = one.charge();
        assert!(!fourth.set(1));
        assert_eq!(total.bytes(), MIB);
        // The other loop can reserve what is released.
        assert!(first.set(0));
        one.trim();
        assert!(second.set(6 * MIB / 8));
        assert!(total.bytes() <= MIB);
        drop((first, second, third, fourth));
        one.trim();
        two.trim();
        assert_eq!(total.bytes(), 0);
    }

    #[test]
    fn a_holder_that_grows_and_shrinks_a_little_touches_no_shared_memory() {
        let total = ClientMemory::new(MIB as u64);
        let memory = LoopMemory::new(&total);
        let mut charge = memory.charge();
        assert!(charge.set(100));
        let (taken, moves) = (total.bytes(), total.moves());
        for _ in 0..1000 {
            assert!(charge.set(60_000) && charge.set(200));
            memory.trim();
            assert_eq!((total.bytes(), total.moves()), (taken, moves));
        }
        // Much is given back, to within a step and what rounding adds.
        assert!(charge.set(MIB / 2));
        assert!(charge.set(1));
        memory.trim();
        assert!(total.bytes() <= 3 * STEP_BYTES, "{}", total.bytes());
    }

    #[test]
    fn a_loop_that_ends_gives_everything_back() {
        let total = ClientMemory::new(MIB as u64);
        let memory = LoopMemory::new(&total);
        let mut charge = memory.charge();
        assert!(charge.set(MIB / 2));
        drop(memory);
        assert!(total.bytes() >= MIB / 2);
        drop(charge);
        assert_eq!(total.bytes(), 0);
    }

    /// Threads that take and give at random: the total is within the limit at every moment.
    #[test]
    fn threads_together_stay_within_the_limit() {
        let total = ClientMemory::new(MIB as u64);
        std::thread::scope(|threads| {
            for seed in 1..=4_usize {
                let total = &total;
                threads.spawn(move || {
                    let memory = LoopMemory::new(total);
                    let mut charges = [memory.charge(), memory.charge(), memory.charge()];
                    let (mut state, mut refused) = (seed, 0);
                    for _ in 0..20_000 {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let wanted = (state >> 33) % (MIB / 2);
                        refused += usize::from(!charges[state % 3].set(wanted));
                        assert!(total.bytes() <= MIB);
                        memory.trim();
                    }
                    assert!(refused > 0);
                });
            }
        });
        assert_eq!(total.bytes(), 0);
    }
}

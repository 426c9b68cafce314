//! Which of several copies of a thing a thread keeps to.
//!
//! What all threads change is kept as [`STRIPES`] copies, so that threads rarely meet. A thread
//! gets the number of one for life: the least that no living thread has. Where there are more
//! threads than numbers, the others get one in turn and share it. A thread that is alone on a
//! number may change the data of the number without an atomic operation. A thread that shares a
//! number may not.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How many copies there are: one for each processor of a large machine. With fewer, threads that
/// share one take its line from each other at each change.
pub(crate) const STRIPES: usize = 64;

/// The copy of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stripe {
    /// Below [`STRIPES`].
    pub(crate) number: usize,
    /// Whether no other living thread has the number alone. What one thread did with it is visible
    /// to the next that has it.
    pub(crate) alone: bool,
}

/// Which numbers are somebody's alone, a bit each.
static TAKEN: AtomicU64 = AtomicU64::new(0);
static NEXT_SHARED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static STRIPE: Cell<Option<Stripe>> = const { Cell::new(None) };
    static AT_EXIT: AtExit = const { AtExit };
}

struct AtExit;

impl Drop for AtExit {
    fn drop(&mut self) {
        if let Some(Stripe { number, alone: true }) = STRIPE.get() {
            // Destructors that come later share.
            STRIPE.set(Some(Stripe { number, alone: false }));
            // Release pairs with the Acquire of the next owner.
            TAKEN.fetch_and(!(1 << number), Ordering::Release);
        }
    }
}

/// The stripe of the calling thread.
#[inline]
pub(crate) fn stripe() -> Stripe {
    STRIPE.get().unwrap_or_else(choose)
}

#[cold]
fn choose() -> Stripe {
    // The first use arranges for the destructor; it fails when that has run already.
    let ends = AT_EXIT.try_with(|_| ()).is_ok();
    let stripe = ends.then(claim).flatten().unwrap_or_else(|| Stripe {
        // Relaxed: it is a number, nothing hangs on it.
        number: NEXT_SHARED.fetch_add(1, Ordering::Relaxed) % STRIPES,
        alone: false,
    });
    STRIPE.set(Some(stripe));
    stripe
}

/// Claims the least number that no thread has alone.
fn claim() -> Option<Stripe> {
    let least = |taken: u64| taken.trailing_ones() as usize;
    let add = |taken: u64| (least(taken) < STRIPES).then(|| taken | (taken + 1));
    // Acquire pairs with the Release of the last owner.
    let before = TAKEN.fetch_update(Ordering::Acquire, Ordering::Relaxed, add).ok()?;
    Some(Stripe { number: least(before), alone: true })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::sync::Barrier;

    #[test]
    fn no_two_living_threads_have_a_number_alone() {
        const THREADS: usize = 2 * STRIPES;
        for _ in 0..20 {
            let together = Barrier::new(THREADS);
            let stripes: Vec<Stripe> = std::thread::scope(|scope| {
                let run = || {
                    let stripe = stripe();
                    together.wait();
                    assert_eq!(super::stripe(), stripe);
                    stripe
                };
                let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(run)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert!(stripes.iter().all(|stripe| stripe.number < STRIPES));
            let alone = stripes.iter().filter(|stripe| stripe.alone);
            let numbers: BTreeSet<_> = alone.clone().map(|stripe| stripe.number).collect();
            assert_eq!(numbers.len(), alone.count());
        }
    }
}

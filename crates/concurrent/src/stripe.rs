//! Which of several copies of a thing a thread keeps to.
//!
//! What all threads change is kept as [`STRIPES`] copies. A thread gets the number of one for life,
//! in turn with the other threads, so that threads meet only where there are more of them than
//! copies.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many copies there are.
pub(crate) const STRIPES: usize = 16;

static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    // Relaxed: it is a number, nothing hangs on it.
    static STRIPE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
}

/// The number of the calling thread, below [`STRIPES`].
#[inline]
pub(crate) fn stripe() -> usize {
    // A thread that is being torn down has lost its number; any other will do.
    STRIPE.try_with(|stripe| *stripe).unwrap_or(0)
}

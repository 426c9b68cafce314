//! Waiting for another thread that is about to finish.
//!
//! A holder of a node's lock works for some hundred nanoseconds, so a waiter spins: 1, 2, 4, ... 64
//! hints to the processor. A holder that was preempted will not finish by being watched, so from
//! then on the waiter gives up its time slice at each step.

use crate::sync::yield_now;

const SPINS_LOG2_MAX: u32 = 6;

/// The state of one wait. Make a new one for each.
#[derive(Debug, Default)]
pub struct Backoff {
    step: u32,
}

impl Backoff {
    /// A wait that has not begun.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Waits a little, longer than the last time.
    pub fn wait(&mut self) {
        if cfg!(any(loom, shuttle)) || self.step > SPINS_LOG2_MAX {
            yield_now();
            return;
        }
        for _ in 0..1u32 << self.step {
            std::hint::spin_loop();
        }
        self.step += 1;
    }
}

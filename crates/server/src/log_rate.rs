//! How often a line of the log may be written that clients can cause.
//!
//! ```text
//!   second   41              42
//!   asked    x x x x x x x   x
//!   written  x x x x x       x (2 unsaid)
//! ```

use std::sync::{Mutex, PoisonError};

/// Lines in a second.
const LINES_MAX: u64 = 5;

/// A limit for one kind of line.
#[derive(Debug, Default)]
pub(crate) struct LogRate {
    window: Mutex<Window>,
}

#[derive(Debug, Default)]
struct Window {
    second: u64,
    written: u64,
    unsaid: u64,
}

impl LogRate {
    /// Whether a line may be written now: then how many were left out since the last one.
    pub(crate) fn admit(&self, now_ms: u64) -> Option<u64> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if window.second != now_ms / 1000 {
            window.second = now_ms / 1000;
            window.written = 0;
        }
        if window.written >= LINES_MAX {
            window.unsaid += 1;
            return None;
        }
        window.written += 1;
        Some(std::mem::take(&mut window.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_few_lines_and_a_number() {
        let rate = LogRate::default();
        let admitted = (0..100).filter_map(|_| rate.admit(41_000)).collect::<Vec<_>>();
        assert_eq!(admitted, [0; LINES_MAX as usize]);
        assert_eq!(rate.admit(42_000), Some(95));
        assert_eq!(rate.admit(42_999), Some(0));
    }
}

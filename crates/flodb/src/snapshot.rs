//! Moments that somebody still looks at: what compactions must not drop.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The moments in use, each with how often.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    moments: Mutex<BTreeMap<u64, usize>>,
}

impl Snapshots {
    /// Pins the moment that `now` gives. Later calls for the oldest moment see it.
    pub(crate) fn pin(self: &Arc<Self>, now: impl FnOnce() -> u64) -> Pinned {
        let mut moments = self.moments.lock().unwrap_or_else(PoisonError::into_inner);
        let sequence = now();
        *moments.entry(sequence).or_insert(0) += 1;
        Pinned { sequence, snapshots: Arc::clone(self) }
    }

    /// The oldest moment in use, `now` if there is none. Of each key, the newest version up to
    /// there and all later ones must stay.
    pub(crate) fn oldest(&self, now: impl FnOnce() -> u64) -> u64 {
        let moments = self.moments.lock().unwrap_or_else(PoisonError::into_inner);
        let now = now();
        moments.first_key_value().map_or(now, |(&oldest, _)| oldest.min(now))
    }

    /// How many moments are in use.
    pub(crate) fn len(&self) -> usize {
        self.moments.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// A moment in use. Dropping it gives it up.
#[derive(Debug)]
pub(crate) struct Pinned {
    sequence: u64,
    snapshots: Arc<Snapshots>,
}

impl Pinned {
    /// Everything up to this sequence number is seen.
    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }
}

impl Clone for Pinned {
    fn clone(&self) -> Self {
        self.snapshots.pin(|| self.sequence)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let mut moments = self.snapshots.moments.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = moments.get_mut(&self.sequence) {
            *count -= 1;
            if *count == 0 {
                moments.remove(&self.sequence);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_moment_in_use_counts() {
        let snapshots = Arc::new(Snapshots::default());
        assert_eq!(snapshots.oldest(|| 9), 9);
        let first = snapshots.pin(|| 5);
        let second = snapshots.pin(|| 7);
        let again = first.clone();
        assert_eq!((snapshots.oldest(|| 9), snapshots.len()), (5, 2));
        drop(first);
        assert_eq!(snapshots.oldest(|| 9), 5);
        drop(again);
        assert_eq!(snapshots.oldest(|| 9), 7);
        drop(second);
        assert_eq!((snapshots.oldest(|| 9), snapshots.len()), (9, 0));
    }
}

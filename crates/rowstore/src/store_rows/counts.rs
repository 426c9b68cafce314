//! Counts of rows.

use crate::collections::RowFacts;
use crate::keys;
use std::ops::{AddAssign, SubAssign};

/// The number of keys, and of rows with an expiry; or the change of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RowCounts {
    pub(super) keys: i64,
    pub(super) volatile: i64,
}

impl RowCounts {
    /// The counts of one row. An element is no key.
    pub(super) fn of(key: &[u8], facts: RowFacts) -> Self {
        let keys = if keys::is_element(key) { 0 } else { facts.rows };
        RowCounts { keys, volatile: facts.volatile }
    }

    /// The change from `before` to these counts.
    pub(super) fn since(mut self, before: RowCounts) -> Self {
        self -= before;
        self
    }
}

impl AddAssign for RowCounts {
    fn add_assign(&mut self, other: RowCounts) {
        self.keys += other.keys;
        self.volatile += other.volatile;
    }
}

impl SubAssign for RowCounts {
    fn sub_assign(&mut self, other: RowCounts) {
        self.keys -= other.keys;
        self.volatile -= other.volatile;
    }
}

//! Counts of rows.

use crate::Row;
use std::ops::{AddAssign, SubAssign};

/// The number of rows, and of those with an expiry; or the change of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RowCounts {
    pub(super) rows: i64,
    pub(super) volatile: i64,
}

impl RowCounts {
    /// The counts of one key.
    pub(super) fn of(row: Option<Row<'_>>) -> Self {
        row.map_or_else(RowCounts::default, |row| RowCounts {
            rows: 1,
            volatile: i64::from(row.expires_ms() != 0),
        })
    }

    /// The change from `before` to these counts.
    pub(super) fn since(mut self, before: RowCounts) -> Self {
        self -= before;
        self
    }
}

impl AddAssign for RowCounts {
    fn add_assign(&mut self, other: RowCounts) {
        self.rows += other.rows;
        self.volatile += other.volatile;
    }
}

impl SubAssign for RowCounts {
    fn sub_assign(&mut self, other: RowCounts) {
        self.rows -= other.rows;
        self.volatile -= other.volatile;
    }
}

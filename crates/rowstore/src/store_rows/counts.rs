//! What is counted of rows.

use crate::Row;
use std::ops::{AddAssign, SubAssign};

/// Rows, and those of them that will expire; or by how much both change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RowCounts {
    pub(super) rows: i64,
    pub(super) volatile: i64,
}

impl RowCounts {
    /// Those of one key.
    pub(super) fn of(row: Option<Row<'_>>) -> Self {
        row.map_or_else(RowCounts::default, |row| RowCounts {
            rows: 1,
            volatile: i64::from(row.expires_ms() != 0),
        })
    }

    /// What leads from `before` to this.
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

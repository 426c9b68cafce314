//! What is counted of rows.

use crate::Row;
use std::ops::{AddAssign, SubAssign};

/// Rows, and those of them that will expire; or by how much both change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) rows: i64,
    pub(super) volatile: i64,
}

impl Sums {
    /// Those of one key.
    pub(super) fn of(row: Option<Row<'_>>) -> Self {
        row.map_or_else(Sums::default, |row| Sums {
            rows: 1,
            volatile: i64::from(row.expires_ms() != 0),
        })
    }

    /// What leads from `before` to this.
    pub(super) fn since(mut self, before: Sums) -> Self {
        self -= before;
        self
    }
}

impl AddAssign for Sums {
    fn add_assign(&mut self, other: Sums) {
        self.rows += other.rows;
        self.volatile += other.volatile;
    }
}

impl SubAssign for Sums {
    fn sub_assign(&mut self, other: Sums) {
        self.rows -= other.rows;
        self.volatile -= other.volatile;
    }
}

//! Walking over a store: one sequence of user keys out of all levels.

mod bounded;
mod bounds;
mod level;
mod merge;
mod range;
mod range_tombstones;
mod user;

pub(crate) use bounded::BoundedCursor;
pub(crate) use bounds::Bounds;
pub use bounds::KeyRange;
pub(crate) use level::LevelCursor;
pub(crate) use merge::{Child, Merge};
pub use range::{Keys, Range};
pub(crate) use range_tombstones::{TombstoneSource, VisibleTombstones};
pub use user::Iter;

//! Walking over a store: one sequence of user keys out of all levels.

mod level;
mod merge;
mod removed;
mod user;

pub(crate) use level::LevelCursor;
pub(crate) use merge::{Child, Merge};
pub(crate) use removed::{Removed, Source};
pub use user::Iter;

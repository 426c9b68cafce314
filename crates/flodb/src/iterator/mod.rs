//! Walking over a store: one sequence of user keys out of all levels.

mod level;
mod merge;
mod user;

pub(crate) use level::LevelCursor;
pub(crate) use merge::{Child, Merge};
pub use user::Iter;

//! The direction of an arithmetic command.

/// The direction in which a command counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Up, from 2^64 - 1 to 0.
    Up,
    /// Down, not below 0.
    Down,
}

//! Positions in the order of all changes.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// A position in the log of a store: behind some batch, or [`Position::START`]. It stands for all
/// changes up to there. Positions only grow, also over crashes, and none is used twice: the one of
/// a batch that a power loss took never becomes that of another batch.
///
/// A position is of one store, and of its copies up to where they were copied. It is a number, to
/// be kept as a number or as text.
///
/// ```
/// use keyrack_flodb::Position;
///
/// let position = Position::from(4_096);
/// assert!(Position::START < position);
/// assert_eq!(position.to_string().parse(), Ok(position));
/// assert_eq!(u64::from(position), 4_096);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u64);

impl Position {
    /// Before all changes.
    pub const START: Position = Position(0);
}

impl From<u64> for Position {
    fn from(number: u64) -> Self {
        Position(number)
    }
}

impl From<Position> for u64 {
    fn from(position: Position) -> Self {
        position.0
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Position {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        text.parse().map(Position)
    }
}

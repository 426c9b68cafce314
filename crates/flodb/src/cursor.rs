//! A place in a sorted sequence of internal entries, and what can be asked of it.

use crate::error::Result;

/// Internal keys and values in the order of [`crate::key::Comparator::internal`]. A new cursor is
/// nowhere. After an error it is nowhere as well, and may be placed again.
pub(crate) trait Cursor {
    /// Goes to the first entry.
    fn seek_first(&mut self) -> Result<()>;

    /// Goes to the last entry.
    fn seek_last(&mut self) -> Result<()>;

    /// Goes to the first entry that is not before the internal key `target`.
    fn seek(&mut self, target: &[u8]) -> Result<()>;

    /// Goes one entry on; behind the last one the cursor is nowhere. Only from an entry.
    fn next(&mut self) -> Result<()>;

    /// Goes one entry back; before the first one the cursor is nowhere. Only from an entry.
    fn prev(&mut self) -> Result<()>;

    /// The internal key and the value here; `None` if the cursor is nowhere. Valid until it moves.
    fn entry(&self) -> Option<(&[u8], &[u8])>;

    /// Whether the entry here has the user key of the one that the last move left. Only at an entry,
    /// and after [`Cursor::next`].
    fn repeats(&self) -> bool;

    /// Whether the entry before this one may have the user key of this one. `false` is certain. Only
    /// at an entry.
    fn may_repeat_before(&self) -> bool;
}

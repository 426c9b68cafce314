//! A place in a sorted sequence of internal entries, and what can be asked of it.

use crate::error::Result;

/// The parts of a seek, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Approach {
    /// Asks for the place in an index that tells which block it is.
    Index,
    /// Which block it is; asks for its slot in the cache.
    Slot,
    /// Asks for the block's header.
    Header,
    /// Holds the block; asks for its restarts.
    Restarts,
    /// Asks for the entries of the restarts.
    Entries,
    /// Finds the restart; asks for the entries behind it.
    Group,
}

impl Approach {
    pub(crate) const ALL: [Approach; 6] = [
        Approach::Index,
        Approach::Slot,
        Approach::Header,
        Approach::Restarts,
        Approach::Entries,
        Approach::Group,
    ];
}

/// Internal keys and values in the order of [`crate::key::Comparator::internal`]. A new cursor is
/// nowhere. After an error it is nowhere as well, and may be placed again.
pub(crate) trait Cursor {
    /// Goes to the first entry.
    fn seek_first(&mut self) -> Result<()>;

    /// Goes to the last entry.
    fn seek_last(&mut self) -> Result<()>;

    /// Goes to the first entry that is not before the internal key `target`.
    fn seek(&mut self, target: &[u8]) -> Result<()>;

    /// Does a part of a seek to `target`: asks for the memory that the next part needs, and does
    /// not wait for it. So the cursors of a merge wait for theirs at the same time. The next is the
    /// next part, [`Cursor::seek`] to the same target, or a move to one of the ends. It may be left
    /// out: it has no other effect.
    fn approach(&mut self, _target: &[u8], _part: Approach) {}

    /// Goes one entry on; behind the last one the cursor is nowhere. Only from an entry.
    fn next(&mut self) -> Result<()>;

    /// Goes one entry back; before the first one the cursor is nowhere. Only from an entry.
    fn prev(&mut self) -> Result<()>;

    /// The internal key and the value here; `None` if the cursor is nowhere. Valid until it moves.
    fn entry(&self) -> Option<(&[u8], &[u8])>;

    /// The internal key here.
    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.entry().map(|(key, _)| key)
    }

    /// Whether the entry here has the user key of the one that the last move left. Only at an
    /// entry, and after [`Cursor::next`].
    fn repeats(&self) -> bool;

    /// Whether the entry before this one may have the user key of this one. `false` is certain.
    /// Only at an entry.
    fn may_repeat_before(&self) -> bool;
}

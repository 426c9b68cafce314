//! A place in a block, both ways.
//!
//! Forward, a step decodes one entry onto the key of the last one. Backward there is nothing to
//! decode from, so the entries from the restart before are decoded at once and kept as a *group*;
//! further steps back only copy a key out of it. With the usual sixteen entries a restart, a step
//! back costs twice a step forward on average, whatever the turns in between: a step forward stays
//! in the group as long as the group goes.
//!
//! The cursor holds no block, so that its owner can hold block and cursor side by side. All calls
//! between two placements must pass the same block.

use super::{Block, Damage, Result, SHARES_TOO_MUCH};
use crate::key::{Comparator, TRAILER_BYTES};
use std::ops::Range;

/// An entry of a block, with its key put together.
#[derive(Debug, Default)]
pub(crate) struct BlockCursor {
    /// The internal key.
    key: Vec<u8>,
    value: Range<usize>,
    at: usize,
    next: usize,
    /// The sequence number of all entries, in the place of that in the block.
    sequence: Option<u64>,
    group: Group,
}

/// Some neighbouring entries, ending with the one before the last placement.
#[derive(Debug, Default)]
struct Group {
    keys: Vec<u8>,
    entries: Vec<Grouped>,
    /// Which of them the cursor is at, if there are any.
    place: usize,
}

#[derive(Clone, Debug)]
struct Grouped {
    key: Range<usize>,
    value: Range<usize>,
    at: usize,
    next: usize,
}

impl BlockCursor {
    /// A cursor that shows all entries with this sequence number, if there is one.
    pub(crate) fn new(sequence: Option<u64>) -> Self {
        BlockCursor { sequence, ..BlockCursor::default() }
    }

    /// The internal key here.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Where the value here is in the block.
    #[inline]
    pub(crate) fn value(&self) -> Range<usize> {
        self.value.clone()
    }

    /// Goes to the first entry. A block has one.
    pub(crate) fn seek_first(&mut self, block: &Block) -> Result<()> {
        self.restart(0);
        self.decode(block)
    }

    /// Goes to the last entry.
    pub(crate) fn seek_last(&mut self, block: &Block) -> Result<()> {
        self.restart(block.entries_end);
        self.back(block).map(|_| ())
    }

    /// Goes to the first entry that is not before the user key with this trailer, as the block has
    /// it; `false` if all are, and the cursor is nowhere then.
    pub(crate) fn seek(
        &mut self,
        block: &Block,
        order: &Comparator,
        user: &[u8],
        trailer: u64,
    ) -> Result<bool> {
        self.group.entries.clear();
        let Some((at, entry)) = block.seek(order, user, trailer, &mut self.key)? else {
            return Ok(false);
        };
        self.value = entry.value;
        (self.at, self.next) = (at, entry.next);
        if self.sequence.is_some() {
            let user_bytes = self.key.len().saturating_sub(TRAILER_BYTES);
            self.key.truncate(user_bytes);
            self.key.extend_from_slice(&self.shown(entry.trailer).to_le_bytes());
        }
        Ok(true)
    }

    /// The trailer to show for one of the block.
    #[inline]
    fn shown(&self, trailer: u64) -> u64 {
        self.sequence.map_or(trailer, |sequence| sequence << 8 | trailer & 0xff)
    }

    /// Goes one entry on; `false` at the end, and the cursor stays.
    #[inline]
    pub(crate) fn next(&mut self, block: &Block) -> Result<bool> {
        if self.next >= block.entries_end {
            return Ok(false);
        }
        self.group.place += 1;
        if self.group.place >= self.group.entries.len() {
            self.group.entries.clear();
        }
        self.decode(block)?;
        Ok(true)
    }

    /// Goes one entry back; `false` at the beginning, and the cursor stays.
    pub(crate) fn prev(&mut self, block: &Block) -> Result<bool> {
        if self.at == 0 {
            return Ok(false);
        }
        if self.group.entries.is_empty() || self.group.place == 0 {
            return self.back(block);
        }
        self.group.place -= 1;
        self.take_grouped();
        Ok(true)
    }

    /// Forgets everything; the next entry to decode is the restart at `at`.
    fn restart(&mut self, at: usize) {
        self.group.entries.clear();
        self.key.clear();
        (self.at, self.next) = (at, at);
    }

    /// Decodes the entry at `next`, onto the key here.
    #[inline]
    fn decode(&mut self, block: &Block) -> Result<()> {
        let at = self.next;
        let entry = block.entry(at)?;
        if entry.shared > self.key.len().saturating_sub(TRAILER_BYTES) {
            return Err(Damage { at, what: SHARES_TOO_MUCH });
        }
        self.key.truncate(entry.shared);
        self.key.extend_from_slice(entry.suffix);
        self.key.extend_from_slice(&self.shown(entry.trailer).to_le_bytes());
        self.value = entry.value;
        (self.at, self.next) = (at, entry.next);
        Ok(())
    }

    /// Groups the entries from the last restart before `at` up to `at`, and goes to the last.
    fn back(&mut self, block: &Block) -> Result<bool> {
        let end = self.at;
        let mut low = 0;
        let mut high = block.restarts;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if block.restart(middle)? < end {
                low = middle;
            } else {
                high = middle;
            }
        }
        self.restart(block.restart(low)?);
        self.group.keys.clear();
        while self.next < end {
            self.decode(block)?;
            let key_at = self.group.keys.len();
            self.group.keys.extend_from_slice(&self.key);
            self.group.entries.push(Grouped {
                key: key_at..self.group.keys.len(),
                value: self.value.clone(),
                at: self.at,
                next: self.next,
            });
        }
        if self.group.entries.is_empty() || self.next != end {
            return Err(Damage { at: end, what: "a restart that is not at an entry" });
        }
        self.group.place = self.group.entries.len() - 1;
        Ok(true)
    }

    fn take_grouped(&mut self) {
        let entry = &self.group.entries[self.group.place];
        self.key.clear();
        self.key.extend_from_slice(&self.group.keys[entry.key.clone()]);
        self.value = entry.value.clone();
        (self.at, self.next) = (entry.at, entry.next);
    }
}

//! The lookup of one key in a table, and its stages.
//!
//! ```text
//!   candidate   filter, then index: no memory of the block     None: the key is not in the table
//!     locate    the index alone, before the filter's line is there
//!   block       the slot of the cache, or the file
//!   find        prefix index of the block, then the entry
//! ```
//!
//! [`Table::get`] takes the stages one after the other. A caller with many keys
//! (`db/multi_get.rs`) takes each stage for all of them and asks for the memory of the next one in
//! between, so that the waits for memory overlap. A read of one key locates it in the tables that
//! most likely have it, while it waits for the lines of memtables and filters.

use super::cursor::ReadOptions;
use super::inspect::NO_EXPIRY;
use super::reader::Table;
use crate::block::{Block, Found};
use crate::cache::Cached;
use crate::checksum::hash as hash_of;
use crate::error::Result;
use crate::expiry;
use crate::key::{self, Kind};
use keyrack_concurrent::{Guard, pin};
use std::ops::Deref;
use std::sync::Arc;

/// The one block of a table that may have a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'t> {
    table: &'t Table,
    index: usize,
    /// Of the newest entry to look for, as the file has it.
    trailer: u64,
}

/// An entry that was found.
#[derive(Debug)]
pub(crate) struct Hit {
    pub(crate) kind: Kind,
    pub(crate) sequence: u64,
    found: Found,
}

impl Hit {
    /// Its value, in the block that it was found in.
    #[inline]
    pub(crate) fn value<'b>(&self, block: &'b Block) -> &'b [u8] {
        block.value(&self.found)
    }
}

/// A block, lent by the cache for as long as a guard lives, or read for this caller.
pub(crate) enum HeldBlock<'g> {
    Lent(&'g Cached),
    Owned(Arc<Cached>),
}

impl Deref for HeldBlock<'_> {
    type Target = Block;

    #[inline]
    fn deref(&self) -> &Block {
        match self {
            HeldBlock::Lent(cached) => &cached.block,
            HeldBlock::Owned(cached) => &cached.block,
        }
    }
}

impl Table {
    /// Gives the newest entry of the user key with a sequence of at most `sequence` to `visit`.
    /// `None` if there is no such entry. `hash` is [`crate::checksum::hash`] of the key.
    ///
    /// Range deletes do not count: see [`Table::floor`]. O(log entries). No
    /// allocation and no lock if the block is in the cache; else it is read as `options` say.
    /// `located` is what [`Table::locate`] has returned, if it was asked.
    ///
    /// # Errors
    /// [`Error::Corruption`](crate::Error::Corruption); errors of the file system.
    #[inline]
    pub(crate) fn get<R>(
        &self,
        user_key: &[u8],
        hash: u64,
        sequence: u64,
        options: &ReadOptions,
        located: Option<Candidate<'_>>,
        visit: impl FnOnce(Kind, u64, &[u8]) -> R,
    ) -> Result<Option<R>> {
        if !self.may_contain(user_key, hash) {
            return Ok(None);
        }
        let candidate = located.or_else(|| self.locate(user_key, sequence));
        let Some(candidate) = candidate else { return Ok(None) };
        self.cached.prefetch_pages(candidate.index);
        let guard = pin();
        let block = candidate.block(options, &guard)?;
        let Some(hit) = candidate.find(&block, user_key)? else { return Ok(None) };
        Ok(Some(visit(hit.kind, hit.sequence, hit.value(&block))))
    }

    /// Asks for the memory that [`Table::candidate`] reads first.
    #[inline]
    pub(crate) fn prefetch_filter(&self, hash: u64) {
        if let Some(filter) = &self.filter {
            filter.prefetch(hash);
        }
    }

    /// The block that may have the newest entry of the user key with a sequence of at most
    /// `sequence`. `None` if the table has no such entry.
    #[inline]
    pub(crate) fn candidate(
        &self,
        user_key: &[u8],
        hash: u64,
        sequence: u64,
    ) -> Option<Candidate<'_>> {
        if self.may_contain(user_key, hash) { self.locate(user_key, sequence) } else { None }
    }

    #[inline]
    fn may_contain(&self, user_key: &[u8], hash: u64) -> bool {
        debug_assert_eq!(hash, hash_of(user_key), "the hash of another key");
        self.filter.as_ref().is_none_or(|filter| filter.may_contain(user_key, hash))
    }

    /// As [`Table::candidate`], without a look at the filter.
    #[inline]
    pub(crate) fn locate(&self, user_key: &[u8], sequence: u64) -> Option<Candidate<'_>> {
        if self.sequence.is_some_and(|own| own > sequence) {
            return None;
        }
        let trailer = self.stored_trailer(key::trailer(sequence, Kind::LAST));
        let index = self.index.find(&self.comparator, user_key, trailer);
        (index < self.index.len()).then_some(Candidate { table: self, index, trailer })
    }
}

impl Candidate<'_> {
    #[inline]
    pub(crate) fn is_of(&self, table: &Table) -> bool {
        std::ptr::eq(self.table, table)
    }

    /// Asks for what says where the block is.
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.table.cached.prefetch_slot(self.index);
    }

    /// The block, from the cache or else read as `options` say.
    ///
    /// # Errors
    /// As for [`Table::get`].
    #[inline]
    pub(crate) fn block<'g>(
        self,
        options: &ReadOptions,
        guard: &'g Guard,
    ) -> Result<HeldBlock<'g>> {
        match self.table.cached.get(self.index, guard) {
            Some(cached) => Ok(HeldBlock::Lent(cached)),
            None => self.table.load(self.index, options).map(HeldBlock::Owned),
        }
    }

    /// The entry of the user key in its block, if it is there.
    ///
    /// # Errors
    /// As for [`Table::get`].
    #[inline]
    pub(crate) fn find(self, block: &Block, user_key: &[u8]) -> Result<Option<Hit>> {
        let Candidate { table, index, trailer } = self;
        let found = block.find(&table.comparator, user_key, trailer);
        let Some(found) = found.map_err(|damage| table.damage(index, damage))? else {
            return Ok(None);
        };
        if !found.is_same_user {
            return Ok(None);
        }
        let Some(kind) = Kind::from_byte(found.trailer as u8) else {
            return Err(table.corrupt_block(index, "an entry of an unknown kind"));
        };
        if kind == Kind::PutExpiring && expiry::split(block.value(&found)).is_none() {
            return Err(table.corrupt_block(index, NO_EXPIRY));
        }
        let sequence = table.sequence.unwrap_or(found.trailer >> 8);
        Ok(Some(Hit { kind, sequence, found }))
    }
}

//! A scan of a table.
//!
//! Keys are put together in one buffer; values are lent out of the block. The cursor keeps its
//! block alive by a reference of its own, so it may outlive any guard, and the block may leave the
//! cache meanwhile.
//!
//! **Reading ahead.** A step into a next block that is not in the cache reads more than that block:
//! two blocks' bytes the first time, twice as much each further time, up to a limit. The bytes stay
//! in a buffer as they are in the file, and blocks are decoded from it as the cursor comes to them.
//! A step back into a block before reads as much, up to the end of that block. Any other movement
//! to a block outside of the buffer reads one block, and the next read ahead begins small again. So
//! a short scan reads little in vain, and a long one in large pieces. A scan that goes on into
//! another table ([`TableCursor::onward_to`], [`TableCursor::back_to`]) goes on as it was.
//!
//! **Memory ahead.** A step asks for the lines that later steps will need, here or in the block
//! behind, which the cursor holds from the second block of a scan on. A seek can be done in parts
//! ([`Cursor::approach`]), each of which asks for what the next one needs.
//!
//! **Long scans leave the cache alone.** Once a scan has come to the limit it puts no more blocks
//! into the cache: a scan over a store would replace everything that others ask for by what nobody
//! asks for again, and would pay for fresh memory all the way. It takes what is there, and decodes
//! the rest into the memory of the block that it leaves.

use super::reader::Table;
use crate::block::{Block, BlockCursor, Damage};
use crate::cache::Cached;
use crate::cursor::{Approach, Cursor};
use crate::error::Result;
use crate::key::{self, Comparator};
use crate::memory_budget::{Charge, Holder};
use keyrack_vfs::File;
use std::sync::Arc;

/// How tables are read, by an iterator ([`Db::iter_with`](crate::Db::iter_with)) or for one key
/// ([`Db::read_with`](crate::Db::read_with)). What is in memory is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    /// Whether blocks that had to be read go into the cache: yes. Those of a scan that has come to
    /// read as far ahead as it may never do.
    pub fill_cache: bool,
    /// Whether the checksum of a block is computed when it is read from its file: yes. Without, a
    /// damaged block may give wrong answers to this read; it goes into no cache, so that no other
    /// read meets it. LevelDB's option of this name is off unless it is asked for.
    pub verify_checksums: bool,
    /// The most bytes that are read at once for a forward scan: 256 KiB, and 64 MiB or a 256th of
    /// the memory budget whatever is asked for. 0 reads block by block, and then all of a scan's
    /// blocks go into the cache. A read of one key reads one block.
    pub readahead_bytes_max: usize,
}

/// How far ahead of a scan the memory of blocks is asked for: what several steps take.
const AHEAD_BYTES: usize = 768;

/// The same for a scan down, which reads all entries of a restart at once, from the first on.
const BACK_BYTES: usize = 2304;

/// A buffer for what is read ahead has at most so many bytes.
const READAHEAD_BYTES_LIMIT: usize = 64 << 20;

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions { fill_cache: true, verify_checksums: true, readahead_bytes_max: 256 << 10 }
    }
}

impl ReadOptions {
    /// Whether a block that was read may go into the cache: others trust what is there.
    pub(super) fn fills_cache(&self) -> bool {
        self.fill_cache && self.verify_checksums
    }
}

type Placed = std::result::Result<bool, Damage>;

fn first(inner: &mut BlockCursor, block: &Block, _: &Comparator) -> Placed {
    inner.seek_first(block).map(|()| true)
}

fn last(inner: &mut BlockCursor, block: &Block, _: &Comparator) -> Placed {
    inner.seek_last(block).map(|()| true)
}

/// How the cursor comes to a block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arrival {
    Sought,
    Onward,
    Back,
}

/// A place in a table.
#[derive(Debug)]
pub(crate) struct TableCursor {
    /// Where in the block, and the key there.
    inner: BlockCursor,
    /// The block; `None` if the cursor is nowhere.
    block: Option<Arc<Cached>>,
    /// Which block it is.
    index: usize,
    /// Of a seek that was begun: which block it is.
    sought: Option<usize>,
    /// A block that the cursor comes to next.
    coming: Option<(usize, Arc<Cached>)>,
    table: Arc<Table>,
    options: ReadOptions,
    ahead: Ahead,
}

/// Bytes of the file that were read ahead.
#[derive(Debug, Default)]
struct Ahead {
    bytes: Vec<u8>,
    offset: u64,
    /// How many were asked for last.
    window: usize,
    /// What the buffer takes of the memory budget.
    memory: Option<Charge>,
}

impl Ahead {
    /// The bytes from `offset` on, if all are there.
    fn slice(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        self.bytes.get(start..)?.get(..len)
    }
}

impl TableCursor {
    pub(super) fn new(table: Arc<Table>, options: ReadOptions) -> Self {
        let budget = table.cached.cache().budget();
        let most = READAHEAD_BYTES_LIMIT.min(budget.readahead_bytes_max());
        let readahead_bytes_max = options.readahead_bytes_max.min(most);
        TableCursor {
            inner: BlockCursor::new(table.sequence),
            block: None,
            index: 0,
            sought: None,
            coming: None,
            table,
            options: ReadOptions { readahead_bytes_max, ..options },
            ahead: Ahead::default(),
        }
    }

    /// Goes on to the first entry of `table`, in the manner in which this cursor has come to the
    /// end of its own.
    pub(crate) fn onward_to(self, table: &Arc<Table>) -> Result<Self> {
        let mut cursor = self.moved_to(table);
        if table.index.len() > 0 {
            cursor.enter(0, Arrival::Onward, first)?;
        }
        Ok(cursor)
    }

    /// Goes back to the last entry of `table`, in the manner in which this cursor has come to the
    /// beginning of its own.
    pub(crate) fn back_to(self, table: &Arc<Table>) -> Result<Self> {
        let mut cursor = self.moved_to(table);
        if let Some(index) = table.index.len().checked_sub(1) {
            cursor.enter(index, Arrival::Back, last)?;
        }
        Ok(cursor)
    }

    fn moved_to(mut self, table: &Arc<Table>) -> Self {
        let mut ahead = std::mem::take(&mut self.ahead);
        ahead.bytes.clear();
        TableCursor { ahead, ..TableCursor::new(Arc::clone(table), self.options) }
    }

    /// Goes to block `index`, and to an entry in it as `place` says, which returns whether there is
    /// one. Nowhere after an error.
    fn enter(
        &mut self,
        index: usize,
        arrival: Arrival,
        place: impl FnOnce(&mut BlockCursor, &Block, &Comparator) -> Placed,
    ) -> Result<bool> {
        self.sought = None;
        let block =
            if self.block.is_some() && self.index == index { self.block.take() } else { None };
        let block = match block {
            Some(block) => block,
            None => self.load(index, arrival)?,
        };
        let found = place(&mut self.inner, &block.block, &self.table.comparator);
        if found.map_err(|damage| self.table.damage(index, damage))? {
            self.block = Some(block);
            self.index = index;
            return Ok(true);
        }
        Ok(false)
    }

    /// The block that comes next, if a search in it begins at a restart.
    fn coming_by_restarts(&self) -> Option<&Block> {
        let (_, cached) = self.coming.as_ref()?;
        (!cached.block.has_prefixes()).then_some(&cached.block)
    }

    fn load(&mut self, index: usize, arrival: Arrival) -> Result<Arc<Cached>> {
        // If nobody else has the block that is left, its memory is used again. Not for the cache,
        // which should not pay for the room of a larger block.
        let left = self.block.take();
        if let Some((at, cached)) = self.coming.take()
            && at == index
        {
            return Ok(cached);
        }
        if let Some(cached) = self.table.cached.pin(index) {
            return Ok(cached);
        }
        let handle = self.table.index.block(index);
        let len = handle.framed_bytes();
        if self.ahead.slice(handle.offset, len).is_none() {
            self.read_ahead(handle.offset, len, arrival);
        }
        let verify = self.options.verify_checksums;
        let Some(framed) = self.ahead.slice(handle.offset, len) else {
            return self.keep(index, self.table.read(index, verify)?);
        };
        if self.fills_cache() {
            return self.keep(index, self.table.decode(index, framed, verify, Vec::new())?);
        }
        let memory = left.and_then(Arc::into_inner).map(|cached| cached.block.into_bytes());
        // Without a buffer to use again, a new one.
        let block = self.table.decode(index, framed, verify, memory.unwrap_or_default())?;
        self.keep(index, block)
    }

    fn fills_cache(&self) -> bool {
        let is_long =
            self.ahead.window > 0 && self.ahead.window == self.options.readahead_bytes_max;
        self.options.fills_cache() && !is_long
    }

    fn keep(&self, index: usize, block: Block) -> Result<Arc<Cached>> {
        if self.fills_cache() {
            return Ok(self.table.cached.insert(index, block));
        }
        Ok(self.table.cached.lend(block))
    }

    /// Reads what is needed and more, if the scan is sequential; else forgets what was read. The
    /// bytes are a guess at what will be needed: if they cannot be read, the block is read alone,
    /// and that may fail.
    fn read_ahead(&mut self, offset: u64, len: usize, arrival: Arrival) {
        let ahead = &mut self.ahead;
        let window = (2 * ahead.window).max(2 * len).min(self.options.readahead_bytes_max);
        if arrival == Arrival::Sought || window < len {
            ahead.bytes.clear();
            ahead.window = 0;
            return;
        }
        ahead.window = window;
        let end = offset + len as u64;
        let offset =
            if arrival == Arrival::Back { end.saturating_sub(window as u64) } else { offset };
        let end = if arrival == Arrival::Back { end } else { self.table.data_bytes() };
        let left = end.saturating_sub(offset);
        let bytes = usize::try_from(left).map_or(window, |left| left.min(window));
        if bytes > ahead.bytes.capacity() {
            let cache = self.table.cached.cache();
            let memory = ahead.memory.take();
            let mut memory = memory.unwrap_or_else(|| Charge::new(cache, Holder::Cursors, 0));
            memory.set(bytes);
            ahead.memory = Some(memory);
            // Not twice the old capacity, which was not charged.
            ahead.bytes.reserve_exact(bytes - ahead.bytes.len());
        }
        // What is there from before is overwritten.
        ahead.bytes.resize(bytes, 0);
        ahead.offset = offset;
        let read = |file: &dyn File| Ok(file.read_exact_at(offset, &mut ahead.bytes)?);
        if self.table.file.with(read).is_err() {
            ahead.bytes.clear();
            ahead.window = 0;
            return;
        }
        self.table.cached.reads().ahead.add(bytes);
    }
}

impl Cursor for TableCursor {
    fn seek_first(&mut self) -> Result<()> {
        if self.table.index.len() == 0 {
            return Ok(());
        }
        self.enter(0, Arrival::Sought, first).map(|_| ())
    }

    fn seek_last(&mut self) -> Result<()> {
        // A table of ranges alone has no entry.
        let Some(index) = self.table.index.len().checked_sub(1) else { return Ok(()) };
        self.enter(index, Arrival::Sought, last).map(|_| ())
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        let table = &*self.table;
        let (user, trailer) = stored_target(table, target);
        let index = self.sought.take();
        let index = index.unwrap_or_else(|| table.index.find(&table.comparator, user, trailer));
        if index == table.index.len() {
            self.block = None;
            return Ok(());
        }
        let place = |inner: &mut BlockCursor, block: &Block, order: &Comparator| {
            inner.seek(block, order, user, trailer)
        };
        let blocks = table.index.len();
        if !self.enter(index, Arrival::Sought, place)? && index + 1 < blocks {
            // Between the last key of the block and its separator: the next block begins behind it.
            self.enter(index + 1, Arrival::Sought, first)?;
        }
        // A tombstone that is newer than the target has the least trailer there is in the file.
        let is_before = |(key, _)| self.table.comparator.internal(key, target).is_lt();
        if self.table.sequence.is_some() && self.entry().is_some_and(is_before) {
            return self.next();
        }
        Ok(())
    }

    fn approach(&mut self, target: &[u8], part: Approach) {
        let table = &*self.table;
        let index = match (part, self.sought) {
            (Approach::Index, _) => return table.index.prefetch(key::user_of(target)),
            (Approach::Slot, _) => {
                let (user, trailer) = stored_target(table, target);
                let index = table.index.find(&table.comparator, user, trailer);
                self.sought = Some(index);
                index
            }
            (_, Some(index)) => index,
            (_, None) => return,
        };
        if index == table.index.len() || self.block.is_some() && self.index == index {
            return;
        }
        match part {
            Approach::Index => {}
            Approach::Slot => table.cached.prefetch_slot(index),
            Approach::Header => table.cached.prefetch_header(index),
            Approach::Restarts => {
                let cached = table.cached.pin_if_there(index);
                self.coming = cached.map(|cached| (index, cached));
                if let Some(block) = self.coming_by_restarts() {
                    block.prefetch_restarts();
                }
            }
            Approach::Entries => {
                if let Some(block) = self.coming_by_restarts() {
                    block.prefetch_entries();
                }
            }
            Approach::Group => {
                if let Some((_, cached)) = &self.coming {
                    let (user, trailer) = stored_target(table, target);
                    cached.block.approach(&table.comparator, user, trailer);
                }
            }
        }
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        let cached = self.block.as_ref().expect("only from an entry");
        match self.inner.next(&cached.block) {
            Ok(true) => {
                let ahead = cached.block.prefetch(self.inner.value().end + AHEAD_BYTES);
                if let (Some(at), Some((_, coming))) = (ahead, &self.coming) {
                    coming.block.prefetch(at);
                }
                Ok(())
            }
            Ok(false) => self.next_block(),
            Err(damage) => {
                self.block = None;
                Err(self.table.damage(self.index, damage))
            }
        }
    }

    fn prev(&mut self) -> Result<()> {
        let cached = self.block.as_ref().expect("only from an entry");
        match self.inner.prev(&cached.block) {
            Ok(true) => {
                // What comes before, where a group of entries begins to be read.
                match self.inner.at().checked_sub(BACK_BYTES) {
                    Some(at) => {
                        cached.block.prefetch(at);
                    }
                    None => {
                        if let Some((_, coming)) = &self.coming {
                            coming.block.prefetch_back(BACK_BYTES - self.inner.at());
                        }
                    }
                }
                Ok(())
            }
            Ok(false) if self.index == 0 => {
                self.block = None;
                Ok(())
            }
            Ok(false) => self.block_before(),
            Err(damage) => {
                self.block = None;
                Err(self.table.damage(self.index, damage))
            }
        }
    }

    #[inline]
    fn entry(&self) -> Option<(&[u8], &[u8])> {
        let cached = self.block.as_ref()?;
        Some((self.inner.key(), cached.block.slice(self.inner.value())))
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.block.as_ref().map(|_| self.inner.key())
    }

    #[inline]
    fn repeats(&self) -> bool {
        self.inner.repeats()
    }

    #[inline]
    fn may_repeat_before(&self) -> bool {
        self.inner.may_repeat_before()
    }
}

/// The user key of an internal key, and the trailer to look for in the file.
fn stored_target<'t>(table: &Table, target: &'t [u8]) -> (&'t [u8], u64) {
    let trailer =
        key::parse(target).map_or(u64::MAX, |parsed| key::trailer(parsed.sequence, parsed.kind));
    (key::user_of(target), table.stored_trailer(trailer))
}

impl TableCursor {
    #[cold]
    fn block_before(&mut self) -> Result<()> {
        let index = self.index - 1;
        self.enter(index, Arrival::Back, last)?;
        if let Some(before) = index.checked_sub(1) {
            self.coming = self.table.cached.pin_if_there(before).map(|cached| (before, cached));
        }
        if let Some(before) = index.checked_sub(2) {
            self.table.cached.prefetch_header(before);
        }
        Ok(())
    }

    #[cold]
    fn next_block(&mut self) -> Result<()> {
        if self.index + 1 == self.table.index.len() {
            self.block = None;
            return Ok(());
        }
        self.enter(self.index + 1, Arrival::Onward, first)?;
        // A scan goes on: the block behind this one comes while this one is read.
        let next = self.index + 1;
        if next < self.table.index.len() {
            self.coming = self.table.cached.pin_if_there(next).map(|cached| (next, cached));
        }
        if next + 1 < self.table.index.len() {
            self.table.cached.prefetch_header(next + 1);
        }
        Ok(())
    }
}

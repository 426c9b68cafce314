//! A scan of a table.
//!
//! Keys are put together in one buffer; values are lent out of the block. The cursor keeps its
//! block alive by a reference of its own, so it may outlive any guard, and the block may leave the
//! cache meanwhile.
//!
//! **Reading ahead.** A step into a next block that is not in the cache reads more than that block:
//! two blocks' bytes the first time, twice as much each further time, up to a limit. The bytes stay
//! in a buffer as they are in the file, and blocks are decoded from it as the cursor comes to them.
//! Any other movement to a block outside of the buffer reads one block, and the next read ahead
//! begins small again. So a short scan reads little in vain, and a long one in large pieces. A scan
//! that goes on into another table ([`TableCursor::onward_to`]) goes on as it was.
//!
//! **Long scans leave the cache alone.** Once a scan has come to the limit it puts no more blocks
//! into the cache: a scan over a store would replace everything that others ask for by what nobody
//! asks for again, and would pay for fresh memory all the way. It takes what is there, and decodes
//! the rest into the memory of the block that it leaves.

use super::reader::Table;
use crate::block::{Block, BlockCursor, Damage};
use crate::cache::Cached;
use crate::cursor::Cursor;
use crate::error::Result;
use crate::key::{self, Comparator};
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
    /// The most bytes that are read at once for a forward scan: 256 KiB, and 64 MiB whatever is
    /// asked for. 0 reads block by block, and then all of a scan's blocks go into the cache. A read
    /// of one key reads one block.
    pub readahead_bytes_max: usize,
}

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
        let readahead_bytes_max = options.readahead_bytes_max.min(READAHEAD_BYTES_LIMIT);
        TableCursor {
            inner: BlockCursor::new(table.sequence),
            block: None,
            index: 0,
            table,
            options: ReadOptions { readahead_bytes_max, ..options },
            ahead: Ahead::default(),
        }
    }

    /// Goes on to the first entry of `table`, in the manner in which this cursor has come to the
    /// end of its own.
    pub(crate) fn onward_to(mut self, table: &Arc<Table>) -> Result<Self> {
        let mut ahead = std::mem::take(&mut self.ahead);
        ahead.bytes.clear();
        let mut cursor = TableCursor { ahead, ..TableCursor::new(Arc::clone(table), self.options) };
        if table.index.len() > 0 {
            cursor.enter(0, Arrival::Onward, first)?;
        }
        Ok(cursor)
    }

    /// Goes to block `index`, and to an entry in it as `place` says, which returns whether there is
    /// one. Nowhere after an error.
    fn enter(
        &mut self,
        index: usize,
        arrival: Arrival,
        place: impl FnOnce(&mut BlockCursor, &Block, &Comparator) -> Placed,
    ) -> Result<bool> {
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

    fn load(&mut self, index: usize, arrival: Arrival) -> Result<Arc<Cached>> {
        // If nobody else has the block that is left, its memory is used again. Not for the cache,
        // which should not pay for the room of a larger block.
        let left = self.block.take();
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
        Ok(Cached::new(block))
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
        let left = self.table.data_bytes().saturating_sub(offset);
        let bytes = usize::try_from(left).map_or(window, |left| left.min(window));
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
        let trailer = key::parse(target)
            .map_or(u64::MAX, |parsed| key::trailer(parsed.sequence, parsed.kind));
        let table = &*self.table;
        let (user, trailer) = (key::user_of(target), table.stored_trailer(trailer));
        let index = table.index.find(&table.comparator, user, trailer);
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

    #[inline]
    fn next(&mut self) -> Result<()> {
        let cached = self.block.as_ref().expect("only from an entry");
        match self.inner.next(&cached.block) {
            Ok(true) => Ok(()),
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
            Ok(true) => Ok(()),
            Ok(false) if self.index == 0 => {
                self.block = None;
                Ok(())
            }
            Ok(false) => self.enter(self.index - 1, Arrival::Sought, last).map(|_| ()),
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
    fn repeats(&self) -> bool {
        self.inner.repeats()
    }

    #[inline]
    fn may_repeat_before(&self) -> bool {
        self.inner.may_repeat_before()
    }
}

impl TableCursor {
    #[cold]
    fn next_block(&mut self) -> Result<()> {
        if self.index + 1 == self.table.index.len() {
            self.block = None;
            return Ok(());
        }
        self.enter(self.index + 1, Arrival::Onward, first).map(|_| ())
    }
}

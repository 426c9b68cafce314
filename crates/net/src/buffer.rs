//! Bytes that wait, and where emptied memory goes.
//!
//! ```text
//!   | gone | pending          | room |       gone: taken from the front, still in memory
//! ```
//!
//! Taking from the front moves nothing. The gone part is closed when it is the larger one, so that
//! every byte is moved at most once for each time it was written.
//!
//! **Invariants:** a buffer without pending bytes holds no memory, so an idle connection costs its
//! structure alone. The pool keeps at most [`POOL_BYTES_MAX`], counted as the loop's memory.

use crate::memory::Charge;

/// Bytes of emptied buffers that a loop keeps.
pub(crate) const POOL_BYTES_MAX: usize = 16 << 20;
/// The largest buffer that is worth keeping: one batch of replies.
const POOLED_BYTES_MAX: usize = 256 << 10;
/// A buffer of this size is not worth fitting.
const FIT_BYTES: usize = 4 << 10;

/// Bytes taken from the front and added at the end.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    gone: usize,
}

impl Buffer {
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.gone
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    pub(crate) fn pending(&self) -> &[u8] {
        &self.bytes[self.gone..]
    }

    /// Removes `count` bytes from the front; the memory stays.
    pub(crate) fn consume(&mut self, count: usize) {
        self.gone += count;
        assert!(self.gone <= self.bytes.len(), "more was taken than there is");
        if self.gone == self.bytes.len() {
            self.bytes.clear();
            self.gone = 0;
        } else if self.gone > self.bytes.len() / 2 {
            self.close_gap();
        }
    }

    /// The memory behind the pending bytes, to append to. What is in it before them is gone.
    pub(crate) fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Removes the bytes that were appended since [`Buffer::tail`] had `tail` bytes.
    pub(crate) fn cut(&mut self, tail: usize) {
        self.bytes.truncate(tail.max(self.gone));
        self.consume(0);
        self.fit();
    }

    /// The memory, with the pending bytes, and how many before them are gone.
    pub(crate) fn take_bytes(&mut self) -> (Vec<u8>, usize) {
        (std::mem::take(&mut self.bytes), std::mem::take(&mut self.gone))
    }

    /// Makes `bytes` the pending ones, in memory of the right size.
    pub(crate) fn set(&mut self, bytes: &[u8]) {
        self.gone = 0;
        if self.bytes.capacity() / 2 > bytes.len() {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.bytes.reserve_exact(bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    /// Makes room for `wanted` more bytes, but at most for as many as there are already, or
    /// `least`: an announced length costs memory only as its bytes arrive.
    pub(crate) fn make_room(&mut self, wanted: usize, least: usize) {
        self.close_gap();
        let room = wanted.min(self.bytes.len().max(least));
        self.bytes.reserve_exact(room);
    }

    fn close_gap(&mut self) {
        if self.gone == 0 {
            return;
        }
        self.bytes.copy_within(self.gone.., 0);
        self.bytes.truncate(self.bytes.len() - self.gone);
        self.gone = 0;
    }

    /// Gives up memory that is much more than what is pending needs.
    pub(crate) fn fit(&mut self) {
        if self.is_empty() {
            *self = Buffer::default();
        } else if self.bytes.capacity() > FIT_BYTES.max(4 * self.len()) {
            *self = Buffer { bytes: self.pending().to_vec(), gone: 0 };
        }
    }

    /// Takes memory from the pool, if there is none.
    pub(crate) fn borrow(&mut self, pool: &mut Pool) {
        if self.bytes.capacity() == 0 {
            self.bytes = pool.get();
        }
    }

    /// Gives the memory back, with what is pending.
    pub(crate) fn discard(&mut self, pool: &mut Pool) {
        self.consume(self.len());
        self.return_if_empty(pool);
    }

    /// Gives the memory back, if nothing is pending.
    pub(crate) fn return_if_empty(&mut self, pool: &mut Pool) {
        if self.is_empty() && self.bytes.capacity() > 0 {
            self.gone = 0;
            pool.put(std::mem::take(&mut self.bytes));
        }
    }
}

/// Emptied buffers of one loop, the warmest last.
#[derive(Debug)]
pub(crate) struct Pool {
    buffers: Vec<Vec<u8>>,
    bytes_max: usize,
    /// The memory that it keeps.
    charge: Charge,
}

impl Pool {
    /// Keeps at most `bytes_max`.
    pub(crate) fn new(bytes_max: usize, charge: Charge) -> Self {
        Pool { buffers: Vec::new(), bytes_max, charge }
    }

    /// Frees what it keeps.
    pub(crate) fn clear(&mut self) {
        self.buffers = Vec::new();
        self.charge.clear();
    }

    pub(crate) fn get(&mut self) -> Vec<u8> {
        let buffer = self.buffers.pop().unwrap_or_default();
        let left = self.charge.bytes() - buffer.capacity();
        assert!(self.charge.set(left), "less can always be held");
        buffer
    }

    pub(crate) fn put(&mut self, mut buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        let bytes = self.charge.bytes() + capacity;
        let is_kept =
            capacity <= POOLED_BYTES_MAX && bytes <= self.bytes_max && self.charge.set(bytes);
        if is_kept {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::memory::{ClientMemory, LoopMemory};

    /// A pool of the usual size.
    pub(crate) fn pool() -> Pool {
        Pool::new(POOL_BYTES_MAX, LoopMemory::new(&ClientMemory::unlimited()).charge())
    }

    #[test]
    fn bytes_come_out_as_they_went_in() {
        let mut buffer = Buffer::default();
        let (mut written, mut taken) = (0_u32, 0_u32);
        for round in 0..500_u32 {
            for _ in 0..round % 7 {
                buffer.tail().extend_from_slice(&written.to_le_bytes());
                written += 1;
            }
            while taken < written.saturating_sub(round % 3) {
                assert_eq!(buffer.pending()[..4], taken.to_le_bytes());
                buffer.consume(4);
                taken += 1;
            }
            assert_eq!(buffer.len(), (written - taken) as usize * 4);
        }
    }

    #[test]
    fn an_empty_buffer_holds_no_memory() {
        let mut pool = pool();
        let mut buffer = Buffer::default();
        buffer.borrow(&mut pool);
        buffer.tail().extend_from_slice(&[7; 100]);
        buffer.return_if_empty(&mut pool);
        assert_eq!(buffer.len(), 100, "pending bytes were given back");
        buffer.consume(100);
        buffer.return_if_empty(&mut pool);
        assert_eq!(buffer.tail().capacity(), 0);
        let memory = pool.get();
        assert!(memory.is_empty() && memory.capacity() >= 100);
        assert_eq!(pool.charge.bytes(), 0);

        buffer.set(b"left");
        assert_eq!(buffer.pending(), b"left");
        assert_eq!(buffer.tail().capacity(), 4);
        buffer.set(b"");
        assert_eq!(buffer.tail().capacity(), 0);
    }

    #[test]
    fn the_pool_keeps_neither_giants_nor_too_many() {
        let mut pool = pool();
        pool.put(Vec::with_capacity(POOLED_BYTES_MAX + 1));
        assert_eq!(pool.get().capacity(), 0);
        for _ in 0..2 * POOL_BYTES_MAX / POOLED_BYTES_MAX {
            pool.put(Vec::with_capacity(POOLED_BYTES_MAX));
        }
        assert_eq!(pool.charge.bytes(), POOL_BYTES_MAX);
        pool.clear();
        assert_eq!((pool.charge.bytes(), pool.get().capacity()), (0, 0));
    }

    /// Emptied memory is not worth refusing a client for.
    #[test]
    fn the_pool_keeps_nothing_that_connections_could_not_have() {
        let total = ClientMemory::new(1 << 20);
        let memory = LoopMemory::new(&total);
        let mut holder = memory.charge();
        assert!(holder.set(800 << 10));
        let mut pool = Pool::new(POOL_BYTES_MAX, memory.charge());
        pool.put(Vec::with_capacity(200 << 10));
        assert_eq!(pool.charge.bytes(), 0);
        assert!(holder.set(0));
        pool.put(Vec::with_capacity(200 << 10));
        assert_eq!(pool.charge.bytes(), 200 << 10);
    }

    #[test]
    fn a_claimed_length_costs_what_has_arrived() {
        let mut buffer = Buffer::default();
        buffer.set(&[1; 1000]);
        buffer.make_room(1 << 40, 64);
        assert_eq!(buffer.tail().capacity(), 2000);
        buffer.set(&[1; 10]);
        buffer.make_room(1 << 40, 64);
        assert_eq!(buffer.tail().capacity(), 74);
    }

    #[test]
    fn a_small_rest_of_something_large_holds_no_large_memory() {
        let mut buffer = Buffer::default();
        buffer.set(&[1; 1 << 20]);
        buffer.consume((1 << 20) - 5);
        buffer.fit();
        assert_eq!((buffer.len(), buffer.tail().capacity()), (5, 5));
        buffer.set(&[1; 1 << 20]);
        buffer.set(&[1; 9]);
        assert_eq!((buffer.len(), buffer.tail().capacity()), (9, 9));
        buffer.consume(9);
        buffer.fit();
        assert_eq!(buffer.tail().capacity(), 0);
    }
}

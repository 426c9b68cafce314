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
//! structure alone. The pool keeps at most [`POOL_BYTES_MAX`].

/// What a loop keeps of emptied buffers, in bytes.
const POOL_BYTES_MAX: usize = 16 << 20;
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

    pub(crate) fn pending(&self) -> &[u8] {
        &self.bytes[self.gone..]
    }

    /// Takes so many bytes from the front; memory stays.
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

    /// Makes room for so many more bytes, but not for more than what is there already or `least`:
    /// a length that somebody claims costs memory as it arrives.
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
            self.bytes = pool.take();
        }
    }

    /// Gives the memory back, with what is pending.
    pub(crate) fn discard(&mut self, pool: &mut Pool) {
        self.consume(self.len());
        self.give_back_if_empty(pool);
    }

    /// Gives the memory back, if nothing is pending.
    pub(crate) fn give_back_if_empty(&mut self, pool: &mut Pool) {
        if self.is_empty() && self.bytes.capacity() > 0 {
            self.gone = 0;
            pool.give(std::mem::take(&mut self.bytes));
        }
    }
}

/// Emptied buffers of one loop, the warmest last.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

impl Pool {
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let buffer = self.buffers.pop().unwrap_or_default();
        self.bytes -= buffer.capacity();
        buffer
    }

    pub(crate) fn give(&mut self, mut buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        let is_kept = capacity <= POOLED_BYTES_MAX && self.bytes + capacity <= POOL_BYTES_MAX;
        if is_kept {
            buffer.clear();
            self.bytes += capacity;
            self.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut pool = Pool::default();
        let mut buffer = Buffer::default();
        buffer.borrow(&mut pool);
        buffer.tail().extend_from_slice(&[7; 100]);
        buffer.give_back_if_empty(&mut pool);
        assert_eq!(buffer.len(), 100, "pending bytes were given back");
        buffer.consume(100);
        buffer.give_back_if_empty(&mut pool);
        assert_eq!(buffer.tail().capacity(), 0);
        let memory = pool.take();
        assert!(memory.is_empty() && memory.capacity() >= 100);
        assert_eq!(pool.bytes, 0);

        buffer.set(b"left");
        assert_eq!(buffer.pending(), b"left");
        assert_eq!(buffer.tail().capacity(), 4);
        buffer.set(b"");
        assert_eq!(buffer.tail().capacity(), 0);
    }

    #[test]
    fn the_pool_keeps_neither_giants_nor_too_many() {
        let mut pool = Pool::default();
        pool.give(Vec::with_capacity(POOLED_BYTES_MAX + 1));
        assert_eq!(pool.take().capacity(), 0);
        for _ in 0..2 * POOL_BYTES_MAX / POOLED_BYTES_MAX {
            pool.give(Vec::with_capacity(POOLED_BYTES_MAX));
        }
        assert_eq!(pool.bytes, POOL_BYTES_MAX);
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

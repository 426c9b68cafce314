//! Replies that wait to be sent: the newest where workers append, older ones in pieces.
//!
//! ```text
//!   older:   | gone | 64 KiB | 64 KiB | .. |      newest:  | gone | pending | room |
//!                   '--- sent first ------------------------------'
//! ```
//!
//! What is sent at once, which is nearly everything, never leaves the newest buffer: one write, and
//! the memory is used again. Only what a slow client leaves is copied once into pieces of one size.
//! So no buffer doubles with what waits: a client that never reads costs the replies that it was
//! let to ask for, the last slice that its worker wrote, and at most a piece that is not full. What
//! is larger than a slice of replies becomes a piece as it is: copied, it would be there twice.
//!
//! **Invariant:** bytes come out in the order in which they were appended, and of the pieces of 64
//! KiB only the last, and those before a larger one, are not full.

use crate::buffer::{Buffer, Pool};
use std::collections::VecDeque;
use std::io::IoSlice;

/// Bytes that a worker should append in one call of [`Worker::serve`](crate::Worker::serve). Above
/// it, the worker answers [`Verdict::Again`](crate::Verdict::Again): it is called again after
/// others were served and the bytes are sent. With
/// [`Limits::output_bytes_max`](crate::Limits::output_bytes_max) this bounds the memory of a
/// connection that never reads.
pub const OUTPUT_SLICE_BYTES: usize = 256 << 10;

const PIECE_BYTES: usize = 64 << 10;
/// A buffer with more than this becomes a piece as it is.
const COPIED_BYTES_MAX: usize = 1 << 20;
/// The largest buffer that stays to be appended to while pieces wait.
const TAIL_BYTES_MAX: usize = 2 * OUTPUT_SLICE_BYTES;
/// Pieces that one write takes.
pub(crate) const SLICES_MAX: usize = 64;

/// Pieces, the oldest first.
#[derive(Debug, Default)]
struct Pieces {
    pieces: VecDeque<Vec<u8>>,
    /// Bytes of the first that are sent.
    gone: usize,
    bytes: usize,
    /// Bytes of their memory.
    capacity: usize,
}

impl Pieces {
    fn push(&mut self, piece: Vec<u8>) {
        self.capacity += piece.capacity();
        self.pieces.push_back(piece);
    }
}

/// Bytes on their way to a client.
#[derive(Debug, Default)]
pub(crate) struct Output {
    newest: Buffer,
    /// What waits in front of it; most connections never have any.
    older: Option<Box<Pieces>>,
}

impl Output {
    pub(crate) fn len(&self) -> usize {
        self.newest.len() + self.older.as_ref().map_or(0, |older| older.bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.older.is_none() && self.newest.is_empty()
    }

    /// Bytes of memory.
    pub(crate) fn capacity(&self) -> usize {
        self.newest.capacity() + self.older.as_ref().map_or(0, |older| older.capacity)
    }

    /// Removes the bytes that were appended since the tail had `tail` bytes.
    pub(crate) fn cut(&mut self, tail: usize) {
        self.newest.cut(tail);
    }

    /// Gives up memory that was not filled.
    pub(crate) fn shrink(&mut self) {
        self.newest.tail().shrink_to_fit();
    }

    /// The buffer to append to.
    pub(crate) fn tail(&mut self) -> &mut Vec<u8> {
        self.newest.tail()
    }

    /// Takes memory from the pool, if there is none to append to.
    pub(crate) fn borrow(&mut self, pool: &mut Pool) {
        self.newest.borrow(pool);
    }

    /// The bytes to be sent first, those that lie together.
    pub(crate) fn front(&self) -> &[u8] {
        match &self.older {
            Some(older) => older.pieces.front().map_or(&[], |piece| &piece[older.gone..]),
            None => self.newest.pending(),
        }
    }

    /// Fills `slices` with what is to be sent, from the first byte on. Returns how many it took and
    /// their bytes.
    pub(crate) fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES_MAX]) -> (usize, usize) {
        let older = self.older.iter().flat_map(|older| {
            let gone = std::iter::once(older.gone).chain(std::iter::repeat(0));
            older.pieces.iter().zip(gone).map(|(piece, gone)| &piece[gone..])
        });
        let (mut count, mut bytes) = (0, 0);
        let parts = older.chain(std::iter::once(self.newest.pending()));
        for (slice, part) in slices.iter_mut().zip(parts.filter(|part| !part.is_empty())) {
            *slice = IoSlice::new(part);
            count += 1;
            bytes += part.len();
        }
        (count, bytes)
    }

    /// Removes `count` bytes from the front.
    pub(crate) fn consume(&mut self, count: usize) {
        let mut left = count;
        if let Some(older) = &mut self.older {
            while left > 0
                && let Some(piece) = older.pieces.front()
            {
                let taken = left.min(piece.len() - older.gone);
                older.gone += taken;
                older.bytes -= taken;
                left -= taken;
                if older.gone == piece.len() {
                    older.capacity -= piece.capacity();
                    older.pieces.pop_front();
                    older.gone = 0;
                }
            }
            if older.pieces.is_empty() {
                self.older = None;
            }
        }
        if left > 0 {
            self.newest.consume(left);
        }
    }

    /// The socket is full: what waits is put where it takes no more memory than it has bytes.
    pub(crate) fn compact(&mut self, pool: &mut Pool) {
        if self.newest.len() < PIECE_BYTES {
            self.newest.fit();
            return;
        }
        let older = self.older.get_or_insert_default();
        if self.newest.len() > COPIED_BYTES_MAX {
            let (mut piece, gone) = self.newest.take_bytes();
            assert!(gone == 0 || older.pieces.is_empty(), "what is older was sent before");
            piece.shrink_to_fit();
            older.gone = older.gone.max(gone);
            older.bytes += piece.len() - gone;
            older.push(piece);
            return;
        }
        let mut rest = self.newest.pending();
        older.bytes += rest.len();
        while !rest.is_empty() {
            let back = older.pieces.back();
            let room = back.map_or(0, |piece| PIECE_BYTES.saturating_sub(piece.len()));
            if room == 0 {
                older.push(Vec::with_capacity(PIECE_BYTES));
                continue;
            }
            let (part, behind) = rest.split_at(room.min(rest.len()));
            if let Some(piece) = older.pieces.back_mut() {
                piece.extend_from_slice(part);
            }
            rest = behind;
        }
        // The next slice goes to the same memory, unless that is more than slices take.
        self.newest.consume(self.newest.len());
        if self.newest.tail().capacity() > TAIL_BYTES_MAX {
            self.newest.discard(pool);
        }
    }

    /// Gives the memory back, with what waits.
    pub(crate) fn discard(&mut self, pool: &mut Pool) {
        self.older = None;
        self.newest.discard(pool);
    }

    /// Gives the memory back, if nothing waits in it.
    pub(crate) fn return_if_empty(&mut self, pool: &mut Pool) {
        self.newest.return_if_empty(pool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::tests::pool;

    /// Appends and takes by turns, compacting now and then: what comes out is what went in.
    #[test]
    fn bytes_come_out_as_they_went_in() {
        let (mut output, mut pool) = (Output::default(), pool());
        let (mut written, mut taken) = (0_u32, 0_u32);
        let mut state = 12_345_u32;
        for round in 0..40 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            output.borrow(&mut pool);
            for _ in 0..state >> 18 {
                output.tail().extend_from_slice(&written.to_le_bytes());
                written += 1;
            }
            if round % 3 > 0 {
                output.compact(&mut pool);
            }
            let bytes = (written - taken) as usize * 4;
            assert_eq!((output.len(), output.is_empty()), (bytes, bytes == 0));
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let (count, together) = output.slices(&mut slices);
            let seen: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
            assert_eq!(seen.len(), together);
            assert!(together == bytes || count == SLICES_MAX);
            assert!(seen.starts_with(output.front()));
            let take = (seen.len() / 4).min(state as usize % 30_000);
            for (index, number) in seen.chunks_exact(4).take(take).enumerate() {
                assert_eq!(number, (taken + index as u32).to_le_bytes(), "round {round}");
            }
            output.consume(take * 4);
            taken += take as u32;
            output.return_if_empty(&mut pool);
        }
        assert!(taken > 5_000, "{taken}");
    }

    #[test]
    fn what_waits_takes_its_bytes_and_no_more() {
        let (mut output, mut pool) = (Output::default(), pool());
        for _ in 0..50 {
            output.borrow(&mut pool);
            output.tail().extend_from_slice(&[7; 300_001]);
            output.compact(&mut pool);
        }
        let older = output.older.as_ref().unwrap();
        let held: usize = older.pieces.iter().map(Vec::capacity).sum();
        assert_eq!(output.len(), 50 * 300_001);
        assert_eq!(output.capacity(), held + output.newest.capacity());
        assert!(held < output.len() + PIECE_BYTES, "{held} bytes for {}", output.len());
        assert!(output.tail().capacity() <= TAIL_BYTES_MAX);
        output.borrow(&mut pool);
        output.tail().extend_from_slice(&[7; TAIL_BYTES_MAX + 1]);
        output.compact(&mut pool);
        assert_eq!(output.tail().capacity(), 0);
        // Little stays where it is, in memory of its size.
        let mut small = Output::default();
        small.tail().reserve(1 << 20);
        small.tail().extend_from_slice(b"little");
        small.compact(&mut pool);
        assert!(small.older.is_none() && small.tail().capacity() < 100);
        // A large reply is there once: it is a piece, without the memory that it did not fill.
        let waits = output.capacity();
        output.tail().reserve(9 << 20);
        output.tail().extend_from_slice(&[8; 3 << 20]);
        output.compact(&mut pool);
        let piece = output.older.as_ref().unwrap().pieces.back().unwrap();
        assert_eq!((piece.len(), piece.capacity()), (3 << 20, 3 << 20));
        assert_eq!(output.capacity(), waits + (3 << 20));
        output.consume(output.len());
        assert_eq!(output.capacity(), 0);
        output.discard(&mut pool);
        assert!(output.is_empty() && output.older.is_none());
    }
}

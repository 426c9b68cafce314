//! The segment allocator: byte ranges of the log, reserved by one atomic addition.
//!
//! ```text
//!   word = segment number | 8 bits of headroom | offset in the segment
//!
//!   reserve(bytes): word.fetch_add(bytes) gives the old offset
//!
//!     old + bytes <= segment_bytes          the range is ours
//!     old <= segment_bytes < old + bytes    we CROSS the end: we alone learn where the segment's
//!                                           records end
//!     segment_bytes < old                   the segment is FULL already
//! ```
//!
//! A thread that gets no range takes the lock and rotates to the next segment. The thread that
//! crosses first records where the segment's records end. Threads that came later wait for that
//! value, which is a few instructions away. Then one of them creates the next segment and stores a
//! new word, which already contains its own range. The others try again.
//!
//! If the creation fails, the thread that tried gets the error and the word stays at "full". The
//! next thread tries again, and nothing is lost. The bytes between the end of the records and the
//! end of the segment belong to the thread whose rotation succeeds.
//!
//! An addition to a full segment is harmless: the offset grows into the headroom. Only ranges of at
//! most 1/64 segment are added without a check, so it would take 16,000 threads at the same moment
//! to fill the headroom. A larger range is reserved by compare-and-exchange, which checks first.
//!
//! **Invariants:** each byte of a segment is reserved once. Exactly one reservation crosses the end
//! of each segment. A segment exists before its number is in the word.

use crate::primitive::{AtomicU64, CachePadded, Condvar, Mutex, MutexGuard, Ordering, lock, wait};

/// Log2 of how many times over a segment's offset may run past its end.
const HEADROOM_LOG2: u32 = 8;
/// Ranges of at most 1/64 segment are added without a check.
const UNCHECKED_LOG2: u32 = 6;

/// The outcome of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reserved {
    /// The range is ours, from this offset of this segment on.
    Range { number: u64, offset: u64 },
    /// The segment's records end at this offset. The caller records that and rotates.
    Crosses { number: u64, offset: u64 },
    /// This segment is full.
    Full { number: u64 },
    /// Nothing is reserved: the range would end here, beyond the limit that the caller gave.
    Beyond { number: u64, end: u64 },
}

/// A new segment, with the caller's range at its start.
#[derive(Debug)]
pub(crate) struct Rotated {
    /// Number of the new segment.
    pub(crate) number: u64,
    /// Where the records of the old one end.
    pub(crate) end_offset: u64,
}

/// What changes under the lock.
#[derive(Debug)]
pub(crate) struct AllocatorState<P> {
    /// Number of the segment in the word.
    pub(crate) number: u64,
    /// Where the records of that segment end. Only the thread that crosses sets it.
    pub(crate) end_offset: Option<u64>,
    /// What the creation of segments needs.
    pub(crate) pool: P,
}

/// Reserves byte ranges in one segment after the other.
#[derive(Debug)]
pub(crate) struct SegmentAllocator<P> {
    word: CachePadded<AtomicU64>,
    segment_bytes: u64,
    /// Bits of the offset, headroom included.
    shift: u32,
    state: Mutex<AllocatorState<P>>,
    /// Signalled when a thread has crossed the end, and after a rotation.
    rotation: Condvar,
}

impl<P> SegmentAllocator<P> {
    /// Begins with a full segment, so that the first reservation creates segment `first`, which is
    /// at least 1.
    pub(crate) fn new(first: u64, segment_bytes: u64, pool: P) -> Self {
        let shift = segment_bytes.ilog2() + HEADROOM_LOG2;
        let state = AllocatorState { number: first - 1, end_offset: Some(segment_bytes), pool };
        let word = Self::full(first - 1, segment_bytes, shift);
        SegmentAllocator {
            word: CachePadded(AtomicU64::new(word)),
            segment_bytes,
            shift,
            state: Mutex::new(state),
            rotation: Condvar::new(),
        }
    }

    /// The word of a full segment whose end a thread has already crossed.
    fn full(number: u64, segment_bytes: u64, shift: u32) -> u64 {
        number << shift | (segment_bytes + 1)
    }

    /// The lock under which the current segment changes.
    pub(crate) fn lock(&self) -> MutexGuard<'_, AllocatorState<P>> {
        lock(&self.state)
    }

    /// Where the reserved part of the log ends.
    pub(crate) fn end(&self) -> u64 {
        let word = self.word.0.load(Ordering::Acquire);
        let (number, offset) = (word >> self.shift, word & ((1 << self.shift) - 1));
        number * self.segment_bytes + offset.min(self.segment_bytes)
    }

    /// As [`SegmentAllocator::end`]. A thread that reserves a range above it sees what this thread
    /// did before.
    pub(crate) fn end_in_order(&self) -> u64 {
        // Release pairs with the Acquire of reservations, in the one order of all changes of the
        // word.
        let word = self.word.0.fetch_add(0, Ordering::AcqRel);
        let (number, offset) = (word >> self.shift, word & ((1 << self.shift) - 1));
        number * self.segment_bytes + offset.min(self.segment_bytes)
    }

    /// Where the records of the newest segment end, if it is full.
    pub(crate) fn end_of_full(&self) -> Option<u64> {
        let state = self.lock();
        state.end_offset.map(|offset| state.number * self.segment_bytes + offset)
    }

    /// Reserves `bytes`, which are not more than a segment.
    #[inline]
    pub(crate) fn reserve(&self, bytes: u64) -> Reserved {
        if bytes > self.segment_bytes >> UNCHECKED_LOG2 {
            return self.reserve_below(bytes, self.segment_bytes);
        }
        // Acquire pairs with the Release in `rotate`: a thread that sees a number sees its segment.
        let old = self.word.0.fetch_add(bytes, Ordering::Acquire);
        self.classify(old, bytes)
    }

    /// As [`SegmentAllocator::reserve`], where records must end at `limit` of the segment: beyond
    /// it there is no space yet.
    pub(crate) fn reserve_below(&self, bytes: u64, limit: u64) -> Reserved {
        let mut old = self.word.0.load(Ordering::Acquire);
        loop {
            let reserved = self.classify(old, bytes);
            let new = match reserved {
                Reserved::Range { number, offset } if offset + bytes > limit => {
                    return Reserved::Beyond { number, end: offset + bytes };
                }
                Reserved::Range { .. } => old + bytes,
                Reserved::Crosses { number, .. } => {
                    Self::full(number, self.segment_bytes, self.shift)
                }
                Reserved::Full { .. } | Reserved::Beyond { .. } => return reserved,
            };
            // Acquire as in `reserve`.
            let exchanged =
                self.word.0.compare_exchange_weak(old, new, Ordering::Acquire, Ordering::Acquire);
            match exchanged {
                Ok(_) => return reserved,
                Err(seen) => old = seen,
            }
        }
    }

    fn classify(&self, old: u64, bytes: u64) -> Reserved {
        let (number, offset) = (old >> self.shift, old & ((1 << self.shift) - 1));
        if offset > self.segment_bytes {
            Reserved::Full { number }
        } else if offset + bytes <= self.segment_bytes {
            Reserved::Range { number, offset }
        } else {
            Reserved::Crosses { number, offset }
        }
    }

    /// Creates the next segment after a reservation of `bytes` that got no range. `create` gets the
    /// pool, the offset where the records of the old segment end, and the number to create. Returns
    /// `None` if another thread has rotated meanwhile: reserve again.
    pub(crate) fn rotate<E>(
        &self,
        reserved: Reserved,
        bytes: u64,
        create: impl FnOnce(&mut P, u64, u64) -> Result<(), E>,
    ) -> Result<Option<Rotated>, E> {
        let mut state = self.lock();
        let full = match reserved {
            Reserved::Crosses { number, offset } => {
                debug_assert_eq!(state.number, number, "no other thread rotates before us");
                state.end_offset = Some(offset);
                self.rotation.notify_all();
                number
            }
            Reserved::Full { number }
            | Reserved::Range { number, .. }
            | Reserved::Beyond { number, .. } => number,
        };
        let end_offset = loop {
            if state.number != full {
                return Ok(None);
            }
            match state.end_offset {
                Some(end_offset) => break end_offset,
                None => state = wait(&self.rotation, state),
            }
        };
        let number = full + 1;
        if let Err(error) = create(&mut state.pool, end_offset, number) {
            // Undoes what was added to the full segment meanwhile. Relaxed: no thread learns
            // anything from it.
            let word = Self::full(full, self.segment_bytes, self.shift);
            self.word.0.swap(word, Ordering::Relaxed);
            return Err(error);
        }
        state.number = number;
        state.end_offset = None;
        // Release pairs with the Acquire in `reserve`: the segment exists before its number is in
        // the word. A store would do. An exchange also tells loom that it follows the additions to
        // the old word.
        self.word.0.swap(number << self.shift | bytes, Ordering::Release);
        self.rotation.notify_all();
        Ok(Some(Rotated { number, end_offset }))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const BYTES: u64 = 4_096;

    fn allocator() -> SegmentAllocator<Vec<u64>> {
        SegmentAllocator::new(1, BYTES, Vec::new())
    }

    /// Reserves as a log does. The pool lists the segments that were created.
    fn reserve(allocator: &SegmentAllocator<Vec<u64>>, bytes: u64) -> (u64, u64) {
        loop {
            let reserved = allocator.reserve(bytes);
            if let Reserved::Range { number, offset } = reserved {
                return (number, offset);
            }
            let rotated = allocator.rotate(reserved, bytes, |pool, _, number| {
                pool.push(number);
                Ok::<_, ()>(())
            });
            if let Some(rotated) = rotated.expect("nothing fails") {
                return (rotated.number, 0);
            }
        }
    }

    #[test]
    fn ranges_of_all_sizes_follow_each_other() {
        let allocator = allocator();
        assert_eq!(reserve(&allocator, 16), (1, 0));
        assert_eq!(reserve(&allocator, 64), (1, 16), "unchecked");
        assert_eq!(reserve(&allocator, 4_000), (1, 80), "checked");
        assert_eq!(reserve(&allocator, 16), (1, 4_080), "fits to the byte");
        assert_eq!(reserve(&allocator, BYTES), (2, 0), "a whole segment");
        assert_eq!(reserve(&allocator, BYTES), (3, 0));
        assert_eq!(reserve(&allocator, 8), (4, 0));
        assert_eq!(allocator.lock().pool, [1, 2, 3, 4]);
    }

    #[test]
    fn a_failed_creation_is_reported_and_the_next_one_succeeds() {
        let allocator = allocator();
        assert_eq!(reserve(&allocator, 4_088), (1, 0));
        let crossing = allocator.reserve(64);
        assert_eq!(crossing, Reserved::Crosses { number: 1, offset: 4_088 });
        let failed = allocator.rotate(crossing, 64, |_, end_offset, number| {
            assert_eq!((end_offset, number), (4_088, 2));
            Err("full")
        });
        assert_eq!(failed.unwrap_err(), "full");
        for bytes in [8, 64, 3_000].repeat(10_000) {
            let reserved = allocator.reserve(bytes);
            assert_eq!(reserved, Reserved::Full { number: 1 }, "nothing piles up");
            allocator.rotate(reserved, bytes, |_, _, _| Err("full")).unwrap_err();
        }
        let reserved = allocator.reserve(64);
        let rotated = allocator.rotate(reserved, 64, |_, _, _| Ok::<_, ()>(())).unwrap().unwrap();
        assert_eq!((rotated.number, rotated.end_offset), (2, 4_088));
        assert_eq!(reserve(&allocator, 8), (2, 64));
    }

    #[test]
    fn threads_get_each_byte_once() {
        let allocator = allocator();
        let mut all: Vec<(u64, u64, u64)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4_u64)
                .map(|thread| {
                    let allocator = &allocator;
                    scope.spawn(move || {
                        let bytes = |round: u64| 8 * (1 + (round * (thread + 3)) % 40);
                        let range = |round| {
                            let (number, offset) = reserve(allocator, bytes(round));
                            (number, offset, bytes(round))
                        };
                        (0..5_000).map(range).collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        all.sort_unstable();
        for pair in all.windows(2) {
            let ((number, offset, bytes), next) = (pair[0], pair[1]);
            if next.0 == number {
                assert_eq!(next.1, offset + bytes, "no gap and no overlap in segment {number}");
            } else {
                assert_eq!((next.0, next.1), (number + 1, 0));
            }
        }
        let created = &allocator.lock().pool;
        assert_eq!(
            created.len() as u64,
            all.last().unwrap().0,
            "each is created once: {created:?}"
        );
    }
}

#[cfg(all(test, loom))]
mod interleavings;

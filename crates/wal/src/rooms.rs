//! Who may write where: room in the log, given out by one atomic addition.
//!
//! ```text
//!   word = segment number | 8 bits of headroom | offset in the segment
//!
//!   claim(room): word.fetch_add(room) gives the old offset
//!
//!     old + room <= segment_bytes          the room is ours
//!     old <= segment_bytes < old + room    we are the one who CROSSES the end: we alone learn
//!                                          where the segment's records end
//!     segment_bytes < old                  the segment is FULL already
//! ```
//!
//! Whoever does not get room takes the lock and turns the segment over. The one who crosses first
//! leaves word of where the records end; those who came later wait for that word, which is a few
//! instructions away. Then one of them makes the next segment and stores a new word, with its own
//! room taken already; the others try again. When the making fails, the one who tried gets the
//! error, and the word stays at "full": the next one who comes tries again, and nothing is lost.
//! The room between the end of the records and the end of the segment goes to the one whose making
//! succeeded.
//!
//! An addition to a full segment is harmless: the offset grows into the headroom. Only rooms of at
//! most 1/64 segment are added blindly, so more than 16,000 threads would have to do so at the same
//! moment to fill the headroom. A larger room is taken by compare-and-exchange, which looks first.
//!
//! **Invariants:** each byte of a segment is given out once. Exactly one claim crosses the end of
//! each segment. A segment is made before its number is in the word.

use crate::primitive::{AtomicU64, Condvar, Line, Mutex, MutexGuard, Ordering, lock, wait};

/// Log2 of how many times over a segment's offset may run past its end.
const HEADROOM_LOG2: u32 = 8;
/// Rooms of at most 1/64 segment are added without looking.
const BLIND_LOG2: u32 = 6;

/// The outcome of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The room is ours, from this offset of this segment on.
    Room { number: u64, offset: u64 },
    /// There was room up to this offset; we are to say so and turn the segment over.
    Crosses { number: u64, offset: u64 },
    /// There is no room in this segment.
    Full { number: u64 },
}

/// A new segment, with our room at its start.
#[derive(Debug)]
pub(crate) struct Turned {
    /// Number of the new segment.
    pub(crate) number: u64,
    /// Where the records of the old one end.
    pub(crate) end_offset: u64,
}

/// What is changed under the lock.
#[derive(Debug)]
pub(crate) struct Turn<X> {
    /// Number of the segment in the word.
    pub(crate) number: u64,
    /// Where the records of that segment end. Only the one who crosses sets it.
    pub(crate) end_offset: Option<u64>,
    /// What the making of segments needs.
    pub(crate) shelf: X,
}

/// Room in one segment after the other.
#[derive(Debug)]
pub(crate) struct Rooms<X> {
    word: Line<AtomicU64>,
    segment_bytes: u64,
    /// Bits of the offset, headroom included.
    shift: u32,
    turn: Mutex<Turn<X>>,
    /// The one who crosses has come, or the segment was turned over.
    crossed: Condvar,
}

impl<X> Rooms<X> {
    /// Begins with a segment that is full, so that the first claim makes segment `first`, which is
    /// at least 1.
    pub(crate) fn new(first: u64, segment_bytes: u64, shelf: X) -> Self {
        let shift = segment_bytes.ilog2() + HEADROOM_LOG2;
        let turn = Turn { number: first - 1, end_offset: Some(segment_bytes), shelf };
        let word = Self::full(first - 1, segment_bytes, shift);
        Rooms {
            word: Line(AtomicU64::new(word)),
            segment_bytes,
            shift,
            turn: Mutex::new(turn),
            crossed: Condvar::new(),
        }
    }

    /// The word of a full segment whose one who crosses has been.
    fn full(number: u64, segment_bytes: u64, shift: u32) -> u64 {
        number << shift | (segment_bytes + 1)
    }

    /// The lock that is held while a segment is made.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Turn<X>> {
        lock(&self.turn)
    }

    /// Where the claimed part of the log ends.
    pub(crate) fn end(&self) -> u64 {
        let word = self.word.0.load(Ordering::Acquire);
        let (number, offset) = (word >> self.shift, word & ((1 << self.shift) - 1));
        number * self.segment_bytes + offset.min(self.segment_bytes)
    }

    /// As [`Rooms::end`]. Whoever claims room behind it sees what this thread did before.
    pub(crate) fn end_in_order(&self) -> u64 {
        // Release, in the one order of all changes of the word, pairs with the Acquire of claims.
        let word = self.word.0.fetch_add(0, Ordering::AcqRel);
        let (number, offset) = (word >> self.shift, word & ((1 << self.shift) - 1));
        number * self.segment_bytes + offset.min(self.segment_bytes)
    }

    /// Where the records of the newest segment end, if it is full.
    pub(crate) fn end_of_full(&self) -> Option<u64> {
        let turn = self.lock();
        turn.end_offset.map(|offset| turn.number * self.segment_bytes + offset)
    }

    /// Claims `room` bytes, which are not more than a segment.
    #[inline]
    pub(crate) fn claim(&self, room: u64) -> Claim {
        if room > self.segment_bytes >> BLIND_LOG2 {
            return self.claim_large(room);
        }
        // Acquire pairs with the Release in `turn_over`: who sees a number sees its segment.
        let old = self.word.0.fetch_add(room, Ordering::Acquire);
        self.judge(old, room)
    }

    fn claim_large(&self, room: u64) -> Claim {
        let mut old = self.word.0.load(Ordering::Acquire);
        loop {
            let claim = self.judge(old, room);
            let new = match claim {
                Claim::Room { .. } => old + room,
                Claim::Crosses { number, .. } => Self::full(number, self.segment_bytes, self.shift),
                Claim::Full { .. } => return claim,
            };
            // Acquire as in `claim`.
            let exchanged =
                self.word.0.compare_exchange_weak(old, new, Ordering::Acquire, Ordering::Acquire);
            match exchanged {
                Ok(_) => return claim,
                Err(seen) => old = seen,
            }
        }
    }

    fn judge(&self, old: u64, room: u64) -> Claim {
        let (number, offset) = (old >> self.shift, old & ((1 << self.shift) - 1));
        if offset > self.segment_bytes {
            Claim::Full { number }
        } else if offset + room <= self.segment_bytes {
            Claim::Room { number, offset }
        } else {
            Claim::Crosses { number, offset }
        }
    }

    /// After a claim of `room` bytes that got none: makes the next segment. `make` gets the shelf,
    /// the offset where the records of the segment before end, and the number to make. `None` if
    /// somebody else has turned the segment over: claim again.
    pub(crate) fn turn_over<E>(
        &self,
        claim: Claim,
        room: u64,
        make: impl FnOnce(&mut X, u64, u64) -> Result<(), E>,
    ) -> Result<Option<Turned>, E> {
        let mut turn = self.lock();
        let full = match claim {
            Claim::Crosses { number, offset } => {
                debug_assert_eq!(turn.number, number, "nobody turns over before us");
                turn.end_offset = Some(offset);
                self.crossed.notify_all();
                number
            }
            Claim::Full { number } | Claim::Room { number, .. } => number,
        };
        let end_offset = loop {
            if turn.number != full {
                return Ok(None);
            }
            match turn.end_offset {
                Some(end_offset) => break end_offset,
                None => turn = wait(&self.crossed, turn),
            }
        };
        let number = full + 1;
        if let Err(error) = make(&mut turn.shelf, end_offset, number) {
            // Takes back what was added to the full segment meanwhile. Relaxed: it is no news.
            let word = Self::full(full, self.segment_bytes, self.shift);
            self.word.0.swap(word, Ordering::Relaxed);
            return Err(error);
        }
        turn.number = number;
        turn.end_offset = None;
        // Release pairs with the Acquire in `claim`: the segment is there before its number is. A
        // store would do; of an exchange loom knows, too, that it comes behind the additions to the
        // word before.
        self.word.0.swap(number << self.shift | room, Ordering::Release);
        self.crossed.notify_all();
        Ok(Some(Turned { number, end_offset }))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const BYTES: u64 = 4_096;

    fn rooms() -> Rooms<Vec<u64>> {
        Rooms::new(1, BYTES, Vec::new())
    }

    /// Claims as a log does; the shelf lists the segments made.
    fn take(rooms: &Rooms<Vec<u64>>, room: u64) -> (u64, u64) {
        loop {
            let claim = rooms.claim(room);
            if let Claim::Room { number, offset } = claim {
                return (number, offset);
            }
            let turned = rooms.turn_over(claim, room, |shelf, _, number| {
                shelf.push(number);
                Ok::<_, ()>(())
            });
            if let Some(turned) = turned.expect("nothing fails") {
                return (turned.number, 0);
            }
        }
    }

    #[test]
    fn rooms_of_all_sizes_lie_one_behind_the_other() {
        let rooms = rooms();
        assert_eq!(take(&rooms, 16), (1, 0));
        assert_eq!(take(&rooms, 64), (1, 16), "blind");
        assert_eq!(take(&rooms, 4_000), (1, 80), "with a look");
        assert_eq!(take(&rooms, 16), (1, 4_080), "fits to the byte");
        assert_eq!(take(&rooms, BYTES), (2, 0), "a whole segment");
        assert_eq!(take(&rooms, BYTES), (3, 0));
        assert_eq!(take(&rooms, 8), (4, 0));
        assert_eq!(rooms.lock().shelf, [1, 2, 3, 4]);
    }

    #[test]
    fn a_failed_making_is_reported_and_the_next_one_succeeds() {
        let rooms = rooms();
        assert_eq!(take(&rooms, 4_088), (1, 0));
        let crossing = rooms.claim(64);
        assert_eq!(crossing, Claim::Crosses { number: 1, offset: 4_088 });
        let failed = rooms.turn_over(crossing, 64, |_, end_offset, number| {
            assert_eq!((end_offset, number), (4_088, 2));
            Err("full")
        });
        assert_eq!(failed.unwrap_err(), "full");
        for room in [8, 64, 3_000].repeat(10_000) {
            let claim = rooms.claim(room);
            assert_eq!(claim, Claim::Full { number: 1 }, "nothing piles up");
            rooms.turn_over(claim, room, |_, _, _| Err("full")).unwrap_err();
        }
        let claim = rooms.claim(64);
        let turned = rooms.turn_over(claim, 64, |_, _, _| Ok::<_, ()>(())).unwrap().unwrap();
        assert_eq!((turned.number, turned.end_offset), (2, 4_088));
        assert_eq!(take(&rooms, 8), (2, 64));
    }

    #[test]
    fn threads_get_all_of_it_once() {
        let rooms = rooms();
        let mut all: Vec<(u64, u64, u64)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4_u64)
                .map(|thread| {
                    let rooms = &rooms;
                    scope.spawn(move || {
                        let room = |turn: u64| 8 * (1 + (turn * (thread + 3)) % 40);
                        let claim = |turn| {
                            let (number, offset) = take(rooms, room(turn));
                            (number, offset, room(turn))
                        };
                        (0..5_000).map(claim).collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        all.sort_unstable();
        for pair in all.windows(2) {
            let ((number, offset, room), next) = (pair[0], pair[1]);
            if next.0 == number {
                assert_eq!(next.1, offset + room, "no gap and no overlap in segment {number}");
            } else {
                assert_eq!((next.0, next.1), (number + 1, 0));
            }
        }
        let made = &rooms.lock().shelf;
        assert_eq!(made.len() as u64, all.last().unwrap().0, "each is made once: {made:?}");
    }
}

#[cfg(all(test, loom))]
mod interleavings;

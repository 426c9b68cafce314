//! Where a SCAN goes on.
//!
//! A cursor is a number of 64 bits, and keys are bytes of any length, so a cursor cannot hold the
//! key behind which it stands. The server remembers it: cursors count up, and the places of the
//! newest ones are kept in a ring.
//!
//! ```text
//!   oldest                                      newest
//!   | 801: "user:17" | 802: "a" | 803: "user:20" |      next is 804
//! ```
//!
//! * An iteration walks the keys in their order, so it returns every key that is there from its
//!   beginning to its end, and none twice. Redis promises the first only.
//! * A cursor may be used again, after a reply was lost for instance, as long as it is in the ring.
//! * A cursor that was pushed out, or is of another run of the server, is an error and not a
//!   wrong answer: cursors begin at the time of the start, so that none is given out twice.
//! * The memory is bounded by [`ENTRIES_MAX`] and [`BYTES_MAX`]; so is the number of iterations
//!   that can be under way.

use std::collections::VecDeque;

/// Places that are remembered.
pub(crate) const ENTRIES_MAX: usize = 16_384;

/// Bytes of the places that are remembered. One is kept however long it is.
pub(crate) const BYTES_MAX: usize = 4 << 20;

/// The places of the newest cursors.
#[derive(Debug)]
pub(crate) struct Cursors {
    places: VecDeque<Box<[u8]>>,
    /// The cursor of the first of `places`.
    first: u64,
    bytes: usize,
}

impl Cursors {
    /// None yet; the first will be above those of servers that were started before `start_ms`.
    pub(crate) fn new(start_ms: u64) -> Self {
        Cursors { places: VecDeque::new(), first: (start_ms << 20).max(1), bytes: 0 }
    }

    /// A cursor for `place`. Never 0, which stands for the beginning and the end.
    pub(crate) fn add(&mut self, place: &[u8]) -> u64 {
        self.bytes += place.len();
        self.places.push_back(place.into());
        while self.places.len() > ENTRIES_MAX || (self.bytes > BYTES_MAX && self.places.len() > 1) {
            let Some(oldest) = self.places.pop_front() else { break };
            self.bytes -= oldest.len();
            self.first += 1;
        }
        self.first + self.places.len() as u64 - 1
    }

    /// The place of a cursor that is still remembered.
    pub(crate) fn place(&self, cursor: u64) -> Option<&[u8]> {
        let index = usize::try_from(cursor.checked_sub(self.first)?).ok()?;
        self.places.get(index).map(|place| &**place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_found_until_it_is_pushed_out() {
        let mut cursors = Cursors::new(1000);
        let first = cursors.add(b"first");
        assert_eq!(first, 1000 << 20);
        assert_eq!(cursors.place(first), Some(&b"first"[..]));
        assert_eq!((cursors.place(first - 1), cursors.place(first + 1)), (None, None));
        for _ in 0..ENTRIES_MAX - 1 {
            cursors.add(b"x");
        }
        assert!(cursors.place(first).is_some());
        let last = cursors.add(b"last");
        assert!(cursors.place(first).is_none());
        assert_eq!(cursors.place(last), Some(&b"last"[..]));
    }

    #[test]
    fn long_places_push_out_more() {
        let mut cursors = Cursors::new(0);
        let small = cursors.add(b"small");
        let huge = cursors.add(&vec![0; BYTES_MAX + 1]);
        assert!(cursors.place(small).is_none());
        assert_eq!(cursors.place(huge).map(<[u8]>::len), Some(BYTES_MAX + 1));
        assert_eq!(cursors.place(0), None);
    }
}

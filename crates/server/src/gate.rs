//! How a command over several keys has them to itself.
//!
//! ```text
//!   loop 0   seat 0 (reading) .... leaves .. takes 0, 1, 2 .. runs .. gives them back .. seat 0
//!   loop 1   seat 1 (reading) ... turn ends
//!   loop 2   seat 2 (reading) ... turn ends      (waits at its seat meanwhile)
//! ```
//!
//! Each loop thread has a seat, a lock on a cache line of its own, and holds its reading side while
//! it carries out requests. Nobody else touches that line unless somebody wants to be alone, so a
//! turn costs two atomic operations that never miss. Whoever wants to be alone gives up its seat,
//! takes the writing sides of all seats, runs, and sits down again.
//!
//! * Two loops that both want to be alone do not wait for each other in a circle: neither holds its
//!   seat while it waits, and all take the seats in the same order.
//! * A loop that waited while another was alone has its turn before anybody is alone again.
//! * What was read before [`Turn::alone`] may have changed inside: decide inside.
//! * It orders requests of loop threads among themselves. Who writes to the rows without a turn is
//!   not held back.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, TryLockError};

/// The seats of all loop threads.
#[derive(Debug)]
pub struct Gate {
    seats: Box<[Seat]>,
    /// Threads that wait for their seats.
    waiting: AtomicUsize,
}

/// Two cache lines, because the prefetcher fetches pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Seat(RwLock<()>);

impl Gate {
    /// A gate with a seat for each of `loops` threads.
    #[must_use]
    pub fn new(loops: usize) -> Self {
        Gate {
            seats: (0..loops.max(1)).map(|_| Seat::default()).collect(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// How many seats there are.
    #[must_use]
    pub fn seats(&self) -> usize {
        self.seats.len()
    }

    /// Takes the seat of loop `seat` for a turn; waits while another is alone. A thread has one
    /// turn at a time.
    ///
    /// # Panics
    /// When there is no such seat.
    #[must_use]
    pub fn enter(&self, seat: usize) -> Turn<'_> {
        assert!(seat < self.seats.len(), "a seat for each loop");
        Turn { gate: self, seat, sitting: Some(self.sit(seat)) }
    }

    // The lock guards no data, so a panic of its holder leaves nothing half done in it.
    fn sit(&self, seat: usize) -> RwLockReadGuard<'_, ()> {
        let seat = &self.seats[seat].0;
        match seat.try_read() {
            Ok(sitting) => return sitting,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {}
        }
        self.waiting.fetch_add(1, Relaxed);
        let sitting = seat.read().unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Relaxed);
        sitting
    }
}

/// A loop thread's turn at its seat. Ends when dropped.
#[derive(Debug)]
pub struct Turn<'g> {
    gate: &'g Gate,
    seat: usize,
    sitting: Option<RwLockReadGuard<'g, ()>>,
}

impl Turn<'_> {
    /// Runs `work` while no other loop is in a turn. Not to be nested.
    pub fn alone<R>(&mut self, work: impl FnOnce() -> R) -> R {
        self.sitting = None;
        // Loops that waited while another was alone have a turn first. They wait for nothing else,
        // and none comes to wait while nobody is alone, so this ends.
        while self.gate.waiting.load(Relaxed) > 0 {
            std::thread::yield_now();
        }
        let result = {
            let seats = self.gate.seats.iter();
            let _all: Vec<_> =
                seats.map(|seat| seat.0.write().unwrap_or_else(PoisonError::into_inner)).collect();
            work()
        };
        self.sitting = Some(self.gate.sit(self.seat));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    /// Each turn moves one unit between two counters in two steps; whoever is alone sees the sum
    /// whole. Relaxed counters show nothing that the gate does not order.
    #[test]
    fn whoever_is_alone_sees_no_turn_half_done() {
        let gate = Gate::new(3);
        let (left, right) = (AtomicU64::new(2000), AtomicU64::new(0));
        std::thread::scope(|threads| {
            for seat in 0..3 {
                let (gate, left, right) = (&gate, &left, &right);
                threads.spawn(move || {
                    for round in 0..500 {
                        let mut turn = gate.enter(seat);
                        left.fetch_sub(1, Relaxed);
                        std::thread::yield_now();
                        right.fetch_add(1, Relaxed);
                        if round % 7 == seat {
                            let sum = turn.alone(|| left.load(Relaxed) + right.load(Relaxed));
                            assert_eq!(sum, 2000);
                        }
                    }
                });
            }
        });
    }

    /// All loops waited 40 seconds for a client whose commands were alone one after another.
    #[test]
    fn a_loop_that_waits_has_its_turn_before_anybody_is_alone_again() {
        let gate = Gate::new(2);
        let turns = AtomicU64::new(0);
        std::thread::scope(|threads| {
            let mut turn = gate.enter(0);
            for round in 0..100 {
                turn.alone(|| {
                    threads.spawn(|| {
                        let _turn = gate.enter(1);
                        turns.fetch_add(1, Relaxed);
                    });
                    while gate.waiting.load(Relaxed) == 0 {
                        std::thread::yield_now();
                    }
                    assert_eq!(turns.load(Relaxed), round);
                });
                turn.alone(|| assert_eq!(turns.load(Relaxed), round + 1));
            }
        });
    }

    #[test]
    fn a_seat_is_given_back_after_a_panic() {
        let gate = Gate::new(1);
        let work = || {
            gate.enter(0).alone(|| panic!("on purpose"));
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err());
        assert_eq!(gate.enter(0).alone(|| 7), 7);
    }
}

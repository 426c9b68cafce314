//! Rooms under loom: every interleaving of threads that claim around the end of a segment.

use super::*;
use loom::sync::Arc;
use loom::thread;

const BYTES: u64 = 4_096;

/// Explores all interleavings, or those with so many preemptions at most.
fn explore(preemptions_max: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(preemptions_max);
    builder.check(model);
}

/// The shelf counts the makings, and fails as many as it is told to.
struct Shelf {
    made: u64,
    failures: u64,
}

/// Rooms whose segment 1 has `left` bytes left.
fn rooms(left: u64, failures: u64) -> Arc<Rooms<Shelf>> {
    let rooms = Rooms::new(1, BYTES, Shelf { made: 0, failures: 0 });
    take(&rooms, BYTES - left).unwrap();
    rooms.lock().shelf.failures = failures;
    Arc::new(rooms)
}

fn take(rooms: &Rooms<Shelf>, room: u64) -> Result<(u64, u64), ()> {
    loop {
        let claim = rooms.claim(room);
        if let Claim::Room { number, offset } = claim {
            return Ok((number, offset));
        }
        let turned = rooms.turn_over(claim, room, |shelf, _, number| {
            if shelf.failures > 0 {
                shelf.failures -= 1;
                return Err(());
            }
            shelf.made += 1;
            assert_eq!(shelf.made, number, "each segment is made once");
            Ok(())
        })?;
        if let Some(turned) = turned {
            return Ok((turned.number, 0));
        }
    }
}

#[test]
fn threads_that_meet_at_the_end_of_a_segment_get_different_rooms() {
    explore(Some(3), || {
        let rooms = rooms(16, 0);
        let others: Vec<_> = (0..2)
            .map(|_| {
                let rooms = Arc::clone(&rooms);
                thread::spawn(move || take(&rooms, 16).unwrap())
            })
            .collect();
        let mut all = vec![take(&rooms, 16).unwrap()];
        all.extend(others.into_iter().map(|other| other.join().unwrap()));
        all.sort_unstable();
        assert_eq!(all, [(1, BYTES - 16), (2, 0), (2, 16)]);
    });
}

#[test]
fn a_large_room_and_a_small_one_turn_the_segment_over_once() {
    explore(None, || {
        let rooms = rooms(8, 0);
        let large = {
            let rooms = Arc::clone(&rooms);
            thread::spawn(move || take(&rooms, 1_024).unwrap())
        };
        let small = take(&rooms, 16).unwrap();
        let large = large.join().unwrap();
        assert!((small, large) == ((2, 0), (2, 16)) || (small, large) == ((2, 1_024), (2, 0)));
    });
}

#[test]
fn after_a_failed_making_another_thread_makes_the_segment() {
    explore(None, || {
        let rooms = rooms(8, 1);
        let other = {
            let rooms = Arc::clone(&rooms);
            thread::spawn(move || take(&rooms, 16))
        };
        let mine = take(&rooms, 16);
        let theirs = other.join().unwrap();
        assert_eq!([mine, theirs].iter().filter(|room| room.is_err()).count(), 1);
        assert_eq!(mine.or(theirs), Ok((2, 0)));
        assert_eq!(take(&rooms, 16), Ok((2, 16)));
    });
}

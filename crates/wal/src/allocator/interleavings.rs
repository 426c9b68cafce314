//! The allocator under loom: every interleaving of threads that reserve near a segment's end.

use super::*;
use loom::sync::Arc;
use loom::thread;

const BYTES: u64 = 4_096;

/// Explores all interleavings, or those with at most `preemptions_max` preemptions.
fn explore(preemptions_max: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(preemptions_max);
    builder.check(model);
}

/// Counts the segments that were created, and fails the next `failures` creations.
struct CountingPool {
    created: u64,
    failures: u64,
}

/// An allocator whose segment 1 has `left` bytes left.
fn allocator(left: u64, failures: u64) -> Arc<SegmentAllocator<CountingPool>> {
    let allocator = SegmentAllocator::new(1, BYTES, CountingPool { created: 0, failures: 0 });
    reserve(&allocator, BYTES - left).unwrap();
    allocator.lock().pool.failures = failures;
    Arc::new(allocator)
}

fn reserve(allocator: &SegmentAllocator<CountingPool>, bytes: u64) -> Result<(u64, u64), ()> {
    loop {
        let reserved = allocator.reserve(bytes);
        if let Reserved::Range { number, offset } = reserved {
            return Ok((number, offset));
        }
        let rotated = allocator.rotate(reserved, bytes, |pool, _, number| {
            if pool.failures > 0 {
                pool.failures -= 1;
                return Err(());
            }
            pool.created += 1;
            assert_eq!(pool.created, number, "each segment is created once");
            Ok(())
        })?;
        if let Some(rotated) = rotated {
            return Ok((rotated.number, 0));
        }
    }
}

#[test]
fn threads_at_the_end_of_a_segment_get_different_ranges() {
    explore(Some(3), || {
        let allocator = allocator(16, 0);
        let others: Vec<_> = (0..2)
            .map(|_| {
                let allocator = Arc::clone(&allocator);
                thread::spawn(move || reserve(&allocator, 16).unwrap())
            })
            .collect();
        let mut all = vec![reserve(&allocator, 16).unwrap()];
        all.extend(others.into_iter().map(|other| other.join().unwrap()));
        all.sort_unstable();
        assert_eq!(all, [(1, BYTES - 16), (2, 0), (2, 16)]);
    });
}

#[test]
fn a_large_and_a_small_reservation_rotate_once() {
    explore(None, || {
        let allocator = allocator(8, 0);
        let large = {
            let allocator = Arc::clone(&allocator);
            thread::spawn(move || reserve(&allocator, 1_024).unwrap())
        };
        let small = reserve(&allocator, 16).unwrap();
        let large = large.join().unwrap();
        assert!((small, large) == ((2, 0), (2, 16)) || (small, large) == ((2, 1_024), (2, 0)));
    });
}

#[test]
fn after_a_failed_creation_another_thread_creates_the_segment() {
    explore(None, || {
        let allocator = allocator(8, 1);
        let other = {
            let allocator = Arc::clone(&allocator);
            thread::spawn(move || reserve(&allocator, 16))
        };
        let mine = reserve(&allocator, 16);
        let theirs = other.join().unwrap();
        assert_eq!([mine, theirs].iter().filter(|range| range.is_err()).count(), 1);
        assert_eq!(mine.or(theirs), Ok((2, 0)));
        assert_eq!(reserve(&allocator, 16), Ok((2, 16)));
    });
}

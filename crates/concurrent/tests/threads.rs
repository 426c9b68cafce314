//! The version lock with real threads: what loom explores exhaustively and small, here often.

use keyrack_concurrent::VersionLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

const ROUNDS: u64 = 100_000;

#[test]
fn readers_see_whole_states_and_writers_lose_nothing() {
    let lock = VersionLock::new(false, true);
    let fields: [AtomicU64; 4] = Default::default();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let (lock, fields) = (&lock, &fields);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let mut held = lock.lock();
                        if (round + writer).is_multiple_of(3) {
                            held.mark_splitting();
                        } else {
                            held.mark_inserting();
                        }
                        for field in fields {
                            field.store(field.load(Relaxed) + 1, Relaxed);
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut latest = 0;
            while !done.load(Relaxed) {
                let version = lock.stable();
                let seen = [0, 1, 2, 3].map(|index: usize| fields[index].load(Relaxed));
                if lock.validate(version) {
                    assert_eq!(seen, [seen[0]; 4]);
                    assert!(seen[0] >= latest);
                    latest = seen[0];
                }
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Relaxed);
    });
    assert_eq!(fields[3].load(Relaxed), 2 * ROUNDS);
    assert!(!lock.load().is_locked());
}

//! Reclamation as a whole under shuttle: pins, exchanges, repins and ends of threads. A value notes
//! when it is freed, so that a reader who still has it sees that.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use keyrack_concurrent::atomic::point;
use keyrack_concurrent::schedules::explore;
use keyrack_concurrent::{Swap, pin};
use shuttle::thread;

const SCHEDULES: usize = 10_000;

/// Counts itself when it is freed. The count may be read afterwards.
struct Value {
    freed: Arc<AtomicUsize>,
    all: Arc<AtomicUsize>,
}

impl Value {
    fn new(all: &Arc<AtomicUsize>) -> Value {
        Value { freed: Arc::default(), all: Arc::clone(all) }
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        assert_eq!(self.freed.fetch_add(1, Ordering::Relaxed), 0, "freed twice");
        self.all.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn what_a_reader_holds_is_not_freed_and_in_the_end_all_is() {
    explore(SCHEDULES, || {
        let all = Arc::default();
        let place = Arc::new(Swap::new(Value::new(&all)));
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let (place, all) = (Arc::clone(&place), Arc::clone(&all));
                thread::spawn(move || {
                    for _ in 0..3 {
                        let guard = pin();
                        place.store(Value::new(&all), &guard);
                        guard.flush();
                    }
                })
            })
            .collect();
        let reader = {
            let place = Arc::clone(&place);
            thread::spawn(move || {
                let mut guard = pin();
                for _ in 0..3 {
                    let freed = Arc::clone(&place.load(&guard).freed);
                    // Others may store and flush here, as often as they like.
                    (0..4).for_each(|_| point());
                    assert_eq!(freed.load(Ordering::Relaxed), 0, "freed under a reader");
                    guard.repin();
                }
            })
        };
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        reader.join().unwrap();
        // What ended threads have left is taken over in the first, and due in the second.
        (0..3).for_each(|_| pin().flush());
        assert_eq!(all.load(Ordering::Relaxed), 6, "all that was exchanged");
        drop(place);
        assert_eq!(all.load(Ordering::Relaxed), 7, "and the last one");
    });
}

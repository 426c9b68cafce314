//! A generation as a whole under shuttle: puts of all threads, gets, walks while runs are made,
//! freezing and draining, in random schedules.

use super::*;
use crate::key::SEQUENCE_MAX;
use keyrack_concurrent::schedules::explore;
use shuttle::thread;

const SCHEDULES: usize = 10_000;

/// Small, so that a schedule is; with room for all entries of a test.
fn small() -> Arc<Memory> {
    let options = MemoryOptions { tail_entries_max: 1, ..MemoryOptions::default() };
    Arc::new(Memory::new(16 << 10, Comparator::Bytewise, options))
}

/// The sequences of what a cursor shows.
fn shown(memory: &Arc<Memory>, upto: u64) -> Vec<u64> {
    let entries = walk(&mut memory.cursor(upto));
    assert!(
        entries.is_sorted_by(|a, b| Comparator::Bytewise.internal(&a.0, &b.0).is_lt()),
        "each once and in order"
    );
    let mut sequences: Vec<u64> =
        entries.iter().map(|(key, _)| key::parse(key).unwrap().sequence).collect();
    sequences.sort_unstable();
    sequences
}

/// Two threads put versions of the same keys, whose hashes lie together; each sees its own at once,
/// and nobody sees less than was there before the threads began.
#[test]
fn versions_of_one_key_come_from_all_sides() {
    explore(SCHEDULES, || {
        let memory = small();
        put(&memory, 1, b"a", b"old");
        put(&memory, 2, b"b", b"old");
        let writers: Vec<_> = [[6, 3], [4, 5]]
            .into_iter()
            .map(|sequences| {
                let memory = Arc::clone(&memory);
                thread::spawn(move || {
                    for sequence in sequences {
                        put(&memory, sequence, b"a", &[sequence as u8]);
                        let newest = get(&memory, b"a", SEQUENCE_MAX).unwrap().1;
                        assert!(newest >= sequence, "{newest} and not my own {sequence}");
                        if memory.wants_seal() {
                            memory.seal();
                        }
                    }
                })
            })
            .collect();
        let reader = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || {
                let mut last = 0;
                for _ in 0..3 {
                    let (_, sequence, value) = get(&memory, b"a", SEQUENCE_MAX).unwrap();
                    let right = if sequence == 1 { b"old".to_vec() } else { vec![sequence as u8] };
                    assert_eq!(value, right, "the value of its sequence");
                    assert!(sequence >= last, "{sequence} behind {last}");
                    last = sequence;
                    assert_eq!(get(&memory, b"a", 2), Some((Kind::Put, 1, b"old".to_vec())));
                }
                let early = shown(&memory, SEQUENCE_MAX);
                assert!(early.starts_with(&[1, 2]), "{early:?}");
                let later = shown(&memory, SEQUENCE_MAX);
                assert!(early.iter().all(|it| later.contains(it)), "{early:?} {later:?}");
            })
        };
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        reader.join().unwrap();
        assert_eq!(shown(&memory, SEQUENCE_MAX), [1, 2, 3, 4, 5, 6]);
        for sequence in [1, 3, 4, 5, 6] {
            assert_eq!(get(&memory, b"a", sequence).unwrap().1, sequence);
        }
    });
}

/// A generation is frozen under its writers: what was accepted is in what is drained, and what was
/// refused is not.
#[test]
fn what_was_accepted_is_what_is_drained() {
    explore(SCHEDULES, || {
        let memory = small();
        let writers: Vec<_> = [[1, 2, 3], [4, 5, 6]]
            .into_iter()
            .map(|sequences| {
                let memory = Arc::clone(&memory);
                thread::spawn(move || {
                    let accepted = |sequence: &u64| {
                        let key = [b'k', *sequence as u8];
                        insert(&memory, *sequence, Kind::Put, &key, b"value").is_ok()
                    };
                    sequences.into_iter().filter(accepted).collect::<Vec<u64>>()
                })
            })
            .collect();
        memory.freeze();
        memory.settle();
        let drained = shown(&memory, SEQUENCE_MAX);
        let mut accepted: Vec<u64> =
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect();
        accepted.sort_unstable();
        assert_eq!(drained, accepted);
        assert_eq!(shown(&memory, SEQUENCE_MAX), accepted, "and nothing came behind it");
    });
}

/// Range deletions from two sides, while a third asks for them.
#[test]
fn no_range_deletion_is_lost() {
    explore(SCHEDULES / 2, || {
        let memory = small();
        let writers: Vec<_> = [[1, 3], [2, 4]]
            .into_iter()
            .map(|sequences| {
                let memory = Arc::clone(&memory);
                thread::spawn(move || {
                    for sequence in sequences {
                        insert(&memory, sequence, Kind::DeleteRange, b"a", b"c").unwrap();
                        assert_eq!(memory.newest_range_delete(b"b", sequence), Some(sequence));
                    }
                })
            })
            .collect();
        let before = memory.floor(b"b", SEQUENCE_MAX);
        assert!(memory.floor(b"b", SEQUENCE_MAX) >= before);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        let mut listed: Vec<u64> = memory.range_deletes().iter().map(|it| it.sequence).collect();
        listed.sort_unstable();
        assert_eq!(listed, [1, 2, 3, 4]);
        assert_eq!(memory.newest_range_delete(b"bb", SEQUENCE_MAX), Some(4));
    });
}

//! The tree as a whole under shuttle: threads change it together, in random schedules, where its
//! structure changes: a node that splits, one that empties, a layer that comes and goes.
//!
//! Keys that nobody touches are there all the time, for every reader and in every walk; each thread
//! knows its own keys to the value; and at the end the structure is sound and holds what it should.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use keyrack_concurrent::pin;
use keyrack_concurrent::schedules::explore;
use keyrack_masstree::Tree;
use shuttle::thread;

const SCHEDULES: usize = 10_000;

type Keys = BTreeMap<Vec<u8>, u64>;

/// What a thread does to a key of its own.
#[derive(Clone, Copy)]
enum Step {
    Put(u64),
    Remove,
}

/// A tree with `stay`, which nobody changes, and `own`, whose changes are made by a thread each,
/// while another reads and walks.
fn together(stay: &[Vec<u8>], before: &[Vec<u8>], steps: Vec<Vec<(Vec<u8>, Step)>>) {
    let tree = Arc::new(Tree::<u64>::new());
    let mut expected = Keys::new();
    {
        let guard = pin();
        for (number, key) in stay.iter().chain(before).enumerate() {
            tree.insert(key, number as u64, &guard);
            expected.insert(key.clone(), number as u64);
        }
    }
    let stays: Vec<(Vec<u8>, u64)> =
        stay.iter().enumerate().map(|(number, key)| (key.clone(), number as u64)).collect();
    for (key, step) in steps.iter().flatten() {
        match step {
            Step::Put(value) => drop(expected.insert(key.clone(), *value)),
            Step::Remove => drop(expected.remove(key)),
        }
    }
    let writers: Vec<_> = steps
        .into_iter()
        .map(|steps| {
            let tree = Arc::clone(&tree);
            thread::spawn(move || {
                for (key, step) in &steps {
                    let guard = pin();
                    match step {
                        Step::Put(value) => {
                            tree.insert(key, *value, &guard);
                            assert_eq!(tree.get(key, &guard), Some(*value), "what I put");
                        }
                        Step::Remove => {
                            assert!(tree.remove(key, &guard).is_some(), "it was there");
                            assert_eq!(tree.get(key, &guard), None, "what I removed");
                        }
                    }
                }
            })
        })
        .collect();
    let reader = {
        let (tree, stays) = (Arc::clone(&tree), stays.clone());
        thread::spawn(move || {
            let guard = pin();
            for (key, value) in &stays {
                assert_eq!(tree.get(key, &guard), Some(*value), "nobody touches {key:?}");
            }
            walk(&tree, &stays, false);
            walk(&tree, &stays, true);
        })
    };
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    reader.join().unwrap();
    let mut tree = Arc::into_inner(tree).expect("all others have ended");
    tree.check().expect("a sound structure");
    let mut found = Keys::new();
    tree.range(b"", None, |key: &[u8], value| {
        found.insert(key.to_vec(), value);
        ControlFlow::Continue(())
    });
    assert_eq!(found, expected);
}

/// A walk gives each key once, in order, and those that stay in any case.
fn walk(tree: &Tree<u64>, stays: &[(Vec<u8>, u64)], down: bool) {
    let mut seen: Vec<(Vec<u8>, u64)> = Vec::new();
    let mut visit = |key: &[u8], value: u64| {
        seen.push((key.to_vec(), value));
        ControlFlow::Continue(())
    };
    if down {
        tree.range_rev(b"", None, &mut visit);
        seen.reverse();
    } else {
        tree.range(b"", None, &mut visit);
    }
    assert!(seen.is_sorted_by(|a, b| a.0 < b.0), "each once and in order: {seen:?}");
    for stay in stays {
        assert!(seen.contains(stay), "a walk without {stay:?}: {seen:?}");
    }
}

fn number(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// A node holds fifteen keys: two threads make it split, in the middle and at its end.
#[test]
fn a_node_splits_under_readers_and_walks() {
    explore(SCHEDULES, || {
        let stay: Vec<Vec<u8>> = (0..13).map(|n| number(10 * n)).collect();
        let middle = vec![(number(55), Step::Put(1)), (number(56), Step::Put(2))];
        let end = vec![(number(900), Step::Put(3)), (number(910), Step::Put(4))];
        together(&stay, &[], vec![middle, end]);
    });
}

/// A node between others is emptied and taken out, while keys come beside it.
#[test]
fn a_node_is_emptied_while_others_grow() {
    explore(SCHEDULES / 2, || {
        let stay: Vec<Vec<u8>> = (0..9).map(number).collect();
        let before: Vec<Vec<u8>> = (100..107).map(number).collect();
        let gone = before.iter().map(|key| (key.clone(), Step::Remove)).collect();
        let more = vec![(number(99), Step::Put(1)), (number(107), Step::Put(2))];
        together(&stay, &before, vec![gone, more]);
    });
}

/// Keys that share sixteen bytes have a layer; it comes with the second and goes with the last.
#[test]
fn a_layer_comes_and_goes() {
    let long = |tail: &str| [b"sixteen bytes of ", tail.as_bytes()].concat();
    explore(SCHEDULES / 2, move || {
        let stay = vec![number(1), b"sixteen bytes".to_vec()];
        let before = [long("a one")];
        let one = vec![
            (long("a one"), Step::Remove),
            (long("another"), Step::Put(1)),
            (long("another"), Step::Remove),
        ];
        let two = vec![(long("a two"), Step::Put(2)), (long("a two"), Step::Remove)];
        together(&stay, &before, vec![one, two]);
    });
}

/// Two threads put and remove one key: what each is told fits one order of all that they did.
#[test]
fn one_key_of_two_threads_has_an_order() {
    explore(SCHEDULES / 2, || {
        let tree = Arc::new(Tree::<u64>::new());
        let run = |tree: Arc<Tree<u64>>, value: u64| {
            thread::spawn(move || {
                let guard = pin();
                let put = tree.insert(b"key", value, &guard).is_none();
                let removed = tree.remove(b"key", &guard).is_some();
                (i64::from(put), i64::from(removed))
            })
        };
        let both = [run(Arc::clone(&tree), 1), run(Arc::clone(&tree), 2)];
        let (mut came, mut went) = (0, 0);
        for handle in both {
            let (put, removed) = handle.join().unwrap();
            (came, went) = (came + put, went + removed);
        }
        // It came as often as it went, or is still there, which both have tried to prevent.
        assert_eq!(came, went, "what came is what went");
        assert_eq!(tree.get(b"key", &pin()), None);
    });
}

//! What is recorded: threads that take turns on one tree.

use keyrack_concurrent::pin;
use keyrack_masstree::{Bytes, Slot, Tree};
use keyrack_testkit::lines::{Performer, name_parts, perform};
use keyrack_testkit::random::Draw;
use std::iter;
use std::ops::ControlFlow;

/// Keys of a tree before a phase: about 450 border nodes below a root and its children.
pub(crate) const KEYS: u64 = 5_000;
/// Threads of the phases that are replayed.
pub(crate) const THREADS: usize = 64;
const TURNS: usize = 8;
/// So many that each thread ends two batches of retired objects.
const TURNS_WITH_BLOBS: usize = 32;
const TURN_OPERATIONS: usize = 16;
/// The exponent of Zipf's law, as YCSB has it.
const ZIPF_EXPONENT: f64 = 0.99;

/// The kinds of operations of the account.
pub(crate) const KINDS: [&str; 6] =
    ["get", "put", "put of 16 bytes", "insert", "remove", "scan of 50"];

pub(crate) const GET: usize = 0;
pub(crate) const PUT: usize = 1;
pub(crate) const PUT_BLOB: usize = 2;
pub(crate) const INSERT: usize = 3;
pub(crate) const REMOVE: usize = 4;
pub(crate) const SCAN: usize = 5;

/// A value that does not fit into a word.
const BLOB: &[u8] = b"a blob of a word";

/// An existing key. Between two of them there is room for new ones.
fn key(number: u64) -> [u8; 8] {
    (number << 32).to_be_bytes()
}

/// Numbers below [`KEYS`], each as often as the law says.
enum Law {
    Uniform,
    /// Sums of the weights of the ranks.
    Zipf(Vec<f64>),
}

impl Law {
    fn zipf() -> Self {
        let weights = (1..=KEYS).map(|rank| (rank as f64).powf(-ZIPF_EXPONENT));
        Law::Zipf(
            weights
                .scan(0.0, |sum, weight| {
                    *sum += weight;
                    Some(*sum)
                })
                .collect(),
        )
    }

    fn draw(&self, draw: &mut Draw) -> u64 {
        match self {
            Law::Uniform => draw.below(KEYS),
            Law::Zipf(sums) => {
                let unit = (draw.next() >> 11) as f64 / (1_u64 << 53) as f64;
                let total = sums.last().copied().unwrap_or(0.0);
                let rank = sums.partition_point(|sum| *sum <= unit * total) as u64;
                // Frequent keys are not neighbours.
                rank.min(KEYS - 1) * 6_007 % KEYS
            }
        }
    }
}

/// A tree with all keys, its nodes three quarters full: two keys of three make full nodes, and the
/// third one splits them.
fn tree<V: Slot>(value: impl Fn() -> V::In<'static>) -> Tree<V> {
    let tree = Tree::new();
    for is_third in [false, true] {
        let numbers = (0..KEYS).filter(|number| (number % 3 == 0) == is_third);
        let pairs = numbers.map(|number| (key(number), value()));
        tree.bulk_load(pairs, &mut pin()).expect("keys ascend");
    }
    tree
}

fn numbers() -> Tree<u64> {
    tree(|| 1)
}

fn strings() -> Tree<Bytes> {
    tree(|| BLOB)
}

/// Names the lines of a tree, and those of the reclamation.
fn name_tree<V: Slot>(tree: &mut Tree<V>) {
    let parts = tree.parts().into_iter().chain(keyrack_concurrent::parts());
    name_parts(parts.map(|part| (part.name, part.address, part.bytes)));
}

/// Performs everything that the program records.
pub(crate) fn perform_all() {
    let (mut tree, mut blobs) = (numbers(), strings());
    account(&mut tree, &mut blobs);
    let laws = [("uniform", Law::Uniform), ("Zipf", Law::zipf())];
    for (name, law) in &laws {
        for (phase, puts) in [("get", 0), ("put", 2), ("get and put", 1)] {
            each(&format!("{phase}, {name}"), TURNS, |performer, draw| {
                let key = key(law.draw(draw));
                if draw.below(2_u64) < puts {
                    performer.operation(PUT, || tree.insert(&key, 1, &pin()));
                } else {
                    performer.operation(GET, || tree.get(&key, &pin()));
                }
            });
            name_tree(&mut tree);
        }
    }
    each("put of 16 bytes, uniform", TURNS_WITH_BLOBS, |performer, draw| {
        let key = key(draw.below(KEYS));
        performer.operation(PUT_BLOB, || blobs.insert(&key, BLOB, &pin()).is_some());
    });
    name_tree(&mut blobs);
    for (name, law) in &laws {
        each(&format!("insert, {name}"), TURNS, |performer, draw| {
            let key = (law.draw(draw) << 32 | (draw.next() >> 32) | 1).to_be_bytes();
            performer.operation(INSERT, || tree.insert(&key, 1, &pin()));
        });
        name_tree(&mut tree);
    }
}

fn each(phase: &str, turns: usize, body: impl Fn(&Performer, &mut Draw) + Sync) {
    perform(phase, THREADS, turns, |performer, turn| {
        let mut draw = Draw::new((turn * THREADS + performer.thread()) as u64);
        (0..TURN_OPERATIONS).for_each(|_| body(performer, &mut draw));
    });
}

/// Two threads, each in its half of the keys.
fn account(tree: &mut Tree<u64>, blobs: &mut Tree<Bytes>) {
    const TURNS: usize = 20;
    perform("account", 2, TURNS, |performer, turn| {
        let half = KEYS / 2;
        let mut draw = Draw::new((2 * turn + performer.thread()) as u64);
        let mut number = || performer.thread() as u64 * half + draw.below(half - 100);
        for _ in 0..TURN_OPERATIONS {
            let [first, second, third] = [number(), number(), number()].map(key);
            performer.operation(GET, || tree.get(&first, &pin()));
            performer.operation(PUT, || tree.insert(&second, 1, &pin()));
            performer.operation(PUT_BLOB, || blobs.insert(&third, BLOB, &pin()).is_some());
            let new = (number() << 32 | (1 + turn as u64)).to_be_bytes();
            performer.operation(INSERT, || tree.insert(&new, 1, &pin()));
            performer.operation(REMOVE, || tree.remove(&new, &pin()));
            let mut left = iter::repeat_n(ControlFlow::Continue(()), 49);
            performer.operation(SCAN, || {
                tree.scan(&first, None, |_, _| left.next().unwrap_or(ControlFlow::Break(())))
            });
            tree.insert(&new, 1, &pin());
        }
    });
    name_tree(tree);
    name_tree(blobs);
}

//! Every value is dropped once: when it was replaced or removed, or with the tree. And nodes cost
//! what they should for each key.

use keyrack_concurrent::pin;
use keyrack_masstree::{Boxed, Tree};
use keyrack_testkit::random::{Announced, Draw, is_brief, mix, seeds};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

struct Counted {
    number: u64,
    living: Arc<AtomicI64>,
}

impl Counted {
    fn new(number: u64, living: &Arc<AtomicI64>) -> Self {
        living.fetch_add(1, Ordering::Relaxed);
        Counted { number, living: Arc::clone(living) }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let before = self.living.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "dropped twice");
    }
}

/// Other tests pin too, so what is due is freed when they unpin.
fn wait_until_living(living: &AtomicI64, expected: i64) {
    while living.load(Ordering::Relaxed) > expected {
        pin().flush();
        std::thread::yield_now();
    }
    assert_eq!(living.load(Ordering::Relaxed), expected);
}

#[test]
fn every_value_is_dropped_once() {
    for seed in seeds() {
        let _seed = Announced(seed);
        let living = Arc::new(AtomicI64::new(0));
        let tree = Tree::<Boxed<Counted>>::new();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (tree, living) = (&tree, &living);
                scope.spawn(move || {
                    let mut draw = Draw::new(seed ^ thread);
                    for _ in 0..5000 {
                        let number = draw.next() % 500;
                        let key = format!("key of some length {number}");
                        let guard = pin();
                        let old = match draw.below(4) {
                            0 => tree.remove(key.as_bytes(), &guard),
                            1 => tree.get(key.as_bytes(), &guard),
                            2 => tree.insert_if_absent(
                                key.as_bytes(),
                                Counted::new(number, living),
                                &guard,
                            ),
                            _ => tree.insert(key.as_bytes(), Counted::new(number, living), &guard),
                        };
                        assert!(old.is_none_or(|old| old.number == number));
                    }
                });
            }
        });
        wait_until_living(&living, tree.len() as i64);
        drop(tree);
        wait_until_living(&living, 0);
    }
}

/// Values of short keys are all that the tree has besides its nodes.
#[test]
fn values_in_nodes_are_dropped_with_the_tree() {
    let living = Arc::new(AtomicI64::new(0));
    let tree = Tree::<Boxed<Counted>>::new();
    for key in ["a", "b"] {
        assert!(tree.insert(key.as_bytes(), Counted::new(1, &living), &pin()).is_none());
    }
    drop(tree);
    wait_until_living(&living, 0);
}

#[test]
fn a_closure_that_panics_leaves_the_tree_in_order() {
    let mut tree = Tree::<u64>::new();
    let update = || {
        tree.update(b"key", &pin(), |_| panic!("as intended"));
    };
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(update)).is_err());
    assert_eq!(tree.insert(b"key", 1, &pin()), None);
    tree.check().unwrap();
}

/// Random keys fill their nodes to more than three quarters, because full nodes share with those
/// beside them.
#[test]
fn random_keys_fill_their_nodes() {
    let count: u64 = if is_brief() { 100_000 } else { 1_000_000 };
    let mut draw = Draw::new(1);
    let mut tree = Tree::<u64>::new();
    for n in 0..count {
        tree.insert(&draw.next().to_be_bytes(), n, &pin());
    }
    let stats = tree.check().unwrap();
    let fill = stats.keys as f64 / (15 * stats.borders) as f64;
    assert!(fill > 0.77, "{fill}: {stats:?}");
    let bytes = stats.borders * 448 + stats.interiors * 320;
    assert!(bytes < 40 * stats.keys, "{stats:?}");
}

/// Addresses of web pages begin alike, end alike, and differ between. Their nodes are as full as
/// those of other keys, because keys that begin alike share nodes until these are full.
#[test]
fn addresses_cost_few_bytes_of_nodes() {
    let count: u64 = if is_brief() { 100_000 } else { 1_000_000 };
    let mut tree = Tree::<u64>::new();
    let mut draw = Draw::new(1);
    for n in 0..count {
        let (host, section) = (draw.below(500), draw.below(20));
        let page = draw.next() % 100_000_000;
        let key = format!(
            "https://www.host-{host}.example.org/articles/section-{section}/{page:08}-{n}.html"
        );
        assert_eq!(tree.insert(key.as_bytes(), n, &pin()), None);
    }
    let stats = tree.check().unwrap();
    assert!(
        stats.node_bytes < 70 * count,
        "{} bytes a key",
        stats.node_bytes as f64 / count as f64
    );
}

/// As the documentation of the crate says.
#[test]
fn numbers_cost_31_bytes_of_nodes_in_order_and_40_otherwise() {
    const COUNT: u64 = 1_000_000;
    let bytes = |key: fn(u64) -> u64| {
        let tree = Tree::<u64>::new();
        for n in 0..COUNT {
            assert_eq!(tree.insert(&key(n).to_be_bytes(), n, &pin()), None);
        }
        tree.stats().node_bytes as f64 / COUNT as f64
    };
    let in_order = bytes(|n| n);
    assert!(in_order < 31.5, "{in_order}");
    let otherwise = bytes(mix);
    assert!(otherwise < 40.0, "{otherwise}");
}

/// After a load, most keys go, in random order: what is left does not keep the nodes of all. Then
/// the same once more, with other keys.
#[test]
fn few_keys_keep_few_nodes() {
    let count: u64 = if is_brief() { 40_000 } else { 1_000_000 };
    let number = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes().to_vec();
    let address = |n: u64| {
        let (host, page) = (n % 7, n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 100_000_000);
        format!("https://www.host-{host}.example.org/{:02}/{page:08}-{n}.html", n % 11).into_bytes()
    };
    // Each layer has two nodes at least, however few keys it has.
    let makes: [(fn(u64) -> Vec<u8>, u64); 2] = [(number, 100), (address, 150)];
    let cases = makes.into_iter().flat_map(|make| [(make, 20_usize), (make, 200)]);
    for ((make, limit), every) in cases {
        let mut tree = Tree::<u64>::new();
        let mut draw = Draw::new(every as u64);
        for round in 0..2 {
            let keys: Vec<Vec<u8>> = (0..count).map(|n| make(n + round * count)).collect();
            for key in &keys {
                assert_eq!(tree.insert(key, round, &pin()), None);
            }
            let mut gone: Vec<usize> = (0..keys.len()).filter(|at| at % every > 0).collect();
            for at in (1..gone.len()).rev() {
                gone.swap(at, draw.below(at + 1));
            }
            for at in gone {
                assert_eq!(tree.remove(&keys[at], &pin()), Some(round));
            }
            let stats = tree.check().unwrap();
            assert_eq!(stats.keys, (round + 1) * count / every as u64);
            for key in keys.iter().step_by(every) {
                assert_eq!(tree.get(key, &pin()), Some(round));
            }
            let bytes = (stats.borders * 448 + stats.interiors * 320) / stats.keys;
            assert!(bytes < limit, "{bytes} bytes a key, one of {every}: {stats:?}");
        }
    }
}

/// Keys that share many bytes stay side by side in their node, until that is full.
#[test]
fn two_keys_that_share_much_need_no_further_node() {
    let mut tree = Tree::<u64>::new();
    let key = |end: &str| format!("{}{end}", "shared--".repeat(25)).into_bytes();
    assert_eq!(tree.insert(b"another", 0, &pin()), None);
    let before = tree.check().unwrap();
    for end in ["one", "two"] {
        assert_eq!(tree.insert(&key(end), 1, &pin()), None);
    }
    let after = tree.check().unwrap();
    let nodes = |stats: keyrack_masstree::Stats| {
        (stats.borders, stats.interiors, stats.layers, stats.prefixes, stats.node_bytes)
    };
    assert_eq!(nodes(after), nodes(before));
    assert_eq!(after.keys, 3);
}

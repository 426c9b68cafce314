//! The version lock under loom. The fields that it covers are loom's atomics, so a Relaxed read may
//! return any value that the memory model allows.

use keyrack_concurrent::VersionLock;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use loom::thread;

struct Node {
    version: VersionLock,
    a: AtomicU64,
    b: AtomicU64,
}

impl Node {
    fn new() -> Arc<Self> {
        Self::with(true)
    }

    fn with(root: bool) -> Arc<Self> {
        let version = VersionLock::new(root, true);
        Arc::new(Node { version, a: AtomicU64::new(0), b: AtomicU64::new(0) })
    }

    fn read(&self) -> Option<(u64, u64)> {
        let version = self.version.stable();
        let pair = (self.a.load(Relaxed), self.b.load(Relaxed));
        self.version.validate(version).then_some(pair)
    }
}

fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(model);
}

#[test]
fn a_validated_read_is_never_torn() {
    explore(|| {
        let node = Node::new();
        let writer = {
            let node = Arc::clone(&node);
            thread::spawn(move || {
                for value in 1..=2 {
                    let mut held = node.version.lock();
                    held.mark_inserting();
                    node.a.store(value, Relaxed);
                    node.b.store(value, Relaxed);
                }
            })
        };
        if let Some((a, b)) = node.read() {
            assert_eq!(a, b);
        }
        writer.join().unwrap();
        assert_eq!(node.read(), Some((2, 2)));
    });
}

#[test]
fn writers_exclude_each_other() {
    explore(|| {
        let node = Node::new();
        let add = |node: &Node| {
            let mut held = node.version.lock();
            held.mark_splitting();
            node.a.store(node.a.load(Relaxed) + 1, Relaxed);
            node.b.store(node.b.load(Relaxed) + 1, Relaxed);
        };
        let other = {
            let node = Arc::clone(&node);
            thread::spawn(move || add(&node))
        };
        add(&node);
        other.join().unwrap();
        assert_eq!(node.read(), Some((2, 2)));
    });
}

/// A slot is filled and published by one store of `b`, without a mark; then it is taken away, and
/// filled again with a mark. A reader that found the first filling never returns the second value.
#[test]
fn a_slot_that_is_used_again_does_not_give_the_old_key_a_new_value() {
    explore(|| {
        let node = Node::new();
        let writer = {
            let node = Arc::clone(&node);
            thread::spawn(move || {
                {
                    let _held = node.version.lock();
                    node.a.store(1, Relaxed);
                    node.b.store(1, Release);
                }
                {
                    let _held = node.version.lock();
                    node.b.store(0, Release);
                }
                let mut held = node.version.lock();
                held.mark_inserting();
                node.a.store(2, Relaxed);
                node.b.store(2, Release);
            })
        };
        let version = node.version.stable();
        let key = node.b.load(Acquire);
        let value = node.a.load(Relaxed);
        if node.version.validate(version) && key != 0 {
            assert_eq!(key, value);
        }
        writer.join().unwrap();
    });
}

/// A split moves a key from a node to its new neighbour while the parent is marked too. A reader
/// that goes by the parent, takes the child's version and then validates the parent finds the key.
#[test]
fn a_descent_that_validates_hand_over_hand_finds_a_key_that_moves() {
    explore(|| {
        // `a` of the parent says which child holds the key; `a` of a child whether it does.
        let nodes = Arc::new([Node::new(), Node::new(), Node::new()]);
        nodes[1].a.store(1, Relaxed);
        let writer = {
            let nodes = Arc::clone(&nodes);
            thread::spawn(move || {
                let [parent, left, right] = &*nodes;
                let mut left_held = left.version.lock();
                let mut parent_held = parent.version.lock();
                left_held.mark_splitting();
                parent_held.mark_inserting();
                right.a.store(1, Relaxed);
                left.a.store(0, Relaxed);
                parent.a.store(1, Release);
            })
        };
        let [parent, left, right] = &*nodes;
        let version = parent.version.stable();
        let child = if parent.a.load(Acquire) == 0 { left } else { right };
        let child_version = child.version.stable();
        if parent.version.validate(version) {
            let found = child.a.load(Relaxed);
            if child.version.validate(child_version) {
                assert_eq!(found, 1, "the key was there all the time");
            }
        }
        writer.join().unwrap();
    });
}

/// A child leaves its parent, and its memory begins another incarnation. A reader that descends
/// never takes the second incarnation for the first.
#[test]
fn a_descent_does_not_reach_the_next_incarnation_of_a_child() {
    explore(|| {
        // `a` of the parent says whether it has the child; `a` of the child is its incarnation.
        let nodes = Arc::new([Node::new(), Node::with(false)]);
        nodes[0].a.store(1, Relaxed);
        let writer = {
            let nodes = Arc::clone(&nodes);
            thread::spawn(move || {
                let [parent, child] = &*nodes;
                {
                    let mut child_held = child.version.lock();
                    let mut parent_held = parent.version.lock();
                    parent_held.mark_splitting();
                    child_held.mark_deleted();
                    parent.a.store(0, Release);
                    drop(child_held);
                }
                let mut held = child.version.lock();
                held.begin_incarnation(true, true);
                child.a.store(2, Relaxed);
            })
        };
        let [parent, child] = &*nodes;
        let version = parent.version.stable();
        if parent.a.load(Acquire) == 1 {
            let child_version = child.version.stable();
            if parent.version.validate(version) {
                let incarnation = child.a.load(Relaxed);
                if child.version.validate(child_version) {
                    assert_eq!(incarnation, 0, "the parent had the child then");
                }
            }
        }
        writer.join().unwrap();
    });
}

/// A root makes way for its child, and its memory becomes the root of another tree. A reader that
/// is on the way up from the child never comes to that one.
#[test]
fn a_climb_does_not_reach_the_next_incarnation_of_a_root() {
    explore(|| {
        // `a` of the child says whether it has a parent; `a` of the root is its incarnation.
        let nodes = Arc::new([Node::new(), Node::with(false)]);
        nodes[1].a.store(1, Relaxed);
        let writer = {
            let nodes = Arc::clone(&nodes);
            thread::spawn(move || {
                let [root, child] = &*nodes;
                {
                    let mut child_held = child.version.lock();
                    let mut root_held = root.version.lock();
                    child_held.mark_splitting();
                    child_held.set_root();
                    child.a.store(0, Release);
                    root_held.mark_deleted();
                    drop(root_held);
                }
                let mut held = root.version.lock();
                held.begin_incarnation(true, true);
                root.a.store(2, Relaxed);
            })
        };
        let [root, child] = &*nodes;
        let version = child.version.stable();
        if !version.is_root() && child.a.load(Acquire) == 1 {
            let root_version = root.version.stable();
            if !version.split_since(child.version.load()) && !root_version.is_deleted() {
                let incarnation = root.a.load(Relaxed);
                if root.version.validate(root_version) {
                    assert_eq!(incarnation, 0, "it was the child's root then");
                }
            }
        }
        writer.join().unwrap();
    });
}

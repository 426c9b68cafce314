//! A stack without locks whose nodes are retired, under threads that come and go: every value
//! arrives once, every node is dropped once, and what a thread has found is intact while it looks.

use keyrack_concurrent::{Era, Guard, Retired, birth, pin, pressure};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

const INTACT: u64 = 0x1A7E_0000_0000_0000;

static DROPS: AtomicU64 = AtomicU64::new(0);

struct Node {
    canary: AtomicU64,
    birth: Era,
    value: u64,
    next: *mut Node,
}

impl Drop for Node {
    fn drop(&mut self) {
        let canary = self.canary.swap(0, Ordering::Relaxed);
        assert_eq!(canary, INTACT, "dropped twice");
        DROPS.fetch_add(1, Ordering::Relaxed);
    }
}

/// # Safety
/// The word is the address of a boxed node that nobody uses.
unsafe fn free_node(word: u64) {
    // SAFETY: the caller says so.
    drop(unsafe { Box::from_raw(ptr::with_exposed_provenance_mut::<Node>(word as usize)) });
}

#[derive(Default)]
struct Stack(AtomicPtr<Node>);

impl Stack {
    fn push(&self, value: u64) {
        let canary = AtomicU64::new(INTACT);
        let node = Node { canary, birth: birth(), value, next: ptr::null_mut() };
        let node = Box::into_raw(Box::new(node));
        let mut first = self.0.load(Ordering::Relaxed);
        loop {
            // SAFETY: the node is not linked yet.
            unsafe { (*node).next = first };
            match self.0.compare_exchange(first, node, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }

    fn pop(&self, guard: &Guard) -> Option<u64> {
        loop {
            let first = guard.protect(|| self.0.load(Ordering::Acquire));
            // SAFETY: it is null, or was the first node while it was protected.
            let node = unsafe { first.as_ref() }?;
            assert_eq!(node.canary.load(Ordering::Relaxed), INTACT, "used after it was freed");
            let taken =
                self.0.compare_exchange(first, node.next, Ordering::Relaxed, Ordering::Relaxed);
            if taken.is_ok() {
                let (value, birth) = (node.value, node.birth);
                let word = first.expose_provenance() as u64;
                let object = Retired { word, bytes: size_of::<Node>(), birth, free: free_node };
                // SAFETY: this thread alone has unlinked the node.
                unsafe { guard.retire(object) };
                return Some(value);
            }
        }
    }
}

#[test]
fn a_stack_without_locks_loses_nothing_and_frees_everything_once() {
    const GENERATIONS: u64 = 20;
    const THREADS: u64 = 4;
    const PUSHES: u64 = 2_000;
    let stack = Stack::default();
    let (pushed, popped) = (AtomicU64::new(0), AtomicU64::new(0));
    for generation in 0..GENERATIONS {
        std::thread::scope(|scope| {
            let run = |thread| {
                let (stack, pushed, popped) = (&stack, &pushed, &popped);
                scope.spawn(move || {
                    let mut outer = pin();
                    for round in 0..PUSHES {
                        let value = (generation * THREADS + thread) * PUSHES + round;
                        stack.push(value);
                        pushed.fetch_add(value, Ordering::Relaxed);
                        let taken = if round % 7 == 0 {
                            outer.repin();
                            stack.pop(&outer)
                        } else {
                            stack.pop(&pin())
                        };
                        popped.fetch_add(taken.unwrap_or(0), Ordering::Relaxed);
                    }
                })
            };
            let threads: Vec<_> = (0..THREADS).map(run).collect();
            // To the end of each thread, which hands over what it has retired; the scope alone
            // waits for the closures.
            let ends = threads.into_iter().map(|thread| thread.join());
            assert!(ends.fold(true, |all, end| all & end.is_ok()));
        });
    }
    while let Some(value) = stack.pop(&pin()) {
        popped.fetch_add(value, Ordering::Relaxed);
    }
    assert_eq!(popped.load(Ordering::Relaxed), pushed.load(Ordering::Relaxed));
    let nodes = GENERATIONS * THREADS * PUSHES;
    for _ in 0..nodes {
        pin().flush();
        if DROPS.load(Ordering::Relaxed) == nodes {
            return;
        }
    }
    panic!("{} of {nodes} freed: {:?}", DROPS.load(Ordering::Relaxed), pressure());
}

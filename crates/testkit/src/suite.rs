//! The engine suite: the checks that the tests of every engine run. A failed check panics with the
//! seed and the operation.
//!
//! [`selftest`](crate::selftest()) is the part of them that an installed program runs and reports.

use crate::random::{Announced, factor, seeds};
use crate::synced::check_synced;
use crate::{check_scripts, compare_concurrent, compare_random, scripts};
use keyrack_store::{Batch, Result, Session, Store, Update};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Threads of the concurrent check.
const THREADS: u32 = 4;

/// How often a write has the chance to come between the two halves of an update.
const YIELDS: usize = 300;

/// The checks of one engine. Each opens stores of its own and closes them.
pub struct Suite<'a> {
    /// What a failure calls the engine.
    pub name: &'a str,
    /// Opens a fresh store.
    pub open: &'a dyn Fn() -> Result<Box<dyn Store>>,
    /// Operations of the random comparison.
    pub operations: u64,
    /// Operations of each thread of the concurrent check. [`factor`] multiplies it.
    pub thread_operations: u64,
}

impl fmt::Debug for Suite<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Suite").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Suite<'_> {
    /// Runs all checks.
    ///
    /// # Panics
    /// If one fails.
    pub fn run(&self) {
        self.answers_the_scripts();
        self.answers_as_the_model();
        self.keeps_its_promises_to_threads();
        self.holds_no_lock_during_a_visit();
        self.loses_no_write_to_an_update();
        self.syncs_a_put_or_refuses();
    }

    /// Synced puts read back, and a store without them refuses one and stores nothing.
    ///
    /// # Panics
    /// If the check fails.
    pub fn syncs_a_put_or_refuses(&self) {
        let store = self.store();
        check_synced(store.as_ref()).unwrap_or_else(|problem| panic!("{}: {problem}", self.name));
        self.close(store);
    }

    fn store(&self) -> Box<dyn Store> {
        (self.open)().unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    fn close(&self, store: Box<dyn Store>) {
        store.close().unwrap_or_else(|error| panic!("{}: {error}", self.name));
    }

    /// The golden scripts. A part of a script is left out only if the engine has no snapshots.
    ///
    /// # Panics
    /// If the check fails.
    pub fn answers_the_scripts(&self) {
        let name = self.name;
        let report = check_scripts(self.open);
        let failures: String = report
            .failed
            .iter()
            .map(|failure| format!("{}\n{}\n", failure.script, failure.diff))
            .collect();
        assert!(failures.is_empty(), "{name}: {failures}");
        assert_eq!(report.passed, scripts().len(), "{name}");
        let store = self.store();
        let has_snapshots = store.snapshot().is_ok_and(|snapshot| snapshot.is_some());
        assert_eq!(report.notes.is_empty(), has_snapshots, "{name}: {:?}", report.notes);
        self.close(store);
    }

    /// The random comparison, for each seed.
    ///
    /// # Panics
    /// If the check fails.
    pub fn answers_as_the_model(&self) {
        for seed in seeds() {
            let _announced = Announced(seed);
            let store = self.store();
            compare_random(store.as_ref(), seed, self.operations)
                .unwrap_or_else(|mismatch| panic!("{mismatch}"));
            self.close(store);
        }
    }

    /// The concurrent check, for each seed.
    ///
    /// # Panics
    /// If the check fails.
    pub fn keeps_its_promises_to_threads(&self) {
        for seed in seeds() {
            let _announced = Announced(seed);
            let store = self.store();
            let operations = self.thread_operations * factor() as u64;
            compare_concurrent(store.as_ref(), seed, THREADS, operations)
                .unwrap_or_else(|mismatch| panic!("{mismatch}"));
            self.close(store);
        }
    }

    /// The contract lets a visitor of a scan read through another session, and lets no writer wait
    /// for a visit. An engine that holds a lock during the visit hangs here.
    ///
    /// # Panics
    /// If a scan misses a row.
    pub fn holds_no_lock_during_a_visit(&self) {
        let store = self.store();
        let put = |key: &[u8], value: &[u8]| {
            store.session().and_then(|mut session| session.put(key, value)).expect("a put");
        };
        put(b"a", b"1");
        put(b"b", b"2");
        for reverse in [false, true] {
            let mut visits = 0;
            let mut visit = |key: &[u8], _: &[u8]| {
                thread::scope(|scope| scope.spawn(|| put(b"a", b"3")).join().expect("a put"));
                let mut other = store.session().expect("a session");
                assert!(other.get(key, &mut |_| {}).expect("a get"), "{}", self.name);
                let rows = other.scan(b"", None, &mut |_, _| ControlFlow::Continue(()));
                assert_eq!(rows.expect("a scan"), 2, "{}", self.name);
                visits += 1;
                ControlFlow::Continue(())
            };
            let mut session = store.session().expect("a session");
            let rows = if reverse {
                session.scan_rev(b"", None, &mut visit)
            } else {
                session.scan(b"", None, &mut visit)
            };
            assert_eq!((rows.expect("a scan"), visits), (2, 2), "{}", self.name);
        }
        self.close(store);
    }

    /// A write that begins when an update of its key has read comes after the update: what it wrote
    /// is there at the end. An engine that lets it in between loses it.
    ///
    /// # Panics
    /// If the engine loses a write.
    pub fn loses_no_write_to_an_update(&self) {
        type Write = fn(&mut dyn Session) -> Result<()>;
        let writes: [Write; 3] = [
            |session| session.put(b"key", b"later"),
            |session| session.remove(b"key").map(|_| ()),
            |session| {
                let mut batch = Batch::new();
                batch.put(b"other", b"later");
                batch.put(b"key", b"later");
                session.apply(&batch)
            },
        ];
        let store = self.store();
        let session = || store.session().expect("a session");
        for (round, write) in writes.iter().cycle().take(12).enumerate() {
            session().put(b"key", b"old").expect("a put");
            let has_ended = AtomicBool::new(false);
            thread::scope(|scope| {
                let write = || {
                    write(session().as_mut()).expect("a write");
                    has_ended.store(true, Ordering::Release);
                };
                let update = session().update(b"key", &mut |current, buffer| {
                    assert_eq!(current, Some(&b"old"[..]), "{}", self.name);
                    scope.spawn(write);
                    // A right engine does not let the write end here, so there is nothing to wait
                    // for but the time in which a wrong one does.
                    for _ in 0..YIELDS {
                        if has_ended.load(Ordering::Acquire) {
                            break;
                        }
                        thread::yield_now();
                    }
                    buffer.extend_from_slice(b"new");
                    Update::Put
                });
                update.expect("an update");
            });
            let mut found = None;
            session().get(b"key", &mut |value| found = Some(value.to_vec())).expect("a get");
            let expected = (round % 3 != 1).then(|| b"later".to_vec());
            assert_eq!(found, expected, "{} loses write {}", self.name, round % 3);
        }
        self.close(store);
    }
}

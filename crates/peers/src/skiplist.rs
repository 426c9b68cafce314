//! `skiplist`: crossbeam's lock-free skip list, made to keep the contract.
//!
//! The list finds keys without locks. What it lacks is a value that can change: its `insert` over a
//! present key first removes the old node and then links a new one, and a `get` in between misses a
//! key that was there all the time. So a node here carries a cell, and the cell changes in place:
//!
//! ```text
//!   node: key | cell: RwLock< Vacant | Present(value) | Dead >
//!
//!   link            put, batch            remove, update
//!    --> Vacant ------------> Present ------------------> Dead --> unlinked
//!          |                   |   ^ overwrite              ^
//!          |                   +---+                        |
//!          +------------------------------------------------+   nothing was put after all
//! ```
//!
//! - **Vacant** and **Dead** read as absent. A dead node never comes back: a writer that meets one
//!   helps to unlink it and looks again. Hence at most one node of a key is not dead.
//! - **Writers** of a key hold its cell: `put`, `remove`, `update` are one critical section each.
//!   There is no lock but the cell's, so writers of different keys share nothing but the list.
//! - **Linearizable.** A reader that finds a node finds it linked, and looks into the cell later.
//!   If it is dead by then, the key was absent at some moment in between, even if another node of
//!   the key has come since.
//! - **Batches** lock the cells of their keys in key order, write all, and release all, so two
//!   batches never mix and never wait for each other in a circle. To `get` a batch is one moment:
//!   whoever has seen one key of it sees the others. A scan or a `multi_get` reads one key after
//!   the other and may begin before a batch and end after it.
//! - **Scans** are weakly consistent: ordered, each key at most once, every key that was there
//!   all along.
//!
//! Cost beside the bare list: an uncontended lock and unlock of a word in the node's own cache
//! line, which the list writes anyway to count the reference. A value of the same length is
//! overwritten in its memory. A new key is searched for twice, because the list takes an owned key
//! and the first search tells whether one must be made. Rows are walked by `move_next`, not by the
//! list's ranges: those drop entries without giving back their reference (crossbeam-skiplist
//! 0.1.3), so a node removed after a scan would never be freed.
//!
//! A scan copies each value out of its cell before it visits the row, so its visitor may read
//! through another session; the visitor of a `get` holds the cell and must not call back into the
//! store. Tower heights come from the list's own generator; the seed of the options has no effect.

use crate::check_in_memory;
use crate::contract::{Decide, RowVisitor};
use crossbeam_skiplist::SkipMap;
use crossbeam_skiplist::map::Entry;
use keyrack_store::{
    Batch, BatchOp, Durability, Engine, OpenOptions, Removed, Result, Session, Store, StoreInfo,
    Update,
};
use std::ops::Bound;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub(crate) const ENGINE: Engine = Engine {
    name: "skiplist",
    about: "crossbeam's lock-free skip list, in memory",
    persistent: false,
    stores: true,
    options: &[],
    open,
};

const VERSION: &str = "skiplist (crossbeam 0.1.3)";

fn open(options: &OpenOptions) -> Result<Box<dyn Store>> {
    check_in_memory(ENGINE.name, options)?;
    Ok(Box::new(SkipListStore::default()))
}

type Node<'a> = Entry<'a, Box<[u8]>, Cell>;

struct Cell(RwLock<State>);

enum State {
    /// Linked for a writer that has not written yet.
    Vacant,
    Present(Box<[u8]>),
    /// To be unlinked, or unlinked. Final.
    Dead,
}

impl Cell {
    fn vacant() -> Self {
        Cell(RwLock::new(State::Vacant))
    }

    // A poisoned lock means that a visitor or a closure panicked while it looked. The states
    // are whole: each change of one is a single assignment or a copy of plain bytes.
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn value(&self) -> Option<&[u8]> {
        match self {
            State::Present(value) => Some(value),
            State::Vacant | State::Dead => None,
        }
    }

    fn put(&mut self, value: &[u8]) {
        match self {
            State::Present(old) if old.len() == value.len() => old.copy_from_slice(value),
            state => *state = State::Present(value.into()),
        }
    }

    /// Ends a critical section: a cell that is left vacant dies. Returns whether it is dead.
    fn settle(&mut self) -> bool {
        if matches!(self, State::Vacant) {
            *self = State::Dead;
        }
        matches!(self, State::Dead)
    }
}

#[derive(Default)]
struct SkipListStore {
    map: SkipMap<Box<[u8]>, Cell>,
}

impl SkipListStore {
    /// The node of `key`, linked if there is none.
    fn locate(&self, key: &[u8]) -> Node<'_> {
        match self.map.get(key) {
            Some(node) => node,
            None => self.map.get_or_insert_with(key.into(), Cell::vacant),
        }
    }

    /// Runs `change` alone on the live cell of `key`.
    fn change(&self, key: &[u8], mut change: impl FnMut(&mut State)) {
        loop {
            let node = self.locate(key);
            let mut state = node.value().write();
            let live = !matches!(*state, State::Dead);
            if live {
                change(&mut state);
            }
            let dead = state.settle();
            drop(state);
            if dead {
                node.remove();
            }
            if live {
                return;
            }
        }
    }
}

impl Store for SkipListStore {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(SkipListSession { store: self, buffer: Vec::new() }))
    }

    fn info(&self) -> StoreInfo {
        StoreInfo::new(VERSION, Durability::None)
    }

    fn stats(&self, visit: &mut dyn FnMut(&str, f64)) {
        visit("keys", self.map.len() as f64);
    }
}

struct SkipListSession<'a> {
    store: &'a SkipListStore,
    /// For [`Session::update`], and the value of a row that a scan visits.
    buffer: Vec<u8>,
}

impl Session for SkipListSession<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let Some(node) = self.store.map.get(key) else { return Ok(false) };
        let state = node.value().read();
        Ok(match state.value() {
            Some(value) => {
                visit(value);
                true
            }
            None => false,
        })
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.store.change(key, |state| state.put(value));
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<Removed> {
        let Some(node) = self.store.map.get(key) else { return Ok(Removed::Absent) };
        let mut state = node.value().write();
        if state.value().is_none() {
            // A vacant cell belongs to the writer that linked it.
            return Ok(Removed::Absent);
        }
        *state = State::Dead;
        drop(state);
        node.remove();
        Ok(Removed::Existed)
    }

    fn update(&mut self, key: &[u8], decide: &mut Decide<'_>) -> Result<()> {
        let buffer = &mut self.buffer;
        self.store.change(key, |state| {
            buffer.clear();
            match decide(state.value(), buffer) {
                Update::Keep => {}
                Update::Put => state.put(buffer),
                Update::Remove => *state = State::Dead,
            }
        });
        Ok(())
    }

    fn scan(&mut self, low: &[u8], high: Option<&[u8]>, visit: &mut RowVisitor<'_>) -> Result<u64> {
        let first = self.store.map.lower_bound(Bound::Included(low));
        let inside = |key: &[u8]| high.is_none_or(|high| key < high);
        Ok(walk(first, inside, Node::move_next, &mut self.buffer, visit))
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut RowVisitor<'_>,
    ) -> Result<u64> {
        let last = match high {
            Some(high) => self.store.map.upper_bound(Bound::Excluded(high)),
            None => self.store.map.back(),
        };
        Ok(walk(last, |key| key >= low, Node::move_prev, &mut self.buffer, visit))
    }

    /// O(n log n) in the writes of the batch, besides the searches: they are sorted by key.
    fn apply(&mut self, batch: &Batch) -> Result<()> {
        let mut writes: Vec<(&[u8], Option<&[u8]>)> = batch
            .iter()
            .map(|op| match op {
                BatchOp::Put(key, value) => (key, Some(value)),
                BatchOp::Remove(key) => (key, None),
            })
            .collect();
        // The sort is stable, so the last write of each key, the one that counts, ends its group.
        writes.sort_by_key(|&(key, _)| key);
        let last = |group: &[(_, _)]| group.last().copied();
        let writes: Vec<_> = writes.chunk_by(|a, b| a.0 == b.0).filter_map(last).collect();
        while !try_apply(self.store, &writes) {}
        Ok(())
    }
}

/// Visits the present rows from `node` on, by `step`, while `inside` holds. Returns how many.
fn walk<'a>(
    node: Option<Node<'a>>,
    inside: impl Fn(&[u8]) -> bool,
    step: impl Fn(&mut Node<'a>) -> bool,
    value: &mut Vec<u8>,
    visit: &mut RowVisitor<'_>,
) -> u64 {
    let mut visited = 0;
    let Some(mut node) = node else { return 0 };
    while inside(node.key()) {
        if copy_out(&node, value) {
            visited += 1;
            if visit(node.key(), value).is_break() {
                break;
            }
        }
        if !step(&mut node) {
            break;
        }
    }
    visited
}

/// Copies the value of `node` while holding its cell; false when it has none.
fn copy_out(node: &Node<'_>, value: &mut Vec<u8>) -> bool {
    let state = node.value().read();
    let Some(found) = state.value() else { return false };
    value.clear();
    value.extend_from_slice(found);
    true
}

/// Writes all of `writes`, which have ascending distinct keys, while holding all their cells, or
/// nothing when one of the cells has died since it was found. Returns whether it wrote.
fn try_apply(store: &SkipListStore, writes: &[(&[u8], Option<&[u8]>)]) -> bool {
    let nodes: Vec<Node<'_>> = writes.iter().map(|(key, _)| store.locate(key)).collect();
    let mut states: Vec<_> = nodes.iter().map(|node| node.value().write()).collect();
    let live = !states.iter().any(|state| matches!(**state, State::Dead));
    if live {
        for (state, (_, value)) in states.iter_mut().zip(writes) {
            match value {
                Some(value) => state.put(value),
                None => **state = State::Dead,
            }
        }
    }
    // After a failed attempt the vacant cells stay as they are: the next one fills them.
    let dead: Vec<bool> = states.iter().map(|state| matches!(**state, State::Dead)).collect();
    drop(states);
    for (node, _) in nodes.iter().zip(dead).filter(|(_, dead)| *dead) {
        node.remove();
    }
    live
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::race;
    use std::ops::ControlFlow;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    const ROUNDS: u32 = 20_000;

    /// A reader behind a writer that waits for a scan's cell would wait for ever.
    #[test]
    fn a_scans_visitor_holds_no_cell_that_a_writer_waits_for() {
        let store = SkipListStore::default();
        store.session().unwrap().put(b"k", b"old").unwrap();
        let visited = store
            .session()
            .unwrap()
            .scan(b"", None, &mut |key, value| {
                assert_eq!((key, value), (&b"k"[..], &b"old"[..]));
                let put = || store.session().unwrap().put(b"k", b"new").unwrap();
                thread::scope(|scope| scope.spawn(put).join().unwrap());
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(visited, 1);
    }

    #[test]
    fn an_overwrite_is_never_seen_as_a_removal() {
        let store = SkipListStore::default();
        let values = [b"short".as_slice(), b"other", b"a longer value"];
        store.session().unwrap().put(b"key", values[0]).unwrap();
        race(
            || {
                let mut session = store.session().unwrap();
                for round in 0..ROUNDS as usize {
                    session.put(b"key", values[round % values.len()]).unwrap();
                }
            },
            || {
                let mut session = store.session().unwrap();
                let hit = session.get(b"key", &mut |value| assert!(values.contains(&value)));
                assert!(hit.unwrap(), "a get missed a key that was overwritten");
                let rows = session.scan(b"", None, &mut |_, _| ControlFlow::Continue(()));
                assert_eq!(rows.unwrap(), 1, "a scan missed a key that was overwritten");
            },
        );
    }

    #[test]
    fn a_batch_is_one_moment_to_gets() {
        let store = SkipListStore::default();
        let key = |n: u32| [b'k', (n % 5) as u8];
        race(
            || {
                let mut session = store.session().unwrap();
                let mut batch = Batch::new();
                for round in 1..=ROUNDS / 4 {
                    batch.clear();
                    (0..5).rev().for_each(|n| batch.put(&key(n), &round.to_be_bytes()));
                    session.apply(&batch).unwrap();
                }
            },
            || {
                let mut session = store.session().unwrap();
                let mut latest = [0; 4];
                for n in 0..10 {
                    let mut seen = [0; 4];
                    session.get(&key(n), &mut |value| seen.copy_from_slice(value)).unwrap();
                    assert!(seen >= latest, "{seen:?} was read after {latest:?}");
                    latest = seen;
                }
            },
        );
    }

    /// Puts and batches that come while the key is being removed must not write into a node that
    /// nobody finds any more.
    #[test]
    fn a_put_after_a_removal_stays() {
        let store = SkipListStore::default();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let remover = scope.spawn(|| {
                let mut session = store.session().unwrap();
                let mut removed = 0;
                while !done.load(Ordering::Acquire) {
                    removed += u32::from(session.remove(b"key").unwrap() == Removed::Existed);
                }
                removed + u32::from(session.remove(b"key").unwrap() == Removed::Existed)
            });
            // Every update that finds the key absent makes one key for the remover to find.
            let mut session = store.session().unwrap();
            let mut made = 0;
            for _ in 0..ROUNDS {
                let mut absent = false;
                let update = session.update(b"key", &mut |current, buffer| {
                    absent = current.is_none();
                    buffer.push(1);
                    Update::Put
                });
                update.unwrap();
                made += u32::from(absent);
            }
            done.store(true, Ordering::Release);
            assert_eq!(remover.join().unwrap(), made);
        });
        assert_eq!(store.map.len(), 0);
    }

    /// A remover has killed the node of a key and is about to unlink it. A thread that writes the
    /// key in between must not write into that node.
    #[test]
    fn writes_that_meet_a_dead_node_go_into_a_new_one() {
        type Write = fn(&mut dyn Session);
        let writes: [Write; 3] = [
            |session| session.put(b"key", b"new").unwrap(),
            |session| {
                let update = session.update(b"key", &mut |current, buffer| {
                    assert_eq!(current, None);
                    buffer.extend_from_slice(b"new");
                    Update::Put
                });
                update.unwrap();
            },
            |session| {
                let mut batch = Batch::new();
                batch.put(b"key", b"new");
                batch.put(b"other", b"new");
                session.apply(&batch).unwrap();
            },
        ];
        for write in writes {
            let store = SkipListStore::default();
            let mut session = store.session().unwrap();
            session.put(b"key", b"old").unwrap();
            let node = store.locate(b"key");
            *node.value().write() = State::Dead;

            assert!(!session.get(b"key", &mut |_| {}).unwrap());
            let mut row = |_: &[u8], _: &[u8]| panic!("a scan shows a dead row");
            assert_eq!(session.scan(b"", None, &mut row).unwrap(), 0);
            assert_eq!(session.remove(b"key").unwrap(), Removed::Absent);

            write(session.as_mut());
            node.remove();
            let mut seen = Vec::new();
            session.get(b"key", &mut |value| seen.extend_from_slice(value)).unwrap();
            assert_eq!(seen, b"new");
        }
    }

    #[test]
    fn nothing_is_left_behind_by_updates_that_put_nothing() {
        let store = SkipListStore::default();
        let mut session = store.session().unwrap();
        session.update(b"a", &mut |_, _| Update::Keep).unwrap();
        session.update(b"b", &mut |_, _| Update::Remove).unwrap();
        let mut batch = Batch::new();
        batch.put(b"c", b"1");
        batch.remove(b"c");
        batch.remove(b"d");
        session.apply(&batch).unwrap();
        assert_eq!(store.map.len(), 0);
    }

    #[test]
    fn the_version_is_the_one_that_is_linked() {
        let lock = include_str!("../../../Cargo.lock");
        assert!(lock.contains("name = \"crossbeam-skiplist\"\nversion = \"0.1.3\"\n"), "{VERSION}");
    }
}

//! Locks on keys that transactions hold while their programs think, and the search for deadlocks.
//!
//! ```text
//!   rows      a: owner 1, then 2, 3        b: owner 2
//!   waiting   1 for b, 2 for a, 3 for a    1 -> 2 -> 1 is a circle: whoever closes it is refused
//! ```
//!
//! A row has one owner, and a queue of those that wait. Its end hands the row to the first of them.
//! A transaction waits for one row at a time, so the way from owner to owner is a line. A circle
//! can only be closed by a transaction that begins to wait, because whoever gets a row does not
//! wait. So one walk along the line at the beginning of each wait finds every deadlock.
//!
//! When the store closes, everybody who waits is refused: an owner may be of a thread that never
//! ends its transaction.
//!
//! One mutex guards all of it. It is held for the walk, which is as long as the line, and never
//! while anybody waits. Writes that no transaction makes, and transactions that do not ask for
//! locks, never come here.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The locks of a store.
#[derive(Debug, Default)]
pub(crate) struct RowLocks {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    rows: HashMap<Vec<u8>, Row>,
    /// The row that each of the waiting transactions waits for.
    waiting: HashMap<u64, Vec<u8>>,
    transactions: u64,
    is_closed: bool,
}

#[derive(Debug)]
struct Row {
    owner: u64,
    queue: VecDeque<(u64, Arc<Condvar>)>,
}

/// Why a transaction does not get a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// A wait would have closed a circle.
    Deadlock,
    /// The store was closed.
    Closed,
}

impl RowLocks {
    /// Refuses all rows from now on, also to those who wait.
    pub(crate) fn close(&self) {
        let mut table = self.table();
        table.is_closed = true;
        table.waiting.clear();
        for row in table.rows.values_mut() {
            row.queue.drain(..).for_each(|(_, turn)| turn.notify_one());
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn is_waiting(&self, row: &[u8]) -> bool {
        self.table().waiting.values().any(|waits| waits == row)
    }
}

impl Table {
    /// Whether the owner of `row` waits, over others perhaps, for `transaction`.
    fn closes_circle(&self, row: &[u8], transaction: u64) -> bool {
        let mut row = row;
        while let Some(owner) = self.rows.get(row).map(|row| row.owner) {
            if owner == transaction {
                return true;
            }
            match self.waiting.get(&owner) {
                Some(next) => row = next,
                None => return false,
            }
        }
        false
    }
}

/// The locks that one transaction holds.
#[derive(Debug, Default)]
pub(super) struct HeldRows {
    /// The number of the transaction, from its first lock on.
    transaction: Option<u64>,
    rows: HashSet<Vec<u8>>,
}

impl HeldRows {
    /// Whether the transaction has the row.
    pub(super) fn has(&self, row: &[u8]) -> bool {
        self.rows.contains(row)
    }

    /// Takes a row that it does not have, as soon as nobody has it.
    pub(super) fn take(&mut self, locks: &RowLocks, row: &[u8]) -> Result<(), Refused> {
        let mut table = locks.table();
        if table.is_closed {
            return Err(Refused::Closed);
        }
        let me = *self.transaction.get_or_insert_with(|| {
            table.transactions += 1;
            table.transactions
        });
        if let Some(taken) = table.rows.get(row) {
            debug_assert_ne!(taken.owner, me, "a row that the transaction has");
            if table.closes_circle(row, me) {
                return Err(Refused::Deadlock);
            }
            let turn = Arc::new(Condvar::new());
            table.waiting.insert(me, row.to_vec());
            let taken = table.rows.get_mut(row).expect("nobody else has the table");
            taken.queue.push_back((me, Arc::clone(&turn)));
            // After a close the owner finds nobody in the queue, and removes the row.
            while table.rows.get(row).is_none_or(|row| row.owner != me) {
                if table.is_closed {
                    return Err(Refused::Closed);
                }
                table = turn.wait(table).unwrap_or_else(PoisonError::into_inner);
            }
        } else {
            table.rows.insert(row.to_vec(), Row { owner: me, queue: VecDeque::new() });
        }
        self.rows.insert(row.to_vec());
        Ok(())
    }

    /// Gives all of them up.
    pub(super) fn give_up(&mut self, locks: &RowLocks) {
        if self.rows.is_empty() {
            return;
        }
        let mut table = locks.table();
        for row in self.rows.drain() {
            let held = table.rows.get_mut(&row).expect("a row that is held");
            match held.queue.pop_front() {
                Some((next, turn)) => {
                    held.owner = next;
                    table.waiting.remove(&next);
                    turn.notify_one();
                }
                None => drop(table.rows.remove(&row)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_testkit::random::{Announced, Draw, seeds};
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::thread;

    /// Waits until somebody waits for the row.
    fn wait_for_wait(locks: &RowLocks, row: &[u8]) {
        while !locks.is_waiting(row) {
            thread::yield_now();
        }
    }

    #[test]
    fn a_row_goes_to_the_first_that_waits() {
        let locks = RowLocks::default();
        let mut first = HeldRows::default();
        first.take(&locks, b"a").unwrap();
        assert!(first.has(b"a") && !first.has(b"b"));
        thread::scope(|scope| {
            let second = scope.spawn(|| {
                let mut second = HeldRows::default();
                second.take(&locks, b"a").unwrap();
                second.give_up(&locks);
            });
            wait_for_wait(&locks, b"a");
            first.give_up(&locks);
            second.join().unwrap();
        });
        assert!(locks.table().rows.is_empty() && locks.table().waiting.is_empty());
    }

    /// One has `a`, two has `b`, three has `c`; they ask for `b`, `c` and `a`.
    #[test]
    fn who_closes_a_circle_is_refused() {
        let locks = RowLocks::default();
        let mut held: [HeldRows; 3] = Default::default();
        for (one, row) in held.iter_mut().zip([b"a", b"b", b"c"]) {
            one.take(&locks, row).unwrap();
        }
        let [mut one, mut two, mut three] = held;
        thread::scope(|scope| {
            let locks = &locks;
            scope.spawn(move || {
                one.take(locks, b"b").unwrap();
                one.give_up(locks);
            });
            wait_for_wait(locks, b"b");
            scope.spawn(move || {
                two.take(locks, b"c").unwrap();
                two.give_up(locks);
            });
            wait_for_wait(locks, b"c");
            assert_eq!(three.take(locks, b"a"), Err(Refused::Deadlock));
            three.give_up(locks);
        });
        assert!(locks.table().rows.is_empty());
    }

    /// The owner never ended, and so the wait never did.
    #[test]
    fn a_close_refuses_who_waits() {
        let locks = RowLocks::default();
        let mut owner = HeldRows::default();
        owner.take(&locks, b"a").unwrap();
        thread::scope(|scope| {
            let waits = scope.spawn(|| HeldRows::default().take(&locks, b"a"));
            wait_for_wait(&locks, b"a");
            locks.close();
            assert_eq!(waits.join().unwrap(), Err(Refused::Closed));
        });
        assert_eq!(HeldRows::default().take(&locks, b"b"), Err(Refused::Closed));
        owner.give_up(&locks);
        assert!(locks.table().rows.is_empty() && locks.table().waiting.is_empty());
    }

    /// A waiter that came to itself after the owner's end found no row, and took it for its own.
    #[test]
    fn a_row_that_is_gone_after_a_close_is_not_of_who_waited() {
        for _ in 0..200 {
            let locks = RowLocks::default();
            let mut owner = HeldRows::default();
            owner.take(&locks, b"a").unwrap();
            thread::scope(|scope| {
                let waits = scope.spawn(|| HeldRows::default().take(&locks, b"a"));
                wait_for_wait(&locks, b"a");
                locks.close();
                owner.give_up(&locks);
                assert_eq!(waits.join().unwrap(), Err(Refused::Closed));
            });
            assert!(locks.table().rows.is_empty());
        }
    }

    /// Threads take rows in random orders; each row has one owner at a time, and all of them end.
    #[test]
    fn threads_with_rows_in_any_order_all_end() {
        for seed in seeds() {
            let _announced = Announced(seed);
            let (locks, owners) = (RowLocks::default(), <[AtomicU32; 5]>::default());
            let deadlocks = AtomicU32::new(0);
            thread::scope(|scope| {
                for thread in 0..6 {
                    let (locks, owners, deadlocks) = (&locks, &owners, &deadlocks);
                    scope.spawn(move || {
                        let mut draw = Draw::new(seed ^ thread << 32);
                        for _ in 0..2_000 {
                            let mut held = HeldRows::default();
                            let mut mine = Vec::new();
                            for _ in 0..1 + draw.below(3) {
                                let row = draw.below(owners.len());
                                if held.has(&[row as u8]) {
                                    continue;
                                }
                                if held.take(locks, &[row as u8]).is_err() {
                                    deadlocks.fetch_add(1, Ordering::Relaxed);
                                    break;
                                }
                                assert_eq!(owners[row].fetch_add(1, Ordering::SeqCst), 0);
                                mine.push(row);
                                thread::yield_now();
                            }
                            for row in mine {
                                owners[row].fetch_sub(1, Ordering::SeqCst);
                            }
                            held.give_up(locks);
                        }
                    });
                }
            });
            assert!(locks.table().rows.is_empty() && locks.table().waiting.is_empty());
            assert!(deadlocks.into_inner() > 0, "the orders never met");
        }
    }
}

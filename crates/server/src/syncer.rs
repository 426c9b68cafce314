//! The thread that waits for the disk, so that no loop does.
//!
//! ```text
//!   loop:    flush -> position -> want(position) -> defers the replies of the iteration
//!   thread:  sync(the farthest of what is wanted) -> wakes the loops that asked
//!   loop:    is_durable(position)? -> sends
//! ```
//!
//! All loops that ask while a sync runs share the next one. A loop whose log was full asks to be
//! woken after a while, to try again.
//!
//! **Invariant:** a loop that asked is woken after the sync that covers what it asked for, or the
//! server ends.

use crate::Control;
use keyrack_net::Waker;
use keyrack_rowstore::{Position, Rows};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a loop waits before it tries a full log again.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// The positions that the loops want durable.
#[derive(Debug, Default)]
pub(crate) struct Syncer {
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Wanted {
    /// For each loop its position, and its waker.
    loops: Vec<Option<(Position, Waker)>>,
    retries: Vec<Waker>,
    is_ending: bool,
}

impl Syncer {
    pub(crate) fn new(loops: usize) -> Self {
        let wanted = Wanted { loops: vec![None; loops], ..Wanted::default() };
        Syncer { wanted: Mutex::new(wanted), changed: Condvar::new() }
    }

    /// Has `position` made durable, and `waker` woken then.
    pub(crate) fn want(&self, index: usize, position: Position, waker: &Waker) {
        let mut wanted = self.wanted();
        if let Some(place) = wanted.loops.get_mut(index) {
            *place = Some((position, waker.clone()));
        }
        self.changed.notify_one();
    }

    /// Has `waker` woken after a while.
    pub(crate) fn retry(&self, waker: &Waker) {
        self.wanted().retries.push(waker.clone());
        self.changed.notify_one();
    }

    /// Ends [`Syncer::run`].
    pub(crate) fn end(&self) {
        self.wanted().is_ending = true;
        self.changed.notify_one();
    }

    /// Syncs what is wanted, until the end. A failed sync is the end of the server.
    pub(crate) fn run(&self, rows: &dyn Rows, control: &Control) {
        loop {
            let mut wanted = self.wanted();
            while !wanted.is_ending && wanted.loops.iter().all(Option::is_none) {
                if wanted.retries.is_empty() {
                    wanted = self.changed.wait(wanted).unwrap_or_else(PoisonError::into_inner);
                    continue;
                }
                let (again, timeout) = self
                    .changed
                    .wait_timeout(wanted, RETRY_AFTER)
                    .unwrap_or_else(PoisonError::into_inner);
                wanted = again;
                if timeout.timed_out() {
                    wanted.retries.drain(..).for_each(|waker| waker.wake());
                }
            }
            let asked: Vec<(Position, Waker)> =
                wanted.loops.iter_mut().filter_map(Option::take).collect();
            if asked.is_empty() {
                return;
            }
            drop(wanted);
            let mut farthest: Vec<Position> = Vec::new();
            for (position, _) in &asked {
                match farthest.iter_mut().find(|other| other.log == position.log) {
                    Some(other) => other.lsn = other.lsn.max(position.lsn),
                    None => farthest.push(*position),
                }
            }
            for position in farthest {
                if let Err(error) = rows.sync(position) {
                    control.fail(error.to_string());
                    return;
                }
            }
            asked.iter().for_each(|(_, waker)| waker.wake());
        }
    }

    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Read states that nobody looks at any more, and the thread that frees what they held.
//!
//! ```text
//!   the last reader of a read state ----> queue ----> thread "flodb-free"
//!                                                       unmaps memtables
//!                                                       closes and removes files of tables
//! ```
//!
//! To unmap a memtable of 64 MiB takes milliseconds. To remove the file of a table may take a
//! hundred, where the file system tells the device what has become free. The last one to drop a
//! read state may be a writer or a reader, and neither should wait for that.
//!
//! **At the end** the queue closes: the thread frees what is left. What comes later, from iterators
//! that outlive the store, is freed where it is dropped.

use super::lock;
use std::any::Any;
use std::sync::{Condvar, Mutex, PoisonError};

/// What somebody held: memtables, tables.
type Held = Box<dyn Any + Send>;

/// What waits to be freed.
#[derive(Default)]
pub(crate) struct Garbage {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Whether there is a thread.
    is_open: bool,
    held: Vec<Held>,
    /// Whether the thread is freeing what it took from `held`.
    is_freeing: bool,
}

impl Garbage {
    /// A thread frees from now on.
    pub(super) fn open(&self) {
        lock(&self.state).is_open = true;
    }

    /// The thread ends when nothing is left.
    pub(super) fn close(&self) {
        lock(&self.state).is_open = false;
        self.changed.notify_all();
    }

    /// Leaves something to the thread, if there is one. Otherwise it is freed here.
    pub(crate) fn leave(&self, held: impl Any + Send) {
        let held: Held = Box::new(held);
        let mut state = lock(&self.state);
        if state.is_open {
            state.held.push(held);
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Waits until everything is freed that was left before.
    pub(super) fn wait(&self) {
        let mut state = lock(&self.state);
        while state.is_open && (state.is_freeing || !state.held.is_empty()) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The thread: frees until the queue is closed and empty.
    pub(super) fn run(&self) {
        let mut state = lock(&self.state);
        loop {
            while state.is_open && state.held.is_empty() {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let held = std::mem::take(&mut state.held);
            if held.is_empty() {
                return;
            }
            state.is_freeing = true;
            drop(state);
            drop(held);
            state = lock(&self.state);
            state.is_freeing = false;
            self.changed.notify_all();
        }
    }
}

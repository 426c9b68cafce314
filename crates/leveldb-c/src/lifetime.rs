//! How long callbacks of the caller's may be called, and when their destructor runs.
//!
//! ```text
//!   comparator_create -- open -- close -- comparator_destroy     the destructor runs in destroy
//!   comparator_create -- open -- comparator_destroy -- close     .. in close
//! ```
//!
//! The destructor runs once, on the thread and before the return of the call that ends the last
//! use: the caller may free what the callbacks need when that call has returned. LevelDB runs it
//! in the first way; the second one is misuse there.
//!
//! Rust objects that know the callbacks may live longer: in options, in iterators, and in memory of
//! a closed database whose reclamation another thread has put off. They count for nothing. They ask
//! for the state before each call, and get none after the end.

use crate::status::Failure;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Destructor = Option<unsafe extern "C" fn(*mut c_void)>;

/// The state of callbacks.
#[derive(Debug)]
pub(crate) struct State {
    state: *mut c_void,
    destructor: Destructor,
    uses: Mutex<Uses>,
    /// Set before the destructor runs.
    is_ended: AtomicBool,
}

#[derive(Debug, Default)]
struct Uses {
    /// Databases that are open, or being opened or repaired, with the callbacks.
    databases: usize,
    /// The caller has destroyed its handle.
    is_given_up: bool,
}

impl Uses {
    fn is_over(&self) -> bool {
        self.is_given_up && self.databases == 0
    }
}

// SAFETY: LevelDB calls the callbacks from any thread, and so its callers expect.
unsafe impl Send for State {}
// SAFETY: as above; several threads call at once.
unsafe impl Sync for State {}

impl State {
    pub(crate) fn new(state: *mut c_void, destructor: Destructor) -> Arc<State> {
        let uses = Mutex::new(Uses::default());
        Arc::new(State { state, destructor, uses, is_ended: AtomicBool::new(false) })
    }

    /// What a callback gets; `None` once it must not be called any more.
    #[inline]
    pub(crate) fn get(&self) -> Option<*mut c_void> {
        // Relaxed: a thread that may still call belongs to a database that is open, and the end
        // comes after its close. Any other one has been told of the close by the caller.
        (!self.is_ended.load(Ordering::Relaxed)).then_some(self.state)
    }

    /// Keeps the callbacks until the use is dropped.
    ///
    /// # Errors
    /// The caller has given them up.
    pub(crate) fn keep(self: &Arc<Self>) -> Result<Use, Failure> {
        let mut uses = self.uses();
        if uses.is_given_up {
            return Err(Failure::invalid(
                "the options have a comparator or a filter policy that was destroyed; set another \
                 or null",
            ));
        }
        uses.databases += 1;
        Ok(Use { state: Arc::clone(self) })
    }

    /// The caller destroys its handle.
    pub(crate) fn give_up(&self) {
        let mut uses = self.uses();
        uses.is_given_up = true;
        self.end_if_over(uses);
    }

    /// Called once with uses that are over.
    fn end_if_over(&self, uses: MutexGuard<'_, Uses>) {
        if !uses.is_over() {
            return;
        }
        self.is_ended.store(true, Ordering::Relaxed);
        drop(uses);
        if let Some(destructor) = self.destructor {
            // SAFETY: the state is the caller's, who gave this function for it. It runs once: the
            // handle is given up once, and no use begins after that.
            unsafe { destructor(self.state) };
        }
    }

    fn uses(&self) -> MutexGuard<'_, Uses> {
        // Counts are whole at every moment.
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A database that may call the callbacks.
#[derive(Debug)]
pub(crate) struct Use {
    state: Arc<State>,
}

impl Drop for Use {
    fn drop(&mut self) {
        let mut uses = self.state.uses();
        uses.databases -= 1;
        self.state.end_if_over(uses);
    }
}

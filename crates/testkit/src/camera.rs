//! The crash camera: images of a disk as a power loss would leave it, taken while a store works.
//!
//! ```text
//!   store --operation--> FaultFs --> MemFs
//!                           |          |
//!                        Camera <--crash_image(policy)
//!                           |
//!                           v
//!                         Shot    image, what must be on it, what may be on it
//! ```
//!
//! The test keeps a [`Journal`] of what its writers began and what they were promised. The order of
//! the three questions matters, because writers go on meanwhile: first what was promised, then the
//! image, then what was begun.

use crate::random::Draw;
use keyrack_vfs::{CrashPolicy, FaultFs, MemFs};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The ways in which a disk loses what was not synced.
pub const POLICIES: [CrashPolicy; 4] =
    [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::Ordered, CrashPolicy::Reordered];

/// What the writers of a test did. Each number counts the steps of one writer.
pub trait Journal: Send + Sync + 'static {
    /// The steps that a crash now may not lose if the disk crashes by `policy`.
    fn promised(&self, policy: CrashPolicy) -> Vec<usize>;

    /// The steps that were begun.
    fn begun(&self) -> Vec<usize>;
}

/// A disk that a crash left, and what may be on it.
#[derive(Debug)]
pub struct Shot {
    /// The disk.
    pub image: MemFs,
    /// How it crashed.
    pub policy: CrashPolicy,
    /// The steps of each writer that must be there.
    pub at_least: Vec<usize>,
    /// The steps of each writer that may be there.
    pub at_most: Vec<usize>,
    /// At which operation it was taken.
    pub what: String,
}

/// Takes images of a disk, at one operation of `every` on average.
pub struct Camera<J> {
    disk: MemFs,
    journal: J,
    draw: Mutex<Draw>,
    every: usize,
    is_on: AtomicBool,
    shots: Mutex<Vec<Shot>>,
}

impl<J> fmt::Debug for Camera<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Camera").field("every", &self.every).finish_non_exhaustive()
    }
}

impl<J: Journal> Camera<J> {
    /// A camera that is on.
    pub fn new(disk: &MemFs, journal: J, seed: u64, every: usize) -> Arc<Self> {
        Arc::new(Camera {
            disk: disk.clone(),
            journal,
            draw: Mutex::new(Draw::new(seed)),
            every,
            is_on: AtomicBool::new(true),
            shots: Mutex::default(),
        })
    }

    /// The disk, with this camera at each of its operations.
    pub fn fs(self: &Arc<Self>) -> Arc<FaultFs> {
        let fs = FaultFs::new(Arc::new(self.disk.clone()));
        let camera = Arc::clone(self);
        fs.watch(move |operation, path| camera.shoot(&|| format!("{operation} {path:?}")));
        Arc::new(fs)
    }

    /// Takes an image now, if it is on and the draw says so.
    pub fn shoot(&self, what: &dyn Fn() -> String) {
        if !self.is_on.load(Ordering::Relaxed) {
            return;
        }
        let (policy, seed) = {
            let mut draw = lock(&self.draw);
            if draw.below(self.every) > 0 {
                return;
            }
            (POLICIES[draw.below(4)], draw.next())
        };
        let at_least = self.journal.promised(policy);
        let image = self.disk.crash_image(seed, policy);
        let at_most = self.journal.begun();
        lock(&self.shots).push(Shot { image, policy, at_least, at_most, what: what() });
    }

    /// Switches the camera off.
    pub fn pause(&self) {
        self.is_on.store(false, Ordering::Relaxed);
    }

    /// Switches the camera off. Returns its images.
    pub fn stop(&self) -> Vec<Shot> {
        self.pause();
        std::mem::take(&mut *lock(&self.shots))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

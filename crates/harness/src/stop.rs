//! Why a run ends early, and why a measurement has no numbers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Why a run has to end early. Set once, by a signal handler, a full disk or a guard.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    /// Looked at by every worker before every unit.
    pub flag: Arc<AtomicBool>,
    reason: Arc<OnceLock<String>>,
}

impl Stop {
    /// Whether the run is to end.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    /// Ends the run for `reason`; the first reason counts.
    pub fn set(&self, reason: &str) {
        let _ = self.reason.set(reason.to_owned());
        self.flag.store(true, Ordering::Relaxed);
    }

    /// The reason, where one was given; a signal gives none.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.get().map(String::as_str)
    }
}

/// Why a measurement produced no numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) reason: String,
    pub(crate) detail: String,
}

impl Failed {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Failed { reason: reason.into(), detail: String::new() }
    }
}

//! Which records of a trace a reader wants.

use crate::record::Phase;

/// A choice of records. A trace of another format has one phase and one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Which {
    /// Whether the timed part is wanted, or everything before it.
    pub timed: bool,
    /// The one thread that is wanted; `None` wants all.
    pub thread: Option<u32>,
}

impl Which {
    pub(crate) fn takes(self, phase: Phase, thread: u32) -> bool {
        (phase == Phase::Run) == self.timed && self.thread.is_none_or(|wanted| wanted == thread)
    }
}

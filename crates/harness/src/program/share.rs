//! The share of one worker in a workload.

use super::phases::{self, RoleIndex};
use crate::settings::Bound;
use keyrack_workload::Phase;

/// Whose share of a workload a task is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkerShare {
    pub(crate) phase: Phase,
    /// The thread, of how many that share the work.
    pub(crate) who: (u32, u32),
    /// The declared role.
    pub(crate) role: Option<RoleIndex>,
    pub(crate) bound: Bound,
}

impl WorkerShare {
    pub(crate) fn new(phase: Phase, who: (u32, u32)) -> Self {
        WorkerShare { phase, who, role: None, bound: Bound::Ops(1) }
    }

    /// The streams of random numbers: those of two roles, or of two phases, have nothing in common.
    pub(super) fn stream(&self) -> Phase {
        match self.role {
            Some(RoleIndex { phase, role }) => {
                Phase::Other(16 + (phase * phases::ROLES_MAX + role) as u32)
            }
            None => self.phase,
        }
    }
}

//! What one loop measures beside the counters of its protocols.

use crate::masstree;
use keyrack_measure::{LiveCounter, LiveHistogram};

/// Of one loop, which alone writes it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct LoopMetrics {
    /// From the beginning of an iteration to its last reply: what a request waits in the server at
    /// most.
    pub(crate) iteration_ns: LiveHistogram,
    /// Iterations that wrote to the log and had to wait for the disk.
    pub(crate) iterations_waited: LiveCounter,
    /// Flushes that failed and were tried again.
    pub(crate) flushes_failed: LiveCounter,
    pub(crate) masstree: masstree::Counts,
}

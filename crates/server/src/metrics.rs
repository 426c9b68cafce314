//! The metrics of one loop, beside the counters of its protocols.

use crate::durations::Durations;
use crate::masstree;
use keyrack_measure::{LiveCounter, LiveHistogram};

/// The metrics of one loop, their only writer.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct LoopMetrics {
    /// Time from the beginning of an iteration to its last reply: the longest that a request waits
    /// in the server.
    pub(crate) iteration_ns: LiveHistogram,
    /// Iterations that wrote to the log and had to wait for the disk.
    pub(crate) iterations_waited: LiveCounter,
    /// Flushes that failed and were tried again.
    pub(crate) flushes_failed: LiveCounter,
    pub(crate) masstree: masstree::Counts,
    /// Durations of requests of memcached.
    pub(crate) memcached_ns: Durations,
    /// Durations of messages of Masstree.
    pub(crate) masstree_ns: Durations,
}

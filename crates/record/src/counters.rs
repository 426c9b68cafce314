//! What the processor and the kernel counted during a phase, and what the control group did.

use serde::{Deserialize, Serialize};

/// Events of the whole process in the timed phase: workers and the engine's own threads. `None`
/// where the machine or the kernel does not count; that is never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Processor cycles in which it ran.
    pub cycles: Option<u64>,
    /// Instructions completed.
    pub instructions: Option<u64>,
    /// Misses of the last level of cache, as the processor defines the event.
    pub cache_misses: Option<u64>,
    /// Branches that were predicted wrongly.
    pub branch_misses: Option<u64>,
    /// Page faults of both kinds.
    pub page_faults: Option<u64>,
    /// Times a thread left its processor.
    pub context_switches: Option<u64>,
    /// Whether what ran inside the kernel is in all of them.
    pub with_kernel: bool,
}

impl Counters {
    /// Names in the order of [`Counters::values`].
    pub const NAMES: [&'static str; 6] = [
        "cycles",
        "instructions",
        "cache_misses",
        "branch_misses",
        "page_faults",
        "context_switches",
    ];

    /// The counts.
    #[must_use]
    pub fn values(&self) -> [Option<u64>; 6] {
        [
            self.cycles,
            self.instructions,
            self.cache_misses,
            self.branch_misses,
            self.page_faults,
            self.context_switches,
        ]
    }

    /// Whether anything was counted.
    #[must_use]
    pub fn any(&self) -> bool {
        self.values().iter().any(Option::is_some)
    }
}

/// The control group of the process over the timed phase: differences, but for memory. Other
/// processes in the group count too. `None` where the kernel does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CgroupUse {
    /// Processor time, in seconds.
    pub cpu_s: Option<f64>,
    /// Of that outside of the kernel.
    pub user_s: Option<f64>,
    /// Of that inside the kernel.
    pub system_s: Option<f64>,
    /// Periods in which the group had something to run under a limit of processor time.
    pub periods: Option<u64>,
    /// Of those the ones in which it was held back.
    pub throttled_periods: Option<u64>,
    /// How long it was held back, in seconds, added up over processors.
    pub throttled_s: Option<f64>,
    /// Memory in the end, page cache included, in bytes.
    pub memory_bytes: Option<u64>,
    /// The most memory since the group began.
    pub memory_peak_bytes: Option<u64>,
    /// Bytes fetched from devices.
    pub read_bytes: Option<u64>,
    /// Bytes sent to devices.
    pub written_bytes: Option<u64>,
    /// Reads of devices.
    pub reads: Option<u64>,
    /// Writes to devices.
    pub writes: Option<u64>,
}

impl CgroupUse {
    /// Whether anything is known.
    #[must_use]
    pub fn any(&self) -> bool {
        *self != CgroupUse::default()
    }
}

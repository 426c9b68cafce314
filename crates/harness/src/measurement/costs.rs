//! What the process and its group use in a timed phase, without its warm-up.

use crate::plan::Plan;
use crate::probe::{CgroupTotals, LinuxHost, PerfCounters};
use crate::quiesce::Before;
use keyrack_measure::usage;
use keyrack_record::{CgroupUse, Counters};

/// Readings at the start of a timed phase.
pub(super) struct Costs {
    perf: Option<PerfCounters>,
    has_group: bool,
    group: CgroupTotals,
    cpu: usage::Usage,
    traffic: Before,
}

/// What came since.
pub(super) struct Used {
    pub(super) counters: Option<Counters>,
    pub(super) group: Option<CgroupUse>,
    pub(super) cpu_ns: u64,
    /// What the process had moved when the phase began.
    pub(super) before: Before,
}

impl Costs {
    pub(super) fn new(plan: &Plan) -> Costs {
        Costs {
            perf: plan.probes.contains(&"perf").then(|| PerfCounters::open(&LinuxHost)),
            has_group: plan.probes.contains(&"cgroup"),
            group: CgroupTotals::default(),
            cpu: usage::process(),
            traffic: Before::default(),
        }
    }

    /// The phase begins, or its warm-up is over.
    pub(super) fn begin(&mut self) {
        self.traffic = Before::read();
        self.cpu = usage::process();
        if self.has_group {
            self.group = CgroupTotals::read(&LinuxHost);
        }
        self.perf.iter_mut().for_each(PerfCounters::start);
    }

    pub(super) fn end(self) -> Used {
        let counters = self.perf.as_ref().and_then(PerfCounters::since);
        let cpu = usage::process();
        let group = self.has_group.then(|| self.group.until(CgroupTotals::read(&LinuxHost)));
        let cpu_ns =
            (cpu.user_ns + cpu.system_ns).saturating_sub(self.cpu.user_ns + self.cpu.system_ns);
        Used { counters, group: group.flatten(), cpu_ns, before: self.traffic }
    }
}

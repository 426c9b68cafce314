//! How all CPUs of a machine spent their time: the first line of the kernel's `/proc/stat`.
//!
//! Text in, numbers out: who reads the file is no business of this crate.

/// CPU time of the whole machine by state, in clock ticks since boot.
///
/// Guest time is part of `user` and `nice` already and is not counted again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    user: u64,
    nice: u64,
    system: u64,
    idle: u64,
    iowait: u64,
    irq: u64,
    softirq: u64,
    steal: u64,
}

/// How the machine spent a stretch of time, in percent of all its CPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuShare {
    /// Neither idle nor waiting for a device. Stolen time counts: the guest wanted to run.
    pub busy_pct: f64,
    /// Idle while a device was at work for some task.
    pub iowait_pct: f64,
    /// Taken by the hypervisor for other guests.
    pub steal_pct: f64,
}

impl CpuTimes {
    /// Reads `/proc/stat`, of which the first line counts. Old kernels write four states; the rest
    /// are then zero. `None` when there is no such line.
    #[must_use]
    pub fn parse(stat: &str) -> Option<CpuTimes> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> =
            line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        if ticks.len() < 4 {
            return None;
        }
        let at = |index: usize| ticks.get(index).copied().unwrap_or(0);
        Some(CpuTimes {
            user: at(0),
            nice: at(1),
            system: at(2),
            idle: at(3),
            iowait: at(4),
            irq: at(5),
            softirq: at(6),
            steal: at(7),
        })
    }

    /// Shares of the time since `earlier`; `None` when no time has passed. A counter that ran
    /// backwards, as `iowait` may, counts as not having moved.
    #[must_use]
    pub fn since(&self, earlier: &CpuTimes) -> Option<CpuShare> {
        let idle = self.idle.saturating_sub(earlier.idle);
        let iowait = self.iowait.saturating_sub(earlier.iowait);
        let steal = self.steal.saturating_sub(earlier.steal);
        let working = [
            self.user.saturating_sub(earlier.user),
            self.nice.saturating_sub(earlier.nice),
            self.system.saturating_sub(earlier.system),
            self.irq.saturating_sub(earlier.irq),
            self.softirq.saturating_sub(earlier.softirq),
            steal,
        ];
        let busy = working.iter().fold(0_u64, |sum, ticks| sum.saturating_add(*ticks));
        let total = busy.saturating_add(idle).saturating_add(iowait);
        if total == 0 {
            return None;
        }
        let pct = |ticks: u64| 100.0 * ticks as f64 / total as f64;
        Some(CpuShare { busy_pct: pct(busy), iowait_pct: pct(iowait), steal_pct: pct(steal) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_shares_count_iowait_as_idle_and_steal_as_busy() {
        let before = CpuTimes::parse("cpu  100 0 100 1000 50 0 0 0 0 0\ncpu0 1 2 3 4\n").unwrap();
        let after = CpuTimes::parse("cpu  120 0 110 1040 70 0 0 10 0 0\n").unwrap();
        let share = after.since(&before).unwrap();
        assert_eq!(share, CpuShare { busy_pct: 40.0, iowait_pct: 20.0, steal_pct: 10.0 });
    }

    #[test]
    fn cpu_times_that_stand_still_or_run_backwards() {
        let early = CpuTimes::parse("cpu  1 1 1 100 90 0 0 0").unwrap();
        let late = CpuTimes::parse("cpu  2 1 1 101 80 0 0 0").unwrap();
        assert_eq!(early.since(&early), None);
        let share = late.since(&early).unwrap();
        assert_eq!((share.busy_pct, share.iowait_pct), (50.0, 0.0));
        assert_eq!(early.since(&late).map(|share| share.iowait_pct), Some(100.0));
    }

    #[test]
    fn cpu_times_need_four_numbers() {
        for bad in ["", "cpu ", "cpu  1 2 3", "cpu  1 2 x 4", "cpu0 1 2 3 4", "intr 5"] {
            assert_eq!(CpuTimes::parse(bad), None, "{bad}");
        }
        assert_eq!(CpuTimes::parse("cpu  1 2 3 4").map(|times| times.idle), Some(4));
        let huge = u64::MAX;
        let text = format!("cpu  {huge} {huge} {huge} {huge} {huge} {huge} {huge} {huge}");
        assert!(CpuTimes::parse(&text).unwrap().since(&CpuTimes::default()).is_some());
    }
}

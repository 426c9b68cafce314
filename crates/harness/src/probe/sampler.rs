//! How the machine and the process fare while a point runs: one row of numbers per tick.
//!
//! | metric | unit | source | kind |
//! |---|---|---|---|
//! | `cpu_util_pct` | % of all CPUs | `/proc/stat` | since the last tick |
//! | `mem_avail_mb` | MiB | `/proc/meminfo`, `MemAvailable` | now |
//! | `load1` | tasks | `/proc/loadavg` | now |
//! | `proc_cpu_pct` | % of one CPU | `getrusage` over elapsed time | since the last tick |
//! | `peak_rss_mb` | MiB | `getrusage` | cumulative |
//! | `minflt majflt vol_ctxsw invol_ctxsw` | count | `getrusage` | cumulative |
//! | `rss_mb` | MiB | `/proc/self/statm` | now |
//! | `io_read_mb io_write_mb` | MiB to and from devices | `/proc/self/io` | cumulative |
//! | `threads` | count | `/proc/self/status` | now |
//! | `iowait_pct steal_pct` | % of all CPUs | `/proc/stat` | since the last tick |
//!
//! The first thirteen have the names and the order of keybench. One differs in meaning: keybench
//! counts the wait for devices as busy. Here `cpu_util_pct` counts it as idle, because the CPU is
//! free for anyone; `iowait_pct` shows it on its own, and the sum of the two is keybench's number.
//! Stolen time is busy in both.
//!
//! A tick reads seven small files, some tens of microseconds in all.

use keyrack_measure::CpuTimes;

use super::Host;
use super::machine::load1;
use super::proc::{field_kib, field_number};

/// Names of the metrics, in the order in which [`Sampler::sample`] gives them.
pub const SYSTEM_METRICS: [&str; 15] = [
    "cpu_util_pct",
    "mem_avail_mb",
    "load1",
    "proc_cpu_pct",
    "peak_rss_mb",
    "minflt",
    "majflt",
    "vol_ctxsw",
    "invol_ctxsw",
    "rss_mb",
    "io_read_mb",
    "io_write_mb",
    "threads",
    "iowait_pct",
    "steal_pct",
];

const MIB: f64 = 1_048_576.0;

/// Takes a sample of the system's metrics whenever it is asked.
#[derive(Debug)]
pub struct Sampler<'h> {
    host: &'h dyn Host,
    last_times: Option<CpuTimes>,
    last_cpu_s: Option<f64>,
    last_elapsed_s: f64,
}

impl<'h> Sampler<'h> {
    /// Starts to watch. Shares are counted from here, at elapsed time zero.
    #[must_use]
    pub fn new(host: &'h dyn Host) -> Sampler<'h> {
        Sampler {
            host,
            last_times: host.read("/proc/stat").and_then(|text| CpuTimes::parse(&text)),
            last_cpu_s: host.rusage().map(|usage| usage.cpu_s),
            last_elapsed_s: 0.0,
        }
    }

    /// One value per metric, in the order of [`SYSTEM_METRICS`]; `None` where the machine does not
    /// say. `elapsed_s` is the time since [`Sampler::new`] in seconds. Shares are `None` for a tick
    /// in which no time has passed.
    pub fn sample(&mut self, elapsed_s: f64) -> Vec<(&'static str, Option<f64>)> {
        let host = self.host;
        let times = host.read("/proc/stat").and_then(|text| CpuTimes::parse(&text));
        let share = times.zip(self.last_times).and_then(|(now, last)| now.since(&last));
        let usage = host.rusage();
        let cpu_s = usage.map(|usage| usage.cpu_s);
        let passed_s = elapsed_s - self.last_elapsed_s;
        let proc_cpu_pct = cpu_s
            .zip(self.last_cpu_s)
            .filter(|_| passed_s > 0.0)
            .map(|(now, last)| 100.0 * (now - last).max(0.0) / passed_s);
        self.last_times = times.or(self.last_times);
        if passed_s > 0.0 {
            self.last_elapsed_s = elapsed_s;
            self.last_cpu_s = cpu_s.or(self.last_cpu_s);
        }
        let io = host.read("/proc/self/io").unwrap_or_default();
        let values = [
            share.map(|share| share.busy_pct),
            host.read("/proc/meminfo").and_then(|text| field_kib(&text, "MemAvailable")).map(mib),
            load1(host),
            proc_cpu_pct,
            usage.map(|usage| mib(usage.peak_rss_bytes)),
            usage.map(|usage| usage.minflt as f64),
            usage.map(|usage| usage.majflt as f64),
            usage.map(|usage| usage.vol_ctxsw as f64),
            usage.map(|usage| usage.invol_ctxsw as f64),
            resident_bytes(host).map(mib),
            field_number(&io, "read_bytes").map(mib),
            field_number(&io, "write_bytes").map(mib),
            host.read("/proc/self/status")
                .and_then(|text| field_number(&text, "Threads"))
                .map(|threads| threads as f64),
            share.map(|share| share.iowait_pct),
            share.map(|share| share.steal_pct),
        ];
        SYSTEM_METRICS.into_iter().zip(values).collect()
    }
}

/// Bytes that the process has sent on their way to storage since it started. Pages of mapped files
/// count when they are first written to.
pub(crate) fn written_bytes(host: &dyn Host) -> Option<u64> {
    field_number(&host.read("/proc/self/io")?, "write_bytes")
}

/// Bytes that the process has fetched from storage since it started; the page cache is none.
pub(crate) fn fetched_bytes(host: &dyn Host) -> Option<u64> {
    field_number(&host.read("/proc/self/io")?, "read_bytes")
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB
}

/// Resident set of the process: the second number of `statm`, in pages.
pub(crate) fn resident_bytes(host: &dyn Host) -> Option<u64> {
    let pages: u64 = host.line("/proc/self/statm")?.split(' ').nth(1)?.parse().ok()?;
    pages.checked_mul(host.page_size()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{CapturedHost, LinuxHost, Usage};

    fn value(sample: &[(&'static str, Option<f64>)], name: &str) -> Option<f64> {
        sample.iter().find(|(metric, _)| *metric == name).unwrap().1
    }

    fn machine() -> CapturedHost {
        CapturedHost::parse(
            "@page 4096\n@usage 2 104857600 10 1 20 3\n\
             @file /proc/stat\ncpu  100 0 100 800 0 0 0 0\n\
             @file /proc/meminfo\nMemTotal: 4096 kB\nMemAvailable:  2048 kB\n\
             @file /proc/loadavg\n0.50 0.1 0.1 1/99 7\n\
             @file /proc/self/statm\n1000 512 100 1 0 1 0\n\
             @file /proc/self/io\nrchar: 9\nread_bytes: 1048576\nwrite_bytes: 3145728\n\
             @file /proc/self/status\nName: x\nThreads:\t4\n",
        )
        .unwrap()
    }

    #[test]
    fn every_metric_has_its_number() {
        let host = machine();
        let mut sampler = Sampler::new(&host);
        host.set_file("/proc/stat", "cpu  130 0 110 840 10 0 0 10\n");
        host.set_usage(Usage { cpu_s: 5.0, ..host.rusage().unwrap() });
        let sample = sampler.sample(2.0);
        let names: Vec<&str> = sample.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, SYSTEM_METRICS);
        let numbers: Vec<f64> = sample.iter().map(|(_, value)| value.unwrap()).collect();
        let expected =
            [50.0, 2.0, 0.5, 150.0, 100.0, 10.0, 1.0, 20.0, 3.0, 2.0, 1.0, 3.0, 4.0, 10.0, 10.0];
        assert_eq!(numbers, expected);
    }

    #[test]
    fn shares_count_from_the_last_tick() {
        let host = machine();
        let mut sampler = Sampler::new(&host);
        host.set_file("/proc/stat", "cpu  200 0 100 800 0 0 0 0\n");
        assert_eq!(value(&sampler.sample(1.0), "cpu_util_pct"), Some(100.0));
        host.set_file("/proc/stat", "cpu  200 0 100 900 0 0 0 0\n");
        host.set_usage(Usage { cpu_s: 2.25, ..Usage::default() });
        let second = sampler.sample(1.5);
        assert_eq!(value(&second, "cpu_util_pct"), Some(0.0));
        assert_eq!(value(&second, "proc_cpu_pct"), Some(50.0));
    }

    #[test]
    fn no_time_passed_is_no_share() {
        let host = machine();
        let mut sampler = Sampler::new(&host);
        for elapsed_s in [0.0, -1.0, f64::NAN] {
            let sample = sampler.sample(elapsed_s);
            assert_eq!(value(&sample, "cpu_util_pct"), None);
            assert_eq!(value(&sample, "proc_cpu_pct"), None);
            assert_eq!(value(&sample, "threads"), Some(4.0));
        }
        host.set_usage(Usage { cpu_s: 3.0, ..Usage::default() });
        assert_eq!(value(&sampler.sample(1.0), "proc_cpu_pct"), Some(100.0), "nothing was lost");
    }

    #[test]
    fn a_silent_or_broken_machine_gives_a_full_row_of_nothing() {
        let host = CapturedHost::new();
        let mut sampler = Sampler::new(&host);
        let empty = sampler.sample(1.0);
        assert_eq!(empty.len(), SYSTEM_METRICS.len());
        assert!(empty.iter().all(|(_, value)| value.is_none()));
        for path in ["/proc/stat", "/proc/meminfo", "/proc/loadavg", "/proc/self/statm"] {
            host.set_file(path, "cpu  x\n\u{fffd}");
        }
        assert!(sampler.sample(2.0).iter().all(|(_, value)| value.is_none()));
    }

    #[test]
    fn a_report_that_fails_once_does_not_spoil_the_next() {
        let host = machine();
        let mut sampler = Sampler::new(&host);
        host.set_file("/proc/stat", "");
        assert_eq!(value(&sampler.sample(1.0), "cpu_util_pct"), None);
        host.set_file("/proc/stat", "cpu  150 0 100 850 0 0 0 0\n");
        assert_eq!(value(&sampler.sample(2.0), "cpu_util_pct"), Some(50.0));
    }

    #[test]
    fn this_machine_can_be_sampled() {
        let mut sampler = Sampler::new(&LinuxHost);
        let sample = sampler.sample(1.0);
        for metric in ["mem_avail_mb", "load1", "rss_mb", "peak_rss_mb", "threads", "proc_cpu_pct"]
        {
            assert!(value(&sample, metric).is_some_and(|value| value >= 0.0), "{metric}");
        }
        assert!(value(&sample, "threads") >= Some(1.0));
        assert!(value(&sample, "rss_mb") > Some(0.0));
    }
}

//! What a benchmark must know about its machine, and what changes there while it runs.
//!
//! ```text
//!            Host            the only door to the machine
//!          /      \
//!   LinuxHost   CapturedHost      the kernel's own reports | texts kept from some machine
//!          \      /
//!   proc  cgroup  block  machine     text -> typed facts; perf is calls, not text
//!          |        |       |
//!   system_info   Sampler   doctor   build_info
//!   rows once     a row     is it    what was
//!   per run       a tick    fit?     compiled
//! ```
//!
//! Almost all that is read is text below `/proc` and `/sys`. Everything goes through [`Host`], so
//! that a whole machine can be written down as a text file and every rule tested without owning
//! that machine. The few facts with no text form (free space, device numbers, the page size,
//! resource usage) are methods of their own.
//!
//! **Invariants.** A fact that cannot be read is `None` below this folder and `n/a` in a row: no
//! row is left out, nothing here fails, and malformed text counts as unreadable. Nothing is
//! cached: two calls read the machine twice. Nothing reads a clock: the caller passes elapsed time.

mod block;
mod build;
mod captured;
mod cgroup;
mod cgroup_use;
mod doctor;
mod linux;
mod machine;
mod perf;
mod perf_sys;
mod proc;
mod sampler;
mod system;
#[cfg(test)]
mod tests;

use std::fmt::Debug;

pub use build::{BuildFacts, build_info, glibc_version};
pub use captured::CapturedHost;
pub(crate) use cgroup::group_dirs;
pub(crate) use cgroup_use::{CgroupTotals, cgroup_info};
pub use doctor::{Checkup, Finding, Status, doctor};
pub use linux::LinuxHost;
pub(crate) use perf::{PerfCounters, perf_info};
pub use sampler::{SYSTEM_METRICS, Sampler};
pub(crate) use sampler::{fetched_bytes, resident_bytes, written_bytes};
pub use system::{PinInfo, system_info};

/// What is printed for a fact that cannot be read.
pub const NOT_AVAILABLE: &str = "n/a";

/// Size and kind of a mounted file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsSpace {
    /// Bytes that an unprivileged process can still write.
    pub free: u64,
    /// Bytes in all.
    pub total: u64,
    /// The kernel's number for the kind of file system, 32 bits wide.
    pub magic: u64,
}

/// Resources this process has used since it started, threads that have ended included.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// CPU time in user and kernel mode, seconds.
    pub cpu_s: f64,
    /// Largest resident set so far, bytes.
    pub peak_rss_bytes: u64,
    /// Page faults served without reading a device.
    pub minflt: u64,
    /// Page faults that read a device.
    pub majflt: u64,
    /// Times a thread gave up its CPU to wait.
    pub vol_ctxsw: u64,
    /// Times a thread lost its CPU while it could still run.
    pub invol_ctxsw: u64,
}

/// A machine as the probes see it.
///
/// Paths are absolute and use `/`. Every method answers `None`, or nothing, when the machine does
/// not say; none of them fails in another way.
pub trait Host: Debug + Send + Sync {
    /// The text of a file of `/proc` or `/sys`. Bytes that are not UTF-8 are replaced.
    fn read(&self, path: &str) -> Option<String>;

    /// Names in a directory, sorted; empty when it is empty or cannot be read.
    fn list(&self, path: &str) -> Vec<String>;

    /// Target of a symbolic link as it is stored, so possibly relative.
    fn link(&self, path: &str) -> Option<String>;

    /// Absolute path without symbolic links of `path` or, where that does not exist, of its nearest
    /// ancestor that does.
    fn canonical(&self, path: &str) -> Option<String>;

    /// Space and kind of the file system that holds `path`.
    fn statfs(&self, path: &str) -> Option<FsSpace>;

    /// Major and minor number of the device that holds `path`; major 0 is a device without a
    /// block device of its own (tmpfs, overlay, btrfs, network).
    fn dev_of(&self, path: &str) -> Option<(u32, u32)>;

    /// Bytes in a page of memory.
    fn page_size(&self) -> Option<u64>;

    /// Resources used by this process.
    fn rusage(&self) -> Option<Usage>;

    /// Hardware name such as `x86_64`.
    fn arch(&self) -> Option<String> {
        self.line("/proc/sys/kernel/arch")
    }

    /// First line of a file, trimmed; `None` when it is empty.
    fn line(&self, path: &str) -> Option<String> {
        let text = self.read(path)?;
        let line = text.lines().next()?.trim();
        if line.is_empty() { None } else { Some(line.to_owned()) }
    }

    /// The machine's name.
    fn hostname(&self) -> Option<String> {
        self.line("/proc/sys/kernel/hostname")
    }

    /// System, release and hardware in one line: `Linux 6.2.0 x86_64`. Parts that are not known
    /// read `n/a`; `None` when none is.
    fn uname(&self) -> Option<String> {
        let parts = [
            self.line("/proc/sys/kernel/ostype"),
            self.line("/proc/sys/kernel/osrelease"),
            self.arch(),
        ];
        if parts.iter().all(Option::is_none) {
            return None;
        }
        let shown = parts.map(|part| part.unwrap_or_else(|| NOT_AVAILABLE.to_owned()));
        Some(shown.join(" "))
    }

    /// Numbers of the CPUs that are switched on, ascending; empty when not known.
    fn online_cpus(&self) -> Vec<usize> {
        self.line("/sys/devices/system/cpu/online")
            .and_then(|text| proc::cpu_list(&text))
            .filter(|cpus| !cpus.is_empty())
            .or_else(|| self.read("/proc/cpuinfo").map(|text| proc::cpuinfo_cpus(&text)))
            .unwrap_or_default()
    }

    /// Numbers of the CPUs that the calling thread may run on, ascending; empty when not known.
    fn affinity(&self) -> Vec<usize> {
        self.read("/proc/thread-self/status")
            .or_else(|| self.read("/proc/self/status"))
            .and_then(|text| proc::cpu_list(proc::field(&text, "Cpus_allowed_list")?))
            .unwrap_or_default()
    }

    /// Bytes of memory that the kernel manages.
    fn ram_bytes(&self) -> Option<u64> {
        proc::field_kib(&self.read("/proc/meminfo")?, "MemTotal")
    }

    /// Files this process may have open; `u64::MAX` when there is no limit.
    fn open_file_limit(&self) -> Option<u64> {
        proc::open_file_limit(&self.read("/proc/self/limits")?)
    }
}

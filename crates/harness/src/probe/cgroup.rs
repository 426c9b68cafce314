//! Limits that control groups put on this process, in both versions of the interface.
//!
//! `/proc/self/cgroup` names the process's group in each hierarchy as `ID:CONTROLLERS:PATH`; the
//! mounts say where each hierarchy can be seen. A limit of any ancestor binds too, so all levels
//! are read from the group up to the mount, and the smallest limit counts. In a container the path
//! may lie above what is mounted; the mount's own root is then taken off the path first.
//!
//! | | version 1 | version 2 |
//! |---|---|---|
//! | CPU | `cpu.cfs_quota_us` over `cpu.cfs_period_us`, -1 none | `cpu.max`: both, or `max` |
//! | memory | `memory.limit_in_bytes`, huge when none | `memory.max`: bytes, or `max` |

use super::Host;
use keyrack_vfs::{ControlGroup, control_groups};

/// Version 1 writes "no limit" as the largest multiple of the page size; above this is none.
const MEMORY_LIMIT_MAX: u64 = 1 << 60;

/// A limit, the file that sets it, and what to write there to lift it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Limit<T> {
    pub(super) value: T,
    pub(super) file: String,
    pub(super) lifted: &'static str,
}

/// The binding limits; `None` where there is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Limits {
    /// CPUs' worth of time per unit of time.
    pub(super) cpus: Option<Limit<f64>>,
    /// Bytes of memory, page cache included.
    pub(super) memory_bytes: Option<Limit<u64>>,
}

/// Reads the limits; `None` when the kernel does not name the groups. O(groups x depth) reads.
pub(super) fn limits(host: &dyn Host) -> Option<Limits> {
    let mut limits = Limits::default();
    for ControlGroup { controllers, dirs } in groups(host)? {
        for dir in &dirs {
            for controller in controllers.split(',') {
                match controller {
                    "" => {
                        tighten(&mut limits.cpus, quota_v2(host, dir));
                        tighten(&mut limits.memory_bytes, memory(host, dir, "memory.max", "max"));
                    }
                    "cpu" => tighten(&mut limits.cpus, quota_v1(host, dir)),
                    "memory" => {
                        let found = memory(host, dir, "memory.limit_in_bytes", "-1");
                        tighten(&mut limits.memory_bytes, found);
                    }
                    _ => {}
                }
            }
        }
    }
    Some(limits)
}

/// Keeps the smaller of two limits.
fn tighten<T: PartialOrd>(kept: &mut Option<Limit<T>>, found: Option<Limit<T>>) {
    let Some(found) = found else { return };
    if kept.as_ref().is_none_or(|kept| found.value < kept.value) {
        *kept = Some(found);
    }
}

/// Directories of this process's group of version 2 and of its ancestors, up to the mount point;
/// `None` where there is no such group.
pub(crate) fn group_dirs(host: &dyn Host) -> Option<Vec<String>> {
    groups(host)?.into_iter().find(|group| group.controllers.is_empty()).map(|group| group.dirs)
}

/// The groups of this process, one a hierarchy that can be seen; `None` when the kernel does not
/// name them.
pub(super) fn groups(host: &dyn Host) -> Option<Vec<ControlGroup>> {
    control_groups(&|path| host.read(path))
}

fn quota_v2(host: &dyn Host, dir: &str) -> Option<Limit<f64>> {
    let file = format!("{dir}/cpu.max");
    let line = host.line(&file)?;
    let (quota, period) = line.split_once(' ')?;
    let value = ratio(quota.parse().ok()?, period.trim().parse().ok()?)?;
    Some(Limit { value, file, lifted: "max" })
}

fn quota_v1(host: &dyn Host, dir: &str) -> Option<Limit<f64>> {
    let file = format!("{dir}/cpu.cfs_quota_us");
    let quota = host.line(&file)?.parse().ok()?;
    let period = host.line(&format!("{dir}/cpu.cfs_period_us"))?.parse().ok()?;
    Some(Limit { value: ratio(quota, period)?, file, lifted: "-1" })
}

/// CPUs of a quota per period, both in microseconds; `None` for -1 and for nonsense.
fn ratio(quota: i64, period: i64) -> Option<f64> {
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

fn memory(host: &dyn Host, dir: &str, name: &str, lifted: &'static str) -> Option<Limit<u64>> {
    let file = format!("{dir}/{name}");
    let value: u64 = host.line(&file)?.parse().ok()?;
    (value < MEMORY_LIMIT_MAX).then_some(Limit { value, file, lifted })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::CapturedHost;

    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";

    fn values(host: &CapturedHost) -> (Option<f64>, Option<u64>) {
        let limits = limits(host).unwrap();
        (limits.cpus.map(|limit| limit.value), limits.memory_bytes.map(|limit| limit.value))
    }

    #[test]
    fn version_two_takes_the_tightest_ancestor() {
        let host = CapturedHost::new();
        host.set_file("/proc/self/cgroup", "0::/a.slice/b.scope\n");
        host.set_file("/proc/self/mountinfo", V2);
        host.set_file("/sys/fs/cgroup/a.slice/b.scope/cpu.max", "max 100000\n");
        host.set_file("/sys/fs/cgroup/a.slice/b.scope/memory.max", "8589934592\n");
        assert_eq!(values(&host), (None, Some(8 << 30)));
        host.set_file("/sys/fs/cgroup/a.slice/cpu.max", "150000 100000\n");
        host.set_file("/sys/fs/cgroup/a.slice/memory.max", "1073741824\n");
        assert_eq!(values(&host), (Some(1.5), Some(1 << 30)));
        let found = limits(&host).unwrap().cpus.unwrap();
        assert_eq!((found.file.as_str(), found.lifted), ("/sys/fs/cgroup/a.slice/cpu.max", "max"));
    }

    #[test]
    fn version_one_in_a_container_strips_the_mounted_root() {
        let host = CapturedHost::new();
        host.set_file("/proc/self/cgroup", "4:memory:/docker/ab\n3:cpu,cpuacct:/docker/ab\n");
        host.set_file(
            "/proc/self/mountinfo",
            "31 30 0:27 /docker/ab /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
             32 30 0:28 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
        );
        host.set_file("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
        host.set_file("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
        host.set_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(values(&host), (None, None));
        host.set_file("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n");
        host.set_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4096\n");
        assert_eq!(values(&host), (Some(0.5), Some(4096)));
    }

    #[test]
    fn a_path_above_the_namespace_reads_the_mount_itself() {
        let host = CapturedHost::new();
        host.set_file("/proc/self/cgroup", "0::/../../x\n");
        host.set_file("/proc/self/mountinfo", V2);
        host.set_file("/sys/fs/cgroup/cpu.max", "200000 100000\n");
        assert_eq!(values(&host), (Some(2.0), None));
    }

    #[test]
    fn malformed_limits_are_no_limits() {
        let host = CapturedHost::new();
        assert_eq!(limits(&host), None);
        host.set_file("/proc/self/cgroup", "0::/\ngarbage\n5:cpu\n");
        assert_eq!(limits(&host), Some(Limits::default()), "no mounts");
        host.set_file("/proc/self/mountinfo", V2);
        for bad in ["", "max", "x 1", "1 x", "-5 100", "100 0"] {
            host.set_file("/sys/fs/cgroup/cpu.max", bad);
            host.set_file("/sys/fs/cgroup/memory.max", bad);
            assert_eq!(values(&host), (None, None), "{bad}");
        }
    }
}

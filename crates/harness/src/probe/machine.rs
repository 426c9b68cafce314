//! Facts about the processor, the kernel and the hypervisor that change what a benchmark measures.
//!
//! Each function reads one fact and answers `None` when the machine does not say. The probe rows
//! and the doctor both use them, so that they never disagree.

use super::Host;
use super::proc::{bracketed, cpu_list, field, mount_of, mounts};

/// CPU frequency governors with the number of CPUs that use each, most used first. Empty where
/// frequency is not the kernel's business, as in most virtual machines. O(CPUs) reads.
pub(super) fn governors(host: &dyn Host) -> Vec<(String, usize)> {
    let mut counted: Vec<(String, usize)> = Vec::new();
    for cpu in host.online_cpus() {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
        let Some(governor) = host.line(&path) else { continue };
        match counted.iter_mut().find(|(known, _)| *known == governor) {
            Some((_, count)) => *count += 1,
            None => counted.push((governor, 1)),
        }
    }
    counted.sort_by(|left, right| right.1.cmp(&left.1).then_with(|| left.0.cmp(&right.0)));
    counted
}

/// Whether the processor may run above its base frequency, and how to stop it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turbo {
    pub(super) on: bool,
    /// File that switches it.
    pub(super) switch: &'static str,
    /// What to write there to switch it off.
    pub(super) off: &'static str,
}

/// State of turbo or boost, from the Intel driver's file or the general one.
pub(super) fn turbo(host: &dyn Host) -> Option<Turbo> {
    let switches = [
        ("/sys/devices/system/cpu/intel_pstate/no_turbo", "1"),
        ("/sys/devices/system/cpu/cpufreq/boost", "0"),
    ];
    switches.into_iter().find_map(|(switch, off)| {
        let state = host.line(switch)?;
        matches!(state.as_str(), "0" | "1").then(|| Turbo { on: state != off, switch, off })
    })
}

/// Whether two online CPUs share a core. O(CPUs) reads where the kernel has no summary.
pub(super) fn smt(host: &dyn Host) -> Option<bool> {
    match host.line("/sys/devices/system/cpu/smt/active").as_deref() {
        Some("0") => return Some(false),
        Some("1") => return Some(true),
        _ => {}
    }
    let siblings: Vec<usize> = host
        .online_cpus()
        .iter()
        .filter_map(|cpu| {
            let topology = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
            let list = host.line(&format!("{topology}/thread_siblings_list"))?;
            Some(cpu_list(&list)?.len())
        })
        .collect();
    if siblings.is_empty() { None } else { Some(siblings.iter().any(|count| *count > 1)) }
}

const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0";

/// The counter behind the kernel's clocks.
pub(super) fn clocksource(host: &dyn Host) -> Option<String> {
    host.line(&format!("{CLOCKSOURCE}/current_clocksource"))
}

/// Whether the kernel would accept `name` as its clock source.
pub(super) fn clocksource_offered(host: &dyn Host, name: &str) -> bool {
    host.line(&format!("{CLOCKSOURCE}/available_clocksource"))
        .is_some_and(|offered| offered.split_whitespace().any(|source| source == name))
}

/// Mode of transparent huge pages: `always`, `madvise` or `never`.
pub(super) fn thp(host: &dyn Host) -> Option<String> {
    let text = host.line("/sys/kernel/mm/transparent_hugepage/enabled")?;
    bracketed(&text).map(str::to_owned)
}

/// CPUs kept out of the scheduler's hands at boot; empty when there are none.
pub(super) fn isolated(host: &dyn Host) -> Option<Vec<usize>> {
    cpu_list(&host.read("/sys/devices/system/cpu/isolated")?)
}

/// Memory nodes with their CPUs, ascending. O(nodes) reads.
pub(super) fn numa(host: &dyn Host) -> Option<Vec<(usize, Vec<usize>)>> {
    let nodes = cpu_list(&host.line("/sys/devices/system/node/online")?)?;
    let with_cpus = nodes.into_iter().map(|node| {
        let list = host.read(&format!("/sys/devices/system/node/node{node}/cpulist"));
        (node, list.and_then(|list| cpu_list(&list)).unwrap_or_default())
    });
    Some(with_cpus.collect())
}

/// Bytes of swap space on all devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Swap {
    pub(super) total: u64,
    pub(super) used: u64,
}

/// Swap space in `/proc/swaps`: a heading, then a line per device with sizes in KiB.
pub(super) fn swap(host: &dyn Host) -> Option<Swap> {
    let text = host.read("/proc/swaps")?;
    let mut lines = text.lines();
    lines.next().filter(|heading| heading.starts_with("Filename"))?;
    let mut swap = Swap::default();
    for line in lines {
        // A path may hold blanks, so the fields are counted from the end.
        let mut fields = line.split_whitespace().rev();
        let (Some(_), Some(used), Some(total)) = (fields.next(), fields.next(), fields.next())
        else {
            return None;
        };
        let kib = |text: &str| text.parse::<u64>().ok()?.checked_mul(1024);
        swap.total = swap.total.checked_add(kib(total)?)?;
        swap.used = swap.used.checked_add(kib(used)?)?;
    }
    Some(swap)
}

/// Tasks running or waiting for a device, averaged over the last minute.
pub(super) fn load1(host: &dyn Host) -> Option<f64> {
    let load: f64 = host.line("/proc/loadavg")?.split(' ').next()?.parse().ok()?;
    (load.is_finite() && load >= 0.0).then_some(load)
}

/// The processor's name; on ARM, where the kernel gives none, the numbers of maker and part.
pub(super) fn cpu_model(host: &dyn Host) -> Option<String> {
    let text = host.read("/proc/cpuinfo")?;
    let named = ["model name", "cpu model", "cpu"].iter().find_map(|key| field(&text, key));
    if let Some(name) = named {
        return Some(name.to_owned());
    }
    let (maker, part) = (field(&text, "CPU implementer")?, field(&text, "CPU part")?);
    Some(format!("implementer {maker} part {part}"))
}

/// The size of the processor's largest cache, as the kernel writes it: `4096 KB`.
pub(super) fn cpu_cache(host: &dyn Host) -> Option<String> {
    field(&host.read("/proc/cpuinfo")?, "cache size").map(str::to_owned)
}

/// `none`, or `virtual machine` with the maker's name where it is told; followed by
/// `, in a container` where that can be seen. x86 says for certain; elsewhere silence is `None`.
pub(super) fn virtualisation(host: &dyn Host) -> Option<String> {
    let cpuinfo = host.read("/proc/cpuinfo").unwrap_or_default();
    let flags = field(&cpuinfo, "flags");
    let hypervisor_flag =
        flags.is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    let named = host
        .line("/sys/hypervisor/type")
        .or_else(|| host.line("/proc/device-tree/hypervisor/compatible"));
    let dmi = |name: &str| host.line(&format!("/sys/class/dmi/id/{name}"));
    let machine = if hypervisor_flag || named.is_some() {
        let maker = named.or_else(|| match (dmi("sys_vendor"), dmi("product_name")) {
            (Some(vendor), Some(product)) => Some(format!("{vendor} {product}")),
            (vendor, product) => vendor.or(product),
        });
        match maker {
            Some(maker) => format!("virtual machine ({})", maker.trim_end_matches('\0')),
            None => "virtual machine".to_owned(),
        }
    } else if flags.is_some() {
        "none".to_owned()
    } else {
        return None;
    };
    Some(if in_container(host) { format!("{machine}, in a container") } else { machine })
}

/// Whether one of the marks that container managers leave is there and the root directory has no
/// block device of its own. A virtual machine started from a container's image keeps the mark, but
/// its root is a disk.
fn in_container(host: &dyn Host) -> bool {
    let marked = ["/.dockerenv", "/run/.containerenv", "/run/systemd/container"]
        .iter()
        .any(|mark| host.read(mark).is_some());
    let mounts = mounts(&host.read("/proc/self/mountinfo").unwrap_or_default());
    marked && mount_of(&mounts, "/", None).is_none_or(|root| root.dev.0 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::CapturedHost;

    #[test]
    fn governors_are_counted() {
        let host = CapturedHost::new();
        assert!(governors(&host).is_empty());
        host.set_file("/sys/devices/system/cpu/online", "0-2\n");
        for (cpu, governor) in [(0, "powersave\n"), (1, "performance\n"), (2, "performance\n")] {
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
            host.set_file(&path, governor);
        }
        let expected = [("performance".to_owned(), 2), ("powersave".to_owned(), 1)];
        assert_eq!(governors(&host), expected);
    }

    #[test]
    fn turbo_has_two_switches_of_opposite_sense() {
        let host = CapturedHost::new();
        assert_eq!(turbo(&host), None);
        host.set_file("/sys/devices/system/cpu/cpufreq/boost", "1\n");
        assert!(turbo(&host).is_some_and(|turbo| turbo.on && turbo.off == "0"));
        host.set_file("/sys/devices/system/cpu/intel_pstate/no_turbo", "1\n");
        assert!(turbo(&host).is_some_and(|turbo| !turbo.on && turbo.off == "1"));
        host.set_file("/sys/devices/system/cpu/intel_pstate/no_turbo", "0\n");
        assert!(turbo(&host).is_some_and(|turbo| turbo.on));
        host.set_file("/sys/devices/system/cpu/intel_pstate/no_turbo", "x\n");
        assert!(turbo(&host).is_some_and(|turbo| turbo.switch.ends_with("boost")));
    }

    #[test]
    fn smt_from_the_summary_or_the_siblings() {
        let host = CapturedHost::new();
        assert_eq!(smt(&host), None);
        host.set_file("/sys/devices/system/cpu/online", "0-1\n");
        let siblings = "/sys/devices/system/cpu/cpu0/topology/thread_siblings_list";
        host.set_file(siblings, "0\n");
        assert_eq!(smt(&host), Some(false));
        host.set_file(siblings, "0-1\n");
        assert_eq!(smt(&host), Some(true));
        host.set_file("/sys/devices/system/cpu/smt/active", "0\n");
        assert_eq!(smt(&host), Some(false));
    }

    #[test]
    fn swap_adds_the_devices_up() {
        let host = CapturedHost::new();
        assert_eq!(swap(&host), None);
        let heading = "Filename\tType\tSize\tUsed\tPriority\n";
        host.set_file("/proc/swaps", heading);
        assert_eq!(swap(&host), Some(Swap::default()));
        host.set_file(
            "/proc/swaps",
            &format!("{heading}/dev/sda2 partition 100 10 -2\n/a swap file 50 0 -3\n"),
        );
        assert_eq!(swap(&host), Some(Swap { total: 150 * 1024, used: 10 * 1024 }));
        for bad in ["", "x\n", "Filename\n/dev/sda2 x\n", "Filename\n/a f b c d\n"] {
            host.set_file("/proc/swaps", bad);
            assert_eq!(swap(&host), None, "{bad}");
        }
    }

    #[test]
    fn load_must_be_a_number() {
        let host = CapturedHost::new();
        host.set_file("/proc/loadavg", "1.25 0.5 0.1 2/300 999\n");
        assert_eq!(load1(&host), Some(1.25));
        for bad in ["", "x", "NaN 1", "inf", "-1 0"] {
            host.set_file("/proc/loadavg", bad);
            assert_eq!(load1(&host), None, "{bad}");
        }
    }

    #[test]
    fn processors_without_a_name_are_named_by_number() {
        let host = CapturedHost::new();
        host.set_file("/proc/cpuinfo", "processor : 0\nCPU implementer : 0x41\nCPU part : 0xd0c\n");
        assert_eq!(cpu_model(&host).as_deref(), Some("implementer 0x41 part 0xd0c"));
        assert_eq!(virtualisation(&host), None);
        host.set_file("/proc/device-tree/hypervisor/compatible", "linux,kvm\0");
        assert_eq!(virtualisation(&host).as_deref(), Some("virtual machine (linux,kvm)"));
        host.set_file("/proc/cpuinfo", "processor : 0\n");
        assert_eq!(cpu_model(&host), None);
    }

    #[test]
    fn memory_nodes_may_have_no_cpus() {
        let host = CapturedHost::new();
        assert_eq!(numa(&host), None);
        host.set_file("/sys/devices/system/node/online", "0,2\n");
        host.set_file("/sys/devices/system/node/node0/cpulist", "0-1\n");
        host.set_file("/sys/devices/system/node/node2/cpulist", "\n");
        assert_eq!(numa(&host), Some(vec![(0, vec![0, 1]), (2, vec![])]));
    }

    #[test]
    fn a_container_has_a_mark_and_no_disk_for_its_root() {
        let host = CapturedHost::new();
        host.set_file("/proc/cpuinfo", "flags : fpu hypervisor\n");
        host.set_file("/proc/self/mountinfo", "1 0 0:50 / / rw - overlay overlay rw\n");
        assert_eq!(virtualisation(&host).as_deref(), Some("virtual machine"), "no mark");
        host.set_file("/.dockerenv", "");
        let inside = Some("virtual machine, in a container");
        assert_eq!(virtualisation(&host).as_deref(), inside);
        host.set_file("/proc/self/mountinfo", "1 0 254:0 / / rw - ext4 /dev/vda rw\n");
        assert_eq!(virtualisation(&host).as_deref(), Some("virtual machine"), "root is a disk");
    }
}

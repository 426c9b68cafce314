//! The system probe: rows of text that say on what machine a number was measured.
//!
//! The first eleven rows have keybench's names, order and shapes; ours follow.
//!
//! ```text
//! host            agora                         data_disks     sdb through sdb3
//! os              Linux 6.2.0-39-generic x86_64 governor       performance
//! cpu             (processor's name)            turbo          off
//! cpu_cores       16                            smt            on
//! cpu_affinity    on (4 cpus: 0-3)              clocksource    tsc
//! ram             46.8 GiB                      virt           none
//! page_size       4096                          thp            madvise
//! data_fs(/d)     76.9 GiB free of 158.9 GiB    kernel         #40-Ubuntu SMP PREEMPT_DYNAMIC
//! data_dev        /dev/sdb3 on /d (ext4)        numa           1 node (0: 0-15)
//! data_disk       solid state                   isolated_cpus  none
//! data_disk_model (drive's name)                cgroup         cpu 1.50, memory 4.0 GiB
//!                                               cpu_cache      12288 KB
//! ```
//!
//! Every row is always there; what cannot be read says `n/a`.

use std::path::Path;

use super::proc::cpu_list_text;
use super::{Host, NOT_AVAILABLE, block, cgroup, machine};

/// Directory that is described when the run has none of its own.
const DEFAULT_DIR: &str = "/tmp";

/// Whether workers are bound to CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PinInfo {
    /// Workers go where the scheduler puts them.
    #[default]
    Off,
    /// Workers are bound to these CPUs, dealt out in turn.
    On(Vec<usize>),
}

/// Rows of the system probe, in order. `data_dir` is the directory the engine writes to, `/tmp`
/// when there is none. O(CPUs + mounts) reads.
#[must_use]
pub fn system_info(
    host: &dyn Host,
    data_dir: Option<&Path>,
    pin: PinInfo,
) -> Vec<(String, String)> {
    let dir = data_dir.map_or(DEFAULT_DIR.into(), |dir| dir.to_string_lossy());
    let place = host.canonical(&dir);
    let space = place.as_deref().and_then(|place| host.statfs(place));
    let storage = place.map(|place| block::storage(host, &place)).unwrap_or_default();
    let cpus = host.online_cpus();
    let rows: Vec<(String, Option<String>)> = vec![
        ("host".into(), host.hostname()),
        ("os".into(), host.uname()),
        ("cpu".into(), machine::cpu_model(host)),
        ("cpu_cores".into(), (!cpus.is_empty()).then(|| cpus.len().to_string())),
        ("cpu_affinity".into(), affinity_text(host, &pin)),
        ("ram".into(), host.ram_bytes().map(gib_text)),
        ("page_size".into(), host.page_size().map(|bytes| bytes.to_string())),
        (
            format!("data_fs({dir})"),
            space
                .map(|space| format!("{} free of {}", gib_text(space.free), gib_text(space.total))),
        ),
        ("data_dev".into(), storage.device_text()),
        ("data_disk".into(), storage.kind_text().map(str::to_owned)),
        ("data_disk_model".into(), storage.model_text()),
        ("data_disks".into(), storage.names_text()),
        ("governor".into(), governor_text(host)),
        ("turbo".into(), machine::turbo(host).map(|turbo| on_off(turbo.on))),
        ("smt".into(), machine::smt(host).map(on_off)),
        ("clocksource".into(), machine::clocksource(host)),
        ("virt".into(), machine::virtualisation(host)),
        ("thp".into(), machine::thp(host)),
        ("kernel".into(), host.line("/proc/sys/kernel/version")),
        ("numa".into(), numa_text(host)),
        ("isolated_cpus".into(), isolated_text(host)),
        ("cgroup".into(), cgroup_text(host)),
        ("cpu_cache".into(), machine::cpu_cache(host)),
    ];
    rows.into_iter()
        .map(|(key, value)| (key, value.unwrap_or_else(|| NOT_AVAILABLE.to_owned())))
        .collect()
}

/// Bytes in the unit that people compare machines by: `46.8 GiB`.
fn gib_text(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1_u64 << 30) as f64)
}

/// Bytes in the largest binary unit up to GiB that is not above them: `512.0 MiB`.
pub(super) fn size_text(bytes: u64) -> String {
    match bytes {
        0..0x400 => format!("{bytes} B"),
        0x400..0x10_0000 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.1} MiB", bytes as f64 / (1_u64 << 20) as f64),
        _ => gib_text(bytes),
    }
}

fn on_off(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

fn affinity_text(host: &dyn Host, pin: &PinInfo) -> Option<String> {
    match pin {
        PinInfo::On(cpus) => {
            let mut cpus = cpus.clone();
            cpus.sort_unstable();
            cpus.dedup();
            Some(format!("on ({} cpus: {})", cpus.len(), cpu_list_text(&cpus)))
        }
        PinInfo::Off => {
            let cpus = host.affinity();
            let text = format!("off ({} cpus available: {})", cpus.len(), cpu_list_text(&cpus));
            (!cpus.is_empty()).then_some(text)
        }
    }
}

/// `performance`, or `performance x6, powersave x2` where CPUs differ.
pub(super) fn governor_text(host: &dyn Host) -> Option<String> {
    let counted = machine::governors(host);
    match counted.as_slice() {
        [] => None,
        [(governor, _)] => Some(governor.clone()),
        many => {
            let parts = many.iter().map(|(governor, count)| format!("{governor} x{count}"));
            Some(parts.collect::<Vec<_>>().join(", "))
        }
    }
}

fn numa_text(host: &dyn Host) -> Option<String> {
    let nodes = machine::numa(host)?;
    let parts = nodes.iter().map(|(node, cpus)| match cpus.as_slice() {
        [] => format!("{node}: no cpus"),
        cpus => format!("{node}: {}", cpu_list_text(cpus)),
    });
    let parts = parts.collect::<Vec<_>>().join("; ");
    let noun = if nodes.len() == 1 { "node" } else { "nodes" };
    Some(format!("{} {noun} ({parts})", nodes.len()))
}

fn isolated_text(host: &dyn Host) -> Option<String> {
    let cpus = machine::isolated(host)?;
    Some(if cpus.is_empty() { "none".to_owned() } else { cpu_list_text(&cpus) })
}

fn cgroup_text(host: &dyn Host) -> Option<String> {
    let limits = cgroup::limits(host)?;
    let parts = [
        limits.cpus.map(|limit| format!("cpu {:.2}", limit.value)),
        limits.memory_bytes.map(|limit| format!("memory {}", size_text(limit.value))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    Some(if parts.is_empty() { "none".to_owned() } else { parts.join(", ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_the_fitting_unit() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1 << 20, "1.0 MiB"),
            (1 << 29, "512.0 MiB"),
            (1 << 30, "1.0 GiB"),
            (3 << 40, "3072.0 GiB"),
        ] {
            assert_eq!(size_text(bytes), text);
        }
        assert_eq!(gib_text(1 << 29), "0.5 GiB");
    }
}

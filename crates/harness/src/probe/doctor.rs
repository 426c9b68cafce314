//! Is this machine fit to measure on? A list of checks, each with a fact and a way out.
//!
//! | check | warns when | fails when |
//! |---|---|---|
//! | `governor` | a CPU's governor is not `performance` | |
//! | `turbo` | turbo or boost is on | |
//! | `smt` | online CPUs share cores | |
//! | `load` | one-minute load above a quarter of the CPUs | |
//! | `swap` | swap space is enabled | |
//! | `data_fs` | overlay, network or user-space file system | data in memory (tmpfs, ramfs) |
//! | `free_space` | below 10 % or 10 GiB | below 1 GiB |
//! | `open_files` | limit below 4096 | |
//! | `steal` | above 1 % of CPU time | above 10 % |
//! | `clocksource` | the kernel does not read the processor's own counter | |
//! | `thp` | transparent huge pages not on `madvise` | |
//! | `isolated_cpus` | isolated CPUs that the run would not use well | |
//! | `affinity` | CPUs online that this process may not use | |
//! | `cgroup_cpu` | a CPU quota below the CPUs it may use | |
//! | `cgroup_memory` | a limit below the machine's memory | |
//! | `build` | | not optimised |
//!
//! All checks are always answered, in this order. A fact that cannot be read is `unknown`, which is
//! not a fault. The remedy is one sentence with what to type; it is empty for a check that passed.
//!
//! Stolen time needs two looks at `/proc/stat`. Nothing here waits, so the caller takes both.

use std::path::Path;

use keyrack_measure::CpuTimes;
use serde::Serialize;

use super::block::{Storage, storage};
use super::cgroup::{self, Limits};
use super::proc::cpu_list_text;
use super::system::{governor_text, size_text};
use super::{FsSpace, Host, machine};

/// Load per CPU above which other work is taken to disturb.
const LOAD_PER_CPU_MAX: f64 = 0.25;
const FREE_SHARE_MIN: f64 = 0.10;
const FREE_BYTES_MIN: u64 = 10 << 30;
const FREE_BYTES_FATAL: u64 = 1 << 30;
const OPEN_FILES_MIN: u64 = 4096;
const STEAL_PCT_MAX: f64 = 1.0;
const STEAL_PCT_FATAL: f64 = 10.0;

/// The kernel's numbers for kinds of file systems.
const TMPFS: u64 = 0x0102_1994;
const RAMFS: u64 = 0x8584_58f6;
const OVERLAY: u64 = 0x794c_7630;
const NOT_LOCAL: [(u64, &str); 6] = [
    (0x6969, "nfs"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "ceph"),
    (0x6573_5546, "fuse"),
];

/// Clock sources that are a counter of the processor itself.
const OWN_COUNTERS: [&str; 4] =
    ["tsc", "arch_sys_counter", "riscv_clocksource", "hyperv_clocksource_tsc_page"];

/// Outcome of a check, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Nothing to do.
    Ok,
    /// The machine does not say.
    Unknown,
    /// Numbers may be off, or vary from run to run.
    Warn,
    /// Numbers would be wrong.
    Fail,
}

/// Answer to one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Short name of the check.
    pub name: &'static str,
    /// How it came out.
    pub status: Status,
    /// What was found, in words with units.
    pub fact: String,
    /// One sentence that says what to type or change; empty when the status is [`Status::Ok`].
    pub remedy: String,
}

/// What the doctor cannot find out by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkup<'a> {
    /// Directory that an engine would write to, if any.
    pub data_dir: Option<&'a Path>,
    /// Texts of `/proc/stat` at the beginning and the end of a quiet stretch, a second or so apart.
    pub stats: Option<(&'a str, &'a str)>,
    /// Whether workers will be bound to CPUs.
    pub pinned: bool,
    /// Whether the program was built with optimisation.
    pub optimized: bool,
}

impl Default for Checkup<'_> {
    /// No directory, no second look, no binding. A build without debug assertions is taken to be
    /// optimised; a caller that knows the build better overrides it.
    fn default() -> Self {
        Checkup { data_dir: None, stats: None, pinned: false, optimized: !cfg!(debug_assertions) }
    }
}

/// Makes all the checks, in a fixed order. O(CPUs + mounts) reads; milliseconds.
#[must_use]
pub fn doctor(host: &dyn Host, checkup: &Checkup<'_>) -> Vec<Finding> {
    let place = checkup.data_dir.and_then(|dir| host.canonical(&dir.to_string_lossy()));
    let space = place.as_deref().and_then(|place| host.statfs(place));
    let storage = place.as_deref().map(|place| storage(host, place));
    let limits = cgroup::limits(host);
    vec![
        governor(host),
        turbo(host),
        smt(host),
        load(host),
        swap(host),
        data_fs(checkup.data_dir, space, storage.as_ref()),
        free_space(checkup.data_dir, space),
        open_files(host),
        steal(checkup.stats),
        clocksource(host),
        thp(host),
        isolated_cpus(host, checkup.pinned),
        affinity(host),
        cgroup_cpu(host, limits.as_ref()),
        cgroup_memory(host, limits.as_ref()),
        build(checkup.optimized),
    ]
}

fn finding(
    name: &'static str,
    status: Status,
    fact: impl Into<String>,
    remedy: impl Into<String>,
) -> Finding {
    let remedy = if status == Status::Ok { String::new() } else { remedy.into() };
    Finding { name, status, fact: fact.into(), remedy }
}

/// The status of a check that only warns.
fn warn_if(wrong: bool) -> Status {
    if wrong { Status::Warn } else { Status::Ok }
}

fn governor(host: &dyn Host) -> Finding {
    const NAME: &str = "governor";
    let Some(text) = governor_text(host) else {
        let fact = "the kernel does not control the CPU frequency";
        let remedy = "set the power profile of the firmware, or of the virtual machine's host, to \
                      maximum performance";
        return finding(NAME, Status::Unknown, fact, remedy);
    };
    let fact = format!("CPU frequency governor: {text}");
    let remedy = "type `echo performance | sudo tee \
                  /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor`";
    finding(NAME, warn_if(text != "performance"), fact, remedy)
}

fn turbo(host: &dyn Host) -> Finding {
    const NAME: &str = "turbo";
    match machine::turbo(host) {
        Some(turbo) if turbo.on => {
            let fact = "turbo is on: speed depends on heat and on how many cores work";
            let remedy = format!("type `echo {} | sudo tee {}`", turbo.off, turbo.switch);
            finding(NAME, Status::Warn, fact, remedy)
        }
        Some(_) => finding(NAME, Status::Ok, "turbo is off", ""),
        None => finding(
            NAME,
            Status::Unknown,
            "the kernel has no switch for turbo",
            "switch turbo off in the firmware, or repeat runs with `--repeat 5` to see the spread",
        ),
    }
}

fn smt(host: &dyn Host) -> Finding {
    const NAME: &str = "smt";
    let remedy = "type `echo off | sudo tee /sys/devices/system/cpu/smt/control`";
    match machine::smt(host) {
        Some(true) => {
            finding(NAME, Status::Warn, "CPUs share cores: two threads can slow each other", remedy)
        }
        Some(false) => finding(NAME, Status::Ok, "no two CPUs share a core", ""),
        None => finding(
            NAME,
            Status::Unknown,
            "the kernel does not tell which CPUs share cores",
            "look at `lscpu --extended` and use one CPU of each core with `taskset -c`",
        ),
    }
}

fn load(host: &dyn Host) -> Finding {
    const NAME: &str = "load";
    let remedy =
        "stop what `top -b -n 1` shows at its head, then wait until `cat /proc/loadavg` falls";
    let cpus = host.online_cpus().len();
    match machine::load1(host) {
        Some(load) if cpus > 0 => {
            let fact = format!("load of the last minute is {load:.2} on {cpus} CPUs");
            finding(NAME, warn_if(load > LOAD_PER_CPU_MAX * cpus as f64), fact, remedy)
        }
        _ => finding(NAME, Status::Unknown, "the load cannot be read", remedy),
    }
}

fn swap(host: &dyn Host) -> Finding {
    const NAME: &str = "swap";
    let remedy = "type `sudo swapoff -a`";
    let Some(swap) = machine::swap(host) else {
        return finding(NAME, Status::Unknown, "the swap space cannot be read", remedy);
    };
    let fact = if swap.total == 0 {
        "no swap space".to_owned()
    } else if swap.used == 0 {
        format!("{} of swap space enabled, none in use", size_text(swap.total))
    } else {
        format!("{} of {} of swap space in use", size_text(swap.used), size_text(swap.total))
    };
    finding(NAME, warn_if(swap.total > 0), fact, remedy)
}

fn data_fs(dir: Option<&Path>, space: Option<FsSpace>, storage: Option<&Storage>) -> Finding {
    const NAME: &str = "data_fs";
    let Some(dir) = dir else { return no_data_dir(NAME) };
    let shown = dir.display();
    let elsewhere = "name a directory on the disk to measure with `--data-dir /mnt/disk`";
    let kind =
        storage.and_then(|storage| storage.mount.as_ref()).map(|mount| mount.fstype.as_str());
    let magic = space.map(|space| space.magic);
    let not_local = NOT_LOCAL.iter().find(|(number, _)| Some(*number) == magic);
    match (magic, kind) {
        (Some(TMPFS | RAMFS), _) | (None, Some("tmpfs" | "ramfs")) => {
            finding(NAME, Status::Fail, format!("{shown} is in memory, not on a disk"), elsewhere)
        }
        (Some(OVERLAY), _) | (None, Some("overlay")) => finding(
            NAME,
            Status::Warn,
            format!("{shown} is on an overlay: the first write to a file copies it"),
            "give the container a volume with `-v /mnt/disk:/data` and use `--data-dir /data`",
        ),
        (Some(_), _) if not_local.is_some() => {
            let what = kind.or(not_local.map(|(_, name)| *name)).unwrap_or_default();
            let fact = format!("{shown} is on {what}, not on a local disk");
            finding(NAME, Status::Warn, fact, elsewhere)
        }
        (None, None) => finding(
            NAME,
            Status::Unknown,
            format!("the file system of {shown} cannot be read"),
            format!("look at `findmnt -T {}`", quoted(dir)),
        ),
        _ => {
            let fact = storage.and_then(Storage::device_text);
            finding(NAME, Status::Ok, fact.unwrap_or_else(|| format!("{shown} is on a disk")), "")
        }
    }
}

fn no_data_dir(name: &'static str) -> Finding {
    let remedy = "add `--data-dir DIR` to have the directory checked";
    finding(name, Status::Unknown, "no data directory was named", remedy)
}

fn free_space(dir: Option<&Path>, space: Option<FsSpace>) -> Finding {
    const NAME: &str = "free_space";
    let Some(dir) = dir else { return no_data_dir(NAME) };
    let shown = dir.display();
    let Some(space) = space else {
        let fact = format!("the free space of {shown} cannot be read");
        return finding(NAME, Status::Unknown, fact, format!("look at `df -h {}`", quoted(dir)));
    };
    let low_share = (space.free as f64) < FREE_SHARE_MIN * space.total as f64;
    let status = if space.free < FREE_BYTES_FATAL {
        Status::Fail
    } else {
        warn_if(low_share || space.free < FREE_BYTES_MIN)
    };
    let fact = format!("{} free of {}", size_text(space.free), size_text(space.total));
    let remedy = format!(
        "delete what `sudo du -xh {} | sort -h | tail` shows, or name a larger disk with \
         `--data-dir`",
        quoted(dir)
    );
    finding(NAME, status, fact, remedy)
}

/// A path as one word of a shell's command.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}

fn open_files(host: &dyn Host) -> Finding {
    const NAME: &str = "open_files";
    let remedy = "type `ulimit -n 65536` in the shell that starts the run";
    match host.open_file_limit() {
        Some(u64::MAX) => finding(NAME, Status::Ok, "no limit on open files", ""),
        Some(limit) => {
            let fact = format!("at most {limit} files can be open");
            finding(NAME, warn_if(limit < OPEN_FILES_MIN), fact, remedy)
        }
        None => finding(NAME, Status::Unknown, "the limit on open files cannot be read", remedy),
    }
}

fn steal(stats: Option<(&str, &str)>) -> Finding {
    const NAME: &str = "steal";
    let share =
        stats.and_then(|(before, after)| CpuTimes::parse(after)?.since(&CpuTimes::parse(before)?));
    let Some(share) = share else {
        let fact = "stolen CPU time was not measured";
        return finding(NAME, Status::Unknown, fact, "look at the column st of `vmstat 1 5`");
    };
    let pct = share.steal_pct;
    let status = if pct > STEAL_PCT_FATAL { Status::Fail } else { warn_if(pct > STEAL_PCT_MAX) };
    let fact = format!("the hypervisor took {pct:.1} % of the CPU time for others");
    let remedy =
        "move to a dedicated host, or repeat runs with `--repeat 5` and look at the spread";
    finding(NAME, status, fact, remedy)
}

fn clocksource(host: &dyn Host) -> Finding {
    const NAME: &str = "clocksource";
    let Some(source) = machine::clocksource(host) else {
        return finding(
            NAME,
            Status::Unknown,
            "the clock source cannot be read",
            "look at `sudo dmesg | grep -i clocksource`",
        );
    };
    let remedy = if machine::clocksource_offered(host, "tsc") {
        "type `echo tsc | sudo tee \
         /sys/devices/system/clocksource/clocksource0/current_clocksource`"
    } else {
        "add `tsc=reliable clocksource=tsc` to the kernel's command line and restart the machine"
    };
    let status = warn_if(!OWN_COUNTERS.contains(&source.as_str()));
    finding(NAME, status, format!("clock source: {source}"), remedy)
}

fn thp(host: &dyn Host) -> Finding {
    const NAME: &str = "thp";
    let remedy = "type `echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled`";
    match machine::thp(host).as_deref() {
        Some("always") => {
            let fact = "transparent huge pages: always, so the kernel moves memory when it likes";
            finding(NAME, Status::Warn, fact, remedy)
        }
        Some("never") => {
            let fact = "transparent huge pages: never, so an engine that asks for them gets none";
            finding(NAME, Status::Warn, fact, remedy)
        }
        Some(mode) => finding(NAME, Status::Ok, format!("transparent huge pages: {mode}"), ""),
        None => finding(NAME, Status::Unknown, "huge pages: the mode cannot be read", remedy),
    }
}

fn isolated_cpus(host: &dyn Host, pinned: bool) -> Finding {
    const NAME: &str = "isolated_cpus";
    let Some(isolated) = machine::isolated(host) else {
        let remedy = "look for `isolcpus=` in `cat /proc/cmdline`";
        return finding(NAME, Status::Unknown, "isolated CPUs cannot be read", remedy);
    };
    if isolated.is_empty() {
        return finding(NAME, Status::Ok, "no CPUs are isolated", "");
    }
    let list = cpu_list_text(&isolated);
    let used = host.affinity().iter().any(|cpu| isolated.contains(cpu));
    let remedy = format!("start the run with `taskset -c {list}` before it and `--pin` after it");
    let (status, fact) = match (used, pinned) {
        (false, _) => (Status::Warn, format!("CPUs {list} are isolated and would not be used")),
        (true, false) => (
            Status::Warn,
            format!("CPUs {list} are isolated: threads that are not bound stay on one of them"),
        ),
        (true, true) => (Status::Ok, format!("CPUs {list} are isolated and threads are bound")),
    };
    finding(NAME, status, fact, remedy)
}

fn affinity(host: &dyn Host) -> Finding {
    const NAME: &str = "affinity";
    let (online, allowed) = (host.online_cpus(), host.affinity());
    if online.is_empty() || allowed.is_empty() {
        let fact = "the CPUs that may be used cannot be read";
        return finding(NAME, Status::Unknown, fact, "look at `taskset -cp $$`");
    }
    let isolated = machine::isolated(host).unwrap_or_default();
    let denied = |cpu: &&usize| !allowed.contains(cpu) && !isolated.contains(cpu);
    let denied: Vec<usize> = online.iter().filter(denied).copied().collect();
    let fact = format!(
        "this process may use {} of {} CPUs: {}",
        allowed.len(),
        online.len(),
        cpu_list_text(&allowed)
    );
    let all = cpu_list_text(&online);
    let remedy = format!("type `taskset -cp {all} $$` in the shell that starts the run");
    finding(NAME, warn_if(!denied.is_empty()), fact, remedy)
}

fn cgroup_cpu(host: &dyn Host, limits: Option<&Limits>) -> Finding {
    const NAME: &str = "cgroup_cpu";
    let Some(limits) = limits else { return no_cgroups(NAME) };
    let Some(limit) = &limits.cpus else {
        return finding(NAME, Status::Ok, "no CPU quota", "");
    };
    let (online, allowed) = (host.online_cpus().len(), host.affinity().len());
    let usable = if allowed == 0 { online } else { allowed };
    let fact = format!("the control group allows {:.2} of {usable} CPUs", limit.value);
    let remedy = format!("type `echo {} | sudo tee {}`", limit.lifted, limit.file);
    finding(NAME, warn_if(limit.value < usable as f64), fact, remedy)
}

fn cgroup_memory(host: &dyn Host, limits: Option<&Limits>) -> Finding {
    const NAME: &str = "cgroup_memory";
    let Some(limits) = limits else { return no_cgroups(NAME) };
    let Some(limit) = &limits.memory_bytes else {
        return finding(NAME, Status::Ok, "no memory limit", "");
    };
    let ram = host.ram_bytes();
    let of_ram = ram.map(|ram| format!(" of {}", size_text(ram))).unwrap_or_default();
    let fact =
        format!("the control group allows {}{of_ram}, page cache included", size_text(limit.value));
    let remedy = format!("type `echo {} | sudo tee {}`", limit.lifted, limit.file);
    finding(NAME, warn_if(ram.is_none_or(|ram| limit.value < ram)), fact, remedy)
}

fn no_cgroups(name: &'static str) -> Finding {
    let fact = "control groups cannot be read";
    finding(name, Status::Unknown, fact, "look at `cat /proc/self/cgroup`")
}

fn build(optimized: bool) -> Finding {
    const NAME: &str = "build";
    if optimized {
        return finding(NAME, Status::Ok, "the program is optimized", "");
    }
    let fact = "the program is a debug build";
    finding(
        NAME,
        Status::Fail,
        fact,
        "type `cargo build --release` and run `target/release/keyrack`",
    )
}

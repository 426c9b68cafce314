//! What the control group of this process has used: read before and after a phase.
//!
//! | | version 2 | version 1 |
//! |---|---|---|
//! | CPU | `cpu.stat`: `usage_usec user_usec system_usec` | `cpuacct.usage`; `cpuacct.stat` |
//! | throttling | `cpu.stat`: `nr_periods nr_throttled throttled_usec` | `cpu.stat`, time in ns |
//! | memory | `memory.current memory.peak` | `memory.usage_in_bytes memory.max_usage_in_bytes` |
//! | devices | `io.stat`: `rbytes wbytes rios wios` | `blkio.throttle.io_service_bytes`, `..serviced` |
//!
//! The group is the process's own, not its ancestors. A machine may have both versions at once,
//! each with some controllers: what version 2 does not say is taken from version 1, or the other
//! way round where the process is in the root of version 2. What neither says is `None`, and the
//! probe names it once.

use super::Host;
use super::cgroup::groups;
use keyrack_record::CgroupUse;
use keyrack_vfs::ControlGroup;

/// Parts of a second in which version 1 counts user and system time: `USER_HZ`, which is 100 on
/// every architecture that Linux still has.
const TICKS_PER_S: f64 = 100.0;

/// Totals since the group began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CgroupTotals(CgroupUse);

impl CgroupTotals {
    /// Reads the files of the group. O(files).
    pub(crate) fn read(host: &dyn Host) -> CgroupTotals {
        let groups = groups(host).unwrap_or_default();
        let dir = |name: &str| of_controller(&groups, name).map(ControlGroup::dir);
        let (mut two, mut one) = (CgroupUse::default(), CgroupUse::default());
        let own = groups.iter().find(|own| own.controllers.is_empty());
        if let Some(own) = own {
            version_two(host, own.dir(), &mut two);
        }
        version_one(host, &dir, &mut one);
        // Where both are in use the root of version 2 is the machine, and version 1 has our group.
        CgroupTotals(match own {
            Some(own) if !own.is_root() => either(two, one),
            _ => either(one, two),
        })
    }

    /// What was used between two readings; `None` where nothing is known. Memory is that of `now`.
    pub(crate) fn until(self, now: CgroupTotals) -> Option<CgroupUse> {
        let (then, now) = (self.0, now.0);
        let seconds = |now: Option<f64>, then: Option<f64>| {
            Some((now? - then?).max(0.0)).filter(|s| s.is_finite())
        };
        let count = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        let used = CgroupUse {
            cpu_s: seconds(now.cpu_s, then.cpu_s),
            user_s: seconds(now.user_s, then.user_s),
            system_s: seconds(now.system_s, then.system_s),
            periods: count(now.periods, then.periods),
            throttled_periods: count(now.throttled_periods, then.throttled_periods),
            throttled_s: seconds(now.throttled_s, then.throttled_s),
            memory_bytes: now.memory_bytes,
            memory_peak_bytes: now.memory_peak_bytes,
            read_bytes: count(now.read_bytes, then.read_bytes),
            written_bytes: count(now.written_bytes, then.written_bytes),
            reads: count(now.reads, then.reads),
            writes: count(now.writes, then.writes),
        };
        used.any().then_some(used)
    }
}

/// The facts of a probe: which group, by which version, and what of it is told.
pub(crate) fn cgroup_info(host: &dyn Host) -> Vec<(String, String)> {
    let groups = groups(host).unwrap_or_default();
    let shown = |own: Option<&ControlGroup>| match own {
        Some(own) if own.is_root() => format!("{} (the root: the whole machine)", own.dir()),
        Some(own) => own.dir().to_owned(),
        None => super::NOT_AVAILABLE.to_owned(),
    };
    let of = |name: &str| shown(of_controller(&groups, name));
    let two = groups.iter().find(|own| own.controllers.is_empty());
    let CgroupTotals(totals) = CgroupTotals::read(host);
    let told = |is_told: bool| {
        if is_told {
            "told".to_owned()
        } else {
            format!("{}: the group has no such file", super::NOT_AVAILABLE)
        }
    };
    let rows = [
        ("version_2", shown(two)),
        ("v1_cpu", of("cpuacct")),
        ("v1_memory", of("memory")),
        ("v1_devices", of("blkio")),
        ("cpu", told(totals.cpu_s.is_some())),
        ("throttling", told(totals.throttled_periods.is_some())),
        ("memory", told(totals.memory_bytes.is_some())),
        ("memory_peak", told(totals.memory_peak_bytes.is_some())),
        ("devices", told(totals.read_bytes.is_some())),
    ];
    rows.map(|(name, value)| (name.to_owned(), value)).into()
}

/// The group of version 1 that has a controller.
fn of_controller<'g>(groups: &'g [ControlGroup], name: &str) -> Option<&'g ControlGroup> {
    groups.iter().find(|group| group.controllers.split(',').any(|own| own == name))
}

/// What `first` says, and of what it does not what `second` says.
fn either(first: CgroupUse, second: CgroupUse) -> CgroupUse {
    CgroupUse {
        cpu_s: first.cpu_s.or(second.cpu_s),
        user_s: first.user_s.or(second.user_s),
        system_s: first.system_s.or(second.system_s),
        periods: first.periods.or(second.periods),
        throttled_periods: first.throttled_periods.or(second.throttled_periods),
        throttled_s: first.throttled_s.or(second.throttled_s),
        memory_bytes: first.memory_bytes.or(second.memory_bytes),
        memory_peak_bytes: first.memory_peak_bytes.or(second.memory_peak_bytes),
        read_bytes: first.read_bytes.or(second.read_bytes),
        written_bytes: first.written_bytes.or(second.written_bytes),
        reads: first.reads.or(second.reads),
        writes: first.writes.or(second.writes),
    }
}

fn version_two(host: &dyn Host, dir: &str, totals: &mut CgroupUse) {
    let text = host.read(&format!("{dir}/cpu.stat")).unwrap_or_default();
    let micros = |name| number(&text, name).map(|usec| usec as f64 / 1e6);
    totals.cpu_s = micros("usage_usec");
    totals.user_s = micros("user_usec");
    totals.system_s = micros("system_usec");
    totals.periods = number(&text, "nr_periods");
    totals.throttled_periods = number(&text, "nr_throttled");
    totals.throttled_s = micros("throttled_usec");
    totals.memory_bytes = whole(host, &format!("{dir}/memory.current"));
    totals.memory_peak_bytes = whole(host, &format!("{dir}/memory.peak"));
    if let Some(text) = host.read(&format!("{dir}/io.stat")) {
        // An empty file is a group that has not touched a device.
        let sum = |name: &str| -> u64 {
            let words = text.split_whitespace().filter_map(|word| word.split_once('='));
            words.filter(|(key, _)| *key == name).filter_map(|(_, n)| n.parse::<u64>().ok()).sum()
        };
        totals.read_bytes = Some(sum("rbytes"));
        totals.written_bytes = Some(sum("wbytes"));
        totals.reads = Some(sum("rios"));
        totals.writes = Some(sum("wios"));
    }
}

fn version_one<'d>(host: &dyn Host, dir: &dyn Fn(&str) -> Option<&'d str>, totals: &mut CgroupUse) {
    if let Some(dir) = dir("cpuacct") {
        let text = host.read(&format!("{dir}/cpuacct.stat")).unwrap_or_default();
        let ticks = |name| number(&text, name).map(|ticks| ticks as f64 / TICKS_PER_S);
        let usage = whole(host, &format!("{dir}/cpuacct.usage")).map(|ns| ns as f64 / 1e9);
        totals.cpu_s = usage;
        totals.user_s = ticks("user");
        totals.system_s = ticks("system");
    }
    if let Some(dir) = dir("cpu") {
        let text = host.read(&format!("{dir}/cpu.stat")).unwrap_or_default();
        let throttled = number(&text, "throttled_time").map(|ns| ns as f64 / 1e9);
        totals.periods = number(&text, "nr_periods");
        totals.throttled_periods = number(&text, "nr_throttled");
        totals.throttled_s = throttled;
    }
    if let Some(dir) = dir("memory") {
        let (now, most) = ("memory.usage_in_bytes", "memory.max_usage_in_bytes");
        totals.memory_bytes = whole(host, &format!("{dir}/{now}"));
        totals.memory_peak_bytes = whole(host, &format!("{dir}/{most}"));
    }
    if let Some(dir) = dir("blkio") {
        let bytes = host.read(&format!("{dir}/blkio.throttle.io_service_bytes"));
        let calls = host.read(&format!("{dir}/blkio.throttle.io_serviced"));
        let of = |text: &Option<String>, name| text.as_deref().map(|text| by_device(text, name));
        totals.read_bytes = of(&bytes, "Read");
        totals.written_bytes = of(&bytes, "Write");
        totals.reads = of(&calls, "Read");
        totals.writes = of(&calls, "Write");
    }
}

/// The number behind `name` in lines of a name and a number.
fn number(text: &str, name: &str) -> Option<u64> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.find(|(key, _)| *key == name).and_then(|(_, number)| number.trim().parse().ok())
}

fn whole(host: &dyn Host, path: &str) -> Option<u64> {
    host.line(path)?.parse().ok()
}

/// The sum over devices of lines such as `8:0 Read 4096`.
fn by_device(text: &str, name: &str) -> u64 {
    let of_line = |line: &str| -> Option<u64> {
        let mut words = line.split(' ').skip(1);
        (words.next()? == name).then(|| words.next()?.parse().ok())?
    };
    text.lines().filter_map(of_line).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::{CapturedHost, LinuxHost};

    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

    fn version_two_host() -> CapturedHost {
        let host = CapturedHost::new();
        host.set_file("/proc/self/cgroup", "0::/a\n");
        host.set_file("/proc/self/mountinfo", V2);
        host
    }

    fn set(host: &CapturedHost, name: &str, text: &str) {
        host.set_file(&format!("/sys/fs/cgroup/a/{name}"), text);
    }

    #[test]
    fn version_two_tells_time_throttling_memory_and_devices() {
        let host = version_two_host();
        let cpu = |usage: u64, throttled: u64| {
            format!(
                "usage_usec {usage}\nuser_usec 10\nsystem_usec 5\nnr_periods 7\n\
                 nr_throttled {throttled}\nthrottled_usec {}\n",
                throttled * 1000
            )
        };
        set(&host, "cpu.stat", &cpu(1_000_000, 2));
        set(&host, "memory.current", "4096\n");
        set(&host, "io.stat", "8:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n");
        let before = CgroupTotals::read(&host);
        set(&host, "cpu.stat", &cpu(3_500_000, 5));
        set(&host, "memory.current", "8192\n");
        set(&host, "memory.peak", "16384\n");
        let io = "8:0 rbytes=110 wbytes=20 rios=3 wios=2\n8:16 rbytes=5 wbytes=7 rios=1 wios=1\n";
        set(&host, "io.stat", io);
        let used = before.until(CgroupTotals::read(&host)).unwrap();
        assert_eq!(
            (used.cpu_s, used.throttled_periods, used.periods),
            (Some(2.5), Some(3), Some(0))
        );
        assert!((used.throttled_s.unwrap() - 0.003).abs() < 1e-12);
        assert_eq!((used.memory_bytes, used.memory_peak_bytes), (Some(8192), Some(16384)));
        assert_eq!((used.read_bytes, used.written_bytes), (Some(105), Some(7)));
        assert_eq!((used.reads, used.writes), (Some(3), Some(1)));
    }

    #[test]
    fn what_version_two_does_not_say_comes_from_version_one() {
        let host = CapturedHost::new();
        host.set_file("/proc/self/cgroup", "5:memory:/m\n4:cpu,cpuacct:/c\n3:blkio:/\n0::/\n");
        host.set_file(
            "/proc/self/mountinfo",
            "30 23 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
             31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
             32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             33 30 0:29 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n",
        );
        let v1 = "/sys/fs/cgroup";
        host.set_file(&format!("{v1}/cpu,cpuacct/c/cpuacct.usage"), "2000000000\n");
        host.set_file(&format!("{v1}/cpu,cpuacct/c/cpuacct.stat"), "user 150\nsystem 50\n");
        let stat = "nr_periods 4\nnr_throttled 1\nthrottled_time 500000000\n";
        host.set_file(&format!("{v1}/cpu,cpuacct/c/cpu.stat"), stat);
        host.set_file(&format!("{v1}/memory/m/memory.usage_in_bytes"), "99\n");
        host.set_file(
            &format!("{v1}/blkio/blkio.throttle.io_service_bytes"),
            "8:0 Read 40\n8:0 Write 2\n8:16 Read 2\nTotal 44\n",
        );
        let CgroupTotals(totals) = CgroupTotals::read(&host);
        assert_eq!(
            (totals.cpu_s, totals.user_s, totals.system_s),
            (Some(2.0), Some(1.5), Some(0.5))
        );
        assert_eq!((totals.throttled_periods, totals.throttled_s), (Some(1), Some(0.5)));
        assert_eq!((totals.memory_bytes, totals.memory_peak_bytes), (Some(99), None));
        assert_eq!((totals.read_bytes, totals.written_bytes), (Some(42), Some(2)));
        assert_eq!(totals.reads, None);
        let facts = cgroup_info(&host);
        let fact = |name: &str| facts.iter().find(|(key, _)| key == name).unwrap().1.as_str();
        assert_eq!(fact("version_2"), "/sys/fs/cgroup/unified (the root: the whole machine)");
        assert_eq!(fact("v1_memory"), "/sys/fs/cgroup/memory/m");
        // The root of version 2 speaks of the whole machine.
        host.set_file("/sys/fs/cgroup/unified/cpu.stat", "usage_usec 9000000\nnr_periods 3\n");
        let CgroupTotals(totals) = CgroupTotals::read(&host);
        assert_eq!((totals.cpu_s, totals.periods), (Some(2.0), Some(4)));
        assert_eq!(fact("memory_peak"), "n/a: the group has no such file");
    }

    #[test]
    fn what_nobody_tells_is_missing_and_not_zero() {
        let host = CapturedHost::new();
        let before = CgroupTotals::read(&host);
        assert_eq!(before.until(CgroupTotals::read(&host)), None);
        assert!(cgroup_info(&host).iter().all(|(_, value)| value.starts_with("n/a")));
        let host = version_two_host();
        set(&host, "cpu.stat", "usage_usec x\nnr_throttled\n");
        let before = CgroupTotals::read(&host);
        assert_eq!(before.until(CgroupTotals::read(&host)), None);
    }

    #[test]
    fn the_running_machine_never_goes_back() {
        let before = CgroupTotals::read(&LinuxHost);
        let used = before.until(CgroupTotals::read(&LinuxHost));
        assert!(used.is_none_or(|used| used.cpu_s.is_none_or(|s| (0.0..3600.0).contains(&s))));
    }
}

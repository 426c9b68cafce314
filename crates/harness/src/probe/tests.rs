//! Whole machines, kept as text in `machines/`, seen through the probes; then this machine.
//!
//! Each text is a machine of another kind. The tests compare the rows that its kind decides. The
//! doctor's rules are tested one by one, each on a machine that has only what the rule reads.

use std::path::Path;

use super::*;

fn machine(text: &str) -> CapturedHost {
    CapturedHost::parse(text).unwrap()
}

fn laptop() -> CapturedHost {
    machine(include_str!("machines/laptop.txt"))
}

fn container() -> CapturedHost {
    machine(include_str!("machines/container.txt"))
}

fn raid() -> CapturedHost {
    machine(include_str!("machines/raid.txt"))
}

fn vm() -> CapturedHost {
    machine(include_str!("machines/vm.txt"))
}

fn rows(host: &dyn Host, dir: &str) -> Vec<(String, String)> {
    system_info(host, Some(Path::new(dir)), PinInfo::Off)
}

fn expect_rows(rows: &[(String, String)], expected: &[(&str, &str)]) {
    for (key, value) in expected {
        let found = rows.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
        assert_eq!(found, Some(*value), "{key}");
    }
}

const KEYS: [&str; 23] = [
    "host",
    "os",
    "cpu",
    "cpu_cores",
    "cpu_affinity",
    "ram",
    "page_size",
    "data_fs(/d)",
    "data_dev",
    "data_disk",
    "data_disk_model",
    "data_disks",
    "governor",
    "turbo",
    "smt",
    "clocksource",
    "virt",
    "thp",
    "kernel",
    "numa",
    "isolated_cpus",
    "cgroup",
    "cpu_cache",
];

#[test]
fn laptop_with_nvme_and_ext4() {
    let rows = rows(&laptop(), "/home/ada/data");
    let expected = [
        ("host", "ada-x1"),
        ("os", "Linux 6.8.0-45-generic x86_64"),
        ("cpu", "11th Gen Intel(R) Core(TM) i7-1165G7 @ 2.80GHz"),
        ("cpu_cores", "8"),
        ("cpu_affinity", "off (8 cpus available: 0-7)"),
        ("ram", "15.4 GiB"),
        ("page_size", "4096"),
        ("data_fs(/home/ada/data)", "183.3 GiB free of 467.9 GiB"),
        ("data_dev", "/dev/nvme0n1p2 on / (ext4)"),
        ("data_disk", "solid state"),
        ("data_disk_model", "SAMSUNG MZVLB512HBJQ-000L7"),
        ("data_disks", "nvme0n1 through nvme0n1p2"),
        ("governor", "powersave"),
        ("turbo", "on"),
        ("smt", "on"),
        ("clocksource", "tsc"),
        ("virt", "none"),
        ("thp", "madvise"),
        ("kernel", "#45-Ubuntu SMP PREEMPT_DYNAMIC Fri Aug 30 12:02:04 UTC 2024"),
        ("numa", "1 node (0: 0-7)"),
        ("isolated_cpus", "none"),
        ("cgroup", "none"),
        ("cpu_cache", "12288 KB"),
    ];
    let shown: Vec<(&str, &str)> = rows.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(shown, expected);
}

#[test]
fn volume_in_a_crypt_on_a_partition() {
    let host = machine(include_str!("machines/crypt.txt"));
    let expected = [
        ("os", "Linux n/a n/a"),
        ("data_dev", "/dev/mapper/vg0-data on /srv/bench data (ext4)"),
        ("data_disk", "solid state"),
        ("data_disk_model", "WDC WDS500G2B0A"),
        ("data_disks", "sdb through dm-2 dm-0 sdb3"),
    ];
    expect_rows(&rows(&host, "/srv/bench data/run"), &expected);
    let root = [
        ("data_dev", "/dev/mapper/vg0-root on / (xfs)"),
        ("data_disks", "sdb through dm-1 dm-0 sdb3"),
    ];
    expect_rows(&rows(&host, "/srv/bench"), &root);
}

#[test]
fn raid_over_hard_disks() {
    let expected = [
        ("data_fs(/tank/x)", "838.2 GiB free of 7450.6 GiB"),
        ("data_dev", "/dev/md0 on /tank (xfs)"),
        ("data_disk", "rotational (HDD)"),
        ("data_disk_model", "2 x WDC WD40EFRX-68N, ST4000VN008-2DR1"),
        ("data_disks", "sda sdb sdd through md0 sda1 sdb1 sdd1"),
        ("cpu_affinity", "off (12 cpus available: 0-3,8-15)"),
        ("governor", "performance x2, schedutil x1"),
        ("turbo", "off"),
        ("smt", "off"),
        ("numa", "2 nodes (0: 0-7; 1: 8-15)"),
        ("isolated_cpus", "4-7"),
        ("host", "n/a"),
        ("ram", "n/a"),
    ];
    expect_rows(&rows(&raid(), "/tank/x"), &expected);
}

#[test]
fn container_with_a_hidden_upper_directory() {
    let host = container();
    let expected = [
        ("data_fs(/app)", "40.0 GiB free of 100.0 GiB"),
        ("data_dev", "overlay on / (overlay)"),
        ("data_disk", "n/a"),
        ("data_disk_model", "n/a"),
        ("data_disks", "n/a"),
        ("cpu_affinity", "off (3 cpus available: 1-3)"),
        ("virt", "none, in a container"),
        ("cgroup", "cpu 1.50, memory 2.0 GiB"),
    ];
    expect_rows(&rows(&host, "/app"), &expected);
    let volume = [
        ("data_dev", "/dev/nvme1n1p1 on /data (ext4)"),
        ("data_disk_model", "Amazon Elastic Block Store"),
    ];
    expect_rows(&rows(&host, "/data/db"), &volume);
}

#[test]
fn btrfs_subvolume_over_two_drives() {
    let host = machine(include_str!("machines/btrfs.txt"));
    let expected = [
        ("data_dev", "/dev/nvme0n1p3 on /home (btrfs)"),
        ("data_disk", "solid state"),
        ("data_disk_model", "2 x CT1000P5PSSD8"),
        ("data_disks", "nvme0n1 nvme1n1 through nvme0n1p3"),
    ];
    expect_rows(&rows(&host, "/home/eva/data"), &expected);
    let memory = [("data_dev", "tmpfs on /tmp (tmpfs)"), ("data_disk", "n/a")];
    expect_rows(&system_info(&host, None, PinInfo::Off), &memory);
}

#[test]
fn virtual_machine_without_frequency_scaling() {
    let expected = [
        ("os", "Linux 5.10.0-30-cloud-amd64 n/a"),
        ("cpu_cores", "2"),
        ("data_dev", "/dev/vda on / (ext4)"),
        ("data_disk", "rotational (HDD)"),
        ("data_disk_model", "n/a"),
        ("data_disks", "vda"),
        ("governor", "n/a"),
        ("turbo", "n/a"),
        ("smt", "n/a"),
        ("clocksource", "kvm-clock"),
        ("virt", "virtual machine (QEMU Standard PC (Q35 + ICH9, 2009))"),
        ("thp", "always"),
        ("cgroup", "none"),
    ];
    expect_rows(&rows(&vm(), "/var/db"), &expected);
}

#[test]
fn binding_is_shown_as_keybench_shows_it() {
    let pin = PinInfo::On(vec![4, 0, 2, 5, 7, 6, 4]);
    let rows = system_info(&laptop(), None, pin);
    expect_rows(&rows, &[("cpu_affinity", "on (6 cpus: 0,2,4-7)")]);
    assert!(rows.iter().any(|(key, _)| key == "data_fs(/tmp)"), "/tmp stands in");
}

#[test]
fn a_machine_that_says_nothing_has_all_its_rows() {
    let host = CapturedHost::new();
    for dir in ["/d", "relative", ""] {
        let rows = rows(&host, dir);
        assert_eq!(rows.len(), KEYS.len());
        assert!(rows.iter().all(|(_, value)| value == NOT_AVAILABLE), "{rows:?}");
    }
    let keys: Vec<String> = rows(&host, "/d").into_iter().map(|(key, _)| key).collect();
    assert_eq!(keys, KEYS);
}

/// Paths that the probes read, each of which is given nonsense in turn.
const READ: [&str; 22] = [
    "/proc/sys/kernel/hostname",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/loadavg",
    "/proc/swaps",
    "/proc/stat",
    "/proc/self/io",
    "/proc/self/statm",
    "/proc/self/limits",
    "/proc/self/status",
    "/proc/self/cgroup",
    "/proc/self/mountinfo",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/isolated",
    "/sys/devices/system/cpu/smt/active",
    "/sys/devices/system/cpu/intel_pstate/no_turbo",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/devices/system/node/online",
    "/sys/class/block/nvme0n1p2/partition",
    "/sys/class/block/nvme0n1/queue/rotational",
];

#[test]
fn nonsense_in_any_file_loses_no_row() {
    let nonsense =
        ["", "\n", "\0", ":", "-", ",", "0-", "\\", " - ", "18446744073709551616", "\u{fffd}[["];
    for path in READ {
        for text in nonsense {
            let host = laptop();
            host.set_file(path, text);
            let rows = rows(&host, "/home/ada/data");
            assert_eq!(rows.len(), KEYS.len(), "{path} {text:?}");
            assert!(rows.iter().all(|(_, value)| !value.is_empty()), "{path} {text:?}");
            assert_eq!(doctor(&host, &Checkup::default()).len(), CHECKS.len());
            assert_eq!(Sampler::new(&host).sample(1.0).len(), SYSTEM_METRICS.len());
        }
    }
}

#[test]
fn every_prefix_of_a_report_is_survived() {
    for path in ["/proc/self/mountinfo", "/proc/cpuinfo", "/proc/swaps", "/proc/self/cgroup"] {
        let whole = laptop().read(path).unwrap();
        for end in 0..whole.len() {
            let host = laptop();
            host.set_file(path, &whole[..end]);
            assert_eq!(rows(&host, "/home/ada/data").len(), KEYS.len(), "{path} {end}");
            assert_eq!(doctor(&host, &Checkup::default()).len(), CHECKS.len());
        }
    }
}

#[test]
fn this_machine_can_be_described() {
    let host = LinuxHost;
    let dir = std::env::temp_dir();
    let rows = system_info(&host, Some(&dir), PinInfo::Off);
    assert_eq!(rows.len(), KEYS.len());
    for key in ["host", "os", "cpu_cores", "cpu_affinity", "ram", "page_size", "data_dev"] {
        let value = rows.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
        assert!(value.is_some_and(|value| value != NOT_AVAILABLE), "{key}: {value:?}");
    }
    let checkup = Checkup { data_dir: Some(&dir), ..Checkup::default() };
    let findings = doctor(&host, &checkup);
    assert_eq!(names(&findings), CHECKS);
}

const CHECKS: [&str; 16] = [
    "governor",
    "turbo",
    "smt",
    "load",
    "swap",
    "data_fs",
    "free_space",
    "open_files",
    "steal",
    "clocksource",
    "thp",
    "isolated_cpus",
    "affinity",
    "cgroup_cpu",
    "cgroup_memory",
    "build",
];

fn names(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.name).collect()
}

fn check(host: &dyn Host, checkup: &Checkup<'_>, name: &str) -> Finding {
    doctor(host, checkup).into_iter().find(|finding| finding.name == name).unwrap()
}

fn status(host: &dyn Host, name: &str) -> Status {
    check(host, &Checkup::default(), name).status
}

/// Statuses of one check as one file takes one text after the other.
fn statuses(name: &str, path: &str, texts: &[&str]) -> Vec<Status> {
    let host = CapturedHost::new();
    host.set_file("/sys/devices/system/cpu/online", "0-3\n");
    let with = |text: &&str| {
        host.set_file(path, text);
        status(&host, name)
    };
    texts.iter().map(with).collect()
}

use Status::{Fail, Ok as Fine, Unknown, Warn};

#[test]
fn a_remedy_comes_with_every_finding_but_the_good_ones() {
    let silent = CapturedHost::new();
    for host in [&silent, &laptop(), &container(), &raid(), &vm()] {
        for dir in [None, Some(Path::new("/tank"))] {
            let checkup = Checkup { data_dir: dir, ..Checkup::default() };
            let findings = doctor(host, &checkup);
            assert_eq!(names(&findings), CHECKS);
            for finding in findings {
                assert!(!finding.fact.is_empty(), "{finding:?}");
                assert_eq!(finding.remedy.is_empty(), finding.status == Fine, "{finding:?}");
                assert!(!finding.remedy.contains('\n'), "{finding:?}");
            }
        }
    }
    let unknown = doctor(&silent, &Checkup { optimized: true, ..Checkup::default() });
    assert!(unknown.iter().all(|finding| finding.status == Unknown || finding.name == "build"));
}

#[test]
fn statuses_are_ordered_from_good_to_bad() {
    assert!(Fine < Unknown && Unknown < Warn && Warn < Fail);
}

#[test]
fn findings_are_written_as_json() {
    let finding = check(&laptop(), &Checkup::default(), "clocksource");
    let json = serde_json::to_string(&finding).unwrap();
    let expected = r#"{"name":"clocksource","status":"ok","fact":"clock source: tsc","remedy":""}"#;
    assert_eq!(json, expected);
}

#[test]
fn governor_must_be_performance_on_all_cpus() {
    let path = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    let found = statuses("governor", path, &["performance\n", "powersave\n", ""]);
    assert_eq!(found, [Fine, Warn, Unknown]);
    let mixed = check(&raid(), &Checkup::default(), "governor");
    assert_eq!(mixed.status, Warn);
    assert!(mixed.fact.ends_with("performance x2, schedutil x1"), "{}", mixed.fact);
}

#[test]
fn turbo_must_be_off() {
    let intel = "/sys/devices/system/cpu/intel_pstate/no_turbo";
    assert_eq!(statuses("turbo", intel, &["0", "1", "?"]), [Warn, Fine, Unknown]);
    let general = "/sys/devices/system/cpu/cpufreq/boost";
    assert_eq!(statuses("turbo", general, &["0", "1"]), [Fine, Warn]);
    let remedy = check(&laptop(), &Checkup::default(), "turbo").remedy;
    assert_eq!(remedy, format!("type `echo 1 | sudo tee {intel}`"));
}

#[test]
fn cores_must_not_be_shared() {
    let path = "/sys/devices/system/cpu/smt/active";
    assert_eq!(statuses("smt", path, &["1", "0", ""]), [Warn, Fine, Unknown]);
}

#[test]
fn load_is_compared_with_the_cpus() {
    let found = statuses("load", "/proc/loadavg", &["1.00 0 0", "1.01 0 0", "x"]);
    assert_eq!(found, [Fine, Warn, Unknown]);
}

#[test]
fn swap_must_be_off() {
    let head = "Filename Type Size Used Priority\n";
    let texts =
        [head, &format!("{head}/s file 2048 0 -2\n"), &format!("{head}/s file 2048 4 -2\n"), ""];
    assert_eq!(statuses("swap", "/proc/swaps", &texts), [Fine, Warn, Warn, Unknown]);
}

fn with_space(free: u64, total: u64, magic: u64) -> CapturedHost {
    let host = CapturedHost::new();
    host.set_space("/", FsSpace { free, total, magic });
    host
}

const GIB: u64 = 1 << 30;

fn data() -> Checkup<'static> {
    Checkup { data_dir: Some(Path::new("/data")), ..Checkup::default() }
}

#[test]
fn data_must_be_on_a_local_disk() {
    for (magic, expected) in [
        (0x0102_1994, Fail),
        (0x8584_58f6, Fail),
        (0x794c_7630, Warn),
        (0x6969, Warn),
        (0x6573_5546, Warn),
        (0xef53, Fine),
        (0x9123_683e, Fine),
    ] {
        let host = with_space(GIB, GIB, magic);
        assert_eq!(check(&host, &data(), "data_fs").status, expected, "{magic:x}");
    }
    assert_eq!(status(&laptop(), "data_fs"), Unknown, "no directory named");
}

#[test]
fn the_mount_tells_where_the_number_is_missing() {
    let host = CapturedHost::new();
    for (fstype, expected) in [("tmpfs", Fail), ("ramfs", Fail), ("overlay", Warn), ("ext4", Fine)]
    {
        let line = format!("1 0 0:5 / / rw - {fstype} {fstype} rw\n");
        host.set_file("/proc/self/mountinfo", &line);
        assert_eq!(check(&host, &data(), "data_fs").status, expected, "{fstype}");
    }
    assert_eq!(check(&container(), &data(), "data_fs").status, Warn);
}

#[test]
fn space_must_be_ample() {
    for (free, total, expected) in [
        (50 * GIB, 100 * GIB, Fine),
        (10 * GIB, 100 * GIB, Fine),
        (9 * GIB, 20 * GIB, Warn),
        (50 * GIB, 1000 * GIB, Warn),
        (GIB - 1, 2 * GIB, Fail),
        (0, 0, Fail),
    ] {
        let host = with_space(free, total, 0xef53);
        assert_eq!(check(&host, &data(), "free_space").status, expected, "{free} of {total}");
    }
    assert_eq!(check(&CapturedHost::new(), &data(), "free_space").status, Unknown);
    let odd = Checkup { data_dir: Some(Path::new("/a b's")), ..Checkup::default() };
    let remedy = check(&CapturedHost::new(), &odd, "free_space").remedy;
    assert_eq!(remedy, r"look at `df -h '/a b'\''s'`", "one word for the shell");
}

#[test]
fn many_files_must_be_allowed() {
    let line = |limit: &str| format!("Max open files            {limit}   524288   files\n");
    let texts = [line("4095"), line("4096"), line("unlimited"), line("many")];
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let found = statuses("open_files", "/proc/self/limits", &texts);
    assert_eq!(found, [Warn, Fine, Fine, Unknown]);
}

#[test]
fn stolen_time_is_found_between_two_looks() {
    let host = CapturedHost::new();
    let before = "cpu  100 0 0 900 0 0 0 0 0 0\n";
    for (after, expected) in [
        ("cpu  100 0 0 1000 0 0 0 1 0 0\n", Fine),
        ("cpu  100 0 0 998 0 0 0 2 0 0\n", Warn),
        ("cpu  100 0 0 980 0 0 0 20 0 0\n", Fail),
        (before, Unknown),
        ("nothing", Unknown),
    ] {
        let checkup = Checkup { stats: Some((before, after)), ..Checkup::default() };
        assert_eq!(check(&host, &checkup, "steal").status, expected, "{after}");
    }
    assert_eq!(status(&host, "steal"), Unknown, "not measured");
}

#[test]
fn the_clock_must_be_the_processors_own() {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let texts = ["tsc\n", "arch_sys_counter\n", "hpet\n", "kvm-clock\n", ""];
    let found = statuses("clocksource", path, &texts);
    assert_eq!(found, [Fine, Fine, Warn, Warn, Unknown]);
    let offered = check(&vm(), &Checkup::default(), "clocksource").remedy;
    assert!(offered.contains("echo tsc"), "{offered}");
    let host = CapturedHost::new();
    host.set_file(path, "hpet\n");
    let not_offered = check(&host, &Checkup::default(), "clocksource").remedy;
    assert!(not_offered.contains("clocksource=tsc"), "{not_offered}");
}

#[test]
fn huge_pages_must_be_asked_for() {
    let path = "/sys/kernel/mm/transparent_hugepage/enabled";
    let texts = ["always [madvise] never", "[always] madvise never", "always madvise [never]", "x"];
    assert_eq!(statuses("thp", path, &texts), [Fine, Warn, Warn, Unknown]);
}

#[test]
fn isolated_cpus_must_be_used_and_bound_to() {
    let host = raid();
    let pinned = Checkup { pinned: true, ..Checkup::default() };
    let unused = check(&host, &pinned, "isolated_cpus");
    assert_eq!(unused.status, Warn);
    assert!(unused.remedy.contains("taskset -c 4-7"), "{}", unused.remedy);
    host.set_file("/proc/thread-self/status", "Cpus_allowed_list:\t4-7\n");
    assert_eq!(check(&host, &Checkup::default(), "isolated_cpus").status, Warn, "not bound");
    assert_eq!(check(&host, &pinned, "isolated_cpus").status, Fine);
    assert_eq!(status(&laptop(), "isolated_cpus"), Fine, "there are none");
    assert_eq!(status(&CapturedHost::new(), "isolated_cpus"), Unknown);
}

#[test]
fn all_cpus_must_be_allowed_but_the_isolated() {
    assert_eq!(status(&laptop(), "affinity"), Fine);
    assert_eq!(status(&raid(), "affinity"), Fine, "only isolated CPUs are missing");
    let few = check(&container(), &Checkup::default(), "affinity");
    assert_eq!((few.status, few.remedy.contains("taskset -cp 0-7 $$")), (Warn, true));
    assert_eq!(status(&CapturedHost::new(), "affinity"), Unknown);
}

#[test]
fn quotas_must_not_bind() {
    let host = container();
    let cpu = check(&host, &Checkup::default(), "cgroup_cpu");
    assert_eq!(cpu.status, Warn);
    assert_eq!(cpu.fact, "the control group allows 1.50 of 3 CPUs");
    assert_eq!(cpu.remedy, "type `echo max | sudo tee /sys/fs/cgroup/cpu.max`");
    assert_eq!(status(&host, "cgroup_memory"), Warn);
    host.set_file("/sys/fs/cgroup/cpu.max", "300000 100000\n");
    host.set_file("/sys/fs/cgroup/memory.max", "68719476736\n");
    assert_eq!(status(&host, "cgroup_cpu"), Fine, "as many as it may use");
    assert_eq!(status(&host, "cgroup_memory"), Fine, "more than the machine has");
    assert_eq!((status(&vm(), "cgroup_cpu"), status(&vm(), "cgroup_memory")), (Fine, Fine));
    let silent = CapturedHost::new();
    assert_eq!(
        (status(&silent, "cgroup_cpu"), status(&silent, "cgroup_memory")),
        (Unknown, Unknown)
    );
}

#[test]
fn the_program_must_be_optimized() {
    let host = CapturedHost::new();
    for (optimized, expected) in [(true, Fine), (false, Fail)] {
        let checkup = Checkup { optimized, ..Checkup::default() };
        assert_eq!(check(&host, &checkup, "build").status, expected);
    }
}

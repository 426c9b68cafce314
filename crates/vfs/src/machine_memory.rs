//! How much memory this process may use: that of the machine, or less if a control group says so.
//!
//! | file | what is taken |
//! |---|---|
//! | `/proc/meminfo` | `MemTotal`, in KiB |
//! | `/proc/self/cgroup` | the groups of this process, a line each: `ID:CONTROLLERS:PATH` |
//! | `/proc/self/mountinfo` | where the hierarchies of groups are mounted |
//! | `memory.max` of a group of version 2 | bytes, or `max` for no limit |
//! | `memory.limit_in_bytes` of version 1 | bytes; a huge number for no limit |
//!
//! A limit of an ancestor binds as well. So all directories count from the group up to the mount,
//! and the smallest limit wins. In a container the path may lie above what is mounted; then the
//! mount itself is the group.
//!
//! A file that is missing or damaged sets no limit. The texts come through a closure, so that a
//! test can give its own.

use std::sync::OnceLock;

/// Directories of a hierarchy that are looked at, at most.
const DIRS_MAX: usize = 64;

/// Version 1 writes "no limit" as the largest multiple of a page; from here on there is none.
const LIMIT_BYTES_MAX: u64 = 1 << 60;

/// Gives the text of a file, or nothing if it cannot be read.
pub type ReadText<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Bytes of memory that this process may use: the least of the machine's memory and the limits of
/// its control groups. `None` if nothing of that is known. Read once in a process.
#[must_use]
pub fn memory_limit() -> Option<u64> {
    static LIMIT: OnceLock<Option<u64>> = OnceLock::new();
    *LIMIT.get_or_init(|| memory_limit_by(&read_kernel_text))
}

/// As [`memory_limit`], of the machine whose files `read` gives.
#[must_use]
pub fn memory_limit_by(read: ReadText<'_>) -> Option<u64> {
    let machine = read("/proc/meminfo").and_then(|text| total_bytes(&text));
    let limits = control_groups(read).unwrap_or_default().into_iter().flat_map(|group| {
        let name = match &*group.controllers {
            "" => "memory.max",
            _ if group.has("memory") => "memory.limit_in_bytes",
            _ => return Vec::new(),
        };
        let limit = |dir: &String| limit_bytes(&read(&format!("{dir}/{name}"))?);
        group.dirs.iter().filter_map(limit).collect()
    });
    limits.chain(machine).min()
}

/// A control group of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlGroup {
    /// Names of its controllers with commas between; empty in version 2.
    pub controllers: String,
    /// Its directory, and those of its ancestors up to the mount; at least one.
    pub dirs: Vec<String>,
}

impl ControlGroup {
    /// Its own directory.
    #[must_use]
    pub fn dir(&self) -> &str {
        &self.dirs[0]
    }

    /// Whether it is the root of its hierarchy, as far as that is mounted.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.dirs.len() == 1
    }

    fn has(&self, controller: &str) -> bool {
        self.controllers.split(',').any(|name| name == controller)
    }
}

/// The groups of this process, one for each hierarchy in which its group is mounted. `None` if the
/// kernel does not name them. O(groups x mounts).
#[must_use]
pub fn control_groups(read: ReadText<'_>) -> Option<Vec<ControlGroup>> {
    let groups = read("/proc/self/cgroup")?;
    let mountinfo = read("/proc/self/mountinfo").unwrap_or_default();
    let mounts: Vec<GroupMount> = mountinfo.lines().filter_map(GroupMount::parse).collect();
    let group = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let dirs = mounts.iter().filter(|it| it.has(controllers)).find_map(|it| it.dirs(path))?;
        Some(ControlGroup { controllers: controllers.to_owned(), dirs })
    };
    Some(groups.lines().filter_map(group).collect())
}

/// Where a hierarchy of groups is mounted.
struct GroupMount {
    /// The directory of the hierarchy that is mounted.
    root: String,
    point: String,
    /// Of version 1 its controllers; `None` for version 2.
    controllers: Option<String>,
}

impl GroupMount {
    /// From a line `ID PARENT MAJ:MIN ROOT POINT OPTIONS [TAG...] - TYPE SOURCE SUPER`; `None` if
    /// it is another file system's.
    fn parse(line: &str) -> Option<GroupMount> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (root, point) = (unescaped(left.next()?), unescaped(left.next()?));
        let mut right = right.split(' ');
        let kind = right.next()?;
        let options = right.nth(1).unwrap_or("");
        let controllers = match kind {
            "cgroup2" => None,
            "cgroup" => Some(options.to_owned()),
            _ => return None,
        };
        Some(GroupMount { root, point, controllers })
    }

    /// Whether it is the hierarchy of these controllers, as a line of `/proc/self/cgroup` has them.
    fn has(&self, controllers: &str) -> bool {
        match (&self.controllers, controllers.split(',').next()) {
            (None, first) => first.is_none_or(str::is_empty),
            (Some(own), Some(first)) => own.split(',').any(|name| name == first),
            (Some(_), None) => false,
        }
    }

    /// The directories of the group at `path`, from its own up to the mount. `None` if it is not
    /// mounted here, but other groups are: their limits are none of its own.
    fn dirs(&self, path: &str) -> Option<Vec<String>> {
        let root = self.root.trim_end_matches('/');
        let below = match path.strip_prefix(root) {
            _ if path.starts_with("/..") => "",
            Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
            // Above the name space of this process.
            _ if root.starts_with("/..") => path,
            _ => return None,
        };
        let names: Vec<&str> = below.split('/').filter(|name| !name.is_empty()).collect();
        let point = self.point.trim_end_matches('/');
        let dir = |count: usize| {
            let tail: String = names[..count].iter().map(|name| format!("/{name}")).collect();
            format!("{point}{tail}")
        };
        Some((0..=names.len().min(DIRS_MAX)).rev().map(dir).collect())
    }
}

/// Replaces each backslash with three octal digits by the character that they stand for.
fn unescaped(field: &str) -> String {
    let mut parts = field.split('\\');
    let mut out = parts.next().unwrap_or("").to_owned();
    for part in parts {
        let code = part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                out.push(char::from(code));
                out.push_str(&part[3..]);
            }
            None => {
                out.push('\\');
                out.push_str(part);
            }
        }
    }
    out
}

/// The memory of the machine, of the text of `/proc/meminfo`.
fn total_bytes(meminfo: &str) -> Option<u64> {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kib.checked_mul(1024).filter(|bytes| *bytes > 0)
}

/// The limit that a file of a group has; `None` for no limit, and for what is none.
fn limit_bytes(text: &str) -> Option<u64> {
    let bytes: u64 = text.trim().parse().ok()?;
    (1..LIMIT_BYTES_MAX).contains(&bytes).then_some(bytes)
}

#[expect(clippy::disallowed_methods, reason = "reports of the kernel, not files of an engine")]
fn read_kernel_text(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:       16384000 kB\nMemFree:        1000 kB\n";
    const MACHINE: u64 = 16_384_000 << 10;
    const V2: &str = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";

    /// The limit of a machine with these files.
    fn limit(files: &[(&str, &str)]) -> Option<u64> {
        memory_limit_by(&|path| {
            let found = files.iter().find(|(name, _)| *name == path);
            found.map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn without_groups_the_machine_is_the_limit() {
        assert_eq!(limit(&[]), None);
        assert_eq!(limit(&[("/proc/meminfo", MEMINFO)]), Some(MACHINE));
        for damaged in ["", "MemTotal:", "MemTotal: x kB", "MemTotal: 5", "MemTotal: 0 kB"] {
            assert_eq!(limit(&[("/proc/meminfo", damaged)]), None, "{damaged}");
        }
        let huge = "MemTotal: 18446744073709551615 kB";
        assert_eq!(limit(&[("/proc/meminfo", huge)]), None);
    }

    #[test]
    fn in_version_2_the_tightest_ancestor_counts() {
        let with = |own: &str, above: &str| {
            limit(&[
                ("/proc/meminfo", MEMINFO),
                ("/proc/self/cgroup", "0::/a.slice/b.scope\n"),
                ("/proc/self/mountinfo", V2),
                ("/sys/fs/cgroup/a.slice/b.scope/memory.max", own),
                ("/sys/fs/cgroup/a.slice/memory.max", above),
            ])
        };
        assert_eq!(with("2147483648\n", "max\n"), Some(2 << 30));
        assert_eq!(with("2147483648\n", "1073741824\n"), Some(1 << 30));
        assert_eq!(with("max\n", "max\n"), Some(MACHINE));
        assert_eq!(with("99999999999999\n", "max\n"), Some(MACHINE), "more than there is");
        for damaged in ["", "\n", "MAX", "12x", "-1", "0", "1 2", "99999999999999999999999"] {
            assert_eq!(with(damaged, "max"), Some(MACHINE), "{damaged}");
            assert_eq!(with("max", damaged), Some(MACHINE), "{damaged}");
        }
    }

    #[test]
    fn in_version_1_the_group_of_memory_counts() {
        let mounts = "31 30 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      32 30 0:28 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        let with = |bytes: &str| {
            limit(&[
                ("/proc/meminfo", MEMINFO),
                ("/proc/self/cgroup", "4:memory:/docker/ab\n3:cpu,cpuacct:/docker/ab\n"),
                ("/proc/self/mountinfo", mounts),
                ("/sys/fs/cgroup/memory/memory.limit_in_bytes", bytes),
                ("/sys/fs/cgroup/cpu/docker/ab/memory.limit_in_bytes", "4096"),
            ])
        };
        assert_eq!(with("536870912\n"), Some(512 << 20));
        assert_eq!(with("9223372036854771712\n"), Some(MACHINE), "that is no limit");
        assert_eq!(with("-1\n"), Some(MACHINE));
    }

    #[test]
    fn both_versions_may_be_there_at_once() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                      32 30 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let found = limit(&[
            ("/proc/self/cgroup", "5:memory:/m\n0::/u\n"),
            ("/proc/self/mountinfo", mounts),
            ("/sys/fs/cgroup/unified/u/memory.max", "3000000000"),
            ("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "2000000000"),
        ]);
        assert_eq!(found, Some(2_000_000_000), "also without the machine's own");
    }

    #[test]
    fn a_path_above_what_is_mounted_is_the_mount() {
        for path in ["0::/../../x\n", "0::/\n"] {
            let found = limit(&[
                ("/proc/self/cgroup", path),
                ("/proc/self/mountinfo", V2),
                ("/sys/fs/cgroup/memory.max", "1000000"),
            ]);
            assert_eq!(found, Some(1_000_000), "{path}");
        }
    }

    /// The first mount of the hierarchy was taken, whatever groups it has.
    #[test]
    fn a_mount_of_other_groups_sets_no_limit() {
        let other = "29 23 0:26 /other /mnt/other rw - cgroup2 cgroup2 rw\n";
        let with = |mounts: &str, path: &str| {
            limit(&[
                ("/proc/meminfo", MEMINFO),
                ("/proc/self/cgroup", path),
                ("/proc/self/mountinfo", mounts),
                ("/mnt/other/memory.max", "1000000"),
                ("/sys/fs/cgroup/a/memory.max", "2000000"),
                ("/sys/fs/cgroup/otherwise/memory.max", "3000000"),
            ])
        };
        let both = format!("{other}{V2}");
        assert_eq!(with(&both, "0::/a\n"), Some(2_000_000));
        assert_eq!(with(&both, "0::/otherwise\n"), Some(3_000_000));
        assert_eq!(with(&both, "0::/other\n"), Some(1_000_000));
        assert_eq!(with(other, "0::/a\n"), Some(MACHINE));
        assert_eq!(with(other, "0::/\n"), Some(MACHINE));
    }

    #[test]
    fn damaged_lists_set_no_limit() {
        let memory = ("/proc/meminfo", MEMINFO);
        for groups in ["", "garbage", "0:", "::::", "5:cpu\n", "\u{fffd}:\u{fffd}"] {
            for mounts in ["", " - ", "30 23 0:26 / - cgroup2", "x - cgroup2 y", V2] {
                let files = [
                    memory,
                    ("/proc/self/cgroup", groups),
                    ("/proc/self/mountinfo", mounts),
                    ("/sys/fs/cgroup/memory.max", "max"),
                ];
                assert_eq!(limit(&files), Some(MACHINE), "{groups} {mounts}");
            }
        }
        let deep = format!("0::{}\n", "/a".repeat(10_000));
        let files = [memory, ("/proc/self/cgroup", &deep), ("/proc/self/mountinfo", V2)];
        assert_eq!(limit(&files), Some(MACHINE));
    }

    #[test]
    fn names_are_read_as_the_kernel_writes_them() {
        assert_eq!(unescaped(r"/a\040b\134c"), "/a b\\c");
        assert_eq!(unescaped(r"/a\9\04"), r"/a\9\04");
        let mounts = "30 23 0:26 / /sys/fs/my\\040groups rw - cgroup2 cgroup2 rw\n";
        let found = limit(&[
            ("/proc/self/cgroup", "0::/a\n"),
            ("/proc/self/mountinfo", mounts),
            ("/sys/fs/my groups/a/memory.max", "1000000"),
        ]);
        assert_eq!(found, Some(1_000_000));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_has_a_limit() {
        assert!(memory_limit().is_some_and(|bytes| bytes >= 16 << 20), "{:?}", memory_limit());
    }
}

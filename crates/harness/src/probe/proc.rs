//! Parsers of the kernel's text reports: text in, typed facts out, no host.
//!
//! | report | what is taken |
//! |---|---|
//! | `/proc/self/mountinfo` | one mount per line, octal escapes decoded |
//! | `/proc/cpuinfo`, `meminfo`, `status`, `io` | `key: value` lines |
//! | `/proc/self/limits` | the soft limit on open files |
//! | `/sys/devices/system/cpu/*` | CPU lists such as `0-3,8` |
//!
//! A mountinfo line reads `ID PARENT MAJ:MIN ROOT POINT OPTIONS [TAG...] - TYPE SOURCE SUPER`.
//! Blanks, tabs, newlines and backslashes inside a field are written as a backslash and three octal
//! digits. Malformed lines are skipped; malformed numbers make the answer `None`.

/// CPUs above this number are taken for garbage, so that a bad list cannot fill the memory.
const CPU_NUMBER_MAX: usize = 1 << 16;

/// CPU numbers of a list such as `0-3,8`, ascending and without repeats. An empty text is an empty
/// list; anything that is not a list is `None`. O(length of the list).
pub(super) fn cpu_list(text: &str) -> Option<Vec<usize>> {
    let text = text.trim();
    let mut cpus = Vec::new();
    if text.is_empty() {
        return Some(cpus);
    }
    for part in text.split(',') {
        let (first, last) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last > CPU_NUMBER_MAX {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// The shortest list text for ascending CPU numbers: `0-3,8`.
pub(super) fn cpu_list_text(cpus: &[usize]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = cpus;
    while let Some(&first) = rest.first() {
        let run = rest.iter().enumerate().take_while(|(step, cpu)| **cpu == first + step).count();
        let last = first + run - 1;
        parts.push(if run == 1 { first.to_string() } else { format!("{first}-{last}") });
        rest = &rest[run..];
    }
    parts.join(",")
}

/// CPU numbers named by the `processor` lines of `/proc/cpuinfo`.
pub(super) fn cpuinfo_cpus(text: &str) -> Vec<usize> {
    let mut cpus: Vec<usize> = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(key, _)| key.trim() == "processor")
        .filter_map(|(_, value)| value.trim().parse().ok())
        .collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// Value of the first `key: value` line, trimmed; `None` when absent or empty.
pub(super) fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim())
        .filter(|value| !value.is_empty())
}

/// Value of a `key: number` line.
pub(super) fn field_number(text: &str, key: &str) -> Option<u64> {
    field(text, key)?.parse().ok()
}

/// Value in bytes of a `key: number kB` line, where the kernel's kB is 1024 bytes.
pub(super) fn field_kib(text: &str, key: &str) -> Option<u64> {
    let number = field(text, key)?.strip_suffix("kB")?.trim();
    number.parse::<u64>().ok()?.checked_mul(1024)
}

/// The choice in brackets of a text such as `always [madvise] never`.
pub(super) fn bracketed(text: &str) -> Option<&str> {
    let (_, after) = text.split_once('[')?;
    let (choice, _) = after.split_once(']')?;
    if choice.is_empty() { None } else { Some(choice) }
}

/// Soft limit of the `Max open files` line; `u64::MAX` for `unlimited`.
pub(super) fn open_file_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

/// One line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// Device numbers that files on it report. For btrfs a subvolume's files report others.
    pub(super) dev: (u32, u32),
    /// Directory of the file system that is mounted; `/` unless a part of it is.
    pub(super) root: String,
    /// Where it is mounted.
    pub(super) point: String,
    /// Kind of file system, such as `ext4`.
    pub(super) fstype: String,
    /// What is mounted: a device file, or any word the file system likes.
    pub(super) source: String,
    /// Options of the file system itself, decoded one by one.
    pub(super) super_options: Vec<String>,
}

impl Mount {
    /// Value of the option `key=value` of the file system.
    pub(super) fn option(&self, key: &str) -> Option<&str> {
        self.super_options.iter().find_map(|option| option.strip_prefix(key)?.strip_prefix('='))
    }
}

/// All mounts, in the order in which they were made. O(length of the text).
pub(super) fn mounts(mountinfo: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(mount).collect()
}

fn mount(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(2);
    let (major, minor) = left.next()?.split_once(':')?;
    let (root, point) = (left.next()?, left.next()?);
    let mut right = right.split(' ');
    let (fstype, source) = (right.next()?, right.next()?);
    Some(Mount {
        dev: (major.parse().ok()?, minor.parse().ok()?),
        root: unescape(root),
        point: unescape(point),
        fstype: fstype.to_owned(),
        source: unescape(source),
        super_options: right.next().unwrap_or("").split(',').map(unescape).collect(),
    })
}

/// Replaces each backslash with three octal digits by the byte it stands for. A backslash that is
/// not followed by three octal digits up to 377 is kept.
pub(super) fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = (bytes[at] == b'\\')
            .then(|| bytes.get(at + 1..at + 4))
            .flatten()
            .filter(|digits| digits.iter().all(|digit| (b'0'..=b'7').contains(digit)))
            .map(|digits| digits.iter().fold(0_u16, |sum, digit| sum * 8 + u16::from(digit - b'0')))
            .and_then(|code| u8::try_from(code).ok());
        out.push(code.unwrap_or(bytes[at]));
        at += if code.is_some() { 4 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The mount that holds `path`, an absolute path without links.
///
/// Among the mounts whose point is `path` or an ancestor of it, those on the device `dev` are
/// preferred, because a later mount on an ancestor may hide a deeper one; then the longest point
/// wins, and of equal points the last, which covers the others. O(mounts).
pub(super) fn mount_of<'a>(
    mounts: &'a [Mount],
    path: &str,
    dev: Option<(u32, u32)>,
) -> Option<&'a Mount> {
    let holding = || mounts.iter().filter(|mount| strip_dir(path, &mount.point).is_some());
    let longest_of_device =
        holding().filter(|mount| Some(mount.dev) == dev).max_by_key(|mount| mount.point.len());
    longest_of_device.or_else(|| holding().max_by_key(|mount| mount.point.len()))
}

/// The rest of `path` below the directory `dir`, without a leading slash; `None` when it lies
/// elsewhere. Compares whole names: `/mnt/disk2` is not below `/mnt/disk`.
pub(super) fn strip_dir<'a>(path: &'a str, dir: &str) -> Option<&'a str> {
    let rest = path.strip_prefix(dir.trim_end_matches('/'))?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_read_and_print() {
        for (text, cpus) in
            [("0", vec![0]), ("0-3,8", vec![0, 1, 2, 3, 8]), ("0,2,4-7", vec![0, 2, 4, 5, 6, 7])]
        {
            assert_eq!(cpu_list(text), Some(cpus.clone()), "{text}");
            assert_eq!(cpu_list_text(&cpus), text);
        }
        assert_eq!(cpu_list("\n"), Some(vec![]));
        assert_eq!(cpu_list("3,1,1-2\n"), Some(vec![1, 2, 3]), "sorted, no repeats");
        assert_eq!(cpu_list_text(&[]), "");
        for bad in ["x", "1-", "-1", "3-1", "1,,2", "0-99999999999", "0-18446744073709551616"] {
            assert_eq!(cpu_list(bad), None, "{bad}");
        }
    }

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "MemTotal:       2048 kB\nMemTotalExtra: 5 kB\nThreads:\t7\nEmpty:\n";
        assert_eq!(field_kib(text, "MemTotal"), Some(2048 * 1024));
        assert_eq!(field_number(text, "Threads"), Some(7));
        assert_eq!(field(text, "Empty"), None);
        assert_eq!(field_kib(text, "Threads"), None, "the unit is missing");
        assert_eq!(field_kib("MemTotal: 18446744073709551615 kB", "MemTotal"), None);
    }

    #[test]
    fn limits_and_brackets() {
        let limits =
            "Limit   Soft   Hard  Units\nMax open files            1024    524288   files\n";
        assert_eq!(open_file_limit(limits), Some(1024));
        assert_eq!(open_file_limit("Max open files unlimited unlimited files"), Some(u64::MAX));
        assert_eq!(open_file_limit("Max open files"), None);
        assert_eq!(open_file_limit(""), None);
        assert_eq!(bracketed("always [madvise] never\n"), Some("madvise"));
        for bad in ["always", "[", "[]", "]x["] {
            assert_eq!(bracketed(bad), None, "{bad}");
        }
    }

    #[test]
    fn octal_escapes_are_decoded() {
        assert_eq!(unescape("/my\\040disk\\011x\\134y\\012"), "/my disk\tx\\y\n");
        assert_eq!(unescape("/caf\\303\\251"), "/caf\u{e9}");
        for kept in ["\\", "\\04", "\\089", "\\400", "plain", ""] {
            assert_eq!(unescape(kept), kept);
        }
    }

    #[test]
    fn a_mount_line_is_taken_apart() {
        let text =
            "36 35 98:0 /sub /mnt\\0402 rw,noatime master:1 shared:3 - ext3 /dev/root rw,a=b\n";
        let mounts = mounts(text);
        assert_eq!(mounts.len(), 1);
        let mount = &mounts[0];
        assert_eq!((mount.dev, mount.root.as_str()), ((98, 0), "/sub"));
        assert_eq!((mount.point.as_str(), mount.fstype.as_str()), ("/mnt 2", "ext3"));
        assert_eq!((mount.source.as_str(), mount.option("a")), ("/dev/root", Some("b")));
        assert_eq!(mount.option("rw"), None);
    }

    #[test]
    fn malformed_mount_lines_are_skipped() {
        let text = "garbage\n1 2 8:x / / rw - ext4 /dev/sda rw\n1 2 8:1 / / rw\n - \n\n\
                    1 2 8:1 / /ok rw - ext4 /dev/sda1 rw\n1 2 8:1 / /y rw - ext4\n";
        let points: Vec<String> = mounts(text).into_iter().map(|mount| mount.point).collect();
        assert_eq!(points, ["/ok"]);
    }

    #[test]
    fn the_longest_mount_point_wins() {
        let all = mounts(
            "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 8:2 / /mnt rw - ext4 /dev/b rw\n\
             3 2 8:3 / /mnt/disk rw - xfs /dev/c rw\n4 2 8:4 / /mnt/disk rw - xfs /dev/d rw\n",
        );
        let source = |path: &str, dev| mount_of(&all, path, dev).map(|m| m.source.as_str());
        assert_eq!(source("/home", None), Some("/dev/a"));
        assert_eq!(source("/mnt", None), Some("/dev/b"));
        assert_eq!(source("/mntx/y", None), Some("/dev/a"));
        assert_eq!(source("/mnt/disk2", None), Some("/dev/b"));
        assert_eq!(source("/mnt/disk/x", None), Some("/dev/d"), "the later one covers it");
        assert_eq!(source("/mnt/disk/x", Some((8, 2))), Some("/dev/b"), "hidden by a later mount");
        assert_eq!(source("/mnt/disk/x", Some((9, 9))), Some("/dev/d"), "unknown device");
        assert_eq!(source("relative", None), None);
    }
}

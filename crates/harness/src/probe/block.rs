//! From a directory to the disks that keep its bytes.
//!
//! ```text
//! directory -> mount (mountinfo) -> block device -> ... -> disks
//!
//!   /data on dm-1        LVM volume      slaves
//!            dm-0        dm-crypt        slaves
//!            nvme0n1p3   partition       parent directory in sysfs
//!            nvme0n1     disk            queue/rotational, device/model
//! ```
//!
//! The device is found by the number that files report, through `/sys/dev/block/MAJ:MIN`. File
//! systems without a block device of their own report major 0; there the mount's source is used
//! (btrfs, whose other members are then added), the upper directory (overlay, where it can be
//! seen), or nothing (tmpfs, network). Below the device: a device with `slaves` (device mapper, md,
//! bcache) leads to each of them, a loop device to the directory of its backing file, a partition
//! to its disk. What leads nowhere further is a disk. Each device is visited once.
//!
//! A virtual machine's disk says what the hypervisor makes it say.

use super::proc::{Mount, mount_of, mounts};
use super::{Host, NOT_AVAILABLE};

/// Devices visited at most, and overlays or loop files followed at most.
const DEVICES_MAX: usize = 256;
const DEPTH_MAX: usize = 8;

/// A device that leads to no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Disk {
    pub(super) name: String,
    /// Whether it has turning platters.
    pub(super) rotational: Option<bool>,
    pub(super) model: Option<String>,
}

/// Where the bytes of a directory live.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Storage {
    /// The mount that holds the directory.
    pub(super) mount: Option<Mount>,
    /// For an overlay: the mount that holds its upper directory.
    pub(super) upper: Option<Mount>,
    /// Block devices between the file system and the disks, top first.
    pub(super) layers: Vec<String>,
    /// The disks, in the order in which they were found.
    pub(super) disks: Vec<Disk>,
}

/// Finds the disks below a directory, given as an absolute path without links.
/// O(mounts + devices) reads.
pub(super) fn storage(host: &dyn Host, path: &str) -> Storage {
    let mounts = mounts(&host.read("/proc/self/mountinfo").unwrap_or_default());
    let top = top(host, &mounts, path, 0);
    let mut walk = Walk { host, mounts: &mounts, seen: Vec::new(), disks: Vec::new() };
    for name in &top.devices {
        walk.visit(name, 0);
    }
    let layers = walk.seen.iter().filter(|name| !walk.disks.contains(name)).cloned().collect();
    let disks = walk.disks.iter().map(|name| disk(host, name)).collect();
    Storage { mount: top.mount.cloned(), upper: top.upper.cloned(), layers, disks }
}

impl Storage {
    /// `/dev/sdb3 on /mnt (ext4)`, with the upper layer's device for an overlay.
    pub(super) fn device_text(&self) -> Option<String> {
        let mount = self.mount.as_ref()?;
        let text = format!("{} on {} ({})", self.source(mount), mount.point, mount.fstype);
        Some(match &self.upper {
            Some(upper) => format!("{text}, upper layer on {} ({})", upper.source, upper.fstype),
            None => text,
        })
    }

    /// The mount's source; the kernel's stand-in names for the root device are replaced.
    fn source(&self, mount: &Mount) -> String {
        let first = self.layers.first().or(self.disks.first().map(|disk| &disk.name));
        match (mount.source.as_str(), first) {
            ("/dev/root" | "rootfs", Some(name)) => format!("/dev/{}", name.replace('!', "/")),
            _ => mount.source.clone(),
        }
    }

    /// `rotational (HDD)`, `solid state`, or both when disks of both kinds hold the data.
    pub(super) fn kind_text(&self) -> Option<&'static str> {
        let kinds = || self.disks.iter().filter_map(|disk| disk.rotational);
        match (kinds().any(|turning| turning), kinds().any(|turning| !turning)) {
            (true, true) => Some("rotational (HDD) and solid state"),
            (true, false) => Some("rotational (HDD)"),
            (false, true) => Some("solid state"),
            (false, false) => None,
        }
    }

    /// Models of the disks: `A`, or `2 x A, B`.
    pub(super) fn model_text(&self) -> Option<String> {
        let mut counted: Vec<(&str, usize)> = Vec::new();
        for disk in &self.disks {
            let model = disk.model.as_deref().unwrap_or(NOT_AVAILABLE);
            match counted.iter_mut().find(|(known, _)| *known == model) {
                Some((_, count)) => *count += 1,
                None => counted.push((model, 1)),
            }
        }
        if counted.iter().all(|(model, _)| *model == NOT_AVAILABLE) {
            return None;
        }
        let shown = counted.into_iter().map(|(model, count)| match count {
            1 => model.to_owned(),
            _ => format!("{count} x {model}"),
        });
        Some(shown.collect::<Vec<_>>().join(", "))
    }

    /// Names of the disks and of what lies over them: `sda sdb through md0 sda1 sdb1`.
    pub(super) fn names_text(&self) -> Option<String> {
        if self.disks.is_empty() {
            return None;
        }
        let disks: Vec<&str> = self.disks.iter().map(|disk| disk.name.as_str()).collect();
        let disks = disks.join(" ");
        Some(if self.layers.is_empty() {
            disks
        } else {
            format!("{disks} through {}", self.layers.join(" "))
        })
    }
}

/// What lies directly below a directory.
#[derive(Default)]
struct Top<'a> {
    mount: Option<&'a Mount>,
    upper: Option<&'a Mount>,
    devices: Vec<String>,
}

fn top<'a>(host: &dyn Host, mounts: &'a [Mount], path: &str, depth: usize) -> Top<'a> {
    let dev = host.dev_of(path);
    let mount = mount_of(mounts, path, dev);
    let by_number = dev
        .filter(|(major, _)| *major != 0)
        .or(mount.map(|mount| mount.dev).filter(|(major, _)| *major != 0))
        .and_then(|(major, minor)| host.link(&format!("/sys/dev/block/{major}:{minor}")))
        .and_then(|target| last_name(&target));
    let mut top = Top { mount, ..Top::default() };
    if let Some(name) = by_number {
        top.devices = vec![name];
        return top;
    }
    let Some(mount) = mount else { return top };
    if mount.fstype == "overlay" {
        let seen = mount.option("upperdir").filter(|upper| host.dev_of(upper).is_some());
        if let Some(upper) = seen.filter(|_| depth < DEPTH_MAX) {
            let below = self::top(host, mounts, upper, depth + 1);
            top.upper = below.mount;
            top.devices = below.devices;
        }
    } else if let Some(name) = mount.source.strip_prefix("/dev/") {
        let first = device_name(host, name);
        top.devices = match mount.fstype.as_str() {
            "btrfs" => btrfs_members(host, &first),
            _ => vec![first],
        };
    }
    top
}

/// The kernel's name of the device file `/dev/NAME`, which may be a link or a mapper's name.
fn device_name(host: &dyn Host, name: &str) -> String {
    if let Some(linked) = host.link(&format!("/dev/{name}")).and_then(|at| last_name(&at)) {
        return linked;
    }
    let mapped = name.strip_prefix("mapper/").and_then(|mapped| {
        host.list("/sys/class/block").into_iter().find(|device| {
            host.line(&format!("/sys/class/block/{device}/dm/name")).as_deref() == Some(mapped)
        })
    });
    mapped.unwrap_or_else(|| name.replace('/', "!"))
}

/// All devices of the btrfs file system that has `first` among them.
fn btrfs_members(host: &dyn Host, first: &str) -> Vec<String> {
    host.list("/sys/fs/btrfs")
        .into_iter()
        .map(|id| host.list(&format!("/sys/fs/btrfs/{id}/devices")))
        .find(|members| members.iter().any(|member| member == first))
        .unwrap_or_else(|| vec![first.to_owned()])
}

struct Walk<'a> {
    host: &'a dyn Host,
    mounts: &'a [Mount],
    seen: Vec<String>,
    disks: Vec<String>,
}

impl Walk<'_> {
    fn visit(&mut self, name: &str, depth: usize) {
        if self.seen.len() >= DEVICES_MAX || self.seen.iter().any(|known| known == name) {
            return;
        }
        self.seen.push(name.to_owned());
        let below = self.below(name, depth);
        if below.is_empty() || depth >= DEPTH_MAX {
            self.disks.push(name.to_owned());
            return;
        }
        for next in below {
            self.visit(&next, depth + 1);
        }
    }

    /// Devices that `name` is made of; none for a disk.
    fn below(&self, name: &str, depth: usize) -> Vec<String> {
        let slaves = self.host.list(&format!("/sys/class/block/{name}/slaves"));
        if !slaves.is_empty() {
            return slaves;
        }
        if let Some(file) = self.host.line(&format!("/sys/class/block/{name}/loop/backing_file")) {
            let file = file.strip_suffix(" (deleted)").unwrap_or(&file);
            return top(self.host, self.mounts, file, depth).devices;
        }
        whole_disk(self.host, name).into_iter().collect()
    }
}

/// The disk that `name` is a partition of; `None` when it is no partition.
fn whole_disk(host: &dyn Host, name: &str) -> Option<String> {
    if host.read(&format!("/sys/class/block/{name}/partition")).is_some() {
        let target = host.link(&format!("/sys/class/block/{name}"));
        let parent =
            target.as_deref().and_then(|target| target.trim_end_matches('/').rsplit('/').nth(1));
        return parent.map(str::to_owned).or_else(|| name_of_disk(name).map(str::to_owned));
    }
    // Where sysfs shows the disks but not the partitions, the names tell.
    let known = |name: &str| host.read(&format!("/sys/class/block/{name}/queue/rotational"));
    name_of_disk(name)
        .filter(|disk| known(name).is_none() && known(disk).is_some())
        .map(str::to_owned)
}

/// The disk's part of a partition's name: `sdb3` is on `sdb`; where the disk's own name ends with
/// a digit there is a `p` between, as in `nvme0n1p2`.
fn name_of_disk(name: &str) -> Option<&str> {
    let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    if stem.len() == name.len() || stem.is_empty() {
        return None;
    }
    match stem.strip_suffix('p') {
        Some(disk) if disk.ends_with(|letter: char| letter.is_ascii_digit()) => Some(disk),
        _ => Some(stem),
    }
}

fn disk(host: &dyn Host, name: &str) -> Disk {
    let line = |file: &str| host.line(&format!("/sys/class/block/{name}/{file}"));
    let rotational = match line("queue/rotational").as_deref() {
        Some("0") => Some(false),
        Some("1") => Some(true),
        _ => None,
    };
    // Memory cards write their model to another file.
    let model = line("device/model").or_else(|| line("device/name"));
    let model = model.map(|model| model.split_whitespace().collect::<Vec<_>>().join(" "));
    Disk { name: name.to_owned(), rotational, model }
}

fn last_name(path: &str) -> Option<String> {
    path.trim_end_matches('/').rsplit('/').next().filter(|name| !name.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::CapturedHost;

    fn machine(mountinfo: &str, files: &[(&str, &str)], links: &[(&str, &str)]) -> CapturedHost {
        let host = CapturedHost::new();
        host.set_file("/proc/self/mountinfo", mountinfo);
        for (path, text) in files {
            host.set_file(path, text);
        }
        for (path, target) in links {
            host.set_link(path, target);
        }
        host
    }

    #[test]
    fn partition_names_lead_to_disks() {
        for (name, disk) in [
            ("sdb3", Some("sdb")),
            ("vda12", Some("vda")),
            ("nvme0n1p2", Some("nvme0n1")),
            ("mmcblk0p1", Some("mmcblk0")),
            ("sda", None),
            ("12", None),
        ] {
            assert_eq!(name_of_disk(name), disk, "{name}");
        }
    }

    #[test]
    fn a_disk_whose_name_ends_with_a_digit_is_no_partition() {
        let host = machine(
            "1 0 259:0 / / rw - ext4 /dev/nvme0n1 rw\n",
            &[("/sys/class/block/nvme0n1/queue/rotational", "0\n")],
            &[("/sys/dev/block/259:0", "../../devices/pci0/nvme/nvme0/nvme0n1")],
        );
        let found = storage(&host, "/x");
        assert_eq!(found.names_text().as_deref(), Some("nvme0n1"));
        assert_eq!(found.kind_text(), Some("solid state"));
        assert_eq!(found.model_text(), None);
    }

    #[test]
    fn a_memory_card_has_its_model_elsewhere() {
        let host = machine(
            "1 0 179:2 / / rw - ext4 /dev/root rw\n",
            &[
                ("/sys/class/block/mmcblk0p2/partition", "2\n"),
                ("/sys/class/block/mmcblk0/queue/rotational", "0\n"),
                ("/sys/class/block/mmcblk0/device/name", "SC32G\n"),
            ],
            &[
                ("/sys/dev/block/179:2", "../../devices/mmc0/block/mmcblk0/mmcblk0p2"),
                ("/sys/class/block/mmcblk0p2", "../../devices/mmc0/block/mmcblk0/mmcblk0p2"),
            ],
        );
        let found = storage(&host, "/data");
        assert_eq!(found.device_text().as_deref(), Some("/dev/mmcblk0p2 on / (ext4)"));
        assert_eq!(found.names_text().as_deref(), Some("mmcblk0 through mmcblk0p2"));
        assert_eq!(found.model_text().as_deref(), Some("SC32G"));
    }

    #[test]
    fn a_loop_device_leads_to_its_file() {
        let host = machine(
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 7:0 / /mnt rw - xfs /dev/loop0 rw\n",
            &[
                ("/sys/class/block/loop0/loop/backing_file", "/var/disk.img\n"),
                ("/sys/class/block/loop0/queue/rotational", "0\n"),
                ("/sys/class/block/sda/queue/rotational", "1\n"),
            ],
            &[
                ("/sys/dev/block/7:0", "../../devices/virtual/block/loop0"),
                ("/sys/dev/block/8:1", "../../devices/pci0/block/sda/sda1"),
            ],
        );
        let found = storage(&host, "/mnt/x");
        assert_eq!(found.names_text().as_deref(), Some("sda through loop0 sda1"));
        assert_eq!(found.kind_text(), Some("rotational (HDD)"));
    }

    #[test]
    fn a_loop_that_holds_itself_ends() {
        let host = machine(
            "1 0 7:0 / / rw - ext4 /dev/loop0 rw\n",
            &[("/sys/class/block/loop0/loop/backing_file", "/self.img (deleted)\n")],
            &[("/sys/dev/block/7:0", "x/loop0")],
        );
        let found = storage(&host, "/");
        assert_eq!((found.layers, found.disks), (vec!["loop0".to_owned()], vec![]));
    }

    #[test]
    fn disks_of_both_kinds_are_both_named() {
        let host = machine(
            "1 0 0:40 / / rw - btrfs /dev/sda rw,subvol=/\n",
            &[
                ("/sys/class/block/sda/queue/rotational", "1\n"),
                ("/sys/class/block/sda/device/model", "Old  Disk\n"),
                ("/sys/class/block/sdb/queue/rotational", "0\n"),
            ],
            &[
                ("/sys/fs/btrfs/uuid/devices/sda", "x"),
                ("/sys/fs/btrfs/uuid/devices/sdb", "x"),
                ("/sys/fs/btrfs/features", "x"),
            ],
        );
        let found = storage(&host, "/");
        assert_eq!(found.kind_text(), Some("rotational (HDD) and solid state"));
        assert_eq!(found.model_text().as_deref(), Some("Old Disk, n/a"));
    }

    #[test]
    fn an_overlay_leads_to_its_upper_directory_when_that_is_seen() {
        let mountinfo = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n\
            2 1 0:50 / /merged rw - overlay overlay rw,lowerdir=/l,upperdir=/u\\0541,workdir=/w\n";
        let host = machine(
            mountinfo,
            &[("/sys/class/block/sda1/queue/rotational", "0\n")],
            &[("/sys/dev/block/8:1", "x/sda1")],
        );
        let hidden = storage(&host, "/merged/x");
        assert_eq!(hidden.device_text().as_deref(), Some("overlay on /merged (overlay)"));
        assert_eq!(hidden.names_text(), None);
        host.set_device("/u,1", 8, 1);
        let shown = storage(&host, "/merged/x");
        let expected = "overlay on /merged (overlay), upper layer on /dev/sda1 (ext4)";
        assert_eq!(shown.device_text().as_deref(), Some(expected));
        assert_eq!(shown.names_text().as_deref(), Some("sda1"));
    }

    #[test]
    fn a_mapper_name_is_found_without_device_files() {
        let host = machine(
            "1 0 0:31 / /d rw - btrfs /dev/mapper/vg-data rw\n",
            &[
                ("/sys/class/block/dm-0/dm/name", "vg-root\n"),
                ("/sys/class/block/dm-1/dm/name", "vg-data\n"),
            ],
            &[],
        );
        assert_eq!(storage(&host, "/d").names_text().as_deref(), Some("dm-1"));
    }

    #[test]
    fn nothing_known_is_nothing_said() {
        let found = storage(&CapturedHost::new(), "/data");
        assert_eq!(found, Storage::default());
        assert_eq!((found.device_text(), found.kind_text()), (None, None));
        assert_eq!((found.model_text(), found.names_text()), (None, None));
    }
}

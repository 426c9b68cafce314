//! `--mem-limit`: the whole process in a control group of its own whose memory is limited, page
//! cache of its files included, so that a store that does not fit into memory can be measured on a
//! machine that has more.
//!
//! ```text
//!   group of the process   /a/b            a child of /a where that gives memory to its children,
//!   new group              /a/keyrack-PID  else of /a/b where that does
//!                          memory.max = BYTES
//! ```
//!
//! Version 2 of control groups alone: in version 1 limits of memory and of the cache under it are
//! other things. A control group with processes of others cannot begin to give memory to its
//! children, so nothing is switched on here; where no group above gives it, the limit is refused.
//! Swap is left as it is. A process that needs more than the limit is killed by the kernel.
//!
//! At the end the process goes back to where it was and the group is removed; after a kill it
//! stays, empty.

use crate::probe::{Host, group_dirs};
use keyrack_vfs::{Fs, OpenOptions};
use std::path::{Path, PathBuf};

/// Below this a process does not even start its threads.
const BYTES_MIN: u64 = 16 << 20;

/// A limit that is in force until this is dropped.
#[derive(Debug)]
pub struct MemLimit<'f> {
    fs: &'f dyn Fs,
    home: PathBuf,
    group: PathBuf,
}

impl<'f> MemLimit<'f> {
    /// Puts this process, of number `pid`, into a group of at most `bytes`.
    ///
    /// # Errors
    /// One line with the reason and the remedy.
    pub fn enter(
        bytes: u64,
        pid: u32,
        host: &dyn Host,
        fs: &'f dyn Fs,
    ) -> Result<MemLimit<'f>, String> {
        if bytes < BYTES_MIN {
            return Err(format!(
                "--mem-limit {bytes}: less than {BYTES_MIN} bytes is no room to run"
            ));
        }
        let dirs = group_dirs(host).ok_or_else(|| {
            refused("there is no version 2 of control groups with this process in it")
        })?;
        let Some(home) = dirs.first().map(PathBuf::from) else {
            return Err(refused("the control group of this process cannot be seen"));
        };
        let gives = |dir: &Path| {
            let file = dir.join("cgroup.subtree_control");
            let text = host.read(&file.to_string_lossy()).unwrap_or_default();
            text.split_whitespace().any(|controller| controller == "memory")
        };
        // The parent first: beside a group that has processes is where a sibling may be.
        let candidates = [dirs.get(1).map(PathBuf::from), Some(home.clone())];
        let mut why = "no group above this process gives memory to its children".to_owned();
        for parent in candidates.into_iter().flatten().filter(|parent| gives(parent)) {
            let group = parent.join(format!("keyrack-{pid}"));
            match fill(fs, &home, &group, bytes, pid) {
                Ok(()) => return Ok(MemLimit { fs, home, group }),
                Err(error) => why = error,
            }
        }
        Err(refused(&why))
    }
}

impl Drop for MemLimit<'_> {
    fn drop(&mut self) {
        // Nobody is left to tell. What stays is an empty group with our name.
        if write(self.fs, &self.home.join("cgroup.procs"), "0").is_ok() {
            let _ = self.fs.remove_dir(&self.group);
        }
    }
}

/// Makes the group, limits it, and moves the process there; leaves nothing behind where it cannot.
fn fill(fs: &dyn Fs, home: &Path, group: &Path, bytes: u64, pid: u32) -> Result<(), String> {
    fs.create_dir(group).map_err(|error| error.to_string())?;
    let limited = write(fs, &group.join("memory.max"), &bytes.to_string())
        .and_then(|()| write(fs, &group.join("cgroup.procs"), &pid.to_string()));
    limited.inspect_err(|_| {
        let _ = write(fs, &home.join("cgroup.procs"), &pid.to_string());
        let _ = fs.remove_dir(group);
    })
}

fn write(fs: &dyn Fs, path: &Path, text: &str) -> Result<(), String> {
    let file = fs.open(path, &OpenOptions::new().write(true).create(true));
    let written = file.and_then(|file| file.write_some_at(0, text.as_bytes()));
    written.map(|_| ()).map_err(|error| error.to_string())
}

fn refused(why: &str) -> String {
    format!(
        "--mem-limit: {why}; it takes Linux with version 2 of control groups and the right to make \
         one, such as under: systemd-run --user --scope -p Delegate=yes, or root"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::CapturedHost;
    use keyrack_vfs::MemFs;

    fn machine(controllers: &str) -> (CapturedHost, MemFs) {
        let host = CapturedHost::new();
        host.set_file("/proc/self/cgroup", "0::/a/b\n");
        let mount = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        host.set_file("/proc/self/mountinfo", mount);
        host.set_file("/sys/fs/cgroup/a/cgroup.subtree_control", controllers);
        let fs = MemFs::new();
        fs.create_dir_all(Path::new("/sys/fs/cgroup/a/b")).unwrap();
        (host, fs)
    }

    #[test]
    fn the_process_goes_into_a_group_beside_its_own_and_back() {
        let (host, fs) = machine("cpu memory pids\n");
        let group = Path::new("/sys/fs/cgroup/a/keyrack-77");
        let limit = MemLimit::enter(64 << 20, 77, &host, &fs).unwrap();
        assert_eq!(fs.read(&group.join("memory.max")).unwrap(), b"67108864");
        assert_eq!(fs.read(&group.join("cgroup.procs")).unwrap(), b"77");
        drop(limit);
        let home = Path::new("/sys/fs/cgroup/a/b/cgroup.procs");
        assert_eq!(fs.read(home).unwrap(), b"0", "0 stands for the process itself");
    }

    #[test]
    fn where_memory_is_not_given_or_there_is_no_version_two_it_is_refused() {
        let (host, fs) = machine("cpu pids\n");
        let line = MemLimit::enter(64 << 20, 77, &host, &fs).unwrap_err();
        assert!(line.contains("gives memory") && line.contains("systemd-run"), "{line}");
        assert_eq!(line.lines().count(), 1);
        host.set_file("/proc/self/cgroup", "4:memory:/a/b\n");
        let line = MemLimit::enter(64 << 20, 77, &host, &fs).unwrap_err();
        assert!(line.contains("no version 2"), "{line}");
        assert!(!fs.exists(Path::new("/sys/fs/cgroup/a/keyrack-77")).unwrap());
        let line = MemLimit::enter(1, 77, &host, &fs).unwrap_err();
        assert!(line.contains("no room"), "{line}");
    }

    #[test]
    fn a_group_that_cannot_be_limited_is_not_left_behind() {
        use keyrack_vfs::{Fault, FaultFs, FaultPlan, Operation};
        let (host, fs) = machine("memory\n");
        let fs = FaultFs::new(std::sync::Arc::new(fs));
        fs.arm(FaultPlan::once(1, Fault::Io).only(&[Operation::Open]));
        let line = MemLimit::enter(64 << 20, 77, &host, &fs).unwrap_err();
        assert!(line.starts_with("--mem-limit: ") && line.lines().count() == 1, "{line}");
        assert!(!fs.exists(Path::new("/sys/fs/cgroup/a/keyrack-77")).unwrap());
    }
}

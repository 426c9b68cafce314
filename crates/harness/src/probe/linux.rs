//! The machine this process runs on, read from a live Linux kernel.
//!
//! Text comes from `/proc` and `/sys`. Four system calls have no text form: `statfs` (free space),
//! `stat` (device numbers, by the standard library), `sysconf` (page size) and `getrusage` (peak
//! memory, faults and context switches with the threads that have ended, which `/proc` leaves
//! out). Each unsafe block is one operation. Only this file and the C library's version in
//! `build.rs` are particular to one kind of system.

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{FsSpace, Host, Usage};

/// The running machine. It has no state: each call asks the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinuxHost;

impl Host for LinuxHost {
    fn read(&self, path: &str) -> Option<String> {
        #[expect(
            clippy::disallowed_methods,
            reason = "/proc and /sys are the kernel's reports, not files of an engine"
        )]
        let bytes = std::fs::read(path).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn list(&self, path: &str) -> Vec<String> {
        #[expect(
            clippy::disallowed_methods,
            reason = "/proc and /sys are the kernel's reports, not files of an engine"
        )]
        let Ok(entries) = std::fs::read_dir(path) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .filter_map(Result::ok)
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort_unstable();
        names
    }

    fn link(&self, path: &str) -> Option<String> {
        Some(std::fs::read_link(path).ok()?.to_string_lossy().into_owned())
    }

    fn canonical(&self, path: &str) -> Option<String> {
        let absolute = std::path::absolute(path).ok()?;
        let found = absolute.ancestors().find_map(|at| at.canonicalize().ok())?;
        Some(found.to_string_lossy().into_owned())
    }

    fn statfs(&self, path: &str) -> Option<FsSpace> {
        let path = CString::new(path).ok()?;
        let mut found = MaybeUninit::<libc::statfs>::uninit();
        // SAFETY: `path` ends with a zero byte and `found` has room for the structure that the
        // kernel writes; both live across the call.
        let failed = unsafe { libc::statfs(path.as_ptr(), found.as_mut_ptr()) };
        if failed != 0 {
            return None;
        }
        // SAFETY: the call succeeded, so the kernel has filled the whole structure.
        let found = unsafe { found.assume_init() };
        let block_bytes = u64::try_from(found.f_frsize).ok()?;
        Some(FsSpace {
            free: found.f_bavail.saturating_mul(block_bytes),
            total: found.f_blocks.saturating_mul(block_bytes),
            magic: found.f_type as u64 & 0xffff_ffff,
        })
    }

    fn dev_of(&self, path: &str) -> Option<(u32, u32)> {
        let dev = Path::new(path).metadata().ok()?.dev();
        Some((libc::major(dev), libc::minor(dev)))
    }

    fn page_size(&self) -> Option<u64> {
        // SAFETY: sysconf takes a number and touches no memory of ours.
        let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        u64::try_from(bytes).ok().filter(|bytes| *bytes > 0)
    }

    fn rusage(&self) -> Option<Usage> {
        let mut found = MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: `found` has room for the structure that the kernel writes and lives across the
        // call.
        let failed = unsafe { libc::getrusage(libc::RUSAGE_SELF, found.as_mut_ptr()) };
        if failed != 0 {
            return None;
        }
        // SAFETY: the call succeeded, so the kernel has filled the whole structure.
        let found = unsafe { found.assume_init() };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
        Some(Usage {
            cpu_s: seconds(found.ru_utime) + seconds(found.ru_stime),
            peak_rss_bytes: u64::try_from(found.ru_maxrss).ok()?.saturating_mul(1024),
            minflt: u64::try_from(found.ru_minflt).ok()?,
            majflt: u64::try_from(found.ru_majflt).ok()?,
            vol_ctxsw: u64::try_from(found.ru_nvcsw).ok()?,
            invol_ctxsw: u64::try_from(found.ru_nivcsw).ok()?,
        })
    }

    fn arch(&self) -> Option<String> {
        // Kernels before 6.1 have no such file; the program's own architecture runs here anyway.
        self.line("/proc/sys/kernel/arch").or_else(|| Some(std::env::consts::ARCH.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_answers() {
        let host = LinuxHost;
        assert!(host.page_size().unwrap().is_power_of_two());
        assert!(host.ram_bytes().unwrap() > 0);
        assert!(!host.online_cpus().is_empty());
        assert!(!host.affinity().is_empty());
        assert!(host.open_file_limit().unwrap() > 0);
        assert!(host.rusage().unwrap().peak_rss_bytes > 0);
        assert!(host.uname().unwrap().starts_with("Linux "));
        assert!(host.hostname().is_some());
    }

    #[test]
    fn space_and_device_of_a_directory() {
        let host = LinuxHost;
        let space = host.statfs("/proc").unwrap();
        assert_eq!(space.magic, 0x9fa0, "the number of procfs");
        let root = host.statfs("/").unwrap();
        assert!(root.total > 0 && root.free <= root.total);
        assert_eq!(host.dev_of("/proc").map(|dev| dev.0), Some(0), "procfs has no block device");
        assert_eq!(host.statfs("/no/such/path"), None);
        assert_eq!(host.statfs("a\0b"), None);
        assert_eq!(host.dev_of("/no/such/path"), None);
    }

    #[test]
    fn a_missing_directory_is_named_by_its_ancestor() {
        let host = LinuxHost;
        assert_eq!(host.canonical("/proc/no/such/path").as_deref(), Some("/proc"));
        let here = std::env::current_dir().unwrap().canonicalize().unwrap();
        assert_eq!(host.canonical("."), Some(here.to_string_lossy().into_owned()));
        assert_eq!(host.canonical(""), None);
    }

    #[test]
    fn what_is_absent_reads_as_nothing() {
        let host = LinuxHost;
        assert_eq!(host.read("/proc/no-such-file"), None);
        assert_eq!(host.read("/proc"), None);
        assert_eq!(host.link("/proc/stat"), None);
        assert!(host.list("/proc/no-such-directory").is_empty());
        assert!(host.list("/proc/self").contains(&"status".to_owned()));
        assert!(host.link("/proc/self").is_some());
    }
}

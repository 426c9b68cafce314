//! `--drop-caches`: what the kernel keeps of files in memory is given up before a timed phase, so
//! that reads of a store on disk are reads of the disk.
//!
//! First all that is dirty is written out, since only clean pages can be given up. The kernel does
//! this for the whole machine, so that it is refused to all but root. What an engine keeps in a
//! cache of its own stays.

use rustix::fs::{Mode, OFlags, open, sync};
use rustix::io::write;

const PATH: &str = "/proc/sys/vm/drop_caches";
/// Pages of files, and names and inodes.
const ALL: &[u8] = b"3\n";

/// Whether this process may.
///
/// # Errors
/// One line with the remedy.
pub(crate) fn check() -> Result<(), String> {
    open(PATH, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).map(|_| ()).map_err(refused)
}

/// Drops them.
///
/// # Errors
/// As [`check`].
pub(crate) fn drop_caches() -> Result<(), String> {
    sync();
    let file = open(PATH, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).map_err(refused)?;
    write(&file, ALL).map(|_| ()).map_err(refused)
}

fn refused(error: rustix::io::Errno) -> String {
    format!("--drop-caches: cannot write {PATH}: {error}; it takes root on Linux")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_not_is_told_why() {
        let line = refused(rustix::io::Errno::ACCESS);
        assert!(line.contains("--drop-caches") && line.contains("root"), "{line}");
    }
}

//! A small disk of a test's own, which can be filled and emptied: a file system in memory, in a
//! name space that a process holds open.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Bytes that the ballast grows by.
const STEP_BYTES: usize = 64 << 10;

pub(crate) struct Disk {
    holder: Child,
    /// Where it is, seen from outside of the name space.
    pub(crate) path: PathBuf,
}

impl Disk {
    /// A disk of so many MiB, or why this machine gives none.
    pub(crate) fn mount(at: &Path, mib: u64) -> Result<Disk, String> {
        let script = "mount -t tmpfs -o size=$1m tmpfs \"$2\" && echo mounted && exec cat";
        let mut holder = Command::new("unshare")
            .args(["-rm", "sh", "-c", script, "sh", &mib.to_string()])
            .arg(at)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("unshare: {error}"))?;
        let mut line = String::new();
        let stdout = holder.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        if line != "mounted\n" {
            let output = holder.wait_with_output().unwrap();
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
        }
        let root = PathBuf::from(format!("/proc/{}/root", holder.id()));
        let path = root.join(at.strip_prefix("/").unwrap());
        Ok(Disk { holder, path })
    }

    fn ballast(&self) -> PathBuf {
        self.path.join("ballast")
    }

    /// Takes all the space that there is.
    pub(crate) fn fill(&self) {
        let mut file = File::options().append(true).create(true).open(self.ballast()).unwrap();
        // Down to the last bytes: half as much again and again.
        let mut step = STEP_BYTES;
        while step > 0 {
            if file.write(&vec![b'.'; step]).is_err() {
                step /= 2;
            }
        }
    }

    /// Gives it back.
    pub(crate) fn free(&self) {
        match fs::remove_file(self.ballast()) {
            Ok(()) => {}
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The file system goes with the last process in its name space.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

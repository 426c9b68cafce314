//! A scratch folder for tests, removed when it goes out of scope.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Debug)]
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// An empty folder of its own for the test of this name.
    pub(crate) fn new(test: &str) -> Scratch {
        let name = format!("keyrack-xtask-{}-{test}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("made");
        Scratch(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file, making the folders above it.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().expect("has a parent")).expect("made");
        fs::write(path, text).expect("written");
    }

    /// A stand-in for a program: a shell script, as `bin/NAME`. Another process puts it in its
    /// place: a file that this process had open for writing could still be open in a child that
    /// another test has just forked, and such a file cannot be executed.
    pub(crate) fn program(&self, name: &str, script: &str) -> PathBuf {
        self.write("script.txt", &format!("#!/bin/sh\n{script}\n"));
        let program = self.0.join("bin").join(name);
        fs::create_dir_all(self.0.join("bin")).expect("made");
        let status = Command::new("install")
            .args(["-m", "755"])
            .arg(self.0.join("script.txt"))
            .arg(&program)
            .status()
            .expect("started");
        assert!(status.success());
        program
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed stays in the temporary folder; the test has its answer already.
        let _left_behind = fs::remove_dir_all(&self.0);
    }
}

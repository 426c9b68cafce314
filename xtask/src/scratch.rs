//! A scratch folder for tests, removed when it goes out of scope.

use std::fs;
use std::path::{Path, PathBuf};

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
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed stays in the temporary folder; the test has its answer already.
        let _left_behind = fs::remove_dir_all(&self.0);
    }
}

//! A store for one or more measurements: opened in a directory of its own, removed afterwards; or
//! in one that the user named, and left there.

use crate::planned_engine::PlannedEngine;
use crate::probe::{LinuxHost, resident_bytes};
use crate::verify::Checked;
use keyrack_store::{Durability, OpenOptions, Store};
use keyrack_vfs::{FileKind, Fs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open store and the directory that dies with it.
pub(crate) struct Stage {
    // Dropped before the directory under it is removed.
    store: Option<Box<dyn Store>>,
    dir: Option<Dir>,
    /// Resident memory of the process before the store was opened.
    resident_before: Option<u64>,
}

/// Where a persistent store is.
enum Dir {
    Temp(TempDir),
    Kept(PathBuf),
}

impl Dir {
    fn path(&self) -> &Path {
        match self {
            Dir::Temp(dir) => &dir.path,
            Dir::Kept(path) => path,
        }
    }
}

/// A directory that is removed when it is dropped, in a panic too.
struct TempDir {
    path: PathBuf,
    fs: Arc<dyn Fs>,
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // Nobody is left to tell; the name says whose it was.
        let _ = self.fs.remove_dir_all(&self.path);
    }
}

impl Stage {
    pub(crate) fn open(
        planned: &PlannedEngine,
        fs: &Arc<dyn Fs>,
        seed: u64,
        durability: Option<Durability>,
    ) -> Result<Stage, String> {
        let resident_before = resident_bytes(&LinuxHost);
        let dir = match (&planned.data_dir, &planned.kept_dir) {
            (_, Some(path)) => {
                fs.create_dir_all(path).map_err(|e| e.to_string())?;
                Some(Dir::Kept(path.clone()))
            }
            (None, None) => None,
            (Some(parent), None) => {
                let prefix = format!("keyrack-{}", planned.engine.name);
                let path = fs.create_unique_dir(parent, &prefix).map_err(|e| e.to_string())?;
                Some(Dir::Temp(TempDir { path, fs: Arc::clone(fs) }))
            }
        };
        let mut stage = Stage { store: None, dir, resident_before };
        stage.open_store(planned, fs, seed, durability).map_err(|error| error.to_string())?;
        Ok(stage)
    }

    fn open_store(
        &mut self,
        planned: &PlannedEngine,
        fs: &Arc<dyn Fs>,
        seed: u64,
        durability: Option<Durability>,
    ) -> keyrack_store::Result<()> {
        let options = OpenOptions {
            data_dir: self.dir().map(Path::to_owned),
            fs: Arc::clone(fs),
            seed,
            durability,
            options: planned.options.clone(),
        };
        let mut store = (planned.engine.open)(&options)?;
        if let Some(verify) = planned.verify {
            store = Box::new(Checked::new(store, verify));
        }
        self.store = Some(store);
        Ok(())
    }

    /// Opens the store again with the durability `level`, for a load. Whether the engine has that
    /// level; if not, the store is open as before.
    pub(crate) fn relax(
        &mut self,
        planned: &PlannedEngine,
        fs: &Arc<dyn Fs>,
        seed: u64,
        level: Durability,
    ) -> Result<bool, String> {
        self.close_store()?;
        match self.open_store(planned, fs, seed, Some(level)) {
            Ok(()) => Ok(true),
            Err(keyrack_store::Error::Usage { .. }) => {
                let opened = self.open_store(planned, fs, seed, planned.durability);
                opened.map(|()| false).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// Ends a load of lower durability: closes the store, syncs its files, and opens it with the
    /// durability of the measurement.
    pub(crate) fn harden(
        &mut self,
        planned: &PlannedEngine,
        fs: &Arc<dyn Fs>,
        seed: u64,
    ) -> Result<(), String> {
        self.close_store()?;
        if let Some(dir) = self.dir() {
            sync_tree(&**fs, dir).map_err(|error| error.to_string())?;
        }
        let opened = self.open_store(planned, fs, seed, planned.durability);
        opened.map_err(|error| error.to_string())
    }

    fn close_store(&mut self) -> Result<(), String> {
        match self.store.take() {
            Some(store) => store.close().map_err(|error| format!("close: {error}")),
            None => Ok(()),
        }
    }

    /// Resident memory that came since the store was opened.
    pub(crate) fn memory_bytes(&self) -> Option<u64> {
        Some(resident_bytes(&LinuxHost)?.saturating_sub(self.resident_before?))
    }

    pub(crate) fn store(&self) -> &dyn Store {
        match &self.store {
            Some(store) => &**store,
            None => unreachable!("the store is taken by close alone, which consumes the stage"),
        }
    }

    pub(crate) fn dir(&self) -> Option<&Path> {
        self.dir.as_ref().map(Dir::path)
    }

    /// Whether the store was there before, or may have been, and stays.
    pub(crate) fn is_kept(&self) -> bool {
        matches!(self.dir, Some(Dir::Kept(_)))
    }

    /// Closes the store and removes its directory, unless that stays.
    pub(crate) fn close(mut self) -> Result<(), String> {
        self.close_store()
    }
}

/// Makes all files below a directory durable, and their names.
fn sync_tree(fs: &dyn Fs, dir: &Path) -> keyrack_vfs::Result<()> {
    for entry in fs.list(dir)? {
        let path = dir.join(&entry.name);
        match entry.kind {
            FileKind::Dir => sync_tree(fs, &path)?,
            FileKind::File => {
                fs.open(&path, &keyrack_vfs::OpenOptions::new().read(true))?.sync_all()?;
            }
            // Links and devices have no bytes of the store; their names are the directory's.
            _ => {}
        }
    }
    fs.sync_dir(dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_vfs::{CrashPolicy, MemFs};

    /// A load without syncs left files that a power loss took away under a synced measurement.
    #[test]
    fn the_files_of_an_unsynced_load_survive_a_power_loss() {
        let disk = MemFs::new();
        let (dir, deep) = (Path::new("/data"), Path::new("/data/deep/er"));
        disk.create_dir_all(deep).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        let create = keyrack_vfs::OpenOptions::new().write(true).create(true);
        for name in ["/data/one", "/data/deep/er/two"] {
            disk.open(Path::new(name), &create).unwrap().write_at(0, b"rows").unwrap();
        }
        let lost = disk.crash_image(1, CrashPolicy::DropAll);
        assert!(lost.read(Path::new("/data/one")).is_err());
        sync_tree(&disk, dir).unwrap();
        let left = disk.crash_image(1, CrashPolicy::DropAll);
        for name in ["/data/one", "/data/deep/er/two"] {
            assert_eq!(left.read(Path::new(name)).unwrap(), b"rows", "{name}");
        }
    }
}

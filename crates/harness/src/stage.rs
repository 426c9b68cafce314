//! A store for one or more measurements: opened in a directory of its own, removed afterwards; or
//! in one that the user named, and left there.

use crate::plan::PlannedEngine;
use crate::verify::Checked;
use keyrack_store::{OpenOptions, Store};
use keyrack_vfs::Fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open store and the directory that dies with it.
pub(crate) struct Stage {
    // Dropped before the directory under it is removed.
    store: Option<Box<dyn Store>>,
    dir: Option<Dir>,
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
        durability: Option<keyrack_store::Durability>,
    ) -> Result<Stage, String> {
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
        let options = OpenOptions {
            data_dir: dir.as_ref().map(|dir| dir.path().to_owned()),
            fs: Arc::clone(fs),
            seed,
            durability,
            options: planned.options.clone(),
        };
        let opened = (planned.engine.open)(&options);
        let mut store = opened.map_err(|error| error.to_string())?;
        if let Some(verify) = planned.verify {
            store = Box::new(Checked::new(store, verify));
        }
        Ok(Stage { store: Some(store), dir })
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
        match self.store.take() {
            Some(store) => store.close().map_err(|error| format!("close: {error}")),
            None => Ok(()),
        }
    }
}

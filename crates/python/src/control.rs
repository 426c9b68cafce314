//! What is asked of a store as a whole, with key spaces or without.

use crate::error::Result;
use crate::handle::{Handle, Opened};
use keyrack_backup::Backup;
use keyrack_flodb as flodb;
use keyrack_flodb::{Db, Spaces};
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

/// Opens a store without key spaces.
pub(crate) fn open(path: &Path, options: flodb::Options, read_only: bool) -> Result<Arc<Handle>> {
    let db = match read_only {
        true => Db::open_read_only(path, options)?,
        false => Db::open(path, options)?,
    };
    Ok(Handle::new(path, Opened::Db(db)))
}

/// Opens a store with key spaces.
pub(crate) fn open_spaces(
    path: &Path,
    options: flodb::Options,
    read_only: bool,
) -> Result<Arc<Handle>> {
    let spaces = match read_only {
        true => Spaces::open_read_only(path, options, &[])?,
        false => Spaces::open(path, options, &[])?,
    };
    Ok(Handle::new(path, Opened::Spaces(spaces, RwLock::default())))
}

impl Handle {
    pub(crate) fn flush(&self) -> Result<()> {
        self.with(|opened| match opened {
            Opened::Db(db) => Ok(db.flush()?),
            Opened::Spaces(spaces, _) => Ok(spaces.flush()?),
        })
    }

    pub(crate) fn compact(&self) -> Result<()> {
        self.with(|opened| match opened {
            Opened::Db(db) => Ok(db.compact_range(None, None)?),
            Opened::Spaces(spaces, _) => Ok(spaces.compact()?),
        })
    }

    pub(crate) fn checkpoint(&self, target: &Path) -> Result<()> {
        self.with(|opened| match opened {
            Opened::Db(db) => Ok(db.checkpoint(target)?),
            Opened::Spaces(spaces, _) => Ok(spaces.checkpoint(target)?),
        })
    }

    /// What a backup copies. The store does not wait for the copying.
    pub(crate) fn backup(&self) -> Result<Backup<'static>> {
        self.with(|opened| {
            Ok(Backup::of(match opened {
                Opened::Db(db) => db.file_set()?,
                Opened::Spaces(spaces, _) => spaces.file_set()?,
            }))
        })
    }

    pub(crate) fn property(&self, name: &str) -> Result<Option<String>> {
        self.with(|opened| {
            Ok(match opened {
                Opened::Db(db) => db.property(name),
                Opened::Spaces(spaces, _) => spaces.property(name),
            })
        })
    }

    pub(crate) fn stats(&self) -> Result<Vec<(String, f64)>> {
        self.with(|opened| {
            let mut stats = Vec::new();
            let mut visit = |name: &str, number: f64| stats.push((name.to_owned(), number));
            match opened {
                Opened::Db(db) => db.stats(&mut visit),
                Opened::Spaces(spaces, _) => spaces.stats(&mut visit),
            }
            Ok(stats)
        })
    }

    /// The path as Python gets it.
    pub(crate) fn path_buf(&self) -> PathBuf {
        self.path().to_owned()
    }
}

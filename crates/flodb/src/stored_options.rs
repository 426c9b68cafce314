//! Options with those that a store keeps, which are in its manifest: [`StoredOptions`].

use crate::db::settled;
use crate::error::{Error, Result};
use crate::manifest::{CURRENT, edits, manifest_name, named};
use crate::options::Options;
use crate::version::StoredOptions;
use keyrack_store::Durability;
use keyrack_vfs::Fs;
use std::path::{Path, PathBuf};

impl Options {
    /// The part of these options that a store keeps.
    pub(crate) fn to_store(&self) -> StoredOptions {
        let options = self;
        StoredOptions {
            block_bytes: options.block_bytes as u64,
            restart_interval: options.restart_interval as u64,
            filter_bits_per_key: options.filter_bits_per_key.into(),
            table_bytes: options.table_bytes,
            level0_tables: options.level0_tables as u64,
            level_base_bytes: options.level_base_bytes,
            compression: options.compression.clone(),
            blob_bytes_min: options.blob_bytes_min as u64,
            log_retention_bytes: options.log_retention_bytes,
            log_retention_seconds: options.log_retention_seconds,
        }
    }

    /// These options, but for what is stored.
    fn with(self, stored: StoredOptions) -> Result<Options> {
        let too_large = |name| move |_| Error::Usage(format!("{name} is more than memory"));
        let level0_tables =
            usize::try_from(stored.level0_tables).map_err(too_large("level0_tables"))?;
        let retention = match self.durability {
            // There is no log to be kept.
            Durability::None => (self.log_retention_bytes, self.log_retention_seconds),
            _ => (stored.log_retention_bytes, stored.log_retention_seconds),
        };
        let options = Options {
            block_bytes: usize::try_from(stored.block_bytes).map_err(too_large("block_bytes"))?,
            restart_interval: usize::try_from(stored.restart_interval)
                .map_err(too_large("restart_interval"))?,
            filter_bits_per_key: u32::try_from(stored.filter_bits_per_key)
                .map_err(too_large("filter_bits_per_key"))?,
            table_bytes: stored.table_bytes,
            level0_tables,
            level0_slow: self.level0_slow.max(level0_tables),
            level0_stop: self.level0_stop.max(level0_tables),
            level_base_bytes: stored.level_base_bytes,
            compression: stored.compression,
            blob_bytes_min: usize::try_from(stored.blob_bytes_min)
                .map_err(too_large("blob_bytes_min"))?,
            log_retention_bytes: retention.0,
            log_retention_seconds: retention.1,
            ..self
        };
        options.check()?;
        Ok(options)
    }

    /// These options, but for those that the store in `dir` keeps: block and table sizes, the
    /// restart interval, the filter's bits, the levels, the compression, the size from which on
    /// values go to blob files, and how much of the log is kept. A store that an earlier program
    /// wrote, or that is not there, keeps none. Every store keeps what it was last opened for
    /// writing with.
    ///
    /// ```
    /// use keyrack_flodb::{Compression, Db, Options};
    /// # let dir = std::env::temp_dir().join(format!("keyrack-stored-{}", std::process::id()));
    /// let lz4 = Options { compression: vec![Compression::Lz4], ..Options::default() };
    /// Db::open(&dir, lz4)?.close()?;
    /// let fs = keyrack_vfs::RealFs;
    /// let options = Options::default().with_stored(&fs, &dir)?;
    /// assert_eq!(options.compression, [Compression::Lz4]);
    /// # Db::destroy(&fs, &dir)?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// O(edits of the manifest). Somebody may be writing to the store.
    ///
    /// # Errors
    /// Corruption: the manifest is damaged, or keeps what cannot be. [`Error::Usage`] if a later
    /// program wrote it. [`Error::UnsupportedCompression`] if it keeps a codec that is not built
    /// in. The machine's errors.
    pub fn with_stored(self, fs: &dyn Fs, dir: &Path) -> Result<Options> {
        if !fs.exists(&dir.join(CURRENT))? {
            return Ok(self);
        }
        let stored = settled(dir, || read(fs, dir).map(Some))?;
        match stored {
            None => Ok(self),
            Some((path, stored)) => {
                stored.check_built_in(&path)?;
                self.with(stored).map_err(|why| {
                    let what = format!("it keeps options that no store can have: {why}");
                    Error::corruption(&path, 0, what)
                })
            }
        }
    }
}

/// The options in the manifest that counts, and its path; `None` if it keeps none.
fn read(fs: &dyn Fs, dir: &Path) -> Result<Option<(PathBuf, StoredOptions)>> {
    // Somebody has removed the store since the caller saw it.
    let Some(number) = named(fs, dir)? else { return Ok(None) };
    let path = dir.join(manifest_name(number));
    let mut stored = None;
    edits(fs, &path, &mut |edit| {
        stored = edit.options.clone().or(stored.take());
        true
    })?;
    Ok(stored.map(|stored| (path, stored)))
}

//! The options that a store keeps in its manifest: those that decide what is in its tables, and how
//! much of the log is kept.

use crate::compress::Compression;
use crate::error::Result;
use std::fmt;
use std::path::Path;

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoredOptions {
    pub(crate) block_bytes: u64,
    pub(crate) restart_interval: u64,
    pub(crate) filter_bits_per_key: u64,
    pub(crate) table_bytes: u64,
    pub(crate) level0_tables: u64,
    pub(crate) level_base_bytes: u64,
    pub(crate) compression: Vec<Compression>,
    /// 0 where no values go to blob files, as in stores of earlier programs.
    pub(crate) blob_bytes_min: u64,
    /// 0 for none, as in stores of earlier programs.
    pub(crate) log_retention_bytes: u64,
    /// The same.
    pub(crate) log_retention_seconds: u64,
}

impl StoredOptions {
    /// Refuses a store whose manifest, at `path`, keeps a codec that is not built in.
    ///
    /// # Errors
    /// [`Error::UnsupportedCompression`](crate::Error::UnsupportedCompression).
    pub(crate) fn check_built_in(&self, path: &Path) -> Result<()> {
        self.compression.iter().try_for_each(|codec| codec.codec().check_built_in(path))
    }
}

impl fmt::Display for StoredOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "block_bytes={} restart_interval={} filter_bits={} table_bytes={} level0_tables={} \
             level_base_bytes={} compression={}",
            self.block_bytes,
            self.restart_interval,
            self.filter_bits_per_key,
            self.table_bytes,
            self.level0_tables,
            self.level_base_bytes,
            Compression::show_list(&self.compression)
        )?;
        let numbers = [
            ("blob_bytes_min", self.blob_bytes_min),
            ("log_retention_bytes", self.log_retention_bytes),
            ("log_retention_seconds", self.log_retention_seconds),
        ];
        let mut given = numbers.iter().filter(|(_, number)| *number > 0);
        given.try_for_each(|(name, number)| write!(f, " {name}={number}"))
    }
}

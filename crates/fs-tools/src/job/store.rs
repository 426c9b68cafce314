//! Settings of stores by environment variables, as the original has them: `DELTAFS_Db_NAME`, and
//! the same under our own name, `KEYRACK_FS_Db_NAME`. A value that cannot be read is an error.

use super::header::Header;
use keyrack_flodb::{Compression, Durability, Options};
use keyrack_vfs::{Fs, RealFs};
use std::path::Path;

/// What the environment says about the stores of a job.
#[derive(Clone, Debug)]
pub struct StoreSettings {
    /// What each store is opened with.
    pub options: Options,
    /// Whether tables are merged in the background.
    pub is_compacted: bool,
}

/// Where values come from.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A variable of the environment.
#[must_use]
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn find(lookup: Lookup<'_>, name: &str) -> Option<(String, String)> {
    ["DELTAFS_Db_", "KEYRACK_FS_Db_"].iter().find_map(|prefix| {
        let whole = format!("{prefix}{name}");
        lookup(&whole).map(|value| (whole, value))
    })
}

/// A number, with K, M or G behind it for powers of 1024.
#[must_use]
pub fn number(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 10),
        b'm' | b'M' => (&text[..text.len() - 1], 20),
        b'g' | b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "on" | "yes" | "true" | "enabled" | "y" => Some(true),
        "0" | "off" | "no" | "false" | "disabled" | "n" => Some(false),
        _ => None,
    }
}

fn number_of(lookup: Lookup<'_>, name: &str) -> Result<Option<u64>, String> {
    let Some((whole, value)) = find(lookup, name) else { return Ok(None) };
    let wrong = || format!("{whole}={value}: give a number, such as 65536 or 64K");
    number(&value).map(Some).ok_or_else(wrong)
}

fn boolean_of(lookup: Lookup<'_>, name: &str) -> Result<Option<bool>, String> {
    let Some((whole, value)) = find(lookup, name) else { return Ok(None) };
    boolean(&value).map(Some).ok_or_else(|| format!("{whole}={value}: give 0 or 1"))
}

impl StoreSettings {
    /// What `lookup` says; without a write-ahead log unless it is asked for, as in the original.
    ///
    /// # Errors
    /// One line for a variable whose value cannot be read.
    pub fn new(lookup: Lookup<'_>, disable_compaction: bool) -> Result<Self, String> {
        let mut options = Options::default();
        let no_log = boolean_of(lookup, "disable_write_ahead_logging")?.unwrap_or(true);
        options.durability = if no_log { Durability::None } else { Durability::Os };
        let as_size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let size = |name: &str, place: &mut usize| -> Result<(), String> {
            if let Some(number) = number_of(lookup, name)? {
                *place = as_size(number);
            }
            Ok(())
        };
        size("memtable_size", &mut options.memtable_bytes)?;
        size("block_size", &mut options.block_bytes)?;
        size("block_restart_interval", &mut options.restart_interval)?;
        size("block_cache_size", &mut options.cache_bytes)?;
        size("l0_compaction_trigger", &mut options.level0_tables)?;
        size("l0_soft_limit", &mut options.level0_slow)?;
        size("l0_hard_limit", &mut options.level0_stop)?;
        if let Some(bytes) = number_of(lookup, "table_size")? {
            options.table_bytes = bytes;
        }
        if let Some(bits) = number_of(lookup, "filter_bits_per_key")? {
            options.filter_bits_per_key = u32::try_from(bits).unwrap_or(u32::MAX);
        }
        // Ours has no buffers of these kinds, and needs no such triggers; they are read, so that a
        // mistake in them is told.
        for name in ["write_ahead_log_buffer", "manifest_buffer", "table_buffer", "level_factor"] {
            number_of(lookup, name)?;
        }
        for name in ["l1_compaction_trigger", "table_cache_size"] {
            number_of(lookup, name)?;
        }
        for name in ["use_default_logger", "enable_io_monitoring"] {
            boolean_of(lookup, name)?;
        }
        let is_off = boolean_of(lookup, "disable_compaction")?.unwrap_or(disable_compaction);
        if is_off {
            options.compaction_threads = 0;
        }
        let is_compressed = boolean_of(lookup, "compression")?.unwrap_or(false);
        options.compression =
            vec![if is_compressed { Compression::Snappy } else { Compression::None }];
        Ok(StoreSettings { options, is_compacted: !is_off })
    }

    pub(crate) fn has_log(&self) -> bool {
        self.options.durability != Durability::None
    }

    /// What a kill of the process leaves of acknowledged writes.
    pub(crate) fn durability(&self) -> &'static str {
        if self.has_log() {
            "os (what is acknowledged survives a kill)"
        } else {
            "none (what is not flushed is lost by a kill)"
        }
    }

    pub(crate) fn describe(&self, header: &mut Header, dir: &str) {
        let options = &self.options;
        describe_tables(options, header);
        let limits = format!("{} (soft), {} (hard)", options.level0_slow, options.level0_stop);
        header.line("L0 limits", limits);
        header.flag("Wal off", !self.has_log());
        header.line("Durability", self.durability());
        header.line("Db", dir);
    }
}

/// The lines about tables, up to whether they are merged.
pub(crate) fn describe_tables(options: &Options, header: &mut Header) {
    let is_snappy = options.compression.first() == Some(&Compression::Snappy);
    header.flag("Snappy", is_snappy);
    header.line("Blk cache size", format!("{:<4} MB", options.cache_bytes >> 20));
    header.line("Blk size", format!("{:<4} KB", options.block_bytes >> 10));
    header.line("Bloom bits", options.filter_bits_per_key);
    header.line("Memtable size", format!("{:<4} MB", options.memtable_bytes >> 20));
    header.line("Tbl size", format!("{:<4} MB", options.table_bytes >> 20));
    header.flag("Lsm compaction off", options.compaction_threads == 0);
}

/// The token of servers and their clients, `KEYRACK_FS_TOKEN`.
#[must_use]
pub fn token() -> Option<Vec<u8>> {
    environment("KEYRACK_FS_TOKEN").filter(|token| !token.is_empty()).map(String::into_bytes)
}

/// Makes a directory, and removes the store that is in it; nothing else.
///
/// # Errors
/// One line if the machine fails.
pub fn destroy(dir: &Path) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", dir.display());
    RealFs.create_dir_all(dir).map_err(|error| failed(&error))?;
    keyrack_flodb::Db::destroy(&RealFs, dir).map_err(|error| failed(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.to_owned())
    }

    #[test]
    fn both_prefixes_are_read_and_mistakes_are_told() {
        let settings = StoreSettings::new(
            &with(&[
                ("DELTAFS_Db_disable_write_ahead_logging", "0"),
                ("KEYRACK_FS_Db_memtable_size", "8M"),
                ("DELTAFS_Db_disable_compaction", "on"),
                ("DELTAFS_Db_compression", "1"),
                ("DELTAFS_Db_l0_hard_limit", "12"),
            ]),
            false,
        )
        .unwrap();
        assert!(settings.has_log() && !settings.is_compacted);
        let options = &settings.options;
        assert_eq!((options.memtable_bytes, options.level0_stop), (8 << 20, 12));
        assert_eq!(options.compression, [Compression::Snappy]);
        assert!(!StoreSettings::new(&with(&[]), false).unwrap().has_log(), "as the original");
        for (name, value) in [
            ("DELTAFS_Db_memtable_size", "8Q"),
            ("DELTAFS_Db_compression", "maybe"),
            ("DELTAFS_Db_write_ahead_log_buffer", "-1"),
        ] {
            let error = StoreSettings::new(&with(&[(name, value)]), false).unwrap_err();
            assert!(error.starts_with(&format!("{name}={value}")), "{error}");
        }
    }
}

//! Settings of stores by environment variables, as the original has them: `DELTAFS_Db_NAME`, and
//! the same under our own name, `KEYRACK_FS_Db_NAME`. `DELTAFS_Bk_NAME` are those of the tables of
//! bulk insertion. A value that cannot be read is an error.

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
    /// In programs of the original: what else their header has.
    original: Option<OriginalSettings>,
}

/// Settings of the original that these stores take and do not need: they have no such buffers,
/// caches and triggers. Headers show them, because scripts look for their lines.
#[derive(Clone, Debug)]
struct OriginalSettings {
    table_buffer: u64,
    tables_max: u64,
    is_monitored: bool,
    level_factor: u64,
    l1_trigger: u64,
    log_buffer: u64,
}

/// Bytes that the original reads at once for a compaction.
const PREFETCH_BYTES: u64 = 256 << 10;

/// Which store a header describes; each has its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// That of a server, which may be an existing one, and whether input is read ahead.
    Server { is_existing: bool },
    /// That of a client without servers.
    Client { is_existing: bool },
    /// That of a merge, where an earlier one may be replaced.
    Target { replaces: bool },
    /// The tables of a bulk insertion.
    Bulk,
}

/// Where values come from.
type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A variable of the environment.
#[must_use]
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Where the settings of a store are: the prefixes of their variables.
type Prefixes = [&'static str; 2];

const STORES: Prefixes = ["DELTAFS_Db_", "KEYRACK_FS_Db_"];
const BULK_TABLES: Prefixes = ["DELTAFS_Bk_", "KEYRACK_FS_Bk_"];

/// Names of variables behind the prefixes of stores, and of the tables of bulk insertion.
const STORE_NAMES: &[&str] = &[
    "block_cache_size",
    "block_restart_interval",
    "block_size",
    "compression",
    "disable_compaction",
    "disable_write_ahead_logging",
    "enable_io_monitoring",
    "filter_bits_per_key",
    "l0_compaction_trigger",
    "l0_hard_limit",
    "l0_soft_limit",
    "l1_compaction_trigger",
    "level_factor",
    "manifest_buffer",
    "memtable_size",
    "table_buffer",
    "table_cache_size",
    "table_size",
    "use_default_logger",
    "write_ahead_log_buffer",
];
const BULK_NAMES: &[&str] = &[
    "block_restart_interval",
    "block_size",
    "compression",
    "disable_write_ahead_logging",
    "filter_bits_per_key",
    "manifest_buffer",
    "memtable_size",
    "table_buffer",
    "use_default_logger",
    "write_ahead_log_buffer",
];

/// Refuses a variable that begins as those of the original and is none of them.
///
/// # Errors
/// One line with the nearest name.
pub fn check_original_names(mut names: impl Iterator<Item = String>) -> Result<(), String> {
    let of = |prefix: &str, names: &[&str]| -> Vec<String> {
        names.iter().map(|name| format!("{prefix}{name}")).collect()
    };
    let mut known = of(STORES[0], STORE_NAMES);
    known.extend(of(BULK_TABLES[0], BULK_NAMES));
    known.push("DELTAFS_Rr_use_default_logger".to_owned());
    match names.find(|name| name.starts_with("DELTAFS_") && !known.contains(name)) {
        None => Ok(()),
        Some(name) => {
            let near = keyrack_store::nearest(&name, known.iter().map(String::as_str));
            let hint = near.map(|near| format!(" (did you mean {near}?)")).unwrap_or_default();
            Err(format!("{name} is no variable of these programs{hint}"))
        }
    }
}

fn find(lookup: Lookup<'_>, prefixes: Prefixes, name: &str) -> Option<(String, String)> {
    prefixes.iter().find_map(|prefix| {
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

/// Variables with the prefixes of a store.
struct Variables<'a> {
    lookup: Lookup<'a>,
    prefixes: Prefixes,
}

impl Variables<'_> {
    fn number(&self, name: &str) -> Result<Option<u64>, String> {
        let Some((whole, value)) = find(self.lookup, self.prefixes, name) else { return Ok(None) };
        let wrong = || format!("{whole}={value}: give a number, such as 65536 or 64K");
        number(&value).map(Some).ok_or_else(wrong)
    }

    fn flag(&self, name: &str) -> Result<Option<bool>, String> {
        let Some((whole, value)) = find(self.lookup, self.prefixes, name) else { return Ok(None) };
        boolean(&value).map(Some).ok_or_else(|| format!("{whole}={value}: give 0 or 1"))
    }

    /// What a store is opened with, where nothing else is said: `options`.
    fn store(&self, mut options: Options, has_log: bool) -> Result<Options, String> {
        let no_log = self.flag("disable_write_ahead_logging")?.unwrap_or(!has_log);
        options.durability = if no_log { Durability::None } else { Durability::Os };
        for (name, place) in [
            ("memtable_size", &mut options.memtable_bytes),
            ("block_size", &mut options.block_bytes),
            ("block_restart_interval", &mut options.restart_interval),
            ("block_cache_size", &mut options.cache_bytes),
            ("l0_compaction_trigger", &mut options.level0_tables),
            ("l0_soft_limit", &mut options.level0_slow),
            ("l0_hard_limit", &mut options.level0_stop),
        ] {
            if let Some(number) = self.number(name)? {
                *place = usize::try_from(number).unwrap_or(usize::MAX);
            }
        }
        if let Some(bytes) = self.number("table_size")? {
            options.table_bytes = bytes;
        }
        if let Some(bits) = self.number("filter_bits_per_key")? {
            options.filter_bits_per_key = u32::try_from(bits).unwrap_or(u32::MAX);
        }
        let is_compressed = self.flag("compression")?.unwrap_or(false);
        options.compression =
            vec![if is_compressed { Compression::Snappy } else { Compression::None }];
        Ok(options)
    }

    /// The settings that ours has no use for. They are read, so that a mistake in them is told.
    fn original(&self) -> Result<OriginalSettings, String> {
        self.number("manifest_buffer")?;
        self.flag("use_default_logger")?;
        Ok(OriginalSettings {
            table_buffer: self.number("table_buffer")?.unwrap_or(256 << 10),
            tables_max: self.number("table_cache_size")?.unwrap_or(2500),
            is_monitored: self.flag("enable_io_monitoring")?.unwrap_or(true),
            level_factor: self.number("level_factor")?.unwrap_or(8),
            l1_trigger: self.number("l1_compaction_trigger")?.unwrap_or(5),
            log_buffer: self.number("write_ahead_log_buffer")?.unwrap_or(4 << 10),
        })
    }
}

impl StoreSettings {
    /// What `lookup` says; without a write-ahead log unless it is asked for, as in the original.
    ///
    /// # Errors
    /// One line for a variable whose value cannot be read.
    pub fn new(lookup: Lookup<'_>, disable_compaction: bool) -> Result<Self, String> {
        let variables = Variables { lookup, prefixes: STORES };
        variables.original()?;
        let options = variables.store(Options::default(), false)?;
        StoreSettings { options, is_compacted: true, original: None }
            .compacted(&variables, disable_compaction)
    }

    /// The same for the programs of the original, with their defaults and lines of the header.
    ///
    /// # Errors
    /// As [`StoreSettings::new`].
    pub fn of_original(lookup: Lookup<'_>, disable_compaction: bool) -> Result<Self, String> {
        let variables = Variables { lookup, prefixes: STORES };
        let options = variables.store(original_defaults(), false)?;
        StoreSettings { options, is_compacted: true, original: Some(variables.original()?) }
            .compacted(&variables, disable_compaction)
    }

    /// The tables of bulk insertion: their blocks, filters and compression. They have no log, and
    /// are whole when a server takes them. As it takes them as they are, those without Snappy have
    /// LZ4.
    ///
    /// # Errors
    /// As [`StoreSettings::new`].
    pub fn of_bulk_tables(lookup: Lookup<'_>) -> Result<Self, String> {
        let variables = Variables { lookup, prefixes: BULK_TABLES };
        let mut options = variables.store(original_defaults(), true)?;
        if options.compression == [Compression::None] {
            options.compression = vec![Compression::Lz4];
        }
        let original = Some(variables.original()?);
        Ok(StoreSettings { options, is_compacted: false, original })
    }

    fn compacted(mut self, variables: &Variables<'_>, or_not: bool) -> Result<Self, String> {
        let is_off = variables.flag("disable_compaction")?.unwrap_or(or_not);
        if is_off {
            self.options.compaction_threads = 0;
        }
        Ok(StoreSettings { is_compacted: !is_off, ..self })
    }

    /// Whether the programs of the original have these settings.
    pub(crate) fn is_of_original(&self) -> bool {
        self.original.is_some()
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

    /// The lines of the header, in the order of the original.
    pub(crate) fn describe(&self, header: &mut Header, part: Part, dir: &str) {
        let (options, original) = (&self.options, self.original.as_ref());
        describe_tables(options, original, part, header);
        if part != Part::Bulk {
            header.flag("Lsm compaction off", options.compaction_threads == 0);
            self.describe_compaction(header, part);
        }
        header.flag("Wal off", !self.has_log());
        let has_buffer = self.has_log() && !matches!(part, Part::Target { .. });
        if let Some(original) = original.filter(|_| has_buffer) {
            header.line("Wal write size", format!("{:<4} KB", original.log_buffer >> 10));
        }
        if part != Part::Bulk {
            header.line("Durability", self.durability());
        }
        match part {
            Part::Server { is_existing } | Part::Client { is_existing } => {
                header.flag("Use existing db", is_existing);
            }
            Part::Target { replaces } => header.flag("Db force cleaning", replaces),
            Part::Bulk => {}
        }
        header.plain("Db", dir);
    }

    /// What makes levels be merged.
    fn describe_compaction(&self, header: &mut Header, part: Part) {
        let is_client = matches!(part, Part::Client { .. });
        let original = self.original.as_ref().filter(|_| !is_client);
        if let Some(original) = original {
            header.line("Db level factor", original.level_factor);
        }
        let options = &self.options;
        let limits = format!("{} (soft), {} (hard)", options.level0_slow, options.level0_stop);
        header.line("L0 limits", limits);
        if let Some(original) = original {
            header.line("L1 trigger", original.l1_trigger);
            let is_ahead = matches!(part, Part::Server { .. });
            header.flag("Prefetch compaction input", is_ahead);
            header.line("Prefetch read size", format!("{:<4} KB", PREFETCH_BYTES >> 10));
        }
    }
}

/// The defaults of the original's programs.
fn original_defaults() -> Options {
    Options {
        memtable_bytes: 8 << 20,
        table_bytes: 4 << 20,
        cache_bytes: 0,
        level0_slow: 8,
        level0_stop: 12,
        ..Options::default()
    }
}

/// The lines about tables and blocks.
fn describe_tables(
    options: &Options,
    original: Option<&OriginalSettings>,
    part: Part,
    header: &mut Header,
) {
    // What is not given has the size that the memory budget has for it.
    let options = &options.clone().divided().unwrap_or_else(|_| options.clone());
    let is_snappy = options.compression.first() == Some(&Compression::Snappy);
    header.flag("Snappy", is_snappy);
    if part != Part::Bulk {
        header.line("Blk cache size", format!("{:<4} MB", options.cache_bytes >> 20));
    }
    header.line("Blk size", format!("{:<4} KB", options.block_bytes >> 10));
    header.line("Bloom bits", options.filter_bits_per_key);
    header.line("Memtable size", format!("{:<4} MB", options.memtable_bytes >> 20));
    if part != Part::Bulk {
        header.line("Tbl size", format!("{:<4} MB", options.table_bytes >> 20));
    }
    let Some(original) = original else { return };
    let least = format!("{:<4} KB", original.table_buffer >> 10);
    header.line(
        "Tbl write size",
        match part {
            Part::Target { .. } => least,
            _ => format!("{least} (min), {} KB (max)", (2 * original.table_buffer) >> 10),
        },
    );
    match part {
        Part::Client { .. } => {
            header.line("Tbl cache size", format!("{} (max open tables)", original.tables_max));
        }
        Part::Bulk => return,
        _ => header.line("Tbl cache size", original.tables_max),
    }
    header.flag("Io monitoring", original.is_monitored);
}

/// The lines about the stores of a job without a network.
pub(crate) fn describe_local_tables(options: &Options, header: &mut Header) {
    describe_tables(options, None, Part::Client { is_existing: false }, header);
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
        let original = StoreSettings::of_original(&with(&[]), false).unwrap().options;
        assert_eq!((original.memtable_bytes, original.table_bytes), (8 << 20, 4 << 20));
        assert_eq!((original.cache_bytes, original.level0_slow), (0, 8));
        assert_eq!(original.level0_stop, 12);
        let bulk = with(&[("DELTAFS_Bk_block_size", "8K"), ("DELTAFS_Db_block_size", "16K")]);
        assert_eq!(StoreSettings::of_bulk_tables(&bulk).unwrap().options.block_bytes, 8 << 10);
        for (name, value) in [
            ("DELTAFS_Db_memtable_size", "8Q"),
            ("DELTAFS_Db_compression", "maybe"),
            ("DELTAFS_Db_write_ahead_log_buffer", "-1"),
        ] {
            let error = StoreSettings::new(&with(&[(name, value)]), false).unwrap_err();
            assert!(error.starts_with(&format!("{name}={value}")), "{error}");
        }
    }

    #[test]
    fn names_that_are_no_variables_are_refused_with_the_nearest() {
        let check = |name: &str| check_original_names([name.to_owned()].into_iter());
        for name in ["DELTAFS_Db_table_size", "DELTAFS_Bk_compression", "DELTA", "KEYRACK_FS_X"] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        let error = check("DELTAFS_Db_tabel_size").unwrap_err();
        assert!(error.contains("DELTAFS_Db_tabel_size") && error.contains("DELTAFS_Db_table_size"));
        assert!(check("DELTAFS_Bk_table_size").is_err(), "a setting of stores alone");
    }
}

//! Options by name, with values as text: those of `keyrack_flodb::Options`, and `key_spaces`.
//!
//! | value | written as |
//! |---|---|
//! | a number, a size | `100`, `64k`, `16M`, `2G`; powers of 1,024 |
//! | yes or no | `yes`, `no`, `true`, `false`, `1`, `0` |
//! | a size that the memory budget may decide | `auto` as well |
//!
//! Values are kept as they were set, and applied at an opening to what the store keeps: an option
//! that was not set has the value that the store was last opened with.

use crate::error::{Code, Error};
use crate::event::Listening;
use keyrack_ffi::{destroy, give, handle_mut, or_else, text};
use keyrack_flodb::{Compression, EventListener, Options as StoreOptions};
use keyrack_store::{parse_bool, parse_size};
use std::collections::BTreeMap;
use std::ffi::c_char;
use std::fmt;
use std::str;
use std::sync::Arc;

/// In place of a size: what the memory budget has for it.
const AUTO: &str = "auto";

/// The option that says what kind of store is made.
const KEY_SPACES: &str = "key_spaces";

const DURABILITY: &str = "durability";

/// The names.
pub(crate) const NAMES: [&str; 30] = [
    "blob_bytes_min",
    "block_bytes",
    "cache_bytes",
    "compaction_threads",
    "compression",
    "counts_reads",
    "create_if_missing",
    "discards_memtables",
    DURABILITY,
    "error_if_exists",
    "feed_hold_bytes",
    "filter_bits_per_key",
    "hash_level",
    "immutable_memtables_max",
    "key_spaces",
    "level0_slow",
    "level0_stop",
    "level0_tables",
    "level_base_bytes",
    "log_retention_bytes",
    "log_retention_seconds",
    "memory_budget",
    "memtable_bytes",
    "paranoid_checks",
    "restart_interval",
    "segment_bytes",
    "table_bytes",
    "table_bytes_per_second",
    "table_files_max",
    "unordered_max",
];

/// What a store is opened with.
#[derive(Debug, Default)]
pub struct Options {
    /// Each has been applied once, so it can be.
    set: BTreeMap<&'static str, String>,
    pub(crate) listener: Option<Arc<Listening>>,
}

impl Options {
    fn set(&mut self, name: &str, value: &str) -> Result<(), Error> {
        let Some(known) = NAMES.iter().find(|known| **known == name) else {
            let names = NAMES.join(", ");
            return Err(Error::usage(format_args!("no option has the name '{name}': {names}")));
        };
        apply(&mut StoreOptions::new(), name, value)?;
        self.set.insert(known, value.to_owned());
        Ok(())
    }

    /// What the options of a store are put over: it has no log to be kept if these say so.
    pub(crate) fn base(&self) -> Result<StoreOptions, Error> {
        let mut base = StoreOptions::new();
        if let Some(value) = self.set.get(DURABILITY) {
            apply(&mut base, DURABILITY, value)?;
        }
        Ok(base)
    }

    /// These options over those that a store keeps.
    pub(crate) fn over(&self, mut options: StoreOptions) -> Result<StoreOptions, Error> {
        for (name, value) in &self.set {
            apply(&mut options, name, value)?;
        }
        let listener = self.listener.clone();
        options.listener = listener.map(|listener| -> Arc<dyn EventListener> { listener });
        Ok(options)
    }

    /// Whether a store has key spaces, if it was asked for.
    pub(crate) fn key_spaces(&self) -> Option<bool> {
        parse_bool(self.set.get(KEY_SPACES)?).ok()
    }
}

fn refused(name: &str, why: impl fmt::Display) -> Error {
    Error::usage(format_args!("{name}: {why}"))
}

fn number<T: TryFrom<u64>>(name: &str, value: &str) -> Result<T, Error> {
    let number = parse_size(value).map_err(|why| refused(name, why))?;
    T::try_from(number).map_err(|_| refused(name, format_args!("{number} is too much")))
}

/// A size, or none if the memory budget decides.
fn size(name: &str, value: &str) -> Result<Option<usize>, Error> {
    if value == AUTO { Ok(None) } else { number(name, value).map(Some) }
}

fn of_budget(name: &str, value: &str) -> Result<usize, Error> {
    Ok(size(name, value)?.unwrap_or(StoreOptions::BY_BUDGET))
}

fn flag(name: &str, value: &str) -> Result<bool, Error> {
    parse_bool(value).map_err(|why| refused(name, why))
}

fn apply(options: &mut StoreOptions, name: &str, value: &str) -> Result<(), Error> {
    match name {
        "blob_bytes_min" => options.blob_bytes_min = number(name, value)?,
        "block_bytes" => options.block_bytes = number(name, value)?,
        "cache_bytes" => options.cache_bytes = of_budget(name, value)?,
        "compaction_threads" => options.compaction_threads = number(name, value)?,
        "compression" => {
            options.compression = Compression::parse_list(value).ok_or_else(|| {
                refused(name, "a list of none, snappy, lz4, zstd, zstd:LEVEL, with commas")
            })?;
        }
        "counts_reads" => options.counts_reads = flag(name, value)?,
        "create_if_missing" => options.create_if_missing = flag(name, value)?,
        "discards_memtables" => options.discards_memtables = flag(name, value)?,
        DURABILITY => {
            let parsed = value.parse();
            options.durability = parsed.map_err(|why: keyrack_store::Error| Error::usage(why))?;
        }
        "error_if_exists" => options.error_if_exists = flag(name, value)?,
        "feed_hold_bytes" => options.feed_hold_bytes = number(name, value)?,
        "filter_bits_per_key" => options.filter_bits_per_key = number(name, value)?,
        "hash_level" => options.hash_level = flag(name, value)?,
        "immutable_memtables_max" => options.immutable_memtables_max = number(name, value)?,
        KEY_SPACES => _ = flag(name, value)?,
        "level0_slow" => options.level0_slow = number(name, value)?,
        "level0_stop" => options.level0_stop = number(name, value)?,
        "level0_tables" => options.level0_tables = number(name, value)?,
        "log_retention_bytes" => options.log_retention_bytes = number(name, value)?,
        "log_retention_seconds" => options.log_retention_seconds = number(name, value)?,
        "level_base_bytes" => options.level_base_bytes = number(name, value)?,
        "memory_budget" => options.memory_budget = size(name, value)?,
        "memtable_bytes" => options.memtable_bytes = of_budget(name, value)?,
        "paranoid_checks" => options.paranoid_checks = flag(name, value)?,
        "restart_interval" => options.restart_interval = number(name, value)?,
        "segment_bytes" => options.segment_bytes = number(name, value)?,
        "table_bytes" => options.table_bytes = number(name, value)?,
        "table_bytes_per_second" => options.table_bytes_per_second = number(name, value)?,
        "table_files_max" => options.table_files_max = number(name, value)?,
        "unordered_max" => options.unordered_max = number(name, value)?,
        _ => return Err(Error::new(Code::KEYRACK_INTERNAL, format_args!("no rule for {name}"))),
    }
    Ok(())
}

/// A text of the caller's that is UTF-8.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn utf8<'a>(from: *const c_char, name: &str) -> Result<&'a str, Error> {
    // SAFETY: the caller promises the same.
    let bytes = unsafe { text(from, name) }?;
    str::from_utf8(bytes).map_err(|_| Error::usage(format_args!("the {name} is not UTF-8")))
}

/// Makes options: of a new store the defaults, of another what it was last opened with. The caller
/// frees them with keyrack_options_free.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn keyrack_options_new() -> *mut Options {
    give(Options::default())
}

/// Sets an option by its name in docs/keyrack-c.md. Sizes may end in k, M or G; yes and no are
/// values, and auto for sizes that the memory budget decides. An unknown name and a value that
/// cannot be are KEYRACK_USAGE, and change nothing. Both texts are copied.
///
/// Threads: one at a time for `options`.
///
/// # Safety
/// `options` is null or options that nobody else uses; both texts are null or end with a zero;
/// `error` is null, or points to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_options_set(
    options: *mut Options,
    name: *const c_char,
    value: *const c_char,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let options = unsafe { handle_mut(options, "options") }?;
        // SAFETY: as above.
        let name = unsafe { utf8(name, "name of the option") }?;
        // SAFETY: as above.
        let value = unsafe { utf8(value, "value of the option") }?;
        options.set(name, value)
    };
    // SAFETY: as above.
    unsafe { crate::error::report(error, call) }
}

/// As keyrack_options_set, with a number.
///
/// Threads: one at a time for `options`.
///
/// # Safety
/// As for [`keyrack_options_set`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_options_set_number(
    options: *mut Options,
    name: *const c_char,
    value: u64,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let options = unsafe { handle_mut(options, "options") }?;
        // SAFETY: as above.
        let name = unsafe { utf8(name, "name of the option") }?;
        options.set(name, &value.to_string())
    };
    // SAFETY: as above.
    unsafe { crate::error::report(error, call) }
}

/// Frees options. Stores that were opened with them go on. Null is nothing.
///
/// Threads: one, the last that uses the options.
///
/// # Safety
/// `options` is null or options, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_options_free(options: *mut Options) {
    // SAFETY: the caller promises the same.
    or_else((), || drop(unsafe { destroy(options) }));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What takes code of the program's: `listener` has a call of its own.
    const WITHOUT_NAMES: [&str; 7] = [
        "clock",
        "comparator",
        "compaction_filter",
        "filter_policy",
        "listener",
        "merge_operator",
        "prefix_extractor",
    ];

    /// Whether a line of printed options begins a field.
    fn is_field(line: &str) -> bool {
        let rest = line.strip_prefix("    ");
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()))
    }

    /// The fields of the store's options, from what they print.
    fn fields() -> Vec<String> {
        let shown = format!("{:#?}", StoreOptions::new());
        let fields = shown.lines().filter(|line| is_field(line));
        fields.map(|line| line.trim().split(':').next().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn every_option_of_a_store_has_its_name() {
        let mut names: Vec<String> = fields();
        assert!(names.len() > 20, "{names:?}");
        names.retain(|name| !WITHOUT_NAMES.contains(&name.as_str()));
        names.push(KEY_SPACES.to_owned());
        names.sort();
        assert_eq!(names, NAMES);
    }

    #[test]
    fn every_name_can_be_set_and_changes_what_it_says() {
        let values = |name| match name {
            "compression" => ["none", "none,lz4"],
            DURABILITY => ["none", "sync"],
            _ => ["0", "1"],
        };
        for name in NAMES.into_iter().filter(|name| *name != KEY_SPACES) {
            let shown = values(name).map(|value| {
                let mut options = Options::default();
                options.set(name, value).unwrap();
                format!("{:#?}", options.over(StoreOptions::new()).unwrap())
            });
            // Some values are on lines of their own, below the name.
            let same = shown[0].lines().zip(shown[1].lines()).take_while(|(a, b)| a == b).count();
            let lines = shown[0].lines().take(same + 1).collect::<Vec<_>>();
            let changed = lines.iter().rev().find(|line| is_field(line));
            assert!(changed.is_some_and(|line| line[4..].starts_with(name)), "{name}: {changed:?}");
        }
    }

    #[test]
    fn a_wrong_name_or_value_is_refused_and_changes_nothing() {
        let mut options = Options::default();
        for (name, value) in [
            ("memory", "1"),
            ("memory_budget", "much"),
            ("hash_level", "perhaps"),
            ("durability", "good"),
            ("compression", "zip"),
            ("filter_bits_per_key", "8G"),
        ] {
            assert!(options.set(name, value).is_err(), "{name} {value}");
        }
        assert!(options.set.is_empty());
        options.set("memory_budget", "256M").unwrap();
        options.set("cache_bytes", "auto").unwrap();
        options.set("key_spaces", "no").unwrap();
        assert_eq!(options.key_spaces(), Some(false));
        let options = options.over(StoreOptions::new()).unwrap();
        assert_eq!(options.memory_budget, Some(256 << 20));
        assert_eq!(options.cache_bytes, StoreOptions::BY_BUDGET);
    }
}

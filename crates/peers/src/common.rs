//! What the adapters of log-structured engines share: options that mean the same everywhere, under
//! the names that `flodb` has for them.
//!
//! | option | default | meaning |
//! |---|---|---|
//! | `memory_bytes` | `64M` | bytes of a memory table before it is written out |
//! | `cache_bytes` | `64M` | bytes of blocks kept in memory |
//! | `filter_bits` | `10` | bits of the tables' filters for each key; 0 for no filters |
//! | `compression` | `none,none,lz4` | of the tables of each level, the last for those below |
//! | `durability` | `os` | what a write survives: as `--durability`, which it must not contradict |
//! | `threads` | `2` | threads that write out memory tables and merge tables |

use crate::contract::option;
use keyrack_store::{Durability, EngineOption, Error, OpenOptions, Result};

/// The row of `memory_bytes`.
pub(crate) const MEMORY_BYTES: EngineOption =
    option("memory_bytes", "64M", "bytes of a memory table before it is written out");

/// The row of `cache_bytes`.
pub(crate) const CACHE_BYTES: EngineOption =
    option("cache_bytes", "64M", "bytes of blocks kept in memory");

/// The row of `filter_bits`.
pub(crate) const FILTER_BITS: EngineOption =
    option("filter_bits", "10", "bits of a table's filter for each key; 0 for none");

/// The row of `threads`.
pub(crate) const THREADS: EngineOption =
    option("threads", "2", "threads that write out memory tables and merge tables");

/// The row of `durability`.
pub(crate) const DURABILITY: EngineOption = option(
    "durability",
    "os",
    "what a write survives: none, os, interval:MS, sync; as --durability",
);

/// The default of `compression`.
pub(crate) const COMPRESSION_DEFAULT: &str = "none,none,lz4";

/// The most that is accepted for `filter_bits`: more bits change no answer.
const FILTER_BITS_MAX: u64 = 64;
const THREADS_MAX: u64 = 64;
const MEMORY_BYTES_MIN: u64 = 64 << 10;

/// The values of these rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Common {
    pub(crate) memory_bytes: usize,
    pub(crate) cache_bytes: usize,
    pub(crate) filter_bits: u8,
    pub(crate) threads: u8,
}

impl Common {
    /// Reads them.
    ///
    /// # Errors
    /// [`Error::Usage`] that names the option and its value.
    pub(crate) fn read(options: &OpenOptions) -> Result<Self> {
        let between = |key: &str, default: u64, least: u64, most: u64| {
            let value = options.size(key, default)?;
            if (least..=most).contains(&value) {
                Ok(value)
            } else {
                Err(Error::usage(format!("{key}: {value} is not between {least} and {most}")))
            }
        };
        // A size that does not fit into memory would be refused by the allocator, not by us.
        let most = usize::MAX as u64 / 4;
        Ok(Common {
            memory_bytes: between("memory_bytes", 64 << 20, MEMORY_BYTES_MIN, most)? as usize,
            cache_bytes: between("cache_bytes", 64 << 20, 0, most)? as usize,
            filter_bits: between("filter_bits", 10, 0, FILTER_BITS_MAX)? as u8,
            threads: between("threads", 2, 1, THREADS_MAX)? as u8,
        })
    }
}

/// The value of `compression`: of `known`, one for each level, at least one.
///
/// # Errors
/// [`Error::Usage`] that names what is not known and what is.
pub(crate) fn compression<T: Copy>(options: &OpenOptions, known: &[(&str, T)]) -> Result<Vec<T>> {
    let codec = |wanted: &str| {
        let wanted = wanted.trim();
        known.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            let names = names.join(", ");
            Error::usage(format!("compression: '{wanted}' is not one of {names}"))
        })
    };
    options.text("compression").unwrap_or(COMPRESSION_DEFAULT).split(',').map(codec).collect()
}

/// The durability of the run, or that of the engine's section, or `os`.
///
/// # Errors
/// [`Error::Usage`] when the two contradict each other, or one is none.
pub(crate) fn durability(options: &OpenOptions) -> Result<Durability> {
    let own = options.text("durability").map(str::parse::<Durability>).transpose()?;
    match (options.durability, own) {
        (Some(run), Some(own)) if run != own => Err(Error::usage(format!(
            "durability: {own} contradicts that of the run, {run}; give one"
        ))),
        (run, own) => Ok(run.or(own).unwrap_or(Durability::Os)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_vfs::RealFs;
    use std::sync::Arc;

    fn options(pairs: &[(&str, &str)]) -> OpenOptions {
        let mut options = OpenOptions::in_memory(Arc::new(RealFs));
        options.options =
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        options
    }

    #[test]
    fn the_defaults_are_those_of_the_rows() {
        let rows = [MEMORY_BYTES, CACHE_BYTES, FILTER_BITS, THREADS];
        let written: Vec<_> = rows.iter().map(|row| (row.key, row.default)).collect();
        let read = Common::read(&options(&written)).unwrap();
        assert_eq!(read, Common::read(&options(&[])).unwrap());
        assert_eq!((read.memory_bytes, read.cache_bytes), (64 << 20, 64 << 20));
        assert_eq!((read.filter_bits, read.threads), (10, 2));
    }

    #[test]
    fn values_out_of_range_are_refused_by_name() {
        let table = [
            ("memory_bytes", "1"),
            ("memory_bytes", "lots"),
            ("filter_bits", "65"),
            ("threads", "0"),
            ("threads", "1M"),
        ];
        for (key, value) in table {
            let error = Common::read(&options(&[(key, value)])).unwrap_err();
            assert!(matches!(error, Error::Usage { .. }), "{error:?}");
            assert!(error.to_string().starts_with(key), "{error}");
        }
    }

    #[test]
    fn compression_is_chosen_by_name() {
        let known = [("lz4", 1), ("none", 0)];
        assert_eq!(compression(&options(&[]), &known).unwrap(), [0, 0, 1]);
        assert_eq!(compression(&options(&[("compression", "none")]), &known).unwrap(), [0]);
        let list = options(&[("compression", "lz4, none")]);
        assert_eq!(compression(&list, &known).unwrap(), [1, 0]);
        let error = compression(&options(&[("compression", "best")]), &known).unwrap_err();
        assert!(error.to_string().contains("'best' is not one of lz4, none"), "{error}");
        assert!(compression(&options(&[("compression", "")]), &known).is_err());
    }

    #[test]
    fn the_durability_of_a_section_must_not_contradict_the_runs() {
        let mut options = options(&[]);
        assert_eq!(durability(&options).unwrap(), Durability::Os);
        options.options = vec![("durability".to_owned(), "interval:7".to_owned())];
        assert_eq!(durability(&options).unwrap(), Durability::Interval(7));
        options.durability = Some(Durability::Interval(7));
        assert_eq!(durability(&options).unwrap(), Durability::Interval(7));
        options.durability = Some(Durability::Sync);
        let error = durability(&options).unwrap_err().to_string();
        assert!(error.contains("interval:7") && error.contains("sync"), "{error}");
        options.options = vec![("durability".to_owned(), "fsync".to_owned())];
        assert!(durability(&options).is_err());
    }
}

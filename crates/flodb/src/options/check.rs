//! Options that contradict themselves or the engine are refused before a store is opened.

use super::{BLOB_BYTES_MIN, MEMTABLE_BYTES_MIN, Options};
use crate::error::{Error, Result};
use crate::key::SPACES_ORDER;
use keyrack_store::Durability;

/// Bytes of the name of a merge operator.
const NAME_BYTES_MAX: usize = 255;

impl Options {
    /// Refuses a value that no store can have, by the name of its option and with what would do.
    ///
    /// # Errors
    /// [`Error::Usage`].
    pub(crate) fn check(&self) -> Result<()> {
        at_least("memtable_bytes", self.memtable_bytes as u64, MEMTABLE_BYTES_MIN as u64)?;
        at_least("block_bytes", self.block_bytes as u64, 1)?;
        at_least("restart_interval", self.restart_interval as u64, 1)?;
        at_least("table_bytes", self.table_bytes, 1)?;
        at_least("level0_tables", self.level0_tables as u64, 1)?;
        let slow = self.level0_slow;
        if self.level0_tables > slow {
            let tables = self.level0_tables;
            return refuse(format!(
                "level0_slow must be at least level0_tables, which is {tables} (got {slow})"
            ));
        }
        if slow > self.level0_stop {
            let stop = self.level0_stop;
            return refuse(format!(
                "level0_stop must be at least level0_slow, which is {slow} (got {stop})"
            ));
        }
        if let Some(codec) = self.compression.iter().find(|codec| !codec.is_valid()) {
            return refuse(format!(
                "compression: the level of zstd must be from -100 to 22 (got {codec:?})"
            ));
        }
        if let Some(missing) = self.compression.iter().find(|codec| !codec.is_built_in()) {
            return refuse(missing.refusal());
        }
        if self.blob_bytes_min > 0 && self.blob_bytes_min < BLOB_BYTES_MIN {
            let got = self.blob_bytes_min;
            return refuse(format!(
                "blob_bytes_min must be 0, for no blob files, or at least {BLOB_BYTES_MIN} (got \
                 {got})"
            ));
        }
        if self.filter_policy.has_bad_name() {
            return refuse("filter_policy: the name of a rule must have 1 to 255 bytes".to_owned());
        }
        self.check_prefixes()?;
        let operator = self.merge_operator.as_ref();
        if operator.is_some_and(|it| it.name().is_empty() || it.name().len() > NAME_BYTES_MAX) {
            return refuse("merge_operator: the name must have 1 to 255 bytes".to_owned());
        }
        if self.compaction_filter.as_ref().is_some_and(|filter| filter.name().is_empty()) {
            return refuse("compaction_filter: the filter must have a name".to_owned());
        }
        let keeps_log = self.log_retention_bytes > 0 || self.log_retention_seconds > 0;
        if keeps_log && self.durability == Durability::None {
            let name = if self.log_retention_bytes > 0 { "bytes" } else { "seconds" };
            return refuse(format!(
                "log_retention_{name} keeps a log: it needs another durability than none"
            ));
        }
        if self.discards_memtables && self.durability != Durability::None {
            let got = self.durability;
            return refuse(format!(
                "discards_memtables loses what was written: it needs durability none (got {got})"
            ));
        }
        Ok(())
    }
}

impl Options {
    fn check_prefixes(&self) -> Result<()> {
        // Most stores have none.
        let Some(extractor) = &self.prefix_extractor else { return Ok(()) };
        if let Some(fault) = extractor.fault() {
            return refuse(format!("prefix_extractor: {fault}"));
        }
        let order = self.comparator.name();
        // Each key space has an order of its own; those in the order of bytes have prefixes.
        if self.comparator.is_bytewise() || order == SPACES_ORDER {
            return Ok(());
        }
        refuse(format!(
            "prefix_extractor needs keys in the order of bytes, and comparator is {order:?}"
        ))
    }
}

fn at_least(name: &str, value: u64, least: u64) -> Result<()> {
    if value < least {
        return refuse(format!("{name} must be at least {least} (got {value})"));
    }
    Ok(())
}

fn refuse(what: String) -> Result<()> {
    Err(Error::Usage(what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::Compression;
    use crate::key::tests::backwards;
    use crate::prefix_extractor::PrefixExtractor;

    #[test]
    fn a_bad_value_is_refused_by_the_name_of_its_option() {
        let refused = |options: Options, expected: &str| match options.check() {
            Err(Error::Usage(what)) => assert_eq!(what, expected),
            other => panic!("{expected}: {other:?}"),
        };
        let new = Options::new;
        refused(new().memtable_bytes(1), "memtable_bytes must be at least 65536 (got 1)");
        refused(new().block_bytes(0), "block_bytes must be at least 1 (got 0)");
        refused(new().restart_interval(0), "restart_interval must be at least 1 (got 0)");
        refused(new().table_bytes(0), "table_bytes must be at least 1 (got 0)");
        refused(new().level0_tables(0), "level0_tables must be at least 1 (got 0)");
        refused(
            new().level0_slow(3),
            "level0_slow must be at least level0_tables, which is 4 (got 3)",
        );
        refused(
            new().level0_stop(11),
            "level0_stop must be at least level0_slow, which is 12 (got 11)",
        );
        refused(
            new().compression([Compression::Lz4, Compression::Zstd(23)]),
            "compression: the level of zstd must be from -100 to 22 (got Zstd(23))",
        );
        refused(
            new().blob_bytes_min(1023),
            "blob_bytes_min must be 0, for no blob files, or at least 1024 (got 1023)",
        );
        refused(
            new().discards_memtables(true),
            "discards_memtables loses what was written: it needs durability none (got os)",
        );
        refused(
            new().prefix_extractor(PrefixExtractor::Fixed(0)),
            "prefix_extractor: a fixed prefix must have at least 1 byte",
        );
        refused(
            new().prefix_extractor(PrefixExtractor::Fixed(8)).comparator(backwards()),
            "prefix_extractor needs keys in the order of bytes, and comparator is \
             \"test.backwards\"",
        );
        refused(
            new().log_retention_seconds(60).durability(Durability::None),
            "log_retention_seconds keeps a log: it needs another durability than none",
        );
        refused(
            new().log_retention_bytes(1).log_retention_seconds(1).durability(Durability::None),
            "log_retention_bytes keeps a log: it needs another durability than none",
        );
        assert!(new().check().is_ok());
        assert!(new().discards_memtables(true).durability(Durability::None).check().is_ok());
    }
}

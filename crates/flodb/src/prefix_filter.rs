//! Which prefixes of keys a table has: the Bloom filter of [`crate::filter`] over the prefixes that
//! an extractor makes of its keys.
//!
//! ```text
//!   key of a store with key spaces   02 | ada/2026-01-01     the extractor sees what is behind the
//!   prefix                           02 | ada/               space; the prefix has the space, too
//! ```
//!
//! By its law, an extractor gives all keys that begin with a prefix that prefix, and no others. So
//! in the order of bytes, the keys of a prefix stand together. A range whose low bound has a prefix
//! and whose high bound lies not behind all keys of that prefix has no other keys. A table whose
//! filter lacks the prefix has no key of the range. It may still remove keys of others by range
//! tombstones: whoever leaves the table out keeps those.
//!
//! A writer adds a prefix once, when it differs from that of the key before: 8 bytes of memory for
//! each. A range asks the extractor once, and each table costs it one cache line. Point reads use
//! the filter of whole keys, and do not come here. Memtables have no such filter: it would cost
//! each put a call of the extractor and an atomic store, and saves a search in memory, no read.

use crate::checksum::hash;
use crate::filter::Filter;
use crate::key::Comparator;
use crate::prefix_extractor::PrefixExtractor;
use keyrack_concurrent::Counter;
use std::sync::Arc;

/// An extractor for the keys of a store, as the store has them.
#[derive(Clone, Debug)]
pub(crate) struct StoreExtractor {
    extractor: PrefixExtractor,
    order: Comparator,
}

impl StoreExtractor {
    pub(crate) fn new(extractor: &PrefixExtractor, order: &Comparator) -> Self {
        StoreExtractor { extractor: extractor.clone(), order: order.clone() }
    }

    /// The name of the extractor.
    pub(crate) fn name(&self) -> String {
        self.extractor.name().into_owned()
    }

    /// The prefix of a key, with what its key space puts before it.
    #[inline]
    fn prefix_of<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        let begin = self.order.prefix_begin(key)?;
        let prefix = self.extractor.prefix_of(&key[begin..])?;
        debug_assert_eq!(
            self.extractor.prefix_of(prefix),
            Some(prefix),
            "the prefix extractor {} gives a prefix another prefix than its key: {}",
            self.name(),
            prefix.escape_ascii()
        );
        Some(&key[..begin + prefix.len()])
    }
}

/// What a table that is being written gathers for its filter of prefixes.
#[derive(Debug)]
pub(crate) struct PrefixCollector {
    extractor: StoreExtractor,
    bits_per_prefix: u32,
    hashes: Vec<u64>,
    /// The prefix of the last key that had one.
    last: Option<Vec<u8>>,
}

impl PrefixCollector {
    pub(crate) fn new(extractor: StoreExtractor, bits_per_prefix: u32) -> Self {
        PrefixCollector { extractor, bits_per_prefix, hashes: Vec::new(), last: None }
    }

    pub(crate) fn name(&self) -> String {
        self.extractor.name()
    }

    /// Adds a user key, which is behind the one `before`.
    #[inline]
    pub(crate) fn add(&mut self, user_key: &[u8], before: Option<&[u8]>) {
        let prefix = self.extractor.prefix_of(user_key);
        if let Some(last) = self.last.as_deref()
            && prefix != Some(last)
        {
            debug_assert!(
                !user_key.starts_with(last),
                "the prefix extractor {} gives {} another prefix than the key before, which has \
                 its first bytes as prefix: {}",
                self.name(),
                user_key.escape_ascii(),
                last.escape_ascii()
            );
        }
        // A key without a prefix is in no range that asks.
        let Some(prefix) = prefix else { return };
        if self.last.as_deref() == Some(prefix) {
            return;
        }
        debug_assert!(
            before.is_none_or(|before| !before.starts_with(prefix)),
            "the prefix extractor {} gives {} a prefix that the key before has not, though it \
             begins so: {}",
            self.name(),
            user_key.escape_ascii(),
            prefix.escape_ascii()
        );
        self.hashes.push(hash(prefix));
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(prefix);
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.hashes.capacity() * size_of::<u64>()
    }

    /// Bytes of the filter that would be stored now, or a few less.
    pub(crate) fn stored_bytes(&self) -> usize {
        self.hashes.len().saturating_mul(self.bits_per_prefix as usize) / 8
    }

    /// The filter to store. If no key has a prefix, it refuses all. O(prefixes).
    pub(crate) fn finish(&self) -> Option<Vec<u8>> {
        if self.bits_per_prefix == 0 {
            return None;
        }
        Some(Filter::build(&self.hashes, self.bits_per_prefix).unwrap_or_else(Filter::of_nothing))
    }
}

/// The extractor that tables are read with, and how often their filters were asked.
#[derive(Debug)]
pub(crate) struct PrefixReads {
    extractor: StoreExtractor,
    asked: Counter,
    refused: Counter,
}

impl PrefixReads {
    pub(crate) fn new(extractor: StoreExtractor) -> Arc<Self> {
        Arc::new(PrefixReads { extractor, asked: Counter::new(), refused: Counter::new() })
    }

    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.extractor.name() == name
    }

    /// What a range that begins with the key `low`, or behind it, asks tables. `None` if `low` has
    /// no prefix, or `has_no_other` says that the range may have keys that do not begin with it.
    pub(crate) fn question(
        &self,
        low: &[u8],
        has_no_other: impl FnOnce(&[u8]) -> bool,
    ) -> Option<PrefixQuestion<'_>> {
        let prefix = self.extractor.prefix_of(low)?;
        has_no_other(prefix).then(|| PrefixQuestion { hash: hash(prefix), reads: self })
    }

    /// Filters of tables that were asked, and those of them that refused.
    pub(crate) fn counts(&self) -> (i64, i64) {
        (self.asked.sum(), self.refused.sum())
    }
}

/// Whether tables have keys of one prefix.
#[derive(Clone, Copy)]
pub(crate) struct PrefixQuestion<'a> {
    hash: u64,
    reads: &'a PrefixReads,
}

impl PrefixQuestion<'_> {
    /// Whether the table with this filter certainly has no such key.
    pub(crate) fn is_refused_by(self, filter: Option<&PrefixFilter>) -> bool {
        let Some(filter) = filter else { return false };
        self.reads.asked.add(1);
        let is_refused = !filter.filter.may_contain(self.hash);
        if is_refused {
            self.reads.refused.add(1);
        }
        is_refused
    }
}

/// The filter of prefixes of an open table.
#[derive(Debug)]
pub(crate) struct PrefixFilter {
    filter: Filter,
    reads: Arc<PrefixReads>,
}

impl PrefixFilter {
    /// Reads a stored filter; `None` if it is none.
    pub(crate) fn parse(stored: &[u8], reads: &Arc<PrefixReads>) -> Option<Self> {
        Some(PrefixFilter { filter: Filter::parse(stored)?, reads: Arc::clone(reads) })
    }

    /// Whether the filter hides a key that is there.
    pub(crate) fn misses(&self, user_key: &[u8]) -> bool {
        let prefix = self.reads.extractor.prefix_of(user_key);
        prefix.is_some_and(|prefix| !self.filter.may_contain(hash(prefix)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prefix_extractor::PrefixRule;

    fn collect(extractor: PrefixExtractor, keys: &[&str]) -> PrefixCollector {
        let extractor = StoreExtractor::new(&extractor, &Comparator::Bytewise);
        let mut collector = PrefixCollector::new(extractor, 10);
        let mut before = None;
        for key in keys {
            collector.add(key.as_bytes(), before);
            before = Some(key.as_bytes());
        }
        collector
    }

    #[test]
    fn a_prefix_is_collected_once() {
        let keys = ["", "a", "ab", "ab1", "ab2", "b", "bc", "bd", "bd9"];
        let collector = collect(PrefixExtractor::Fixed(2), &keys);
        let expected: Vec<u64> = ["ab", "bc", "bd"].map(|it| hash(it.as_bytes())).into();
        assert_eq!(collector.hashes, expected);
        assert!(collect(PrefixExtractor::Fixed(9), &keys).hashes.is_empty());
    }

    /// A rule that is a function.
    #[cfg(debug_assertions)]
    struct Lawless(fn(&[u8]) -> Option<usize>);

    #[cfg(debug_assertions)]
    impl PrefixRule for Lawless {
        fn name(&self) -> &str {
            "test.lawless"
        }

        fn prefix_bytes(&self, key: &[u8]) -> Option<usize> {
            self.0(key)
        }
    }

    #[cfg(debug_assertions)]
    fn caught(rule: fn(&[u8]) -> Option<usize>, keys: &[&str]) -> String {
        let caught = std::panic::catch_unwind(|| {
            collect(PrefixExtractor::Custom(Arc::new(Lawless(rule))), keys)
        })
        .unwrap_err();
        *caught.downcast::<String>().unwrap()
    }

    #[test]
    #[cfg(debug_assertions)]
    fn an_extractor_that_breaks_the_law_is_caught() {
        // All but the last byte: the prefix has another one itself.
        let what = caught(|key| key.len().checked_sub(1), &["abc"]);
        assert!(what.contains("gives a prefix another prefix than its key: ab"), "{what}");
        // A longer key has a longer prefix.
        let what = caught(|key| Some(if key.len() > 2 { 3 } else { key.len() }), &["ab", "abc"]);
        assert!(what.contains("gives abc another prefix than the key before"), "{what}");
        // A key in between has none.
        let rule = |key: &[u8]| (key != b"ab1").then_some(key.len().min(2));
        let what = caught(rule, &["ab1", "ab2"]);
        assert!(what.contains("gives ab2 a prefix that the key before has not"), "{what}");
    }
}

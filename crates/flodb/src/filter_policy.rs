//! Which filters tables get: the Bloom filter of [`crate::filter`], or one by a rule of the
//! caller's.
//!
//! A table with a filter by a rule stores the name of the rule beside it, in a property that
//! earlier programs skip. A store that is opened without that rule reads the table without a
//! filter. So the rule of a store may change at any opening: tables written before keep what they
//! have, and compactions write new ones.

use crate::filter::Filter;
use std::fmt;
use std::sync::Arc;

/// The longest name of a rule.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// A rule by which tables get filters; [`FilterPolicy::Custom`] takes it. The interface of
/// LevelDB's `FilterPolicy`, in two halves: the builder gets keys one by one, so that it need not
/// hold them, and a stored filter is prepared once, when its table is opened.
///
/// ```
/// use keyrack_flodb::{Db, FilterBuilder, FilterPolicy, FilterReader, FilterRule, Options};
/// use std::sync::Arc;
///
/// /// Which first bytes the keys of a table have.
/// struct FirstBytes;
///
/// #[derive(Default)]
/// struct Set([u8; 32]);
///
/// impl FilterRule for FirstBytes {
///     fn name(&self) -> &str {
///         "example.first-bytes"
///     }
///
///     fn builder(&self) -> Box<dyn FilterBuilder> {
///         Box::new(Set::default())
///     }
///
///     fn reader(&self, stored: &[u8]) -> Option<Box<dyn FilterReader>> {
///         Some(Box::new(Set(stored.try_into().ok()?)))
///     }
/// }
///
/// impl FilterBuilder for Set {
///     fn add(&mut self, key: &[u8]) {
///         let first = key.first().copied().unwrap_or(0);
///         self.0[usize::from(first / 8)] |= 1 << (first % 8);
///     }
///
///     fn finish(self: Box<Self>) -> Vec<u8> {
///         self.0.to_vec()
///     }
/// }
///
/// impl FilterReader for Set {
///     fn may_contain(&self, key: &[u8]) -> bool {
///         let first = key.first().copied().unwrap_or(0);
///         self.0[usize::from(first / 8)] & 1 << (first % 8) != 0
///     }
/// }
///
/// # let dir = std::env::temp_dir().join(format!("keyrack-rule-{}", std::process::id()));
/// let filter_policy = FilterPolicy::Custom(Arc::new(FirstBytes));
/// let db = Db::open(&dir, Options { filter_policy, ..Options::default() })?;
/// db.put(b"apple", b"1")?;
/// db.flush()?;
/// assert_eq!(db.get(b"apple")?.as_deref(), Some(&b"1"[..]));
/// assert_eq!(db.get(b"banana")?, None);
/// # drop(db);
/// # Db::destroy(&keyrack_vfs::RealFs, &dir)?;
/// # Ok::<(), keyrack_flodb::Error>(())
/// ```
pub trait FilterRule: Send + Sync {
    /// Names the rule: 1 to 255 bytes, stored in each table. A rule that cannot read what it has
    /// written before needs a new name.
    fn name(&self) -> &str;

    /// Begins the filter of a table. Called by the threads that flush and compact.
    fn builder(&self) -> Box<dyn FilterBuilder>;

    /// Prepares a stored filter for use. `None` if it cannot be one of this rule; the table is
    /// then reported as damaged.
    fn reader(&self, stored: &[u8]) -> Option<Box<dyn FilterReader>>;
}

/// The filter of a table that is being written.
pub trait FilterBuilder: Send {
    /// Adds a key. Keys ascend in the order of the store, each once, those of tombstones included.
    fn add(&mut self, key: &[u8]);

    /// The filter as it is stored, less than 1 GiB. The table has none if it is empty.
    fn finish(self: Box<Self>) -> Vec<u8>;
}

/// The filter of an open table. Any number of threads may ask it at once.
pub trait FilterReader: Send + Sync {
    /// Whether the table may have `key`. `false` for a key that was added hides that key; a
    /// [`verify`](crate::verify()) with the rule reports it.
    fn may_contain(&self, key: &[u8]) -> bool;
}

/// Which filters the tables of a store get.
#[derive(Clone, Default)]
pub enum FilterPolicy {
    /// A blocked Bloom filter with
    /// [`filter_bits_per_key`](crate::Options::filter_bits_per_key).
    #[default]
    Bloom,
    /// By somebody else's rule.
    Custom(Arc<dyn FilterRule>),
}

impl fmt::Debug for FilterPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilterPolicy::Bloom => f.write_str("Bloom"),
            FilterPolicy::Custom(rule) => f.debug_tuple("Custom").field(&rule.name()).finish(),
        }
    }
}

impl FilterPolicy {
    /// Whether filters of the rule can be read; Bloom filters, which have none, always can.
    pub(crate) fn knows(&self, rule: Option<&str>) -> bool {
        match (rule, self) {
            (None, _) => true,
            (Some(name), FilterPolicy::Custom(rule)) => rule.name() == name,
            (Some(_), FilterPolicy::Bloom) => false,
        }
    }

    /// Reads a stored filter: a Bloom filter, or one of the policy's rule. `None` if it is none.
    pub(crate) fn parse(&self, stored: &[u8], is_of_rule: bool) -> Option<KeyFilter> {
        match self {
            FilterPolicy::Custom(rule) if is_of_rule => rule.reader(stored).map(KeyFilter::Custom),
            FilterPolicy::Bloom | FilterPolicy::Custom(_) => {
                Filter::parse(stored).map(KeyFilter::Bloom)
            }
        }
    }

    /// Whether a table could not store the name of the rule.
    pub(crate) fn has_bad_name(&self) -> bool {
        match self {
            FilterPolicy::Bloom => false,
            FilterPolicy::Custom(rule) => !(1..=NAME_BYTES_MAX).contains(&rule.name().len()),
        }
    }
}

/// What a table that is being written gathers for its filter.
pub(crate) enum KeyCollector {
    /// The hashes of the keys.
    Bloom { hashes: Vec<u64>, bits_per_key: u32 },
    /// `None` before the first key.
    Custom { rule: Arc<dyn FilterRule>, builder: Option<Box<dyn FilterBuilder>> },
}

impl fmt::Debug for KeyCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyCollector").field("rule", &self.rule_name()).finish_non_exhaustive()
    }
}

impl KeyCollector {
    pub(crate) fn new(policy: &FilterPolicy, bits_per_key: u32) -> Self {
        match policy {
            FilterPolicy::Bloom => KeyCollector::Bloom { hashes: Vec::new(), bits_per_key },
            FilterPolicy::Custom(rule) => {
                KeyCollector::Custom { rule: Arc::clone(rule), builder: None }
            }
        }
    }

    /// Adds a user key; each once.
    #[inline]
    pub(crate) fn add(&mut self, user_key: &[u8]) {
        match self {
            KeyCollector::Bloom { bits_per_key: 0, .. } => {}
            KeyCollector::Bloom { hashes, .. } => hashes.push(crate::checksum::hash(user_key)),
            KeyCollector::Custom { rule, builder } => {
                builder.get_or_insert_with(|| rule.builder()).add(user_key);
            }
        }
    }

    /// Bytes of memory of what is gathered; of somebody else's rule nothing is known.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            KeyCollector::Bloom { hashes, .. } => hashes.capacity() * size_of::<u64>(),
            KeyCollector::Custom { .. } => 0,
        }
    }

    /// Bytes of the filter that would be stored now, or a few less.
    pub(crate) fn stored_bytes(&self) -> usize {
        match self {
            KeyCollector::Bloom { hashes, bits_per_key } => {
                hashes.len().saturating_mul(*bits_per_key as usize) / 8
            }
            KeyCollector::Custom { .. } => 0,
        }
    }

    /// The name of the rule; `None` for Bloom filters.
    pub(crate) fn rule_name(&self) -> Option<&str> {
        match self {
            KeyCollector::Bloom { .. } => None,
            KeyCollector::Custom { rule, .. } => Some(rule.name()),
        }
    }

    /// The filter to store, if there is one. O(keys).
    pub(crate) fn finish(&mut self) -> Option<Vec<u8>> {
        match self {
            KeyCollector::Bloom { hashes, bits_per_key } => Filter::build(hashes, *bits_per_key),
            KeyCollector::Custom { builder, .. } => {
                builder.take().map(FilterBuilder::finish).filter(|stored| !stored.is_empty())
            }
        }
    }
}

/// The filter of an open table.
pub(crate) enum KeyFilter {
    Bloom(Filter),
    Custom(Box<dyn FilterReader>),
}

impl fmt::Debug for KeyFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyFilter::Bloom(filter) => filter.fmt(f),
            KeyFilter::Custom(_) => f.write_str("Custom"),
        }
    }
}

impl KeyFilter {
    /// Asks for the memory that [`KeyFilter::may_contain`] reads, where that is known.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        match self {
            KeyFilter::Bloom(filter) => filter.prefetch(hash),
            KeyFilter::Custom(_) => {}
        }
    }

    /// Is the user key with this hash perhaps there? If not, it certainly is not.
    #[inline]
    pub(crate) fn may_contain(&self, user_key: &[u8], hash: u64) -> bool {
        match self {
            KeyFilter::Bloom(filter) => filter.may_contain(hash),
            KeyFilter::Custom(reader) => reader.may_contain(user_key),
        }
    }
}

//! Compaction filters: what a program lets compactions remove or change.
//!
//! ```text
//!   begin     no snapshot is open        the filter is asked about the newest version of each key
//!   install   no snapshot is open        the outputs replace the inputs
//!             a snapshot is open         the outputs are thrown away, and made without the filter
//! ```
//!
//! **The rule.** A version that is removed or changed keeps its sequence number, so that no moment
//! lies between the version and its change: whoever sees the version sees the change from then on.
//! Therefore a change is made only while nobody looks at a moment: no snapshot and no transaction
//! is open when the compaction begins, and none when its outputs are installed. Those that want to
//! begin meanwhile wait until the installation is over (`snapshot`). Iterators keep their tables,
//! and see nothing of it.
//!
//! A compaction that asks a filter is done in one part: between two parts, a version and its change
//! would both be there.

use crate::error::{Error, Result};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a [`CompactionFilter`] makes of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It stays.
    Keep,
    /// The key is not there any more.
    Remove,
    /// The key has this value. When it expires does not change.
    Change(Vec<u8>),
}

/// What compactions remove or change, see
/// [`Options::compaction_filter`](field@crate::Options::compaction_filter).
///
/// Compactions ask it, flushes do not, and neither is a table asked about that a compaction only
/// moves. It gets the newest version of a key that the compaction comes to, if that is a value: not
/// a tombstone, not an operand, and not a value that has expired. Operands that are still above the
/// value stay on what the filter makes of it. It may be asked about a version several times.
/// [`Db::rewrite`](crate::Db::rewrite) asks it about all that is in the store.
///
/// A compaction asks it only while no snapshot and no transaction is open: see
/// `docs/engines/flodb.md`. A change is no write: a change feed does not show it.
///
/// It is called by the threads that compact, so it must be quick and must not use the store. After
/// a panic the store only reads, with the name of the filter as the reason.
pub trait CompactionFilter: Send + Sync {
    /// Names the filter in errors.
    fn name(&self) -> &str;

    /// What becomes of the value of a key, in a compaction into `level`.
    fn filter(&self, level: usize, key: &[u8], value: &[u8]) -> Decision;
}

impl fmt::Debug for dyn CompactionFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CompactionFilter").field(&self.name()).finish()
    }
}

/// Asks a filter.
///
/// # Errors
/// [`Error::Poisoned`] if it panics.
pub(crate) fn decide(
    filter: &dyn CompactionFilter,
    level: usize,
    key: &[u8],
    value: &[u8],
) -> Result<Decision> {
    // What it leaves half done is its own.
    catch_unwind(AssertUnwindSafe(|| filter.filter(level, key, value))).map_err(|_| {
        Error::Poisoned(format!("the compaction filter '{}' has panicked", filter.name()))
    })
}

//! Quotas: how many names a name space may have, how long they may be, how deep its directories.
//!
//! ```text
//!   opening    walk from the root --> names in use        only where their number is limited
//!   create     take one --> write the record              nothing is written where none is left
//!              give it back if the record could not be written
//!   unlink     remove the record --> give one back
//! ```
//!
//! The number of names is in memory alone, so a log does not change by having a quota. What is
//! there already stays, can be read and removed, and counts, also where it is more, longer or
//! deeper than the quota: that is only asked of what is new.

use crate::error::{Error, Result, shown};
use crate::id::DirId;
use crate::layers::Layers;
use crate::name::{DEPTH_MAX, NAME_BYTES_MAX, too_long};
use crate::record::Entry;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far a name space may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Names of files, directories and links, without the root; any number if it is not given. They
    /// are counted when the name space is opened.
    pub names: Option<u64>,
    /// Bytes of a new name: 255.
    pub name_bytes: usize,
    /// Directories from the root down to a new one: 1,024.
    pub depth: usize,
}

impl Default for Quota {
    fn default() -> Quota {
        Quota { names: None, name_bytes: NAME_BYTES_MAX, depth: DEPTH_MAX }
    }
}

impl Quota {
    /// Refuses what is beyond the limits that all name spaces have.
    ///
    /// # Errors
    /// [`Error::Usage`].
    pub fn check(&self) -> Result<()> {
        let wrong = |what: &str, given: usize, range: String| {
            Err(Error::Usage(format!("a quota of {given} {what}: give {range}")))
        };
        if !(1..=NAME_BYTES_MAX).contains(&self.name_bytes) {
            return wrong("bytes of a name", self.name_bytes, format!("1 to {NAME_BYTES_MAX}"));
        }
        if self.depth > DEPTH_MAX {
            return wrong("directories one in another", self.depth, format!("0 to {DEPTH_MAX}"));
        }
        Ok(())
    }
}

/// What is left of a quota.
#[derive(Debug)]
pub(crate) struct NameCount {
    pub(crate) quota: Quota,
    /// Names in use; of no meaning where their number is not limited. It is all there is, and
    /// publishes nothing: relaxed.
    used: AtomicU64,
}

impl NameCount {
    /// The room of a name space that is read only: nothing is counted.
    pub(crate) fn uncounted(quota: Quota) -> NameCount {
        NameCount { quota: Quota { names: None, ..quota }, used: AtomicU64::new(0) }
    }

    /// Counts the names if their number is limited. O(names) then.
    pub(crate) fn of(quota: Quota, layers: &Layers) -> Result<NameCount> {
        let used = if quota.names.is_some() { count(layers)? } else { 0 };
        Ok(NameCount { quota, used: AtomicU64::new(used) })
    }

    #[inline]
    pub(crate) fn is_counted(&self) -> bool {
        self.quota.names.is_some()
    }

    /// Names in use. `None` if their number is not limited: they are not counted then.
    pub(crate) fn used(&self) -> Option<u64> {
        self.is_counted().then(|| self.used.load(Ordering::Relaxed))
    }

    /// Takes room for new names, all or none.
    #[inline]
    pub(crate) fn reserve(&self, name: &[u8], count: u64) -> Result<()> {
        // Without a limit there is room.
        let Some(limit) = self.quota.names else { return Ok(()) };
        let add = |used: u64| used.checked_add(count).filter(|sum| *sum <= limit);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(_) => Ok(()),
            Err(_) => Err(full(name, limit)),
        }
    }

    /// Whether a name could be taken now.
    pub(crate) fn check_free(&self, name: &[u8]) -> Result<()> {
        match self.quota.names {
            Some(limit) if self.used.load(Ordering::Relaxed) >= limit => Err(full(name, limit)),
            _ => Ok(()),
        }
    }

    /// Names went, or did not come after all.
    #[inline]
    pub(crate) fn release(&self, count: u64) {
        if self.is_counted() {
            let take = |used: u64| Some(used.saturating_sub(count));
            // It always gives a number.
            let _ = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        }
    }

    /// Names came that were decided upon elsewhere, whether or not there is room.
    pub(crate) fn add(&self, count: u64) {
        if self.is_counted() {
            self.used.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// So many of some names were there before, and so many are there now.
    pub(crate) fn adjust(&self, before: u64, now: u64) {
        self.add(now.saturating_sub(before));
        self.release(before.saturating_sub(now));
    }

    /// Refuses a new name that is too long.
    #[inline]
    pub(crate) fn check_length(&self, name: &[u8]) -> Result<()> {
        if name.len() > self.quota.name_bytes {
            let what = format!("the name '{}'", shown(name));
            Err(too_long(&what, name.len(), self.quota.name_bytes))
        } else {
            Ok(())
        }
    }

    /// Refuses a new directory that is too deep.
    pub(crate) fn check_depth(&self, depth: usize) -> Result<()> {
        if depth > self.quota.depth {
            Err(too_long("the way from the root to the directory", depth, self.quota.depth))
        } else {
            Ok(())
        }
    }
}

fn full(name: &[u8], limit: u64) -> Error {
    Error::Quota { path: shown(name), limit }
}

/// The names that can be reached from the root.
pub(crate) fn count(layers: &Layers) -> Result<u64> {
    let mut names = 0;
    let mut left = vec![DirId::ROOT];
    while let Some(dir) = left.pop() {
        let mut entries = layers.entries(dir, b"")?;
        while entries.next()? {
            let (_, name) = entries.entry_key()?;
            if name.is_empty() {
                continue;
            }
            match Entry::read(entries.path(0), dir, name, entries.value(0))? {
                Entry::Whiteout => continue,
                Entry::Dir(id) => left.push(id),
                _ => {}
            }
            names += 1;
        }
    }
    Ok(names)
}

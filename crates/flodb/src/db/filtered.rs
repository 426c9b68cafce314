//! Entries of a build that a filter is asked about: the drop filter, and then the compaction
//! filter. What is removed becomes a tombstone where something older may lie below.

use super::build::Output;
use super::stats::Counters;
use crate::compaction_filter::{Decision, decide};
use crate::error::{Error, Result};
use crate::expiry;
use crate::key::{Kind, Parsed, append};

impl Output<'_> {
    /// Adds what the filters leave of a value that is not hidden and seen by everybody.
    #[inline(never)]
    pub(super) fn add_filtered(
        &mut self,
        entry: &Parsed<'_>,
        key: &[u8],
        stored: &[u8],
    ) -> Result<()> {
        let mut buffer = std::mem::take(&mut self.value);
        let value = match entry.kind {
            Kind::Blob => self.read_value(entry, stored, &mut buffer)?,
            Kind::PutExpiring => expiry::split_whole(stored).1,
            _ => stored,
        };
        if self.options.dropped.is_some_and(|filter| filter(entry.user, value)) {
            self.value = buffer;
            Counters::add(&self.inner.counters.filtered, 1);
            return self.add_tombstone(entry);
        }
        let level = self.options.level;
        let decision = self.options.filter.map(|filter| decide(filter, level, entry.user, value));
        self.value = buffer;
        match decision.transpose()?.unwrap_or(Decision::Keep) {
            Decision::Keep => self.add_value(entry, key, stored),
            Decision::Remove => {
                self.changed += 1;
                self.add_tombstone(entry)
            }
            Decision::Change(value) => {
                self.changed += 1;
                self.add_changed(entry, stored, value)
            }
        }
    }

    /// Adds an entry with another value.
    fn add_changed(&mut self, entry: &Parsed<'_>, stored: &[u8], value: Vec<u8>) -> Result<()> {
        let (kind, value) = match entry.kind {
            Kind::PutExpiring => {
                let (expires_ms, _) = expiry::split_whole(stored);
                (Kind::PutExpiring, expiry::stored(expires_ms, &value))
            }
            _ => (Kind::Put, value),
        };
        let mut key = Vec::new();
        append(&mut key, entry.user, entry.sequence, kind);
        let added = self.add_value(&Parsed { kind, ..*entry }, &key, &value);
        added.map_err(|error| match (error, self.options.filter) {
            (Error::Usage(why), Some(filter)) => {
                let name = filter.name();
                Error::Poisoned(format!("the compaction filter '{name}' gave a value: {why}"))
            }
            (error, _) => error,
        })
    }
}

//! Operands in a build: those of a key up to the oldest moment, on their way down to its value.
//!
//! ```text
//!   oldest 10     entries of a key                          written
//!                 +1@12  +2@9  +3@7  put 5@4  put 1@2       +1@12  put 10@9
//!                 +2@9  +3@7             nothing below      put 5@9
//!                 +2@9  +3@7             perhaps below      +5@9
//!                 +2@9  +3@7  until t 5@4    not expired    +5@9   until t 5@4
//! ```
//!
//! What comes of them has the number of the newest one. Nobody looks at a moment between two of
//! them, so nobody sees the difference. If they do not fit each other, all entries stay as they
//! are: the error is for whoever reads the key.

use super::build::Output;
use crate::error::Result;
use crate::expiry;
use crate::key::{Kind, Parsed, append};

/// One, or several that were combined: the number of the newest of them.
pub(super) struct Operand {
    sequence: u64,
    bytes: Vec<u8>,
}

impl Output<'_> {
    /// Takes an operand that is older than those before it.
    pub(super) fn gather(&mut self, entry: &Parsed<'_>, operand: &[u8]) -> Result<()> {
        if let Some(newer) = self.operands.last_mut() {
            let merges = self.inner.merges();
            if let Some(both) = merges.try_combine(entry.user, operand, &newer.bytes)? {
                newer.bytes = both;
                return Ok(());
            }
        }
        self.operands.push(Operand { sequence: entry.sequence, bytes: operand.to_vec() });
        Ok(())
    }

    /// Puts the operands on top of an entry of their key. `false` if the entry is still to be
    /// written.
    pub(super) fn fold_over(&mut self, entry: &Parsed<'_>, stored: &[u8]) -> Result<bool> {
        match entry.kind {
            Kind::Put => self.fold(entry.user, Some(stored)),
            Kind::Blob => {
                let mut buffer = std::mem::take(&mut self.value);
                let value = self.read_value(entry, stored, &mut buffer)?.to_vec();
                self.value = buffer;
                self.fold(entry.user, Some(&value))
            }
            Kind::PutExpiring if expiry::split_whole(stored).0 > self.options.expired_ms => {
                self.add_operands(entry.user)?;
                Ok(false)
            }
            Kind::PutExpiring | Kind::Delete | Kind::DeleteRange => self.fold(entry.user, None),
            Kind::Merge => unreachable!("an operand is gathered"),
        }
    }

    /// Writes the operands of a key of which no further entry is at hand. If `is_removed`, a range
    /// tombstone hides what may be below.
    pub(super) fn end_operands(&mut self, key: &[u8], is_removed: bool) -> Result<()> {
        if self.operands.is_empty() {
            return Ok(());
        }
        if is_removed || !self.options.below.has(key) {
            return self.fold(key, None).map(|_| ());
        }
        self.add_operands(key)
    }

    /// Writes the value that the operands make; or the operands, if they do not fit. Says which.
    fn fold(&mut self, key: &[u8], below: Option<&[u8]>) -> Result<bool> {
        let oldest_first: Vec<&[u8]> = self.operands.iter().rev().map(|it| &*it.bytes).collect();
        let merged = self.inner.merges().try_merge(key, below, &oldest_first)?;
        // They do not fit each other: readers say so.
        let Some(value) = merged else {
            self.add_operands(key)?;
            return Ok(false);
        };
        let sequence = self.operands[0].sequence;
        self.operands.clear();
        let entry = Parsed { user: key, sequence, kind: Kind::Put };
        let mut internal = Vec::new();
        append(&mut internal, key, sequence, Kind::Put);
        self.add_unless_dropped(&entry, &internal, &value)?;
        Ok(true)
    }

    /// Writes the operands as they are.
    fn add_operands(&mut self, key: &[u8]) -> Result<()> {
        self.is_under_operands = true;
        for Operand { sequence, bytes } in std::mem::take(&mut self.operands) {
            let mut internal = Vec::new();
            append(&mut internal, key, sequence, Kind::Merge);
            self.add(&internal, &bytes)?;
        }
        Ok(())
    }
}

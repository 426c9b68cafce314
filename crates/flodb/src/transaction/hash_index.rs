//! Finds the entries of a growing list by the hashes of their keys, the newest first.
//!
//! Most transactions touch a few keys: those are found by a look at all hashes, which lie side by
//! side. From [`SCANNED_MAX`] on there is a table, and entries of one hash form a chain.

use std::collections::HashMap;

const SCANNED_MAX: usize = 16;

/// The end of a chain.
const NONE: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(super) struct HashIndex {
    /// Of each entry.
    hashes: Vec<u64>,
    /// Of each entry, the one before it of the same hash. Empty without a table.
    older: Vec<u32>,
    /// Of each hash its newest entry. Empty without a table.
    newest: HashMap<u64, u32>,
}

impl HashIndex {
    /// The hashes of all entries, in order.
    pub(super) fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// Adds the next entry.
    pub(super) fn push(&mut self, hash: u64) {
        if self.hashes.len() == SCANNED_MAX && self.older.is_empty() {
            for at in 0..SCANNED_MAX {
                self.chain(at);
            }
        }
        self.hashes.push(hash);
        if self.hashes.len() > SCANNED_MAX {
            self.chain(self.hashes.len() - 1);
        }
    }

    fn chain(&mut self, at: usize) {
        let older = self.newest.insert(self.hashes[at], at as u32);
        self.older.push(older.unwrap_or(NONE));
    }

    /// The newest entry of this hash that is the one.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(usize) -> bool) -> Option<usize> {
        if self.older.is_empty() {
            let mut entries = self.hashes.iter().enumerate().rev();
            return entries.find(|(at, own)| **own == hash && is_it(*at)).map(|(at, _)| at);
        }
        let mut at = *self.newest.get(&hash)?;
        while at != NONE {
            if is_it(at as usize) {
                return Some(at as usize);
            }
            at = self.older[at as usize];
        }
        None
    }

    /// Forgets all entries but the first `len`.
    pub(super) fn truncate(&mut self, len: usize) {
        while self.older.len() > len.max(SCANNED_MAX) {
            let older = self.older.pop().expect("it is longer than that");
            let hash = self.hashes[self.older.len()];
            if older == NONE {
                self.newest.remove(&hash);
            } else {
                self.newest.insert(hash, older);
            }
        }
        if len <= SCANNED_MAX {
            self.older.clear();
            self.newest.clear();
        }
        self.hashes.truncate(len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_testkit::random::{Announced, Draw, seeds};

    #[test]
    fn an_index_answers_as_its_list() {
        for seed in seeds() {
            let (mut draw, _announced) = (Draw::new(seed), Announced(seed));
            let (mut index, mut list) = (HashIndex::default(), Vec::new());
            for _ in 0..3_000 {
                match draw.below(40) {
                    0 => {
                        let len = draw.below(list.len() + 1);
                        list.truncate(len);
                        index.truncate(len);
                    }
                    1..30 => {
                        let entry = (draw.below(9_u64), draw.below(3));
                        list.push(entry);
                        index.push(entry.0);
                    }
                    _ => {
                        let wanted = (draw.below(10_u64), draw.below(4));
                        let expected = list.iter().rposition(|entry| *entry == wanted);
                        let found = index.find(wanted.0, |at| list[at].1 == wanted.1);
                        assert_eq!(found, expected, "{wanted:?} of {list:?}");
                    }
                }
                assert_eq!(index.hashes().len(), list.len());
            }
        }
    }
}

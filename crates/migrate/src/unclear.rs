//! Keys that have to be read again.

use crate::error::{Error, Result};
use std::collections::BTreeSet;

/// Keys at most, and their bytes.
const KEYS_MAX: usize = 1 << 20;
const BYTES_MAX: usize = 256 << 20;

/// A set of keys with a limit.
#[derive(Debug, Default)]
pub(crate) struct KeySet {
    keys: BTreeSet<Vec<u8>>,
    bytes: usize,
}

impl KeySet {
    pub(crate) fn insert(&mut self, key: &[u8]) -> Result<()> {
        if self.keys.insert(key.to_vec()) {
            self.bytes += key.len();
        }
        if self.keys.len() > KEYS_MAX || self.bytes > BYTES_MAX {
            return Err(Error::usage(format!(
                "more than {KEYS_MAX} keys, or {BYTES_MAX} bytes of them, have to be read again; \
                 import while fewer of them change"
            )));
        }
        Ok(())
    }

    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        self.keys.contains(key)
    }

    pub(crate) fn take(&mut self) -> Vec<Vec<u8>> {
        self.bytes = 0;
        std::mem::take(&mut self.keys).into_iter().collect()
    }
}

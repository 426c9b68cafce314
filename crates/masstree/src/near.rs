//! A hint: where the last operation of a caller was.
//!
//! It holds the border node, its version, its layer, and what all keys of the layer begin with. A
//! key that begins so, and whose slice the node covers while it has not been split since, belongs
//! there: no descent. All else is searched from the root as always.

use crate::descent::{Finger, Spot};
use crate::shape::Shape;
use std::fmt;

/// A hint is kept in layers down to this length of the key.
const NEAR_PREFIX_MAX: usize = 32;

/// Where the last operation was: a hint for the next one, of the same thread or another. It never
/// changes what an operation does, only how fast: keys that follow each other, or come again and
/// again, are found at once.
#[derive(Clone, Default)]
pub struct Near<'t> {
    finger: Option<Finger<'t>>,
    /// What all keys of the finger's layer begin with.
    prefix: [u8; NEAR_PREFIX_MAX],
    /// Of which tree.
    shape: Option<&'t Shape>,
}

impl<'t> Near<'t> {
    /// No hint yet.
    #[must_use]
    pub fn new() -> Self {
        Near::default()
    }

    /// Where `key` belongs, if that is near and in this tree.
    #[inline(always)]
    pub(crate) fn follow<'k>(&self, shape: &Shape, key: &'k [u8]) -> Option<Spot<'t, 'k>> {
        let same = self.shape.is_some_and(|own| std::ptr::eq(own, shape));
        if same { self.finger?.follow(&self.prefix, key) } else { None }
    }

    /// Points to where `key` was found.
    #[inline]
    pub(crate) fn set(&mut self, shape: &'t Shape, finger: Option<Finger<'t>>, key: &[u8]) {
        self.finger = finger.filter(|finger| finger.prefix() <= NEAR_PREFIX_MAX);
        self.shape = Some(shape);
        if let Some(finger) = self.finger {
            let prefix = finger.prefix();
            self.prefix[..prefix].copy_from_slice(&key[..prefix]);
        }
    }
}

impl fmt::Debug for Near<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Near")
    }
}

//! A hint: the border node of a caller's last operation.
//!
//! It holds the border node, its version, its layer, and the prefix of all keys of the layer. A key
//! with that prefix belongs to the node if the node covers its slice and has not been split since;
//! then no descent is needed. Every other key is searched from the root.

use crate::descent::{Finger, LeafPosition};
use crate::shape::Shape;
use std::fmt;

/// A hint is kept in layers down to this length of the key.
const HINT_PREFIX_MAX: usize = 32;

/// The border node of the last operation, as a hint for the next one of the same
/// thread. It never changes the result of an operation. It saves the search for keys that are
/// near each other or repeat.
///
/// ```
/// use keyrack_masstree::{Hint, Tree, pin};
///
/// let tree = Tree::<u64>::new();
/// let (guard, mut hint) = (pin(), Hint::new());
/// for n in 0..1000_u64 {
///     tree.insert_hinted(&n.to_be_bytes(), n, &guard, &mut hint);
/// }
/// assert_eq!(tree.len(), 1000);
/// ```
#[derive(Clone, Default)]
pub struct Hint<'t> {
    finger: Option<Finger<'t>>,
    /// The common prefix of all keys of the finger's layer.
    prefix: [u8; HINT_PREFIX_MAX],
    /// The tree of the hint.
    shape: Option<&'t Shape>,
}

impl<'t> Hint<'t> {
    /// No hint yet: the first operation with it searches.
    ///
    /// ```
    /// # let tree = keyrack_masstree::Tree::<u64>::new();
    /// let mut hint = keyrack_masstree::Hint::new();
    /// assert_eq!(tree.get_hinted(b"key", &keyrack_masstree::pin(), &mut hint), None);
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Hint::default()
    }

    /// The leaf position of `key`, if the hint is of this tree and its node covers the key.
    #[inline(always)]
    pub(crate) fn follow<'k>(&self, shape: &Shape, key: &'k [u8]) -> Option<LeafPosition<'t, 'k>> {
        let same = self.shape.is_some_and(|own| std::ptr::eq(own, shape));
        if same { self.finger?.follow(&self.prefix, key) } else { None }
    }

    /// Stores the node in which `key` was found.
    #[inline]
    pub(crate) fn set(&mut self, shape: &'t Shape, finger: Option<Finger<'t>>, key: &[u8]) {
        self.finger = finger.filter(|finger| finger.prefix() <= HINT_PREFIX_MAX);
        self.shape = Some(shape);
        if let Some(finger) = self.finger {
            let prefix = finger.prefix();
            self.prefix[..prefix].copy_from_slice(&key[..prefix]);
        }
    }
}

impl fmt::Debug for Hint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hint")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Tree, pin};

    /// A hint that is not followed answers the same, and costs more than none.
    #[test]
    fn a_hint_is_followed_in_every_node() {
        let number = |n: u64| n.wrapping_mul(u64::MAX / 999).to_be_bytes().to_vec();
        let text = |n: u64| format!("of one beginning, {n:06}").into_bytes();
        let short = |n: u64| format!("{n:010}").into_bytes();
        let makes: [&dyn Fn(u64) -> Vec<u8>; 3] = [&number, &text, &short];
        for (count, make) in [1, 10, 1000].iter().flat_map(|count| makes.map(|make| (*count, make)))
        {
            let (tree, guard) = (Tree::<u64>::new(), pin());
            let keys: Vec<Vec<u8>> = (0..count).map(make).collect();
            for key in &keys {
                assert_eq!(tree.insert(key, 1, &guard), None);
            }
            for key in &keys {
                let mut hint = Hint::new();
                assert_eq!(tree.get_hinted(key, &guard, &mut hint), Some(1));
                let leaf = hint.follow(&tree.shape, key).expect("the node covers its key");
                let others = keys.iter().filter(|key| hint.follow(&tree.shape, key).is_some());
                assert_eq!(others.count(), leaf.border.permutation().len(), "{count} of {key:?}");
            }
        }
    }
}

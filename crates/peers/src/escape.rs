//! Keys for engines that cannot hold an empty one, in the same order.
//!
//! The empty key is written as one NUL, and a key that begins with a NUL gets another before it.
//! All other keys stay as they are, so that ordinary keys cost one comparison:
//!
//! ```text
//! key        ""      "\0"      "\0x"      "\1"    "abc"
//! written    "\0"    "\0\0"    "\0\0x"    "\1"    "abc"
//! ```
//!
//! What begins with a NUL stays below all the rest and in order among itself, and no two keys are
//! written alike.

use std::borrow::Cow;

/// The key as it is written: never empty. Allocates for keys that change.
pub(crate) fn escape(key: &[u8]) -> Cow<'_, [u8]> {
    match key.first() {
        Some(0) | None => Cow::Owned([&[0], key].concat()),
        Some(_) => Cow::Borrowed(key),
    }
}

/// The key that was written so. O(1).
pub(crate) fn unescape(written: &[u8]) -> &[u8] {
    written.strip_prefix(&[0]).unwrap_or(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_and_keep_their_order() {
        let bytes = [0, 1, b'a', 0xff];
        let mut keys: Vec<Vec<u8>> = vec![Vec::new()];
        for length in 0..3 {
            let shorter: Vec<_> = keys.iter().filter(|key| key.len() == length).cloned().collect();
            keys.extend(
                shorter.iter().flat_map(|key| bytes.map(|byte| [&key[..], &[byte]].concat())),
            );
        }
        keys.sort();
        assert_eq!(keys.len(), 1 + 4 + 16 + 64);
        let written: Vec<_> = keys.iter().map(|key| escape(key)).collect();
        assert!(written.is_sorted_by(|a, b| a < b), "{written:?}");
        for (key, written) in keys.iter().zip(&written) {
            assert!(!written.is_empty());
            assert_eq!(unescape(written), key);
        }
    }

    #[test]
    fn ordinary_keys_are_not_copied() {
        assert!(matches!(escape(b"key"), Cow::Borrowed(b"key")));
    }
}

//! The encoding of keys: where user keys and the elements of collections lie in one key space.
//!
//! ```text
//!   user key                               stored key
//!   b"user:17"                             b"user:17"                     unchanged
//!   ff fe ...                              ff fe ff ...                   escaped: one byte more
//!   element b"name" of collection 7        ff fe 00 | 00 00 00 00 07 | name
//!                                          space      id, big endian
//! ```
//!
//! * Escaping keeps the order of user keys: all that begin with `ff fe` gain the same byte.
//! * The elements of a collection are neighbours, in the order of their names. The eight bytes
//!   before a name are one slice of a key in the index in memory, so each collection has a layer of
//!   its own there.
//! * Stored keys from `ff fe 00` to before `ff fe ff` are no user keys. The third byte is the
//!   *space*: 0 is elements by name. Others are free for elements in another order.

use std::borrow::Cow;

/// The bytes before everything that is not a plain user key.
const RESERVED: [u8; 2] = [0xff, 0xfe];
/// The third byte of an escaped user key.
const ESCAPED: u8 = 0xff;
/// The third byte of an element by its name.
const BY_NAME: u8 = 0;
/// Bytes before the name of an element.
pub(crate) const PREFIX_BYTES: usize = 8;
/// The largest id of a collection: five bytes.
pub(crate) const ID_MAX: u64 = (1 << 40) - 1;

/// The first stored key that is no user key.
pub(crate) const RESERVED_START: &[u8] = &[0xff, 0xfe, 0];
/// The first stored key after those.
pub(crate) const RESERVED_END: &[u8] = &[0xff, 0xfe, 0xff];

/// Whether a key begins with the reserved bytes: a user key is escaped then, and a stored key is
/// not what an earlier version would take it for.
#[inline]
pub(crate) fn is_reserved(key: &[u8]) -> bool {
    key.starts_with(&RESERVED)
}

/// Whether a stored key is that of an element.
#[inline]
pub(crate) fn is_element(stored: &[u8]) -> bool {
    is_reserved(stored) && stored.get(2).is_some_and(|&space| space != ESCAPED)
}

/// The stored key of a user key.
#[inline]
pub(crate) fn stored(user: &[u8]) -> Cow<'_, [u8]> {
    if is_reserved(user) { Cow::Owned(escape(user)) } else { Cow::Borrowed(user) }
}

#[cold]
fn escape(user: &[u8]) -> Vec<u8> {
    [&RESERVED, &[ESCAPED][..], &user[RESERVED.len()..]].concat()
}

/// The user key of a stored key that is not an element's.
#[inline]
pub(crate) fn user(stored: &[u8]) -> Cow<'_, [u8]> {
    if is_reserved(stored) {
        // A stored key has its third byte, because a shorter one was escaped.
        Cow::Owned([&RESERVED, stored.get(3..).unwrap_or(&[])].concat())
    } else {
        Cow::Borrowed(stored)
    }
}

/// The bytes before the names of a collection.
pub(crate) fn prefix(id: u64) -> [u8; PREFIX_BYTES] {
    debug_assert!(id <= ID_MAX, "an id has five bytes");
    let mut prefix = [0; PREFIX_BYTES];
    prefix[..2].copy_from_slice(&RESERVED);
    prefix[2] = BY_NAME;
    prefix[3..].copy_from_slice(&id.to_be_bytes()[3..]);
    prefix
}

/// The first stored key after all elements of a collection.
pub(crate) fn end(id: u64) -> [u8; PREFIX_BYTES] {
    let mut end = u64::from_be_bytes(prefix(id));
    end += 1;
    end.to_be_bytes()
}

/// The id and the name of the element that a stored key belongs to.
#[inline]
pub(crate) fn element(stored: &[u8]) -> Option<(u64, &[u8])> {
    if !is_element(stored) {
        return None;
    }
    let (prefix, name) = stored.split_first_chunk::<PREFIX_BYTES>()?;
    let mut id = [0; 8];
    id[3..].copy_from_slice(&prefix[3..]);
    (prefix[2] == BY_NAME).then(|| (u64::from_be_bytes(id), name))
}

/// Bytes of a key that need no allocation.
const INLINE_BYTES: usize = 64;

/// The stored key of an element.
pub(crate) enum ElementKey {
    Inline([u8; INLINE_BYTES], usize),
    Long(Vec<u8>),
}

impl ElementKey {
    pub(crate) fn new(id: u64, name: &[u8]) -> Self {
        let (prefix, bytes) = (prefix(id), PREFIX_BYTES + name.len());
        if bytes > INLINE_BYTES {
            return ElementKey::Long([&prefix, name].concat());
        }
        let mut key = [0; INLINE_BYTES];
        key[..PREFIX_BYTES].copy_from_slice(&prefix);
        key[PREFIX_BYTES..bytes].copy_from_slice(name);
        ElementKey::Inline(key, bytes)
    }
}

impl std::ops::Deref for ElementKey {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            ElementKey::Inline(key, bytes) => &key[..*bytes],
            ElementKey::Long(key) => key,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_keys_keep_their_order_and_come_back() {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for first in [0, 1, 0x7f, 0xfd, 0xfe, 0xff] {
            keys.push(vec![first]);
            for second in [0, 1, 0xfd, 0xfe, 0xff] {
                keys.push(vec![first, second]);
                for third in [0, 1, 0xfe, 0xff] {
                    keys.push(vec![first, second, third]);
                    keys.push(vec![first, second, third, 0, 0, 0, 0, 0, b'x']);
                }
            }
        }
        keys.sort();
        let all: Vec<Vec<u8>> = keys.iter().map(|key| stored(key).into_owned()).collect();
        assert!(all.is_sorted_by(|a, b| a < b));
        for (key, stored) in keys.iter().zip(&all) {
            assert_eq!(*user(stored), **key);
            assert!(!is_element(stored) && element(stored).is_none(), "{stored:x?}");
            assert!(**stored < *RESERVED_START || **stored >= *RESERVED_END);
        }
    }

    #[test]
    fn elements_lie_between_user_keys_in_the_order_of_their_names() {
        let long = [7; 100];
        for id in [1, 255, 256, ID_MAX] {
            let mut last = Vec::new();
            for name in [&b""[..], b"\0", b"a", b"ab", b"\xff", &[0xff; 60], &long] {
                let key = ElementKey::new(id, name);
                assert_eq!(element(&key), Some((id, name)));
                assert!(*key >= prefix(id)[..] && *key < end(id)[..]);
                assert!(*key >= *RESERVED_START && *key < *RESERVED_END);
                if name != long {
                    assert!(*key > *last);
                    last = key.to_vec();
                }
            }
        }
        assert_eq!(end(7), prefix(8));
    }
}

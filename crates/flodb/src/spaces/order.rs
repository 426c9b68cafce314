//! Keys of key spaces, and their order.
//!
//! ```text
//!   key in the store = varint of (id << 1 | custom) | if custom: hash of the order's name, 4 bytes
//!                    | key in the space
//! ```
//!
//! The varint and the hash are the *prefix* of the space. No prefix begins another, so the keys of
//! a space stand together, and spaces stand in the order of the bytes of their prefixes. Within a
//! space without the custom bit, keys are in the order of their bytes: two of them compare as they
//! are, prefix and all. Within the others the rule with that name compares what is behind the
//! prefix.
//!
//! So a key alone says by which rule it is compared, and a store can be opened, its log sorted and
//! its tables searched, before anybody has read the catalog that lies in it.
//!
//! What has no whole prefix is no key of a space, and stands where its bytes say. Such bounds are
//! used around a space: the varint alone is before all its keys, also before the empty one where
//! that is not the first; the varint with its last byte plus one is behind them.

use crate::checksum::hash;
use crate::coding::varint_into;
use crate::error::{Error, Result};
use crate::key::{Comparator, Compare, SPACES_ORDER};
use std::cmp::Ordering;
use std::sync::atomic::{AtomicBool, Ordering as AtomicOrdering};

/// Ids of spaces are smaller.
pub(super) const IDS_MAX: u32 = 1 << 31;

/// Bytes of the varint of an id.
const VARINT_BYTES_MAX: usize = 5;

/// Bytes of the hash of a name.
const HASH_BYTES: usize = 4;

const PREFIX_BYTES_MAX: usize = VARINT_BYTES_MAX + HASH_BYTES;

/// What the keys of a space begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prefix {
    bytes: [u8; PREFIX_BYTES_MAX],
    varint_len: u8,
    len: u8,
}

impl Prefix {
    /// Of the catalog.
    pub(super) const CATALOG: Prefix =
        Prefix { bytes: [0; PREFIX_BYTES_MAX], varint_len: 1, len: 1 };

    /// Of the space with this id, below [`IDS_MAX`], in the order of that name.
    pub(super) fn new(id: u32, order: &str) -> Self {
        debug_assert!(id < IDS_MAX);
        let is_custom = order != Comparator::Bytewise.name();
        let mut bytes = [0; PREFIX_BYTES_MAX];
        let mut len = varint_into(&mut bytes, u64::from(id) << 1 | u64::from(is_custom));
        let varint_len = len as u8;
        if is_custom {
            bytes[len..len + HASH_BYTES].copy_from_slice(&hash_of(order));
            len += HASH_BYTES;
        }
        Prefix { bytes, varint_len, len: len as u8 }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// The id of the space that a key is of, and the bytes of its prefix. A bound around a space
    /// has an id, and may be shorter than the prefix.
    pub(super) fn id_of(key: &[u8]) -> Option<(u32, usize)> {
        let mut number = 0_u64;
        for (at, byte) in key.iter().take(VARINT_BYTES_MAX).enumerate() {
            number |= u64::from(byte & 0x7f) << (7 * at);
            if *byte < 0x80 {
                let hash = if number & 1 == 1 { HASH_BYTES } else { 0 };
                return Some((u32::try_from(number >> 1).ok()?, at + 1 + hash));
            }
        }
        None
    }

    /// Before all keys of the space, and behind those of spaces before.
    pub(super) fn low(&self) -> &[u8] {
        &self.bytes[..usize::from(self.varint_len)]
    }

    /// Behind all keys of the space, and not behind those of the next.
    pub(super) fn high(&self) -> ([u8; VARINT_BYTES_MAX], usize) {
        let mut bytes = [0; VARINT_BYTES_MAX];
        let len = usize::from(self.varint_len);
        bytes[..len].copy_from_slice(self.low());
        // The last byte of a varint is below 0x80.
        bytes[len - 1] += 1;
        (bytes, len)
    }
}

fn hash_of(name: &str) -> [u8; HASH_BYTES] {
    (hash(name.as_bytes()) as u32).to_be_bytes()
}

/// Bytes of the prefix of a key in a space with an order of its own, and the hash in it.
fn custom_prefix(key: &[u8]) -> Option<(usize, [u8; HASH_BYTES])> {
    if key.first()? & 1 == 0 {
        return None;
    }
    let last = key.iter().take(VARINT_BYTES_MAX).position(|byte| *byte < 0x80)?;
    let hash = key[last + 1..].first_chunk()?;
    Some((last + 1 + HASH_BYTES, *hash))
}

/// The order of a store with key spaces: by space, within each by its own rule.
pub(super) struct SpacesOrder {
    /// Those that are not [`Comparator::Bytewise`], by the hashes of their names.
    rules: Vec<([u8; HASH_BYTES], Comparator)>,
    /// A key was met whose rule is not there.
    is_missing: AtomicBool,
}

impl SpacesOrder {
    pub(super) fn new(orders: &[Comparator]) -> Result<Self> {
        let mut rules: Vec<([u8; HASH_BYTES], Comparator)> = Vec::new();
        for order in orders {
            let name = order.name();
            let is_plain = matches!(order, Comparator::Bytewise);
            if is_plain {
                continue;
            }
            if name == Comparator::Bytewise.name() || name == SPACES_ORDER {
                return Err(Error::Usage(format!("an order of keys must not be named {name:?}")));
            }
            let hash = hash_of(name);
            if let Some((_, other)) = rules.iter().find(|(other, _)| *other == hash) {
                return Err(Error::Usage(format!(
                    "the orders {:?} and {name:?} cannot be told apart: rename one",
                    other.name()
                )));
            }
            rules.push((hash, order.clone()));
        }
        Ok(SpacesOrder { rules, is_missing: AtomicBool::new(false) })
    }

    /// The order of that name, if there is one.
    pub(super) fn named(&self, name: &str) -> Option<Comparator> {
        if name == Comparator::Bytewise.name() {
            return Some(Comparator::Bytewise);
        }
        let found = self.rules.iter().find(|(_, rule)| rule.name() == name);
        found.map(|(_, rule)| rule.clone())
    }

    /// Whether a key was met whose rule is not there.
    pub(super) fn is_missing(&self) -> bool {
        self.is_missing.load(AtomicOrdering::Relaxed)
    }

    fn within(&self, hash: [u8; HASH_BYTES], a: &[u8], b: &[u8]) -> Ordering {
        match self.rules.iter().find(|(known, _)| *known == hash) {
            Some((_, rule)) => rule.user(a, b),
            None => {
                self.is_missing.store(true, AtomicOrdering::Relaxed);
                a.cmp(b)
            }
        }
    }
}

impl Compare for SpacesOrder {
    fn name(&self) -> &str {
        SPACES_ORDER
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match custom_prefix(a) {
            Some((len, hash)) if b.get(..len) == Some(&a[..len]) => {
                self.within(hash, &a[len..], &b[len..])
            }
            _ => a.cmp(b),
        }
    }

    fn is_bytewise(&self) -> bool {
        self.rules.is_empty()
    }

    /// Behind the prefix of the space. Not in the catalog, and not where another order rules.
    fn prefix_begin(&self, key: &[u8]) -> Option<usize> {
        if key.first()? & 1 != 0 || key.starts_with(Prefix::CATALOG.bytes()) {
            return None;
        }
        let last = key.iter().take(VARINT_BYTES_MAX).position(|byte| *byte < 0x80)?;
        Some(last + 1)
    }

    fn is_incomplete(&self) -> bool {
        self.is_missing()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::tests::backwards;
    use keyrack_testkit::random::{Draw, seeds};
    use std::sync::Arc;

    #[test]
    fn prefixes_are_as_they_are_in_the_files() {
        let plain = Comparator::Bytewise.name();
        assert_eq!(Prefix::CATALOG, Prefix::new(0, plain));
        assert_eq!(Prefix::new(1, plain).bytes(), [2]);
        assert_eq!(Prefix::new(63, plain).bytes(), [126]);
        assert_eq!(Prefix::new(64, plain).bytes(), [0x80, 1]);
        assert_eq!(Prefix::new(IDS_MAX - 1, plain).bytes(), [0xfe, 0xff, 0xff, 0xff, 15]);
        let custom = Prefix::new(63, "test.backwards");
        assert_eq!(custom.bytes(), [0x7f, 0x1b, 0xf3, 0xe5, 0xc1]);
        assert_eq!((custom.low(), custom.high()), (&[0x7f][..], ([0x80, 0, 0, 0, 0], 1)));
    }

    /// Keys of spaces, bounds of spaces, and strings that are neither.
    fn random_key(draw: &mut Draw) -> Vec<u8> {
        let id = *draw.one_of(&[0, 1, 2, 63, 64, 8191, 8192, IDS_MAX - 1]);
        let order = *draw.one_of(&["keyrack.bytewise", "test.backwards"]);
        let prefix = Prefix::new(id, order);
        let tail: Vec<u8> =
            (0..draw.below(3)).map(|_| *draw.one_of(&[0, 1, 0x7f, 0x80, 0xff])).collect();
        match draw.below(8) {
            0 => prefix.low().to_vec(),
            1 => prefix.high().0[..prefix.high().1].to_vec(),
            2 => tail,
            3 => prefix.bytes()[..draw.below(prefix.bytes().len() + 1)].to_vec(),
            _ => [prefix.bytes(), &tail].concat(),
        }
    }

    #[test]
    fn all_byte_strings_are_in_one_order() {
        let order = SpacesOrder::new(&[backwards()]).unwrap();
        for seed in seeds() {
            let mut draw = Draw::new(seed);
            for _ in 0..100_000 {
                let [a, b, c] = std::array::from_fn(|_| random_key(&mut draw));
                let what = format!("SEED={seed}: {a:?} {b:?} {c:?}");
                assert_eq!(order.compare(&a, &b), order.compare(&b, &a).reverse(), "{what}");
                assert_eq!(order.compare(&a, &b) == Ordering::Equal, a == b, "{what}");
                if order.compare(&a, &b).is_le() && order.compare(&b, &c).is_le() {
                    assert!(order.compare(&a, &c).is_le(), "{what}");
                }
            }
        }
        assert!(!order.is_missing());
    }

    #[test]
    fn a_space_lies_between_its_bounds_and_by_its_rule() {
        let order = SpacesOrder::new(&[backwards()]).unwrap();
        for seed in seeds() {
            let mut draw = Draw::new(seed);
            for _ in 0..50_000 {
                let name = *draw.one_of(&["keyrack.bytewise", "test.backwards"]);
                let prefix = Prefix::new(*draw.one_of(&[0, 1, 63, 64, 8192]), name);
                let key = random_key(&mut draw);
                let (high, len) = prefix.high();
                let inside = order.compare(&key, prefix.low()).is_ge()
                    && order.compare(&key, &high[..len]).is_lt();
                if key.starts_with(prefix.bytes()) {
                    assert!(inside, "SEED={seed}: {key:?} {prefix:?}");
                }
                let other = random_key(&mut draw);
                let behind = |key: &[u8]| key.strip_prefix(prefix.bytes()).map(<[u8]>::to_vec);
                if let Some((a, b)) = behind(&key).zip(behind(&other)) {
                    let expected = if name == "test.backwards" { b.cmp(&a) } else { a.cmp(&b) };
                    assert_eq!(order.compare(&key, &other), expected, "SEED={seed}");
                }
            }
        }
    }

    #[test]
    fn orders_that_cannot_be_told_apart_are_refused() {
        struct Named(&'static str);
        impl Compare for Named {
            fn name(&self) -> &str {
                self.0
            }

            fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
                a.cmp(b)
            }
        }
        for name in ["keyrack.bytewise", "keyrack.spaces"] {
            let named = Comparator::Custom(Arc::new(Named(name)));
            assert!(matches!(SpacesOrder::new(&[named]), Err(Error::Usage(_))), "{name}");
        }
        assert!(SpacesOrder::new(&[backwards(), backwards()]).is_err());
        let order = SpacesOrder::new(&[Comparator::Bytewise, Comparator::Bytewise]).unwrap();
        assert!(order.is_bytewise() && order.named("keyrack.bytewise").is_some());
        assert!(order.named("test.backwards").is_none());
        let key = Prefix::new(7, "test.backwards");
        assert!(!order.is_missing());
        order.compare(key.bytes(), key.bytes());
        assert!(order.is_missing());
    }
}

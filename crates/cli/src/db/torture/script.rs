//! What version V of key K is: a removal, or a value that says so itself.
//!
//! ```text
//!   value = "key K version V " | bytes drawn from K and V
//! ```
//!
//! One version in eight is a removal, but for the first. Values are short; one in 16 has up to
//! 4 KiB, one in 256 up to 32 KiB.

use keyrack_testkit::random::Draw;

pub(super) const KEYS: u32 = 256;

pub(super) fn name(key: u32) -> String {
    format!("torture/{key:05}")
}

/// The key of a name; `None` if it is none of ours.
pub(super) fn key_of(bytes: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(bytes).ok()?;
    let key = text.strip_prefix("torture/")?.parse().ok()?;
    (key < KEYS && name(key) == text).then_some(key)
}

/// The value of a version from 1 on; `None` if it is a removal. Version 0 is a key that was never
/// written.
pub(super) fn value(key: u32, version: u64) -> Option<Vec<u8>> {
    let mut draw = Draw::new(u64::from(key) << 40 ^ version);
    let kind = draw.next();
    if version == 0 || (version > 1 && kind.is_multiple_of(8)) {
        return None;
    }
    let most: u64 = match kind >> 8 & 0xff {
        0 => 32 << 10,
        1..=16 => 4 << 10,
        _ => 200,
    };
    let length = draw.below(most);
    let mut value = format!("key {key} version {version} ").into_bytes();
    while (value.len() as u64) < length {
        value.extend_from_slice(&draw.next().to_le_bytes());
    }
    Some(value)
}

/// The version that a value of `key` says that it is, if all of its bytes agree.
pub(super) fn version_of(key: u32, bytes: &[u8]) -> Option<u64> {
    let rest = bytes.strip_prefix(format!("key {key} version ").as_bytes())?;
    let digits = rest.split(|byte| *byte == b' ').next()?;
    let version = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (value(key, version).as_deref() == Some(bytes)).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_say_what_they_are() {
        let mut removals = 0;
        for version in 1..200 {
            let Some(bytes) = value(7, version) else {
                removals += 1;
                continue;
            };
            assert_eq!(version_of(7, &bytes), Some(version));
            assert_eq!(version_of(8, &bytes), None);
            let mut other = bytes.clone();
            let last = other.len() - 1;
            other[last] ^= 1;
            assert_eq!(version_of(7, &other), None);
            other.pop();
            assert_eq!(version_of(7, &other), None);
        }
        assert!((10..60).contains(&removals), "{removals}");
        assert!((0..KEYS).all(|key| value(key, 1).is_some()));
    }

    #[test]
    fn names_come_back() {
        assert!((0..KEYS).all(|key| key_of(name(key).as_bytes()) == Some(key)));
        for bad in ["torture/1", "torture/99999", "torture/-0001", "other", "torture/000001"] {
            assert_eq!(key_of(bad.as_bytes()), None, "{bad}");
        }
    }
}

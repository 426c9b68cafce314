//! A request that is encoded once: of every further one only what differs is written.
//!
//! ```text
//!   lookup    | *2 $3 GET $30 | key | CRLF |                       all of it is `head`
//!   store     | *3 $3 SET $30 | key | CRLF $200 CRLF | value | CRLF |
//!             |<------------- head ----------------->|       |tail|
//! ```
//!
//! The places are found by encoding bytes that stand nowhere else, so what a request looks like is
//! known to one module alone.

use std::ops::Range;

use keyrack_wire::outcome::Kind;
use memchr::memmem;

use super::Protocol;
use super::encode::encode;
use super::request::Request;

/// Bytes that no head has: for the place of the key, and of the value.
const KEY_MARK: u8 = 0xFF;
const VALUE_MARK: u8 = 0xFE;
/// Where the opaque of a binary request stands.
const OPAQUE: Range<usize> = 12..16;

/// A request with a key of one length, and with a value of one length where there is one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    head: Vec<u8>,
    tail: Vec<u8>,
    key: Range<usize>,
    has_opaque: bool,
    value_bytes: usize,
    ttl_s: u32,
}

impl Template {
    /// A lookup or a store of keys of `key_bytes`, filled with `key` until it is patched. `None`
    /// where there is nothing to be known before: an empty value, which has no place.
    #[must_use]
    pub fn new(
        protocol: Protocol,
        kind: Kind,
        key: &[u8],
        value_bytes: usize,
        ttl_s: u32,
    ) -> Option<Template> {
        let (key_marks, value_marks) = (vec![KEY_MARK; key.len()], vec![VALUE_MARK; value_bytes]);
        let mut head = Vec::new();
        let request = Request { ttl_s, ..Request::new(kind, &key_marks, &value_marks) };
        encode(protocol, &mut head, &request);
        let mut tail = Vec::new();
        if kind.has_value() {
            let value_at = memmem::find(&head, &value_marks).filter(|_| value_bytes > 0)?;
            tail.extend_from_slice(&head[value_at + value_bytes..]);
            head.truncate(value_at);
        }
        let key_at = memmem::find(&head, &key_marks).filter(|_| !key.is_empty())?;
        let range = key_at..key_at + key.len();
        head[range.clone()].copy_from_slice(key);
        let has_opaque = protocol == Protocol::Binary;
        Some(Template { head, tail, key: range, has_opaque, value_bytes, ttl_s })
    }

    /// What stands in front of a value; of a lookup, everything.
    #[inline]
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// What stands behind a value.
    #[inline]
    #[must_use]
    pub fn tail(&self) -> &[u8] {
        &self.tail
    }

    /// Is it one with such a value, for so long?
    #[inline]
    #[must_use]
    pub fn fits(&self, value_bytes: usize, ttl_s: u32) -> bool {
        (self.value_bytes, self.ttl_s) == (value_bytes, ttl_s)
    }

    /// The key in a copy of the head, which gets its opaque where it has one.
    ///
    /// # Panics
    /// When `copy` is shorter than the head.
    #[inline]
    pub fn patch<'a>(&self, copy: &'a mut [u8], opaque: u32) -> &'a mut [u8] {
        if self.has_opaque {
            copy[OPAQUE].copy_from_slice(&opaque.to_be_bytes());
        }
        &mut copy[self.key.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROTOCOLS: [Protocol; 5] =
        [Protocol::Text, Protocol::Binary, Protocol::Meta, Protocol::Resp2, Protocol::Resp3];

    #[test]
    fn a_patched_copy_is_what_encoding_makes() {
        for protocol in PROTOCOLS {
            for (kind, value, ttl_s) in
                [(Kind::Get, &b""[..], 0), (Kind::Set, b"v", 0), (Kind::Set, &[b'0'; 300], 77)]
            {
                let template = Template::new(protocol, kind, b"0000", value.len(), ttl_s).unwrap();
                for (key, opaque) in [(b"0000", 0), (b"1234", 7), (b"0042", u32::MAX)] {
                    let mut copy = template.head().to_vec();
                    template.patch(&mut copy, opaque).copy_from_slice(key);
                    copy.extend_from_slice(value);
                    copy.extend_from_slice(template.tail());
                    let mut encoded = Vec::new();
                    let request = Request { ttl_s, opaque, ..Request::new(kind, key, value) };
                    encode(protocol, &mut encoded, &request);
                    assert_eq!(copy, encoded, "{protocol:?} {kind:?} {ttl_s}");
                }
            }
        }
        assert!(Template::new(Protocol::Text, Kind::Set, b"k", 0, 0).is_none());
    }
}

//! `arctic`: the lock-free adaptive radix tree of the crate arctic-map.
//!
//! The tree has keys without NULs: each ends in a NUL of its own, so that none is the beginning of
//! another. So keys are written with two bytes for each of the bytes 0 and 1, in the same order;
//! all others stay as they are:
//!
//! ```text
//! key        ""   "\0"      "\0\0"            "\1"      "\2"    "abc"
//! written    ""   "\1\1"    "\1\1\1\1"        "\1\2"    "\2"    "abc"
//! ```
//!
//! Ordinary text costs one pass over the key. Keys are kept in the edges of the tree, not beside
//! the values, and a scan puts them together again. A value is a pointer to a [`Value`], so each
//! put allocates.
//!
//! Ranges of the tree include their end, which a scan leaves out.

use super::{Bounds, ConcurrentMap, Value, open};
use crate::contract::RowVisitor;
use arctic::concurrent::smr;
use arctic::key::{BoxedSlice, NonNull, Slice};
use arctic::{ConcurrentMap as Tree, Order};
use keyrack_store::{Engine, OpenOptions, Result, Store};
use std::borrow::Cow;
use std::ops::ControlFlow;

pub(crate) const ENGINE: Engine = Engine {
    name: "arctic",
    about: "arctic-map's lock-free adaptive radix tree, in memory",
    persistent: false,
    stores: true,
    options: &[],
    open: |options: &OpenOptions| -> Result<Box<dyn Store>> {
        open(ENGINE.name, options, ArcticMap::default())
    },
};

#[derive(Default)]
struct ArcticMap {
    tree: Tree<BoxedSlice<NonNull>, Box<Value>, smr::Default>,
}

/// The written form of `key`.
fn escape(key: &[u8]) -> Cow<'_, [u8]> {
    if key.iter().all(|byte| *byte > 1) {
        return Cow::Borrowed(key);
    }
    let mut written = Vec::with_capacity(key.len() + 8);
    for byte in key {
        match byte {
            0 | 1 => written.extend_from_slice(&[1, byte + 1]),
            _ => written.push(*byte),
        }
    }
    Cow::Owned(written)
}

/// The key of the written form; `buffer` is for one that differs.
fn unescape<'k>(written: &'k [u8], buffer: &'k mut Vec<u8>) -> &'k [u8] {
    if written.iter().all(|byte| *byte != 1) {
        return written;
    }
    buffer.clear();
    let mut bytes = written.iter();
    while let Some(byte) = bytes.next() {
        buffer.push(match byte {
            1 => bytes.next().expect("a 1 is the first of two bytes") - 1,
            byte => *byte,
        });
    }
    buffer
}

fn slice(written: &[u8]) -> &Slice<NonNull> {
    Slice::new(written).expect("a written key has no NUL")
}

impl ConcurrentMap for ArcticMap {
    const VERSION: &'static str = "arctic 0.1.4";

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> bool {
        match self.tree.get(slice(&escape(key))) {
            Some(value) => {
                visit(value.bytes());
                true
            }
            None => false,
        }
    }

    fn put(&self, key: &[u8], value: &[u8]) {
        self.tree.upsert(slice(&escape(key)), Box::new(Value::new(value)));
    }

    fn remove(&self, key: &[u8]) -> bool {
        self.tree.remove(slice(&escape(key))).is_some()
    }

    fn scan(&self, range: Bounds<'_>, visit: &mut RowVisitor<'_>) -> u64 {
        let order = if range.reverse { Order::Descend } else { Order::Ascend };
        let (mut visited, mut buffer) = (0, Vec::new());
        let low = escape(range.low);
        let high = range.high.map(escape);
        let mut row = |(): (), (key, value): (&Slice<NonNull>, &Value)| {
            let written = key.as_bytes();
            if high.as_deref() == Some(written) {
                return ControlFlow::Continue(());
            }
            visited += 1;
            visit(unescape(written, &mut buffer), value.bytes())
        };
        let low = slice(&low);
        let _ended = match &high {
            Some(high) => self.tree.range(low..=slice(high)).entries(order).try_fold((), &mut row),
            None => self.tree.range(low..).entries(order).try_fold((), &mut row),
        };
        visited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_keys_come_back_and_keep_their_order() {
        let bytes = [0, 1, 2, b'a', 0xff];
        let mut keys: Vec<Vec<u8>> = vec![Vec::new()];
        for length in 0..3 {
            let shorter: Vec<_> = keys.iter().filter(|key| key.len() == length).cloned().collect();
            keys.extend(
                shorter.iter().flat_map(|key| bytes.map(|byte| [&key[..], &[byte]].concat())),
            );
        }
        keys.sort();
        let written: Vec<_> = keys.iter().map(|key| escape(key)).collect();
        assert!(written.windows(2).all(|pair| pair[0] < pair[1]));
        for (key, written) in keys.iter().zip(&written) {
            assert!(!written.contains(&0), "{written:?}");
            assert_eq!(unescape(written, &mut Vec::new()), key);
        }
        assert!(matches!(escape(b"\x02\xff"), Cow::Borrowed(_)));
    }

    #[test]
    fn the_version_is_the_one_that_is_linked() {
        let lock = include_str!("../../../../Cargo.lock");
        let version = ArcticMap::VERSION.strip_prefix("arctic ").unwrap();
        let linked = format!("name = \"arctic-map\"\nversion = \"{version}\"\n");
        assert!(lock.contains(&linked), "{version}");
    }
}

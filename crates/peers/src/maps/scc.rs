//! `scc`: the B+-tree `TreeIndex` of the crate scc, whose readers take no lock.
//!
//! Keys are boxed slices, which leaves hold beside the values. A put allocates its key, also where
//! the key is there already, because the tree takes an owned one. A split copies the entries of a
//! leaf, keys and long values included, since readers may still be in the old one.
//!
//! `scan_rev` collects the range in ascending order before it visits the last row. The descending
//! range of scc 3.8.8 cannot be used: it finds nothing at all if the last leaf has become empty by
//! removals, for example after the keys 15 to 19 of 0 to 19 were removed.

use super::{Bounds, ConcurrentMap, Value, open};
use crate::contract::RowVisitor;
use keyrack_store::{Engine, OpenOptions, Result, Store};
use scc::{Guard, TreeIndex};
use std::ops::Bound;

pub(crate) const ENGINE: Engine = Engine {
    name: "scc",
    about: "scc's TreeIndex, a B+-tree with lock-free reads, in memory",
    persistent: false,
    stores: true,
    options: &[],
    open: |options: &OpenOptions| -> Result<Box<dyn Store>> {
        open(ENGINE.name, options, SccMap::default())
    },
};

#[derive(Default)]
struct SccMap {
    tree: TreeIndex<Box<[u8]>, Value>,
}

impl ConcurrentMap for SccMap {
    const VERSION: &'static str = "scc 3.8.8";

    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> bool {
        self.tree.peek_with(key, |_, value| visit(value.bytes())).is_some()
    }

    fn put(&self, key: &[u8], value: &[u8]) {
        self.tree.upsert_sync(key.into(), Value::new(value));
    }

    fn remove(&self, key: &[u8]) -> bool {
        self.tree.remove_sync(key)
    }

    fn scan(&self, range: Bounds<'_>, visit: &mut RowVisitor<'_>) -> u64 {
        let guard = Guard::new();
        let high = range.high.map_or(Bound::Unbounded, Bound::Excluded);
        let mut rows = self.tree.range::<[u8], _>((Bound::Included(range.low), high), &guard);
        let mut visited = 0;
        let mut row = |key: &[u8], value: &Value| {
            visited += 1;
            visit(key, value.bytes())
        };
        let _ended = if range.reverse {
            let all: Vec<_> = rows.collect();
            all.into_iter().rev().try_for_each(|(key, value)| row(key, value))
        } else {
            rows.try_for_each(|(key, value)| row(key, value))
        };
        visited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_one_that_is_linked() {
        let lock = include_str!("../../../../Cargo.lock");
        let version = SccMap::VERSION.strip_prefix("scc ").unwrap();
        assert!(lock.contains(&format!("name = \"scc\"\nversion = \"{version}\"\n")), "{version}");
    }
}

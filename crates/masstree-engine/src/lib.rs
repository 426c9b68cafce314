//! # keyrack-masstree-engine: the index in memory behind the contract
//!
//! The engine `masstree` is a [`Tree`] of byte strings as a [`Store`]:
//!
//! - `get`, `put`, `remove`, `update` are linearizable. The closure of an update runs once, under
//!   the lock of one node; it must not use the store.
//! - **Scans** are weakly consistent: ordered, each key at most once, every key that was there all
//!   along. Visitors hold no lock.
//! - **Batches** with a key in common exclude each other, so two never mix. To readers, and to
//!   single writes that come meanwhile, a batch is not one moment: its keys change one after the
//!   other, in its order.
//! - Keys and values have no limit but memory. A value of 7 bytes or less needs none of its own.
//!
//! Each operation pins for itself, so an idle session holds nothing back.
//!
//! It is a crate of its own, so that the index alone needs nothing of the contract.
//!
//! ```
//! use keyrack_store::OpenOptions;
//! use keyrack_vfs::RealFs;
//! use std::sync::Arc;
//!
//! let engine = keyrack_masstree_engine::engine();
//! let store = (engine.open)(&OpenOptions::in_memory(Arc::new(RealFs))).unwrap();
//! store.session().unwrap().put(b"key", b"value").unwrap();
//! ```
#![forbid(unsafe_code)]

use keyrack_concurrent::{Change, KeyLocks, pin};
use keyrack_masstree::{Bytes, Hint, Tree};
use keyrack_store::{
    Batch, BatchOp, Durability, Engine, Error, OpenOptions, Removed, Result, Session, Store,
    StoreInfo, Update,
};
use std::ops::ControlFlow;
use xxhash_rust::xxh3::xxh3_64;

/// Locks that batches take for their keys: 512 KiB. Sixteen threads with batches of 32 keys meet in
/// a quarter of their batches.
const BATCH_LOCKS: usize = 1 << 16;

/// The engine's descriptor.
#[must_use]
pub fn engine() -> Engine {
    Engine {
        name: "masstree",
        about: "trie of B+-trees whose readers take no lock, in memory",
        persistent: false,
        stores: true,
        options: &[],
        open,
    }
}

fn open(options: &OpenOptions) -> Result<Box<dyn Store>> {
    match options.durability {
        None | Some(Durability::None) => {
            Ok(Box::new(TreeStore { tree: Tree::default(), batches: KeyLocks::new(BATCH_LOCKS) }))
        }
        Some(other) => Err(Error::usage(format!(
            "masstree stores nothing on disk: its durability is none, not '{other}'"
        ))),
    }
}

struct TreeStore {
    tree: Tree<Bytes>,
    /// The keys of the batches that are being applied.
    batches: KeyLocks,
}

impl Store for TreeStore {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(TreeSession { store: self, hint: Hint::new(), buffer: Vec::new() }))
    }

    fn info(&self) -> StoreInfo {
        StoreInfo::new(concat!("masstree ", env!("CARGO_PKG_VERSION")), Durability::None)
    }

    fn stats(&self, visit: &mut dyn FnMut(&str, f64)) {
        let stats = self.tree.stats();
        visit("keys", stats.keys as f64);
        visit("border_nodes", stats.borders as f64);
        visit("interior_nodes", stats.interiors as f64);
        visit("layers", stats.layers as f64);
        visit("node_bytes", stats.node_bytes as f64);
        let pressure = keyrack_concurrent::pressure();
        visit("retired", pressure.objects as f64);
        visit("retired_bytes", pressure.bytes as f64);
    }
}

struct TreeSession<'a> {
    store: &'a TreeStore,
    hint: Hint<'a>,
    /// For [`Session::update`].
    buffer: Vec<u8>,
}

impl Session for TreeSession<'_> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let guard = pin();
        let value = self.store.tree.get_hinted(key, &guard, &mut self.hint);
        Ok(value.map(|value| visit(&value)).is_some())
    }

    fn multi_get(
        &mut self,
        keys: &[&[u8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let guard = pin();
        self.store.tree.multi_get(keys, &guard, |index, value| visit(index, value.as_deref()));
        Ok(())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.store.tree.insert_hinted(key, value, &pin(), &mut self.hint);
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<Removed> {
        Ok(match self.store.tree.remove_hinted(key, &pin(), &mut self.hint) {
            Some(_) => Removed::Existed,
            None => Removed::Absent,
        })
    }

    fn update(
        &mut self,
        key: &[u8],
        decide: &mut dyn FnMut(Option<&[u8]>, &mut Vec<u8>) -> Update,
    ) -> Result<()> {
        let buffer = &mut self.buffer;
        buffer.clear();
        self.store.tree.update_hinted(key, &pin(), &mut self.hint, |current| {
            match decide(current.as_deref(), buffer) {
                Update::Keep => Change::Keep,
                Update::Put => Change::Put(buffer.as_slice()),
                Update::Remove => Change::Remove,
            }
        });
        Ok(())
    }

    fn scan(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<u64> {
        Ok(self.store.tree.scan(low, high, |key, value| visit(key, &value)))
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<u64> {
        Ok(self.store.tree.scan_rev(low, high, |key, value| visit(key, &value)))
    }

    fn apply(&mut self, batch: &Batch) -> Result<()> {
        let hashes = batch.iter().map(|write| xxh3_64(write.key()));
        let _alone = self.store.batches.lock_all(hashes);
        let guard = pin();
        let mut writes = batch.iter().peekable();
        while let Some(&write) = writes.peek() {
            if let BatchOp::Remove(key) = write {
                self.store.tree.remove(key, &guard);
                writes.next();
                continue;
            }
            // Puts in a row are searched side by side.
            let puts = std::iter::from_fn(|| match writes.peek() {
                Some(&BatchOp::Put(key, value)) => {
                    writes.next();
                    Some((key, value))
                }
                _ => None,
            });
            self.store.tree.multi_put(puts, &guard);
        }
        Ok(())
    }
}

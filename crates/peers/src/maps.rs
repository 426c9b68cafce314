//! Ordered maps of other projects in memory, made to keep the contract.
//!
//! ```text
//!   session --> stripes (shared by puts and removals, owned by updates and batches)
//!           --> a ConcurrentMap: arctic, scc or congee
//! ```
//!
//! The maps have point operations and scans for many threads, but no read-modify-write that may
//! remove, and no batches. [`MapStore`] adds both:
//!
//! - **Updates and batches** own the [stripes](Stripes) of their keys, puts and removals share
//!   them. So an update is one step, and batches do not mix with each other or with writes of their
//!   keys. Readers take no lock: to `get` and to scans a batch arrives key by key.
//! - **Scans** are weakly consistent: ordered, each key at most once, every key that was there all
//!   along. Rows are lent from the map under its guard against reclamation, which nobody waits for.
//!
//! Cost beside the bare map: a stripe is an uncontended lock and unlock for each put, about ten
//! nanoseconds. Values are byte strings, which none of the maps holds as such: see [`Value`].

pub(crate) mod arctic;
pub(crate) mod congee;
pub(crate) mod scc;
mod value;

use crate::check_in_memory;
use crate::contract::{Decide, RowVisitor};
use crate::stripes::Stripes;
use keyrack_store::{
    Batch, BatchOp, Durability, OpenOptions, Removed, Result, Session, Store, StoreInfo, Update,
};
use value::Value;

/// A map that many threads use at once, from byte strings to byte strings.
trait ConcurrentMap: Send + Sync {
    /// The engine and the version of the crate.
    const VERSION: &'static str;

    /// Whether the map can hold `key`.
    ///
    /// # Errors
    /// [`keyrack_store::Error::Usage`] with the keys that it can hold.
    fn check(key: &[u8]) -> Result<()> {
        let _ = key;
        Ok(())
    }

    /// As [`Session::get`].
    fn get(&self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> bool;

    /// As [`Session::put`].
    fn put(&self, key: &[u8], value: &[u8]);

    /// Removes `key`; returns whether it was there.
    fn remove(&self, key: &[u8]) -> bool;

    /// As [`Session::scan`] and [`Session::scan_rev`], for a range that is not empty. Bounds may be
    /// keys that the map cannot hold.
    fn scan(&self, range: Bounds<'_>, visit: &mut RowVisitor<'_>) -> u64;
}

/// The rows of a scan.
#[derive(Clone, Copy)]
struct Bounds<'r> {
    low: &'r [u8],
    /// Excluded, and above `low`.
    high: Option<&'r [u8]>,
    reverse: bool,
}

/// Opens a store over the empty `map`.
fn open<M: ConcurrentMap + 'static>(
    engine: &str,
    options: &OpenOptions,
    map: M,
) -> Result<Box<dyn Store>> {
    check_in_memory(engine, options)?;
    Ok(Box::new(MapStore { map, stripes: Stripes::new() }))
}

struct MapStore<M> {
    map: M,
    stripes: Stripes,
}

impl<M: ConcurrentMap> Store for MapStore<M> {
    fn session(&self) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(MapSession { store: self, old: Vec::new(), new: Vec::new() }))
    }

    fn info(&self) -> StoreInfo {
        StoreInfo::new(M::VERSION, Durability::None)
    }
}

struct MapSession<'a, M> {
    store: &'a MapStore<M>,
    /// For [`Session::update`].
    old: Vec<u8>,
    new: Vec<u8>,
}

impl<M: ConcurrentMap> MapSession<'_, M> {
    fn visit(
        &self,
        low: &[u8],
        high: Option<&[u8]>,
        reverse: bool,
        visit: &mut RowVisitor<'_>,
    ) -> u64 {
        if high.is_some_and(|high| high <= low) {
            return 0;
        }
        self.store.map.scan(Bounds { low, high, reverse }, visit)
    }
}

fn removed(existed: bool) -> Removed {
    if existed { Removed::Existed } else { Removed::Absent }
}

impl<M: ConcurrentMap> Session for MapSession<'_, M> {
    fn get(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        M::check(key)?;
        Ok(self.store.map.get(key, visit))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        M::check(key)?;
        let _shared = self.store.stripes.share(key);
        self.store.map.put(key, value);
        Ok(())
    }

    fn remove(&mut self, key: &[u8]) -> Result<Removed> {
        M::check(key)?;
        let _shared = self.store.stripes.share(key);
        Ok(removed(self.store.map.remove(key)))
    }

    fn update(&mut self, key: &[u8], decide: &mut Decide<'_>) -> Result<()> {
        M::check(key)?;
        let MapStore { map, stripes } = self.store;
        let _owned = stripes.own(key);
        self.old.clear();
        self.new.clear();
        let old = &mut self.old;
        // The value is copied, so that a closure which takes long keeps no memory from being freed.
        let found = map.get(key, &mut |value| old.extend_from_slice(value));
        match decide(found.then_some(self.old.as_slice()), &mut self.new) {
            Update::Keep => {}
            Update::Put => map.put(key, &self.new),
            Update::Remove => {
                map.remove(key);
            }
        }
        Ok(())
    }

    fn scan(&mut self, low: &[u8], high: Option<&[u8]>, visit: &mut RowVisitor<'_>) -> Result<u64> {
        Ok(self.visit(low, high, false, visit))
    }

    fn scan_rev(
        &mut self,
        low: &[u8],
        high: Option<&[u8]>,
        visit: &mut RowVisitor<'_>,
    ) -> Result<u64> {
        Ok(self.visit(low, high, true, visit))
    }

    fn apply(&mut self, batch: &Batch) -> Result<()> {
        batch.iter().try_for_each(|operation| M::check(operation.key()))?;
        let MapStore { map, stripes } = self.store;
        let _owned = stripes.own_all(batch.iter().map(BatchOp::key));
        for operation in batch.iter() {
            match operation {
                BatchOp::Put(key, value) => map.put(key, value),
                BatchOp::Remove(key) => {
                    map.remove(key);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

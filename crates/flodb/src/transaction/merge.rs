//! Operands in a transaction: written blindly, and put together with what the transaction sees.

use super::Transaction;
use crate::batch::Write;
use crate::checksum::hash;
use crate::error::Result;
use crate::iterator::Bounds;
use crate::key::Kind;
use crate::table::ReadOptions;

impl Transaction {
    /// Adds an operand to what `key` has, at the commit: see [`Db::merge`](crate::Db::merge). That
    /// reads nothing, so transactions that merge into the same key do not conflict, unless they
    /// read it, or have snapshot isolation.
    ///
    /// ```
    /// # use keyrack_flodb::{Append, Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let options = Options::new().merge_operator(Append::new(b","));
    /// # let db = Db::open_in(fs, "/store".as_ref(), options)?;
    /// db.put(b"names", b"ada")?;
    /// let transaction = db.transaction();
    /// transaction.merge(b"names", b"bob")?;
    /// assert_eq!(transaction.get(b"names")?.as_deref(), Some(&b"ada,bob"[..]));
    /// transaction.commit()?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Transaction::put`], and if the store has no merge operator.
    pub fn merge(&self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.db.inner().merges().name_to_store()?;
        self.write(Write { kind: Kind::Merge, key, value: operand })
    }

    /// The value of a key whose last own write is an operand. What is below its operands in the
    /// store counts as read.
    pub(super) fn merged(&self, key: &[u8], hash: u64, options: ReadOptions) -> Result<Vec<u8>> {
        let inner = self.db.inner();
        let (below, operands, moment) = {
            let mut state = self.state.borrow_mut();
            let moment = (state.snapshot.pinned.sequence(), state.snapshot.pinned.time_ms());
            let order = &inner.options.comparator;
            let (below, operands) = state.sets.writes.operands(key, order, moment.1);
            if below.is_none() {
                state.keep_read(self.options.isolation, key, hash);
            }
            (below, operands, moment)
        };
        let below = match below {
            Some(below) => below,
            None => inner.get_pinned(key, hash, moment, options, <[u8]>::to_vec)?,
        };
        let operands: Vec<&[u8]> = operands.iter().map(Vec::as_slice).collect();
        inner.merges().merge(key, below.as_deref(), &operands)
    }

    /// The keys within `bounds` whose last own write is an operand, with their values.
    pub(super) fn merged_writes(
        &self,
        bounds: &Bounds,
        options: ReadOptions,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let order = &self.db.inner().options.comparator;
        let keys = self.state.borrow().sets.writes.keys_with_operands(order);
        let is_within =
            |key: &Vec<u8>| !bounds.begin_behind(key, order) && !bounds.end_before(key, order);
        let merged = keys.into_iter().filter(is_within).map(|key| {
            let value = self.merged(&key, hash(&key), options)?;
            Ok((key, value))
        });
        merged.collect()
    }
}

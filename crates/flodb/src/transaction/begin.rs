//! How transactions begin, and begin again after a conflict.

use super::Transaction;
use crate::db::Db;
use crate::error::{Error, Result};
use keyrack_store::WriteOptions;

/// What transactions that run at the same time may see of each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// As if they had run one after the other, in the order of their commits.
    #[default]
    Serializable,
    /// Each reads one moment, and of two that write the same key one conflicts. Cheaper: what is
    /// only read is not checked. Write skew is possible.
    Snapshot,
}

/// How a transaction runs.
///
/// ```
/// use keyrack_flodb::{Isolation, TransactionOptions, WriteOptions};
/// let options = TransactionOptions {
///     isolation: Isolation::Snapshot,
///     write: WriteOptions { sync: true },
/// };
/// assert_eq!(TransactionOptions::default().isolation, Isolation::Serializable);
/// # let _ = options;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct TransactionOptions {
    /// What it may see of others; serializable by default.
    pub isolation: Isolation,
    /// How the commit writes; as `Db::put` by default.
    pub write: WriteOptions,
}

impl Db {
    /// Begins a serializable transaction at this moment.
    ///
    /// ```
    /// use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// let transaction = db.transaction();
    /// transaction.put(b"key", b"value")?;
    /// transaction.commit()?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn transaction(&self) -> Transaction {
        self.transaction_with(TransactionOptions::default())
    }

    /// Begins a transaction at this moment.
    ///
    /// ```
    /// use keyrack_flodb::{Db, Isolation, Options, TransactionOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// let isolation = Isolation::Snapshot;
    /// let cheap = db.transaction_with(TransactionOptions { isolation, ..Default::default() });
    /// cheap.put(b"key", b"value")?;
    /// cheap.commit()?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    #[must_use]
    pub fn transaction_with(&self, options: TransactionOptions) -> Transaction {
        Transaction::begin(self, options)
    }

    /// Runs `act` in a serializable transaction and commits it. After a conflict or a deadlock it
    /// begins again, with a new transaction; it runs `act` up to `attempts` times, and at least
    /// once. If `act` fails, nothing is written.
    ///
    /// Whenever one transaction conflicts, a write has happened: the commit of another transaction,
    /// or a plain write. So threads that write through transactions alone make progress as a whole,
    /// however many retry. A single one may fail each time, and so may all of them while plain
    /// writes keep changing what they read.
    ///
    /// ```
    /// use keyrack_flodb::{Db, Options};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// let count = db.retry(10, |transaction| {
    ///     let count = transaction.get(b"count")?.map_or(0, |value| value[0]) + 1;
    ///     transaction.put(b"count", &[count])?;
    ///     Ok(count)
    /// })?;
    /// assert_eq!(count, 1);
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// The conflict or deadlock of the last attempt; any other failure of `act` or of the commit,
    /// at once.
    pub fn retry<T>(
        &self,
        attempts: usize,
        act: impl FnMut(&Transaction) -> Result<T>,
    ) -> Result<T> {
        self.retry_with(TransactionOptions::default(), attempts, act)
    }

    /// As [`Db::retry`], with options.
    ///
    /// ```
    /// use keyrack_flodb::{Db, Options, TransactionOptions, WriteOptions};
    /// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
    /// # let db = Db::open_in(fs, "/store".as_ref(), Options::default())?;
    /// let synced = WriteOptions { sync: true };
    /// let options = TransactionOptions { write: synced, ..Default::default() };
    /// db.retry_with(options, 10, |transaction| transaction.put(b"key", b"value"))?;
    /// # Ok::<(), keyrack_flodb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`Db::retry`].
    pub fn retry_with<T>(
        &self,
        options: TransactionOptions,
        attempts: usize,
        mut act: impl FnMut(&Transaction) -> Result<T>,
    ) -> Result<T> {
        retried(attempts, || {
            let transaction = self.transaction_with(options);
            let answer = act(&transaction)?;
            transaction.commit()?;
            Ok(answer)
        })
    }
}

/// Runs `attempt` until it fails with no conflict, so many times at most.
pub(crate) fn retried<T>(attempts: usize, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    for _ in 1..attempts {
        match attempt() {
            Err(Error::Conflict { .. } | Error::Deadlock { .. }) => {}
            other => return other,
        }
    }
    attempt()
}

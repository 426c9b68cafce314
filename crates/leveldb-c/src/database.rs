//! A database that is open, and its moments.

use crate::comparator::Order;
use crate::lifetime::Use;
use crate::status::Failure;
use keyrack_flodb::{Db, Snapshot as Moment};
use std::sync::Arc;

/// An open database. Any number of threads use it at once.
#[derive(Debug)]
pub struct Database {
    pub(crate) store: Db,
    pub(crate) order: Option<Arc<Order>>,
    /// Differs from that of every other database of this process, also of those that are closed.
    pub(crate) number: u64,
    /// Dropped when the store is closed: destructors of the caller's run then.
    pub(crate) uses: Vec<Use>,
}

impl Database {
    /// # Errors
    /// The order of the keys has failed: see `comparator`.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.order.as_deref().map_or(Ok(()), Order::check)
    }

    /// This moment.
    pub(crate) fn hold(&self) -> Held {
        Held { moment: self.store.snapshot(), database: self.number }
    }
}

/// A moment of a database, and of which.
#[derive(Debug)]
pub(crate) struct Held {
    moment: Moment,
    database: u64,
}

impl Held {
    /// The moment, for the database with this number.
    ///
    /// # Errors
    /// It is one of another database.
    pub(crate) fn moment(&self, database: u64) -> Result<&Moment, Failure> {
        if self.database != database {
            return Err(Failure::invalid("the snapshot is one of another database"));
        }
        Ok(&self.moment)
    }
}

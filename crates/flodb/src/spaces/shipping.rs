//! The log of a store with key spaces for those who ship it, and batches of it for a store that is
//! restored. They are those of any store (`crate::shipping`): the catalog changes by writes, so a
//! space is made and dropped where the log says so.
//!
//! The opening of a restored store finishes the drops that its backup has begun. A thread that was
//! late may have written to such a space after the backup, so its keys are removed once more at the
//! end.

use super::order::Prefix;
use super::{Spaces, catalog, remove_keys};
use crate::batch::{Batch, BatchWrite};
use crate::error::{Error, Result};
use crate::shipping::shipped_batch;
use keyrack_store::{FeedError, LogFeed, LogReplay, LogSource, WriteOptions};

impl LogSource for Spaces {
    fn log_id(&self) -> u64 {
        self.db.log_id()
    }

    fn feed(&self, from: u64) -> std::result::Result<Box<dyn LogFeed>, FeedError> {
        self.db.feed(from)
    }
}

/// The spaces that the handle knows stay those of the opening: it is to be closed by
/// [`LogReplay::end`].
impl LogReplay for Spaces {
    fn apply(&mut self, payload: &[u8]) -> keyrack_store::Result<()> {
        let batch = shipped_batch(&self.db, payload)?;
        self.check_orders(&batch)?;
        Ok(self.db.write(&batch, WriteOptions::default())?)
    }

    fn end(self: Box<Self>) -> keyrack_store::Result<()> {
        for dropped in &self.shared.dropped {
            remove_keys(&self.db, &Prefix::new(dropped.id, &dropped.order))?;
        }
        Box::new(self.db).end()
    }
}

impl Spaces {
    /// Refuses a batch that makes a space in an order that is not there, before anything is sorted
    /// by a wrong rule.
    fn check_orders(&self, batch: &Batch) -> Result<()> {
        for write in batch.iter() {
            if let BatchWrite::Put { key, value } = write
                && let Some((name, entry)) = catalog::created(key, value)
                && self.shared.order.named(&entry.order).is_none()
            {
                return Err(Error::Usage(format!(
                    "{}: the log makes the key space {name:?} in the order {:?}, which was not \
                     given",
                    self.dir().display(),
                    entry.order
                )));
            }
        }
        Ok(())
    }
}

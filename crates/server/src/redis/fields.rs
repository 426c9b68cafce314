//! All fields of a large hash as a reply that is sent while it is made: HGETALL, HKEYS, HVALS.
//!
//! ```text
//!   lock: snapshot, count          header of the reply: the count
//!   iteration 1   4096 fields or 256 KiB            sent
//!   iteration 2   the next                          sent, others write meanwhile
//! ```
//!
//! The reply begins with its length, so it has to be of one moment: a snapshot keeps what others
//! change (see `keyrack_rowstore::Snapshot`). If fields may expire, a first pass counts those that
//! have not. The server holds what one iteration may write, and the old values of changed fields.
//! If these come to more than 16 MiB, or everything is removed, the reply cannot be completed: the
//! connection is closed.

use std::ops::ControlFlow;
use std::sync::Arc;

use keyrack_rowstore::{Collection, Snapshot};
use keyrack_store::Error;
use keyrack_wire::resp::Writer;

use crate::redis::context::CommandContext;
use crate::redis::fault::Fault;
use crate::redis::key_range::successor;

/// Which parts of the fields the reply has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parts {
    Names,
    Values,
    Both,
}

impl Parts {
    pub(crate) fn begin(self, count: usize, reply: &mut Writer<'_>) {
        if self == Parts::Both { reply.map(count) } else { reply.array(count) }
    }

    pub(crate) fn put(self, name: &[u8], value: &[u8], reply: &mut Writer<'_>) {
        if self != Parts::Values {
            reply.bulk(name);
        }
        if self != Parts::Names {
            reply.bulk(value);
        }
    }
}

/// A reply under way.
#[derive(Debug)]
pub(crate) struct Fields {
    snapshot: Arc<Snapshot>,
    parts: Parts,
    /// The first name of the next slice.
    from: Vec<u8>,
    /// Fields that are not written yet; counted first if some may have expired.
    left: u64,
    is_counted: bool,
    has_begun: bool,
}

impl Fields {
    /// Under the lock of the hash. `is_whole` is whether it runs in a transaction.
    pub(crate) fn new(
        ctx: &CommandContext<'_>,
        collection: &Collection,
        parts: Parts,
        is_whole: bool,
        guard: &keyrack_rowstore::CollectionGuard<'_>,
    ) -> Self {
        // The writes of a transaction are not applied, so its count has to be made.
        let is_counted = !is_whole && !collection.is_volatile();
        let left = if is_counted { ctx.rows.element_count(collection) } else { 0 };
        let snapshot = guard.snapshot(ctx.now_ms);
        Fields { snapshot, parts, from: Vec::new(), left, is_counted, has_begun: false }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.from.capacity() + self.snapshot.memory_bytes()
    }

    /// Whether a part of the reply was written, which cannot be taken back.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Counts or writes one slice. Returns whether it was the last.
    pub(crate) fn slice(
        &mut self,
        ctx: &mut CommandContext<'_>,
        reply: &mut Writer<'_>,
    ) -> Result<bool, Fault> {
        let now_ms = ctx.now_ms;
        // What expires now was there at the moment of the snapshot.
        ctx.rows.at(self.snapshot.now_ms());
        let done = self.slice_at(ctx, reply);
        ctx.rows.at(now_ms);
        done
    }

    fn slice_at(
        &mut self,
        ctx: &mut CommandContext<'_>,
        reply: &mut Writer<'_>,
    ) -> Result<bool, Fault> {
        let Fields { snapshot, parts, from, left, is_counted, has_begun } = self;
        if *is_counted && !*has_begun {
            parts.begin(usize::try_from(*left).unwrap_or(usize::MAX), reply);
            *has_begun = true;
        }
        let (mut rows, mut next) = (0, None);
        let rows_max = ctx.shared.options.slice_rows_max.max(1);
        let bytes_max = reply.place() + ctx.shared.options.iteration_output_bytes_max;
        let (mut counted, mut is_too_many) = (0_u64, false);
        ctx.rows.scan_snapshot(snapshot, from, *is_counted, &mut |name, row| {
            if *is_counted {
                is_too_many |= *left == 0;
                if is_too_many {
                    return ControlFlow::Break(());
                }
                *left -= 1;
                parts.put(name, row.value(), reply);
            } else {
                counted += 1;
            }
            rows += 1;
            if rows < rows_max && reply.place() < bytes_max {
                return ControlFlow::Continue(());
            }
            next = Some(successor(name));
            ControlFlow::Break(())
        })?;
        if ctx.work.is_over() {
            // The transaction is refused as a whole.
            return Err(Fault::REPLY_TOO_LARGE);
        }
        if !*is_counted {
            *left += counted;
        }
        if let Some(next) = next {
            *from = next;
            return Ok(false);
        }
        if !*is_counted {
            *is_counted = true;
            from.clear();
            return Ok(false);
        }
        if is_too_many || *left > 0 {
            let what = "the fields of a hash are not those that were counted";
            return Err(Error::corruption(std::path::Path::new("memory"), 0, what).into());
        }
        Ok(true)
    }
}

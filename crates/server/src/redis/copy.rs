//! COPY of a large hash: the fields are copied in slices, below an id that no key names. Then one
//! write puts the header.
//!
//! The copy is of one moment: a snapshot keeps what others change meanwhile. If the client goes, or
//! the server crashes, the fields that were copied are removed like those of any removed hash.

use std::ops::ControlFlow;
use std::sync::Arc;

use keyrack_rowstore::{Collection, CollectionGuard, Row, RowBuf, Snapshot};
use keyrack_store::Update;

use crate::redis::context::CommandContext;
use crate::redis::fault::Fault;
use crate::redis::key_range::successor;

/// Fields in one slice.
const SLICE_FIELDS: usize = 512;
/// Bytes of fields after which a slice ends.
const SLICE_BYTES: usize = 256 << 10;

/// A copy under way.
#[derive(Debug)]
pub(crate) struct Copying {
    snapshot: Arc<Snapshot>,
    target: Arc<Collection>,
    key: Box<[u8]>,
    replaces: bool,
    /// When the copy expires.
    expires_ms: u64,
    from: Vec<u8>,
    has_fields: bool,
    is_copied: bool,
}

impl Copying {
    /// Under the lock of the hash. The header goes to the key `to`.
    pub(crate) fn new(
        ctx: &mut CommandContext<'_>,
        guard: &CollectionGuard<'_>,
        to: &[u8],
        replaces: bool,
        expires_ms: u64,
    ) -> Result<Self, Fault> {
        let target = ctx.rows.create_collection()?;
        let snapshot = guard.snapshot(ctx.now_ms);
        let (key, from, has_fields, is_copied) = (to.into(), Vec::new(), false, false);
        Ok(Copying { snapshot, target, key, replaces, expires_ms, from, has_fields, is_copied })
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.key.len() + self.from.capacity() + self.snapshot.memory_bytes()
    }

    pub(crate) fn is_copied(&self) -> bool {
        self.is_copied
    }

    /// Copies one slice. Returns whether it was the last.
    pub(crate) fn slice(&mut self, ctx: &mut CommandContext<'_>) -> Result<bool, Fault> {
        let mut found: Vec<(Box<[u8]>, Box<[u8]>)> = Vec::new();
        let (mut bytes, mut next) = (0, None);
        ctx.rows.at(self.snapshot.now_ms());
        let scanned = ctx.rows.scan_snapshot(&self.snapshot, &self.from, true, &mut |name, row| {
            bytes += name.len() + row.bytes().len();
            found.push((name.into(), row.bytes().into()));
            if found.len() < SLICE_FIELDS && bytes < SLICE_BYTES {
                return ControlFlow::Continue(());
            }
            next = Some(successor(name));
            ControlFlow::Break(())
        });
        ctx.rows.at(ctx.now_ms);
        scanned?;
        for (name, row) in &found {
            ctx.rows.update_element(self.target.id(), name, &mut |_, new: &mut RowBuf| {
                new.set_value(Row::of(row).value());
                new.keep_attributes(&Row::of(row));
                Update::Put
            })?;
        }
        self.has_fields |= !found.is_empty();
        if let Some(next) = next {
            self.from = next;
            return Ok(false);
        }
        if !self.has_fields {
            // All of them have expired: a hash without fields is no row.
            return Ok(true);
        }
        if self.target.is_cleared() {
            return Err(Fault::CLEARED);
        }
        // Others write its fields once the header is logged.
        let _guard = self.target.lock();
        let mut is_copied = false;
        ctx.rows.update(&self.key, &mut |row, new| {
            is_copied = self.replaces || row.is_none();
            if !is_copied {
                return Update::Keep;
            }
            new.collection(self.target.id());
            new.set_expires_ms(self.expires_ms);
            Update::Put
        })?;
        ctx.rows.flush_headers()?;
        self.is_copied = is_copied;
        Ok(true)
    }
}

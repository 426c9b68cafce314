//! The mark of escaped keys: a row under a key that is no user key.
//!
//! An earlier version stored every user key as it was. So a key that begins with the reserved bytes
//! is escaped or an element if the store has the mark, and a plain user key otherwise. The mark is
//! written before the first reserved key, and a store without reserved keys never gets it.

use super::core::Core;
use crate::keys;
use crate::row::encode_value;
use keyrack_store::{Batch, Error, Result, Session};
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

/// The key of the mark.
pub(super) const MARK: &[u8] = &[0xff, 0xfe, 1];

/// The row of the mark.
pub(super) fn row() -> Vec<u8> {
    let mut row = Vec::new();
    encode_value(b"1", 0, 0, &mut row);
    row
}

/// Escapes the user keys of an earlier version. Returns whether the store has the mark.
///
/// # Errors
/// [`Usage`](keyrack_store::Error::Usage) if they take more than a batch of `bytes_max`: an end
/// between two batches would leave escaped keys beside plain ones, and nobody could tell them
/// apart.
pub(super) fn escape_plain_keys(session: &mut dyn Session, bytes_max: usize) -> Result<bool> {
    let mut is_marked = false;
    // The row of a user key has a version, so it is never that of the mark.
    session.get(MARK, &mut |value| is_marked = value == row())?;
    if is_marked {
        return Ok(true);
    }
    let mut batch = Batch::new();
    let mut is_too_large = false;
    session.scan(&MARK[..2], None, &mut |key, value| {
        if !keys::is_reserved(key) {
            return ControlFlow::Break(());
        }
        batch.remove(key);
        batch.put(&keys::stored(key), value);
        // With room for the mark.
        is_too_large = batch.logged_bytes() > bytes_max.saturating_sub(1024);
        if is_too_large { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    if is_too_large {
        return Err(Error::usage(format!(
            "the rows of an earlier version whose keys begin with the bytes ff fe take more than \
             {bytes_max} bytes, and they can only be renamed in one batch: remove some of them \
             with the earlier version"
        )));
    }
    if batch.is_empty() {
        return Ok(false);
    }
    // A plain key may be the escaped form of another: the puts come last.
    let mut all = Batch::new();
    let removed = batch.iter().filter_map(|op| match op {
        keyrack_store::BatchOp::Remove(key) => Some(key.to_vec()),
        keyrack_store::BatchOp::Put(..) => None,
    });
    removed.for_each(|key| all.remove(&key));
    for op in batch.iter() {
        if let keyrack_store::BatchOp::Put(key, value) = op {
            all.put(key, value);
        }
    }
    all.put(MARK, &row());
    session.apply(&all)?;
    Ok(true)
}

/// Writes the mark, unless the store has it.
#[inline]
pub(super) fn mark(core: &Core, session: &mut dyn Session) -> Result<()> {
    if !core.is_marked.load(Ordering::Acquire) {
        session.put(MARK, &row())?;
        core.is_marked.store(true, Ordering::Release);
    }
    Ok(())
}

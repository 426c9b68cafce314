//! [`Session::replace_all`] for engines that cannot remove a range as one write.

use crate::{Batch, Result, Session};
use std::ops::ControlFlow;

/// Bytes of a batch of removals, and one key more. Small, so that engines with small batches take
/// it.
const REMOVALS_BYTES_MAX: usize = 32 << 10;

/// Removes every key, a batch of removals at a time, and then applies `batch`.
pub(crate) fn replace_all<S: Session + ?Sized>(session: &mut S, batch: &Batch) -> Result<()> {
    let (mut removals, mut from) = (Batch::new(), Vec::new());
    loop {
        removals.clear();
        let mut last = None;
        session.scan(&from, None, &mut |key, _| {
            removals.remove(key);
            if removals.logged_bytes() < REMOVALS_BYTES_MAX {
                return ControlFlow::Continue(());
            }
            last = Some(key.to_vec());
            ControlFlow::Break(())
        })?;
        if !removals.is_empty() {
            session.apply(&removals)?;
        }
        match last {
            Some(last) => from = last,
            None => break,
        }
    }
    if batch.is_empty() { Ok(()) } else { session.apply(batch) }
}

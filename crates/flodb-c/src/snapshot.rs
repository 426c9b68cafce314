//! Snapshots: moments of a store to read from.

use crate::error::{Code, Error, report};
use crate::open::{Open, check_same};
use crate::store::{Store, place, ready};
use keyrack_ffi::{destroy, give, or_else, put};
use keyrack_flodb::Snapshot as Moment;
use std::sync::Arc;

/// A moment of a store, for all of its key spaces.
#[derive(Debug)]
pub struct Snapshot {
    open: Arc<Open>,
    moment: Moment,
}

/// The moment to read from in a store; none for null, which is now.
///
/// # Safety
/// `snapshot` is null or a snapshot.
pub(crate) unsafe fn moment<'a>(
    snapshot: *const Snapshot,
    open: &Arc<Open>,
) -> Result<Option<&'a Moment>, Error> {
    // SAFETY: the caller promises the same.
    let Some(snapshot) = (unsafe { snapshot.as_ref() }) else { return Ok(None) };
    check_same(&snapshot.open, open, "snapshot")?;
    Ok(Some(&snapshot.moment))
}

/// Keeps this moment of all key spaces readable: what is replaced later takes space until the
/// snapshot is freed. The caller frees `*snapshot` with keyrack_snapshot_free.
///
/// Threads: any at once.
///
/// # Safety
/// `store` is null or a store; `snapshot` is null or room for a pointer; `error` is null, or points
/// to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_snapshot_new(
    store: *const Store,
    snapshot: *mut *mut Snapshot,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let to = unsafe { place(snapshot, "place of the snapshot") }?;
        // SAFETY: as above.
        let open = unsafe { ready(store) }?;
        let made = Snapshot { open: Arc::clone(open), moment: open.moment() };
        // SAFETY: as above.
        unsafe { put(to, give(made)) };
        Ok(())
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// Gives up a moment. Iterators that show it go on. Null is nothing.
///
/// Threads: one, the last that uses `snapshot`; a snapshot is read by any at once before.
///
/// # Safety
/// `snapshot` is null or a snapshot, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_snapshot_free(snapshot: *mut Snapshot) {
    // SAFETY: the caller promises the same.
    or_else((), || drop(unsafe { destroy(snapshot) }));
}

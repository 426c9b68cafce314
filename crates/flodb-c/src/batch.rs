//! Batches: writes that happen together.

use crate::error::{Code, Error, report};
use crate::open::{Keys, Kind, Open, check_same, writes};
use crate::space::{Space, space};
use crate::store::{Store, place, ready};
use keyrack_ffi::{bytes, destroy, give, handle_mut, or_else, put};
use keyrack_flodb::{Batch as PlainBatch, SpacesBatch};
use std::ffi::c_void;
use std::sync::Arc;

/// Writes to the key spaces of one store.
#[derive(Debug)]
pub struct Batch {
    open: Arc<Open>,
    /// `None` once a call has panicked on its way.
    writes: Option<Writes>,
}

#[derive(Debug)]
enum Writes {
    Plain(PlainBatch),
    Spaces(SpacesBatch),
}

impl Writes {
    fn of(open: &Open) -> Writes {
        match open.kind {
            Kind::Plain(_) => Writes::Plain(PlainBatch::new()),
            Kind::Spaces(_) => Writes::Spaces(SpacesBatch::new()),
        }
    }

    fn count(&self) -> u64 {
        match self {
            Writes::Plain(batch) => batch.len(),
            Writes::Spaces(batch) => batch.len(),
        }
    }

    fn add(&mut self, keys: &Keys, write: Write<'_>) {
        match (self, keys, write) {
            (Writes::Plain(batch), _, Write::Put(key, value)) => batch.put(key, value),
            (Writes::Plain(batch), _, Write::Delete(key)) => batch.delete(key),
            (Writes::Plain(batch), _, Write::Range(low, high)) => batch.delete_range(low, high),
            (Writes::Spaces(batch), Keys::Space(keys), write) => match write {
                Write::Put(key, value) => batch.put(keys, key, value),
                Write::Delete(key) => batch.delete(keys, key),
                Write::Range(low, high) => batch.delete_range(keys, low, high),
            },
            (Writes::Spaces(_), Keys::Whole(_), _) => unreachable!("keys are of the store's kind"),
        }
    }
}

enum Write<'a> {
    Put(&'a [u8], &'a [u8]),
    Delete(&'a [u8]),
    Range(&'a [u8], &'a [u8]),
}

fn lost() -> Error {
    Error::usage("an earlier call on the batch failed in the library; free the batch")
}

/// Makes an empty batch for the key spaces of a store. The caller frees `*batch` with
/// keyrack_batch_free.
///
/// Threads: any at once.
///
/// # Safety
/// `store` is null or a store; `batch` is null or room for a pointer; `error` is null, or points to
/// null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_batch_new(
    store: *const Store,
    batch: *mut *mut Batch,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let to = unsafe { place(batch, "place of the batch") }?;
        // SAFETY: as above.
        let open = unsafe { ready(store) }?;
        let made = Batch { open: Arc::clone(open), writes: Some(Writes::of(open)) };
        // SAFETY: as above.
        unsafe { put(to, give(made)) };
        Ok(())
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// Adds a write.
///
/// # Safety
/// `batch` is null or a batch that nobody else uses; `space` is null or a key space.
unsafe fn add(batch: *mut Batch, space: *const Space, write: Write<'_>) -> Result<(), Error> {
    // SAFETY: the caller promises the same.
    let batch = unsafe { handle_mut(batch, "batch") }?;
    // SAFETY: as above.
    let space = unsafe { self::space(space) }?;
    check_same(&space.open, &batch.open, "key space")?;
    let mut writes = batch.writes.take().ok_or_else(lost)?;
    writes.add(&space.keys, write);
    batch.writes = Some(writes);
    Ok(())
}

/// Adds a put. Key and value are copied.
///
/// Threads: one at a time for `batch`, any at once for `space`.
///
/// # Safety
/// `batch` is null or a batch that nobody else uses; `space` is null or a key space; key and value
/// have so many bytes; `error` is null, or points to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_batch_put(
    batch: *mut Batch,
    space: *const Space,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let key = unsafe { bytes(key, key_len) }?;
        // SAFETY: as above.
        let value = unsafe { bytes(value, value_len) }?;
        // SAFETY: as above.
        unsafe { add(batch, space, Write::Put(key, value)) }
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// Adds a removal of a key. The key is copied.
///
/// Threads: one at a time for `batch`, any at once for `space`.
///
/// # Safety
/// As for [`keyrack_batch_put`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_batch_delete(
    batch: *mut Batch,
    space: *const Space,
    key: *const c_void,
    key_len: usize,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let key = unsafe { bytes(key, key_len) }?;
        // SAFETY: as above.
        unsafe { add(batch, space, Write::Delete(key)) }
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// Adds a removal of all keys from `low` on and before `high`. The keys are copied.
///
/// Threads: one at a time for `batch`, any at once for `space`.
///
/// # Safety
/// As for [`keyrack_batch_put`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_batch_delete_range(
    batch: *mut Batch,
    space: *const Space,
    low: *const c_void,
    low_len: usize,
    high: *const c_void,
    high_len: usize,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let low = unsafe { bytes(low, low_len) }?;
        // SAFETY: as above.
        let high = unsafe { bytes(high, high_len) }?;
        // SAFETY: as above.
        unsafe { add(batch, space, Write::Range(low, high)) }
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// Does the writes of a batch in their order, all or none, also for readers and after a crash. The
/// batch keeps them. `flags` is 0 or KEYRACK_SYNC.
///
/// Threads: one at a time for `batch`.
///
/// # Safety
/// `batch` is null or a batch that nobody else uses; `error` is null, or points to null or an
/// error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_batch_write(
    batch: *mut Batch,
    flags: u32,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let batch = unsafe { handle_mut(batch, "batch") }?;
        batch.open.check()?;
        let options = writes(flags)?;
        match (batch.writes.as_ref().ok_or_else(lost)?, &batch.open.kind) {
            (Writes::Plain(writes), Kind::Plain(db)) => Ok(db.write(writes, options)?),
            (Writes::Spaces(writes), Kind::Spaces(spaces)) => Ok(spaces.write(writes, options)?),
            _ => unreachable!("writes are of the store's kind"),
        }
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// Takes all writes out of a batch. Null is nothing.
///
/// Threads: one at a time for `batch`.
///
/// # Safety
/// `batch` is null or a batch that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_batch_clear(batch: *mut Batch) {
    or_else((), || {
        // SAFETY: the caller promises the same.
        if let Some(batch) = unsafe { batch.as_mut() } {
            batch.writes = Some(Writes::of(&batch.open));
        }
    });
}

/// The number of writes in a batch; 0 for null.
///
/// Threads: one at a time for `batch`.
///
/// # Safety
/// `batch` is null or a batch that nobody changes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_batch_count(batch: *const Batch) -> u64 {
    // SAFETY: the caller promises the same.
    let writes = unsafe { batch.as_ref() }.and_then(|batch| batch.writes.as_ref());
    writes.map_or(0, Writes::count)
}

/// Frees a batch; what was not written is not. Null is nothing.
///
/// Threads: one, the last that uses `batch`.
///
/// # Safety
/// `batch` is null or a batch, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_batch_free(batch: *mut Batch) {
    // SAFETY: the caller promises the same.
    or_else((), || drop(unsafe { destroy(batch) }));
}

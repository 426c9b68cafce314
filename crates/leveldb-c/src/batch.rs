//! Batches: writes that are applied as one.

use crate::status::Failure;
use keyrack_ffi::{bytes, destroy, give, handle, or_else};
use keyrack_flodb::{Batch, BatchWrite};
use std::ffi::{c_char, c_void};

/// A batch of writes. One thread at a time changes it.
#[derive(Debug, Default)]
pub struct WriteBatch {
    pub(crate) batch: Batch,
    /// A null pointer was given in place of a key or a value. A write of it reports that.
    pub(crate) failure: Option<Failure>,
}

/// Makes a change, and keeps why it cannot be made.
///
/// # Safety
/// `batch` is null or a batch that nobody else uses meanwhile.
unsafe fn change(batch: *mut WriteBatch, call: impl FnOnce(&mut Batch) -> Result<(), Failure>) {
    or_else((), || {
        // SAFETY: as the caller promises, it is null or a batch of this thread's.
        let Some(batch) = (unsafe { batch.as_mut() }) else { return };
        if let Err(failure) = call(&mut batch.batch) {
            batch.failure.get_or_insert(failure);
        }
    });
}

/// Makes an empty batch.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writebatch_create() -> *mut WriteBatch {
    give(WriteBatch::default())
}

/// Frees a batch.
///
/// # Safety
/// `batch` is null or from [`leveldb_writebatch_create`], and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_destroy(batch: *mut WriteBatch) {
    // SAFETY: the caller promises the same.
    drop(unsafe { destroy(batch) });
}

/// Removes all writes from a batch.
///
/// # Safety
/// `batch` is null or a batch that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_clear(batch: *mut WriteBatch) {
    or_else((), || {
        // SAFETY: as the caller promises, it is null or a batch of this thread's.
        if let Some(batch) = unsafe { batch.as_mut() } {
            batch.batch.clear();
            batch.failure = None;
        }
    });
}

/// Adds the storing of a value.
///
/// # Safety
/// `batch` is null or a batch that no other thread uses; `key` and `val` have so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_put(
    batch: *mut WriteBatch,
    key: *const c_char,
    klen: usize,
    val: *const c_char,
    vlen: usize,
) {
    let call = |batch: &mut Batch| {
        // SAFETY: the caller promises the same.
        let key = unsafe { bytes(key, klen) }?;
        // SAFETY: the caller promises the same.
        let value = unsafe { bytes(val, vlen) }?;
        batch.put(key, value);
        Ok(())
    };
    // SAFETY: the caller promises the same.
    unsafe { change(batch, call) };
}

/// Adds the removal of a key.
///
/// # Safety
/// `batch` is null or a batch that no other thread uses; `key` has so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_delete(
    batch: *mut WriteBatch,
    key: *const c_char,
    klen: usize,
) {
    let call = |batch: &mut Batch| {
        // SAFETY: the caller promises the same.
        let key = unsafe { bytes(key, klen) }?;
        batch.delete(key);
        Ok(())
    };
    // SAFETY: the caller promises the same.
    unsafe { change(batch, call) };
}

/// Shows the writes of a batch in their order, each to one of the functions. They must not change
/// the batch.
///
/// # Safety
/// `batch` is null or a batch that nobody changes; the functions may be called with `state`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_iterate(
    batch: *const WriteBatch,
    state: *mut c_void,
    put: Option<
        unsafe extern "C" fn(
            state: *mut c_void,
            k: *const c_char,
            klen: usize,
            v: *const c_char,
            vlen: usize,
        ),
    >,
    deleted: Option<unsafe extern "C" fn(state: *mut c_void, k: *const c_char, klen: usize)>,
) {
    or_else((), || {
        // SAFETY: the caller promises the same.
        let Ok(batch) = (unsafe { handle(batch, "batch") }) else { return };
        for write in batch.batch.iter() {
            match (write, put, deleted) {
                (BatchWrite::Put { key, value }, Some(put), _) => {
                    let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
                    // SAFETY: the caller promises a function for this state and any bytes.
                    unsafe { put(state, k, key.len(), v, value.len()) };
                }
                (BatchWrite::Delete { key }, _, Some(deleted)) => {
                    // SAFETY: as above.
                    unsafe { deleted(state, key.as_ptr().cast(), key.len()) };
                }
                // Nobody asked for it; ranges cannot be removed through this interface.
                _ => {}
            }
        }
    });
}

/// Appends the writes of `source`, which may be the same batch.
///
/// # Safety
/// Both are null or batches, and no other thread uses `destination` or changes `source`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writebatch_append(
    destination: *mut WriteBatch,
    source: *const WriteBatch,
) {
    or_else((), || {
        // SAFETY: the caller promises the same. The copy ends the reference, in case both are one.
        let copy =
            unsafe { handle(source, "batch") }.map(|it| (it.batch.clone(), it.failure.clone()));
        // SAFETY: as the caller promises, it is null or a batch of this thread's.
        let (Ok((batch, failure)), Some(destination)) = (copy, unsafe { destination.as_mut() })
        else {
            return;
        };
        destination.batch.append(&batch);
        destination.failure = destination.failure.take().or(failure);
    });
}

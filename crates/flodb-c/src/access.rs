//! Reads and writes of single keys.
//!
//! A put costs what it costs in `flodb`, and this interface adds a check of pointers and a load of
//! one flag. A get copies the value once, from where it lies into memory of `malloc`.

use crate::error::{Code, Error, report};
use crate::open::{Keys, Kind, on_keys, writes};
use crate::snapshot::{Snapshot, moment};
use crate::space::{Space, space};
use crate::store::place;
use keyrack_ffi::{bytes, copy_bytes, put, required};
use keyrack_flodb::{ReadOptions, SpacesBatch};
use std::ffi::{c_char, c_int, c_void};

/// A value for the caller, or null.
///
/// # Safety
/// `value` is room for a pointer, `len` null or room for a length.
pub(crate) unsafe fn put_value(
    value: *mut *mut c_char,
    len: *mut usize,
    found: Option<(*mut c_char, usize)>,
) {
    if let Some((copy, count)) = found {
        // SAFETY: the caller promises the same.
        unsafe { put(value, copy) };
        // SAFETY: as above.
        unsafe { put(len, count) };
    }
}

/// A copy of a value in memory of `malloc`, and its length.
pub(crate) fn copied(value: &[u8]) -> (*mut c_char, usize) {
    (copy_bytes(value), value.len())
}

/// Bytes that may be missing: a null pointer without a length.
///
/// # Safety
/// As for [`bytes`].
pub(crate) unsafe fn optional<'a>(
    from: *const c_void,
    len: usize,
) -> Result<Option<&'a [u8]>, Error> {
    if from.is_null() && len == 0 {
        return Ok(None);
    }
    // SAFETY: the caller promises the same.
    Ok(Some(unsafe { bytes(from, len) }?))
}

/// Stores a value under a key. `flags` is 0 or KEYRACK_SYNC. Key and value are copied, and may be
/// any bytes, also none.
///
/// Threads: any at once.
///
/// # Safety
/// `space` is null or a key space; `key` and `value` have so many bytes; `error` is null, or points
/// to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_put(
    space: *const Space,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    flags: u32,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let space = unsafe { self::space(space) }?;
        // SAFETY: as above.
        let key = unsafe { bytes(key, key_len) }?;
        // SAFETY: as above.
        let value = unsafe { bytes(value, value_len) }?;
        let options = writes(flags)?;
        Ok(on_keys!(&space.keys, keys => keys.put_with(key, value, options))?)
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// Removes a key, whether it is there or not. `flags` is 0 or KEYRACK_SYNC.
///
/// Threads: any at once.
///
/// # Safety
/// As for [`keyrack_put`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_delete(
    space: *const Space,
    key: *const c_void,
    key_len: usize,
    flags: u32,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let space = unsafe { self::space(space) }?;
        // SAFETY: as above.
        let key = unsafe { bytes(key, key_len) }?;
        let options = writes(flags)?;
        Ok(on_keys!(&space.keys, keys => keys.delete_with(key, options))?)
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// Removes all keys from `low` on and before `high`, as one write. `flags` is 0 or KEYRACK_SYNC.
///
/// Threads: any at once.
///
/// # Safety
/// As for [`keyrack_put`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_delete_range(
    space: *const Space,
    low: *const c_void,
    low_len: usize,
    high: *const c_void,
    high_len: usize,
    flags: u32,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let space = unsafe { self::space(space) }?;
        // SAFETY: as above.
        let low = unsafe { bytes(low, low_len) }?;
        // SAFETY: as above.
        let high = unsafe { bytes(high, high_len) }?;
        let options = writes(flags)?;
        match (&space.keys, &space.open.kind) {
            (Keys::Whole(db), _) => Ok(db.delete_range_with(low, high, options)?),
            (Keys::Space(keys), Kind::Spaces(spaces)) => {
                let mut batch = SpacesBatch::new();
                batch.delete_range(keys, low, high);
                Ok(spaces.write(&batch, options)?)
            }
            (Keys::Space(_), Kind::Plain(_)) => unreachable!("a plain store has no key spaces"),
        }
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// The value of a key, and its length in `*value_len`, which may be null. The caller frees `*value`
/// with keyrack_free. It is null if the key is not there, which is KEYRACK_OK, and on failure; an
/// empty value is not null. `snapshot` is the moment to read from; null is now.
///
/// Threads: any at once.
///
/// # Safety
/// `space` is null or a key space; `snapshot` is null or a snapshot; `key` has so many bytes;
/// `value` is null or room for a pointer, `value_len` null or room for a length; `error` is null,
/// or points to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_get(
    space: *const Space,
    snapshot: *const Snapshot,
    key: *const c_void,
    key_len: usize,
    value: *mut *mut c_char,
    value_len: *mut usize,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let to = unsafe { place(value, "place of the value") }?;
        // SAFETY: as above.
        unsafe { put(value_len, 0) };
        // SAFETY: as above.
        let space = unsafe { self::space(space) }?;
        // SAFETY: as above.
        let moment = unsafe { moment(snapshot, &space.open) }?;
        // SAFETY: as above.
        let key = unsafe { bytes(key, key_len) }?;
        let reads = ReadOptions::default();
        let found = on_keys!(&space.keys, keys => keys.read_with(moment, key, reads, copied))?;
        // SAFETY: as above.
        unsafe { put_value(to, value_len, found) };
        Ok(())
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// Whether a key is there: `*found` is 1 or 0. `snapshot` is the moment to read from; null is now.
///
/// Threads: any at once.
///
/// # Safety
/// `space` is null or a key space; `snapshot` is null or a snapshot; `key` has so many bytes;
/// `found` is null or room for a number; `error` is null, or points to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_contains(
    space: *const Space,
    snapshot: *const Snapshot,
    key: *const c_void,
    key_len: usize,
    found: *mut c_int,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        let to = required(found, "place of the answer")?;
        // SAFETY: the caller promises the same.
        unsafe { put(to, 0) };
        // SAFETY: as above.
        let space = unsafe { self::space(space) }?;
        // SAFETY: as above.
        let moment = unsafe { moment(snapshot, &space.open) }?;
        // SAFETY: as above.
        let key = unsafe { bytes(key, key_len) }?;
        let reads = ReadOptions::default();
        let found = on_keys!(&space.keys, keys => keys.read_with(moment, key, reads, |_| ()))?;
        // SAFETY: as above.
        unsafe { put(to, c_int::from(found.is_some())) };
        Ok(())
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// Replaces the value of a key if it is the expected one, as one step: `*swapped` is 1 then, else
/// 0. A null pointer with the length 0 is no value: no key is expected, or the key is removed.
/// `flags` is 0 or KEYRACK_SYNC.
///
/// Threads: any at once.
///
/// # Safety
/// `space` is null or a key space; `key`, `expected` and `value` have so many bytes; `swapped` is
/// null or room for a number; `error` is null, or points to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_compare_and_swap(
    space: *const Space,
    key: *const c_void,
    key_len: usize,
    expected: *const c_void,
    expected_len: usize,
    value: *const c_void,
    value_len: usize,
    flags: u32,
    swapped: *mut c_int,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        let to = required(swapped, "place of the answer")?;
        // SAFETY: the caller promises the same.
        unsafe { put(to, 0) };
        // SAFETY: as above.
        let space = unsafe { self::space(space) }?;
        // SAFETY: as above.
        let key = unsafe { bytes(key, key_len) }?;
        // SAFETY: as above.
        let expected = unsafe { optional(expected, expected_len) }?;
        // SAFETY: as above.
        let value = unsafe { optional(value, value_len) }?;
        let options = writes(flags)?;
        let is_swapped = on_keys!(&space.keys, keys => {
            keys.compare_and_swap_with(key, expected, value, options)
        })?;
        // SAFETY: as above.
        unsafe { put(to, c_int::from(is_swapped)) };
        Ok(())
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// Adds to the counter under a key, as one step: eight bytes, little-endian and signed; a missing
/// key is 0, and any other value is KEYRACK_USAGE. `*before` gets what was there; it may be null.
/// `flags` is 0 or KEYRACK_SYNC.
///
/// Threads: any at once.
///
/// # Safety
/// `space` is null or a key space; `key` has so many bytes; `before` is null or room for a number;
/// `error` is null, or points to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fetch_and_add(
    space: *const Space,
    key: *const c_void,
    key_len: usize,
    delta: i64,
    flags: u32,
    before: *mut i64,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let space = unsafe { self::space(space) }?;
        // SAFETY: as above.
        let key = unsafe { bytes(key, key_len) }?;
        let options = writes(flags)?;
        let found = on_keys!(&space.keys, keys => keys.fetch_and_add_with(key, delta, options))?;
        // SAFETY: as above.
        unsafe { put(before, found) };
        Ok(())
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

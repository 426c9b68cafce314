//! Calls on a database that is open: writes, reads, sizes, properties.
//!
//! A put costs what it costs in `flodb`, and this interface adds nothing but a check of pointers. A
//! get copies the value once, from where it lies into memory of `malloc`.

use crate::access::{ReadOptions, WriteOptions};
use crate::batch::WriteBatch;
use crate::database::Database;
use crate::manage::open;
use crate::options::Options;
use crate::status::{Failure, report};
use keyrack_ffi::{bytes, copy_bytes, copy_text, destroy, give, handle, or_else, put, text};
use keyrack_flodb::WriteOptions as StoreWrites;
use std::ffi::{c_char, c_int};
use std::ptr;

/// What a call on a database gets before it does anything.
///
/// # Safety
/// `db` is null or an open database.
unsafe fn ready<'a>(db: *const Database) -> Result<&'a Database, Failure> {
    // SAFETY: the caller promises the same.
    let db = unsafe { handle(db, "database") }?;
    db.check()?;
    Ok(db)
}

/// # Safety
/// `options` is null or a handle.
unsafe fn writes(options: *const WriteOptions) -> StoreWrites {
    // SAFETY: the caller promises the same.
    let options = unsafe { options.as_ref() }.copied().unwrap_or_default();
    StoreWrites { sync: options.sync }
}

/// Opens the database in the directory `name`. Null with an error if it cannot be opened.
///
/// # Safety
/// `options` is null or a handle, `name` null or a text; `errptr` is null, or points to a null
/// pointer or to a text of `malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_open(
    options: *const Options,
    name: *const c_char,
    errptr: *mut *mut c_char,
) -> *mut Database {
    let call = || {
        // SAFETY: the caller promises the same.
        let options = unsafe { handle(options, "options") }?;
        // SAFETY: as above.
        let name = unsafe { text(name, "name") }?;
        open(name, options).map(give)
    };
    // SAFETY: the caller promises the same.
    unsafe { report(errptr, call) }.unwrap_or(ptr::null_mut())
}

/// Closes a database. Iterators and snapshots of it may be freed later.
///
/// # Safety
/// `db` is null or from [`leveldb_open`], and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_close(db: *mut Database) {
    or_else((), || {
        // SAFETY: the caller promises the same.
        if let Some(db) = unsafe { destroy(db) } {
            // The interface has no place for a failure. What was acknowledged is in the log.
            let _ = db.store.close();
            // From here on nothing calls back, so destructors may run.
            drop(db.uses);
        }
    });
}

/// Stores a value under a key.
///
/// # Safety
/// `db` is null or an open database, `options` null or a handle; `key` and `val` have so many
/// bytes; `errptr` as for [`leveldb_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_put(
    db: *mut Database,
    options: *const WriteOptions,
    key: *const c_char,
    keylen: usize,
    val: *const c_char,
    vallen: usize,
    errptr: *mut *mut c_char,
) {
    let call = || {
        // SAFETY: the caller promises the same.
        let db = unsafe { ready(db) }?;
        // SAFETY: as above.
        let key = unsafe { bytes(key, keylen) }?;
        // SAFETY: as above.
        let value = unsafe { bytes(val, vallen) }?;
        // SAFETY: as above.
        let options = unsafe { writes(options) };
        db.store.put_with(key, value, options)?;
        db.check()
    };
    // SAFETY: the caller promises the same.
    unsafe { report(errptr, call) };
}

/// Removes a key, whether it is there or not.
///
/// # Safety
/// As for [`leveldb_put`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_delete(
    db: *mut Database,
    options: *const WriteOptions,
    key: *const c_char,
    keylen: usize,
    errptr: *mut *mut c_char,
) {
    let call = || {
        // SAFETY: the caller promises the same.
        let db = unsafe { ready(db) }?;
        // SAFETY: as above.
        let key = unsafe { bytes(key, keylen) }?;
        // SAFETY: as above.
        let options = unsafe { writes(options) };
        db.store.delete_with(key, options)?;
        db.check()
    };
    // SAFETY: the caller promises the same.
    unsafe { report(errptr, call) };
}

/// Applies the writes of a batch as one, each after those before it.
///
/// # Safety
/// `batch` is null or a batch that nobody changes; the rest as for [`leveldb_put`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_write(
    db: *mut Database,
    options: *const WriteOptions,
    batch: *mut WriteBatch,
    errptr: *mut *mut c_char,
) {
    let call = || {
        // SAFETY: the caller promises the same.
        let db = unsafe { ready(db) }?;
        // SAFETY: as above.
        let batch = unsafe { handle(batch, "batch") }?;
        if let Some(failure) = &batch.failure {
            return Err(failure.clone());
        }
        // SAFETY: as above.
        let options = unsafe { writes(options) };
        db.store.write(&batch.batch, options)?;
        db.check()
    };
    // SAFETY: the caller promises the same.
    unsafe { report(errptr, call) };
}

/// The value of a key, in memory of `malloc`, and its length in `*vallen`. Null, with the length
/// 0, if the key is not there; that is no error.
///
/// # Safety
/// `db` is null or an open database, `options` null or a handle; `key` has so many bytes; `vallen`
/// is null or room for a length; `errptr` as for [`leveldb_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_get(
    db: *mut Database,
    options: *const ReadOptions,
    key: *const c_char,
    keylen: usize,
    vallen: *mut usize,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    let call = || {
        // SAFETY: the caller promises the same.
        let db = unsafe { ready(db) }?;
        // SAFETY: as above.
        let key = unsafe { bytes(key, keylen) }?;
        // SAFETY: as above.
        let options = unsafe { options.as_ref() };
        let held = options.map_or(Ok(None), ReadOptions::snapshot)?;
        let moment = held.as_ref().map(|held| held.moment(db.number)).transpose()?;
        let reads = options.map(ReadOptions::of_store).unwrap_or_default();
        let copy = |value: &[u8]| (copy_bytes(value), value.len());
        let found = db.store.read_with(moment, key, reads, copy)?;
        if let Err(failure) = db.check() {
            if let Some((copy, _)) = found {
                // SAFETY: it was made above, and nobody has it.
                unsafe { libc::free(copy.cast()) };
            }
            return Err(failure);
        }
        Ok(found)
    };
    // SAFETY: the caller promises the same.
    let found = unsafe { report(errptr, call) }.flatten();
    let (value, len) = found.unwrap_or((ptr::null_mut(), 0));
    // SAFETY: the caller promises room for a length.
    unsafe { put(vallen, len) };
    value
}

/// What is known under a name, as a text of `malloc`; null if the name is unknown.
///
/// # Safety
/// `db` is null or an open database, `propname` null or a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_property_value(
    db: *mut Database,
    propname: *const c_char,
) -> *mut c_char {
    or_else(ptr::null_mut(), || {
        // SAFETY: the caller promises the same.
        let (Ok(db), Ok(name)) =
            (unsafe { handle(db, "database") }, unsafe { text(propname, "name") })
        else {
            return ptr::null_mut();
        };
        let name = std::str::from_utf8(name).ok();
        let property = name.and_then(|name| db.store.property(name));
        property.map_or(ptr::null_mut(), |text| copy_text(&text))
    })
}

/// About how many bytes of files each of the ranges takes, from its first key to the one after its
/// last.
///
/// # Safety
/// `db` is null or an open database. The arrays have `num_ranges` elements, of which the pointers
/// have as many bytes as the lengths say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_approximate_sizes(
    db: *mut Database,
    num_ranges: c_int,
    range_start_key: *const *const c_char,
    range_start_key_len: *const usize,
    range_limit_key: *const *const c_char,
    range_limit_key_len: *const usize,
    sizes: *mut u64,
) {
    let count = usize::try_from(num_ranges).unwrap_or(0);
    if sizes.is_null() {
        return;
    }
    for index in 0..count {
        let size = or_else(0, || {
            // SAFETY: the caller promises so many elements.
            let start = unsafe { key_at(range_start_key, range_start_key_len, index) };
            // SAFETY: as above.
            let limit = unsafe { key_at(range_limit_key, range_limit_key_len, index) };
            // SAFETY: the caller promises a database.
            let (Ok(db), Ok(start), Ok(limit)) = (unsafe { ready(db) }, start, limit) else {
                return 0;
            };
            db.store.approximate_size(start, limit)
        });
        // SAFETY: there are so many elements.
        let place = unsafe { sizes.add(index) };
        // SAFETY: as above.
        unsafe { place.write(size) };
    }
}

/// The key with this index of an array of keys.
///
/// # Safety
/// The arrays are null, or have more elements than `index`.
unsafe fn key_at<'a>(
    keys: *const *const c_char,
    lens: *const usize,
    index: usize,
) -> Result<&'a [u8], Failure> {
    if keys.is_null() || lens.is_null() {
        return Err(Failure::invalid("an array of keys is a null pointer"));
    }
    // SAFETY: the caller promises so many elements.
    let key = unsafe { keys.add(index) };
    // SAFETY: as above.
    let key = unsafe { key.read() };
    // SAFETY: as above.
    let len = unsafe { lens.add(index) };
    // SAFETY: as above.
    let len = unsafe { len.read() };
    // SAFETY: the caller promises so many bytes.
    Ok(unsafe { bytes(key, len) }?)
}

/// Merges what was written of the keys from `start_key` to `limit_key`, both included, so that what
/// was replaced or removed takes no space any more. A null pointer is an open end.
///
/// # Safety
/// `db` is null or an open database; the keys are null or have so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_compact_range(
    db: *mut Database,
    start_key: *const c_char,
    start_key_len: usize,
    limit_key: *const c_char,
    limit_key_len: usize,
) {
    or_else((), || {
        let end = |key: *const c_char, len| {
            // SAFETY: the caller promises the same.
            (!key.is_null()).then(|| unsafe { bytes(key, len) }).transpose()
        };
        // SAFETY: the caller promises the same.
        let db = unsafe { ready(db) };
        let (start, limit) = (end(start_key, start_key_len), end(limit_key, limit_key_len));
        if let (Ok(db), Ok(start), Ok(limit)) = (db, start, limit) {
            // The interface has no place for a failure; the next write reports one that stays.
            let _ = db.store.compact_range(start, limit);
        }
    });
}

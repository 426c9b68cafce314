//! Iterators over a database, in both directions.
//!
//! An iterator that fails goes nowhere, and keeps the first failure: `leveldb_iter_get_error` says
//! it, also after later moves that succeed. An iterator may outlive its database; it keeps what it
//! reads.

use crate::access::ReadOptions;
use crate::comparator::Order;
use crate::database::Database;
use crate::status::{Failure, save};
use keyrack_ffi::{bytes, caught, destroy, give, handle, or_else, put};
use keyrack_flodb::{Iter, Result as StoreResult};
use std::ffi::c_char;
use std::ptr;
use std::sync::Arc;

/// A place in the keys of a database, as they were when the iterator was made.
#[derive(Debug)]
pub struct Cursor {
    /// `None` where it could not be made, or a move has panicked.
    iter: Option<Iter>,
    failure: Option<Failure>,
    order: Option<Arc<Order>>,
}

impl Cursor {
    fn new(iter: Result<Iter, Failure>, order: Option<Arc<Order>>) -> Cursor {
        match iter {
            Ok(iter) => Cursor { iter: Some(iter), failure: None, order },
            Err(failure) => Cursor { iter: None, failure: Some(failure), order },
        }
    }

    fn step(&mut self, step: impl FnOnce(&mut Iter) -> StoreResult<()>) {
        // Taken out, so that nothing is left of one that panics on its way.
        let Some(mut iter) = self.iter.take() else { return };
        let order = self.order.as_deref();
        let moved = caught(|| {
            order.map_or(Ok(()), Order::check)?;
            let moved = step(&mut iter).map_err(Failure::from);
            let moved = moved.and_then(|()| order.map_or(Ok(()), Order::check));
            Ok((iter, moved))
        });
        match moved {
            // Out of order, it stands anywhere.
            Ok((_, Err(failure))) if order.is_some_and(|order| order.check().is_err()) => {
                self.failure.get_or_insert(failure);
            }
            Ok((iter, moved)) => {
                self.iter = Some(iter);
                if let Err(failure) = moved {
                    self.failure.get_or_insert(failure);
                }
            }
            Err(failure) => {
                self.failure.get_or_insert(failure);
            }
        }
    }

    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.iter.as_ref().and_then(Iter::entry)
    }
}

/// Makes an iterator, which stands nowhere at first. Never null: what went wrong is the error of
/// the iterator.
///
/// # Safety
/// `db` is null or an open database, `options` null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_create_iterator(
    db: *mut Database,
    options: *const ReadOptions,
) -> *mut Cursor {
    let mut order = None;
    let made = caught(|| {
        // SAFETY: the caller promises the same.
        let db = unsafe { handle(db, "database") }?;
        order.clone_from(&db.order);
        db.check()?;
        // SAFETY: as above.
        let options = unsafe { options.as_ref() }.cloned().unwrap_or_default();
        let held = options.snapshot()?;
        let moment = held.as_ref().map(|held| held.moment(db.number)).transpose()?;
        Ok(db.store.iter_with(moment, options.of_store())?)
    });
    give(Cursor::new(made, order))
}

/// Frees an iterator.
///
/// # Safety
/// `iter` is null or from [`leveldb_create_iterator`], and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_destroy(iter: *mut Cursor) {
    // SAFETY: the caller promises the same.
    or_else((), || drop(unsafe { destroy(iter) }));
}

/// 1 if it stands on a key, 0 otherwise.
///
/// # Safety
/// `iter` is null or an iterator that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_valid(iter: *const Cursor) -> u8 {
    // SAFETY: the caller promises the same.
    or_else(0, || u8::from(unsafe { iter.as_ref() }.is_some_and(|iter| iter.entry().is_some())))
}

/// Moves an iterator.
///
/// # Safety
/// `iter` is null or an iterator that no other thread uses.
unsafe fn step(iter: *mut Cursor, step: impl FnOnce(&mut Iter) -> StoreResult<()>) {
    or_else((), || {
        // SAFETY: the caller promises the same.
        if let Some(iter) = unsafe { iter.as_mut() } {
            iter.step(step);
        }
    });
}

/// Goes to the first key.
///
/// # Safety
/// `iter` is null or an iterator that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_seek_to_first(iter: *mut Cursor) {
    // SAFETY: the caller promises the same.
    unsafe { step(iter, Iter::seek_first) };
}

/// Goes to the last key.
///
/// # Safety
/// `iter` is null or an iterator that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_seek_to_last(iter: *mut Cursor) {
    // SAFETY: the caller promises the same.
    unsafe { step(iter, Iter::seek_last) };
}

/// Goes to the first key that is not before `k`.
///
/// # Safety
/// `iter` is null or an iterator that no other thread uses; `k` has so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_seek(iter: *mut Cursor, k: *const c_char, klen: usize) {
    // SAFETY: the caller promises the same.
    match unsafe { bytes(k, klen) } {
        // SAFETY: as above.
        Ok(target) => unsafe { step(iter, |iter| iter.seek(target)) },
        // SAFETY: as above.
        Err(failure) => {
            // SAFETY: as above.
            if let Some(iter) = unsafe { iter.as_mut() } {
                iter.iter = None;
                iter.failure.get_or_insert(failure.into());
            }
        }
    }
}

/// Goes to the next key; nowhere after the last one. Nothing happens nowhere.
///
/// # Safety
/// `iter` is null or an iterator that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_next(iter: *mut Cursor) {
    // SAFETY: the caller promises the same.
    unsafe { step(iter, Iter::next) };
}

/// Goes to the key before; nowhere before the first one. Nothing happens nowhere.
///
/// # Safety
/// `iter` is null or an iterator that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_prev(iter: *mut Cursor) {
    // SAFETY: the caller promises the same.
    unsafe { step(iter, Iter::prev) };
}

/// Lends what an iterator shows.
///
/// # Safety
/// `iter` is null or an iterator that no other thread uses; `len` is null or room for a length.
unsafe fn lend(
    iter: *const Cursor,
    len: *mut usize,
    choose: impl FnOnce((&'static [u8], &'static [u8])) -> &'static [u8],
) -> *const c_char {
    // SAFETY: the caller promises the same. What is lent is not used here after this call.
    let iter: Option<&'static Cursor> = unsafe { iter.as_ref() };
    let shown = or_else(None, || iter.and_then(Cursor::entry).map(choose));
    // SAFETY: the caller promises room for a length.
    unsafe { put(len, shown.map_or(0, <[u8]>::len)) };
    shown.map_or(ptr::null(), |bytes| bytes.as_ptr().cast())
}

/// The key here, until the iterator moves; null nowhere.
///
/// # Safety
/// `iter` is null or an iterator that no other thread uses; `klen` is null or room for a length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_key(iter: *const Cursor, klen: *mut usize) -> *const c_char {
    // SAFETY: the caller promises the same.
    unsafe { lend(iter, klen, |(key, _)| key) }
}

/// The value here, until the iterator moves; null nowhere.
///
/// # Safety
/// `iter` is null or an iterator that no other thread uses; `vlen` is null or room for a length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_value(
    iter: *const Cursor,
    vlen: *mut usize,
) -> *const c_char {
    // SAFETY: the caller promises the same.
    unsafe { lend(iter, vlen, |(_, value)| value) }
}

/// The first failure of the iterator, if there was one.
///
/// # Safety
/// `iter` is null or an iterator that no other thread uses; `errptr` is null, or points to a null
/// pointer or to a text of `malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_iter_get_error(iter: *const Cursor, errptr: *mut *mut c_char) {
    // SAFETY: the caller promises the same.
    let failure = unsafe { handle(iter, "iterator") }.map(|iter| iter.failure.as_ref());
    match failure {
        Ok(None) => {}
        // SAFETY: the caller promises the same.
        Ok(Some(failure)) => unsafe { save(errptr, failure) },
        // SAFETY: as above.
        Err(failure) => unsafe { save(errptr, &failure.into()) },
    }
}

//! Iterators over a key space, in both directions, within bounds.

use crate::access::optional;
use crate::error::{Code, Error, report};
use crate::open::{Keys, Open};
use crate::place::{Bounds, Inner, Place};
use crate::snapshot::{Snapshot, moment};
use crate::space::{Space, space};
use crate::store::place;
use crate::transaction::Running;
use keyrack_ffi::{bytes, destroy, give, handle_mut, or_else, put};
use keyrack_flodb::{ReadOptions, Result as StoreResult};
use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;

/// A place in the keys of a space, as they were when the iterator was made.
#[derive(Debug)]
pub struct Cursor {
    /// `None` once a move has panicked. It may borrow from `transaction`, so it comes first: fields
    /// are dropped in their order.
    place: Option<Place>,
    transaction: Option<Rc<Running>>,
    open: Arc<Open>,
}

impl Cursor {
    pub(crate) fn new(place: Place, transaction: Option<Rc<Running>>, open: Arc<Open>) -> Cursor {
        Cursor { place: Some(place), transaction, open }
    }

    fn step(&mut self, step: impl FnOnce(&mut Place) -> StoreResult<()>) -> Result<(), Error> {
        if self.transaction.is_some() {
            self.open.check()?;
        }
        // Taken out, so that nothing is left of one that panics on its way.
        let Some(mut place) = self.place.take() else {
            let what = "an earlier move of the iterator failed in the library; free the iterator";
            return Err(Error::usage(what));
        };
        let moved = step(&mut place);
        self.place = Some(place);
        Ok(moved?)
    }

    fn entry(&self) -> Option<(&[u8], &[u8])> {
        self.place.as_ref().and_then(Place::entry)
    }
}

/// Bounds of the caller's.
///
/// # Safety
/// Both are null or have so many bytes.
pub(crate) unsafe fn bounds(
    low: *const c_void,
    low_len: usize,
    high: *const c_void,
    high_len: usize,
) -> Result<Bounds, Error> {
    // SAFETY: the caller promises the same.
    let low = unsafe { optional(low, low_len) }?.map(<[u8]>::to_vec);
    // SAFETY: as above.
    let high = unsafe { optional(high, high_len) }?.map(<[u8]>::to_vec);
    Ok(Bounds { low, high })
}

/// Makes an iterator within the bounds that a call gives.
///
/// # Safety
/// `space` is null or a key space; `snapshot` is null or a snapshot; `iterator` is null or room for
/// a pointer; `error` is null, or points to null or an error.
unsafe fn make(
    space: *const Space,
    snapshot: *const Snapshot,
    bounds: impl FnOnce() -> Result<Bounds, Error>,
    iterator: *mut *mut Cursor,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let to = unsafe { place(iterator, "place of the iterator") }?;
        // SAFETY: as above.
        let space = unsafe { self::space(space) }?;
        // SAFETY: as above.
        let moment = unsafe { moment(snapshot, &space.open) }?;
        let bounds = bounds()?;
        let inner = match &space.keys {
            Keys::Whole(db) => Inner::Whole(db.iter_with(moment, ReadOptions::default())?),
            Keys::Space(keys) => Inner::Space(keys.iter_with(moment, ReadOptions::default())?),
        };
        let made = Cursor::new(Place::new(inner, bounds), None, Arc::clone(&space.open));
        // SAFETY: as above.
        unsafe { put(to, give(made)) };
        Ok(())
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// Makes an iterator over the keys from `low` on and before `high`, which are copied; a null
/// pointer with the length 0 is no bound. It stands nowhere at first. It shows the moment of
/// `snapshot`, or if that is null this moment, whatever is written later. The caller frees
/// `*iterator` with keyrack_iterator_free.
///
/// Threads: any at once.
///
/// # Safety
/// `space` is null or a key space; `snapshot` is null or a snapshot; the bounds have so many bytes;
/// `iterator` is null or room for a pointer; `error` is null, or points to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_iterator_new(
    space: *const Space,
    snapshot: *const Snapshot,
    low: *const c_void,
    low_len: usize,
    high: *const c_void,
    high_len: usize,
    iterator: *mut *mut Cursor,
    error: *mut *mut Error,
) -> Code {
    // SAFETY: the caller promises the same.
    let bounds = || unsafe { bounds(low, low_len, high, high_len) };
    // SAFETY: as above.
    unsafe { make(space, snapshot, bounds, iterator, error) }
}

/// As keyrack_iterator_new, over the keys that begin with `prefix`.
///
/// Threads: any at once.
///
/// # Safety
/// As for [`keyrack_iterator_new`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_iterator_new_prefix(
    space: *const Space,
    snapshot: *const Snapshot,
    prefix: *const c_void,
    prefix_len: usize,
    iterator: *mut *mut Cursor,
    error: *mut *mut Error,
) -> Code {
    // SAFETY: the caller promises the same.
    let bounds = || Ok(Bounds::prefix(unsafe { bytes(prefix, prefix_len) }?));
    // SAFETY: as above.
    unsafe { make(space, snapshot, bounds, iterator, error) }
}

/// Moves an iterator.
///
/// # Safety
/// `iterator` is null or an iterator that nobody else uses; `error` is null, or points to null or
/// an error.
unsafe fn step(
    iterator: *mut Cursor,
    error: *mut *mut Error,
    step: impl FnOnce(&mut Place) -> StoreResult<()>,
) -> Code {
    // SAFETY: the caller promises the same.
    let call = || unsafe { handle_mut(iterator, "iterator") }?.step(step);
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// Goes to the first key. A move that fails goes nowhere; the next one may succeed.
///
/// Threads: one at a time for `iterator`.
///
/// # Safety
/// `iterator` is null or an iterator that nobody else uses; `error` is null, or points to null or
/// an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_iterator_first(
    iterator: *mut Cursor,
    error: *mut *mut Error,
) -> Code {
    // SAFETY: the caller promises the same.
    unsafe { step(iterator, error, Place::first) }
}

/// Goes to the last key.
///
/// Threads: one at a time for `iterator`.
///
/// # Safety
/// As for [`keyrack_iterator_first`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_iterator_last(
    iterator: *mut Cursor,
    error: *mut *mut Error,
) -> Code {
    // SAFETY: the caller promises the same.
    unsafe { step(iterator, error, Place::last) }
}

/// Goes to the first key that is not before `target`.
///
/// Threads: one at a time for `iterator`.
///
/// # Safety
/// As for [`keyrack_iterator_first`]; `target` has so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_iterator_seek(
    iterator: *mut Cursor,
    target: *const c_void,
    target_len: usize,
    error: *mut *mut Error,
) -> Code {
    // SAFETY: the caller promises the same.
    match unsafe { bytes(target, target_len) } {
        // SAFETY: as above.
        Ok(target) => unsafe { step(iterator, error, |place| place.seek(target)) },
        // SAFETY: as above.
        Err(failure) => unsafe { report(error, || Err(failure.into())) },
    }
}

/// Goes to the last key that is not after `target`.
///
/// Threads: one at a time for `iterator`.
///
/// # Safety
/// As for [`keyrack_iterator_first`]; `target` has so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_iterator_seek_back(
    iterator: *mut Cursor,
    target: *const c_void,
    target_len: usize,
    error: *mut *mut Error,
) -> Code {
    // SAFETY: the caller promises the same.
    match unsafe { bytes(target, target_len) } {
        // SAFETY: as above.
        Ok(target) => unsafe { step(iterator, error, |place| place.seek_back(target)) },
        // SAFETY: as above.
        Err(failure) => unsafe { report(error, || Err(failure.into())) },
    }
}

/// Goes to the next key; nowhere after the last one. Nothing happens nowhere.
///
/// Threads: one at a time for `iterator`.
///
/// # Safety
/// As for [`keyrack_iterator_first`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_iterator_next(
    iterator: *mut Cursor,
    error: *mut *mut Error,
) -> Code {
    // SAFETY: the caller promises the same.
    unsafe { step(iterator, error, Place::next) }
}

/// Goes to the key before; nowhere before the first one. Nothing happens nowhere.
///
/// Threads: one at a time for `iterator`.
///
/// # Safety
/// As for [`keyrack_iterator_first`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_iterator_prev(
    iterator: *mut Cursor,
    error: *mut *mut Error,
) -> Code {
    // SAFETY: the caller promises the same.
    unsafe { step(iterator, error, Place::prev) }
}

/// 1 if an iterator stands on a key, else 0.
///
/// Threads: one at a time for `iterator`.
///
/// # Safety
/// `iterator` is null or an iterator that nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_iterator_valid(iterator: *const Cursor) -> c_int {
    // SAFETY: the caller promises the same.
    let iterator = unsafe { iterator.as_ref() };
    or_else(0, || c_int::from(iterator.is_some_and(|iterator| iterator.entry().is_some())))
}

/// Lends what an iterator shows.
///
/// # Safety
/// `iterator` is null or an iterator that nobody else uses; `len` is null or room for a length.
unsafe fn lend(
    iterator: *const Cursor,
    len: *mut usize,
    choose: impl FnOnce((&'static [u8], &'static [u8])) -> &'static [u8],
) -> *const c_char {
    // SAFETY: the caller promises the same. The entry is not used here after this call.
    let iterator: Option<&'static Cursor> = unsafe { iterator.as_ref() };
    let shown = or_else(None, || iterator.and_then(Cursor::entry).map(choose));
    // SAFETY: the caller promises room for a length.
    unsafe { put(len, shown.map_or(0, <[u8]>::len)) };
    shown.map_or(ptr::null(), |bytes| bytes.as_ptr().cast())
}

/// The key here, and its length in `*len`; null nowhere. It lives until the iterator moves or is
/// freed, and does not end with a zero.
///
/// Threads: one at a time for `iterator`.
///
/// # Safety
/// `iterator` is null or an iterator that nobody else uses; `len` is null or room for a length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_iterator_key(
    iterator: *const Cursor,
    len: *mut usize,
) -> *const c_char {
    // SAFETY: the caller promises the same.
    unsafe { lend(iterator, len, |(key, _)| key) }
}

/// The value here, and its length in `*len`; null nowhere. It lives until the iterator moves or is
/// freed, and does not end with a zero.
///
/// Threads: one at a time for `iterator`.
///
/// # Safety
/// `iterator` is null or an iterator that nobody else uses; `len` is null or room for a length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_iterator_value(
    iterator: *const Cursor,
    len: *mut usize,
) -> *const c_char {
    // SAFETY: the caller promises the same.
    unsafe { lend(iterator, len, |(_, value)| value) }
}

/// Frees an iterator. Null is nothing.
///
/// Threads: one, the last that uses `iterator`.
///
/// # Safety
/// `iterator` is null or an iterator, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_iterator_free(iterator: *mut Cursor) {
    // SAFETY: the caller promises the same.
    or_else((), || drop(unsafe { destroy(iterator) }));
}

//! Key spaces: ordered sets of keys with names. A plain store is one, with the empty name.

use crate::error::{Code, Error, c_text, report};
use crate::list::List;
use crate::open::{Keys, Kind, Open};
use crate::options::utf8;
use crate::store::{Store, place, ready};
use keyrack_ffi::{destroy, give, handle, or_else, put};
use keyrack_flodb::{Comparator, Spaces};
use std::ffi::{CString, c_char, c_int};
use std::ptr;
use std::sync::Arc;

/// An ordered set of keys of a store. Any number of threads use it at once.
#[derive(Debug)]
pub struct Space {
    pub(crate) open: Arc<Open>,
    pub(crate) keys: Keys,
    name: CString,
}

/// The key space of a handle, of an open store.
///
/// # Safety
/// `space` is null or a key space.
pub(crate) unsafe fn space<'a>(space: *const Space) -> Result<&'a Space, Error> {
    // SAFETY: the caller promises the same.
    let space = unsafe { handle(space, "key space") }?;
    space.open.check()?;
    Ok(space)
}

/// The key spaces of a store that has some.
///
/// # Errors
/// It has none.
fn spaces(open: &Open) -> Result<&Spaces, Error> {
    match &open.kind {
        Kind::Spaces(spaces) => Ok(spaces),
        Kind::Plain(_) => Err(Error::usage(
            "the store has no key spaces: its keys are those of the space with the empty name",
        )),
    }
}

/// The keys with a name, made if they are missing and wanted.
fn keys(open: &Open, name: &str, is_made: bool) -> Result<Option<Keys>, Error> {
    if let (Kind::Plain(db), "") = (&open.kind, name) {
        return Ok(Some(Keys::Whole(db.clone())));
    }
    let spaces = spaces(open)?;
    if is_made {
        return Ok(Some(Keys::Space(spaces.get_or_create(name, &Comparator::Bytewise)?)));
    }
    Ok(spaces.get(name).map(Keys::Space))
}

/// # Safety
/// As for [`keyrack_space_open`].
unsafe fn find(
    store: *const Store,
    name: *const c_char,
    to: *mut *mut Space,
    error: *mut *mut Error,
    is_made: bool,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let to = unsafe { place(to, "place of the key space") }?;
        // SAFETY: as above.
        let open = unsafe { ready(store) }?;
        // SAFETY: as above.
        let name = unsafe { utf8(name, "name of the key space") }?;
        if let Some(keys) = keys(open, name, is_made)? {
            let space = Space { open: Arc::clone(open), keys, name: c_text(name) };
            // SAFETY: as above.
            unsafe { put(to, give(space)) };
        }
        Ok(())
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// The key space with this name, which is made if it is missing. In a plain store the only name is
/// "", and its space is the store. The name is copied. The caller frees `*space` with
/// keyrack_space_free; it is null on failure.
///
/// Threads: any at once.
///
/// # Safety
/// `store` is null or a store; `name` is null or ends with a zero; `space` is null or room for a
/// pointer; `error` is null, or points to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_space_open(
    store: *const Store,
    name: *const c_char,
    space: *mut *mut Space,
    error: *mut *mut Error,
) -> Code {
    // SAFETY: the caller promises the same.
    unsafe { find(store, name, space, error, true) }
}

/// As keyrack_space_open, but one that is missing is not made: `*space` is null, and KEYRACK_OK.
///
/// Threads: any at once.
///
/// # Safety
/// As for [`keyrack_space_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_space_find(
    store: *const Store,
    name: *const c_char,
    space: *mut *mut Space,
    error: *mut *mut Error,
) -> Code {
    // SAFETY: the caller promises the same.
    unsafe { find(store, name, space, error, false) }
}

/// Removes the key space with this name and all of its keys. `*dropped` is 1 if it was there, else
/// 0; it may be null. Calls by handles of the space answer KEYRACK_USAGE from then on.
///
/// Threads: any at once.
///
/// # Safety
/// `store` is null or a store; `name` is null or ends with a zero; `dropped` is null or room for a
/// number; `error` is null, or points to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_space_drop(
    store: *const Store,
    name: *const c_char,
    dropped: *mut c_int,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let open = unsafe { ready(store) }?;
        // SAFETY: as above.
        let name = unsafe { utf8(name, "name of the key space") }?;
        let was_there = spaces(open)?.drop_space(name)?;
        // SAFETY: as above.
        unsafe { put(dropped, c_int::from(was_there)) };
        Ok(())
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// The names of the key spaces, in their order: the texts of the rows of `*list`. Of a plain store
/// the empty name. The caller frees `*list` with keyrack_list_free.
///
/// Threads: any at once.
///
/// # Safety
/// `store` is null or a store; `list` is null or room for a pointer; `error` is null, or points to
/// null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_space_list(
    store: *const Store,
    list: *mut *mut List,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let to = unsafe { place(list, "place of the list") }?;
        // SAFETY: as above.
        let names = match &unsafe { ready(store) }?.kind {
            Kind::Plain(_) => vec![String::new()],
            Kind::Spaces(spaces) => spaces.list().into_iter().map(|(name, _)| name).collect(),
        };
        let rows = names.into_iter().map(|name| (name, 0.0));
        // SAFETY: as above.
        unsafe { put(to, give(List::new(rows))) };
        Ok(())
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// The name of a key space, which lives as long as the handle; null for null.
///
/// Threads: any at once.
///
/// # Safety
/// `space` is null or a key space.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_space_name(space: *const Space) -> *const c_char {
    // SAFETY: the caller promises the same.
    unsafe { space.as_ref() }.map_or(ptr::null(), |space| space.name.as_ptr())
}

/// Frees the handle of a key space. The space and its keys stay. Null is nothing.
///
/// Threads: one, the last that uses `space`.
///
/// # Safety
/// `space` is null or a key space, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_space_free(space: *mut Space) {
    // SAFETY: the caller promises the same.
    or_else((), || drop(unsafe { destroy(space) }));
}

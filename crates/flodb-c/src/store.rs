//! Stores: opened, closed, destroyed; flushes, checkpoints and what they say of themselves.

use crate::error::{Code, Error, report};
use crate::list::List;
use crate::open::{Kind, Open, on_kind};
use crate::options::{Options, utf8};
use keyrack_ffi::{copy_text, destroy, give, handle, or_else, put, required, text};
use keyrack_flodb::{Db, Error as StoreError, Spaces};
use keyrack_vfs::RealFs;
use std::ffi::{OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

/// A store that was opened.
#[derive(Debug)]
pub struct Store {
    pub(crate) open: Arc<Open>,
}

/// The store of a handle, open.
///
/// # Safety
/// `store` is null or a store.
pub(crate) unsafe fn ready<'a>(store: *const Store) -> Result<&'a Arc<Open>, Error> {
    // SAFETY: the caller promises the same.
    let open = &unsafe { handle(store, "store") }?.open;
    open.check()?;
    Ok(open)
}

/// A path of the caller's.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn path<'a>(from: *const c_char) -> Result<&'a Path, Error> {
    // SAFETY: the caller promises the same.
    let bytes = unsafe { text(from, "path") }?;
    Ok(Path::new(OsStr::from_bytes(bytes)))
}

/// The place of a result, made null, so that it is so after a failure.
///
/// # Safety
/// `to` is null or room for a pointer.
pub(crate) unsafe fn place<T>(to: *mut *mut T, name: &str) -> Result<*mut *mut T, Error> {
    let to = required(to, name)?;
    // SAFETY: the caller promises room for a pointer.
    unsafe { put(to, ptr::null_mut()) };
    Ok(to)
}

/// Opens the store in a directory, of the kind that it is or that the options ask for.
fn open(dir: &Path, given: &Options, is_read_only: bool) -> Result<Kind, Error> {
    let options = given.over(given.base()?.with_stored(&RealFs, dir)?)?;
    let found = match Spaces::are_in(&RealFs, dir) {
        Err(StoreError::Io(error)) if error.is_not_found() => None,
        found => found?,
    };
    let has_spaces = match (found, given.key_spaces()) {
        (Some(found), Some(asked)) if found != asked => {
            let (has, value) = if found { ("has", "yes") } else { ("has no", "no") };
            let dir = dir.display();
            return Err(Error::usage(format_args!(
                "{dir} {has} key spaces; set key_spaces to {value}, or do not set it"
            )));
        }
        (Some(found), _) => found,
        (None, asked) => asked.unwrap_or(true),
    };
    Ok(match (has_spaces, is_read_only) {
        (true, false) => Kind::Spaces(Spaces::open(dir, options, &[])?),
        (true, true) => Kind::Spaces(Spaces::open_read_only(dir, options, &[])?),
        (false, false) => Kind::Plain(Db::open(dir, options)?),
        (false, true) => Kind::Plain(Db::open_read_only(dir, options)?),
    })
}

/// # Safety
/// As for [`keyrack_open`].
unsafe fn open_for(
    dir: *const c_char,
    options: *const Options,
    store: *mut *mut Store,
    error: *mut *mut Error,
    is_read_only: bool,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let to = unsafe { place(store, "place of the store") }?;
        // SAFETY: as above.
        let dir = unsafe { path(dir) }?;
        // SAFETY: as above.
        let kind = match unsafe { options.as_ref() } {
            Some(options) => open(dir, options, is_read_only),
            None => open(dir, &Options::default(), is_read_only),
        }?;
        // SAFETY: as above.
        unsafe { put(to, give(Store { open: Open::new(kind) })) };
        Ok(())
    };
    // SAFETY: the caller promises the same.
    unsafe { report(error, call) }
}

/// Opens the store in the directory `dir` for reading and writing, and makes it if there is none.
/// `options` may be null. One process opens a directory for writing at a time, once. The caller
/// closes `*store` with keyrack_close and frees it with keyrack_store_free; it is null on failure.
///
/// Threads: any.
///
/// # Safety
/// `dir` is null or ends with a zero; `options` is null or options that nobody changes meanwhile;
/// `store` is null or room for a pointer; `error` is null, or points to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_open(
    dir: *const c_char,
    options: *const Options,
    store: *mut *mut Store,
    error: *mut *mut Error,
) -> Code {
    // SAFETY: the caller promises the same.
    unsafe { open_for(dir, options, store, error, false) }
}

/// As keyrack_open, for reading, also beside a process that writes. It shows the store of this
/// moment. Writes are an error.
///
/// Threads: any.
///
/// # Safety
/// As for [`keyrack_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_open_read_only(
    dir: *const c_char,
    options: *const Options,
    store: *mut *mut Store,
    error: *mut *mut Error,
) -> Code {
    // SAFETY: the caller promises the same.
    unsafe { open_for(dir, options, store, error, true) }
}

/// Closes a store, and says whether all that was acknowledged is safe. A call of another thread
/// that runs meanwhile is done, or answers KEYRACK_CLOSED. So does one that waits for a key which
/// another transaction has locked: it is woken. Closing again waits until the first close is done,
/// and may tell of the same failure.
///
/// Handles of the store stay valid until they are freed. Iterators that were made before go on to
/// show their moment, but for those of transactions; every other call answers KEYRACK_CLOSED. The
/// directory can be opened again when all handles of the store are freed.
///
/// Threads: any at once.
///
/// # Safety
/// `store` is null or a store; `error` is null, or points to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_close(store: *mut Store, error: *mut *mut Error) -> Code {
    // SAFETY: the caller promises the same.
    let call = || unsafe { handle(store, "store") }?.open.close();
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// Frees the handle of a store, and closes the store if it is open, with nobody to be told of a
/// failure. Its other handles may be freed before or later. Null is nothing.
///
/// Threads: one, the last that uses `store`; others may use handles of key spaces and so on.
///
/// # Safety
/// `store` is null or a store, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_store_free(store: *mut Store) {
    or_else((), || {
        // SAFETY: the caller promises the same.
        if let Some(store) = unsafe { destroy(store) } {
            // Whoever wants to know closes it first. What was acknowledged is in the log.
            let _ = store.open.close();
        }
    });
}

/// Removes the store in a directory that nobody has open, and the directory if nothing else is in
/// it. Nothing to do where there is none.
///
/// Threads: any.
///
/// # Safety
/// `dir` is null or ends with a zero; `error` is null, or points to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_destroy(dir: *const c_char, error: *mut *mut Error) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let dir = unsafe { path(dir) }?;
        Ok(Db::destroy(&RealFs, dir)?)
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// Makes a table of what is in memory. Not needed for safety: the log has it.
///
/// Threads: any at once.
///
/// # Safety
/// `store` is null or a store; `error` is null, or points to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_flush(store: *const Store, error: *mut *mut Error) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let open = unsafe { ready(store) }?;
        Ok(on_kind!(&open.kind, store => store.flush())?)
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// Merges all tables, so that what was replaced or deleted takes no space. Takes as long as writing
/// the whole store; others read and write meanwhile.
///
/// Threads: any at once.
///
/// # Safety
/// `store` is null or a store; `error` is null, or points to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_compact(store: *const Store, error: *mut *mut Error) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let open = unsafe { ready(store) }?;
        Ok(match &open.kind {
            Kind::Plain(db) => db.compact_range(None, None),
            Kind::Spaces(spaces) => spaces.compact(),
        }?)
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// Makes a store of this moment in a new directory of the same file system, mostly by hard links.
///
/// Threads: any at once.
///
/// # Safety
/// `store` is null or a store; `dir` is null or ends with a zero; `error` is null, or points to
/// null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_checkpoint(
    store: *const Store,
    dir: *const c_char,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let open = unsafe { ready(store) }?;
        // SAFETY: as above.
        let dir = unsafe { path(dir) }?;
        Ok(on_kind!(&open.kind, store => store.checkpoint(dir))?)
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// What a store says under the name of a property (docs/engines/flodb.md has the names), as a text
/// in `*value`, which the caller frees with keyrack_free; null if the name is unknown.
///
/// Threads: any at once.
///
/// # Safety
/// `store` is null or a store; `name` is null or ends with a zero; `value` is null or room for a
/// pointer; `error` is null, or points to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_property(
    store: *const Store,
    name: *const c_char,
    value: *mut *mut c_char,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let to = unsafe { place(value, "place of the value") }?;
        // SAFETY: as above.
        let open = unsafe { ready(store) }?;
        // SAFETY: as above.
        let name = unsafe { utf8(name, "name of the property") }?;
        if let Some(found) = on_kind!(&open.kind, store => store.property(name)) {
            // SAFETY: as above.
            unsafe { put(to, copy_text(&found)) };
        }
        Ok(())
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// The counters of a store: rows of a name and a number. The caller frees `*list` with
/// keyrack_list_free.
///
/// Threads: any at once.
///
/// # Safety
/// `store` is null or a store; `list` is null or room for a pointer; `error` is null, or points to
/// null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_statistics(
    store: *const Store,
    list: *mut *mut List,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let to = unsafe { place(list, "place of the list") }?;
        // SAFETY: as above.
        let open = unsafe { ready(store) }?;
        let mut rows = Vec::new();
        let mut visit = |name: &str, number| rows.push((name.to_owned(), number));
        on_kind!(&open.kind, store => store.stats(&mut visit));
        // SAFETY: as above.
        unsafe { put(to, give(List::new(rows))) };
        Ok(())
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

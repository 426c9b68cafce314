//! The objects of a loaded library with a safe face: a database, its iterators, batches, views.
//!
//! An object is freed by the function that belongs to it when its owner goes. Bytes that the
//! library lends live as long as nothing moves the object that lent them, which the borrow says.
#![expect(unsafe_code, reason = "every call of the library is one")]

use super::functions::{Bytes, ErrorPlace, Level, Raw, Rocks, Shared};
use super::library::{Loaded, Own};
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::null_mut;

/// An object and what frees it.
#[derive(Debug)]
pub(super) struct Object {
    raw: Raw,
    free: unsafe extern "C" fn(Raw),
}

impl Object {
    fn new(raw: Raw, free: unsafe extern "C" fn(Raw)) -> Self {
        assert!(!raw.is_null(), "the library makes no empty objects");
        Object { raw, free }
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: the object is its owner's alone, and this is the function that frees its kind.
        unsafe { (self.free)(self.raw) }
    }
}

/// Options of a database that is to be opened. What they point to lives in `keeps`.
#[derive(Debug)]
pub(super) struct OpenOptions {
    options: Object,
    keeps: Vec<Object>,
    loaded: &'static Loaded,
}

impl OpenOptions {
    /// Those that the library has by itself, and a database that is made when it is not there.
    pub(super) fn new(loaded: &'static Loaded) -> Self {
        let Shared { options_create, options_destroy, options_set_create_if_missing, .. } =
            loaded.shared;
        // SAFETY: no arguments; the result is ours to free.
        let raw = unsafe { options_create() };
        let options = Object::new(raw, options_destroy);
        // SAFETY: options that live.
        unsafe { options_set_create_if_missing(options.raw, 1) };
        OpenOptions { options, keeps: Vec::new(), loaded }
    }

    /// Sets options of RocksDB from its own text, `key=value;key=value`.
    ///
    /// # Errors
    /// What the library says of it.
    pub(super) fn set_text(&mut self, rocks: &Rocks, text: &str) -> Result<(), String> {
        let Shared { options_create, options_destroy, .. } = self.loaded.shared;
        let text = c_string(text)?;
        // SAFETY: no arguments; the result is ours to free.
        let raw = unsafe { options_create() };
        let changed = Object::new(raw, options_destroy);
        checked(self.loaded, |error| {
            // SAFETY: two sets of options that live, and a text that ends in a zero.
            unsafe {
                (rocks.get_options_from_string)(
                    self.options.raw,
                    text.as_ptr(),
                    changed.raw,
                    error,
                );
            }
        })?;
        self.options = changed;
        Ok(())
    }

    /// Sets the cache of LevelDB, in bytes.
    pub(super) fn set_cache(&mut self, level: &Level, bytes: usize) {
        // SAFETY: the cache outlives the options and the database, see `keeps`.
        let cache = unsafe { (level.cache_create_lru)(bytes) };
        let cache = Object::new(cache, level.cache_destroy);
        // SAFETY: options and a cache that live.
        unsafe { (level.options_set_cache)(self.options.raw, cache.raw) };
        self.keeps.push(cache);
    }

    /// Sets the filter of LevelDB, in bits for each key.
    pub(super) fn set_filter(&mut self, level: &Level, bits: u8) {
        // SAFETY: the policy outlives the options and the database, see `keeps`.
        let policy = unsafe { (level.filterpolicy_create_bloom)(bits.into()) };
        let policy = Object::new(policy, level.filterpolicy_destroy);
        // SAFETY: options and a policy that live.
        unsafe { (level.options_set_filter_policy)(self.options.raw, policy.raw) };
        self.keeps.push(policy);
    }

    /// Sets one of LevelDB's sizes.
    pub(super) fn set_size(&mut self, set: unsafe extern "C" fn(Raw, usize), bytes: usize) {
        // SAFETY: options that live; the function is one of those that set a size.
        unsafe { set(self.options.raw, bytes) }
    }

    /// Sets one of LevelDB's numbers.
    pub(super) fn set_number(&mut self, set: unsafe extern "C" fn(Raw, c_int), number: c_int) {
        // SAFETY: options that live; the function is one of those that set a number.
        unsafe { set(self.options.raw, number) }
    }
}

/// An open database. Any number of threads may call it at once, as both libraries promise.
#[derive(Debug)]
pub(super) struct Database {
    // Closed before what its options point to is freed.
    database: Object,
    _options: OpenOptions,
    pub(super) loaded: &'static Loaded,
}

// SAFETY: the library synchronizes all calls of a database by itself; the options are only freed,
// by whoever frees the database.
unsafe impl Send for Database {}
// SAFETY: as above.
unsafe impl Sync for Database {}

impl Database {
    /// Opens the database in the directory `path`.
    ///
    /// # Errors
    /// What the library says.
    pub(super) fn open(options: OpenOptions, path: &str) -> Result<Self, String> {
        let loaded = options.loaded;
        let path = c_string(path)?;
        let raw = checked(loaded, |error| {
            // SAFETY: options that live and a path that ends in a zero.
            unsafe { (loaded.shared.open)(options.options.raw, path.as_ptr(), error) }
        })?;
        let database = Object::new(raw, loaded.shared.close);
        Ok(Database { database, _options: options, loaded })
    }

    fn raw(&self) -> Raw {
        self.database.raw
    }

    /// # Errors
    /// What the library says.
    pub(super) fn write(&self, how: &WriteOptions, batch: &WriteBatch) -> Result<(), String> {
        let write = self.loaded.shared.write;
        checked(self.loaded, |error| {
            // SAFETY: options and a batch that live.
            unsafe { write(self.raw(), how.0.raw, batch.batch.raw, error) }
        })
    }

    /// Lends the value of `key` to `visit` and says whether it was there. RocksDB lends it where it
    /// is; LevelDB allocates a copy.
    ///
    /// # Errors
    /// What the library says.
    pub(super) fn get(
        &self,
        how: &ReadOptions,
        key: &[u8],
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, String> {
        match &self.loaded.own {
            Own::Rocks(rocks) => self.get_pinned(rocks, how, key, visit),
            Own::Level(_) => self.get_copied(how, key, visit),
        }
    }

    fn get_pinned(
        &self,
        rocks: &Rocks,
        how: &ReadOptions,
        key: &[u8],
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, String> {
        let found = checked(self.loaded, |error| {
            // SAFETY: the bytes of the key live during the call.
            unsafe {
                (rocks.get_pinned)(self.raw(), how.0.raw, key.as_ptr().cast(), key.len(), error)
            }
        })?;
        if found.is_null() {
            return Ok(false);
        }
        let slice = Object::new(found, rocks.pinnableslice_destroy);
        let mut length = 0;
        // SAFETY: a slice that lives.
        let start = unsafe { (rocks.pinnableslice_value)(slice.raw, &raw mut length) };
        // SAFETY: the slice, which lives until the end of the visit, holds that many bytes.
        visit(unsafe { lent(start, length) });
        Ok(true)
    }

    fn get_copied(
        &self,
        how: &ReadOptions,
        key: &[u8],
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<bool, String> {
        let mut length = 0;
        let Shared { get, free, .. } = self.loaded.shared;
        let found = checked(self.loaded, |error| {
            let length = &raw mut length;
            // SAFETY: the bytes of the key and the place for a length live during the call.
            unsafe { get(self.raw(), how.0.raw, key.as_ptr().cast(), key.len(), length, error) }
        })?;
        if found.is_null() {
            return Ok(false);
        }
        let copy = Object::new(found.cast(), free);
        // SAFETY: the copy, which lives until the end of the visit, has that many bytes.
        visit(unsafe { lent(copy.raw.cast::<c_char>(), length) });
        Ok(true)
    }

    /// The property called `name` as text, if there is one.
    pub(super) fn property(&self, name: &CStr) -> Option<String> {
        let Shared { property_value, free, .. } = self.loaded.shared;
        // SAFETY: a name that ends in a zero; the result is ours to free.
        let text = unsafe { property_value(self.raw(), name.as_ptr()) };
        (!text.is_null()).then(|| take_text(text, free))
    }

    /// Compacts all keys. The library reports no failure of it; a write that follows does.
    pub(super) fn compact(&self) {
        let none = std::ptr::null();
        // SAFETY: a database that lives; no keys are the whole range.
        unsafe { (self.loaded.shared.compact_range)(self.raw(), none, 0, none, 0) };
    }

    /// The property called `name` as a number, if RocksDB has one.
    pub(super) fn property_int(&self, rocks: &Rocks, name: &CStr) -> Option<u64> {
        let mut value = 0;
        // SAFETY: a name that ends in a zero, and a place for the number.
        let code = unsafe { (rocks.property_int)(self.raw(), name.as_ptr(), &raw mut value) };
        (code == 0).then_some(value)
    }

    /// Syncs the log of RocksDB.
    ///
    /// # Errors
    /// What the library says.
    pub(super) fn sync_log(&self, rocks: &Rocks) -> Result<(), String> {
        checked(self.loaded, |error| {
            // SAFETY: a database that lives.
            unsafe { (rocks.flush_wal)(self.raw(), 1, error) }
        })
    }

    /// Writes the memory tables of RocksDB out.
    ///
    /// # Errors
    /// What the library says.
    pub(super) fn flush(&self, rocks: &Rocks) -> Result<(), String> {
        // SAFETY: no arguments; the result is ours to free.
        let how = unsafe { (rocks.flushoptions_create)() };
        let how = Object::new(how, rocks.flushoptions_destroy);
        checked(self.loaded, |error| {
            // SAFETY: a database and options that live.
            unsafe { (rocks.flush)(self.raw(), how.raw, error) }
        })
    }
}

/// How a write is made.
#[derive(Debug)]
pub(super) struct WriteOptions(Object);

impl WriteOptions {
    pub(super) fn new(loaded: &Loaded, is_synced: bool, has_log: bool) -> Self {
        let Shared { writeoptions_create, writeoptions_destroy, writeoptions_set_sync, .. } =
            loaded.shared;
        // SAFETY: no arguments; the result is ours to free.
        let raw = unsafe { writeoptions_create() };
        let options = Object::new(raw, writeoptions_destroy);
        // SAFETY: options that live.
        unsafe { writeoptions_set_sync(options.raw, is_synced.into()) };
        if let Own::Rocks(rocks) = &loaded.own {
            // SAFETY: as above.
            unsafe { (rocks.writeoptions_disable_WAL)(options.raw, (!has_log).into()) };
        }
        WriteOptions(options)
    }
}

/// How a lookup or a walk is made.
#[derive(Debug)]
pub(super) struct ReadOptions(Object);

impl ReadOptions {
    pub(super) fn new(loaded: &Loaded) -> Self {
        // SAFETY: no arguments; the result is ours to free.
        let raw = unsafe { (loaded.shared.readoptions_create)() };
        ReadOptions(Object::new(raw, loaded.shared.readoptions_destroy))
    }
}

/// A view of one moment, and how to read it.
#[derive(Debug)]
pub(super) struct Moment<'d> {
    pub(super) how: ReadOptions,
    raw: Raw,
    database: &'d Database,
}

impl<'d> Moment<'d> {
    pub(super) fn now(database: &'d Database) -> Self {
        let Shared { create_snapshot, readoptions_set_snapshot, .. } = database.loaded.shared;
        // SAFETY: a database that lives, and longer than this.
        let raw = unsafe { create_snapshot(database.raw()) };
        let how = ReadOptions::new(database.loaded);
        // SAFETY: options and a snapshot that live.
        unsafe { readoptions_set_snapshot(how.0.raw, raw) };
        Moment { how, raw, database }
    }
}

impl Drop for Moment<'_> {
    fn drop(&mut self) {
        // SAFETY: it is released once, and what reads it borrows this.
        unsafe { (self.database.loaded.shared.release_snapshot)(self.database.raw(), self.raw) }
    }
}

/// Writes that are applied as one.
#[derive(Debug)]
pub(super) struct WriteBatch {
    batch: Object,
    loaded: &'static Loaded,
}

impl WriteBatch {
    pub(super) fn new(loaded: &'static Loaded) -> Self {
        // SAFETY: no arguments; the result is ours to free.
        let raw = unsafe { (loaded.shared.writebatch_create)() };
        WriteBatch { batch: Object::new(raw, loaded.shared.writebatch_destroy), loaded }
    }

    pub(super) fn clear(&mut self) {
        // SAFETY: a batch that lives.
        unsafe { (self.loaded.shared.writebatch_clear)(self.batch.raw) }
    }

    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) {
        let (k, v) = (key.as_ptr().cast(), value.as_ptr().cast());
        let put = self.loaded.shared.writebatch_put;
        // SAFETY: the bytes live during the call, which copies them.
        unsafe { put(self.batch.raw, k, key.len(), v, value.len()) }
    }

    pub(super) fn delete(&mut self, key: &[u8]) {
        let delete = self.loaded.shared.writebatch_delete;
        // SAFETY: the bytes live during the call, which copies them.
        unsafe { delete(self.batch.raw, key.as_ptr().cast(), key.len()) }
    }
}

/// A walk over the rows of a database. RocksDB is told the bounds, so that it leaves out tables and
/// stops by itself; they are the caller's to heed in any case.
#[derive(Debug)]
pub(super) struct Rows<'d> {
    // Freed before the options that it walks by.
    iterator: Object,
    _how: Option<ReadOptions>,
    database: &'d Database,
}

impl<'d> Rows<'d> {
    /// A walk by options of its own with bounds, which must live as long as it.
    pub(super) fn between(database: &'d Database, low: &'d [u8], high: Option<&'d [u8]>) -> Self {
        let how = ReadOptions::new(database.loaded);
        if let Own::Rocks(rocks) = &database.loaded.own {
            let set = rocks.readoptions_set_iterate_lower_bound;
            // SAFETY: the bounds are borrowed for as long as the walk lives.
            unsafe { set(how.0.raw, low.as_ptr().cast(), low.len()) };
            if let Some(high) = high {
                let set = rocks.readoptions_set_iterate_upper_bound;
                // SAFETY: as above.
                unsafe { set(how.0.raw, high.as_ptr().cast(), high.len()) };
            }
        }
        let iterator = Self::iterator(database, &how);
        Rows { iterator, _how: Some(how), database }
    }

    /// A walk by the options of a moment.
    pub(super) fn at(moment: &'d Moment<'_>) -> Self {
        let iterator = Self::iterator(moment.database, &moment.how);
        Rows { iterator, _how: None, database: moment.database }
    }

    fn iterator(database: &Database, how: &ReadOptions) -> Object {
        let Shared { create_iterator, iter_destroy, .. } = database.loaded.shared;
        // SAFETY: the library copies the options; what they name, bounds or a snapshot, lives as
        // long as the walk: it is borrowed by it.
        let raw = unsafe { create_iterator(database.raw(), how.0.raw) };
        Object::new(raw, iter_destroy)
    }

    fn shared(&self) -> &'static Shared {
        &self.database.loaded.shared
    }

    pub(super) fn is_at_row(&self) -> bool {
        // SAFETY: an iterator that lives.
        unsafe { (self.shared().iter_valid)(self.iterator.raw) != 0 }
    }

    /// To the first row that is not below `key`.
    pub(super) fn seek(&mut self, key: &[u8]) {
        // SAFETY: the bytes live during the call.
        unsafe { (self.shared().iter_seek)(self.iterator.raw, key.as_ptr().cast(), key.len()) }
    }

    pub(super) fn seek_to_last(&mut self) {
        // SAFETY: an iterator that lives.
        unsafe { (self.shared().iter_seek_to_last)(self.iterator.raw) }
    }

    /// # Panics
    /// When it is not at a row, as [`Rows::row`] and [`Rows::back`].
    pub(super) fn forth(&mut self) {
        assert!(self.is_at_row());
        // SAFETY: an iterator at a row.
        unsafe { (self.shared().iter_next)(self.iterator.raw) }
    }

    pub(super) fn back(&mut self) {
        assert!(self.is_at_row());
        // SAFETY: an iterator at a row.
        unsafe { (self.shared().iter_prev)(self.iterator.raw) }
    }

    /// The row that it is at.
    pub(super) fn row(&self) -> (&[u8], &[u8]) {
        assert!(self.is_at_row());
        let (mut key_length, mut value_length) = (0, 0);
        let Shared { iter_key, iter_value, .. } = *self.shared();
        // SAFETY: an iterator at a row, and a place for the length.
        let key = unsafe { iter_key(self.iterator.raw, &raw mut key_length) };
        // SAFETY: as above.
        let value = unsafe { iter_value(self.iterator.raw, &raw mut value_length) };
        // SAFETY: the bytes stay where they are until the iterator moves, which needs it mutably.
        let key = unsafe { lent(key, key_length) };
        // SAFETY: as above.
        let value = unsafe { lent(value, value_length) };
        (key, value)
    }

    /// # Errors
    /// What ended the walk before its time.
    pub(super) fn status(&self) -> Result<(), String> {
        checked(self.database.loaded, |error| {
            // SAFETY: an iterator that lives.
            unsafe { (self.shared().iter_get_error)(self.iterator.raw, error) }
        })
    }
}

/// Bytes that the library lends.
///
/// # Safety
/// `start` has `length` bytes that nobody changes for as long as `'a`; it may be null when there
/// are none.
unsafe fn lent<'a>(start: Bytes, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(start.cast(), length) }
}

/// Makes a call that may leave an error.
fn checked<T>(loaded: &Loaded, call: impl FnOnce(ErrorPlace) -> T) -> Result<T, String> {
    let mut error: *mut c_char = null_mut();
    let result = call(&raw mut error);
    if error.is_null() { Ok(result) } else { Err(take_text(error, loaded.shared.free)) }
}

/// A text that the library allocated; not null.
fn take_text(text: *mut c_char, free: unsafe extern "C" fn(Raw)) -> String {
    let owned = Object::new(text.cast(), free);
    // SAFETY: the library ends its texts with a zero, and this one is ours until it is freed.
    let text = unsafe { CStr::from_ptr(owned.raw.cast()) };
    text.to_string_lossy().into_owned()
}

fn c_string(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| format!("'{}' has a zero in it", text.escape_default()))
}

//! Snapshots: moments of a database to read from.

use crate::database::{Database, Held};
use keyrack_ffi::{destroy, give, handle, or_else};
use std::ptr;
use std::sync::Arc;

/// A moment of a database to read from.
#[derive(Debug)]
pub struct Snapshot {
    pub(crate) held: Arc<Held>,
}

/// Keeps this moment of a database readable. Null if `db` is null.
///
/// # Safety
/// `db` is null or an open database.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_create_snapshot(db: *mut Database) -> *const Snapshot {
    or_else(ptr::null(), || {
        // SAFETY: the caller promises the same.
        let Ok(db) = (unsafe { handle(db, "database") }) else { return ptr::null() };
        give(Snapshot { held: Arc::new(db.hold()) }).cast_const()
    })
}

/// Gives up a moment. Iterators that read from it go on.
///
/// # Safety
/// `snapshot` is null or from [`leveldb_create_snapshot`], and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_release_snapshot(_db: *mut Database, snapshot: *const Snapshot) {
    // SAFETY: the caller promises the same.
    or_else((), || drop(unsafe { destroy(snapshot.cast_mut()) }));
}

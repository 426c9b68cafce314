//! Options of reads and of writes.
//!
//! | option | here |
//! |---|---|
//! | `fill_cache`, `snapshot`, `sync` | as in LevelDB |
//! | `verify_checksums` | without effect: the checksum of every block is computed when it is read |

use crate::database::Held;
use crate::options::set;
use crate::snapshot::Snapshot;
use crate::status::Failure;
use keyrack_ffi::{destroy, give};
use keyrack_flodb::ReadOptions as StoreReads;
use std::sync::{Arc, Weak};

/// Options of reads.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    fill_cache: bool,
    /// The moment to read from. Released meanwhile, it is an error and not an access to memory that
    /// was freed.
    snapshot: Option<Weak<Held>>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions { fill_cache: true, snapshot: None }
    }
}

impl ReadOptions {
    pub(crate) fn of_store(&self) -> StoreReads {
        StoreReads { fill_cache: self.fill_cache, ..StoreReads::default() }
    }

    /// The moment to read from, if it is not now.
    ///
    /// # Errors
    /// It was released.
    pub(crate) fn snapshot(&self) -> Result<Option<Arc<Held>>, Failure> {
        let Some(snapshot) = &self.snapshot else { return Ok(None) };
        match snapshot.upgrade() {
            Some(held) => Ok(Some(held)),
            None => Err(Failure::invalid("the snapshot of the read options was released")),
        }
    }
}

/// Options of writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriteOptions {
    pub(crate) sync: bool,
}

/// Makes options of reads: from now, and blocks that are read are cached.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_readoptions_create() -> *mut ReadOptions {
    give(ReadOptions::default())
}

/// Frees options of reads. Iterators that were made with them go on.
///
/// # Safety
/// `options` is null or from [`leveldb_readoptions_create`], and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_readoptions_destroy(options: *mut ReadOptions) {
    // SAFETY: the caller promises the same.
    drop(unsafe { destroy(options) });
}

/// Has no effect: the checksum of every block is computed when it is read.
///
/// # Safety
/// None is needed: nothing is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_readoptions_set_verify_checksums(
    _options: *mut ReadOptions,
    _value: u8,
) {
}

/// Whether blocks that a read had to load stay in memory: yes.
///
/// # Safety
/// `options` is null or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_readoptions_set_fill_cache(options: *mut ReadOptions, value: u8) {
    // SAFETY: the caller promises the same.
    unsafe { set(options, |options| options.fill_cache = value != 0) };
}

/// The moment to read from; null is that of the read. A read after its release is an error.
///
/// # Safety
/// Both are null or handles; no other thread uses the options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_readoptions_set_snapshot(
    options: *mut ReadOptions,
    snapshot: *const Snapshot,
) {
    // SAFETY: the caller promises the same.
    let held = unsafe { snapshot.as_ref() }.map(|snapshot| Arc::downgrade(&snapshot.held));
    // SAFETY: as above.
    unsafe { set(options, |options| options.snapshot = held) };
}

/// Makes options of writes: they return when the kernel has them.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_writeoptions_create() -> *mut WriteOptions {
    give(WriteOptions::default())
}

/// Frees options of writes.
///
/// # Safety
/// `options` is null or from [`leveldb_writeoptions_create`], and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writeoptions_destroy(options: *mut WriteOptions) {
    // SAFETY: the caller promises the same.
    drop(unsafe { destroy(options) });
}

/// Whether a write returns when it survives a power loss: no, it survives the end of the process.
///
/// # Safety
/// `options` is null or a handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_writeoptions_set_sync(options: *mut WriteOptions, value: u8) {
    // SAFETY: the caller promises the same.
    unsafe { set(options, |options| options.sync = value != 0) };
}

//! What is no part of a database: caches, the environment, memory, versions.

use keyrack_ffi::{copy_bytes, destroy, give, handle, or_else};
use keyrack_vfs::{Fs, RealFs};
use std::env;
use std::ffi::{OsString, c_char, c_int, c_void};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::ptr;

/// The version of LevelDB whose interface this is.
const MAJOR_VERSION: c_int = 1;
const MINOR_VERSION: c_int = 23;

/// A capacity for cached blocks.
#[derive(Debug)]
pub struct Cache {
    pub(crate) capacity_bytes: usize,
}

/// The system that databases are on.
#[derive(Debug)]
pub struct Env {
    _kind: u8,
}

/// Nothing makes one.
#[derive(Debug)]
pub struct Logger {
    _kind: u8,
}

/// Makes a capacity: so many bytes for each database that is opened with it; with 0 nothing is
/// cached.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_cache_create_lru(capacity: usize) -> *mut Cache {
    give(Cache { capacity_bytes: capacity })
}

/// Frees a capacity. Databases that were opened with it go on.
///
/// # Safety
/// `cache` is null or from [`leveldb_cache_create_lru`], and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_cache_destroy(cache: *mut Cache) {
    // SAFETY: the caller promises the same.
    drop(unsafe { destroy(cache) });
}

/// Makes a handle of the system.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_create_default_env() -> *mut Env {
    give(Env { _kind: 0 })
}

/// Frees a handle of the system.
///
/// # Safety
/// `env` is null or from [`leveldb_create_default_env`], and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_env_destroy(env: *mut Env) {
    // SAFETY: the caller promises the same.
    drop(unsafe { destroy(env) });
}

/// A directory for tests, made if it is missing: that of the variable TEST_TMPDIR, or
/// leveldbtest-UID below /tmp. Null if `env` is null. To be freed by [`leveldb_free`].
///
/// # Safety
/// `env` is null or from [`leveldb_create_default_env`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_env_get_test_directory(env: *mut Env) -> *mut c_char {
    or_else(ptr::null_mut(), || {
        // SAFETY: the caller promises the same.
        if unsafe { handle(env, "environment") }.is_err() {
            return ptr::null_mut();
        }
        let given = env::var_os("TEST_TMPDIR").filter(|dir| !dir.is_empty());
        let dir = given.unwrap_or_else(|| {
            // SAFETY: it takes nothing and cannot fail.
            let user = unsafe { libc::geteuid() };
            OsString::from(format!("/tmp/leveldbtest-{user}"))
        });
        // Whoever uses it is told what is wrong with it.
        let _ = RealFs.create_dir_all(Path::new(&dir));
        debug_assert!(!dir.as_bytes().contains(&0), "variables end with a zero");
        let mut bytes = dir.into_vec();
        bytes.push(0);
        copy_bytes(&bytes)
    })
}

/// Frees memory that a call of this library returned.
///
/// # Safety
/// `ptr` is null or from `malloc`, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_free(ptr: *mut c_void) {
    // SAFETY: the caller promises the same.
    unsafe { libc::free(ptr) };
}

/// The version of LevelDB whose interface this is: 1.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_major_version() -> c_int {
    MAJOR_VERSION
}

/// The second part of that version: 23.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_minor_version() -> c_int {
    MINOR_VERSION
}

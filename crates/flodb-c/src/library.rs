//! The library itself: versions, flags, and the memory that it returns.

use std::ffi::{c_char, c_void};

/// The version of this interface. It changes when a program that was compiled against an earlier
/// header cannot run with the library.
pub const KEYRACK_ABI_VERSION: u32 = 1;

/// For writes and transactions: return when it survives a power loss, and all before it.
pub const KEYRACK_SYNC: u32 = 1;
/// For transactions: snapshot isolation in place of serializable. Cheaper, as nothing that is only
/// read is checked; write skew is possible.
pub const KEYRACK_SNAPSHOT_ISOLATION: u32 = 2;

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");

/// The KEYRACK_ABI_VERSION of the library that runs. A program compares it with that of its header.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn keyrack_abi_version() -> u32 {
    KEYRACK_ABI_VERSION
}

/// The version of the library, such as "0.1.0". It is there as long as the program.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn keyrack_version() -> *const c_char {
    VERSION.as_ptr().cast()
}

/// Frees a value or a text that a call returned in memory of its own, which its comment says. Null
/// is nothing.
///
/// Threads: any.
///
/// # Safety
/// `memory` is null or from such a call, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_free(memory: *mut c_void) {
    // SAFETY: as the caller promises, it is null or from `malloc`.
    unsafe { libc::free(memory) };
}

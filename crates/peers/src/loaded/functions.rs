//! The C functions that RocksDB and LevelDB share, looked up in a library by name, and those that
//! one of them has alone.
//!
//! Both libraries have the same interface under two prefixes (`rocksdb_open`, `leveldb_open`): the
//! one is a child of the other. A function of the table is called by its name without the prefix.
//! Objects are pointers that the library made and that only the library looks into; an error is a
//! text that the library allocated, left in a place that the caller names.
#![expect(unsafe_code, reason = "the signatures of a C library are taken on trust")]

use libloading::Library;
use std::ffi::{c_char, c_int, c_uchar, c_void};

/// An object of the library.
pub(super) type Raw = *mut c_void;
/// Where a call leaves the text of an error.
pub(super) type ErrorPlace = *mut *mut c_char;
/// Bytes that the library reads, or lends.
pub(super) type Bytes = *const c_char;

/// Makes a table of functions and the way to fill it.
macro_rules! functions {
    ($(#[$about:meta])* $table:ident {
        $($name:ident: ($($argument:ty),*) $(-> $result:ty)?;)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug)]
        pub(super) struct $table {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl $table {
            /// Looks every function up.
            ///
            /// # Errors
            /// The name of the first one that is not there.
            pub(super) fn find(library: &Library, prefix: &str) -> Result<Self, String> {
                Ok($table { $($name: find(library, prefix, stringify!($name))?,)* })
            }
        }
    };
}

/// The function `PREFIXname`, as a `T`, which is the type of a pointer to it.
fn find<T: Copy>(library: &Library, prefix: &str, name: &str) -> Result<T, String> {
    let symbol = format!("{prefix}{name}");
    // SAFETY: the tables below give each name the signature that the header of the library has for
    // it; it has not changed in any of its versions.
    let found = unsafe { library.get::<T>(symbol.as_bytes()) };
    found.map(|function| *function).map_err(|_| format!("it has no function {symbol}"))
}

functions! {
    /// What both have.
    Shared {
        open: (Raw, Bytes, ErrorPlace) -> Raw;
        close: (Raw);
        write: (Raw, Raw, Raw, ErrorPlace);
        get: (Raw, Raw, Bytes, usize, *mut usize, ErrorPlace) -> *mut c_char;
        free: (Raw);
        property_value: (Raw, Bytes) -> *mut c_char;
        compact_range: (Raw, Bytes, usize, Bytes, usize);
        create_snapshot: (Raw) -> Raw;
        release_snapshot: (Raw, Raw);
        create_iterator: (Raw, Raw) -> Raw;
        iter_destroy: (Raw);
        iter_valid: (Raw) -> c_uchar;
        iter_seek: (Raw, Bytes, usize);
        iter_seek_to_last: (Raw);
        iter_next: (Raw);
        iter_prev: (Raw);
        iter_key: (Raw, *mut usize) -> Bytes;
        iter_value: (Raw, *mut usize) -> Bytes;
        iter_get_error: (Raw, ErrorPlace);
        writebatch_create: () -> Raw;
        writebatch_destroy: (Raw);
        writebatch_clear: (Raw);
        writebatch_put: (Raw, Bytes, usize, Bytes, usize);
        writebatch_delete: (Raw, Bytes, usize);
        options_create: () -> Raw;
        options_destroy: (Raw);
        options_set_create_if_missing: (Raw, c_uchar);
        readoptions_create: () -> Raw;
        readoptions_destroy: (Raw);
        readoptions_set_snapshot: (Raw, Raw);
        writeoptions_create: () -> Raw;
        writeoptions_destroy: (Raw);
        writeoptions_set_sync: (Raw, c_uchar);
    }
}

functions! {
    /// What RocksDB has alone.
    #[expect(non_snake_case, reason = "a function is called by the name that the library gave it")]
    Rocks {
        get_options_from_string: (Raw, Bytes, Raw, ErrorPlace);
        get_pinned: (Raw, Raw, Bytes, usize, ErrorPlace) -> Raw;
        pinnableslice_value: (Raw, *mut usize) -> Bytes;
        pinnableslice_destroy: (Raw);
        readoptions_set_iterate_lower_bound: (Raw, Bytes, usize);
        readoptions_set_iterate_upper_bound: (Raw, Bytes, usize);
        writeoptions_disable_WAL: (Raw, c_int);
        flush_wal: (Raw, c_uchar, ErrorPlace);
        flush: (Raw, Raw, ErrorPlace);
        flushoptions_create: () -> Raw;
        flushoptions_destroy: (Raw);
        property_int: (Raw, Bytes, *mut u64) -> c_int;
    }
}

functions! {
    /// What LevelDB has alone, or sets one by one.
    Level {
        major_version: () -> c_int;
        minor_version: () -> c_int;
        cache_create_lru: (usize) -> Raw;
        cache_destroy: (Raw);
        options_set_cache: (Raw, Raw);
        filterpolicy_create_bloom: (c_int) -> Raw;
        filterpolicy_destroy: (Raw);
        options_set_filter_policy: (Raw, Raw);
        options_set_write_buffer_size: (Raw, usize);
        options_set_max_open_files: (Raw, c_int);
        options_set_block_size: (Raw, usize);
        options_set_block_restart_interval: (Raw, c_int);
        options_set_max_file_size: (Raw, usize);
        options_set_compression: (Raw, c_int);
    }
}

//! # keyrack-deltafs-c: name spaces of files for programs in C
//!
//! `include/keyrack_fs.h` is the interface. cbindgen makes it from this crate, the comments
//! included, in a test that compares or, with `KEYRACK_REWRITE=1`, writes it; a program in C uses
//! every call. `python/keyrack_fs.py` is a module over the same library.
//!
//! ```text
//!   program.c  -- keyrack_fs.h -->  open, calls, listing
//!   module.py  -- ctypes -------->    |
//!                                  pointers  become slices and references
//!                                  status    results become numbers and a message
//!                                     |
//!                                  space     a log of this process, or servers
//!                                     |
//!                                  keyrack_deltafs
//! ```
//!
//! A pointer that is null where it must not be is EINVAL. Everything else about pointers is the
//! caller's promise, and stands at each function under "Safety".

mod calls;
mod constants;
mod listing;
mod open;
mod pointers;
mod space;
mod status;

pub use calls::{
    keyrack_fs_chmod, keyrack_fs_chown, keyrack_fs_create, keyrack_fs_lstat_path, keyrack_fs_mkdir,
    keyrack_fs_read, keyrack_fs_readlink, keyrack_fs_rename, keyrack_fs_rmdir,
    keyrack_fs_stat_path, keyrack_fs_symlink, keyrack_fs_truncate, keyrack_fs_unlink,
    keyrack_fs_utime, keyrack_fs_write,
};
pub use constants::{
    KEYRACK_FS_CREATE, KEYRACK_FS_DIRECTORY, KEYRACK_FS_EXCLUSIVE, KEYRACK_FS_FILE,
    KEYRACK_FS_NAME_SIZE, KEYRACK_FS_PATH_SIZE, KEYRACK_FS_READ_ONLY, KEYRACK_FS_SYMLINK,
    KEYRACK_FS_TYPE_MASK,
};
pub use listing::{Entry, Listing, keyrack_fs_closedir, keyrack_fs_opendir, keyrack_fs_readdir};
pub use open::{
    Fs, keyrack_fs_close, keyrack_fs_connect, keyrack_fs_open, keyrack_fs_sync, keyrack_fs_version,
};
pub use status::{Facts, keyrack_fs_message};

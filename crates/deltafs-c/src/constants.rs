//! The numbers of the interface. The header has them under the same names.

use keyrack_deltafs::{NAME_BYTES_MAX, PATH_BYTES_MAX};

/// For `keyrack_fs_open`: make the log if there is none.
pub const KEYRACK_FS_CREATE: u32 = 1;
/// For `keyrack_fs_open`: change nothing; others may write meanwhile, unseen.
pub const KEYRACK_FS_READ_ONLY: u32 = 2;

/// For `keyrack_fs_create` and `keyrack_fs_rename`: fail with EEXIST if the name is taken.
pub const KEYRACK_FS_EXCLUSIVE: u32 = 1;

/// The bits of a mode that say what an entry is, as in `<sys/stat.h>`: octal 170000.
pub const KEYRACK_FS_TYPE_MASK: u32 = 0o170_000;
/// A file: octal 100000.
pub const KEYRACK_FS_FILE: u32 = 0o100_000;
/// A directory: octal 040000.
pub const KEYRACK_FS_DIRECTORY: u32 = 0o040_000;
/// A symbolic link: octal 120000.
pub const KEYRACK_FS_SYMLINK: u32 = 0o120_000;

/// Bytes of a name with its zero, at most.
pub const KEYRACK_FS_NAME_SIZE: usize = 256;
/// Bytes of a path, or of the target of a link, with its zero, at most.
pub const KEYRACK_FS_PATH_SIZE: usize = 4097;

const _: () = assert!(
    KEYRACK_FS_NAME_SIZE == NAME_BYTES_MAX + 1 && KEYRACK_FS_PATH_SIZE == PATH_BYTES_MAX + 1,
    "there is room for the longest name and the longest path"
);
const _: () = assert!(
    KEYRACK_FS_TYPE_MASK == libc::S_IFMT
        && KEYRACK_FS_FILE == libc::S_IFREG
        && KEYRACK_FS_DIRECTORY == libc::S_IFDIR
        && KEYRACK_FS_SYMLINK == libc::S_IFLNK,
    "types are those of the system"
);

//! The calls on an open name space.

use crate::constants::KEYRACK_FS_EXCLUSIVE;
use crate::open::{Fs, check_flags};
use crate::pointers::{self, bytes, put};
use crate::space::Space;
use crate::status::{Facts, Failure, code, number};
use keyrack_deltafs::rpc::SetFields;
use keyrack_deltafs::{INLINE_BYTES_MAX, IfExists, IfTaken, Kind, Stat};
use keyrack_ffi::room;
use std::ffi::{c_char, c_int, c_void};

/// What every call with a path is given.
///
/// # Safety
/// As for [`pointers::fs`] and [`bytes`].
unsafe fn given<'a>(fs: *const Fs, path: *const c_char) -> Result<(&'a Fs, &'a [u8]), Failure> {
    // SAFETY: the caller promises the same.
    let fs = unsafe { pointers::fs(fs) }?;
    // SAFETY: the caller promises the same.
    Ok((fs, unsafe { bytes(path) }?))
}

/// A call with a path.
///
/// # Safety
/// `fs` is null or an open name space; `path` is null or ends with a zero.
unsafe fn on_path(
    fs: *const Fs,
    path: *const c_char,
    call: impl FnOnce(&mut dyn Space, &[u8]) -> Result<(), Failure>,
) -> c_int {
    // SAFETY: the caller promises the same.
    let given = unsafe { given(fs, path) };
    code(given.and_then(|(fs, path)| fs.with(|space| call(space, path))))
}

/// Makes a directory.
///
/// # Safety
/// `fs` is null or an open name space; `path` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_mkdir(fs: *const Fs, path: *const c_char, mode: u32) -> c_int {
    // SAFETY: the caller promises the same.
    unsafe { on_path(fs, path, |fs, path| fs.mkdir(path, mode)) }
}

/// Makes an empty file. One that is there is taken as it is, or is EEXIST with
/// `KEYRACK_FS_EXCLUSIVE`.
///
/// # Safety
/// `fs` is null or an open name space; `path` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_create(
    fs: *const Fs,
    path: *const c_char,
    mode: u32,
    flags: u32,
) -> c_int {
    if let Err(failure) = check_flags(flags, KEYRACK_FS_EXCLUSIVE) {
        return code(Err(failure));
    }
    let if_exists = if flags & KEYRACK_FS_EXCLUSIVE == 0 { IfExists::Open } else { IfExists::Fail };
    // SAFETY: the caller promises the same.
    unsafe { on_path(fs, path, |fs, path| fs.create(path, mode, if_exists)) }
}

/// Makes a symbolic link to `target` at `path`.
///
/// # Safety
/// `fs` is null or an open name space; `target` and `path` are null or end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_symlink(
    fs: *const Fs,
    target: *const c_char,
    path: *const c_char,
) -> c_int {
    // SAFETY: the caller promises the same.
    let target = match unsafe { bytes(target) } {
        Ok(target) => target,
        Err(failure) => return code(Err(failure.into())),
    };
    // SAFETY: the caller promises the same.
    unsafe { on_path(fs, path, |fs, path| fs.symlink(target, path)) }
}

/// Removes a file or a link.
///
/// # Safety
/// `fs` is null or an open name space; `path` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_unlink(fs: *const Fs, path: *const c_char) -> c_int {
    // SAFETY: the caller promises the same.
    unsafe { on_path(fs, path, |fs, path| fs.unlink(path)) }
}

/// Removes an empty directory; of another it is ENOTEMPTY.
///
/// # Safety
/// `fs` is null or an open name space; `path` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_rmdir(fs: *const Fs, path: *const c_char) -> c_int {
    // SAFETY: the caller promises the same.
    unsafe { on_path(fs, path, |fs, path| fs.rmdir(path)) }
}

/// Gives an entry another name. What has that name is replaced, or is EEXIST with
/// `KEYRACK_FS_EXCLUSIVE`.
///
/// # Safety
/// `fs` is null or an open name space; `from` and `to` are null or end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_rename(
    fs: *const Fs,
    from: *const c_char,
    to: *const c_char,
    flags: u32,
) -> c_int {
    // SAFETY: the caller promises the same.
    let from = unsafe { bytes(from) }.map_err(Failure::from);
    let from = match check_flags(flags, KEYRACK_FS_EXCLUSIVE).and(from) {
        Ok(from) => from,
        Err(failure) => return code(Err(failure)),
    };
    let if_taken = if flags & KEYRACK_FS_EXCLUSIVE == 0 { IfTaken::Replace } else { IfTaken::Fail };
    // SAFETY: the caller promises the same.
    unsafe { on_path(fs, to, |fs, to| fs.rename(from, to, if_taken)) }
}

/// Sets the permissions of what a path names; links are followed.
///
/// # Safety
/// `fs` is null or an open name space; `path` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_chmod(fs: *const Fs, path: *const c_char, mode: u32) -> c_int {
    let set = SetFields { mode: Some(mode), ..SetFields::default() };
    // SAFETY: the caller promises the same.
    unsafe { on_path(fs, path, |fs, path| fs.set(path, set)) }
}

/// Sets owner and group; links are followed.
///
/// # Safety
/// `fs` is null or an open name space; `path` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_chown(
    fs: *const Fs,
    path: *const c_char,
    uid: u32,
    gid: u32,
) -> c_int {
    let set = SetFields { uid: Some(uid), gid: Some(gid), ..SetFields::default() };
    // SAFETY: the caller promises the same.
    unsafe { on_path(fs, path, |fs, path| fs.set(path, set)) }
}

/// Sets the modification time, nanoseconds since 1970; links are followed.
///
/// # Safety
/// `fs` is null or an open name space; `path` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_utime(
    fs: *const Fs,
    path: *const c_char,
    mtime_ns: u64,
) -> c_int {
    let set = SetFields { mtime_ns: Some(mtime_ns), ..SetFields::default() };
    // SAFETY: the caller promises the same.
    unsafe { on_path(fs, path, |fs, path| fs.set(path, set)) }
}

/// Facts, by a way to ask for them.
///
/// # Safety
/// `fs` is null or an open name space; `path` is null or ends with a zero; `stat` is null or room.
unsafe fn facts(
    fs: *const Fs,
    path: *const c_char,
    stat: *mut Facts,
    ask: impl FnOnce(&mut dyn Space, &[u8]) -> Result<Stat, Failure>,
) -> c_int {
    // SAFETY: the caller promises the same.
    code(unsafe { given(fs, path) }.and_then(|(fs, path)| {
        let found = fs.with(|space| ask(space, path))?;
        // SAFETY: the caller promises room for the facts.
        Ok(unsafe { put(stat, Facts::from(&found)) }?)
    }))
}

/// Facts of what a path names; links are followed.
///
/// # Safety
/// `fs` is null or an open name space; `path` is null or ends with a zero; `stat` is null or room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_stat_path(
    fs: *const Fs,
    path: *const c_char,
    stat: *mut Facts,
) -> c_int {
    // SAFETY: the caller promises the same.
    unsafe { facts(fs, path, stat, |fs, path| fs.stat(path)) }
}

/// Facts of what a path names; of a link its own.
///
/// # Safety
/// `fs` is null or an open name space; `path` is null or ends with a zero; `stat` is null or room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_lstat_path(
    fs: *const Fs,
    path: *const c_char,
    stat: *mut Facts,
) -> c_int {
    // SAFETY: the caller promises the same.
    unsafe { facts(fs, path, stat, |fs, path| fs.lstat(path)) }
}

/// Writes the target of a link with a zero to `target`, cut to `size` bytes. Returns its whole
/// length without the zero.
///
/// # Safety
/// `fs` is null or an open name space; `path` is null or ends with a zero; `target` has `size`
/// bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_readlink(
    fs: *const Fs,
    path: *const c_char,
    target: *mut c_char,
    size: usize,
) -> i64 {
    // SAFETY: the caller promises the same.
    let given = unsafe { given(fs, path) };
    // SAFETY: the caller promises the same.
    let room = unsafe { room(target, size) };
    number(given.and_then(|(fs, path)| {
        let (found, room) = (fs.with(|space| space.read_link(path))?, room?);
        if let Some(end) = room.len().checked_sub(1) {
            let end = end.min(found.len());
            room[..end].copy_from_slice(&found[..end]);
            room[end] = 0;
        }
        // At most 4,096.
        Ok(found.len() as i64)
    }))
}

/// Reads up to `count` bytes of a file, of any size, from `offset` on. Returns how many came.
///
/// # Safety
/// `fs` is null or an open name space; `path` is null or ends with a zero; `to` has `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_read(
    fs: *const Fs,
    path: *const c_char,
    offset: u64,
    to: *mut c_void,
    count: usize,
) -> i64 {
    // SAFETY: the caller promises the same.
    let given = unsafe { given(fs, path) };
    // SAFETY: the caller promises the same.
    let room = unsafe { room(to, count) };
    number(given.and_then(|(fs, path)| {
        let room = room?;
        let found = fs.with(|space| space.read(path, offset, room.len()))?;
        room[..found.len()].copy_from_slice(&found);
        Ok(i64::try_from(found.len()).unwrap_or(i64::MAX))
    }))
}

/// Writes `count` bytes into a file, which grows as far as it has to. Returns how many.
///
/// # Safety
/// `fs` is null or an open name space; `path` is null or ends with a zero; `from` has `count`
/// bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_write(
    fs: *const Fs,
    path: *const c_char,
    offset: u64,
    from: *const c_void,
    count: usize,
) -> i64 {
    // SAFETY: the caller promises the same.
    let given = unsafe { given(fs, path) };
    // SAFETY: the caller promises the same.
    let data = unsafe { keyrack_ffi::bytes(from, count) };
    number(given.and_then(|(fs, path)| {
        let data = data?;
        fs.with(|space| space.write(path, offset, data))?;
        Ok(i64::try_from(count).unwrap_or(i64::MAX))
    }))
}

/// Cuts a file to `size` bytes, or extends it with zeros; links are followed.
///
/// # Safety
/// `fs` is null or an open name space; `path` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_truncate(
    fs: *const Fs,
    path: *const c_char,
    size: u64,
) -> c_int {
    // SAFETY: the caller promises the same.
    unsafe { on_path(fs, path, |fs, path| truncate(fs, path, size)) }
}

/// The size of an empty file can be set without any bytes, for one whose bytes are elsewhere. Here
/// the bytes are zeros: the last of them is written.
fn truncate(fs: &mut dyn Space, path: &[u8], size: u64) -> Result<(), Failure> {
    if size > INLINE_BYTES_MAX as u64 {
        let found = fs.stat(path)?;
        if found.kind == Kind::File && found.size == 0 {
            return fs.write(path, size - 1, &[0]);
        }
    }
    fs.set(path, SetFields { size: Some(size), ..SetFields::default() })
}

//! The calls on an open log.

use crate::constants::{KEYRACK_FS_CREATE, KEYRACK_FS_EXCLUSIVE, KEYRACK_FS_READ_ONLY};
use crate::status::{Facts, Failure, code, number};
use keyrack_deltafs::{
    Caller, IfExists, IfTaken, Namespace, SetAttributes, SetTime, Settings, Stat, User,
};
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::slice;

/// An open log. One process has it open for writing at a time.
#[derive(Debug)]
pub struct Fs {
    space: Namespace,
    user: User,
}

impl Fs {
    pub(crate) fn caller(&self) -> Caller<'_> {
        self.space.by(&self.user)
    }
}

/// The log behind a pointer.
///
/// # Safety
/// `fs` is null or from `keyrack_fs_open`, and not closed as long as the reference is used.
pub(crate) unsafe fn log<'a>(fs: *const Fs) -> Result<&'a Fs, Failure> {
    // SAFETY: as the caller promises, it is null or points to a `Fs` that nobody frees meanwhile.
    unsafe { fs.as_ref() }.ok_or_else(|| Failure::invalid("the log is a null pointer"))
}

/// The bytes of a text before its zero.
///
/// # Safety
/// `text` is null or ends with a zero, and does not change as long as the slice is used.
pub(crate) unsafe fn bytes<'a>(text: *const c_char) -> Result<&'a [u8], Failure> {
    if text.is_null() {
        return Err(Failure::invalid("a path is a null pointer"));
    }
    // SAFETY: it is not null, and as the caller promises it ends with a zero.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// Writes what a call returns through a pointer.
///
/// # Safety
/// `to` is null, or memory for a `T` that may be written to.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) -> Result<(), Failure> {
    if to.is_null() {
        return Err(Failure::invalid("the place of a result is a null pointer"));
    }
    // SAFETY: it is not null, and as the caller promises there is room for a `T`.
    unsafe { to.write(value) };
    Ok(())
}

fn check_flags(flags: u32, known: u32) -> Result<(), Failure> {
    match flags & !known {
        0 => Ok(()),
        other => Err(Failure::invalid(&format!("the flags {other:#x} are none"))),
    }
}

/// The version of this interface: 1.
#[unsafe(no_mangle)]
pub extern "C" fn keyrack_fs_version() -> u32 {
    1
}

/// Opens the log in the directory `dir` for the user `uid` with the group `gid`; 0, 0 may do
/// everything.
///
/// # Safety
/// `dir` is null or ends with a zero; `fs` is null or room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_open(
    dir: *const c_char,
    flags: u32,
    uid: u32,
    gid: u32,
    fs: *mut *mut Fs,
) -> c_int {
    let open = || {
        check_flags(flags, KEYRACK_FS_CREATE | KEYRACK_FS_READ_ONLY)?;
        // SAFETY: the caller promises the same.
        let dir = unsafe { bytes(dir) }?;
        let dir = PathBuf::from(OsStr::from_bytes(dir));
        if fs.is_null() {
            return Err(Failure::invalid("the place of a result is a null pointer"));
        }
        let mut settings = Settings::default();
        settings.store.create_if_missing = flags & KEYRACK_FS_CREATE != 0;
        let space = match flags & KEYRACK_FS_READ_ONLY {
            0 => Namespace::open(&dir, settings)?,
            _ => Namespace::open_read_only(&[dir], settings)?,
        };
        let opened = Box::new(Fs { space, user: User::new(uid, gid) });
        // SAFETY: the caller promises room for a pointer.
        unsafe { put(fs, Box::into_raw(opened)) }
    };
    code(open())
}

/// Ends the use of a log and frees `fs`, whatever is returned. Listings have to be closed before.
///
/// # Safety
/// `fs` is null or from [`keyrack_fs_open`], and is not used any more, by listings neither.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_close(fs: *mut Fs) -> c_int {
    if fs.is_null() {
        return 0;
    }
    // SAFETY: it came from `Box::into_raw`, and as the caller promises nobody else has it.
    let closed = unsafe { Box::from_raw(fs) };
    code(closed.space.close().map_err(Failure::from))
}

/// Makes everything that was done durable against power loss.
///
/// # Safety
/// `fs` is null or an open log.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_sync(fs: *const Fs) -> c_int {
    // SAFETY: the caller promises the same.
    let fs = unsafe { log(fs) };
    code(fs.and_then(|fs| Ok(fs.space.sync()?)))
}

/// What every call with a path is given.
///
/// # Safety
/// As for [`log`] and [`bytes`].
unsafe fn given<'a>(fs: *const Fs, path: *const c_char) -> Result<(Caller<'a>, &'a [u8]), Failure> {
    // SAFETY: the caller promises the same.
    let fs = unsafe { log(fs) }?;
    // SAFETY: the caller promises the same.
    Ok((fs.caller(), unsafe { bytes(path) }?))
}

/// A call with a path.
///
/// # Safety
/// `fs` is null or an open log; `path` is null or ends with a zero.
unsafe fn on_path(
    fs: *const Fs,
    path: *const c_char,
    call: impl FnOnce(Caller<'_>, &[u8]) -> keyrack_deltafs::Result<()>,
) -> c_int {
    // SAFETY: the caller promises the same.
    code(unsafe { given(fs, path) }.and_then(|(fs, path)| Ok(call(fs, path)?)))
}

/// Makes a directory.
///
/// # Safety
/// `fs` is null or an open log; `path` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_mkdir(fs: *const Fs, path: *const c_char, mode: u32) -> c_int {
    // SAFETY: the caller promises the same.
    unsafe { on_path(fs, path, |fs, path| fs.mkdir(path, mode).map(|_| ())) }
}

/// Makes an empty file. One that is there is taken as it is, or is EEXIST with
/// `KEYRACK_FS_EXCLUSIVE`.
///
/// # Safety
/// `fs` is null or an open log; `path` is null or ends with a zero.
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
    unsafe { on_path(fs, path, |fs, path| fs.create(path, mode, if_exists).map(|_| ())) }
}

/// Makes a symbolic link to `target` at `path`.
///
/// # Safety
/// `fs` is null or an open log; `target` and `path` are null or end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_symlink(
    fs: *const Fs,
    target: *const c_char,
    path: *const c_char,
) -> c_int {
    // SAFETY: the caller promises the same.
    let target = match unsafe { bytes(target) } {
        Ok(target) => target,
        Err(failure) => return code(Err(failure)),
    };
    // SAFETY: the caller promises the same.
    unsafe { on_path(fs, path, |fs, path| fs.symlink(target, path).map(|_| ())) }
}

/// Removes a file or a link.
///
/// # Safety
/// `fs` is null or an open log; `path` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_unlink(fs: *const Fs, path: *const c_char) -> c_int {
    // SAFETY: the caller promises the same.
    unsafe { on_path(fs, path, |fs, path| fs.unlink(path)) }
}

/// Removes an empty directory; of another it is ENOTEMPTY.
///
/// # Safety
/// `fs` is null or an open log; `path` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_rmdir(fs: *const Fs, path: *const c_char) -> c_int {
    // SAFETY: the caller promises the same.
    unsafe { on_path(fs, path, |fs, path| fs.rmdir(path)) }
}

/// Gives an entry another name. What has that name is replaced, or is EEXIST with
/// `KEYRACK_FS_EXCLUSIVE`.
///
/// # Safety
/// `fs` is null or an open log; `from` and `to` are null or end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_rename(
    fs: *const Fs,
    from: *const c_char,
    to: *const c_char,
    flags: u32,
) -> c_int {
    // SAFETY: the caller promises the same.
    let from = match check_flags(flags, KEYRACK_FS_EXCLUSIVE).and_then(|()| unsafe { bytes(from) })
    {
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
/// `fs` is null or an open log; `path` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_chmod(fs: *const Fs, path: *const c_char, mode: u32) -> c_int {
    let set = SetAttributes { mode: Some(mode), ..SetAttributes::default() };
    // SAFETY: the caller promises the same.
    unsafe { on_path(fs, path, |fs, path| fs.set_attributes(path, &set).map(|_| ())) }
}

/// Sets owner and group; links are followed.
///
/// # Safety
/// `fs` is null or an open log; `path` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_chown(
    fs: *const Fs,
    path: *const c_char,
    uid: u32,
    gid: u32,
) -> c_int {
    let set = SetAttributes { uid: Some(uid), gid: Some(gid), ..SetAttributes::default() };
    // SAFETY: the caller promises the same.
    unsafe { on_path(fs, path, |fs, path| fs.set_attributes(path, &set).map(|_| ())) }
}

/// Sets the modification time, nanoseconds since 1970; links are followed.
///
/// # Safety
/// `fs` is null or an open log; `path` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_utime(
    fs: *const Fs,
    path: *const c_char,
    mtime_ns: u64,
) -> c_int {
    let mtime = Some(SetTime::Ns(mtime_ns));
    let set = SetAttributes { mtime, ..SetAttributes::default() };
    // SAFETY: the caller promises the same.
    unsafe { on_path(fs, path, |fs, path| fs.set_attributes(path, &set).map(|_| ())) }
}

/// Facts, by a way to ask for them.
///
/// # Safety
/// `fs` is null or an open log; `path` is null or ends with a zero; `stat` is null or room.
unsafe fn facts(
    fs: *const Fs,
    path: *const c_char,
    stat: *mut Facts,
    ask: impl FnOnce(Caller<'_>, &[u8]) -> keyrack_deltafs::Result<Stat>,
) -> c_int {
    // SAFETY: the caller promises the same.
    code(unsafe { given(fs, path) }.and_then(|(fs, path)| {
        let found = ask(fs, path)?;
        // SAFETY: the caller promises room for the facts.
        unsafe { put(stat, Facts::from(&found)) }
    }))
}

/// Facts of what a path names; links are followed.
///
/// # Safety
/// `fs` is null or an open log; `path` is null or ends with a zero; `stat` is null or room.
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
/// `fs` is null or an open log; `path` is null or ends with a zero; `stat` is null or room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_fs_lstat_path(
    fs: *const Fs,
    path: *const c_char,
    stat: *mut Facts,
) -> c_int {
    // SAFETY: the caller promises the same.
    unsafe { facts(fs, path, stat, |fs, path| fs.lstat(path)) }
}

/// Memory of the caller's to be written to.
///
/// # Safety
/// `memory` is null or `count` bytes that nobody else uses meanwhile.
unsafe fn room<'a>(memory: *mut u8, count: usize) -> Result<&'a mut [u8], Failure> {
    if count == 0 {
        return Ok(&mut []);
    }
    if memory.is_null() {
        return Err(Failure::invalid("the place of bytes is a null pointer"));
    }
    // SAFETY: it is not null; the caller promises `count` bytes. All bit patterns are bytes.
    Ok(unsafe { slice::from_raw_parts_mut(memory, count) })
}

/// Writes the target of a link with a zero to `target`, cut to `size` bytes. Returns its whole
/// length without the zero.
///
/// # Safety
/// `fs` is null or an open log; `path` is null or ends with a zero; `target` has `size` bytes.
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
    let room = unsafe { room(target.cast(), size) };
    number(given.and_then(|(fs, path)| {
        let (found, room) = (fs.read_link(path)?, room?);
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
/// `fs` is null or an open log; `path` is null or ends with a zero; `to` has `count` bytes.
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
    let room = unsafe { room(to.cast(), count) };
    number(given.and_then(|(fs, path)| {
        let room = room?;
        let found = fs.read(path, offset, room.len())?;
        room[..found.len()].copy_from_slice(&found);
        Ok(i64::try_from(found.len()).unwrap_or(i64::MAX))
    }))
}

/// Writes `count` bytes into a file, which grows as far as it has to. Returns how many.
///
/// # Safety
/// `fs` is null or an open log; `path` is null or ends with a zero; `from` has `count` bytes.
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
    let data: &[u8] = match (count, from.is_null()) {
        (0, _) => &[],
        (_, true) => {
            return number(Err(Failure::invalid("the place of bytes is a null pointer")));
        }
        // SAFETY: it is not null; the caller promises `count` bytes that do not change meanwhile.
        (_, false) => unsafe { slice::from_raw_parts(from.cast(), count) },
    };
    number(given.and_then(|(fs, path)| {
        fs.write(path, offset, data)?;
        Ok(i64::try_from(count).unwrap_or(i64::MAX))
    }))
}

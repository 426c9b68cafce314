//! Backups in a directory.

use crate::error::{Code, Error, report};
use crate::list::List;
use crate::open::on_kind;
use crate::options::utf8;
use crate::store::{Store, path, place, ready};
use keyrack_backup::{Backup, BackupId, DirTarget, Repository};
use keyrack_ffi::{copy_text, give, put};
use keyrack_vfs::RealFs;
use std::ffi::c_char;
use std::path::Path;
use std::ptr;
use std::sync::Arc;

fn target(dir: &Path) -> Arc<DirTarget> {
    Arc::new(DirTarget::new(Arc::new(RealFs), dir))
}

/// The backups in a directory that has some.
///
/// # Safety
/// As for [`path`].
unsafe fn repository(dir: *const c_char) -> Result<Repository, Error> {
    // SAFETY: the caller promises the same.
    let dir = unsafe { path(dir) }?;
    Ok(Repository::open(target(dir))?)
}

/// The name of a backup; none for null.
///
/// # Safety
/// `id` is null or ends with a zero.
unsafe fn named(id: *const c_char) -> Result<Option<BackupId>, Error> {
    if id.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller promises the same.
    let id = unsafe { utf8(id, "name of the backup") }?;
    match BackupId::parse(id) {
        Some(id) => Ok(Some(id)),
        None => Err(Error::usage(format_args!(
            "'{id}' is no name of a backup; keyrack_backup_list has the names"
        ))),
    }
}

/// Saves this moment of a store in the directory `target`, which is made if it is missing. Every
/// backup can be restored alone, and copies only what no other one has. Others read and write
/// meanwhile. `*id` gets the name of the backup, which the caller frees with keyrack_free; `id` may
/// be null.
///
/// Threads: any at once; a second backup to the same target answers KEYRACK_LOCKED.
///
/// # Safety
/// `store` is null or a store; `target` is null or ends with a zero; `id` is null or room for a
/// pointer; `error` is null, or points to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_backup(
    store: *const Store,
    target: *const c_char,
    id: *mut *mut c_char,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        unsafe { put(id, ptr::null_mut()) };
        // SAFETY: as above.
        let open = unsafe { ready(store) }?;
        // SAFETY: as above.
        let dir = unsafe { path(target) }?;
        let repository = Repository::create(self::target(dir))?;
        let files = on_kind!(&open.kind, store => store.file_set())?;
        let saved = Backup::of(files).save_to(&repository)?;
        if !id.is_null() {
            // SAFETY: as above.
            unsafe { put(id, copy_text(&saved.info.id.to_string())) };
        }
        Ok(())
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// The backups in the directory `target`, oldest first: rows of a name and of the bytes of the
/// store, or -1 if the backup cannot be read. The caller frees `*list` with keyrack_list_free.
///
/// Threads: any at once.
///
/// # Safety
/// `target` is null or ends with a zero; `list` is null or room for a pointer; `error` is null, or
/// points to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_backup_list(
    target: *const c_char,
    list: *mut *mut List,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let to = unsafe { place(list, "place of the list") }?;
        // SAFETY: as above.
        let backups = unsafe { repository(target) }?.backups()?;
        let rows = backups.iter().map(|(id, info)| {
            // Exact up to 8 PiB.
            (id.to_string(), info.as_ref().map_or(-1.0, |info| info.bytes as f64))
        });
        // SAFETY: as above.
        unsafe { put(to, give(List::new(rows))) };
        Ok(())
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// Reads every byte of the backup `id`, or of all backups if that is null. KEYRACK_CORRUPTION, with
/// all that is wrong in the message, if something cannot be restored.
///
/// Threads: any at once.
///
/// # Safety
/// Both are null or end with a zero; `error` is null, or points to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_backup_verify(
    target: *const c_char,
    id: *const c_char,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let repository = unsafe { repository(target) }?;
        // SAFETY: as above.
        let id = unsafe { named(id) }?;
        let report = repository.verify(id.as_ref(), |_| ())?;
        if report.is_sound() {
            return Ok(());
        }
        let damage = report.damage.iter().map(ToString::to_string);
        let later = report.later.iter().map(|(id, why)| format!("{id}: {why}"));
        let lines: Vec<String> = damage.chain(later).collect();
        Err(Error::new(Code::KEYRACK_CORRUPTION, lines.join("; ")))
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// Makes the store of the backup `id`, or of the newest if that is null, in the directory `dir`,
/// which is empty or not there. Afterwards the whole store is there, or nothing of it.
///
/// Threads: any at once.
///
/// # Safety
/// All are null or end with a zero; `error` is null, or points to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_backup_restore(
    target: *const c_char,
    id: *const c_char,
    dir: *const c_char,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        let repository = unsafe { repository(target) }?;
        // SAFETY: as above.
        let id = match unsafe { named(id) }? {
            Some(id) => id,
            None => repository.newest()?,
        };
        // SAFETY: as above.
        let dir = unsafe { path(dir) }?;
        repository.restore(&id, &RealFs, dir, |_| ())?;
        Ok(())
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

/// Deletes all backups but the newest `count`, at least one, and what they alone need.
///
/// Threads: any at once; KEYRACK_LOCKED beside a backup to the same target.
///
/// # Safety
/// `target` is null or ends with a zero; `error` is null, or points to null or an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn keyrack_backup_keep_newest(
    target: *const c_char,
    count: usize,
    error: *mut *mut Error,
) -> Code {
    let call = || {
        // SAFETY: the caller promises the same.
        unsafe { repository(target) }?.keep_newest(count)?;
        Ok(())
    };
    // SAFETY: as above.
    unsafe { report(error, call) }
}

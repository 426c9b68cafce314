//! Opening, destroying and repairing the database in a directory.
//!
//! ```text
//!   what is in the directory     open               destroy     repair
//!   nothing                      made, if asked     fine        error
//!   files of something else      made, if asked     left alone  error
//!   a store of flodb             opened             removed     repaired
//!   a store of LevelDB           error              error       error
//! ```
//!
//! `content` tells them apart before anything is changed.

use crate::comparator::shown_name;
use crate::content::{Content, content};
use crate::database::Database;
use crate::options::Options;
use crate::status::{Failure, report};
use keyrack_ffi::{handle, text};
use keyrack_flodb::{Db, Error, repair};
use keyrack_vfs::RealFs;
use std::ffi::{OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of the next database that is opened.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// # Errors
/// LevelDB wrote what is there.
fn check_own(content: &Content, dir: &Path, remedy: &str) -> Result<(), Failure> {
    if *content != Content::Foreign {
        return Ok(());
    }
    let dir = dir.display();
    Err(Failure::invalid(format_args!("{dir}: holds a database that LevelDB wrote; {remedy}")))
}

fn import_of(dir: &Path) -> String {
    let dir = dir.display();
    format!("make one for this library by 'keyrack db import-leveldb {dir} NEW', and open NEW")
}

/// Opens the database in the directory with this name.
pub(crate) fn open(name: &[u8], options: &Options) -> Result<Database, Failure> {
    let dir = Path::new(OsStr::from_bytes(name));
    let content = content(&RealFs, dir)?;
    check_own(&content, dir, &import_of(dir))?;
    let shown = dir.display();
    match content {
        Content::Nothing | Content::Others if !options.create_if_missing => {
            let what = format_args!("{shown}: does not exist (create_if_missing is false)");
            return Err(Failure::invalid(what));
        }
        Content::Store if options.error_if_exists => {
            return Err(Failure::invalid(format_args!(
                "{shown}: exists (error_if_exists is true)"
            )));
        }
        _ => {}
    }
    let uses = options.keep()?;
    let order = options.order()?;
    let store = Db::open(dir, options.of_store(order.as_ref()))
        .map_err(|error| with_order(error, dir, options))?;
    // The count alone is used.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let database = Database { store, order, number, uses };
    database.check()?;
    Ok(database)
}

/// The failure of an opening or a repair, in LevelDB's words if the order is another.
fn with_order(error: Error, dir: &Path, options: &Options) -> Failure {
    if matches!(error, Error::Usage(_))
        && let Ok(Some(stored)) = Db::stored_comparator(&RealFs, dir)
        && shown_name(&stored) != options.order_name()
    {
        let (stored, given) = (shown_name(&stored), options.order_name());
        return Failure::invalid(format_args!(
            "{stored} does not match existing comparator : {given}"
        ));
    }
    error.into()
}

/// Removes the database in the directory `name`, and the directory if nothing else is in it.
/// Nothing to do where there is none.
///
/// # Safety
/// `options` is null or a handle, `name` null or a text; `errptr` is null, or points to a null
/// pointer or to a text of `malloc`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_destroy_db(
    _options: *const Options,
    name: *const c_char,
    errptr: *mut *mut c_char,
) {
    let call = || {
        // SAFETY: the caller promises the same.
        let dir = Path::new(OsStr::from_bytes(unsafe { text(name, "name") }?));
        let content = content(&RealFs, dir)?;
        check_own(&content, dir, "remove the directory to be rid of it")?;
        // A directory of something else may have a `log` as well.
        if content != Content::Others {
            Db::destroy(&RealFs, dir)?;
        }
        Ok(())
    };
    // SAFETY: the caller promises the same.
    unsafe { report(errptr, call) };
}

/// Restores what can be restored of a damaged database, which is not open. What cannot be used goes
/// to the directory `lost` in it.
///
/// # Safety
/// As for [`leveldb_destroy_db`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_repair_db(
    options: *const Options,
    name: *const c_char,
    errptr: *mut *mut c_char,
) {
    let call = || {
        // SAFETY: the caller promises the same.
        let options = unsafe { handle(options, "options") }?;
        // SAFETY: as above.
        let dir = Path::new(OsStr::from_bytes(unsafe { text(name, "name") }?));
        let import = format!("{}, with --lenient if it is damaged", import_of(dir));
        let content = content(&RealFs, dir)?;
        check_own(&content, dir, &import)?;
        if content == Content::Others {
            let dir = dir.display();
            return Err(Failure::invalid(format_args!(
                "{dir}: holds no database, but other files"
            )));
        }
        // Dropped last, when nothing of the repair is left.
        let _uses = options.keep()?;
        let order = options.order()?;
        let report = repair(Arc::new(RealFs), dir, &options.of_store(order.as_ref()));
        report.map_err(|error| with_order(error, dir, options))?;
        order.as_deref().map_or(Ok(()), crate::comparator::Order::check)
    };
    // SAFETY: the caller promises the same.
    unsafe { report(errptr, call) };
}

//! Restoring what can be restored of a damaged store.
//!
//! ```text
//!   is there a whole manifest?
//!     yes   each table stays in its level; of a damaged one, what is sound; of a log with holes,
//!           the records around them, as tables of level 0
//!     no    all tables that can be found; those that overlap are merged; all go to the last level,
//!           and above them, as tables of level 0, the records of the log that are in none of them
//! ```
//!
//! **What must never happen** is that an older write hides a later one. With a manifest, a table
//! that replaces another has a part of its entries and takes its place. Without, nobody knows which
//! of two tables that overlap lies above the other, and sequence numbers of whole tables do not
//! tell: so they are merged, entry by entry. The log is above all tables, since only records behind
//! the last one that is in a table are taken.
//!
//! **Blob files** that are whole stay. What can be read of the others goes back into the tables.
//!
//! **Limits.** If a tombstone is lost, an older value comes back that is left in another table.
//! Without a manifest, a table that a compaction had replaced, and that was not
//! removed yet, counts again.
//!
//! **Records behind a hole** of the log are kept if a mark says that the log went on there (see
//! `keyrack_wal::salvage`): they were acknowledged. So what is there after a repair need not be a
//! beginning of what was written. What an opening would drop as a torn end stays dropped.
//!
//! **In which order.** First everything new is written, under names that nobody has; then each file
//! that goes gets a second name in `lost`; then the new manifest counts; then the first names go. A
//! repair that is interrupted can be repeated, and nothing is ever removed that is not in `lost`.

mod blobs;
mod log;
mod plan;
mod tables;

use crate::check::{Finding, LOST_DIR};
use crate::db::take_lock;
use crate::error::Result;
use crate::manifest::{CURRENT, LOG_DIR, Manifest};
use crate::options::Options;
use keyrack_vfs::{FileKind, Fs};
use plan::Plan;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What [`repair`] has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// Tables that the store has now.
    pub tables: u64,
    /// Entries in them: all versions of all keys, tombstones included.
    pub entries: u64,
    /// Records of the log that are in no table, or went into one now.
    pub log_records: u64,
    /// Whether anything was changed. Of a sound store, nothing is.
    pub changed: bool,
    /// Where the files are now that went to the directory `lost`. They may be removed.
    pub moved: Vec<PathBuf>,
    /// What was damaged, and what is lost.
    pub losses: Vec<Finding>,
}

/// Restores what can be restored of the store in `dir`, which is not open. Afterwards it opens, and
/// [`verify`](crate::verify) finds no damage. Files that are damaged, or that the store cannot use,
/// go to the directory `lost` in it; nothing is removed. Of a sound store, nothing is changed.
///
/// The options should be those that the store is opened with: new tables are made with them. The
/// disk needs room for what is written anew: the sound part of damaged tables, and without a whole
/// manifest, all tables whose keys overlap. O(bytes).
///
/// ```
/// # use keyrack_flodb::{Db, Options, repair};
/// # let fs = std::sync::Arc::new(keyrack_vfs::MemFs::new());
/// Db::open_in(fs.clone(), "/store".as_ref(), Options::new())?.put(b"key", b"value")?;
/// let report = repair(fs, "/store".as_ref(), &Options::new())?;
/// assert!(!report.changed, "a sound store stays as it is");
/// # Ok::<(), keyrack_flodb::Error>(())
/// ```
///
/// # Errors
/// [`Locked`](crate::Error::Locked) if the store is open; [`Usage`](crate::Error::Usage) if there
/// is nothing of a store, if its keys have another order, or if a later program wrote it;
/// [`Io`](crate::Error::Io), and then a repair can be tried again.
pub fn repair(fs: Arc<dyn Fs>, dir: &Path, options: &Options) -> Result<RepairReport> {
    options.check()?;
    let options = &options.clone().divided()?;
    // Nothing is made where there is nothing.
    fs.list(dir)?;
    let _lock = take_lock(&*fs, dir)?;
    let mut plan = Plan::make(Arc::clone(&fs), dir, options)?;
    let mut report = RepairReport {
        log_records: plan.log_records,
        losses: std::mem::take(&mut plan.losses),
        ..RepairReport::default()
    };
    if plan.is_needed() {
        report.changed = true;
        apply(&fs, dir, &plan, &mut report)?;
    }
    let files = (0..crate::version::LEVELS).flat_map(|level| plan.state.version.files(level));
    (report.tables, report.entries) =
        files.fold((0, 0), |(tables, entries), file| (tables + 1, entries + file.entries));
    Ok(report)
}

/// The second half of a repair: what is new is written by now.
fn apply(fs: &Arc<dyn Fs>, dir: &Path, plan: &Plan, report: &mut RepairReport) -> Result<()> {
    for (from, to) in &plan.renamed {
        fs.rename(from, to)?;
    }
    let lost = dir.join(LOST_DIR);
    let current = dir.join(CURRENT);
    let mut names = Vec::new();
    if !plan.gone.is_empty() {
        fs.create_dir_all(&lost)?;
    }
    for path in &plan.gone {
        let to = free_name(&**fs, &lost, path)?;
        if *path == current {
            // Its name goes on.
            fs.write_atomic(&to, &fs.read(path)?)?;
            report.moved.push(to);
            continue;
        }
        // Where there are no second names, the file is renamed at the end.
        let is_linked = fs.hard_link(path, &to).is_ok();
        names.push((path, to, is_linked));
    }
    if !names.is_empty() {
        fs.sync_dir(&lost)?;
    }
    fs.sync_dir(dir)?;
    Manifest::rewrite(Arc::clone(fs), dir, plan.state.clone())?;
    for (from, to, is_linked) in names {
        if is_linked {
            fs.remove_file(from)?;
        } else {
            fs.rename(from, &to)?;
        }
        report.moved.push(to);
    }
    let log = dir.join(LOG_DIR);
    if fs.exists(&log)? {
        fs.sync_dir(&log)?;
    }
    if fs.exists(&lost)? {
        fs.sync_dir(&lost)?;
    }
    Ok(fs.sync_dir(dir)?)
}

/// A name in `lost` that nobody has.
fn free_name(fs: &dyn Fs, lost: &Path, path: &Path) -> Result<PathBuf> {
    let name = path.file_name().unwrap_or(OsStr::new("file"));
    let mut to = lost.join(name);
    let mut count = 0_u32;
    while fs.exists(&to)? {
        count += 1;
        let mut numbered = name.to_owned();
        numbered.push(format!(".{count}"));
        to = lost.join(numbered);
    }
    Ok(to)
}

/// The files of a directory, with their paths; none if it is missing.
fn files_of(fs: &dyn Fs, dir: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs.list(dir) {
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        other => other?,
    };
    let files = entries.into_iter().filter(|entry| entry.kind == FileKind::File);
    Ok(files.map(|entry| dir.join(entry.name)).collect())
}

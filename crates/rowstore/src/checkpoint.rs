//! Fuzzy checkpoints: all rows in files, so that the logs before them can be released.
//!
//! ```text
//!   note where each log ends: the starts        |
//!   note the delete watermarks                  |  writers continue all the time
//!   wait until earlier writes are logged        |
//!   scan and write all rows, a range to a thread|
//!   wait until the writes meanwhile are logged, sync the logs
//!   sync the files, publish the manifest -> from here on the checkpoint is valid
//!   release the logs below the starts, remove the files of the previous checkpoint
//! ```
//!
//! The rows in the files are not of one moment. A recovery loads them and replays the logs from the
//! starts; what is newer wins. Why nothing is lost, and nothing comes back:
//!
//! * *A write below the starts* was in the tree before it was in the log, so before the walk began.
//!   The walk finds its row, a newer one, or none because of a removal.
//! * *A write above the starts* is replayed. If the walk found it already, that changes nothing.
//! * *A removal below the starts* is not replayed, and leaves no row. A put of the same key that is
//!   older, but was logged later by another session, is: it would come back. Its version is not
//!   above the watermark of its key, which the removal had raised, and records at or below the
//!   watermarks are not applied. This drops nothing that is needed: a write with such a version
//!   that the walk did not find would have to be in progress when the watermarks were noted, and
//!   for those we waited.
//! * *A clear below the starts* was published before the walk began. The walk passes over the dead
//!   rows. A put that it covers and that was logged later is not above the watermarks, which the
//!   clear had raised.
//! * *A write that was in the tree when the walk came by, and not in any log*, may be half of a
//!   group. So the checkpoint does not count before all that the walk can have seen is in the logs,
//!   and synced: whatever of a group is in the files, the whole of it is in the files and the logs.
//!
//! A checkpoint that fails leaves the one before as it was. Its files are removed by the next.

use crate::Row;
use crate::core::{Core, Disk};
use crate::error::{Failure, of_files};
use crate::manifest::{LogEntry, LogState, MANIFEST_NAME, Manifest, PartEntry};
use crate::options::CheckpointStep;
use crate::part::PartWriter;
use crate::part_dirs;
use keyrack_measure::Clock;
use keyrack_store::Result;
use keyrack_vfs::Fs;
use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// A checkpoint has at most one part for each this many rows.
const PART_ROWS_MIN: u64 = 10_000;

/// Writes a checkpoint, and tells of it.
pub(crate) fn checkpoint(core: &Core) -> Result<bool> {
    let Some(disk) = &core.disk else { return Ok(false) };
    let mut manifest = disk.checkpointing.lock().unwrap_or_else(PoisonError::into_inner);
    let tell =
        |step: CheckpointStep<'_>| core.options.on_checkpoint.into_iter().for_each(|f| f(step));
    let clock = Clock::vdso();
    let began = clock.ticks();
    tell(CheckpointStep::Begun);
    let written = write_and_release(core, disk, &mut manifest);
    let duration = Duration::from_nanos(clock.ns_between(began, clock.ticks()));
    match &written {
        Ok(()) => {
            let rows = manifest.parts.iter().map(|part| part.rows).sum();
            tell(CheckpointStep::Ended { rows, bytes: manifest.bytes(), duration });
        }
        Err(error) => tell(CheckpointStep::Failed { error, duration }),
    }
    written.map(|()| true)
}

fn write_and_release(core: &Core, disk: &Disk, manifest: &mut Manifest) -> Result<()> {
    disk.check()?;
    let logged_before = disk.log_bytes.load(Ordering::Relaxed);
    let outcome = write(core, disk, manifest);
    // A failed checkpoint is retried after as much log again.
    disk.log_bytes.fetch_sub(logged_before, Ordering::SeqCst);
    let checkpoint_bytes = outcome.as_ref().unwrap_or(manifest).bytes();
    if disk.set_log_bytes_max(&core.options, checkpoint_bytes) {
        // The next one is due already, and no writer will notice.
        core.notifier.notify_checkpointer();
    }
    let next = match outcome {
        Ok(next) => next,
        Err(error) => {
            core.counts.checkpoint_failures.fetch_add(1, Ordering::Relaxed);
            return Err(error);
        }
    };
    let rows = next.parts.iter().map(|part| part.rows).sum();
    core.counts.checkpoints.fetch_add(1, Ordering::Relaxed);
    core.counts.checkpoint_bytes.store(next.bytes(), Ordering::Relaxed);
    core.counts.checkpoint_rows.store(rows, Ordering::Relaxed);
    let mut dirs = part_dirs::all(&core.options, manifest);
    dirs.extend(part_dirs::all(&core.options, &next));
    *manifest = next;
    let starts = manifest.logs.iter().map(|log| log.start);
    for (log, start) in disk.logs.iter().zip(starts) {
        log.release(start).map_err(|error| disk.failed(error))?;
    }
    part_dirs::remove_unnamed(&*disk.fs, &disk.dir, &dirs, manifest)?;
    remove_unfinished(&*disk.fs, &disk.dir)?;
    remove_dropped(&*disk.fs, &disk.dir, manifest)
}

/// Everything except the release of old files. Returns the published manifest.
fn write(core: &Core, disk: &Disk, last: &Manifest) -> Result<Manifest> {
    // The order of these three is that of the header.
    let logs = starts(disk, last);
    let watermarks = core.watermarks.all();
    wait_until_logged(core, disk)?;
    let generation = last.generation + 1;
    let parts = write_parts(core, disk, last.id, generation)?;
    wait_until_logged(core, disk)?;
    for log in &disk.logs {
        log.sync(log.published()).map_err(|error| disk.failed(error))?;
    }
    let clock = core.clock().max(watermarks.iter().copied().max().unwrap_or(0));
    // A header or an element that the walk has found was noted before.
    let has_plain_keys = !core.collections.is_used();
    let next = Manifest { generation, id: last.id, clock, watermarks, logs, parts, has_plain_keys };
    for dir in part_dirs::all(&core.options, &next) {
        disk.fs.sync_dir(&disk.dir.join(dir)).map_err(|error| of_files(&error))?;
    }
    publish(&*disk.fs, &disk.dir, &next)?;
    Ok(next)
}

/// The logs with their starts. Logs that no session writes any more are not needed once this
/// checkpoint is valid.
fn starts(disk: &Disk, last: &Manifest) -> Vec<LogEntry> {
    let in_use = disk.logs.iter().zip(&last.logs).map(|(log, entry)| LogEntry {
        start: log.published(),
        state: LogState::Begun,
        ..entry.clone()
    });
    let others = last.logs.iter().skip(disk.logs.len());
    let dropped = others.map(|entry| LogEntry { state: LogState::Dropped, ..entry.clone() });
    in_use.chain(dropped).collect()
}

/// Waits until everything that is in the tree now is in the logs.
fn wait_until_logged(core: &Core, disk: &Disk) -> Result<()> {
    core.sessions.wait_until_logged()?;
    disk.append_unlogged()
}

/// Publishes a manifest. It is valid when this returns.
pub(crate) fn publish(fs: &dyn Fs, dir: &Path, manifest: &Manifest) -> Result<()> {
    let bytes = manifest.encode()?;
    fs.write_atomic(&dir.join(MANIFEST_NAME), &bytes).map_err(|error| of_files(&error))
}

/// Writes all rows.
fn write_parts(core: &Core, disk: &Disk, id: u64, generation: u64) -> Result<Vec<PartEntry>> {
    let options = &core.options;
    // Every directory gets a part.
    let least = options.checkpoint_dirs.len().max(1) as u64;
    let wanted = (core.tree.len() / PART_ROWS_MIN).max(least);
    let wanted = wanted.min(options.checkpoint_parts as u64) as usize;
    let cuts = core.sample.cuts(wanted);
    let count = cuts.len() + 1;
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let empty = PartEntry { dir: std::path::PathBuf::new(), bytes: 0, rows: 0, checksum: 0 };
    let parts = Mutex::new(vec![empty; count]);
    let work = || -> Result<()> {
        loop {
            let part = next.fetch_add(1, Ordering::Relaxed);
            if part >= count || is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            let low = if part == 0 { &[][..] } else { &cuts[part - 1] };
            let high = cuts.get(part).map(Vec::as_slice);
            let part_dir = part_dirs::dir_of(options, id, part);
            let written =
                PartWriter::create(&*disk.fs, &disk.dir.join(&part_dir), generation, part)
                    .and_then(|writer| write_part(core, writer, low, high))
                    .map(|entry| PartEntry { dir: part_dir, ..entry });
            match written {
                Ok(entry) => parts.lock().unwrap_or_else(PoisonError::into_inner)[part] = entry,
                Err(error) => {
                    is_over.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
    };
    let threads = options.thread_count().min(count);
    std::thread::scope(|scope| {
        let builder = || std::thread::Builder::new().name("checkpoint part".to_owned());
        // If a thread does not start, the others do its share.
        let helpers: Vec<_> =
            (1..threads).filter_map(|_| builder().spawn_scoped(scope, work).ok()).collect();
        let mut outcome = work();
        for helper in helpers {
            let helped = helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            outcome = outcome.and(helped);
        }
        outcome
    })?;
    Ok(parts.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Writes the rows of one range. Between two blocks it holds no guard, so memory is reclaimed.
fn write_part(
    core: &Core,
    mut writer: PartWriter,
    low: &[u8],
    high: Option<&[u8]>,
) -> Result<PartEntry> {
    let (mut from, mut next) = (low.to_vec(), Vec::new());
    loop {
        let mut is_end = true;
        core.tree.scan(&from, high, |key, row| {
            if core.is_dead(&Row::of(&row)) || !writer.push(key, &row) {
                return ControlFlow::Continue(());
            }
            is_end = false;
            next.clear();
            next.extend_from_slice(key);
            next.push(0);
            ControlFlow::Break(())
        });
        if is_end {
            return writer.finish();
        }
        std::mem::swap(&mut from, &mut next);
        writer.write()?;
    }
}

/// Removes unfinished manifests.
pub(crate) fn remove_unfinished(fs: &dyn Fs, dir: &Path) -> Result<()> {
    for entry in fs.list(dir).map_err(|error| of_files(&error))? {
        if is_unfinished(&entry.name) {
            part_dirs::remove(fs, &dir.join(&entry.name))?;
        }
    }
    Ok(())
}

/// Whether a name is that of an unfinished manifest.
fn is_unfinished(name: &OsStr) -> bool {
    let name = name.to_str().and_then(|name| name.strip_prefix('.'));
    name.is_some_and(|name| name.starts_with(MANIFEST_NAME) && name.ends_with(".tmp"))
}

/// Removes the files of dropped logs, and then the logs from `manifest`. The manifest on disk names
/// them until the next one is published, which is harmless. A manifest may name any directory:
/// files of another log there stay, and are damage.
pub(crate) fn remove_dropped(fs: &dyn Fs, dir: &Path, manifest: &mut Manifest) -> Result<()> {
    for log in manifest.logs.iter().filter(|log| log.state == LogState::Dropped) {
        let removed = keyrack_wal::remove(fs, &dir.join(&log.path), log.id);
        removed.map_err(|error| Failure::from(error).0)?;
    }
    manifest.logs.retain(|log| log.state != LogState::Dropped);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_vfs::MemFs;
    use keyrack_wal::{Error, Log};
    use std::path::PathBuf;
    use std::sync::Arc;

    /// A disk with the log `/other/log` of that identity, and something else beside it.
    fn disk_with_log(id: u64) -> MemFs {
        let disk = MemFs::new();
        let dir = Path::new("/other/log");
        disk.create_dir_all(dir).unwrap();
        let fs: Arc<dyn Fs> = Arc::new(disk.clone());
        let options = keyrack_wal::Options { id, ..keyrack_wal::Options::default() };
        let mut replay = |_: u64, _: &[u8]| Ok::<_, Error>(());
        let (log, _) = Log::open(fs, dir, 0, options, &mut replay).unwrap();
        let mut record = log.reserve(7).unwrap();
        record.write(&[b"precious"[..7].as_ref()]).unwrap();
        record.publish();
        log.close().unwrap();
        disk.write_atomic(&dir.join("notes"), b"text").unwrap();
        disk
    }

    fn drops(path: &str, id: u64) -> Manifest {
        let log = LogEntry { path: PathBuf::from(path), start: 0, state: LogState::Dropped, id };
        Manifest { logs: vec![log], ..Manifest::empty() }
    }

    #[test]
    fn a_manifest_that_names_the_log_of_another_store_removes_nothing_there() {
        for path in ["/other/log", "../other/log", "a/../../other/log"] {
            let disk = disk_with_log(7);
            let before = disk.list(Path::new("/other/log")).unwrap().len();
            assert!(before >= 2);
            let error = remove_dropped(&disk, Path::new("/store"), &mut drops(path, 5));
            let error = error.unwrap_err().to_string();
            assert!(error.contains("other/log/") && error.contains("another log"), "{error}");
            assert_eq!(disk.list(Path::new("/other/log")).unwrap().len(), before, "{path}");
        }
        let disk = disk_with_log(7);
        let mut ours = drops("/other/log", 7);
        remove_dropped(&disk, Path::new("/store"), &mut ours).unwrap();
        assert!(ours.logs.is_empty());
        let left = disk.list(Path::new("/other/log")).unwrap();
        assert_eq!(left.iter().map(|entry| &entry.name).collect::<Vec<_>>(), ["notes"]);
        remove_dropped(&disk, Path::new("/store"), &mut drops("/nowhere", 7)).unwrap();
    }
}

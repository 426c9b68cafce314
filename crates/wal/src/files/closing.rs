//! Giving space back: the spare files of a log at rest, and what a closed log does not need.
//!
//! ```text
//!   records that a reader needs      front | records
//!   all of them released             front                  begins behind the last record
//! ```
//!
//! A close makes the records durable, seals the newest segment, marks the end, and cuts the file
//! behind the records. If the caller has released everything, nobody reads the records again. Then
//! the close replaces all segments by an empty one, whose header says where the log ended. The
//! records are not synced for that. The empty segment is durable and marked before the others are
//! removed, so a crash leaves either of both.

use super::{CHUNK_BYTES, Files, Window};
use std::path::Path;

use keyrack_concurrent::pin;
use keyrack_vfs::OpenOptions;

use super::Turns;
use super::creation::Creator;
use crate::allocator::AllocatorState;
use crate::error::{Error, Result};
use crate::format::{FRONT_BYTES, Header, RECORD_BYTES, SEAL_OFFSET, Seal};
use crate::names::{NEW_NAME, path_of};
use crate::options::LSN_MAX;
use crate::primitive::lock;

impl Files {
    /// Whether there are files that [`Files::trim`] removes.
    pub(crate) fn has_spares(&self) -> bool {
        !lock(&self.prepared).is_empty() || !self.directory().spare.is_empty()
    }

    /// Removes the spare files and the segments that were created ahead. The next segment is
    /// created when the current one is full.
    pub(crate) fn trim(&self) -> Result<()> {
        self.free_left();
        self.drop_prepared(&self.allocator.lock(), 0)?;
        self.remove_spares()
    }

    fn remove_spares(&self) -> Result<()> {
        loop {
            // All spare files are removed.
            let Some(path) = self.directory().spare.pop() else { return Ok(()) };
            match self.fs.remove_file(&path) {
                Err(error) if !error.is_not_found() => {
                    self.directory().spare.push(path);
                    return Err(error.into());
                }
                _ => {}
            }
        }
    }

    /// Closes the log: makes everything durable and records the end, so that later losses are known
    /// to be damage.
    pub(crate) fn close(&self, end: u64) -> Result<()> {
        if self.is_worth_emptying(end) {
            return self.close_empty(end);
        }
        self.sync(end, &|| end)?;
        let state = self.allocator.lock();
        let current = self.window.load(&pin()).0[0].clone();
        let written = current.filter(|segment| segment.start <= end);
        if let Some(segment) = &written {
            self.final_sync(segment.seal(end))?;
        }
        self.drop_prepared(&state, if written.is_some() { end } else { 0 })
    }

    /// Whether everything up to `end` was released and nothing is to be kept, and some of it lies
    /// in the newest segment.
    fn is_worth_emptying(&self, end: u64) -> bool {
        if self.options.retention.keeps() {
            return false;
        }
        let current = self.window.load(&pin()).0[0].as_ref().map(|segment| segment.start);
        let has_records = current.is_some_and(|start| start + FRONT_BYTES < end);
        has_records && self.is_released(end)
    }

    /// Whether nothing below `end` will be read again.
    pub(crate) fn is_released(&self, end: u64) -> bool {
        self.directory().released >= end
    }

    /// Closes a log whose records nobody needs any more: an empty segment that begins behind them
    /// takes their place. It is durable and marked before their files are removed. The records need
    /// not be durable.
    fn close_empty(&self, end: u64) -> Result<()> {
        let state = self.allocator.lock();
        let mut creator = lock(&self.creator);
        let (bytes, epoch, id) = (self.options.segment_bytes, self.epoch, self.options.id);
        let start = (state.number + 1) * bytes;
        if start > LSN_MAX - bytes {
            return Err(Error::usage("the log has no LSNs left"));
        }
        let synced = self.group.synced().min(start);
        let (previous_end, recycled) = (end, false);
        let header =
            Header { start, segment_bytes: bytes, epoch, previous_end, synced, recycled, id };
        let new = self.dir.join(NEW_NAME);
        let options = OpenOptions::new().write(true).create(true).truncate(true);
        let file = self.fs.open(&new, &options)?;
        file.write_at(0, &header.encode())?;
        file.write_at(SEAL_OFFSET, &Seal { start, epoch, end: start }.encode())?;
        file.set_len(FRONT_BYTES)?;
        self.final_sync(file.sync_data())?;
        // A segment that was created ahead has the same name.
        self.fs.rename(&new, &path_of(&self.dir, start))?;
        self.final_sync(self.fs.sync_dir(&self.dir))?;
        let marked = creator.marker.set(start, bytes, start);
        marked.map_err(|error| self.failed(error))?;
        creator.files_end = creator.files_end.max(state.number + 2);
        self.remove_from(&mut creator, state.number + 2)?;
        let (live, kept) = {
            let mut directory = self.directory();
            (std::mem::take(&mut directory.live), std::mem::take(&mut directory.kept))
        };
        for start in live.into_keys().chain(kept.into_keys()) {
            // No header leads to it. If it stays, the next opening that writes removes it.
            let _ = self.fs.remove_file(&path_of(&self.dir, start));
        }
        Ok(())
    }

    /// Gives space back after a close: cuts the newest segment behind the records, which end at
    /// `end`, and removes the spare files.
    pub(crate) fn give_back(&mut self, end: u64) -> Result<()> {
        // Its mapping has to go before the file is cut. No reader is left that could have it.
        drop(self.window.replace(Window([None, None])));
        self.free_left();
        self.remove_spares()?;
        let newest = {
            let mut directory = self.directory();
            let newest = directory.live.last_entry();
            newest.and_then(|mut entry| entry.get_mut().segment.take())
        };
        // The newest segment may have been removed as no longer needed, or begin behind the end.
        let Some(segment) = newest.filter(|segment| segment.start <= end) else { return Ok(()) };
        let (path, left) = (segment.path.clone(), segment.end() - end);
        drop(segment);
        // Where no record fits behind the last one, there is nothing to give back.
        if left < RECORD_BYTES as u64 { Ok(()) } else { self.cut(&path, self.file_bytes() - left) }
    }

    /// Cuts a segment that is closed.
    fn cut(&self, path: &Path, len: u64) -> Result<()> {
        let file = self.fs.open(path, &OpenOptions::new().read(true).write(true))?;
        match file.set_len(len) {
            // Its file was another segment's, whose mapping is not freed yet.
            Err(keyrack_vfs::Error::Mapped { .. }) => {}
            done => return Ok(done?),
        }
        let new = self.dir.join(NEW_NAME);
        let options = OpenOptions::new().write(true).create(true).truncate(true);
        let copy = self.fs.open(&new, &options)?;
        let mut chunk = vec![0; CHUNK_BYTES.min(len as usize)];
        let mut offset = 0;
        while offset < len {
            let count = (len - offset).min(chunk.len() as u64) as usize;
            file.read_exact_at(offset, &mut chunk[..count])?;
            copy.write_at(offset, &chunk[..count])?;
            offset += count as u64;
        }
        self.final_sync(copy.sync_data())?;
        self.fs.rename(&new, path)?;
        self.final_sync(self.fs.sync_dir(&self.dir))
    }

    /// Marks the current segment as the newest, then removes those that were created ahead. The
    /// mark contains the end of the records, unless that is 0. With the lock of the allocator, so
    /// that none of them becomes the current one.
    fn drop_prepared(&self, state: &AllocatorState<Turns>, end: u64) -> Result<()> {
        let mut creator = lock(&self.creator);
        let next = state.number + 1;
        if creator.files_end <= next {
            return if end == 0 { Ok(()) } else { self.mark_newest(&mut creator, end) };
        }
        self.mark_newest(&mut creator, end)?;
        creator.next = next;
        let _prepared = std::mem::take(&mut *lock(&self.prepared));
        self.remove_from(&mut creator, next)
    }

    /// Removes the files of segment `from` and of those after it. A later segment needs the one
    /// before it: the newest goes first. If it stays, so do the others, until this is called again
    /// or the next recovery leaves them unused.
    fn remove_from(&self, creator: &mut Creator, from: u64) -> Result<()> {
        while creator.files_end > from {
            let newest = creator.files_end - 1;
            let path = path_of(&self.dir, newest * self.options.segment_bytes);
            match self.fs.remove_file(&path) {
                Err(error) if !error.is_not_found() => return Ok(()),
                _ => creator.files_end = newest,
            }
            if newest > from {
                self.final_sync(self.fs.sync_dir(&self.dir))?;
            }
        }
        Ok(())
    }

    fn mark_newest(&self, creator: &mut Creator, end: u64) -> Result<()> {
        let newest = self.directory().live.last_key_value().map(|(start, it)| (*start, it.bytes));
        let (start, bytes) = newest.unwrap_or((0, 0));
        creator.marker.set(start, bytes, end).map_err(|error| self.failed(error))
    }
}

//! Files of any size: small ones whole in their records, larger ones in files of their own.
//!
//! ```text
//!   up to 3,901 bytes    the record                        one write, whole or not at all
//!   more                 contents/, then the record        a crash may keep bytes without the
//!                                                          length that counts them
//! ```
//!
//! A file moves out of its record when it grows beyond, and back only when it is cut to nothing.
//! One change of such a file goes on at a time; reads wait for none.

use crate::attributes::Changed;
use crate::caller::{Caller, Kind, Stat};
use crate::contents::{State, missing};
use crate::error::{Error, Result, shown};
use crate::namespace::{Dir, Namespace};
use crate::record::{Attributes, INLINE_BYTES_MAX};
use crate::{SetAttributes, SetTime};
use keyrack_vfs::File;
use std::sync::Arc;

/// Bytes of a file, at most: what the files of the machine have.
const LARGE_BYTES_MAX: u64 = i64::MAX as u64;

impl Namespace {
    /// Opens the bytes of a file that are not in its record. The handle reads on when the file is
    /// removed. `None` if they are not kept here.
    ///
    /// # Errors
    /// The machine's.
    pub fn open_contents(&self, stat: &Stat) -> Result<Option<Arc<dyn File>>> {
        self.inner.contents.open(stat.inode)
    }

    /// A file with these bytes that has no name, and goes when it is closed: for what was removed
    /// while it was open, and grows. `stat` is what it was.
    ///
    /// # Errors
    /// The machine's.
    pub fn open_nameless(&self, stat: &Stat, bytes: &[u8]) -> Result<Arc<dyn File>> {
        let contents = &self.inner.contents;
        let mut state = contents.turn();
        let file = contents.create(&mut state, stat.inode, bytes)?;
        contents.remove_in(&mut state, stat.inode)?;
        Ok(file)
    }
}

impl Caller<'_> {
    /// Writes bytes into a file of `dir` from `offset` on, of whatever size it is then.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::IsDir`], [`Error::Denied`], [`Error::ReadOnly`];
    /// [`Error::NoData`] if only the size of the file is known; those of the store and the machine.
    pub fn write_large_at(
        &self,
        dir: &Dir,
        name: &[u8],
        offset: u64,
        bytes: &[u8],
    ) -> Result<Stat> {
        let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= LARGE_BYTES_MAX);
        let Some(end) = end else {
            let limit = LARGE_BYTES_MAX;
            return Err(Error::TooLarge { path: shown(name), bytes: u64::MAX, limit });
        };
        let contents = &self.inner.contents;
        let mut state = contents.turn();
        let stat = self.file_at(dir, name)?;
        if bytes.is_empty() {
            return Ok(stat);
        }
        if stat.has_data && end <= INLINE_BYTES_MAX as u64 {
            return self.write_at(dir, name, offset, bytes);
        }
        self.inner.top(&shown(name))?;
        let file = self.moved_out(&mut state, dir, name, &stat)?;
        file.write_at(offset, bytes)?;
        self.note_size(dir, name, |size| size.max(end), None)
    }

    /// Cuts a file of `dir`, or extends it with zeros.
    ///
    /// # Errors
    /// As for [`Caller::write_large_at`].
    pub fn resize_large_at(
        &self,
        dir: &Dir,
        name: &[u8],
        size: u64,
        mtime: Option<SetTime>,
    ) -> Result<Stat> {
        if size > LARGE_BYTES_MAX {
            let limit = LARGE_BYTES_MAX;
            return Err(Error::TooLarge { path: shown(name), bytes: size, limit });
        }
        let contents = &self.inner.contents;
        let mut state = contents.turn();
        let stat = self.file_at(dir, name)?;
        let fits = stat.has_data && size <= INLINE_BYTES_MAX as u64;
        if fits || size == 0 {
            let set = SetAttributes { size: Some(size), mtime, ..SetAttributes::default() };
            let (changed, left) = self.set_in_record(dir, name, &set)?;
            if let Some(inode) = left {
                contents.remove_in(&mut state, inode)?;
            }
            return Ok(changed);
        }
        self.inner.top(&shown(name))?;
        let file = self.moved_out(&mut state, dir, name, &stat)?;
        if size >= stat.size {
            file.set_len(size)?;
            return self.note_size(dir, name, |_| size, mtime);
        }
        let changed = self.note_size(dir, name, |_| size, mtime)?;
        file.set_len(size)?;
        Ok(changed)
    }

    fn file_at(&self, dir: &Dir, name: &[u8]) -> Result<Stat> {
        let stat = self.stat_at(dir, name)?;
        match stat.kind {
            Kind::File => Ok(stat),
            Kind::Dir => Err(Error::IsDir(shown(name))),
            Kind::Symlink => Err(Error::Invalid(format!("'{}': it is a link", shown(name)))),
        }
    }

    /// The file with the bytes, made of those of the record if they are there.
    fn moved_out(
        &self,
        state: &mut State,
        dir: &Dir,
        name: &[u8],
        stat: &Stat,
    ) -> Result<Arc<dyn File>> {
        let contents = &self.inner.contents;
        // Before bytes change, whether they may is asked.
        self.change_file_at(dir, name, |attributes, _, _| {
            self.check_write(&attributes, name).map(|()| None)
        })?;
        if stat.has_data {
            let bytes = self.bytes_of(dir, name)?;
            return contents.create(state, stat.inode, &bytes);
        }
        contents.open_to_write(state, stat.inode, stat.size)?.ok_or_else(|| missing(name))
    }

    fn bytes_of(&self, dir: &Dir, name: &[u8]) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.change_file_at(dir, name, |_, data, _| {
            bytes = data.to_vec();
            Ok(None)
        })?;
        Ok(bytes)
    }

    /// Writes the record of a file whose bytes are in `contents`.
    fn note_size(
        &self,
        dir: &Dir,
        name: &[u8],
        size: impl FnOnce(u64) -> u64,
        mtime: Option<SetTime>,
    ) -> Result<Stat> {
        let now = self.inner.time.now_ns();
        let mtime_ns = match mtime {
            Some(SetTime::Ns(ns)) => ns,
            Some(SetTime::Now) | None => now,
        };
        let changed = self.change_file_at(dir, name, |attributes, _, _| {
            self.check_write(&attributes, name)?;
            let size = size(attributes.size);
            let changed = Attributes { size, mtime_ns, ctime_ns: now, ..attributes };
            Ok(Some((changed, Vec::new(), true)))
        });
        match changed? {
            Changed::File(stat) => Ok(stat),
            Changed::Dir(_) => Err(Error::IsDir(shown(name))),
        }
    }
}

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
use crate::contents::State;
use crate::error::{Error, Result};
use crate::file_ref::FileRef;
use crate::id::Inode;
use crate::inner::Dir;
use crate::large_file::LargeFile;
use crate::namespace::Namespace;
use crate::record::{Attributes, INLINE_BYTES_MAX};
use crate::{SetAttributes, SetTime};

/// Bytes of a file, at most: what the files of the machine have.
const LARGE_BYTES_MAX: u64 = i64::MAX as u64;

impl Namespace {
    /// Opens the bytes of a file that are not in its record. The handle reads on when the file is
    /// removed. `None` if they are not kept here.
    ///
    /// # Errors
    /// [`Error::Corruption`] if the file is missing, or shorter than its record says; the
    /// machine's.
    pub fn open_contents(&self, stat: &Stat) -> Result<Option<LargeFile>> {
        // Nobody cuts it meanwhile.
        let _guard = self.inner.contents.lock_state();
        let Some(file) = self.inner.contents.open(stat.inode)? else { return Ok(None) };
        file.check_len(stat.size)?;
        Ok(Some(file))
    }

    /// A file with these bytes that has no name, and goes when it is closed: for what was removed
    /// while it was open, and grows. `stat` is what it was.
    ///
    /// # Errors
    /// The machine's.
    pub fn open_nameless(&self, stat: &Stat, bytes: &[u8]) -> Result<LargeFile> {
        let contents = &self.inner.contents;
        let mut state = contents.lock_state();
        let file = contents.create(&mut state, stat.inode, bytes)?;
        contents.remove_in(&mut state, stat.inode)?;
        Ok(file)
    }

    /// As [`Namespace::open_nameless`], with the bytes of a file that was removed while it was
    /// open: the file itself may be that of a log that is only read. O(bytes).
    ///
    /// # Errors
    /// Those of reading and of the machine.
    pub fn copy_nameless(&self, stat: &Stat, from: &LargeFile) -> Result<LargeFile> {
        let file = self.open_nameless(stat, &[])?;
        from.copy_to(&file, stat.size)?;
        Ok(file)
    }
}

impl Caller<'_> {
    /// Writes bytes into a file of `dir` from `offset` on, zeros before them if it was shorter. A
    /// file that outgrows its record gets one of its own for its bytes.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::IsDir`], [`Error::Denied`], [`Error::ReadOnly`];
    /// [`Error::NoData`] if only the size of the file is known; [`Error::TooLarge`] beyond 2^63;
    /// those of the store and the machine.
    pub fn write_at(&self, dir: &Dir, name: &[u8], offset: u64, bytes: &[u8]) -> Result<Stat> {
        self.write_ref(FileRef::Name(dir, name), offset, bytes)
    }

    pub(crate) fn write_ref(&self, file: FileRef<'_>, offset: u64, bytes: &[u8]) -> Result<Stat> {
        let end = offset.checked_add(bytes.len() as u64).filter(|end| *end <= LARGE_BYTES_MAX);
        let Some(end) = end else {
            let limit = LARGE_BYTES_MAX;
            return Err(Error::TooLarge { path: file.shown(), bytes: u64::MAX, limit });
        };
        if end <= INLINE_BYTES_MAX as u64 {
            match self.write_in_record(file, offset, bytes) {
                // Its bytes are elsewhere, and that may be here.
                Err(Error::NoData(_)) => {}
                written => return written,
            }
        }
        let contents = &self.inner.contents;
        let mut state = contents.lock_state();
        loop {
            let stat = self.regular_file(file)?;
            if bytes.is_empty() {
                return Ok(stat);
            }
            if stat.has_data && end <= INLINE_BYTES_MAX as u64 {
                return self.write_in_record(file, offset, bytes);
            }
            self.inner.top(&file.shown())?;
            let moved = self.moved_out(&mut state, file, &stat)?;
            moved.file.write_at(offset, bytes)?;
            let noted = self.note_size(file, &moved, |size| size.max(end), None)?;
            if let Some(stat) = noted {
                return Ok(stat);
            }
            self.give_up(&mut state, &moved)?;
        }
    }

    /// Cuts a file of `dir`, or extends it with zeros.
    ///
    /// # Errors
    /// As for [`Caller::write_at`].
    pub fn resize_at(
        &self,
        dir: &Dir,
        name: &[u8],
        size: u64,
        mtime: Option<SetTime>,
    ) -> Result<Stat> {
        self.resize_ref(FileRef::Name(dir, name), size, mtime)
    }

    pub(crate) fn resize_ref(
        &self,
        file: FileRef<'_>,
        size: u64,
        mtime: Option<SetTime>,
    ) -> Result<Stat> {
        if size > LARGE_BYTES_MAX {
            let limit = LARGE_BYTES_MAX;
            return Err(Error::TooLarge { path: file.shown(), bytes: size, limit });
        }
        let contents = &self.inner.contents;
        let mut state = contents.lock_state();
        loop {
            let stat = self.regular_file(file)?;
            let fits = stat.has_data && size <= INLINE_BYTES_MAX as u64;
            if fits || size == 0 {
                let set = SetAttributes { size: Some(size), mtime, ..SetAttributes::default() };
                let (changed, left) = self.set_in_record(file, &set)?;
                if let Some(inode) = left {
                    contents.remove_in(&mut state, inode)?;
                }
                return Ok(changed);
            }
            self.inner.top(&file.shown())?;
            let moved = self.moved_out(&mut state, file, &stat)?;
            if size < stat.size {
                moved.file.check_cut(size)?;
            } else {
                moved.file.set_len(size)?;
            }
            if let Some(changed) = self.note_size(file, &moved, |_| size, mtime)? {
                if size < stat.size {
                    moved.file.set_len(size)?;
                }
                return Ok(changed);
            }
            self.give_up(&mut state, &moved)?;
        }
    }

    /// Whether a change of size concerns bytes that are, or come to be, outside of the record. A
    /// file without any gets a size alone: its bytes are elsewhere.
    pub(crate) fn is_resized_here(&self, file: FileRef<'_>, size: u64) -> Result<bool> {
        let stat = self.stat_ref(file)?;
        if stat.kind != Kind::File || size == 0 || stat.size == 0 {
            return Ok(false);
        }
        if stat.has_data {
            Ok(size > INLINE_BYTES_MAX as u64)
        } else {
            Ok(self.inner.contents.open(stat.inode)?.is_some())
        }
    }

    fn regular_file(&self, file: FileRef<'_>) -> Result<Stat> {
        let stat = self.stat_ref(file)?;
        match stat.kind {
            Kind::File => Ok(stat),
            Kind::Dir => Err(Error::IsDir(file.shown())),
            Kind::Symlink => Err(Error::Invalid(format!("'{}': it is a link", file.shown()))),
        }
    }

    /// The file with the bytes, made of those of the record if they are there.
    fn moved_out(&self, state: &mut State, file: FileRef<'_>, stat: &Stat) -> Result<MovedOut> {
        let contents = &self.inner.contents;
        let inode = stat.inode;
        // Before bytes change, whether they may is asked.
        let mut bytes = Vec::new();
        self.change_file(file, |attributes, data, _| {
            bytes = data.to_vec();
            self.check_write(&attributes, file).map(|()| None)
        })?;
        if stat.has_data {
            let file = contents.create(state, inode, &bytes)?;
            return Ok(MovedOut { inode, file, of_record: Some(bytes) });
        }
        let opened = contents.open_to_write(state, inode, stat.size)?;
        let opened = opened.ok_or_else(|| Error::NoData(file.shown()))?;
        Ok(MovedOut { inode, file: opened, of_record: None })
    }

    /// The entry was changed by somebody else meanwhile: what was made of it goes.
    fn give_up(&self, state: &mut State, moved: &MovedOut) -> Result<()> {
        match moved.of_record {
            Some(_) => self.inner.contents.remove_in(state, moved.inode),
            None => Ok(()),
        }
    }

    /// Writes the record of a file whose bytes are in `contents`; `None` if the entry is not any
    /// more what they were made of.
    fn note_size(
        &self,
        file: FileRef<'_>,
        moved: &MovedOut,
        size: impl FnOnce(u64) -> u64,
        mtime: Option<SetTime>,
    ) -> Result<Option<Stat>> {
        let now = self.inner.time.now_ns();
        let mtime_ns = match mtime {
            Some(SetTime::Ns(ns)) => ns,
            Some(SetTime::Now) | None => now,
        };
        let mut is_same = true;
        let changed = self.change_file(file, |attributes, data, is_sized| {
            self.check_write(&attributes, file)?;
            is_same = attributes.inode == moved.inode
                && match &moved.of_record {
                    Some(bytes) => !is_sized && data == &bytes[..],
                    None => is_sized,
                };
            if !is_same {
                return Ok(None);
            }
            let size = size(attributes.size);
            let mode = self.user.mode_after_write(attributes.mode, attributes.gid);
            let changed = Attributes { mode, size, mtime_ns, ctime_ns: now, ..attributes };
            Ok(Some((changed, Vec::new(), true)))
        });
        match changed? {
            Changed::File(stat) => Ok(is_same.then_some(stat)),
            Changed::Dir(_) => Err(Error::IsDir(file.shown())),
        }
    }
}

/// The bytes of a file, outside of its record.
struct MovedOut {
    inode: Inode,
    file: LargeFile,
    /// Those that the record had, if they were moved a moment ago.
    of_record: Option<Vec<u8>>,
}

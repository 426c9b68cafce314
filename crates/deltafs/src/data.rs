//! The bytes of files, those of small ones from their records, and the targets of links.

use crate::attributes::Changed;
use crate::caller::{Caller, Stat};
use crate::error::{Error, Result, shown};
use crate::file_ref::FileRef;
use crate::inner::Dir;
use crate::record::{Attributes, Entry, INLINE_BYTES_MAX};
use crate::user::READ;

impl Caller<'_> {
    /// The bytes of a file from `offset` on, at most `count`; links are followed.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::IsDir`], [`Error::Denied`]; [`Error::NoData`] if the bytes are
    /// elsewhere; those of the store.
    pub fn read(&self, path: &[u8], offset: u64, count: usize) -> Result<Vec<u8>> {
        self.at_path(path, true, |resolved| {
            let Some(name) = &resolved.name else { return Err(Error::IsDir(shown(path))) };
            self.read_at(&resolved.dir, name, offset, count)
        })
    }

    /// The bytes of a file of `dir`.
    ///
    /// # Errors
    /// As for [`Caller::read`]; [`Error::Invalid`] for a link.
    pub fn read_at(&self, dir: &Dir, name: &[u8], offset: u64, count: usize) -> Result<Vec<u8>> {
        self.read_ref(FileRef::Name(dir, name), offset, count)
    }

    pub(crate) fn read_ref(&self, file: FileRef<'_>, offset: u64, count: usize) -> Result<Vec<u8>> {
        let may = |attributes: &Attributes| {
            if self.user.may(READ, attributes.mode, attributes.uid, attributes.gid) {
                Ok(())
            } else {
                Err(Error::Denied(file.shown()))
            }
        };
        let contents = &self.inner.contents;
        let mut guard = None;
        loop {
            let mut elsewhere = None;
            let found = self.find_file(file, |entry| match entry {
                Entry::Whiteout | Entry::Link(_) => Err(Error::NotFound(file.shown())),
                Entry::Dir(_) => Err(Error::IsDir(file.shown())),
                Entry::Sized(attributes) => {
                    elsewhere = Some((attributes.inode, attributes.size));
                    may(&attributes).map(|()| Vec::new())
                }
                Entry::Symlink(..) => {
                    Err(Error::Invalid(format!("'{}': it is a link", file.shown())))
                }
                Entry::File(attributes, data) => {
                    may(&attributes)?;
                    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(data.len());
                    let end = start.saturating_add(count).min(data.len());
                    Ok(data[start..end].to_vec())
                }
            })?;
            let bytes = found.unwrap_or_else(|| Err(Error::NotFound(file.shown())))?;
            let Some((inode, size)) = elsewhere else { return Ok(bytes) };
            let refused = match contents.read(inode, size, offset, count) {
                Ok(Some(bytes)) => return Ok(bytes),
                Ok(None) => Error::NoData(file.shown()),
                Err(error) => error,
            };
            // It may have been replaced, cut or written to since its record was read. With the
            // state locked it is not.
            if guard.is_some() {
                return Err(refused);
            }
            guard = Some(contents.lock_state());
        }
    }

    /// Writes bytes into a file from `offset` on, zeros before them if it was shorter; links are
    /// followed.
    ///
    /// # Errors
    /// As for [`Caller::write_at`].
    pub fn write(&self, path: &[u8], offset: u64, bytes: &[u8]) -> Result<Stat> {
        self.at_path(path, true, |resolved| {
            let Some(name) = &resolved.name else { return Err(Error::IsDir(shown(path))) };
            self.write_at(&resolved.dir, name, offset, bytes)
        })
    }

    /// Writes bytes into a file that has them in its record, and has room for these.
    pub(crate) fn write_in_record(
        &self,
        file: FileRef<'_>,
        offset: u64,
        bytes: &[u8],
    ) -> Result<Stat> {
        let now = self.inner.time.now_ns();
        let changed = self.change_file(file, |attributes, data, is_sized| {
            self.check_write(&attributes, file)?;
            if is_sized {
                return Err(Error::NoData(file.shown()));
            }
            if bytes.is_empty() {
                return Ok(None);
            }
            let end = offset.saturating_add(bytes.len() as u64);
            let limit = INLINE_BYTES_MAX as u64;
            if end > limit {
                return Err(Error::TooLarge { path: file.shown(), bytes: end, limit });
            }
            let (start, end) = (offset as usize, end as usize);
            let mut data = data.to_vec();
            data.resize(data.len().max(end), 0);
            data[start..end].copy_from_slice(bytes);
            let size = data.len() as u64;
            let mode = self.user.mode_after_write(attributes.mode, attributes.gid);
            let changed = Attributes { mode, size, mtime_ns: now, ctime_ns: now, ..attributes };
            Ok(Some((changed, data, false)))
        });
        match changed? {
            Changed::File(stat) => Ok(stat),
            Changed::Dir(_) => Err(Error::IsDir(file.shown())),
        }
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is none; [`Error::NotFound`], [`Error::Denied`], and so on.
    pub fn read_link(&self, path: &[u8]) -> Result<Vec<u8>> {
        self.at_path(path, false, |resolved| match &resolved.name {
            Some(name) => self.read_link_at(&resolved.dir, name),
            None => Err(Error::Invalid(format!("'{}': it is no link", shown(path)))),
        })
    }

    /// The target of a symbolic link of `dir`.
    ///
    /// # Errors
    /// As for [`Caller::read_link`].
    pub fn read_link_at(&self, dir: &Dir, name: &[u8]) -> Result<Vec<u8>> {
        self.read_link_ref(FileRef::Name(dir, name))
    }

    pub(crate) fn read_link_ref(&self, file: FileRef<'_>) -> Result<Vec<u8>> {
        let found = self.find_file(file, |entry| match entry {
            Entry::Symlink(_, target) => Some(target.to_vec()),
            _ => None,
        })?;
        match found {
            None => Err(Error::NotFound(file.shown())),
            Some(None) => Err(Error::Invalid(format!("'{}': it is no link", file.shown()))),
            Some(Some(target)) => Ok(target),
        }
    }
}

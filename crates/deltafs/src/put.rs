//! Files from beginning to end: all bytes of one come at once.
//!
//! ```text
//!   up to 3,901 bytes    the record: made, or its bytes replaced
//!   more                 bytes under a new number in contents/, then the record with that number
//! ```
//!
//! In either case it is one record that counts, so a reader, and whoever comes after a crash, finds
//! the old file or the new one whole.

use crate::attributes::Changed;
use crate::caller::{Caller, Found, Stat};
use crate::contents::State;
use crate::error::{Error, Result, shown};
use crate::file_ref::FileRef;
use crate::id::Inode;
use crate::inner::Dir;
use crate::name::check_name;
use crate::record::{Attributes, INLINE_BYTES_MAX};
use crate::rename::IfTaken;
use crate::user::{PASS, WRITE};
use std::io::Read;
use std::sync::MutexGuard;

/// Bytes that are asked of a source at once.
const CHUNK: usize = 256 << 10;

impl Caller<'_> {
    /// Makes a file with these bytes, or gives them to the one that is there; links are followed.
    ///
    /// # Errors
    /// As for [`Caller::write`] and [`Caller::create`].
    pub fn put(&self, path: &[u8], mode: u32, mut bytes: &[u8]) -> Result<Stat> {
        self.put_from(path, mode, &mut bytes)
    }

    /// The same with all that `source` gives, however much it is.
    ///
    /// # Errors
    /// As for [`Caller::put`]; [`Error::Source`].
    pub fn put_from(&self, path: &[u8], mode: u32, source: &mut dyn Read) -> Result<Stat> {
        self.at_path(path, true, |resolved| {
            let Some(name) = &resolved.name else { return Err(Error::IsDir(shown(path))) };
            if resolved.must_be_dir {
                return Err(Error::IsDir(shown(path)));
            }
            self.put_from_at(&resolved.dir, name, mode, (IfTaken::Replace, source))
        })
    }

    /// Makes a file of `dir` with all that a source gives, or gives it to the one that is there if
    /// that may be replaced. Nobody sees a part of it.
    ///
    /// # Errors
    /// As for [`Caller::put_from`]; [`Error::Exists`] if the file must not be replaced.
    pub fn put_from_at(
        &self,
        dir: &Dir,
        name: &[u8],
        mode: u32,
        (if_taken, source): (IfTaken, &mut dyn Read),
    ) -> Result<Stat> {
        let failed = |error: std::io::Error| Error::Source {
            path: shown(name),
            error: std::sync::Arc::new(error),
        };
        let mut first = Vec::new();
        let limit = INLINE_BYTES_MAX as u64 + 1;
        source.take(limit).read_to_end(&mut first).map_err(failed)?;
        if first.len() <= INLINE_BYTES_MAX {
            let create = || self.create_with_at(dir, name, mode, &first).map(|made| made.stat);
            return placed(if_taken, create, || self.replace_at(dir, name, &first));
        }
        check_name(name)?;
        let inner = self.inner;
        inner.top(&shown(name))?;
        // Before bytes come, whether they may is asked.
        let info = dir.state.read();
        self.check(&info, PASS, name)?;
        match self.lookup(dir.state.id, name)? {
            None => self.check(&info, WRITE, name)?,
            Some(Found::Dir(_)) => return Err(Error::IsDir(shown(name))),
            Some(_) if if_taken == IfTaken::Fail => return Err(Error::Exists(shown(name))),
            Some(_) => {}
        }
        drop(info);
        let (inode, contents) = (inner.number(), &inner.contents);
        let file = contents.begin(inode)?;
        let mut put = || {
            let mut chunk = vec![0; CHUNK];
            file.write_at(0, &first)?;
            let mut size = first.len() as u64;
            loop {
                let count = match source.read(&mut chunk) {
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                    read => read.map_err(failed)?,
                };
                if count == 0 {
                    break;
                }
                file.write_at(size, &chunk[..count])?;
                size += count as u64;
            }
            contents.keep(inode)?;
            let create = || self.create_sized_at(dir, name, mode, (inode, size));
            placed(if_taken, create, || self.replace_sized_at(dir, name, (inode, size)))
        };
        let put = put();
        if put.is_err() {
            // The first error is the one to report; a sweep finds what this leaves.
            let _ = contents.remove(inode);
        }
        put
    }

    /// Gives a file other bytes, which are in `contents` under a number of their own. That is its
    /// number from here on.
    fn replace_sized_at(
        &self,
        dir: &Dir,
        name: &[u8],
        (inode, size): (Inode, u64),
    ) -> Result<Stat> {
        let now = self.inner.time.now_ns();
        let contents = &self.inner.contents;
        // Nobody may write to the old ones meanwhile.
        let mut state = contents.lock_state();
        let mut left = None;
        let changed = self.change_file(FileRef::Name(dir, name), |attributes, _, is_sized| {
            self.check_write(&attributes, FileRef::Name(dir, name))?;
            left = is_sized.then_some(attributes.inode);
            let mode = self.user.mode_after_write(attributes.mode, attributes.gid);
            let (mtime_ns, ctime_ns) = (now, now);
            let changed = Attributes { inode, mode, size, mtime_ns, ctime_ns, ..attributes };
            Ok(Some((changed, Vec::new(), true)))
        })?;
        if let Some(left) = left {
            contents.remove_in(&mut state, left)?;
        }
        match changed {
            Changed::File(stat) => Ok(stat),
            Changed::Dir(_) => Err(Error::IsDir(shown(name))),
        }
    }

    /// Replaces all bytes of a file by few ones, in one step.
    ///
    /// # Errors
    /// As for [`Caller::write`]; [`Error::TooLarge`] beyond 3,901 bytes.
    pub fn replace_at(&self, dir: &Dir, name: &[u8], bytes: &[u8]) -> Result<Stat> {
        let now = self.inner.time.now_ns();
        let (size, limit) = (bytes.len() as u64, INLINE_BYTES_MAX as u64);
        if size > limit {
            return Err(Error::TooLarge { path: shown(name), bytes: size, limit });
        }
        let contents = &self.inner.contents;
        let mut guard: Option<MutexGuard<'_, State>> = None;
        loop {
            let mut replaced = None;
            let changed =
                self.change_file(FileRef::Name(dir, name), |attributes, _, is_sized| {
                    self.check_write(&attributes, FileRef::Name(dir, name))?;
                    replaced = is_sized.then_some(attributes.inode);
                    if is_sized && guard.is_none() {
                        return Ok(None);
                    }
                    let mode = self.user.mode_after_write(attributes.mode, attributes.gid);
                    let changed =
                        Attributes { mode, size, mtime_ns: now, ctime_ns: now, ..attributes };
                    Ok(Some((changed, bytes.to_vec(), false)))
                })?;
            match (replaced, &mut guard) {
                (None, _) => {}
                (Some(inode), Some(state)) => contents.remove_in(state, inode)?,
                // Nobody may put bytes there between the record and the removal.
                (Some(_), None) => {
                    guard = Some(contents.lock_state());
                    continue;
                }
            }
            return match changed {
                Changed::File(stat) => Ok(stat),
                Changed::Dir(_) => Err(Error::IsDir(shown(name))),
            };
        }
    }
}

/// Makes an entry, or replaces the one that is there.
fn placed(
    if_taken: IfTaken,
    create: impl Fn() -> Result<Stat>,
    replace: impl Fn() -> Result<Stat>,
) -> Result<Stat> {
    loop {
        match create() {
            Err(Error::Exists(_)) if if_taken == IfTaken::Replace => {}
            created => return created,
        }
        match replace() {
            // Somebody removed it in between.
            Err(Error::NotFound(_)) => {}
            replaced => return replaced,
        }
    }
}

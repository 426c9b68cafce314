//! Hard links: several names of one file.
//!
//! ```text
//!   one name        dir | "a"    file: attributes, bytes
//!
//!   link a b        number       file: attributes with the count of names, bytes
//!   (one batch)     dir | "a"    the number
//!                   dir | "b"    the number
//! ```
//!
//! With its second name the record of a file moves under the number that the file has, and stays
//! there until the last name goes. So a change of the file is one record, whatever its names. If
//! all bytes of the file are replaced by more than a record holds, it gets the number of these, and
//! its record stays where it is: the key is the first number.
//!
//! Names and their count change in one batch. In it the record is the first to come and the last to
//! go, so a reader without locks never sees a name without its record. A call that changes a record
//! under a number holds [`Inner::lock_links`], and takes it after the locks of directories.
//!
//! Logs that do not know of each other may each give a file another name. The highest has the count
//! then, and that is too small: so where several lower logs have the record, names are counted
//! before it goes.

use crate::caller::{Caller, Found, Named, Stat};
use crate::error::{Error, Result, shown};
use crate::file_ref::FileRef;
use crate::id::{DirId, Inode};
use crate::inner::{Dir, Inner};
use crate::name::check_name;
use crate::open::FORMAT_LINKS;
use crate::record::{Entry, KIND_WHITEOUT, Key};
use crate::rename::{Held, in_order};
use crate::resolve::named;
use crate::user::{PASS, WRITE};
use crate::{SetAttributes, SetTime};
use keyrack_flodb::{Batch, WriteOptions};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// Names of a file, at most: as many as ext4 allows.
const NAMES_MAX: u32 = 65_000;

/// A file with hard links. It stays the same file whatever names it gets or loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkedFile {
    number: Inode,
}

impl Caller<'_> {
    /// Gives the file or the symbolic link at `from` another name. A link at the end of `from` is
    /// not followed.
    ///
    /// # Errors
    /// [`Error::LinkedDir`] for a directory; [`Error::TooManyLinks`] beyond 65,000 names;
    /// [`Error::Unsupported`] in a log of one of several servers; [`Error::NotFound`],
    /// [`Error::Exists`], [`Error::Denied`], [`Error::Quota`], [`Error::ReadOnly`], and those of
    /// the store.
    pub fn link(&self, from: &[u8], to: &[u8]) -> Result<Stat> {
        let old = self.resolve_parent(from).map_err(|error| named(error, from))?;
        let Some(old_name) = &old.name else { return Err(Error::LinkedDir(shown(from))) };
        self.check(&old.dir.state.read(), PASS, from)?;
        let found = self.lookup(old.dir.state.id, old_name)?;
        Self::check_dir(&old, &found.ok_or_else(|| Error::NotFound(shown(from)))?, from)?;
        let linked = self.at_path(to, false, |new| match &new.name {
            None => Err(Error::Exists(shown(to))),
            Some(_) if new.must_be_dir => Err(Error::NotFound(shown(to))),
            Some(name) => self.link_at(&old.dir, old_name, &new.dir, name),
        });
        linked.map_err(|error| match error {
            error @ (Error::LinkedDir(_) | Error::TooManyLinks { .. }) => named(error, from),
            error => error,
        })
    }

    /// Gives an entry of an open directory another name.
    ///
    /// # Errors
    /// As for [`Caller::link`].
    pub fn link_at(&self, old: &Dir, old_name: &[u8], new: &Dir, new_name: &[u8]) -> Result<Stat> {
        check_name(old_name)?;
        self.link_ref(FileRef::Name(old, old_name), new, new_name)
    }

    /// Gives a file with hard links another name.
    ///
    /// # Errors
    /// As for [`Caller::link`].
    pub fn link_file(&self, file: &LinkedFile, new: &Dir, new_name: &[u8]) -> Result<Stat> {
        self.link_ref(FileRef::Number(file.number), new, new_name)
    }

    fn link_ref(&self, file: FileRef<'_>, new: &Dir, new_name: &[u8]) -> Result<Stat> {
        check_name(new_name)?;
        let inner = self.inner;
        let old = match file {
            FileRef::Name(dir, _) => Some(dir),
            FileRef::Number(_) => None,
        };
        let states = in_order(old.into_iter().chain([new]));
        let mut held = Held::lock(&states);
        let _links = inner.lock_links();
        let source = match file {
            FileRef::Number(number) => Some(Named::Link(number)),
            FileRef::Name(dir, name) => {
                self.check(held.info(dir.state.id), PASS, name)?;
                inner.layers.find_raw(dir.state.id, name, Named::of)?.flatten()
            }
        };
        let source = source.ok_or_else(|| Error::NotFound(file.shown()))?;
        let info = held.info(new.state.id);
        self.check(info, PASS, new_name)?;
        if self.lookup(new.state.id, new_name)?.is_some() {
            return Err(Error::Exists(shown(new_name)));
        }
        let top = inner.top(&shown(new_name))?;
        self.check(info, WRITE, new_name)?;
        inner.check_one_server()?;
        inner.name_count.check_length(new_name)?;
        let now = inner.time.now_ns();
        let mut batch = Batch::new();
        let stat = self.add_name(&mut batch, (file, source), now)?;
        let key = match source {
            Named::Link(number) => number,
            Named::Entry(_) => stat.inode,
        };
        let link = Entry::Link(key).encode();
        if let (Named::Entry(_), FileRef::Name(dir, name)) = (source, file) {
            batch.put(&Key::entry(dir.state.id, name), &link);
        }
        batch.put(&Key::entry(new.state.id, new_name), &link);
        inner.name_count.reserve(new_name, 1)?;
        new.state.touch_and_store(now);
        batch.put(&Key::node(new.state.id), &new.state.record(info));
        if let Err(error) = top.write(&batch, WriteOptions::default()) {
            inner.name_count.release(1);
            return Err(error.into());
        }
        // Relaxed: the lock of links is held.
        inner.has_links.store(true, Ordering::Relaxed);
        Ok(stat)
    }

    /// Puts the record of a file that gets a name, under its number.
    fn add_name(
        &self,
        batch: &mut Batch,
        (file, source): (FileRef<'_>, Named),
        now_ns: u64,
    ) -> Result<Stat> {
        let inner = self.inner;
        // Relaxed: the lock of links is held.
        if !inner.has_links.load(Ordering::Relaxed) {
            batch.put(&Key::entry(DirId::SYSTEM, b"format"), FORMAT_LINKS);
        }
        let with_one_more = |entry: Entry<'_>| {
            let nlink = entry.attributes().map_or(0, |attributes| attributes.nlink);
            if nlink >= NAMES_MAX {
                let limit = u64::from(NAMES_MAX);
                return Err(Error::TooManyLinks { path: file.shown(), limit });
            }
            let entry = entry.with_nlink(nlink + 1).at(now_ns);
            match (Found::of(entry), entry.attributes()) {
                (Some(Found::Other(stat)), Some(attributes)) => {
                    batch.put(&Key::number(number_of(source, attributes.inode)), &entry.encode());
                    Ok(stat)
                }
                _ => Err(Error::LinkedDir(file.shown())),
            }
        };
        let stat = match (source, file) {
            (Named::Link(number), _) => inner.layers.find_number(number, with_one_more)?,
            (Named::Entry(_), FileRef::Name(dir, name)) => {
                inner.layers.find_raw(dir.state.id, name, with_one_more)?
            }
            (Named::Entry(_), FileRef::Number(_)) => unreachable!("a number is no entry"),
        };
        stat.ok_or_else(|| Error::NotFound(file.shown()))?
    }

    /// Removes one of the names of a file with hard links.
    pub(crate) fn unlink_link(&self, dir: &Dir, name: &[u8]) -> Result<()> {
        let inner = self.inner;
        let id = dir.state.id;
        let info = dir.state.read();
        let links = inner.lock_links();
        let entry = inner.layers.find_raw(id, name, Named::of)?.flatten();
        let Some(Named::Link(number)) = entry else {
            // Somebody was faster; what is there now is looked at anew.
            drop((links, info));
            return self.unlink_at(dir, name);
        };
        self.check(&info, PASS | WRITE, name)?;
        let uid = self.stat_ref(FileRef::Number(number))?.uid;
        self.check_sticky(&info, uid, name)?;
        let top = inner.top(&shown(name))?;
        let now = inner.time.now_ns();
        let mut batch = Batch::new();
        inner.hide(&mut batch, id, name)?;
        let left = inner.drop_name(&mut batch, number, now)?;
        top.write(&batch, WriteOptions::default())?;
        inner.name_count.release(1);
        self.touch(dir, &info, now)?;
        drop((links, info));
        left.map_or(Ok(()), |inode| inner.contents.remove(inode))
    }

    /// The file of a name, if its record is under its number: that of a file that has, or had,
    /// several names.
    ///
    /// # Errors
    /// [`Error::Denied`], and those of the store.
    pub fn linked_at(&self, dir: &Dir, name: &[u8]) -> Result<Option<LinkedFile>> {
        check_name(name)?;
        self.check(&dir.state.read(), PASS, name)?;
        let found = self.inner.layers.find_raw(dir.state.id, name, Named::of)?.flatten();
        Ok(match found {
            Some(Named::Link(number)) => Some(LinkedFile { number }),
            Some(Named::Entry(_)) | None => None,
        })
    }

    /// As [`Caller::stat_at`], of a file by its number.
    ///
    /// # Errors
    /// [`Error::NotFound`] once its last name is gone.
    pub fn stat_linked(&self, file: &LinkedFile) -> Result<Stat> {
        self.stat_ref(FileRef::Number(file.number))
    }

    /// As [`Caller::set_attributes_at`].
    ///
    /// # Errors
    /// As there.
    pub fn set_linked(&self, file: &LinkedFile, set: &SetAttributes) -> Result<Stat> {
        self.set_attributes_ref(FileRef::Number(file.number), set)
    }

    /// As [`Caller::read_at`].
    ///
    /// # Errors
    /// As there.
    pub fn read_linked(&self, file: &LinkedFile, offset: u64, count: usize) -> Result<Vec<u8>> {
        self.read_ref(FileRef::Number(file.number), offset, count)
    }

    /// As [`Caller::write_at`].
    ///
    /// # Errors
    /// As there.
    pub fn write_linked(&self, file: &LinkedFile, offset: u64, bytes: &[u8]) -> Result<Stat> {
        self.write_ref(FileRef::Number(file.number), offset, bytes)
    }

    /// As [`Caller::resize_at`].
    ///
    /// # Errors
    /// As there.
    pub fn resize_linked(
        &self,
        file: &LinkedFile,
        size: u64,
        mtime: Option<SetTime>,
    ) -> Result<Stat> {
        self.resize_ref(FileRef::Number(file.number), size, mtime)
    }

    /// As [`Caller::read_link_at`].
    ///
    /// # Errors
    /// As there.
    pub fn read_link_linked(&self, file: &LinkedFile) -> Result<Vec<u8>> {
        self.read_link_ref(FileRef::Number(file.number))
    }
}

/// Where the record of a file is, or comes to be: `inode` is the number that it has.
fn number_of(source: Named, inode: Inode) -> Inode {
    match source {
        Named::Link(number) => number,
        Named::Entry(_) => inode,
    }
}

impl Inner {
    /// Refuses hard links in the log of one of several servers: its names are spread over them, and
    /// a file has its record at one.
    pub(crate) fn check_one_server(&self) -> Result<()> {
        match self.server()? {
            Some((server, servers)) if servers > 1 => Err(Error::Unsupported(format!(
                "{}: hard links need a name space of one log, and this log is that of server \
                 {server} of {servers}; merge the logs first: keyrack fs merge",
                self.store_path().display()
            ))),
            Some(_) | None => Ok(()),
        }
    }

    /// Changes the record under a number, whose lock is held.
    pub(crate) fn put_number(
        &self,
        batch: &mut Batch,
        number: Inode,
        change: impl FnOnce(Entry<'_>) -> Entry<'_>,
    ) -> Result<()> {
        let changed = self.layers.find_number(number, |entry| change(entry).encode())?;
        batch.put(&Key::number(number), &changed.ok_or_else(|| self.lost(number))?);
        Ok(())
    }

    /// Takes a name off the count of a file, whose lock is held; the batch hides the name already.
    /// Gives the number of the bytes that nobody needs any more.
    pub(crate) fn drop_name(
        &self,
        batch: &mut Batch,
        number: Inode,
        now_ns: u64,
    ) -> Result<Option<Inode>> {
        let found = self.layers.find_number(number, |entry| {
            let nlink = entry.attributes().map_or(0, |attributes| attributes.nlink);
            let large = match entry {
                Entry::Sized(attributes) => Some(attributes.inode),
                _ => None,
            };
            (nlink, large)
        })?;
        let (nlink, large) = found.ok_or_else(|| self.lost(number))?;
        let mut left = nlink.saturating_sub(1);
        if left == 0 && self.is_shared_below(number)? {
            let names = self.layers.names_of(&BTreeSet::from([number]))?;
            let names = names.get(&number).map_or(0, Vec::len);
            left = u32::try_from(names.saturating_sub(1)).unwrap_or(NAMES_MAX);
        }
        if left > 0 {
            self.put_number(batch, number, |entry| entry.with_nlink(left).at(now_ns))?;
            return Ok(None);
        }
        let key = Key::number(number);
        match self.layers.find_number_below(number, |_| ())? {
            None => batch.delete(&key),
            Some(()) => batch.put(&key, &[KIND_WHITEOUT]),
        }
        Ok(large)
    }

    /// Whether several lower logs have the record.
    fn is_shared_below(&self, number: Inode) -> Result<bool> {
        let key = Key::number(number);
        let mut holders = 0;
        for log in self.layers.lower() {
            holders += usize::from(log.get_with(&key, |_| ())?.is_some());
        }
        Ok(holders > 1)
    }

    fn lost(&self, number: Inode) -> Error {
        Error::Corruption {
            path: self.store_path().to_owned(),
            what: format!("no log has the file {number}, and there are names of it"),
        }
    }
}

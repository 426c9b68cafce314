//! Making files, directories and symbolic links.
//!
//! A file is one step on one key: is there an entry, and if not, here it is. Together with its
//! number from memory that is all that a create costs; the log below is a copy into a mapping, so
//! there is no system call at durability `os`. Its directory's lock is shared, so creates in one
//! directory go on side by side, and of two of one name one wins.
//!
//! A directory is a batch: the entry, what it is, and its parent's count.

use crate::caller::{Caller, Found, Kind, Named, Stat};
use crate::dirs::{DirInfo, DirState};
use crate::error::{Error, Result, shown};
use crate::id::{DirId, Inode};
use crate::inner::Dir;
use crate::name::{PATH_BYTES_MAX, check_name, too_long};
use crate::record::{
    Attributes, DirNode, Entry, INLINE_BYTES_MAX, KIND_WHITEOUT, Key, MODE_BITS, Node, Touched,
};
use crate::user::{PASS, SET_GROUP, WRITE};
use keyrack_flodb::{Batch, Change, Db, WriteOptions};
use std::sync::Arc;

/// What a create does with an entry that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfExists {
    /// It fails, as with `O_EXCL`.
    Fail,
    /// A file is taken as it is, as with `O_CREAT` alone.
    Open,
}

/// What comes of a create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Created {
    /// The file.
    pub stat: Stat,
    /// Whether this call made it.
    pub is_new: bool,
}

impl Caller<'_> {
    /// Makes an empty file. With [`IfExists::Open`] a link at the end is followed.
    ///
    /// # Errors
    /// [`Error::Exists`], [`Error::IsDir`], [`Error::NotFound`], [`Error::NotDir`],
    /// [`Error::Denied`], [`Error::TooLong`], [`Error::Quota`], [`Error::ReadOnly`], and those of
    /// the store.
    pub fn create(&self, path: &[u8], mode: u32, if_exists: IfExists) -> Result<Created> {
        self.at_path(path, if_exists == IfExists::Open, |resolved| {
            let Some(name) = &resolved.name else { return Err(Error::IsDir(shown(path))) };
            if resolved.must_be_dir {
                return Err(Error::IsDir(shown(path)));
            }
            self.create_at(&resolved.dir, name, mode, if_exists)
        })
    }

    /// Makes an empty file in `dir`.
    ///
    /// # Errors
    /// As for [`Caller::create`].
    pub fn create_at(
        &self,
        dir: &Dir,
        name: &[u8],
        mode: u32,
        if_exists: IfExists,
    ) -> Result<Created> {
        self.make_file(dir, name, mode, if_exists, |attributes| Entry::File(attributes, &[]))
    }

    /// Makes a file with its bytes, in one step.
    ///
    /// # Errors
    /// As for [`Caller::create`]; [`Error::TooLarge`].
    pub fn create_with_at(
        &self,
        dir: &Dir,
        name: &[u8],
        mode: u32,
        data: &[u8],
    ) -> Result<Created> {
        if data.len() > INLINE_BYTES_MAX {
            let (bytes, limit) = (data.len() as u64, INLINE_BYTES_MAX as u64);
            return Err(Error::TooLarge { path: shown(name), bytes, limit });
        }
        self.make_file(dir, name, mode, IfExists::Fail, |attributes| {
            Entry::File(Attributes { size: data.len() as u64, ..attributes }, data)
        })
    }

    /// Makes a file whose bytes are in `contents` under a number that has no record yet.
    pub(crate) fn create_sized_at(
        &self,
        dir: &Dir,
        name: &[u8],
        mode: u32,
        (inode, size): (Inode, u64),
    ) -> Result<Stat> {
        let made = self.make_file(dir, name, mode, IfExists::Fail, |attributes| {
            Entry::Sized(Attributes { inode, size, ..attributes })
        })?;
        Ok(made.stat)
    }

    /// Makes an empty file without asking whether there is an entry, or whether the user may: a
    /// file that is there is replaced. For jobs that know their names to be new. A directory of
    /// that name would be lost with all that is in it, and a hard link would still be counted.
    ///
    /// # Errors
    /// As for [`Caller::create`], but for what is not checked.
    pub fn create_unchecked_at(&self, dir: &Dir, name: &[u8], mode: u32) -> Result<()> {
        check_name(name)?;
        let top = self.inner.top("")?;
        let info = dir.state.read();
        let now = self.inner.time.now_ns();
        let attributes = self.attributes(&info, mode, now);
        let (key, value) = (Key::entry(dir.state.id, name), Entry::File(attributes, &[]).encode());
        self.inner.name_count.check_length(name)?;
        if self.inner.name_count.is_counted() {
            self.put_counted(top, (dir.state.id, name), &key, value)?;
        } else {
            top.put(&key, &value)?;
        }
        self.touch(dir, &info, now)
    }

    /// Puts the record of a file where names are counted, so whether there was one is asked after
    /// all.
    fn put_counted(
        &self,
        top: &Db,
        (dir, name): (DirId, &[u8]),
        key: &[u8],
        value: Vec<u8>,
    ) -> Result<()> {
        let inner = self.inner;
        let below = inner.lower_entry(dir, name)?.is_some();
        let mut taken: Result<u64> = Ok(0);
        let put = top.update(key, WriteOptions::default(), |there| {
            let is_new = match there {
                Some(value) => value.first() == Some(&KIND_WHITEOUT),
                None => !below,
            };
            taken = inner.name_count.reserve(name, u64::from(is_new)).map(|()| u64::from(is_new));
            if taken.is_ok() { Change::Put(value) } else { Change::Keep }
        });
        let taken = taken?;
        if put.is_err() {
            inner.name_count.release(taken);
        }
        Ok(put?)
    }

    fn make_file<'e>(
        &self,
        dir: &Dir,
        name: &[u8],
        mode: u32,
        if_exists: IfExists,
        entry: impl FnOnce(Attributes) -> Entry<'e>,
    ) -> Result<Created> {
        check_name(name)?;
        let inner = self.inner;
        let id = dir.state.id;
        let info = dir.state.read();
        self.check(&info, PASS, name)?;
        let mut file = NewFile {
            caller: self,
            dir: (id, &info),
            name,
            mode,
            if_exists,
            // Below nothing changes, so that answer lasts.
            below: inner.lower_entry(id, name)?,
            may_write: self.check(&info, WRITE, name),
            now_ns: inner.time.now_ns(),
            entry: Some(entry),
            made: Err(Error::ReadOnly(shown(name))),
            is_new: false,
            is_link: false,
        };
        match inner.layers.top() {
            Some(top) => {
                let (key, options) = (Key::entry(id, name), WriteOptions::default());
                let updated = top.update(&key, options, |value| file.decide(value));
                if let Err(error) = updated {
                    inner.name_count.release(u64::from(file.is_new));
                    return Err(error.into());
                }
            }
            // What is there is found in a read-only name space as well.
            None if file.below.is_some() => drop(file.decide(None)),
            None => {}
        }
        let NewFile { made, is_new, is_link, entry, now_ns, .. } = file;
        if is_link {
            drop(info);
            return match self.lookup(id, name)? {
                Some(found) => {
                    let stat = self.take_existing(found, name, if_exists)?;
                    Ok(Created { stat, is_new: false })
                }
                // The name went meanwhile.
                None => {
                    let entry = entry.expect("nothing was made of it");
                    self.make_file(dir, name, mode, if_exists, entry)
                }
            };
        }
        let stat = made?;
        if is_new {
            self.touch(dir, &info, now_ns)?;
        }
        Ok(Created { stat, is_new })
    }

    fn take_existing(&self, found: Found, name: &[u8], if_exists: IfExists) -> Result<Stat> {
        match (if_exists, found) {
            (IfExists::Open, Found::Other(stat)) if stat.kind == Kind::File => Ok(stat),
            (IfExists::Open, Found::Dir(_)) => Err(Error::IsDir(shown(name))),
            _ => Err(Error::Exists(shown(name))),
        }
    }

    /// What a new file has.
    fn attributes(&self, dir: &DirInfo, mode: u32, now_ns: u64) -> Attributes {
        Attributes {
            inode: self.inner.number(),
            mode: mode & MODE_BITS,
            uid: self.user.uid,
            gid: self.gid_in(dir),
            nlink: 1,
            size: 0,
            mtime_ns: now_ns,
            ctime_ns: now_ns,
        }
    }

    fn gid_in(&self, dir: &DirInfo) -> u32 {
        if dir.node.mode & SET_GROUP == 0 { self.user.gid } else { dir.node.gid }
    }

    /// Makes a symbolic link to `target`, which is not looked at.
    ///
    /// # Errors
    /// As for [`Caller::create`]; the target has 1 to 4,096 bytes and no NUL.
    pub fn symlink(&self, target: &[u8], path: &[u8]) -> Result<Stat> {
        self.at_path(path, false, |resolved| {
            if resolved.must_be_dir && resolved.name.is_some() {
                return Err(Error::NotFound(shown(path)));
            }
            self.symlink_at(target, &resolved.dir, resolved.name(path)?)
        })
    }

    /// Makes a symbolic link in `dir`.
    ///
    /// # Errors
    /// As for [`Caller::symlink`].
    pub fn symlink_at(&self, target: &[u8], dir: &Dir, name: &[u8]) -> Result<Stat> {
        if target.len() > PATH_BYTES_MAX {
            return Err(too_long("the target of a link", target.len(), PATH_BYTES_MAX));
        }
        if target.is_empty() || target.contains(&0) {
            let why = "the target of a link must not be empty, or hold a NUL byte";
            return Err(Error::Invalid(format!("'{}': {why}", shown(target))));
        }
        let created = self.make_file(dir, name, 0o777, IfExists::Fail, |attributes| {
            Entry::Symlink(Attributes { size: target.len() as u64, ..attributes }, target)
        })?;
        Ok(created.stat)
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// As for [`Caller::create`]; [`Error::TooLong`] below as many directories as the quota says.
    pub fn mkdir(&self, path: &[u8], mode: u32) -> Result<Dir> {
        self.at_path(path, false, |resolved| match &resolved.name {
            Some(name) => self.mkdir_at(&resolved.dir, name, mode),
            None => Err(Error::Exists(shown(path))),
        })
    }

    /// Makes a directory in `dir`.
    ///
    /// # Errors
    /// As for [`Caller::mkdir`].
    pub fn mkdir_at(&self, dir: &Dir, name: &[u8], mode: u32) -> Result<Dir> {
        check_name(name)?;
        let inner = self.inner;
        let depth = inner.depth(dir.state.id)? + 1;
        let mut info = dir.state.write();
        self.may_make(dir, &info, name, depth)?;
        let id = self.new_dir_id(dir, name)?;
        inner.name_count.reserve(name, 1)?;
        let node = self.new_node(dir, &info, name, mode);
        let made = self.write_dir(dir, &mut info, id, node);
        let state = made.inspect_err(|_| inner.name_count.release(1))?;
        inner.dirs.add(&inner.layers, &state)?;
        inner.names.insert(dir.state.id, name, id);
        Ok(Dir { state })
    }

    /// Writes the records of a new directory of `dir`, whose lock `info` is. It is not counted.
    pub(crate) fn write_dir(
        &self,
        dir: &Dir,
        info: &mut DirInfo,
        id: DirId,
        node: DirNode,
    ) -> Result<Arc<DirState>> {
        let inner = self.inner;
        let top = inner.top(&shown(&node.name))?;
        let now = inner.time.now_ns();
        let mut batch = Batch::new();
        batch.put(&Key::entry(dir.state.id, &node.name), &Entry::Dir(id).encode());
        let made = DirInfo {
            is_removed: false,
            node,
            subdirs: 0,
            own_subdirs: 0,
            own_is_full: true,
            ctime_ns: now,
        };
        let state = Arc::new(DirState::new(id, made, now));
        batch.put(&Key::node(id), &state.record(&state.read()));
        let before = info.clone();
        info.subdirs += 1;
        info.own_subdirs += 1;
        dir.state.touch_and_store(now);
        batch.put(&Key::node(dir.state.id), &dir.state.record(info));
        if let Err(error) = top.write(&batch, WriteOptions::default()) {
            *info = before;
            return Err(error.into());
        }
        Ok(state)
    }

    /// Whether a directory can be made.
    fn may_make(&self, dir: &Dir, info: &DirInfo, name: &[u8], depth: usize) -> Result<()> {
        self.check(info, PASS, name)?;
        if self.lookup(dir.state.id, name)?.is_some() {
            return Err(Error::Exists(shown(name)));
        }
        self.inner.top(&shown(name))?;
        self.check(info, WRITE, name)?;
        let names = &self.inner.name_count;
        names.check_length(name)?;
        names.check_depth(depth)?;
        names.check_free(name)
    }

    fn new_node(&self, dir: &Dir, info: &DirInfo, name: &[u8], mode: u32) -> DirNode {
        let inherited = info.node.mode & SET_GROUP;
        DirNode {
            mode: mode & MODE_BITS | inherited,
            uid: self.user.uid,
            gid: self.gid_in(info),
            parent: dir.state.id,
            name: name.to_vec(),
        }
    }

    /// The number and the record that a directory would get. Nothing is made.
    pub(crate) fn dir_to_make(
        &self,
        dir: &Dir,
        name: &[u8],
        mode: u32,
    ) -> Result<(DirId, Vec<u8>)> {
        check_name(name)?;
        let depth = self.inner.depth(dir.state.id)? + 1;
        let info = dir.state.read();
        self.may_make(dir, &info, name, depth)?;
        let now = self.inner.time.now_ns();
        let touched = Touched { subdirs: 0, mtime_ns: now, ctime_ns: now };
        let node = Node::Dir(self.new_node(dir, &info, name, mode), touched);
        Ok((self.new_dir_id(dir, name)?, node.encode()))
    }

    /// Whether a directory can be made under this number, or is there.
    pub(crate) fn may_make_as(&self, dir: &Dir, name: &[u8], id: DirId) -> Result<()> {
        check_name(name)?;
        let depth = self.inner.depth(dir.state.id)? + 1;
        let info = dir.state.read();
        match self.lookup(dir.state.id, name)? {
            Some(Found::Dir(there)) if there == id => Ok(()),
            _ => self.may_make(dir, &info, name, depth),
        }
    }

    /// The number of a new directory: the first of its name has the one that other logs give too.
    fn new_dir_id(&self, dir: &Dir, name: &[u8]) -> Result<DirId> {
        let first = DirId::first(dir.state.id, name);
        if !self.inner.layers.has_known(first)? {
            return Ok(first);
        }
        Ok(DirId::again(dir.state.id, name, self.inner.number()))
    }
}

/// A file that is to be made: decided while other writers of its name wait.
struct NewFile<'a, F> {
    caller: &'a Caller<'a>,
    dir: (DirId, &'a DirInfo),
    name: &'a [u8],
    mode: u32,
    if_exists: IfExists,
    /// What lower logs have under the name.
    below: Option<Named>,
    may_write: Result<()>,
    now_ns: u64,
    /// It is called once.
    entry: Option<F>,
    made: Result<Stat>,
    is_new: bool,
    /// The name is that of a file with hard links.
    is_link: bool,
}

impl<'e, F: FnOnce(Attributes) -> Entry<'e>> NewFile<'_, F> {
    fn decide(&mut self, value: Option<&[u8]>) -> Change<Vec<u8>> {
        let inner = self.caller.inner;
        let (id, info) = self.dir;
        let name = self.name;
        match inner.named(id, name, value, self.below) {
            Ok(None) => {}
            Ok(Some(Named::Link(_))) => {
                self.is_link = true;
                return Change::Keep;
            }
            Ok(Some(Named::Entry(found))) => {
                self.made = self.caller.take_existing(found, name, self.if_exists);
                return Change::Keep;
            }
            Err(error) => {
                self.made = Err(error);
                return Change::Keep;
            }
        }
        let names = &inner.name_count;
        let reserved = match &self.may_write {
            Ok(()) => names.check_length(name).and_then(|()| names.reserve(name, 1)),
            Err(error) => Err(error.clone()),
        };
        if let Err(error) = reserved {
            self.made = Err(error);
            return Change::Keep;
        }
        let Some(entry) = self.entry.take() else { return Change::Keep };
        let entry = entry(self.caller.attributes(info, self.mode, self.now_ns));
        self.made = match Found::of(entry) {
            Some(Found::Other(stat)) => Ok(stat),
            _ => Err(Error::Invalid(shown(name))),
        };
        self.is_new = true;
        Change::Put(entry.encode())
    }
}

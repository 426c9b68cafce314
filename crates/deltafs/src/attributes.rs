//! Facts about entries: asking for them, and changing them.
//!
//! There is no access time: reading writes nothing.

use crate::caller::{Caller, Found, Stat};
use crate::error::{Error, Result, shown};
use crate::file_ref::FileRef;
use crate::id::Inode;
use crate::inner::Dir;
use crate::name::check_name;
use crate::record::{Attributes, Entry, INLINE_BYTES_MAX, Key, MODE_BITS};
use crate::user::{PASS, SET_GROUP, WRITE};
use keyrack_flodb::{Change, WriteOptions};

/// A time to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The present; whoever may write the file may do it.
    Now,
    /// Nanoseconds since 1970; only the owner may do it.
    Ns(u64),
}

/// What is to be changed. What is `None` stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Permission bits.
    pub mode: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
    /// Bytes of a file. Up to 3,901 the bytes are here, zeros where there were none; a file
    /// without any may have any size, and is then one whose bytes are elsewhere.
    pub size: Option<u64>,
    /// The modification time.
    pub mtime: Option<SetTime>,
}

/// Mode, owner and times of a file or a directory.
struct Facts {
    mode: u32,
    uid: u32,
    gid: u32,
    mtime_ns: u64,
}

impl Caller<'_> {
    /// The facts of what a path names; links at its end are followed.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotDir`], [`Error::Denied`] on the way, and so on.
    pub fn stat(&self, path: &[u8]) -> Result<Stat> {
        self.stat_of(path, true)
    }

    /// The same, of a link itself.
    ///
    /// # Errors
    /// As for [`Caller::stat`].
    pub fn lstat(&self, path: &[u8]) -> Result<Stat> {
        self.stat_of(path, false)
    }

    fn stat_of(&self, path: &[u8], follow: bool) -> Result<Stat> {
        // A slash at the end asks for what a link leads to.
        self.at_path(path, follow || path.ends_with(b"/"), |resolved| {
            let Some(name) = &resolved.name else { return self.stat_dir(&resolved.dir) };
            let stat = self.stat_at(&resolved.dir, name)?;
            Self::check_dir(resolved, &Found::Other(stat), path)?;
            Ok(stat)
        })
    }

    /// The facts of an entry of `dir`. A link is not followed.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Denied`].
    pub fn stat_at(&self, dir: &Dir, name: &[u8]) -> Result<Stat> {
        self.stat_ref(FileRef::Name(dir, name))
    }

    /// The facts of a directory that is open.
    ///
    /// # Errors
    /// [`Error::Stale`] if it was removed.
    pub fn stat_dir(&self, dir: &Dir) -> Result<Stat> {
        let info = dir.state.read();
        if info.is_removed {
            return Err(Error::Stale(shown(&info.node.name)));
        }
        Ok(Stat::of_dir(&dir.state, &info))
    }

    /// Changes what a path names; links at its end are followed. Gives the facts afterwards.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::NotOwner`] and [`Error::Denied`] for what the user may not
    /// change; [`Error::IsDir`] for the size of a directory; [`Error::TooLarge`];
    /// [`Error::ReadOnly`]; those of the store.
    pub fn set_attributes(&self, path: &[u8], set: &SetAttributes) -> Result<Stat> {
        self.at_path(path, true, |resolved| match &resolved.name {
            None => self.set_dir_attributes(&resolved.dir, set),
            Some(name) => {
                if let Some(found) = self.lookup(resolved.dir.state.id, name)? {
                    Self::check_dir(resolved, &found, path)?;
                }
                self.set_attributes_at(&resolved.dir, name, set)
            }
        })
    }

    /// Changes an entry of `dir`. A link is not followed.
    ///
    /// # Errors
    /// As for [`Caller::set_attributes`].
    pub fn set_attributes_at(&self, dir: &Dir, name: &[u8], set: &SetAttributes) -> Result<Stat> {
        self.set_attributes_ref(FileRef::Name(dir, name), set)
    }

    pub(crate) fn set_attributes_ref(
        &self,
        file: FileRef<'_>,
        set: &SetAttributes,
    ) -> Result<Stat> {
        if let Some(size) = set.size
            && self.is_resized_here(file, size)?
        {
            // Two steps: the size, then the rest.
            let stat = self.resize_ref(file, size, set.mtime)?;
            let rest = SetAttributes { size: None, mtime: None, ..*set };
            return if rest == SetAttributes::default() {
                Ok(stat)
            } else {
                Ok(self.set_in_record(file, &rest)?.0)
            };
        }
        let contents = &self.inner.contents;
        // Nobody may put bytes there between the record and the removal.
        let mut guard = (set.size == Some(0)).then(|| contents.lock_state());
        let (stat, left) = self.set_in_record(file, set)?;
        if let (Some(state), Some(inode)) = (&mut guard, left) {
            contents.remove_in(state, inode)?;
        }
        Ok(stat)
    }

    /// As [`Caller::set_attributes_at`], but bytes outside of the record that nobody needs any more
    /// are left: their number is given.
    pub(crate) fn set_in_record(
        &self,
        file: FileRef<'_>,
        set: &SetAttributes,
    ) -> Result<(Stat, Option<Inode>)> {
        let mut left = None;
        let now = self.inner.time.now_ns();
        // A link has a mode and times, but no bytes of its own.
        let takes_links = set.size.is_none();
        let changed = self.change_entry(file, takes_links, |attributes, data, sized| {
            let mut facts = Facts {
                mode: attributes.mode,
                uid: attributes.uid,
                gid: attributes.gid,
                mtime_ns: attributes.mtime_ns,
            };
            self.apply(&mut facts, set, now, file)?;
            if (set.uid.is_some() || set.gid.is_some()) && set.mode.is_none() {
                facts.mode = self.user.without_set_ids(facts.mode, attributes.gid);
            }
            if set.size.is_some() && set.mode.is_none() {
                facts.mode = self.user.mode_after_write(facts.mode, attributes.gid);
            }
            let mut changed = Attributes {
                mode: facts.mode,
                uid: facts.uid,
                gid: facts.gid,
                mtime_ns: facts.mtime_ns,
                ctime_ns: now,
                ..attributes
            };
            let mut data = data.to_vec();
            let mut is_sized = sized;
            if let Some(size) = set.size {
                self.check_write(&attributes, file)?;
                if set.mtime.is_none() {
                    changed.mtime_ns = now;
                }
                is_sized = resize(&mut data, size, sized, file)?;
                left = (sized && !is_sized).then_some(attributes.inode);
                changed.size = size;
            }
            Ok(Some((changed, data, is_sized)))
        });
        match changed? {
            Changed::File(stat) => Ok((stat, left)),
            Changed::Dir(dir) => Ok((self.set_dir_attributes(&dir, set)?, None)),
        }
    }

    /// Changes a directory that is open.
    ///
    /// # Errors
    /// As for [`Caller::set_attributes`].
    pub fn set_dir_attributes(&self, dir: &Dir, set: &SetAttributes) -> Result<Stat> {
        let mut info = dir.state.write();
        self.check(&info, 0, b"")?;
        let name = info.node.name.clone();
        if set.size.is_some() {
            return Err(Error::IsDir(shown(&name)));
        }
        let top = self.inner.top(&shown(&name))?;
        let now = self.inner.time.now_ns();
        let (mtime_ns, _) = dir.state.times(&info);
        let node = &info.node;
        let mut facts = Facts { mode: node.mode, uid: node.uid, gid: node.gid, mtime_ns };
        self.apply(&mut facts, set, now, FileRef::Name(dir, &name))?;
        let before = info.clone();
        info.node.mode = facts.mode;
        info.node.uid = facts.uid;
        info.node.gid = facts.gid;
        info.ctime_ns = now;
        info.own_is_full = true;
        dir.state.set_mtime(facts.mtime_ns);
        let written = top.put(&Key::node(dir.state.id), &dir.state.record(&info));
        if let Err(error) = written {
            *info = before;
            return Err(error.into());
        }
        Ok(Stat::of_dir(&dir.state, &info))
    }

    /// Applies what is common to files and directories, if the user may.
    fn apply(
        &self,
        facts: &mut Facts,
        set: &SetAttributes,
        now_ns: u64,
        file: FileRef<'_>,
    ) -> Result<()> {
        let user = self.user;
        let is_owner = user.owns(facts.uid);
        let refuse = || Error::NotOwner(file.shown());
        if let Some(SetTime::Ns(mtime_ns)) = set.mtime {
            if !is_owner {
                return Err(refuse());
            }
            facts.mtime_ns = mtime_ns;
        }
        if set.mtime == Some(SetTime::Now) {
            if !is_owner && !user.may(WRITE, facts.mode, facts.uid, facts.gid) {
                return Err(Error::Denied(file.shown()));
            }
            facts.mtime_ns = now_ns;
        }
        if let Some(mode) = set.mode {
            if !is_owner {
                return Err(refuse());
            }
            facts.mode = mode & MODE_BITS;
            if user.uid != 0 && !user.is_in(facts.gid) {
                facts.mode &= !SET_GROUP;
            }
        }
        if let Some(uid) = set.uid {
            if user.uid != 0 && !(is_owner && uid == facts.uid) {
                return Err(refuse());
            }
            facts.uid = uid;
        }
        if let Some(gid) = set.gid {
            if user.uid != 0 && !(is_owner && (gid == facts.gid || user.is_in(gid))) {
                return Err(refuse());
            }
            facts.gid = gid;
        }
        Ok(())
    }

    pub(crate) fn check_write(&self, attributes: &Attributes, file: FileRef<'_>) -> Result<()> {
        if self.user.may(WRITE, attributes.mode, attributes.uid, attributes.gid) {
            Ok(())
        } else {
            Err(Error::Denied(file.shown()))
        }
    }

    /// Reads a file, decides and writes it, as one step. `change` gets its attributes, its bytes,
    /// and whether these are elsewhere, and gives the same, or nothing for no change. Links are
    /// refused.
    pub(crate) fn change_file(
        &self,
        file: FileRef<'_>,
        change: impl FnOnce(Attributes, &[u8], bool) -> Result<Option<(Attributes, Vec<u8>, bool)>>,
    ) -> Result<Changed> {
        self.change_entry(file, false, change)
    }

    /// The same; with `takes_links` of a link too. Its target stays, whatever `change` gives.
    fn change_entry(
        &self,
        file: FileRef<'_>,
        takes_links: bool,
        change: impl FnOnce(Attributes, &[u8], bool) -> Result<Option<(Attributes, Vec<u8>, bool)>>,
    ) -> Result<Changed> {
        let mut record = RecordChange::new(file, takes_links, change);
        let (dir, name) = match file {
            FileRef::Number(number) => return self.change_number(number, record),
            FileRef::Name(dir, name) => (dir, name),
        };
        check_name(name)?;
        let inner = self.inner;
        let (id, info) = (dir.state.id, dir.state.read());
        self.check(&info, PASS, name)?;
        let Some(top) = inner.layers.top() else { return self.refuse_change(file) };
        let below = inner.layers.find_below(id, name, |entry| entry.encode())?;
        top.update(&Key::entry(id, name), WriteOptions::default(), |value| {
            // What is not there is reported as absent.
            let Some(value) = value.or(below.as_deref()) else { return Change::Keep };
            record.decide(Entry::read(inner.store_path(), id, name, value))
        })?;
        if let Some(number) = record.number.take() {
            return self.change_number(number, record);
        }
        drop(info);
        match record.end()? {
            Found::Other(stat) => Ok(Changed::File(stat)),
            Found::Dir(id) => Ok(Changed::Dir(inner.dir(id)?)),
        }
    }

    /// The same to the record under a number.
    fn change_number<F>(&self, number: Inode, mut record: RecordChange<'_, F>) -> Result<Changed>
    where
        F: FnOnce(Attributes, &[u8], bool) -> Result<Option<(Attributes, Vec<u8>, bool)>>,
    {
        let inner = self.inner;
        let Some(top) = inner.layers.top() else { return self.refuse_change(record.file) };
        let _links = inner.lock_links();
        let below = inner.layers.find_number_below(number, |entry| entry.encode())?;
        top.update(&Key::number(number), WriteOptions::default(), |value| {
            // The last name went meanwhile: there is no file.
            let Some(value) = value.or(below.as_deref()) else { return Change::Keep };
            record.decide(Entry::read_numbered(inner.store_path(), number, value))
        })?;
        match record.end()? {
            Found::Other(stat) => Ok(Changed::File(stat)),
            Found::Dir(_) => unreachable!("no directory has a record under the number of a file"),
        }
    }

    /// What a change of a read-only name space comes to.
    fn refuse_change(&self, file: FileRef<'_>) -> Result<Changed> {
        match self.find_file(file, |_| ())? {
            None => Err(Error::NotFound(file.shown())),
            Some(()) => Err(Error::ReadOnly(file.shown())),
        }
    }
}

/// A change of one record: decided while other writers of its key wait.
struct RecordChange<'a, F> {
    file: FileRef<'a>,
    takes_links: bool,
    /// It is called once.
    change: Option<F>,
    result: Result<Found>,
    /// The entry is a name of a file that has its record under this number.
    number: Option<Inode>,
}

impl<'a, F> RecordChange<'a, F>
where
    F: FnOnce(Attributes, &[u8], bool) -> Result<Option<(Attributes, Vec<u8>, bool)>>,
{
    fn new(file: FileRef<'a>, takes_links: bool, change: F) -> Self {
        let result = Err(Error::NotFound(file.shown()));
        RecordChange { file, takes_links, change: Some(change), result, number: None }
    }

    fn decide(&mut self, entry: Result<Entry<'_>>) -> Change<Vec<u8>> {
        let (entry, attributes, bytes, is_sized) = match entry {
            // There is no file.
            Ok(Entry::Whiteout) => return Change::Keep,
            Ok(Entry::Link(number)) => {
                self.number = Some(number);
                return Change::Keep;
            }
            Ok(Entry::Dir(id)) => {
                self.result = Ok(Found::Dir(id));
                return Change::Keep;
            }
            Ok(Entry::Symlink(..)) if !self.takes_links => {
                let what = format!("'{}': it is a link", self.file.shown());
                self.result = Err(Error::Invalid(what));
                return Change::Keep;
            }
            Ok(entry @ Entry::File(attributes, data)) => (entry, attributes, data, false),
            Ok(entry @ Entry::Sized(attributes)) => (entry, attributes, &[][..], true),
            Ok(entry @ Entry::Symlink(attributes, target)) => (entry, attributes, target, false),
            Err(error) => {
                self.result = Err(error);
                return Change::Keep;
            }
        };
        let absent = || Error::NotFound(self.file.shown());
        let is_link = matches!(entry, Entry::Symlink(..));
        // A key is decided about once.
        let Some(change) = self.change.take() else { return Change::Keep };
        match change(attributes, bytes, is_sized) {
            Err(error) => {
                self.result = Err(error);
                Change::Keep
            }
            Ok(None) => {
                self.result = Found::of(entry).ok_or_else(absent);
                Change::Keep
            }
            Ok(Some((attributes, data, is_sized))) => {
                let bytes = if is_link { bytes } else { &data[..] };
                let entry = rebuilt(attributes, bytes, (is_link, is_sized));
                self.result = Found::of(entry).ok_or_else(absent);
                Change::Put(entry.encode())
            }
        }
    }

    fn end(self) -> Result<Found> {
        self.result
    }
}

/// An entry of the same kind with other attributes and bytes.
fn rebuilt(attributes: Attributes, bytes: &[u8], (is_link, is_sized): (bool, bool)) -> Entry<'_> {
    match (is_link, is_sized) {
        (true, _) => Entry::Symlink(attributes, bytes),
        (false, true) => Entry::Sized(attributes),
        (false, false) => Entry::File(attributes, bytes),
    }
}

/// What a change was made to.
pub(crate) enum Changed {
    File(Stat),
    /// Nothing was: it is a directory.
    Dir(Dir),
}

/// The bytes of a file at another size. Returns whether they are elsewhere then.
fn resize(data: &mut Vec<u8>, size: u64, is_sized: bool, file: FileRef<'_>) -> Result<bool> {
    if size == 0 {
        data.clear();
        return Ok(false);
    }
    if is_sized {
        return Ok(true);
    }
    if size <= INLINE_BYTES_MAX as u64 {
        data.resize(size as usize, 0);
        return Ok(false);
    }
    if data.is_empty() {
        return Ok(true);
    }
    Err(Error::TooLarge { path: file.shown(), bytes: size, limit: INLINE_BYTES_MAX as u64 })
}

//! Calls on behalf of a user: the face of a name space, and what all calls have in common.
//!
//! Each call has two forms. With a path it begins at the root, or at the target of a symbolic link
//! on the way; `*_at` begins in a directory that is open, and takes a name.

use crate::dirs::{DirInfo, DirState};
use crate::error::{Error, Result, shown};
use crate::id::{DirId, Inode};
use crate::inner::{Dir, Inner};
use crate::record::{Attributes, Entry};
use crate::user::{STICKY, User};

/// A name space as one user sees it.
#[derive(Clone, Copy)]
pub struct Caller<'a> {
    pub(crate) inner: &'a Inner,
    pub(crate) user: &'a User,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Bytes, or what is known about bytes that are elsewhere.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Symlink,
}

impl Kind {
    /// The letter of `ls` and `find`.
    #[must_use]
    pub fn letter(self) -> char {
        match self {
            Kind::File => 'f',
            Kind::Dir => 'd',
            Kind::Symlink => 'l',
        }
    }
}

/// Hard facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: Kind,
    /// Its number.
    pub inode: Inode,
    /// Permission bits, with set-user, set-group and sticky.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Names of a file or a symbolic link; for a directory 2 and its subdirectories.
    pub nlink: u64,
    /// Bytes of a file, or of the target of a link; 0 for directories.
    pub size: u64,
    /// When its bytes, or its entries, last changed; nanoseconds since 1970.
    pub mtime_ns: u64,
    /// When anything of it last changed.
    pub ctime_ns: u64,
    /// Whether the bytes of a file are here; true for everything else.
    pub has_data: bool,
}

impl Stat {
    pub(crate) fn of(kind: Kind, attributes: &Attributes) -> Stat {
        Stat {
            kind,
            inode: attributes.inode,
            mode: attributes.mode,
            uid: attributes.uid,
            gid: attributes.gid,
            nlink: u64::from(attributes.nlink),
            size: attributes.size,
            mtime_ns: attributes.mtime_ns,
            ctime_ns: attributes.ctime_ns,
            has_data: true,
        }
    }

    pub(crate) fn of_dir(state: &DirState, info: &DirInfo) -> Stat {
        let (mtime_ns, ctime_ns) = state.times(info);
        Stat {
            kind: Kind::Dir,
            inode: state.id.inode(),
            mode: info.node.mode,
            uid: info.node.uid,
            gid: info.node.gid,
            nlink: 2_u64.saturating_add(u64::try_from(info.subdirs).unwrap_or(0)),
            size: 0,
            mtime_ns,
            ctime_ns,
            has_data: true,
        }
    }
}

/// An entry as a lookup finds it: a directory by its number, anything else with its facts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found {
    Dir(DirId),
    Other(Stat),
}

/// What stands under a name by itself.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Named {
    Entry(Found),
    /// One of the names of a file that has its record under this number.
    Link(Inode),
}

impl Named {
    pub(crate) fn of(entry: Entry<'_>) -> Option<Named> {
        match entry {
            Entry::Link(number) => Some(Named::Link(number)),
            entry => Found::of(entry).map(Named::Entry),
        }
    }
}

impl Found {
    /// `None` for a whiteout. The number of a file with hard links is no entry: lookups give the
    /// record under it instead.
    pub(crate) fn of(entry: Entry<'_>) -> Option<Found> {
        Some(match entry {
            Entry::Whiteout | Entry::Link(_) => return None,
            Entry::Dir(id) => Found::Dir(id),
            Entry::File(attributes, _) => Found::Other(Stat::of(Kind::File, &attributes)),
            Entry::Sized(attributes) => {
                Found::Other(Stat { has_data: false, ..Stat::of(Kind::File, &attributes) })
            }
            Entry::Symlink(attributes, _) => Found::Other(Stat::of(Kind::Symlink, &attributes)),
        })
    }
}

impl Caller<'_> {
    /// The entry of a name, whoever asks: that the user may pass the directory was checked.
    pub(crate) fn lookup(&self, dir: DirId, name: &[u8]) -> Result<Option<Found>> {
        Ok(self.inner.layers.find(dir, name, Found::of)?.flatten())
    }

    /// Refuses a directory that is gone, or that the user may not use so.
    #[inline]
    pub(crate) fn check(&self, info: &DirInfo, wanted: u32, name: &[u8]) -> Result<()> {
        if info.is_removed {
            return Err(Error::Stale(shown(name)));
        }
        let node = &info.node;
        if self.user.may(wanted, node.mode, node.uid, node.gid) {
            Ok(())
        } else {
            Err(Error::Denied(shown(name)))
        }
    }

    /// Refuses to take an entry of `uid` out of a sticky directory of somebody else.
    pub(crate) fn check_sticky(&self, info: &DirInfo, uid: u32, name: &[u8]) -> Result<()> {
        let node = &info.node;
        if node.mode & STICKY == 0 || self.user.owns(uid) || self.user.owns(node.uid) {
            return Ok(());
        }
        Err(Error::NotOwner(shown(name)))
    }

    /// An entry of `dir` came or went.
    #[inline]
    pub(crate) fn touch(&self, dir: &Dir, info: &DirInfo, now_ns: u64) -> Result<()> {
        if dir.state.touch(now_ns) {
            let key = crate::record::Key::node(dir.state.id);
            self.inner.top("")?.put(&key, &dir.state.record(info))?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Caller<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Caller").field("user", self.user).finish_non_exhaustive()
    }
}

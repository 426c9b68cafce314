//! What the kernel asks of files, as calls on a name space.
//!
//! The kernel has checked the permissions of who asks, so the calls are made by user 0; what is new
//! is given to who made it.

use crate::listing::Listing;
use crate::nodes::{Location, Nodes, Removed, RemovedBytes};
use fuser::Errno;
use keyrack_deltafs::{
    Caller, Dir, Error, INLINE_BYTES_MAX, IfExists, IfTaken, Kind, Namespace, SetAttributes,
    SetTime, Stat,
};
use std::collections::HashMap;

const SET_GROUP: u32 = 0o2000;

pub(crate) type Answer<T> = Result<T, Errno>;

/// A mounted name space.
#[derive(Debug)]
pub(crate) struct Tree {
    space: Namespace,
    nodes: Nodes,
    listings: HashMap<u64, Listing>,
    next_listing: u64,
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// An answer about a file: its number and its facts.
pub(crate) type Known = (u64, Stat);

fn answer<T>(result: keyrack_deltafs::Result<T>) -> Answer<T> {
    result.map_err(|error| Errno::from_i32(error.errno_number()))
}

impl Tree {
    pub(crate) fn new(space: Namespace) -> keyrack_deltafs::Result<Tree> {
        let nodes = Nodes::new(&space.root()?);
        Ok(Tree { space, nodes, listings: HashMap::new(), next_listing: 1 })
    }

    fn location(&self, number: u64) -> Answer<Location> {
        self.nodes.get(number).map(|node| node.location.clone()).ok_or(Errno::ESTALE)
    }

    fn dir(&self, number: u64) -> Answer<Dir> {
        match self.location(number)? {
            Location::Dir(dir) => Ok(dir),
            Location::Entry(..) | Location::Linked(_) | Location::Removed(_) => Err(Errno::ENOTDIR),
        }
    }

    /// The number that listings show for a file.
    pub(crate) fn number(&self, stat: &Stat) -> u64 {
        self.nodes.number(stat.inode)
    }

    /// Notes an entry that the kernel is told of.
    pub(crate) fn remember(&mut self, dir: &Dir, name: &[u8], stat: Stat) -> Answer<Known> {
        let location = match stat.kind {
            Kind::Dir => Location::Dir(answer(self.space.as_root().dir_at(dir, name))?),
            Kind::File | Kind::Symlink => self.location_of(dir, name, &stat)?,
        };
        Ok((self.nodes.add_lookup(stat.inode, location), stat))
    }

    /// Where a file is. One that has one name is there, until [`Tree::link`] gives it another.
    fn location_of(&self, dir: &Dir, name: &[u8], stat: &Stat) -> Answer<Location> {
        let linked = match stat.nlink {
            1 => None,
            _ => answer(self.space.as_root().linked_at(dir, name))?,
        };
        Ok(linked.map_or_else(|| Location::Entry(dir.clone(), name.to_vec()), Location::Linked))
    }

    pub(crate) fn lookup(&mut self, parent: u64, name: &[u8]) -> Answer<Known> {
        let dir = self.dir(parent)?;
        let stat = answer(self.space.as_root().stat_at(&dir, name))?;
        self.remember(&dir, name, stat)
    }

    /// As [`Tree::lookup`] of an entry that a listing had. It is looked at anew: the page may be
    /// older than the last change of the entry.
    pub(crate) fn lookup_listed(&mut self, dir: &Dir, name: &[u8], old: Stat) -> Answer<Known> {
        let stat = answer(self.space.as_root().stat_at(dir, name))?;
        if stat.inode == old.inode { self.remember(dir, name, stat) } else { Err(Errno::ENOENT) }
    }

    pub(crate) fn forget(&mut self, number: u64, count: u64) {
        self.nodes.forget(number, count);
    }

    pub(crate) fn stat(&self, number: u64) -> Answer<Stat> {
        let fs = self.space.as_root();
        match self.location(number)? {
            Location::Dir(dir) => answer(fs.stat_dir(&dir)),
            Location::Entry(dir, name) => answer(fs.stat_at(&dir, &name)),
            Location::Linked(file) => answer(fs.stat_linked(&file)),
            Location::Removed(removed) => Ok(removed.stat),
        }
    }

    /// Mode, owner and times; then the size.
    pub(crate) fn set(&mut self, number: u64, set: &SetAttributes) -> Answer<Stat> {
        let fs = self.space.as_root();
        let others = SetAttributes { size: None, ..*set };
        let has_others = others != SetAttributes::default();
        match self.location(number)? {
            Location::Dir(_) if set.size.is_some() => Err(Errno::EISDIR),
            Location::Dir(dir) if has_others => answer(fs.set_dir_attributes(&dir, &others)),
            Location::Dir(dir) => answer(fs.stat_dir(&dir)),
            Location::Entry(dir, name) => {
                if let Some(size) = set.size {
                    answer(fs.resize_at(&dir, &name, size, set.mtime))?;
                }
                if has_others {
                    answer(fs.set_attributes_at(&dir, &name, &others))
                } else {
                    answer(fs.stat_at(&dir, &name))
                }
            }
            Location::Linked(file) => {
                if let Some(size) = set.size {
                    answer(fs.resize_linked(&file, size, set.mtime))?;
                }
                if has_others {
                    answer(fs.set_linked(&file, &others))
                } else {
                    answer(fs.stat_linked(&file))
                }
            }
            Location::Removed(_) => self.set_removed(number, set),
        }
    }

    pub(crate) fn make_dir(
        &mut self,
        parent: u64,
        name: &[u8],
        mode: u32,
        owner: Owner,
    ) -> Answer<Known> {
        let dir = self.dir(parent)?;
        let fs = self.space.as_root();
        let made = answer(fs.mkdir_at(&dir, name, mode))?;
        if let Some(set) = owner_to_set(&fs, &dir, owner)? {
            answer(fs.set_dir_attributes(&made, &set))?;
        }
        let stat = answer(fs.stat_dir(&made))?;
        self.remember(&dir, name, stat)
    }

    /// Makes a file. With [`IfExists::Open`] one that is there is taken.
    pub(crate) fn make_file(
        &mut self,
        parent: u64,
        name: &[u8],
        mode: u32,
        owner: Owner,
        if_exists: IfExists,
    ) -> Answer<Known> {
        let dir = self.dir(parent)?;
        let fs = self.space.as_root();
        let made = answer(fs.create_at(&dir, name, mode, if_exists))?;
        let mut stat = made.stat;
        if made.is_new
            && let Some(set) = owner_to_set(&fs, &dir, owner)?
        {
            // Another owner takes the set-id bits away, unless the mode is said with it.
            let set = SetAttributes { mode: Some(stat.mode), ..set };
            stat = answer(fs.set_attributes_at(&dir, name, &set))?;
        }
        self.remember(&dir, name, stat)
    }

    pub(crate) fn make_link(
        &mut self,
        parent: u64,
        name: &[u8],
        target: &[u8],
        owner: Owner,
    ) -> Answer<Known> {
        let dir = self.dir(parent)?;
        let fs = self.space.as_root();
        let mut stat = answer(fs.symlink_at(target, &dir, name))?;
        if let Some(set) = owner_to_set(&fs, &dir, owner)? {
            stat = answer(fs.set_attributes_at(&dir, name, &set))?;
        }
        self.remember(&dir, name, stat)
    }

    pub(crate) fn read_link(&self, number: u64) -> Answer<Vec<u8>> {
        match self.location(number)? {
            Location::Entry(dir, name) => answer(self.space.as_root().read_link_at(&dir, &name)),
            Location::Linked(file) => answer(self.space.as_root().read_link_linked(&file)),
            Location::Dir(_) | Location::Removed(_) => Err(Errno::EINVAL),
        }
    }

    /// Gives a file another name.
    pub(crate) fn link(&mut self, number: u64, parent: u64, name: &[u8]) -> Answer<Known> {
        let dir = self.dir(parent)?;
        let fs = self.space.as_root();
        let stat = match self.location(number)? {
            Location::Dir(_) => return Err(Errno::EPERM),
            // What has no name gets none.
            Location::Removed(_) => return Err(Errno::ENOENT),
            Location::Entry(old, old_name) => answer(fs.link_at(&old, &old_name, &dir, name))?,
            Location::Linked(file) => answer(fs.link_file(&file, &dir, name))?,
        };
        self.remember(&dir, name, stat)
    }

    pub(crate) fn unlink(&mut self, parent: u64, name: &[u8]) -> Answer<()> {
        let dir = self.dir(parent)?;
        let fs = self.space.as_root();
        let stat = answer(fs.stat_at(&dir, name))?;
        let removed = self.keep_removed(&fs, &dir, name, stat)?;
        answer(fs.unlink_at(&dir, name))?;
        if let Some(removed) = removed {
            self.nodes.moved(stat.inode, Location::Removed(removed));
        }
        Ok(())
    }

    pub(crate) fn remove_dir(&mut self, parent: u64, name: &[u8]) -> Answer<()> {
        let dir = self.dir(parent)?;
        answer(self.space.as_root().rmdir_at(&dir, name))
    }

    pub(crate) fn rename(
        &mut self,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        if_taken: IfTaken,
    ) -> Answer<()> {
        let (old, new) = (self.dir(from.0)?, self.dir(to.0)?);
        let fs = self.space.as_root();
        let moved = answer(fs.stat_at(&old, from.1))?;
        let replaced = match fs.stat_at(&new, to.1) {
            Err(Error::NotFound(_)) => None,
            stat => Some(answer(stat)?),
        };
        let removed = match replaced {
            Some(stat) if stat.kind != Kind::Dir && stat.inode != moved.inode => {
                self.keep_removed(&fs, &new, to.1, stat)?.map(|removed| (stat.inode, removed))
            }
            _ => None,
        };
        answer(fs.rename_at(&old, from.1, &new, to.1, if_taken))?;
        if let Some((inode, removed)) = removed {
            self.nodes.moved(inode, Location::Removed(removed));
        }
        // A directory, and a file with several names, is the same wherever it is.
        if moved.kind != Kind::Dir && moved.nlink == 1 {
            self.nodes.moved(moved.inode, Location::Entry(new, to.1.to_vec()));
        }
        Ok(())
    }

    /// A file as it will be when its last name is gone: with its bytes if somebody has it open.
    /// `None` if it has other names.
    fn keep_removed(
        &self,
        fs: &Caller<'_>,
        dir: &Dir,
        name: &[u8],
        stat: Stat,
    ) -> Answer<Option<Removed>> {
        if stat.nlink > 1 {
            return Ok(None);
        }
        let mut bytes = RemovedBytes::Memory(Vec::new());
        if stat.kind == Kind::File && self.nodes.is_open(stat.inode) {
            if stat.has_data {
                bytes = RemovedBytes::Memory(answer(fs.read_at(dir, name, 0, INLINE_BYTES_MAX))?);
            } else if let Some(file) = answer(self.space.open_contents(&stat))? {
                bytes = RemovedBytes::Shared(file);
            }
        }
        Ok(Some(Removed { stat: Stat { nlink: 0, ..stat }, bytes }))
    }

    pub(crate) fn open(&mut self, number: u64) -> Answer<()> {
        let node = self.nodes.get_mut(number).ok_or(Errno::ESTALE)?;
        node.opens += 1;
        Ok(())
    }

    pub(crate) fn close(&mut self, number: u64) {
        if let Some(node) = self.nodes.get_mut(number) {
            node.opens = node.opens.saturating_sub(1);
        }
    }

    pub(crate) fn read(&self, number: u64, offset: u64, count: usize) -> Answer<Vec<u8>> {
        match self.location(number)? {
            Location::Dir(_) => Err(Errno::EISDIR),
            Location::Entry(dir, name) => {
                answer(self.space.as_root().read_at(&dir, &name, offset, count))
            }
            Location::Linked(file) => {
                answer(self.space.as_root().read_linked(&file, offset, count))
            }
            Location::Removed(removed) => {
                let left = removed.stat.size.saturating_sub(offset);
                let mut bytes = vec![0; count.min(usize::try_from(left).unwrap_or(usize::MAX))];
                match &removed.bytes {
                    RemovedBytes::Memory(all) => {
                        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(all.len());
                        let end = start.saturating_add(bytes.len()).min(all.len());
                        bytes[..end - start].copy_from_slice(&all[start..end]);
                    }
                    RemovedBytes::Shared(file) | RemovedBytes::File(file) => {
                        answer(file.read_at(offset, &mut bytes))?;
                    }
                }
                Ok(bytes)
            }
        }
    }

    pub(crate) fn write(&mut self, number: u64, offset: u64, bytes: &[u8]) -> Answer<()> {
        match self.location(number)? {
            Location::Dir(_) => Err(Errno::EISDIR),
            Location::Entry(dir, name) => {
                let written = self.space.as_root().write_at(&dir, &name, offset, bytes);
                answer(written).map(|_| ())
            }
            Location::Linked(file) => {
                let written = self.space.as_root().write_linked(&file, offset, bytes);
                answer(written).map(|_| ())
            }
            Location::Removed(removed) => {
                let end = offset.saturating_add(bytes.len() as u64);
                let size = removed.stat.size.max(end);
                let set = SetAttributes { size: Some(size), ..SetAttributes::default() };
                self.set_removed(number, &set)?;
                let Some(Location::Removed(removed)) =
                    self.nodes.get_mut(number).map(|n| &mut n.location)
                else {
                    return Err(Errno::ESTALE);
                };
                match &mut removed.bytes {
                    RemovedBytes::Memory(all) => {
                        // It was extended to `size`, so both fit.
                        let start = usize::try_from(offset).map_err(|_| Errno::EFBIG)?;
                        all[start..start + bytes.len()].copy_from_slice(bytes);
                        Ok(())
                    }
                    RemovedBytes::File(file) => answer(file.write_at(offset, bytes)),
                    RemovedBytes::Shared(_) => unreachable!("it was copied when it was extended"),
                }
            }
        }
    }

    /// Changes a file that has no name.
    fn set_removed(&mut self, number: u64, set: &SetAttributes) -> Answer<Stat> {
        let Some(Location::Removed(removed)) =
            self.nodes.get_mut(number).map(|node| &mut node.location)
        else {
            return Err(Errno::ESTALE);
        };
        if let Some(size) = set.size {
            if size > INLINE_BYTES_MAX as u64
                && let RemovedBytes::Memory(all) = &removed.bytes
            {
                let file = answer(self.space.open_nameless(&removed.stat, all))?;
                removed.bytes = RemovedBytes::File(file);
            }
            if let RemovedBytes::Shared(shared) = &removed.bytes {
                let file = answer(self.space.copy_nameless(&removed.stat, shared))?;
                removed.bytes = RemovedBytes::File(file);
            }
            match &mut removed.bytes {
                RemovedBytes::Memory(all) => {
                    all.resize(usize::try_from(size).map_err(|_| Errno::EFBIG)?, 0);
                }
                RemovedBytes::Shared(_) => unreachable!("it was copied a moment ago"),
                RemovedBytes::File(file) => {
                    answer(file.set_len(size))?;
                }
            }
            removed.stat.size = size;
        }
        let stat = &mut removed.stat;
        stat.mode = set.mode.map_or(stat.mode, |mode| mode & keyrack_deltafs::MODE_BITS);
        stat.uid = set.uid.unwrap_or(stat.uid);
        stat.gid = set.gid.unwrap_or(stat.gid);
        if let Some(SetTime::Ns(mtime_ns)) = set.mtime {
            stat.mtime_ns = mtime_ns;
        }
        Ok(removed.stat)
    }

    /// How many names there may be, and how many more can come; zeros where there is no quota.
    pub(crate) fn names(&self) -> (u64, u64) {
        match (self.space.quota().names, self.space.names()) {
            (Some(limit), Some(used)) => (limit, limit.saturating_sub(used)),
            _ => (0, 0),
        }
    }

    /// Makes everything durable.
    pub(crate) fn sync(&self) -> Answer<()> {
        answer(self.space.sync())
    }

    pub(crate) fn open_dir(&mut self, number: u64) -> Answer<u64> {
        let dir = self.dir(number)?;
        let handle = self.next_listing;
        self.next_listing += 1;
        self.listings.insert(handle, Listing::new(dir));
        Ok(handle)
    }

    pub(crate) fn close_dir(&mut self, handle: u64) {
        self.listings.remove(&handle);
    }

    /// Gives entries of a listing to `take` from the place `at` on, until it says no. `.` and `..`
    /// have the places 0 and 1, and no facts.
    pub(crate) fn list(
        &mut self,
        handle: u64,
        at: u64,
        mut take: impl FnMut(&mut Tree, u64, &Dir, &[u8], Option<Stat>) -> Answer<bool>,
    ) -> Answer<()> {
        let mut listing = self.listings.remove(&handle).ok_or(Errno::EBADF)?;
        if at == 0 {
            listing.rewind();
        }
        let dir = listing.dir().clone();
        let space = self.space.clone();
        let fs = space.as_root();
        let mut next = at;
        let result = loop {
            let taken = match next {
                0 => take(self, 1, &dir, b".", None),
                1 => take(self, 2, &dir, b"..", None),
                _ => match answer(listing.entry(&fs, next - 2)) {
                    Ok(None) => break Ok(()),
                    Ok(Some(entry)) => take(self, next + 1, &dir, &entry.name, entry.stat),
                    Err(error) => Err(error),
                },
            };
            match taken {
                Ok(true) => next += 1,
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        self.listings.insert(handle, listing);
        result
    }
}

/// What makes something new the owner's, if it is not so already. A directory with set-group gives
/// its own group.
fn owner_to_set(fs: &Caller<'_>, dir: &Dir, owner: Owner) -> Answer<Option<SetAttributes>> {
    let keeps_group = answer(fs.stat_dir(dir))?.mode & SET_GROUP != 0;
    let gid = (!keeps_group && owner.gid != 0).then_some(owner.gid);
    let uid = (owner.uid != 0).then_some(owner.uid);
    let set = SetAttributes { uid, gid, ..SetAttributes::default() };
    Ok((set != SetAttributes::default()).then_some(set))
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_deltafs::Settings;
    use keyrack_vfs::{Fault, FaultFs, FaultPlan, MemFs, Operation};
    use std::path::Path;
    use std::sync::Arc;

    /// A log on a disk that gets full: programs are told ENOSPC, and go on when there is space.
    #[test]
    fn programs_are_told_of_a_full_disk() {
        let fs = FaultFs::new(Arc::new(MemFs::new()));
        let space =
            Namespace::open_in(Arc::new(fs.clone()), Path::new("/log"), Settings::default());
        let space = space.unwrap();
        let mut tree = Tree::new(space.clone()).unwrap();
        let owner = Owner { uid: 7, gid: 7 };
        let (file, _) = tree.make_file(1, b"f", 0o600, owner, IfExists::Fail).unwrap();
        let grows = [Operation::Open, Operation::Write];
        for (number, expected) in [(28, Errno::ENOSPC), (122, Errno::EDQUOT), (30, Errno::EROFS)] {
            fs.arm(FaultPlan::from_then_on(1, Fault::Errno(number)).only(&grows));
            let refused = tree.write(file, 0, &[1; 9000]).unwrap_err();
            assert_eq!(refused, expected);
            assert_eq!(tree.stat(file).unwrap().size, 0);
            fs.disarm();
        }
        space.resume().unwrap();
        tree.write(file, 0, &[1; 9000]).unwrap();
        assert_eq!(tree.stat(file).unwrap().size, 9000);
    }

    /// A program has a file open whose names come and go, also names that the kernel never heard
    /// of, until the last is gone.
    #[test]
    fn a_file_with_several_names_is_one_until_the_last_goes() {
        let disk: Arc<MemFs> = Arc::new(MemFs::new());
        let space = Namespace::open_in(disk, Path::new("/log"), Settings::default()).unwrap();
        let fs = space.as_root();
        fs.mkdir(b"/d", 0o755).unwrap();
        fs.put(b"/unknown", 0o644, b"hello").unwrap();
        fs.link(b"/unknown", b"/a").unwrap();
        let mut tree = Tree::new(space.clone()).unwrap();
        let (file, stat) = tree.lookup(1, b"a").unwrap();
        assert_eq!(stat.nlink, 2);
        tree.open(file).unwrap();
        tree.unlink(1, b"a").unwrap();
        tree.write(file, 5, b" there").unwrap();
        assert_eq!(fs.read(b"/unknown", 0, 99).unwrap(), b"hello there");
        let (dir, _) = tree.lookup(1, b"d").unwrap();
        let (again, stat) = tree.link(file, dir, b"b").unwrap();
        assert_eq!((again, stat.nlink, tree.stat(file).unwrap().nlink), (file, 2, 2));
        assert_eq!(tree.link(dir, 1, b"x").unwrap_err(), Errno::EPERM);
        assert_eq!(tree.link(file, dir, b"b").unwrap_err(), Errno::EEXIST);
        // One name is replaced, and the other, now the only one, moves.
        tree.make_file(1, b"new", 0o644, Owner { uid: 0, gid: 0 }, IfExists::Fail).unwrap();
        tree.rename((1, b"new"), (1, b"unknown"), IfTaken::Replace).unwrap();
        assert_eq!(tree.stat(file).unwrap().nlink, 1);
        tree.rename((dir, b"b"), (1, b"moved"), IfTaken::Replace).unwrap();
        tree.write(file, 0, b"H").unwrap();
        assert_eq!(fs.read(b"/moved", 0, 99).unwrap(), b"Hello there");
        // Grown beyond a record, and the last name gone: it is there for who has it open.
        tree.write(file, 0, &[b'x'; 9000]).unwrap();
        let (again, _) = tree.link(file, dir, b"c").unwrap();
        assert_eq!(again, file);
        tree.unlink(1, b"moved").unwrap();
        tree.unlink(dir, b"c").unwrap();
        assert_eq!(tree.stat(file).unwrap().nlink, 0);
        assert_eq!(tree.link(file, 1, b"back").unwrap_err(), Errno::ENOENT);
        tree.write(file, 8999, b"yz").unwrap();
        assert_eq!(tree.read(file, 8998, 99).unwrap(), b"xyz");
        assert_eq!(space.fsck().unwrap().flaws, []);
        assert_eq!(space.fsck().unwrap().files, 1);
    }

    /// A program goes on with a large file whose name is gone: its bytes are its own.
    #[test]
    fn a_large_file_that_was_removed_while_it_is_open_can_be_written() {
        let disk: Arc<MemFs> = Arc::new(MemFs::new());
        let below = Namespace::open_in(disk.clone(), Path::new("/below"), Settings::default());
        let below = below.unwrap();
        below.as_root().put(b"/old", 0o644, &[7; 9000]).unwrap();
        below.close().unwrap();
        let lower = vec![Path::new("/below").to_owned()];
        let settings = Settings { lower: lower.clone(), ..Settings::default() };
        let space = Namespace::open_in(disk.clone(), Path::new("/log"), settings).unwrap();
        space.as_root().put(b"/new", 0o644, &[7; 9000]).unwrap();
        let mut tree = Tree::new(space).unwrap();
        for name in [&b"new"[..], b"old"] {
            let (file, _) = tree.lookup(1, name).unwrap();
            tree.open(file).unwrap();
            tree.unlink(1, name).unwrap();
            tree.write(file, 8990, &[8; 20]).unwrap();
            let bytes = tree.read(file, 0, 10_000).unwrap();
            assert_eq!((bytes.len(), bytes[8989], bytes[8990], bytes[9009]), (9010, 7, 8, 8));
        }
        // What is published stays as it is.
        let view = Namespace::open_read_only_in(disk, &lower, Settings::default()).unwrap();
        assert!(view.as_root().read(b"/old", 0, 10_000).unwrap() == [7; 9000]);
    }
}

//! Removing entries.
//!
//! What lower logs have cannot be removed, only hidden: the log gets a whiteout then. Where no
//! lower log has the name, the record simply goes. A removed directory leaves a record of one
//! byte under its number, so that the number is never given again, and what other logs have under
//! it stays hidden.

use crate::caller::{Caller, Found, Kind, Named};
use crate::error::{Error, Result, shown};
use crate::id::DirId;
use crate::inner::{Dir, Inner};
use crate::name::check_name;
use crate::record::{Entry, KIND_WHITEOUT, Key, Node};
use crate::resolve::named;
use crate::user::{PASS, WRITE};
use keyrack_flodb::{Batch, Change, WriteOptions};

impl Caller<'_> {
    /// Removes a file or a symbolic link.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::IsDir`], [`Error::Denied`], [`Error::NotOwner`] in a sticky
    /// directory, [`Error::ReadOnly`], and those of the store.
    pub fn unlink(&self, path: &[u8]) -> Result<()> {
        self.at_path(path, false, |resolved| {
            let Some(name) = &resolved.name else { return Err(Error::IsDir(shown(path))) };
            if resolved.must_be_dir {
                let found = self.lookup(resolved.dir.state.id, name)?;
                let found = found.ok_or_else(|| Error::NotFound(shown(path)))?;
                Self::check_dir(resolved, &found, path)?;
            }
            self.unlink_at(&resolved.dir, name)
        })
    }

    /// Removes a file or a symbolic link from `dir`.
    ///
    /// # Errors
    /// As for [`Caller::unlink`].
    pub fn unlink_at(&self, dir: &Dir, name: &[u8]) -> Result<()> {
        check_name(name)?;
        let inner = self.inner;
        let id = dir.state.id;
        let info = dir.state.read();
        self.check(&info, PASS, name)?;
        let below = inner.lower_entry(id, name)?;
        let may_write = self.check(&info, WRITE, name);
        let mut removed = Ok(());
        let (mut elsewhere, mut is_link) = (None, false);
        let mut decide = |value: Option<&[u8]>| {
            removed = match inner.named(id, name, value, below) {
                Err(error) => Err(error),
                Ok(None) => Err(Error::NotFound(shown(name))),
                Ok(Some(Named::Entry(Found::Dir(_)))) => Err(Error::IsDir(shown(name))),
                Ok(Some(Named::Entry(Found::Other(stat)))) => {
                    elsewhere = (!stat.has_data).then_some(stat.inode);
                    may_write.clone().and_then(|()| self.check_sticky(&info, stat.uid, name))
                }
                Ok(Some(Named::Link(_))) => {
                    is_link = true;
                    return Change::Keep;
                }
            };
            match (&removed, below) {
                (Err(_), _) => Change::Keep,
                (Ok(()), None) => Change::Remove,
                (Ok(()), Some(_)) => Change::Put(vec![KIND_WHITEOUT]),
            }
        };
        match inner.layers.top() {
            Some(top) => top.update(&Key::entry(id, name), WriteOptions::default(), decide)?,
            None => {
                decide(None);
                removed = removed.and_then(|()| Err(Error::ReadOnly(shown(name))));
            }
        }
        removed?;
        if is_link {
            drop(info);
            return self.unlink_link(dir, name);
        }
        inner.name_count.release(1);
        self.touch(dir, &info, inner.time.now_ns())?;
        drop(info);
        elsewhere.map_or(Ok(()), |inode| inner.contents.remove(inode))
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// [`Error::NotEmpty`], [`Error::NotDir`], [`Error::NotFound`], [`Error::Denied`],
    /// [`Error::NotOwner`], [`Error::ReadOnly`]; [`Error::Invalid`] for the root; the store's.
    pub fn rmdir(&self, path: &[u8]) -> Result<()> {
        self.at_path(path, false, |resolved| self.rmdir_at(&resolved.dir, resolved.name(path)?))
    }

    /// Removes an empty directory from `dir`.
    ///
    /// # Errors
    /// As for [`Caller::rmdir`].
    pub fn rmdir_at(&self, dir: &Dir, name: &[u8]) -> Result<()> {
        self.rmdir_or_check(dir, name, false)
    }

    /// The same; with `is_trial` it only says whether it could be done.
    pub(crate) fn rmdir_or_check(&self, dir: &Dir, name: &[u8], is_trial: bool) -> Result<()> {
        check_name(name)?;
        let inner = self.inner;
        loop {
            self.check(&dir.state.read(), PASS, name)?;
            let child = match self.lookup(dir.state.id, name)? {
                None => return Err(Error::NotFound(shown(name))),
                Some(Found::Other(_)) => return Err(Error::NotDir(shown(name))),
                Some(Found::Dir(child)) => inner.dir(child)?,
            };
            let mut locked = LockedDirs::new([dir, &child]);
            let [mut parent, mut gone] = locked.guards();
            let is_same = |found| matches!(found, Some(Found::Dir(id)) if id == child.state.id);
            if !is_same(self.lookup(dir.state.id, name)?) {
                // Somebody was faster; what is there now is looked at anew.
                continue;
            }
            let top = inner.top(&shown(name))?;
            self.check(&parent, WRITE | PASS, name)?;
            self.check_sticky(&parent, gone.node.uid, name)?;
            if !inner.is_empty(child.state.id)? {
                return Err(Error::NotEmpty(shown(name)));
            }
            if is_trial {
                return Ok(());
            }
            let now = inner.time.now_ns();
            let mut batch = Batch::new();
            inner.hide(&mut batch, dir.state.id, name)?;
            batch.put(&Key::node(child.state.id), &Node::Removed.encode());
            let before = parent.clone();
            parent.subdirs -= 1;
            parent.own_subdirs -= 1;
            dir.state.touch_and_store(now);
            batch.put(&Key::node(dir.state.id), &dir.state.record(&parent));
            if let Err(error) = top.write(&batch, WriteOptions::default()) {
                *parent = before;
                return Err(error.into());
            }
            gone.is_removed = true;
            inner.name_count.release(1);
            inner.names.remove(dir.state.id, name);
            return Ok(());
        }
    }

    /// Removes what a path names, with all that is in it. A link is removed, and not followed.
    /// Returns how many entries went.
    ///
    /// # Errors
    /// As for [`Caller::remove_tree_at`].
    pub fn remove_tree(&self, path: &[u8]) -> Result<u64> {
        let resolved = self.resolve_parent(path).map_err(|error| named(error, path))?;
        let name = resolved.name(path)?;
        self.remove_tree_at(&resolved.dir, name).map_err(|error| match error {
            // What failed further down has its own name.
            error @ (Error::Denied(_) | Error::NotOwner(_)) => error,
            error => named(error, path),
        })
    }

    /// Removes whatever the entry is, with all that is in it. What fails is told, and what came
    /// before it is gone. Returns how many entries went.
    ///
    /// # Errors
    /// As for [`Caller::unlink`] and [`Caller::rmdir`].
    pub fn remove_tree_at(&self, dir: &Dir, name: &[u8]) -> Result<u64> {
        match self.stat_at(dir, name)?.kind {
            Kind::Dir => {}
            Kind::File | Kind::Symlink => return self.unlink_at(dir, name).map(|()| 1),
        }
        let mut removed = 0;
        // Depth is bounded by memory, not by the stack.
        let mut open = vec![(dir.clone(), name.to_vec())];
        while let Some((parent, name)) = open.last().cloned() {
            let child = self.dir_at(&parent, &name)?;
            let page = self.list_at(&child, None, crate::list::PAGE)?;
            let mut has_dirs = false;
            for entry in &page.entries {
                if entry.kind == Kind::Dir {
                    has_dirs = true;
                    open.push((child.clone(), entry.name.clone()));
                } else {
                    self.unlink_at(&child, &entry.name)?;
                    removed += 1;
                }
            }
            if !has_dirs && page.next.is_none() {
                self.rmdir_at(&parent, &name)?;
                removed += 1;
                open.pop();
            }
        }
        Ok(removed)
    }
}

/// Exclusive locks of directories, taken in the order of their numbers, and given in the order in
/// which they were named.
pub(crate) struct LockedDirs<'a, const N: usize> {
    guards: Vec<(usize, std::sync::RwLockWriteGuard<'a, crate::dirs::DirInfo>)>,
}

impl<'a, const N: usize> LockedDirs<'a, N> {
    /// The directories differ from one another.
    pub(crate) fn new(dirs: [&'a Dir; N]) -> Self {
        let mut order: Vec<usize> = (0..N).collect();
        order.sort_by_key(|n| dirs[*n].state.id);
        debug_assert!(order.windows(2).all(|w| dirs[w[0]].state.id < dirs[w[1]].state.id));
        LockedDirs { guards: order.into_iter().map(|n| (n, dirs[n].state.write())).collect() }
    }

    pub(crate) fn guards(&mut self) -> [std::sync::RwLockWriteGuard<'a, crate::dirs::DirInfo>; N] {
        let mut guards = std::mem::take(&mut self.guards);
        guards.sort_by_key(|(n, _)| *n);
        let mut guards = guards.into_iter().map(|(_, guard)| guard);
        std::array::from_fn(|_| guards.next().expect("a guard for each directory"))
    }
}

impl Inner {
    /// The directory of the log, for messages.
    pub(crate) fn store_path(&self) -> &std::path::Path {
        self.layers.all()[0].dir()
    }

    /// What the logs below the writable one have under a name.
    pub(crate) fn lower_entry(&self, dir: DirId, name: &[u8]) -> Result<Option<Named>> {
        Ok(self.layers.find_below(dir, name, Named::of)?.flatten())
    }

    /// What stands under a name: `value` in the writable log, or else what is below.
    pub(crate) fn named(
        &self,
        dir: DirId,
        name: &[u8],
        value: Option<&[u8]>,
        below: Option<Named>,
    ) -> Result<Option<Named>> {
        match value {
            None => Ok(below),
            Some(value) => Ok(Named::of(Entry::read(self.store_path(), dir, name, value)?)),
        }
    }

    /// Whether the directory has no entries.
    pub(crate) fn is_empty(&self, dir: DirId) -> Result<bool> {
        let mut entries = self.layers.entries(dir, b"")?;
        while entries.next()? {
            let (_, name) = entries.entry_key()?;
            if !name.is_empty() && entries.value(0).first() != Some(&KIND_WHITEOUT) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes an entry away: the record goes, or a whiteout comes where lower logs have the name.
    pub(crate) fn hide(&self, batch: &mut Batch, dir: DirId, name: &[u8]) -> Result<()> {
        let key = Key::entry(dir, name);
        match self.layers.find_below(dir, name, |_| ())? {
            None => batch.delete(&key),
            Some(()) => batch.put(&key, &[KIND_WHITEOUT]),
        }
        Ok(())
    }
}

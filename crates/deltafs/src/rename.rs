//! Giving an entry another name, in the same directory or in another.
//!
//! ```text
//!   one batch   new name: entry      old name: gone, or whiteout
//!               what it replaces: removed      a directory: parent and name in its own record
//!               both parents: times and counts
//! ```
//!
//! So after a crash the entry has the old name or the new one. All directories that take part are
//! locked together, in the order of their numbers, so that no two calls wait for each other; what
//! was looked up before is looked up again under the locks. A directory that gets another parent
//! holds a lock of the whole name space besides: two such moves could otherwise put each directory
//! below the other.
//!
//! A hard link is moved as the number that it holds. If both names are those of one file, nothing
//! changes, as POSIX has it.

use crate::caller::{Caller, Found, Named};
use crate::dirs::{DirInfo, DirState};
use crate::error::{Error, Result, shown};
use crate::id::{DirId, Inode};
use crate::inner::Dir;
use crate::name::{check_name, too_long};
use crate::record::{Entry, Key, Node};
use crate::resolve::named;
use crate::user::{PASS, WRITE};
use keyrack_flodb::{Batch, WriteOptions};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLockWriteGuard};

/// What a rename does with an entry that has the new name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfTaken {
    /// A file replaces a file, a directory an empty directory.
    Replace,
    /// It fails.
    Fail,
}

impl Caller<'_> {
    /// Moves the entry at `from` to `to`.
    ///
    /// # Errors
    /// [`Error::NotFound`]; [`Error::IsDir`], [`Error::NotDir`], [`Error::NotEmpty`] for what
    /// cannot be replaced; [`Error::Exists`] for what must not be; [`Error::Invalid`] for a
    /// directory that would come to be in itself; [`Error::TooLong`] for a name that is too long,
    /// or what would come to be too deep; [`Error::Denied`], [`Error::NotOwner`],
    /// [`Error::ReadOnly`], and those of the store.
    pub fn rename(&self, from: &[u8], to: &[u8], if_taken: IfTaken) -> Result<()> {
        let old = self.resolve_parent(from).map_err(|error| named(error, from))?;
        let new = self.resolve_parent(to).map_err(|error| named(error, to))?;
        let (old_name, new_name) = (old.name(from)?, new.name(to)?);
        if old.must_be_dir || new.must_be_dir {
            let found = self.lookup(old.dir.state.id, old_name)?;
            let found = found.ok_or_else(|| Error::NotFound(shown(from)))?;
            if !matches!(found, Found::Dir(_)) {
                return Err(Error::NotDir(shown(if old.must_be_dir { from } else { to })));
            }
        }
        let renamed = self.rename_at(&old.dir, old_name, &new.dir, new_name, if_taken);
        renamed.map_err(|error| match error {
            Error::NotFound(_) => Error::NotFound(shown(from)),
            error @ (Error::Denied(_) | Error::NotOwner(_)) => error,
            error => named(error, to),
        })
    }

    /// Moves an entry from one open directory to another.
    ///
    /// # Errors
    /// As for [`Caller::rename`].
    pub fn rename_at(
        &self,
        old: &Dir,
        old_name: &[u8],
        new: &Dir,
        new_name: &[u8],
        if_taken: IfTaken,
    ) -> Result<()> {
        self.rename_or_check(old, old_name, new, new_name, (if_taken, false))
    }

    /// The same; with `is_trial` it only says whether it could be done.
    pub(crate) fn rename_or_check(
        &self,
        old: &Dir,
        old_name: &[u8],
        new: &Dir,
        new_name: &[u8],
        (if_taken, is_trial): (IfTaken, bool),
    ) -> Result<()> {
        check_name(old_name)?;
        check_name(new_name)?;
        loop {
            for (dir, name) in [(old, old_name), (new, new_name)] {
                self.check(&dir.state.read(), PASS, name)?;
            }
            let source = self.lookup(old.state.id, old_name)?;
            let source = source.ok_or_else(|| Error::NotFound(shown(old_name)))?;
            let target = self.lookup(new.state.id, new_name)?;
            let same_place = old.state.id == new.state.id && old_name == new_name;
            if same_place && if_taken == IfTaken::Replace {
                return Ok(());
            }
            let mut change =
                Move { caller: self, old, old_name, new, new_name, source, target, is_trial };
            if target.is_some() && if_taken == IfTaken::Fail {
                // Of several servers each knows whether a directory would come to be in itself, and
                // only one has the new name: so that is said first.
                if let Some(moved) = change.moved()? {
                    change.check_circle(&moved)?;
                }
                return Err(Error::Exists(shown(new_name)));
            }
            if let Some(done) = change.run()? {
                return done;
            }
        }
    }
}

/// One attempt.
struct Move<'a> {
    caller: &'a Caller<'a>,
    old: &'a Dir,
    old_name: &'a [u8],
    new: &'a Dir,
    new_name: &'a [u8],
    source: Found,
    target: Option<Found>,
    is_trial: bool,
}

/// Locked directories, each once.
pub(crate) struct Held<'a> {
    ids: Vec<DirId>,
    guards: Vec<RwLockWriteGuard<'a, DirInfo>>,
}

/// The states of directories, each once, in the order in which they are locked.
pub(crate) fn in_order<'a>(dirs: impl IntoIterator<Item = &'a Dir>) -> Vec<Arc<DirState>> {
    let mut states: Vec<_> = dirs.into_iter().map(|dir| Arc::clone(&dir.state)).collect();
    states.sort_by_key(|state| state.id);
    states.dedup_by_key(|state| state.id);
    states
}

impl<'a> Held<'a> {
    /// Locks them. They are as [`in_order`] gives them.
    pub(crate) fn lock(states: &'a [Arc<DirState>]) -> Held<'a> {
        Held {
            ids: states.iter().map(|state| state.id).collect(),
            guards: states.iter().map(|state| state.write()).collect(),
        }
    }

    pub(crate) fn info(&mut self, id: DirId) -> &mut DirInfo {
        let at = self.ids.iter().position(|held| *held == id);
        &mut self.guards[at.expect("the directory was locked")]
    }
}

impl crate::inner::Inner {
    /// Whether there are more than `levels` directories below one, each in the one before. Only
    /// directories with directories in them are listed.
    fn is_deeper_than(&self, top: &Dir, levels: usize) -> Result<bool> {
        let mut level = vec![top.clone()];
        for _ in 0..=levels {
            let mut below = Vec::new();
            for dir in level.drain(..) {
                if dir.state.read().subdirs <= 0 {
                    continue;
                }
                let mut entries = self.layers.entries(dir.state.id, b"")?;
                while entries.next()? {
                    let (_, name) = entries.entry_key()?;
                    let entry = Entry::read(entries.path(0), dir.state.id, name, entries.value(0))?;
                    if let Entry::Dir(id) = entry {
                        below.push(self.dir(id)?);
                    }
                }
            }
            if below.is_empty() {
                return Ok(false);
            }
            level = below;
        }
        Ok(true)
    }
}

impl Move<'_> {
    /// `None` if somebody was faster.
    fn run(&mut self) -> Result<Option<Result<()>>> {
        let inner = self.caller.inner;
        let is_dir_move = self.moved()?.is_some();
        let moved = self.open(Some(self.source))?;
        let replaced = self.open(self.target)?;
        let _moves =
            is_dir_move.then(|| inner.moves.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(moved) = moved.as_ref().filter(|_| is_dir_move) {
            self.check_circle(moved)?;
        }
        let dirs = [Some(self.old), Some(self.new), moved.as_ref(), replaced.as_ref()];
        let states = in_order(dirs.into_iter().flatten());
        let mut held = Held::lock(&states);
        let is_same = |now: Option<Found>, before: Option<Found>| match (now, before) {
            (None, None) => true,
            (Some(Found::Dir(now)), Some(Found::Dir(before))) => now == before,
            (Some(Found::Other(now)), Some(Found::Other(before))) => now.inode == before.inode,
            _ => false,
        };
        let source = self.caller.lookup(self.old.state.id, self.old_name)?;
        let target = self.caller.lookup(self.new.state.id, self.new_name)?;
        if !is_same(source, Some(self.source)) || !is_same(target, self.target) {
            return Ok(None);
        }
        if is_same(target, source) && !matches!(source, Some(Found::Dir(_))) {
            // Two names of one file: both stay.
            return Ok(Some(Ok(())));
        }
        // Its bytes may have left its record meanwhile.
        self.target = target;
        if let Err(error) = self.check(&mut held) {
            return Ok(Some(Err(error)));
        }
        if self.is_trial {
            return Ok(Some(Ok(())));
        }
        let applied = self.apply(&mut held);
        drop(held);
        let removed = |left: Option<Inode>| left.map_or(Ok(()), |at| inner.contents.remove(at));
        Ok(Some(applied.and_then(removed)))
    }

    /// The directory that gets another parent, if it is one.
    fn moved(&self) -> Result<Option<Dir>> {
        if self.old.state.id == self.new.state.id { Ok(None) } else { self.open(Some(self.source)) }
    }

    fn open(&self, found: Option<Found>) -> Result<Option<Dir>> {
        match found {
            Some(Found::Dir(id)) => Ok(Some(self.caller.inner.dir(id)?)),
            _ => Ok(None),
        }
    }

    /// Refuses to put a directory below itself, or too deep with what is in it.
    fn check_circle(&self, moved: &Dir) -> Result<()> {
        let inner = self.caller.inner;
        let mut at = self.new.state.id;
        let mut depth = 1;
        loop {
            if at == moved.state.id {
                let (from, to) = (shown(self.old_name), shown(self.new_name));
                let what = format!("'{from}' cannot become '{to}', which is below it");
                return Err(Error::Invalid(what));
            }
            if at == DirId::ROOT {
                break;
            }
            depth += 1;
            inner.name_count.check_depth(depth)?;
            at = inner.dir(at)?.state.read().node.parent;
        }
        // Of the root's entries too: a quota of 0 has no directories.
        inner.name_count.check_depth(depth)?;
        let limit = inner.name_count.quota.depth;
        if inner.is_deeper_than(moved, limit - depth)? {
            Err(too_long("the way from the root to a directory in it", limit + 1, limit))
        } else {
            Ok(())
        }
    }

    /// Everything that may forbid it.
    fn check(&self, held: &mut Held<'_>) -> Result<()> {
        let caller = self.caller;
        caller.inner.top(&shown(self.old_name))?;
        caller.check(held.info(self.old.state.id), WRITE | PASS, self.old_name)?;
        caller.check(held.info(self.new.state.id), WRITE | PASS, self.new_name)?;
        if self.new_name != self.old_name {
            caller.inner.name_count.check_length(self.new_name)?;
        }
        let owner = |held: &mut Held<'_>, found: Found| match found {
            Found::Dir(id) => held.info(id).node.uid,
            Found::Other(stat) => stat.uid,
        };
        let uid = owner(held, self.source);
        caller.check_sticky(held.info(self.old.state.id), uid, self.old_name)?;
        if let Some(target) = self.target {
            let uid = owner(held, target);
            caller.check_sticky(held.info(self.new.state.id), uid, self.new_name)?;
        }
        if let Found::Dir(id) = self.source
            && self.old.state.id != self.new.state.id
        {
            // Its `..` changes.
            caller.check(held.info(id), WRITE, self.old_name)?;
        }
        match (self.source, self.target) {
            (_, None) => Ok(()),
            (Found::Dir(_), Some(Found::Dir(target))) => {
                if caller.inner.is_empty(target)? {
                    Ok(())
                } else {
                    Err(Error::NotEmpty(shown(self.new_name)))
                }
            }
            (Found::Dir(_), Some(Found::Other(_))) => Err(Error::NotDir(shown(self.new_name))),
            (Found::Other(_), Some(Found::Dir(_))) => Err(Error::IsDir(shown(self.new_name))),
            (Found::Other(_), Some(Found::Other(_))) => Ok(()),
        }
    }

    /// Puts the entry under its new name. What was there before goes.
    fn put_entry(&self, batch: &mut Batch, now_ns: u64) -> Result<Option<Inode>> {
        let inner = self.caller.inner;
        let (old, new) = (self.old.state.id, self.new.state.id);
        let replaced = inner.layers.find_raw(new, self.new_name, Named::of)?.flatten();
        inner.hide(batch, old, self.old_name)?;
        let entry = inner.layers.find_raw(old, self.old_name, |entry| match entry {
            Entry::Link(number) => (entry.encode(), Some(number)),
            entry => (entry.at(now_ns).encode(), None),
        })?;
        let (entry, number) = entry.ok_or_else(|| Error::NotFound(shown(self.old_name)))?;
        batch.put(&Key::entry(new, self.new_name), &entry);
        if let Some(number) = number {
            inner.put_number(batch, number, |entry| entry.at(now_ns))?;
        }
        match replaced {
            Some(Named::Link(number)) => inner.drop_name(batch, number, now_ns),
            Some(Named::Entry(Found::Other(stat))) => Ok((!stat.has_data).then_some(stat.inode)),
            Some(Named::Entry(Found::Dir(_))) | None => Ok(None),
        }
    }

    /// Gives the number of the file whose bytes nobody needs any more.
    fn apply(&self, held: &mut Held<'_>) -> Result<Option<Inode>> {
        let inner = self.caller.inner;
        let top = inner.top(&shown(self.old_name))?;
        let now = inner.time.now_ns();
        let (old, new) = (self.old.state.id, self.new.state.id);
        let before: Vec<DirInfo> = held.guards.iter().map(|info| DirInfo::clone(info)).collect();
        let mut batch = Batch::new();
        // Relaxed: the names are locked, so they become no links meanwhile.
        let _links = inner.has_links.load(Ordering::Relaxed).then(|| inner.lock_links());
        let left = self.put_entry(&mut batch, now)?;
        if let Some(Found::Dir(replaced)) = self.target {
            batch.put(&Key::node(replaced), &Node::Removed.encode());
            held.info(replaced).is_removed = true;
            held.info(new).subdirs -= 1;
            held.info(new).own_subdirs -= 1;
        }
        let moved = match self.source {
            Found::Dir(moved) => Some(moved),
            Found::Other(_) => None,
        };
        if let Some(moved) = moved {
            for (id, by) in [(old, -1), (new, 1)] {
                held.info(id).subdirs += by;
                held.info(id).own_subdirs += by;
            }
            let info = held.info(moved);
            info.node.parent = new;
            info.node.name = self.new_name.to_vec();
            info.own_is_full = true;
            info.ctime_ns = now;
            let state = inner.dir(moved)?.state;
            batch.put(&Key::node(moved), &state.record(held.info(moved)));
        }
        for dir in [self.old, self.new] {
            dir.state.touch_and_store(now);
            batch.put(&Key::node(dir.state.id), &dir.state.record(held.info(dir.state.id)));
        }
        // Nobody can look the names up until the locks go.
        inner.names.remove(old, self.old_name);
        inner.names.remove(new, self.new_name);
        if let Err(error) = top.write(&batch, WriteOptions::default()) {
            for (info, before) in held.guards.iter_mut().zip(before) {
                **info = before;
            }
            return Err(error.into());
        }
        if let Some(moved) = moved {
            inner.names.insert(new, self.new_name, moved);
        }
        inner.name_count.release(u64::from(self.target.is_some()));
        Ok(left)
    }
}

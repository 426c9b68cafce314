//! What a log says, what two views differ in, and where logs of a view disagree.

use crate::caller::{Found, Kind, Named, Stat};
use crate::error::Result;
use crate::id::{DirId, FIRST_FILE, Inode};
use crate::inner::{Dir, Inner};
use crate::layers::Merged;
use crate::list::{Entries, ListEntry};
use crate::name::join;
use crate::namespace::Namespace;
use crate::record::{Entry, Node};
use keyrack_flodb::Db;
use std::collections::{BTreeMap, BTreeSet};

/// How many records a log has, and from where to where.
pub(crate) struct KeyRange {
    pub(crate) records: u64,
    pub(crate) ends: Option<(Vec<u8>, Vec<u8>)>,
}

/// The keys of a log, without those about the log itself.
pub(crate) fn key_range(db: &Db) -> Result<KeyRange> {
    let mut iter = db.iter()?;
    iter.seek(&DirId::ROOT.to_bytes())?;
    let first = iter.entry().map(|(key, _)| key.to_vec());
    let mut records = 0;
    while iter.is_valid() {
        records += 1;
        iter.next()?;
    }
    iter.seek_last()?;
    let last = iter.entry().map(|(key, _)| key.to_vec());
    Ok(KeyRange { records, ends: first.zip(last) })
}

/// What a log says about one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// It is there, as this.
    Is(Kind),
    /// It is not, whatever logs below say.
    IsNot,
    /// A directory of logs below has another mode, owner or name, or a file with hard links has
    /// other facts or bytes, and none of its names is the log's.
    Changed,
}

/// How a path differs between two views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// Only the second has it.
    Added,
    /// Only the first has it.
    Removed,
    /// Both have it, with other facts or other bytes.
    Changed,
}

/// A name of which several logs have something, without having been begun on one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The path.
    pub path: Vec<u8>,
    /// The log whose entry counts: its place in the list, from 0.
    pub winner: usize,
    /// What the entry is.
    pub kind: Kind,
    /// A log whose entry is hidden.
    pub loser: usize,
    /// What that entry is; of a directory all that is in it is hidden.
    pub hidden: Kind,
}

impl Namespace {
    /// What the log that is written to, or the highest of a view, says: each path with what is said
    /// of it, directory by directory. `visit` may end it by giving false.
    ///
    /// # Errors
    /// The store cannot be read, or a record is damaged.
    pub fn changes(&self, mut visit: impl FnMut(&[u8], Said, Option<&Stat>) -> bool) -> Result<()> {
        let inner = &self.inner;
        let mut walk = Merged::new(&inner.layers.all()[..1], &DirId::ROOT.to_bytes(), None)?;
        let mut dir: Option<(DirId, Vec<u8>)> = None;
        // Numbers of files come after all names: see `id`.
        let (mut said, mut changed) = (BTreeSet::new(), BTreeSet::new());
        while walk.next()? {
            let (id, name) = walk.entry_key()?;
            let number = id.inode();
            if number.is_file() {
                let entry = Entry::read_numbered(walk.path(0), number, walk.value(0))?;
                if entry != Entry::Whiteout && !said.contains(&number) {
                    changed.insert(number);
                }
                continue;
            }
            if dir.as_ref().is_none_or(|(known, _)| *known != id) {
                dir = Some((id, inner.path_of(id)?));
            }
            let Some((_, path)) = &dir else { continue };
            let goes_on = if name.is_empty() {
                let is_own = || -> Result<bool> {
                    let Some(folded) = inner.layers.node(id)? else { return Ok(true) };
                    let parent = crate::record::Key::entry(folded.node.parent, &folded.node.name);
                    Ok(id == DirId::ROOT || inner.layers.all()[0].get(&parent)?.is_some())
                };
                match Node::read(walk.path(0), id, walk.value(0))? {
                    Node::Dir(..) if !is_own()? => visit(path, Said::Changed, None),
                    _ => true,
                }
            } else {
                let path = join(path, name);
                let named = Named::of(Entry::read(walk.path(0), id, name, walk.value(0))?);
                if let Some(Named::Link(number)) = named {
                    said.insert(number);
                }
                match inner.resolved(named)? {
                    None => visit(&path, Said::IsNot, None),
                    Some(Found::Dir(_)) => visit(&path, Said::Is(Kind::Dir), None),
                    Some(Found::Other(stat)) => visit(&path, Said::Is(stat.kind), Some(&stat)),
                }
            };
            if !goes_on {
                return Ok(());
            }
        }
        for (number, names) in inner.layers.names_of(&changed)? {
            let Some(Found::Other(stat)) = inner.resolved(Some(Named::Link(number)))? else {
                continue;
            };
            for (dir, name) in names {
                if !visit(&join(&inner.path_of(dir)?, &name), Said::Changed, Some(&stat)) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The names that several logs have, where one hides what another has. `is_built_on(a, b)` says
    /// whether the log in place `a` was begun on that in place `b`: such a log meant what it did.
    /// Directories that several logs made are one, and no conflict. A file with hard links that
    /// several logs changed is one at each of its names.
    ///
    /// # Errors
    /// As for [`Namespace::changes`].
    pub fn conflicts(
        &self,
        is_built_on: impl Fn(usize, usize) -> bool,
        mut visit: impl FnMut(Conflict) -> bool,
    ) -> Result<()> {
        let inner = &self.inner;
        let linked = self.conflicting_numbers(&is_built_on)?;
        let mut walk = inner.layers.everything()?;
        while walk.next()? {
            if walk.holders().len() < 2 && linked.is_empty() {
                continue;
            }
            let (id, name) = walk.entry_key()?;
            if name.is_empty() || id == DirId::SYSTEM {
                continue;
            }
            let mut found = Vec::with_capacity(walk.holders().len());
            for (n, holder) in walk.holders().iter().enumerate() {
                let entry = Entry::read(walk.path(n), id, name, walk.value(n))?;
                found.push((*holder, Named::of(entry)));
            }
            let (winner, Some(first)) = found[0] else { continue };
            let mut pairs = Vec::new();
            for (loser, other) in &found[1..] {
                let Some(other) = other else { break };
                if !is_same(first, *other) && !is_built_on(winner, *loser) {
                    pairs.push((winner, *loser, *other));
                }
            }
            if let Named::Link(number) = first {
                let of_file = linked.get(&number).into_iter().flatten();
                pairs.extend(of_file.map(|(winner, loser)| (*winner, *loser, first)));
            }
            for (winner, loser, other) in pairs {
                let path = join(&inner.path_of(id)?, name);
                let (kind, hidden) = (inner.kind_of(first)?, inner.kind_of(other)?);
                if !visit(Conflict { path, winner, kind, loser, hidden }) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// The files with hard links that several logs changed without having been begun on one
    /// another: for each the log that counts, and those that do not.
    fn conflicting_numbers(
        &self,
        is_built_on: &impl Fn(usize, usize) -> bool,
    ) -> Result<BTreeMap<Inode, Vec<(usize, usize)>>> {
        let mut found: BTreeMap<Inode, Vec<(usize, usize)>> = BTreeMap::new();
        let mut walk = Merged::new(self.inner.layers.all(), &FIRST_FILE.to_be_bytes(), None)?;
        while walk.next()? {
            let (id, _) = walk.entry_key()?;
            let winner = walk.holders()[0];
            for loser in &walk.holders()[1..] {
                if !is_built_on(winner, *loser) {
                    found.entry(id.inode()).or_default().push((winner, *loser));
                }
            }
        }
        Ok(found)
    }

    /// What differs between this view and `other`, in the order of paths within each directory. Of
    /// a directory that only one has, everything in it is told as well. `visit` may end it by
    /// giving false.
    ///
    /// # Errors
    /// As for [`Namespace::changes`].
    pub fn diff(
        &self,
        other: &Namespace,
        mut visit: impl FnMut(&[u8], Difference, Kind) -> bool,
    ) -> Result<()> {
        let sides = [self.as_root(), other.as_root()];
        let mut pending = vec![(b"/".to_vec(), Some(self.root()?), Some(other.root()?))];
        while let Some((path, old, new)) = pending.pop() {
            let mut old = Entries::new(sides[0], old);
            let mut new = Entries::new(sides[1], new);
            loop {
                let order = match (old.peek()?, new.peek()?) {
                    (None, None) => break,
                    (Some(_), None) => std::cmp::Ordering::Less,
                    (None, Some(_)) => std::cmp::Ordering::Greater,
                    (Some(old), Some(new)) => old.name.cmp(&new.name),
                };
                let before = if order.is_le() { old.pop()? } else { None };
                let after = if order.is_ge() { new.pop()? } else { None };
                let Some(any) = after.as_ref().or(before.as_ref()) else { break };
                let (name, kind) = (any.name.clone(), any.kind);
                let path = join(&path, &name);
                let difference = match (&before, &after) {
                    (Some(_), None) => Some(Difference::Removed),
                    (None, Some(_)) => Some(Difference::Added),
                    (Some(before), Some(after)) => {
                        differ(&old, before, &new, after)?.then_some(Difference::Changed)
                    }
                    (None, None) => None,
                };
                if let Some(difference) = difference
                    && !visit(&path, difference, kind)
                {
                    return Ok(());
                }
                let enter =
                    |side: &Entries<'_>, entry: &Option<ListEntry>| -> Result<Option<Dir>> {
                        match (entry, &side.dir) {
                            (Some(entry), Some(dir)) if entry.kind == Kind::Dir => {
                                side.caller.dir_at(dir, &entry.name).map(Some)
                            }
                            _ => Ok(None),
                        }
                    };
                let (below_old, below_new) = (enter(&old, &before)?, enter(&new, &after)?);
                if below_old.is_some() || below_new.is_some() {
                    pending.push((path, below_old, below_new));
                }
            }
        }
        Ok(())
    }
}

/// Whether two entries of one name differ in more than times.
fn differ(
    old: &Entries<'_>,
    before: &ListEntry,
    new: &Entries<'_>,
    after: &ListEntry,
) -> Result<bool> {
    let (Some(a), Some(b)) = (before.stat, after.stat) else { return Ok(true) };
    let facts = |stat: &Stat| (stat.kind, stat.mode, stat.uid, stat.gid, stat.size);
    if facts(&a) != facts(&b) || a.has_data != b.has_data {
        return Ok(true);
    }
    let (Some(old_dir), Some(new_dir)) = (&old.dir, &new.dir) else { return Ok(true) };
    Ok(match a.kind {
        Kind::Dir => false,
        Kind::Symlink => {
            old.caller.read_link_at(old_dir, &before.name)?
                != new.caller.read_link_at(new_dir, &after.name)?
        }
        Kind::File if !a.has_data => a.mtime_ns != b.mtime_ns,
        Kind::File if a.inode == b.inode && a.mtime_ns == b.mtime_ns => false,
        Kind::File => {
            old.caller.read_at(old_dir, &before.name, 0, usize::MAX)?
                != new.caller.read_at(new_dir, &after.name, 0, usize::MAX)?
        }
    })
}

impl Inner {
    /// What a name leads to: of a file with hard links its record.
    fn resolved(&self, named: Option<Named>) -> Result<Option<Found>> {
        match named {
            None => Ok(None),
            Some(Named::Entry(found)) => Ok(Some(found)),
            Some(Named::Link(number)) => Ok(self.layers.find_number(number, Found::of)?.flatten()),
        }
    }

    fn kind_of(&self, named: Named) -> Result<Kind> {
        Ok(match self.resolved(Some(named))? {
            Some(Found::Dir(_)) => Kind::Dir,
            Some(Found::Other(stat)) => stat.kind,
            // A name without its record: only files have such names.
            None => Kind::File,
        })
    }
}

fn is_same(one: Named, other: Named) -> bool {
    match (one, other) {
        (Named::Entry(Found::Dir(one)), Named::Entry(Found::Dir(other))) => one == other,
        (Named::Entry(Found::Other(one)), Named::Entry(Found::Other(other))) => {
            one.inode == other.inode
        }
        (Named::Link(one), Named::Link(other)) => one == other,
        (Named::Link(number), Named::Entry(Found::Other(stat)))
        | (Named::Entry(Found::Other(stat)), Named::Link(number)) => stat.inode == number,
        _ => false,
    }
}

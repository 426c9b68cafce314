//! Reads through a list of logs: the first that says something about a name is right.
//!
//! ```text
//!   highest  a: whiteout            c: file
//!            a: file     b: file    c: file
//!   lowest                          c: directory      d: directory
//!   seen                 b: file    c: file           d: directory
//! ```
//!
//! Of one entry the highest record counts, and only it. What is known about a directory comes from
//! several: mode, owner, parent and name from the highest log that has them; the latest of the
//! times; the sum of the subdirectories, or where several logs count any, as many as there are:
//! logs that did not know of each other may have made the same. Within a log the store below knows
//! which record is newer.
//!
//! A file with hard links has its record under its number, and its names hold the number. Each of
//! these keys is looked up in the same way. So a name of a lower log leads to the record of a
//! higher log that has changed the file.
//!
//! A read costs a filter probe for each log without the name. A listing is a merge of as many walks
//! as there are logs.

use crate::error::{Error, Result, shown};
use crate::id::{DirId, Inode};
use crate::record::{DirNode, Entry, KIND_ENTRY, KIND_LINK, Key, Node, Touched};
use keyrack_flodb::{Db, Iter};
use std::collections::{BTreeMap, BTreeSet};

/// The logs, the highest first.
#[derive(Debug)]
pub(crate) struct Layers {
    all: Vec<Db>,
    is_writable: bool,
}

/// A directory as all logs together have it.
#[derive(Clone, Debug)]
pub(crate) struct Folded {
    pub(crate) node: DirNode,
    pub(crate) all: Touched,
    /// The part of the writable log.
    pub(crate) own_subdirs: i64,
    /// Whether the writable log has the node, and not only what came and went.
    pub(crate) own_is_full: bool,
}

impl Layers {
    pub(crate) fn new(all: Vec<Db>, is_writable: bool) -> Layers {
        debug_assert!(!all.is_empty());
        Layers { all, is_writable }
    }

    /// The log that is written to.
    pub(crate) fn top(&self) -> Option<&Db> {
        if self.is_writable { self.all.first() } else { None }
    }

    pub(crate) fn lower(&self) -> &[Db] {
        if self.is_writable { &self.all[1..] } else { &self.all }
    }

    pub(crate) fn all(&self) -> &[Db] {
        &self.all
    }

    /// Lends the entry to `visit`, if there is one. Of a file with hard links that is the record
    /// under its number.
    pub(crate) fn find<R>(
        &self,
        dir: DirId,
        name: &[u8],
        visit: impl FnOnce(Entry<'_>) -> R,
    ) -> Result<Option<R>> {
        let mut visit = Some(visit);
        let mut missing = None;
        loop {
            let found = self.find_raw(dir, name, |entry| match entry {
                Entry::Link(number) => Err(number),
                // A name has one entry.
                entry => Ok(visit.take().map(|visit| visit(entry))),
            })?;
            let number = match found {
                None => return Ok(None),
                Some(Ok(visited)) => return Ok(visited),
                Some(Err(number)) => number,
            };
            let visited = self.find_number(number, |entry| {
                // A number has one record.
                visit.take().map(|visit| visit(entry))
            })?;
            if let Some(visited) = visited {
                return Ok(visited);
            }
            // The last name went meanwhile, and its entry before the record; no number comes again.
            if missing == Some(number) {
                return Err(Error::Corruption {
                    path: self.all[0].dir().to_owned(),
                    what: format!(
                        "'{}' of directory {dir:?} is a name of the file {number}, which no log \
                         has",
                        shown(name)
                    ),
                });
            }
            missing = Some(number);
        }
    }

    /// Lends what stands under a name to `visit`: of a file with hard links its number.
    pub(crate) fn find_raw<R>(
        &self,
        dir: DirId,
        name: &[u8],
        visit: impl FnOnce(Entry<'_>) -> R,
    ) -> Result<Option<R>> {
        find_in(&self.all, dir, name, visit)
    }

    /// Lends the record of a file with hard links to `visit`. If the writable log says that the
    /// file is gone, it is.
    pub(crate) fn find_number<R>(
        &self,
        number: Inode,
        visit: impl FnOnce(Entry<'_>) -> R,
    ) -> Result<Option<R>> {
        find_number_in(&self.all, self.is_writable, number, visit)
    }

    /// The same without the writable log.
    pub(crate) fn find_number_below<R>(
        &self,
        number: Inode,
        visit: impl FnOnce(Entry<'_>) -> R,
    ) -> Result<Option<R>> {
        find_number_in(self.lower(), false, number, visit)
    }

    /// The names that all logs together have for files with hard links. O(entries).
    pub(crate) fn names_of(&self, numbers: &BTreeSet<Inode>) -> Result<Names> {
        let mut names = Names::new();
        if numbers.is_empty() {
            return Ok(names);
        }
        let mut entries = Merged::new(&self.all, &DirId::ROOT.to_bytes(), None)?;
        while entries.next()? {
            if entries.value(0).first() != Some(&KIND_LINK) {
                continue;
            }
            let (dir, name) = entries.entry_key()?;
            if let Entry::Link(number) = Entry::read(entries.path(0), dir, name, entries.value(0))?
                && numbers.contains(&number)
            {
                names.entry(number).or_default().push((dir, name.to_vec()));
            }
        }
        Ok(names)
    }

    /// As [`Layers::find_raw`], without the writable log.
    pub(crate) fn find_below<R>(
        &self,
        dir: DirId,
        name: &[u8],
        visit: impl FnOnce(Entry<'_>) -> R,
    ) -> Result<Option<R>> {
        find_in(self.lower(), dir, name, visit)
    }

    /// The directory itself; `None` if no log has it.
    pub(crate) fn node(&self, id: DirId) -> Result<Option<Folded>> {
        let key = Key::node(id);
        let mut found: Option<DirNode> = None;
        let mut all = Touched::default();
        let (mut own_subdirs, mut own_is_full) = (0, false);
        let mut is_known = false;
        let mut counting = 0;
        for (index, db) in self.all.iter().enumerate() {
            let read = db.get_with(&key, |value| Node::read(db.dir(), id, value))?;
            let Some(read) = read else { continue };
            let (node, touched) = match read? {
                // A log that removed it: what is below is not what the logs above have.
                Node::Removed if is_known => break,
                // Somebody asks for it, so a log below has the name. The two made the directory
                // without knowing of each other, and only one of them removed it.
                Node::Removed => continue,
                Node::Touched(touched) => (None, touched),
                Node::Dir(node, touched) => (Some(node), touched),
            };
            if index == 0 && self.is_writable {
                (own_subdirs, own_is_full) = (touched.subdirs, node.is_some());
            }
            is_known = true;
            counting += usize::from(touched.subdirs != 0);
            all.subdirs = all.subdirs.saturating_add(touched.subdirs);
            all.mtime_ns = all.mtime_ns.max(touched.mtime_ns);
            all.ctime_ns = all.ctime_ns.max(touched.ctime_ns);
            found = found.or(node);
        }
        if counting > 1 {
            all.subdirs = count_dirs(&self.all, id)?;
        }
        Ok(found.map(|node| Folded { node, all, own_subdirs, own_is_full }))
    }

    /// Whether any log has, or had, a directory with that number.
    pub(crate) fn has_known(&self, id: DirId) -> Result<bool> {
        let key = Key::node(id);
        for db in &self.all {
            if db.get_with(&key, |_| ())?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The entries of a directory behind the name `after`, whiteouts among them.
    pub(crate) fn entries(&self, dir: DirId, after: &[u8]) -> Result<Merged> {
        let mut from = Key::entry(dir, after).to_vec();
        from.push(0);
        Merged::new(&self.all, &from, Some(dir))
    }

    /// Everything in all logs.
    pub(crate) fn everything(&self) -> Result<Merged> {
        Merged::new(&self.all, &[], None)
    }
}

/// The names of files with hard links: directories, and names in them.
pub(crate) type Names = BTreeMap<Inode, Vec<(DirId, Vec<u8>)>>;

/// The directories in a directory, counted. O(entries).
pub(crate) fn count_dirs(dbs: &[Db], dir: DirId) -> Result<i64> {
    let mut count = 0;
    let mut entries = Merged::new(dbs, &Key::entry(dir, &[0]), Some(dir))?;
    while entries.next()? {
        count += i64::from(entries.value(0).first() == Some(&KIND_ENTRY));
    }
    Ok(count)
}

fn find_in<R>(
    dbs: &[Db],
    dir: DirId,
    name: &[u8],
    visit: impl FnOnce(Entry<'_>) -> R,
) -> Result<Option<R>> {
    let key = Key::entry(dir, name);
    let mut visit = Some(visit);
    for db in dbs {
        let found = db.get_with(&key, |value| -> Result<Option<R>> {
            match Entry::read(db.dir(), dir, name, value)? {
                Entry::Whiteout => Ok(None),
                entry => Ok(visit.take().map(|visit| visit(entry))),
            }
        })?;
        if let Some(found) = found {
            return found;
        }
    }
    Ok(None)
}

/// A log that says that the file is gone is passed over, unless it is the writable one: somebody
/// asks for the file, so another log, which did not know of the removal, has a name of it.
fn find_number_in<R>(
    dbs: &[Db],
    has_writable: bool,
    number: Inode,
    visit: impl FnOnce(Entry<'_>) -> R,
) -> Result<Option<R>> {
    let key = Key::number(number);
    let mut visit = Some(visit);
    for (index, db) in dbs.iter().enumerate() {
        let found = db.get_with(&key, |value| -> Result<Option<R>> {
            match Entry::read_numbered(db.dir(), number, value)? {
                Entry::Whiteout => Ok(None),
                entry => Ok(visit.take().map(|visit| visit(entry))),
            }
        })?;
        match found.transpose()? {
            Some(None) if has_writable && index == 0 => return Ok(None),
            Some(Some(visited)) => return Ok(Some(visited)),
            Some(None) | None => {}
        }
    }
    Ok(None)
}

/// A walk over the keys of several logs at once.
pub(crate) struct Merged {
    iters: Vec<Iter>,
    /// Which logs have the present key, the highest first.
    holders: Vec<usize>,
    within: Option<DirId>,
    paths: Vec<std::path::PathBuf>,
}

impl Merged {
    pub(crate) fn new(dbs: &[Db], from: &[u8], within: Option<DirId>) -> Result<Merged> {
        let mut iters = Vec::with_capacity(dbs.len());
        for db in dbs {
            let mut iter = db.iter()?;
            iter.seek(from)?;
            iters.push(iter);
        }
        let paths = dbs.iter().map(|db| db.dir().to_owned()).collect();
        Ok(Merged { iters, holders: Vec::new(), within, paths })
    }

    /// Goes to the next key. `false` behind the last.
    pub(crate) fn next(&mut self) -> Result<bool> {
        for holder in self.holders.drain(..) {
            self.iters[holder].next()?;
        }
        let mut least: Option<&[u8]> = None;
        for (index, iter) in self.iters.iter().enumerate() {
            let Some((key, _)) = iter.entry() else { continue };
            if self.within.is_some_and(|dir| !key.starts_with(&dir.to_bytes())) {
                continue;
            }
            match least.map(|least| key.cmp(least)) {
                None | Some(std::cmp::Ordering::Less) => {
                    least = Some(key);
                    self.holders.clear();
                    self.holders.push(index);
                }
                Some(std::cmp::Ordering::Equal) => self.holders.push(index),
                Some(std::cmp::Ordering::Greater) => {}
            }
        }
        Ok(least.is_some())
    }

    /// The logs that have the present key, the highest first.
    pub(crate) fn holders(&self) -> &[usize] {
        &self.holders
    }

    /// The present key.
    pub(crate) fn key(&self) -> &[u8] {
        self.entry_of(0).map_or(&[], |(key, _)| key)
    }

    /// What the `n`-th of the holders has.
    pub(crate) fn value(&self, n: usize) -> &[u8] {
        self.entry_of(n).map_or(&[], |(_, value)| value)
    }

    /// The store that the `n`-th holder is.
    pub(crate) fn path(&self, n: usize) -> &std::path::Path {
        &self.paths[self.holders[n]]
    }

    fn entry_of(&self, n: usize) -> Option<(&[u8], &[u8])> {
        self.iters[*self.holders.get(n)?].entry()
    }

    /// The directory and the name of the present key.
    ///
    /// # Errors
    /// It is no key of ours.
    pub(crate) fn entry_key(&self) -> Result<(DirId, &[u8])> {
        let key = crate::record::parse_key(self.key()).filter(|(dir, name)| {
            let is_own = *dir == DirId::SYSTEM || name.is_empty();
            is_own || crate::name::check_name(name).is_ok()
        });
        key.ok_or_else(|| Error::Corruption {
            path: self.path(0).to_owned(),
            what: format!("the key '{}' is none of a name space", self.key().escape_ascii()),
        })
    }
}

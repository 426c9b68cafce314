//! Listing directories, a page at a time, and walking over trees.
//!
//! A cookie is the last name of a page. What was there at the first page and is there at the last
//! comes once, in the order of names, whatever comes and goes between the pages; a cookie lives as
//! long as the directory, over restarts as well. A page is one moment of the directory.

use crate::caller::{Caller, Found, Kind, Named, Stat};
use crate::dirs::DirState;
use crate::error::{Error, Result};
use crate::id::DirId;
use crate::inner::Dir;
use crate::name::{check_name, join};
use crate::record::Entry;
use crate::user::{PASS, READ};
use std::collections::VecDeque;

/// Entries that a walk takes at once.
pub(crate) const PAGE: usize = 1024;

/// An entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListEntry {
    /// Its name.
    pub name: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Its facts, if the listing was asked for them.
    pub stat: Option<Stat>,
}

/// A part of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Entries, in the order of their names.
    pub entries: Vec<ListEntry>,
    /// Where to go on; `None` at the end.
    pub next: Option<Vec<u8>>,
}

impl Caller<'_> {
    /// The names of a directory behind the cookie `after`, at most `count` of them. O(names given).
    ///
    /// # Errors
    /// [`Error::Denied`] without the right to read it; [`Error::Stale`] if it was removed; those of
    /// the store.
    pub fn list_at(&self, dir: &Dir, after: Option<&[u8]>, count: usize) -> Result<Page> {
        self.page(dir, after, count, false)
    }

    /// The same with the facts of each entry, which costs little for files, and a lookup for each
    /// directory.
    ///
    /// # Errors
    /// As for [`Caller::list_at`]; the right to pass is needed as well.
    pub fn list_plus_at(&self, dir: &Dir, after: Option<&[u8]>, count: usize) -> Result<Page> {
        self.page(dir, after, count, true)
    }

    fn page(&self, dir: &Dir, after: Option<&[u8]>, count: usize, facts: bool) -> Result<Page> {
        let wanted = if facts { READ | PASS } else { READ };
        self.check(&dir.state.read(), wanted, b"the directory")?;
        if let Some(after) = after {
            check_name(after)?;
        }
        // Every name is behind the empty one.
        let mut entries = self.inner.layers.entries(dir.state.id, after.unwrap_or_default())?;
        let mut page = Page::default();
        while entries.next()? {
            let (_, name) = entries.entry_key()?;
            let entry = Entry::read(entries.path(0), dir.state.id, name, entries.value(0))?;
            let found = match Named::of(entry) {
                // The page is older than the record, whose last name may have gone meanwhile.
                Some(Named::Link(_)) => self.lookup(dir.state.id, name)?,
                Some(Named::Entry(found)) => Some(found),
                None => None,
            };
            let Some(found) = found else { continue };
            if page.entries.len() == count {
                page.next = page.entries.last().map(|entry| entry.name.clone());
                break;
            }
            let (kind, stat) = match found {
                Found::Other(stat) => (stat.kind, facts.then_some(stat)),
                Found::Dir(id) if facts => match self.stat_listed(id)? {
                    Some(stat) => (Kind::Dir, Some(stat)),
                    // It was removed since the walk began.
                    None => continue,
                },
                Found::Dir(_) => (Kind::Dir, None),
            };
            page.entries.push(ListEntry { name: name.to_vec(), kind, stat });
        }
        Ok(page)
    }

    /// The facts of a directory that a listing names, without a state for it if there is none.
    fn stat_listed(&self, id: DirId) -> Result<Option<Stat>> {
        if let Some(state) = self.inner.dirs.peek(id) {
            let info = state.read();
            return Ok((!info.is_removed).then(|| Stat::of_dir(&state, &info)));
        }
        let Some(folded) = self.inner.layers.node(id)? else { return Ok(None) };
        let state = DirState::of(id, folded);
        let stat = Stat::of_dir(&state, &state.read());
        Ok(Some(stat))
    }

    /// A walk over what a path names and all that is below it, a directory before its entries. A
    /// link is given, and not followed.
    ///
    /// # Errors
    /// As for [`Caller::lstat`].
    pub fn walk(&self, path: &[u8]) -> Result<Walk<'_>> {
        let stat = self.lstat(path)?;
        let is_bare = path.iter().all(|byte| *byte == b'/');
        let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let path = if is_bare { b"/".to_vec() } else { path[..end].to_vec() };
        Ok(Walk { caller: *self, start: Some(Walked { path, stat, depth: 0 }), open: Vec::new() })
    }
}

/// Something that a walk has come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walked {
    /// The path as the walk was given it, and the names from there.
    pub path: Vec<u8>,
    /// Its facts.
    pub stat: Stat,
    /// Directories between the start and this.
    pub depth: usize,
}

/// The entries of a directory with their facts, one after the other; of no directory none.
pub(crate) struct Entries<'a> {
    pub(crate) caller: Caller<'a>,
    pub(crate) dir: Option<Dir>,
    page: VecDeque<ListEntry>,
    /// Where the next page begins; `None` before the first.
    next: Option<Vec<u8>>,
    is_last: bool,
}

impl<'a> Entries<'a> {
    pub(crate) fn new(caller: Caller<'a>, dir: Option<Dir>) -> Self {
        Entries { caller, dir, page: VecDeque::new(), next: None, is_last: false }
    }

    /// The next entry. After an error there is none.
    pub(crate) fn peek(&mut self) -> Result<Option<&ListEntry>> {
        if self.page.is_empty()
            && !std::mem::replace(&mut self.is_last, true)
            && let Some(dir) = &self.dir
        {
            let page = self.caller.list_plus_at(dir, self.next.as_deref(), PAGE)?;
            self.page = page.entries.into();
            self.is_last = page.next.is_none();
            self.next = page.next;
        }
        Ok(self.page.front())
    }

    pub(crate) fn pop(&mut self) -> Result<Option<ListEntry>> {
        self.peek()?;
        Ok(self.page.pop_front())
    }
}

/// A directory that a walk is in.
struct Open<'a> {
    dir: Dir,
    path: Vec<u8>,
    entries: Entries<'a>,
}

/// A walk over a tree. After an error it goes on behind what cannot be read.
pub struct Walk<'a> {
    caller: Caller<'a>,
    start: Option<Walked>,
    open: Vec<Open<'a>>,
}

impl Walk<'_> {
    /// Does not go into the directory that was given last.
    pub fn leave(&mut self, walked: &Walked) {
        if self.open.last().is_some_and(|open| open.path == walked.path) {
            self.open.pop();
        }
    }

    fn enter(&mut self, walked: &Walked) -> Result<()> {
        if walked.stat.kind != Kind::Dir {
            return Ok(());
        }
        let dir = match self.open.last() {
            None => self.caller.dir(&walked.path)?,
            Some(open) => {
                let name = walked
                    .path
                    .rsplit(|byte| *byte == b'/')
                    .next()
                    .expect("a split has a last part");
                self.caller.dir_at(&open.dir, name)?
            }
        };
        let path = walked.path.clone();
        let mut entries = Entries::new(self.caller, Some(dir.clone()));
        entries.peek().map_err(|error| crate::resolve::named(error, &path))?;
        self.open.push(Open { dir, path, entries });
        Ok(())
    }

    fn step(&mut self) -> Result<Option<Walked>> {
        if let Some(start) = self.start.take() {
            return Ok(Some(start));
        }
        loop {
            let depth = self.open.len();
            let Some(open) = self.open.last_mut() else { return Ok(None) };
            match open.entries.pop()? {
                None => drop(self.open.pop()),
                Some(ListEntry { stat: None, .. }) => {}
                Some(ListEntry { name, stat: Some(stat), .. }) => {
                    return Ok(Some(Walked { path: join(&open.path, &name), stat, depth }));
                }
            }
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = std::result::Result<Walked, (Option<Walked>, Error)>;

    /// The next entry. A directory that cannot be listed comes with the error.
    fn next(&mut self) -> Option<Self::Item> {
        match self.step() {
            Err(error) => Some(Err((None, error))),
            Ok(None) => None,
            Ok(Some(walked)) => match self.enter(&walked) {
                Ok(()) => Some(Ok(walked)),
                // Somebody removed it meanwhile.
                Err(Error::NotFound(_) | Error::Stale(_)) => self.next(),
                Err(error) => Some(Err((Some(walked), error))),
            },
        }
    }
}

impl std::fmt::Debug for Walk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Walk").field("depth", &self.open.len()).finish_non_exhaustive()
    }
}

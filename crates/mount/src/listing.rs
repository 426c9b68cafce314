//! A directory that somebody lists.
//!
//! The kernel resumes a listing at a place that it was given with an entry: a count of entries from
//! the beginning. Two pages stay in memory, as the kernel goes back by what did not fit; where
//! earlier pages begin is remembered by name. So a listing takes bounded memory for each thousand
//! entries, and goes on correctly when what it gave is removed meanwhile.

use keyrack_deltafs::{Caller, Dir, Error, ListEntry, Result};

/// Entries of a page.
const PAGE: usize = 1024;

/// A handle of a directory.
#[derive(Debug)]
pub(crate) struct Listing {
    dir: Dir,
    /// The name before the first of each page that was begun; that of the first page is empty.
    starts: Vec<Vec<u8>>,
    /// Pages in memory, with their numbers, the newest last.
    pages: Vec<(usize, Vec<ListEntry>)>,
    /// How many pages there are, once the end was seen.
    count: Option<usize>,
}

impl Listing {
    pub(crate) fn new(dir: Dir) -> Listing {
        Listing { dir, starts: vec![Vec::new()], pages: Vec::new(), count: None }
    }

    pub(crate) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Begins anew: what came and went since is seen.
    pub(crate) fn rewind(&mut self) {
        *self = Listing::new(self.dir.clone());
    }

    /// The entry at a place; `None` behind the last.
    pub(crate) fn entry(&mut self, fs: &Caller<'_>, at: u64) -> Result<Option<ListEntry>> {
        let at = usize::try_from(at).map_err(|_| beyond())?;
        let (wanted, index) = (at / PAGE, at % PAGE);
        if self.count.is_some_and(|count| wanted >= count) {
            return Ok(None);
        }
        // Pages are read in order, as each begins where the one before ended.
        while self.starts.len() <= wanted {
            let last = self.starts.len() - 1;
            self.load(fs, last)?;
            if self.count.is_some_and(|count| wanted >= count) {
                return Ok(None);
            }
        }
        self.load(fs, wanted)?;
        let page = self.pages.iter().find(|(number, _)| *number == wanted);
        Ok(page.and_then(|(_, entries)| entries.get(index).cloned()))
    }

    fn load(&mut self, fs: &Caller<'_>, number: usize) -> Result<()> {
        if self.pages.iter().any(|(loaded, _)| *loaded == number) {
            return Ok(());
        }
        let start = &self.starts[number];
        let after = (!start.is_empty()).then_some(&start[..]);
        let page = fs.list_plus_at(&self.dir, after, PAGE)?;
        match page.next {
            Some(next) if self.starts.len() == number + 1 => self.starts.push(next),
            Some(_) => {}
            None => self.count = Some(number + 1),
        }
        if self.pages.len() >= 2 {
            self.pages.remove(0);
        }
        self.pages.push((number, page.entries));
        Ok(())
    }
}

fn beyond() -> Error {
    Error::Invalid("the place in the listing is none".to_owned())
}

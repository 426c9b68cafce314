//! The check of a name space: every record, and what they say about each other.
//!
//! ```text
//!   entry of a directory  -->  the directory is known, and says where it is
//!   directory             -->  one entry has it; its count is that of its directories
//!   entry of any kind     -->  its directory is known
//!   number of a file      -->  no other has it
//!   hard link             -->  its file is known, and counts its names
//! ```
//!
//! Nothing is changed. Memory: about 100 bytes a directory, and 16 bytes a file. Several logs that
//! were not begun on one another count a directory that each of them made once each, and the names
//! of a file that each knows of; so counts are looked at only where there is one log.

use crate::caller::{Found, Kind, Named, Stat};
use crate::error::{Error, Result};
use crate::id::{DirId, Inode};
use crate::layers::Merged;
use crate::name::join;
use crate::namespace::Namespace;
use crate::record::{Entry, Node};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What is wrong somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// Where.
    pub path: Vec<u8>,
    /// What.
    pub what: String,
}

/// What a check has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Directories, without the root.
    pub dirs: u64,
    /// Files.
    pub files: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Records that hide what lower logs have.
    pub whiteouts: u64,
    /// What is wrong.
    pub flaws: Vec<Flaw>,
}

/// What is gathered about a directory.
#[derive(Default)]
struct Seen {
    /// Entries that have it.
    entries: u64,
    /// Where the last of them is.
    at: Option<(DirId, Vec<u8>)>,
    subdirs: i64,
}

/// What is gathered about a file with hard links.
#[derive(Default)]
struct SeenLinks {
    names: u64,
    /// Where the last of them is.
    at: Option<(DirId, Vec<u8>)>,
    /// How many its record counts, if there is one.
    counted: Option<u64>,
}

/// What is gathered.
#[derive(Default)]
struct Gathered {
    dirs: HashMap<DirId, Seen>,
    /// The numbers of files.
    inodes: Vec<u128>,
    linked: BTreeMap<Inode, SeenLinks>,
}

impl Namespace {
    /// Reads everything and says what does not fit. What cannot be read as a record is a flaw too.
    ///
    /// # Errors
    /// A store cannot be read. Flaws are none.
    pub fn fsck(&self) -> Result<Checked> {
        let mut checked = Checked::default();
        let mut gathered = Gathered::default();
        gathered.dirs.entry(DirId::ROOT).or_default().entries = 1;
        self.gather(&mut checked, &mut gathered)?;
        let Gathered { dirs, mut inodes, linked } = gathered;
        self.compare(&mut checked, &dirs)?;
        self.compare_links(&mut checked, &linked)?;
        inodes.sort_unstable();
        for pair in inodes.windows(2).filter(|pair| pair[0] == pair[1]) {
            checked.flaws.push(Flaw {
                path: b"/".to_vec(),
                what: format!("several files have the number {:032x}", pair[0]),
            });
        }
        Ok(checked)
    }

    /// Reads the bytes of every large file and says which are not what was written.
    ///
    /// # Errors
    /// A store or a file cannot be read. Damage is none.
    pub fn check_contents(&self) -> Result<Vec<Flaw>> {
        let inner = &self.inner;
        let mut flaws = Vec::new();
        let mut walk = inner.layers.everything()?;
        while walk.next()? {
            let (id, name) = walk.entry_key()?;
            let is_number = name.is_empty() && id.inode().is_file();
            if id == DirId::SYSTEM || (name.is_empty() && !is_number) {
                continue;
            }
            let Entry::Sized(file) = Entry::read(walk.path(0), id, name, walk.value(0))? else {
                continue;
            };
            match inner.contents.verify(file.inode, file.size) {
                Err(error @ Error::Corruption { .. }) => {
                    let what = error.to_string();
                    let mut names = vec![(id, name.to_vec())];
                    if is_number {
                        let number = id.inode();
                        let found = inner.layers.names_of(&BTreeSet::from([number]))?;
                        names = found.into_values().flatten().collect();
                    }
                    for (dir, name) in names {
                        let path = join(&inner.path_of(dir)?, &name);
                        flaws.push(Flaw { path, what: what.clone() });
                    }
                }
                verified => verified?,
            }
        }
        Ok(flaws)
    }

    /// Reads every record.
    fn gather(&self, checked: &mut Checked, gathered: &mut Gathered) -> Result<()> {
        let inner = &self.inner;
        let mut walk = inner.layers.everything()?;
        while walk.next()? {
            let (id, name) = match walk.entry_key() {
                Ok((id, name)) => (id, name.to_vec()),
                Err(error) => {
                    checked.flaws.push(Flaw { path: b"/".to_vec(), what: error.to_string() });
                    continue;
                }
            };
            if id == DirId::SYSTEM {
                continue;
            }
            if name.is_empty() {
                self.gather_own(checked, gathered, &walk, id)?;
                continue;
            }
            let entry = match Entry::read(walk.path(0), id, &name, walk.value(0)) {
                Ok(entry) => entry,
                Err(error) => {
                    let path = join(&inner.path_of(id)?, &name);
                    checked.flaws.push(Flaw { path, what: error.to_string() });
                    continue;
                }
            };
            let Some(named) = Named::of(entry) else {
                checked.whiteouts += 1;
                continue;
            };
            let dir = gathered.dirs.entry(id).or_default();
            match named {
                Named::Entry(Found::Dir(child)) => {
                    checked.dirs += 1;
                    dir.subdirs += 1;
                    let seen = gathered.dirs.entry(child).or_default();
                    seen.entries += 1;
                    seen.at = Some((id, name));
                }
                Named::Entry(Found::Other(stat)) => gathered.file(checked, &stat),
                Named::Link(number) => {
                    let seen = gathered.linked.entry(number).or_default();
                    seen.names += 1;
                    seen.at = Some((id, name));
                }
            }
        }
        Ok(())
    }

    /// Reads what stands under a number: a directory itself, or a file with hard links.
    fn gather_own(
        &self,
        checked: &mut Checked,
        gathered: &mut Gathered,
        walk: &Merged,
        id: DirId,
    ) -> Result<()> {
        let number = Some(id.inode()).filter(|number| number.is_file());
        let mut is_sound = true;
        for n in 0..walk.holders().len() {
            let (path, value) = (walk.path(n), walk.value(n));
            let read = match number {
                Some(number) => Entry::read_numbered(path, number, value).map(drop),
                None => Node::read(path, id, value).map(drop),
            };
            if let Err(error) = read {
                is_sound = false;
                checked.flaws.push(Flaw { path: b"/".to_vec(), what: error.to_string() });
            }
        }
        if let Some(number) = number.filter(|_| is_sound)
            && let Some(Some(Found::Other(stat))) =
                self.inner.layers.find_number(number, Found::of)?
        {
            gathered.file(checked, &stat);
            gathered.linked.entry(number).or_default().counted = Some(stat.nlink);
        }
        Ok(())
    }

    /// Holds the names of files with hard links against their records.
    fn compare_links(
        &self,
        checked: &mut Checked,
        linked: &BTreeMap<Inode, SeenLinks>,
    ) -> Result<()> {
        let inner = &self.inner;
        let has_one_log = inner.layers.all().len() == 1;
        for (number, seen) in linked {
            let what = match seen.counted {
                None => format!("it is a name of the file {number}, which is not there"),
                Some(counted) if has_one_log && counted != seen.names => {
                    format!("the file {number} counts {counted} names, and has {}", seen.names)
                }
                Some(_) => continue,
            };
            let path = match &seen.at {
                Some((dir, name)) => join(&inner.path_of(*dir)?, name),
                None => b"/".to_vec(),
            };
            checked.flaws.push(Flaw { path, what });
        }
        Ok(())
    }

    /// Holds what was gathered against what directories say of themselves.
    fn compare(&self, checked: &mut Checked, dirs: &HashMap<DirId, Seen>) -> Result<()> {
        let inner = &self.inner;
        let has_one_log = inner.layers.all().len() == 1;
        let mut order: Vec<_> = dirs.iter().collect();
        order.sort_by_key(|(id, _)| **id);
        for (id, seen) in order {
            let mut flaw = |what: String| -> Result<()> {
                let path = match &seen.at {
                    Some((dir, name)) => join(&inner.path_of(*dir)?, name),
                    None => inner.path_of(*id)?,
                };
                checked.flaws.push(Flaw { path, what });
                Ok(())
            };
            // Not what is in memory: the check is about what is in the logs.
            let node = match inner.layers.node(*id) {
                // It was told when it was read.
                Err(Error::Corruption { .. }) => continue,
                node => node?,
            };
            match (&node, seen.entries) {
                (None, 0) => {
                    flaw(format!("there are entries of the directory {id:?}, which is not"))?;
                }
                (None, _) => flaw(format!("the directory {id:?} is not there"))?,
                (Some(_), 0) => flaw("a directory with entries has no name".to_owned())?,
                (Some(_), 1) => {}
                (Some(_), names) => flaw(format!("the directory has {names} names"))?,
            }
            let Some(node) = node else { continue };
            if let Some((dir, name)) = &seen.at
                && seen.entries == 1
                && (node.node.parent != *dir || node.node.name != *name)
            {
                flaw("the directory says that it is elsewhere".to_owned())?;
            }
            if has_one_log && node.all.subdirs != seen.subdirs {
                let (says, has) = (node.all.subdirs, seen.subdirs);
                flaw(format!("the directory counts {says} directories, and has {has}"))?;
            }
        }
        Ok(())
    }
}

impl Gathered {
    fn file(&mut self, checked: &mut Checked, stat: &Stat) {
        self.inodes.push(stat.inode.to_u128());
        match stat.kind {
            Kind::Symlink => checked.symlinks += 1,
            Kind::File | Kind::Dir => checked.files += 1,
        }
    }
}

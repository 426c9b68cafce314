//! Damage at rest: each file of a closed store removed, cut, flipped, overwritten, exchanged and
//! set back in turn. What is opened afterwards is refused with a place, or says what it said.
//!
//! ```text
//!   Directory  ours, theirs, earlier     contents by path: the store, another one, an older self
//!   sweep      ours + one damage --> look --> answers, or a refusal that names a file
//! ```
//!
//! Nothing here knows a format. The caller says which files are of a kind, and how to read a
//! directory. The damages follow from the seed and the contents.

use keyrack_vfs::{FileKind, Fs, MemFs};
use keyrack_workload::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

/// Every file below a directory, with its content.
pub type Directory = BTreeMap<PathBuf, Vec<u8>>;

/// Bytes that a disk loses at once.
const PAGE_BYTES: usize = 4_096;

/// Reads every file below `dir`.
///
/// # Panics
/// If the file system fails.
#[must_use]
pub fn directory(fs: &dyn Fs, dir: &Path) -> Directory {
    let mut found = Directory::new();
    for entry in fs.list(dir).expect("the directory can be listed") {
        let path = dir.join(&entry.name);
        if entry.kind == FileKind::Dir {
            found.extend(directory(fs, &path));
        } else {
            let content = fs.read(&path).expect("the file can be read");
            found.insert(path, content);
        }
    }
    found
}

/// A disk with these files. Directories that were empty are not there.
///
/// # Panics
/// If the file system fails.
#[must_use]
pub fn disk_of(files: &Directory) -> MemFs {
    let disk = MemFs::new();
    for (path, content) in files {
        let parent = path.parent().expect("a file lies in a directory");
        disk.create_dir_all(parent).expect("the directory can be made");
        disk.write_atomic(path, content).expect("the file can be written");
    }
    disk
}

/// One damage: what it is, and the files that it changes; `None` for one that is gone.
#[derive(Clone, Debug)]
pub struct Damage {
    /// In words, with the names of the files.
    pub what: String,
    /// New contents by path.
    pub files: BTreeMap<PathBuf, Option<Vec<u8>>>,
}

impl Damage {
    fn new(what: impl Into<String>) -> Self {
        Damage { what: what.into(), files: BTreeMap::new() }
    }

    fn with(mut self, path: &Path, content: Option<Vec<u8>>) -> Self {
        self.files.insert(path.to_owned(), content);
        self
    }

    /// The files with this damage.
    #[must_use]
    pub fn apply(&self, ours: &Directory) -> Directory {
        let mut damaged = ours.clone();
        for (path, content) in &self.files {
            match content {
                Some(content) => drop(damaged.insert(path.clone(), content.clone())),
                None => drop(damaged.remove(path)),
            }
        }
        damaged
    }
}

/// The directories that damages are made of.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// The store.
    pub ours: &'a Directory,
    /// Another store with the same paths and other answers.
    pub theirs: &'a Directory,
    /// Copies of the store at earlier moments.
    pub earlier: &'a [Directory],
    /// Which files are of one kind.
    pub kind: fn(&Path) -> String,
}

impl Sources<'_> {
    /// All damages. `flips` bits are flipped at random in each file, beside those at its ends.
    #[must_use]
    pub fn damages(&self, seed: u64, flips: usize) -> Vec<Damage> {
        let mut rng = Rng::from_seed(seed);
        let mut damages = Vec::new();
        for (path, content) in self.ours {
            self.whole(path, content, &mut damages);
            within(path, content, flips, &mut rng, &mut damages);
        }
        self.set_back(&mut damages);
        let is_change = |damage: &Damage| damage.apply(self.ours) != *self.ours;
        damages.retain(is_change);
        damages
    }

    /// The file removed, cut, longer, or with the content of another one.
    fn whole(&self, path: &Path, content: &[u8], damages: &mut Vec<Damage>) {
        let name = path.display();
        damages.push(Damage::new(format!("{name} removed")).with(path, None));
        let len = content.len();
        let cuts = [0, 1, len / 2, len.saturating_sub(PAGE_BYTES), len.saturating_sub(512)];
        let pages = [len / 2 / PAGE_BYTES * PAGE_BYTES, len / 2 / 512 * 512, len.saturating_sub(1)];
        for cut in BTreeSet::from_iter(cuts.into_iter().chain(pages)) {
            let cut_content = content.get(..cut).unwrap_or(content).to_vec();
            damages.push(
                Damage::new(format!("{name} cut to {cut} of {len}")).with(path, Some(cut_content)),
            );
        }
        for (more, what) in [(vec![0; PAGE_BYTES], "zeros"), (b"trailing".to_vec(), "text")] {
            let longer = [content, &more[..]].concat();
            damages.push(
                Damage::new(format!("{name} with {what} behind it")).with(path, Some(longer)),
            );
        }
        let kind = (self.kind)(path);
        for (other, others) in self.ours.range(path.to_owned()..).skip(1) {
            if (self.kind)(other) == kind {
                damages.push(
                    Damage::new(format!("{name} exchanged with {}", other.display()))
                        .with(path, Some(others.clone()))
                        .with(other, Some(content.to_vec())),
                );
                damages.push(
                    Damage::new(format!("{} has the content of {name}", other.display()))
                        .with(other, Some(content.to_vec())),
                );
            }
        }
        for (other, others) in self.theirs {
            if (self.kind)(other) == kind {
                damages.push(
                    Damage::new(format!("{name} is {} of another store", other.display()))
                        .with(path, Some(others.clone())),
                );
            }
        }
    }

    /// Earlier contents: each file alone, each kind together, and files that are gone.
    fn set_back(&self, damages: &mut Vec<Damage>) {
        for (age, earlier) in self.earlier.iter().enumerate() {
            let mut kinds: BTreeMap<String, Damage> = BTreeMap::new();
            for (path, content) in earlier {
                let name = path.display();
                damages.push(
                    Damage::new(format!("{name} as of copy {age}"))
                        .with(path, Some(content.clone())),
                );
                let kind = (self.kind)(path);
                let what = format!("every {kind} as of copy {age}");
                let together = kinds.remove(&kind).unwrap_or_else(|| Damage::new(what));
                kinds.insert(kind, together.with(path, Some(content.clone())));
            }
            damages.extend(kinds.into_values());
        }
    }
}

/// Bits flipped and pages overwritten.
fn within(path: &Path, content: &[u8], flips: usize, rng: &mut Rng, damages: &mut Vec<Damage>) {
    let (name, len) = (path.display(), content.len());
    if len == 0 {
        return;
    }
    // The end of what was written is mostly far before the end of the file.
    let last = content.iter().rposition(|byte| *byte != 0).unwrap_or(0);
    let mut places = BTreeSet::from([0, len / 2, len - 1, last, last / 2, last.saturating_sub(9)]);
    places.extend((0..flips).map(|_| rng.below(last as u64 + 1) as usize));
    for at in places {
        let mut flipped = content.to_vec();
        flipped[at] ^= 1 << rng.below(8);
        damages.push(Damage::new(format!("{name} flipped at {at}")).with(path, Some(flipped)));
    }
    let page_of = |at: usize, bytes: usize| at / bytes * bytes;
    let pages = [(0, PAGE_BYTES), (len / 2, PAGE_BYTES), (last, PAGE_BYTES), (last, 512), (0, 512)];
    for (at, bytes) in pages {
        let (from, filler) = (page_of(at, bytes), [0, 0xff]);
        for filler in filler {
            let mut overwritten = content.to_vec();
            overwritten[from..len.min(from + bytes)].fill(filler);
            damages.push(
                Damage::new(format!("{name}: {bytes} bytes of {filler:#x} at {from}"))
                    .with(path, Some(overwritten)),
            );
        }
    }
}

/// What came of a sweep.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// Damages with an error that names a file.
    pub refused: usize,
    /// Damages that changed no answer.
    pub unchanged: usize,
    /// Damages that changed answers without a word, or whose error names nothing.
    pub silent: Vec<String>,
}

impl fmt::Display for Swept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Swept { refused, unchanged, silent } = self;
        write!(f, "{refused} refused, {unchanged} unchanged, {} silent", silent.len())?;
        silent.iter().try_for_each(|what| write!(f, "\n  {what}"))
    }
}

/// Damages `ours` in each of these ways and looks. `look` reads everything, or says in an error
/// that names a file below `root` why not.
///
/// # Panics
/// If `ours` itself is refused.
pub fn sweep<T: PartialEq>(
    root: &Path,
    ours: &Directory,
    damages: &[Damage],
    look: &dyn Fn(MemFs) -> Result<T, String>,
) -> Swept {
    let expected = look(disk_of(ours)).expect("the store is sound before it is damaged");
    let root = root.display().to_string();
    let mut swept = Swept::default();
    for damage in damages {
        match look(disk_of(&damage.apply(ours))) {
            Ok(found) if found == expected => swept.unchanged += 1,
            Ok(_) => swept.silent.push(format!("{}: other answers", damage.what)),
            Err(error) if error.contains(&root) => swept.refused += 1,
            Err(error) => swept.silent.push(format!("{}: no place in '{error}'", damage.what)),
        }
    }
    swept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> Directory {
        Directory::from([("/s/a".into(), vec![7; 9_000]), ("/s/b".into(), b"text".to_vec())])
    }

    fn kind(_: &Path) -> String {
        "file".to_owned()
    }

    #[test]
    fn a_reader_that_checks_nothing_is_found_out_and_one_that_checks_all_is_not() {
        let (ours, theirs) = (store(), Directory::from([("/s/b".into(), b"test".to_vec())]));
        let earlier = [Directory::from([("/s/c".into(), vec![1])])];
        let sources = Sources { ours: &ours, theirs: &theirs, earlier: &earlier, kind };
        let damages = sources.damages(1, 5);
        assert!(damages.len() > 50, "{}", damages.len());
        let all = |disk: MemFs| Ok(directory(&disk, Path::new("/s")));
        let swept = sweep(Path::new("/s"), &ours, &damages, &all);
        assert_eq!((swept.refused, swept.silent.len()), (0, damages.len()), "all are seen");
        let strict = |disk: MemFs| {
            let same = directory(&disk, Path::new("/s")) == store();
            if same { Ok(()) } else { Err("/s/a: damaged".to_owned()) }
        };
        let swept = sweep(Path::new("/s"), &ours, &damages, &strict);
        assert_eq!((swept.refused, swept.silent.len()), (damages.len(), 0), "{swept}");
        let mute = |disk: MemFs| strict(disk).map_err(|_| "something".to_owned());
        assert_eq!(sweep(Path::new("/s"), &ours, &damages, &mute).silent.len(), damages.len());
    }

    #[test]
    fn the_same_seed_makes_the_same_damages() {
        let (ours, none) = (store(), Directory::new());
        let sources = Sources { ours: &ours, theirs: &none, earlier: &[], kind };
        let words = |seed| -> Vec<String> {
            sources.damages(seed, 9).into_iter().map(|damage| damage.what).collect()
        };
        assert_eq!(words(3), words(3));
        assert_ne!(words(3), words(4));
    }
}

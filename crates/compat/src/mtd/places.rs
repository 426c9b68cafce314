//! Where `mtd` keeps what it stores, and what it must not touch there.
//!
//! ```text
//!   CKPDIR/kvd-ckp/             the store: its manifest, its lock, the parts of its checkpoint
//!   LOGDIR i % n/kvd-log-i/     the segments of log i
//!
//!   of several directories of checkpoints:
//!   CKPDIR 0/kvd-ckp/           the manifest and the lock, wherever in the list it is later
//!   CKPDIR i % n/checkpoint-ID/ part i of the checkpoint, from thread i
//! ```
//!
//! The original has files of such names: `kvd-log-I`, `kvd-ckp-gen`, `kvd-ckp-GEN-I`. They are
//! looked for, since a start beside them would look as if all rows were lost.
//!
//! Logs are named relative to the store, so that all directories may move together, and stay the
//! same log under whatever name they are called.

use super::options::Options;
use keyrack_server::{Error, Result};
use keyrack_vfs::{FileKind, Fs};
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// Logs of one store; more threads share them.
const LOGS_MAX: usize = 256;

const STORE_NAME: &str = "kvd-ckp";
const LOG_PREFIX: &str = "kvd-log-";
const CHECKPOINT_PREFIX: &str = "kvd-ckp-";

/// The directories of a store.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) store: PathBuf,
    /// Relative to that.
    pub(super) logs: Vec<PathBuf>,
    /// Relative to that; empty if there is one directory, which has all.
    pub(super) checkpoints: Vec<PathBuf>,
}

impl Places {
    /// Those of the options, once it is known that they are directories without strangers in them.
    pub(super) fn of(options: &Options, fs: &dyn Fs) -> Result<Places> {
        for dir in options.log_dirs.iter().chain(&options.checkpoint_dirs) {
            look_for_strangers(fs, dir)?;
        }
        let store = store_in(fs, &options.checkpoint_dirs)?;
        let from = if fs.exists(&store)? {
            fs.canonicalize(&store)?
        } else {
            fs.canonicalize(store.parent().expect("it is in a directory"))?.join(STORE_NAME)
        };
        let logs = (0..LOGS_MAX.min(options.threads as usize)).map(|log| {
            let dir = fs.canonicalize(&options.log_dirs[log % options.log_dirs.len()])?;
            Ok(relative(&from, &dir.join(format!("{LOG_PREFIX}{log}"))))
        });
        let logs = logs.collect::<Result<_>>()?;
        let mut checkpoints = Vec::new();
        if options.checkpoint_dirs.len() > 1 {
            for dir in &options.checkpoint_dirs {
                checkpoints.push(relative(&from, &fs.canonicalize(dir)?));
            }
        }
        Ok(Places { store, logs, checkpoints })
    }

    /// The names that the original gives its first checkpoint.
    pub(super) fn looked_for(options: &Options) -> Vec<PathBuf> {
        let dirs = &options.checkpoint_dirs;
        let parts = (0..options.threads as usize)
            .map(|part| dirs[part % dirs.len()].join(format!("{CHECKPOINT_PREFIX}0-{part}")));
        std::iter::once(dirs[0].join(format!("{CHECKPOINT_PREFIX}gen"))).chain(parts).collect()
    }
}

/// The store in one of the directories; in the first if there is none yet.
fn store_in(fs: &dyn Fs, dirs: &[PathBuf]) -> Result<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for store in dirs.iter().map(|dir| dir.join(STORE_NAME)) {
        if fs.exists(&store)? {
            found.push(store);
        }
    }
    match found.as_slice() {
        [] => Ok(dirs[0].join(STORE_NAME)),
        [store] => Ok(store.clone()),
        [one, other, ..] => Err(Error::usage(format!(
            "'{}' and '{}' are two stores: name the directories of one",
            one.display(),
            other.display()
        ))),
    }
}

/// Refuses a directory that is none, or has files of the original.
fn look_for_strangers(fs: &dyn Fs, dir: &Path) -> Result<()> {
    let is_dir = fs.exists(dir)? && fs.metadata(dir)?.kind == FileKind::Dir;
    if !is_dir {
        return Err(Error::usage(format!(
            "'{}' is no directory: make it, or name another",
            dir.display()
        )));
    }
    let is_strange = |name: &OsStr| {
        let name = name.to_string_lossy();
        name.starts_with(LOG_PREFIX) || name.starts_with(CHECKPOINT_PREFIX)
    };
    let mut found = fs.list(dir)?;
    found.retain(|entry| entry.kind == FileKind::File && is_strange(&entry.name));
    match found.first() {
        None => Ok(()),
        Some(entry) => Err(Error::usage(format!(
            "'{}' was written by another mtd, whose files are not read here: name other \
             directories, or move it away",
            dir.join(&entry.name).display()
        ))),
    }
}

/// The way from the directory `from` to `to`, both without links and dots.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let (from, to): (Vec<_>, Vec<_>) = (from.components().collect(), to.components().collect());
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = from[shared..].iter().map(|_| Component::ParentDir);
    up.chain(to[shared..].iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_vfs::MemFs;

    fn options(line: &str) -> Options {
        let words = std::iter::once("mtd").chain(line.split_whitespace());
        Options::parse(&words.map(str::to_owned).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn logs_are_dealt_out_and_named_from_the_store() {
        let fs = MemFs::new();
        for dir in ["/a/l", "/a/m", "/b/c"] {
            fs.create_dir_all(Path::new(dir)).unwrap();
        }
        let places = Places::of(&options("-j3 --ld /a/l,/a/m --cd /b/c"), &fs).unwrap();
        assert_eq!(places.store, Path::new("/b/c/kvd-ckp"));
        let logs = ["../../../a/l/kvd-log-0", "../../../a/m/kvd-log-1", "../../../a/l/kvd-log-2"];
        assert_eq!(places.logs, logs.map(PathBuf::from));
        let places = Places::of(&options("-j1 --ld /b/c --cd /b/c"), &fs).unwrap();
        assert_eq!(places.logs, [PathBuf::from("../kvd-log-0")]);
    }

    #[test]
    fn the_store_is_found_in_any_order_of_its_directories() {
        let fs = MemFs::new();
        for dir in ["/a", "/b", "/c"] {
            fs.create_dir_all(Path::new(dir)).unwrap();
        }
        let places = |line: &str| Places::of(&options(line), &fs);
        let first = places("-j1 --ld /c --cd /a,/b").unwrap();
        assert_eq!(first.store, Path::new("/a/kvd-ckp"));
        assert_eq!(first.checkpoints, ["..", "../../b"].map(PathBuf::from));
        fs.create_dir_all(Path::new("/b/kvd-ckp")).unwrap();
        let second = places("-j1 --ld /c --cd /a,/b").unwrap();
        assert_eq!(second.store, Path::new("/b/kvd-ckp"));
        assert_eq!(second.checkpoints, ["../../a", ".."].map(PathBuf::from));
        assert!(places("-j1 --ld /c --cd /b").unwrap().checkpoints.is_empty());
        fs.create_dir_all(Path::new("/a/kvd-ckp")).unwrap();
        let error = places("-j1 --ld /c --cd /a,/b").unwrap_err().to_string();
        assert!(error.contains("are two stores"), "{error}");
    }

    #[test]
    fn the_first_checkpoint_of_the_original_has_a_file_for_each_thread() {
        let names = Places::looked_for(&options("-j2 --cd .,d"));
        let expected = ["./kvd-ckp-gen", "./kvd-ckp-0-0", "d/kvd-ckp-0-1"];
        assert_eq!(names, expected.map(PathBuf::from));
    }

    #[test]
    fn files_of_the_original_and_missing_directories_are_refused() {
        let fs = MemFs::new();
        fs.create_dir_all(Path::new("/d/kvd-log-0")).unwrap();
        let refused = |line: &str| Places::of(&options(line), &fs).unwrap_err().to_string();
        assert!(refused("--ld /d --cd /none").contains("'/none' is no directory"));
        Places::of(&options("--ld /d --cd /d"), &fs).unwrap();
        for name in ["kvd-log-7", "kvd-ckp-gen", "kvd-ckp-3-0"] {
            let path = Path::new("/d").join(name);
            fs.write_atomic(&path, b"").unwrap();
            let why = refused("--ld /d --cd /d");
            assert!(why.contains(name) && why.contains("another mtd"), "{why}");
            fs.remove_file(&path).unwrap();
        }
    }
}

//! Libraries of this machine: where they are, which version, and whether they were built with
//! assertions.
//!
//! Without a path the directories of the dynamic linker are looked through for the highest version.
//! A library that was loaded stays loaded: its threads may run until the process ends.
#![expect(unsafe_code, reason = "loading a library runs its initialization")]

use super::functions::{Level, Rocks, Shared};
use keyrack_store::{Error, Result};
use keyrack_vfs::Fs;
use libloading::Library;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Which of the two it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Rocks,
    Level,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Rocks => "rocksdb",
            Kind::Level => "leveldb",
        }
    }

    fn package(self) -> &'static str {
        match self {
            Kind::Rocks => "librocksdb7.8",
            Kind::Level => "libleveldb1d",
        }
    }
}

/// What one of them has alone.
#[derive(Clone, Copy, Debug)]
pub(super) enum Own {
    Rocks(Rocks),
    Level(Level),
}

/// A loaded library.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) kind: Kind,
    pub(super) shared: Shared,
    pub(super) own: Own,
    /// As reports print it: `rocksdb 7.8.3 (librocksdb.so.7.8.3)`.
    pub(super) version: String,
    /// Whether it can end the process by an assertion, so that it checks what others do not.
    pub(super) has_assertions: bool,
    path: PathBuf,
}

/// All that were loaded. There are two or three in a process.
static LOADED: Mutex<Vec<&'static Loaded>> = Mutex::new(Vec::new());

/// Loads the library at `path`, or the one that the machine has.
///
/// # Errors
/// [`Error::Usage`] that says where it was looked for and how to get it.
pub(super) fn load(kind: Kind, path: Option<&str>, fs: &dyn Fs) -> Result<&'static Loaded> {
    let path = match path {
        Some(path) => PathBuf::from(path),
        None => search(kind, fs)?,
    };
    // The file behind the links has the version in its name.
    let path = std::fs::canonicalize(&path)
        .map_err(|error| Error::usage(format!("lib: cannot open '{}': {error}", path.display())))?;
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = loaded.iter().find(|known| known.kind == kind && known.path == path);
    if let Some(known) = known {
        return Ok(known);
    }
    let new: &'static Loaded = Box::leak(Box::new(load_file(kind, path, fs)?));
    loaded.push(new);
    Ok(new)
}

fn load_file(kind: Kind, path: PathBuf, fs: &dyn Fs) -> Result<Loaded> {
    let name = kind.name();
    let refuse = |why: String| Error::usage(format!("lib: '{}': {why}", path.display()));
    let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let bytes = fs.read(&path).map_err(|error| refuse(error.to_string()))?;
    // SAFETY: the user asked for this library, or it is that of the system; what it does when it is
    // loaded is to set up tables of its own.
    let library = unsafe { Library::new(&path) }.map_err(|error| refuse(error.to_string()))?;
    let prefix = format!("{name}_");
    let shared = Shared::find(&library, &prefix).map_err(refuse)?;
    let own = match kind {
        Kind::Rocks => Own::Rocks(Rocks::find(&library, &prefix).map_err(refuse)?),
        Kind::Level => Own::Level(Level::find(&library, &prefix).map_err(refuse)?),
    };
    let version = match own {
        Own::Level(level) => {
            // SAFETY: two functions without arguments that return a constant.
            let major = unsafe { (level.major_version)() };
            // SAFETY: as above.
            let minor = unsafe { (level.minor_version)() };
            format!("{major}.{minor}")
        }
        Own::Rocks(_) => match file.split_once(".so.") {
            Some((_, version)) => version.to_owned(),
            None => "of an unknown version".to_owned(),
        },
    };
    // Its functions are in use until the process ends.
    std::mem::forget(library);
    let version = format!("{name} {version} ({file})");
    let has_assertions = imports_assertions(&bytes);
    Ok(Loaded { kind, shared, own, version, has_assertions, path })
}

/// Whether the names that a library imports have that of the function behind `assert`. Built with
/// `NDEBUG`, nothing of it is left.
fn imports_assertions(bytes: &[u8]) -> bool {
    const NAME: &[u8] = b"\0__assert_fail\0";
    bytes.windows(NAME.len()).any(|window| window == NAME)
}

/// The library with the highest version in the directories of the dynamic linker.
fn search(kind: Kind, fs: &dyn Fs) -> Result<PathBuf> {
    let stem = format!("lib{}.so", kind.name());
    let dirs = directories();
    let mut found: Vec<(Vec<u64>, PathBuf)> = Vec::new();
    for dir in &dirs {
        // A directory that is not there holds nothing.
        for entry in fs.list(dir).unwrap_or_default() {
            let name = entry.name.to_string_lossy().into_owned();
            if let Some(version) = version_of(&name, &stem) {
                found.push((version, dir.join(name)));
            }
        }
    }
    // Of equal versions the first directory's.
    found.reverse();
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    found.pop().map(|(_, path)| path).ok_or_else(|| {
        let dirs: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
        let (name, package) = (kind.name(), kind.package());
        Error::usage(format!(
            "no {stem} in {}: install it (Debian: apt-get install {package}) or name it with \
             --{name}-lib PATH",
            dirs.join(", ")
        ))
    })
}

/// The numbers behind `STEM` in a file name; none for the bare name.
fn version_of(name: &str, stem: &str) -> Option<Vec<u64>> {
    let rest = name.strip_prefix(stem)?;
    if rest.is_empty() {
        return Some(Vec::new());
    }
    // A soname may end in a letter: `libleveldb.so.1d`.
    let number = |part: &str| part.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse().ok();
    rest.strip_prefix('.')?.split('.').map(number).collect()
}

fn directories() -> Vec<PathBuf> {
    let own = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> =
        std::env::split_paths(&own).filter(|dir| !dir.as_os_str().is_empty()).collect();
    let arch = std::env::consts::ARCH;
    let system = [
        "/usr/local/lib".to_owned(),
        format!("/usr/lib/{arch}-linux-gnu"),
        format!("/lib/{arch}-linux-gnu"),
        "/usr/lib64".to_owned(),
        "/usr/lib".to_owned(),
        "/opt/homebrew/lib".to_owned(),
    ];
    dirs.extend(system.iter().map(|dir| Path::new(dir).to_owned()));
    dirs
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_vfs::MemFs;

    #[test]
    fn versions_are_numbers() {
        let of = |name| version_of(name, "librocksdb.so");
        assert_eq!(of("librocksdb.so"), Some(vec![]));
        assert_eq!(of("librocksdb.so.11.8.1"), Some(vec![11, 8, 1]));
        assert!(of("librocksdb.so.11.8.1") > of("librocksdb.so.7.10.2"));
        assert_eq!(version_of("libleveldb.so.1d", "libleveldb.so"), Some(vec![1]));
        for other in ["librocksdb.a", "librocksdb.so-x", "librocksdb.so.new", "librocksdbs.so"] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn an_assertion_leaves_its_name_behind() {
        assert!(imports_assertions(b"..\0malloc\0__assert_fail\0free\0"));
        assert!(!imports_assertions(b"..\0malloc\0my__assert_fail\0free\0"));
        assert!(!imports_assertions(b""));
    }

    #[test]
    fn what_is_not_there_is_refused_with_the_remedy() {
        let error = search(Kind::Rocks, &MemFs::new()).unwrap_err().to_string();
        assert!(error.contains("apt-get install") && error.contains("--rocksdb-lib"), "{error}");
        let error = load(Kind::Level, Some("/no/such.so"), &MemFs::new()).err().unwrap();
        assert!(error.to_string().contains("/no/such.so"), "{error}");
    }

    #[test]
    fn a_file_that_is_no_library_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        let error = load(Kind::Rocks, Some(path), &keyrack_vfs::RealFs).err().unwrap();
        assert!(error.to_string().contains(path), "{error}");
    }
}

//! From a path to a directory and a name.
//!
//! ```text
//!   /a/link/c     link -> ../x/y
//!    |  |
//!    |  +-- a symbolic link: its target, then the rest, from `a` on, or from the root
//!    +-- name cache, else the log
//! ```
//!
//! Each directory on the way must let the user pass. `.` and `..` are understood; `..` of the root
//! is the root. The path is resolved step by step, and a rename meanwhile moves who stands on the
//! way along, as on other systems.

use crate::caller::{Caller, Found, Kind};
use crate::error::{Error, Result, shown};
use crate::id::DirId;
use crate::inner::Dir;
use crate::name::{
    LINKS_MAX, PATH_BYTES_MAX, check_name, check_path, is_end, join, split_first, too_long,
};
use crate::record::Entry;
use crate::user::PASS;

/// Where a path ends.
#[derive(Debug)]
pub(crate) struct Resolved {
    pub(crate) dir: Dir,
    /// The entry in it; `None` is the directory itself: the path ends with `.`, `..` or is `/`.
    pub(crate) name: Option<Vec<u8>>,
    /// Slashes follow, so it must be a directory.
    pub(crate) must_be_dir: bool,
}

impl Resolved {
    /// The name, for calls that make or remove one.
    pub(crate) fn name(&self, path: &[u8]) -> Result<&[u8]> {
        match &self.name {
            Some(name) => Ok(name),
            None => Err(Error::Invalid(format!(
                "'{}': the path has to end with a name, not with '/', '.' or '..'",
                shown(path)
            ))),
        }
    }
}

impl Caller<'_> {
    /// The directory and the name that a path ends with. The last name is not looked up.
    pub(crate) fn resolve_parent(&self, path: &[u8]) -> Result<Resolved> {
        check_path(path)?;
        if path[0] != b'/' {
            return Err(Error::Invalid(format!(
                "'{}': a path must begin with a slash",
                shown(path)
            )));
        }
        self.resolve_from(self.inner.dir(DirId::ROOT)?, path, 0)
    }

    /// A call on what a path names, whose errors name the whole path. With `follow`, links at the
    /// end of the path are followed.
    pub(crate) fn at_path<R>(
        &self,
        path: &[u8],
        follow: bool,
        call: impl FnOnce(&Resolved) -> Result<R>,
    ) -> Result<R> {
        let resolved = if follow { self.resolve_followed(path) } else { self.resolve_parent(path) };
        resolved.and_then(|resolved| call(&resolved)).map_err(|error| named(error, path))
    }

    fn resolve_from(&self, from: Dir, path: &[u8], links: usize) -> Result<Resolved> {
        let mut dir = from;
        let mut rest = path;
        loop {
            let Some((name, behind)) = split_first(rest) else {
                return Ok(Resolved { dir, name: None, must_be_dir: true });
            };
            match name {
                b"." => self.check(&dir.state.read(), PASS, name)?,
                b".." => dir = self.parent(&dir)?,
                _ if is_end(behind) => {
                    self.check_name_in(&dir, name)?;
                    let must_be_dir = !behind.is_empty();
                    if must_be_dir {
                        // It will be looked up whatever the call is about.
                        self.check(&dir.state.read(), PASS, name)?;
                    }
                    return Ok(Resolved { dir, name: Some(name.to_vec()), must_be_dir });
                }
                _ => {
                    self.check_name_in(&dir, name)?;
                    match self.step(&dir, name)? {
                        Step::Dir(next) => dir = next,
                        Step::Link(target) => {
                            let path = [&target[..], b"/", behind].concat();
                            return self.follow(dir, &target, &path, links);
                        }
                    }
                }
            }
            rest = behind;
        }
    }

    /// Refuses what cannot be a name, once the user may pass the directory.
    fn check_name_in(&self, dir: &Dir, name: &[u8]) -> Result<()> {
        check_name(name).or_else(|error| {
            self.check(&dir.state.read(), PASS, name)?;
            Err(error)
        })
    }

    /// Goes on at the target of a link that stands in `dir`.
    fn follow(&self, dir: Dir, target: &[u8], path: &[u8], links: usize) -> Result<Resolved> {
        if links >= LINKS_MAX {
            return Err(Error::Loop(shown(target)));
        }
        if path.len() > 2 * PATH_BYTES_MAX {
            return Err(too_long("the path behind a link", path.len(), 2 * PATH_BYTES_MAX));
        }
        let from = match target.first() {
            Some(b'/') => self.inner.dir(DirId::ROOT)?,
            _ => dir,
        };
        self.resolve_from(from, path, links + 1)
    }

    /// As [`Caller::resolve_parent`], and behind the last name's links as well.
    pub(crate) fn resolve_followed(&self, path: &[u8]) -> Result<Resolved> {
        let mut resolved = self.resolve_parent(path)?;
        for links in 0..=LINKS_MAX {
            let Some(name) = &resolved.name else { return Ok(resolved) };
            let target = self.target_in(&resolved.dir, name)?;
            let Some(mut target) = target else { return Ok(resolved) };
            if resolved.must_be_dir {
                target.push(b'/');
            }
            resolved = self.follow(resolved.dir.clone(), &target, &target, links)?;
        }
        Err(Error::Loop(shown(path)))
    }

    /// The target if the entry is a link.
    fn target_in(&self, dir: &Dir, name: &[u8]) -> Result<Option<Vec<u8>>> {
        self.check(&dir.state.read(), PASS, name)?;
        let found = self.inner.layers.find(dir.state.id, name, |entry| match entry {
            Entry::Symlink(_, target) => Some(target.to_vec()),
            _ => None,
        })?;
        Ok(found.flatten())
    }

    /// The directory that a directory is in.
    fn parent(&self, dir: &Dir) -> Result<Dir> {
        let parent = {
            let info = dir.state.read();
            self.check(&info, PASS, b"..")?;
            info.node.parent
        };
        self.inner.dir(parent)
    }

    /// One name on the way.
    fn step(&self, dir: &Dir, name: &[u8]) -> Result<Step> {
        let id = dir.state.id;
        // The lock is held over cache and log, see `names_cache`.
        let info = dir.state.read();
        self.check(&info, PASS, name)?;
        if let Some(next) = self.inner.names.get(id, name) {
            drop(info);
            return Ok(Step::Dir(self.inner.dir(next)?));
        }
        let found = self.inner.layers.find(id, name, |entry| match entry {
            Entry::Symlink(_, target) => Err(target.to_vec()),
            entry => Ok(Found::of(entry)),
        })?;
        match found {
            Some(Ok(Some(Found::Dir(next)))) => {
                self.inner.names.insert(id, name, next);
                drop(info);
                Ok(Step::Dir(self.inner.dir(next)?))
            }
            Some(Err(target)) => Ok(Step::Link(target)),
            Some(Ok(Some(Found::Other(_)))) => Err(Error::NotDir(shown(name))),
            Some(Ok(None)) | None => Err(Error::NotFound(shown(name))),
        }
    }

    /// The directory at a path; links are followed.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotDir`], [`Error::Denied`] on the way, and so on.
    pub fn dir(&self, path: &[u8]) -> Result<Dir> {
        self.at_path(path, true, |resolved| match &resolved.name {
            None => Ok(resolved.dir.clone()),
            Some(name) => self.dir_at(&resolved.dir, name),
        })
    }

    /// The directory of that name in `dir`.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotDir`] if it is a file or a link, [`Error::Denied`].
    pub fn dir_at(&self, dir: &Dir, name: &[u8]) -> Result<Dir> {
        check_name(name)?;
        match self.step(dir, name)? {
            Step::Dir(dir) => Ok(dir),
            Step::Link(_) => Err(Error::NotDir(shown(name))),
        }
    }

    /// The path of a directory, as it is now.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn path_of(&self, dir: &Dir) -> Result<Vec<u8>> {
        self.inner.path_of(dir.state.id)
    }

    /// What is wrong when something that must be a directory is none.
    pub(crate) fn check_dir(resolved: &Resolved, found: &Found, path: &[u8]) -> Result<()> {
        match found {
            Found::Other(stat) if resolved.must_be_dir && stat.kind != Kind::Dir => {
                Err(Error::NotDir(shown(path)))
            }
            _ => Ok(()),
        }
    }
}

enum Step {
    Dir(Dir),
    Link(Vec<u8>),
}

impl crate::inner::Inner {
    /// The path of a directory. Of one that is removed, or whose parents are, what was known.
    pub(crate) fn path_of(&self, id: DirId) -> Result<Vec<u8>> {
        let mut names = Vec::new();
        let mut at = id;
        // Renames meanwhile cannot make the way endless, as it is counted.
        for _ in 0..=2 * crate::name::DEPTH_MAX {
            if at == DirId::ROOT {
                break;
            }
            let Some(state) = self.dirs.get(&self.layers, at)? else { break };
            let info = state.read();
            names.push(info.node.name.clone());
            at = info.node.parent;
        }
        let path = names.iter().rev().fold(Vec::new(), |path, name| join_relative(&path, name));
        Ok(if path.is_empty() { b"/".to_vec() } else { path })
    }

    /// How many directories there are from the root down to this one.
    pub(crate) fn depth(&self, id: DirId) -> Result<usize> {
        let (mut depth, mut at) = (0, id);
        while at != DirId::ROOT && depth <= 2 * crate::name::DEPTH_MAX {
            at = self.dir(at)?.state.read().node.parent;
            depth += 1;
        }
        Ok(depth)
    }
}

fn join_relative(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() { join(b"/", name) } else { join(path, name) }
}

/// The error with the whole path instead of the name that it was found at.
pub(crate) fn named(error: Error, path: &[u8]) -> Error {
    let path = || shown(path);
    match error {
        Error::NotFound(_) => Error::NotFound(path()),
        Error::Exists(_) => Error::Exists(path()),
        Error::NotDir(_) => Error::NotDir(path()),
        Error::IsDir(_) => Error::IsDir(path()),
        Error::NotEmpty(_) => Error::NotEmpty(path()),
        Error::Denied(_) => Error::Denied(path()),
        Error::NotOwner(_) => Error::NotOwner(path()),
        Error::ReadOnly(_) => Error::ReadOnly(path()),
        Error::Loop(_) => Error::Loop(path()),
        Error::NoData(_) => Error::NoData(path()),
        Error::Stale(_) => Error::Stale(path()),
        Error::TooLarge { bytes, limit, .. } => Error::TooLarge { path: path(), bytes, limit },
        Error::Quota { limit, .. } => Error::Quota { path: path(), limit },
        Error::LinkedDir(_) => Error::LinkedDir(path()),
        Error::TooManyLinks { limit, .. } => Error::TooManyLinks { path: path(), limit },
        other => other,
    }
}

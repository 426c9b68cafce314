//! A name space, wherever it is: a log in this process, or servers. The calls of C are made on it.
//!
//! ```text
//!   calls, listing --> Space --> Caller   a log of this process
//!                            --> Tree     servers, under a lock
//! ```
//!
//! A caller follows links at the end of a path by itself. A tree does not: a server refuses to
//! read or write a link, and the tree then looks for what it leads to and asks once more. So a path
//! without links costs no call more.

use crate::status::Failure;
use keyrack_deltafs::rpc::{self, SetFields, Tree};
use keyrack_deltafs::{
    Caller, Dir, IfExists, IfTaken, Kind, Page, SetAttributes, SetTime, Stat, check_name,
};

type Result<T> = std::result::Result<T, Failure>;

/// An open directory, of the name space that opened it.
#[derive(Debug)]
pub(crate) enum OpenDir {
    /// Of a log: it stays the same when it is renamed.
    Log(Dir),
    /// Of servers: its path without links.
    Servers(Vec<u8>),
}

const FOREIGN_DIR: &str = "a listing is read by the name space that opened it";

/// What can be asked of a name space, by paths.
pub(crate) trait Space {
    fn mkdir(&mut self, path: &[u8], mode: u32) -> Result<()>;
    fn create(&mut self, path: &[u8], mode: u32, if_exists: IfExists) -> Result<()>;
    fn symlink(&mut self, target: &[u8], path: &[u8]) -> Result<()>;
    fn unlink(&mut self, path: &[u8]) -> Result<()>;
    fn rmdir(&mut self, path: &[u8]) -> Result<()>;
    fn rename(&mut self, from: &[u8], to: &[u8], if_taken: IfTaken) -> Result<()>;
    /// Links at the end are followed.
    fn set(&mut self, path: &[u8], set: SetFields) -> Result<()>;
    /// Links at the end are followed.
    fn stat(&mut self, path: &[u8]) -> Result<Stat>;
    fn lstat(&mut self, path: &[u8]) -> Result<Stat>;
    fn read_link(&mut self, path: &[u8]) -> Result<Vec<u8>>;
    fn read(&mut self, path: &[u8], offset: u64, count: usize) -> Result<Vec<u8>>;
    fn write(&mut self, path: &[u8], offset: u64, data: &[u8]) -> Result<()>;
    fn open_dir(&mut self, path: &[u8]) -> Result<OpenDir>;
    fn page(&mut self, dir: &OpenDir, after: Option<&[u8]>, count: usize) -> Result<Page>;
}

impl Space for Caller<'_> {
    fn mkdir(&mut self, path: &[u8], mode: u32) -> Result<()> {
        Caller::mkdir(self, path, mode)?;
        Ok(())
    }

    fn create(&mut self, path: &[u8], mode: u32, if_exists: IfExists) -> Result<()> {
        Caller::create(self, path, mode, if_exists)?;
        Ok(())
    }

    fn symlink(&mut self, target: &[u8], path: &[u8]) -> Result<()> {
        Caller::symlink(self, target, path)?;
        Ok(())
    }

    fn unlink(&mut self, path: &[u8]) -> Result<()> {
        Ok(Caller::unlink(self, path)?)
    }

    fn rmdir(&mut self, path: &[u8]) -> Result<()> {
        Ok(Caller::rmdir(self, path)?)
    }

    fn rename(&mut self, from: &[u8], to: &[u8], if_taken: IfTaken) -> Result<()> {
        Ok(Caller::rename(self, from, to, if_taken)?)
    }

    fn set(&mut self, path: &[u8], set: SetFields) -> Result<()> {
        let SetFields { mode, uid, gid, size, mtime_ns } = set;
        let mtime = mtime_ns.map(SetTime::Ns);
        self.set_attributes(path, &SetAttributes { mode, uid, gid, size, mtime })?;
        Ok(())
    }

    fn stat(&mut self, path: &[u8]) -> Result<Stat> {
        Ok(Caller::stat(self, path)?)
    }

    fn lstat(&mut self, path: &[u8]) -> Result<Stat> {
        Ok(Caller::lstat(self, path)?)
    }

    fn read_link(&mut self, path: &[u8]) -> Result<Vec<u8>> {
        Ok(Caller::read_link(self, path)?)
    }

    fn read(&mut self, path: &[u8], offset: u64, count: usize) -> Result<Vec<u8>> {
        Ok(Caller::read(self, path, offset, count)?)
    }

    fn write(&mut self, path: &[u8], offset: u64, data: &[u8]) -> Result<()> {
        Caller::write(self, path, offset, data)?;
        Ok(())
    }

    fn open_dir(&mut self, path: &[u8]) -> Result<OpenDir> {
        Ok(OpenDir::Log(self.dir(path)?))
    }

    fn page(&mut self, dir: &OpenDir, after: Option<&[u8]>, count: usize) -> Result<Page> {
        let OpenDir::Log(dir) = dir else { panic!("{FOREIGN_DIR}") };
        Ok(self.list_plus_at(dir, after, count)?)
    }
}

impl Space for Tree {
    fn mkdir(&mut self, path: &[u8], mode: u32) -> Result<()> {
        named(path, Tree::mkdir(self, path, mode))
    }

    fn create(&mut self, path: &[u8], mode: u32, if_exists: IfExists) -> Result<()> {
        let refused_link = (if_exists == IfExists::Open).then_some("EEXIST");
        at_end(self, path, refused_link, |tree, path| {
            tree.create(path, mode, if_exists).map(|_| ())
        })
    }

    fn symlink(&mut self, target: &[u8], path: &[u8]) -> Result<()> {
        named(path, Tree::symlink(self, target, path))
    }

    fn unlink(&mut self, path: &[u8]) -> Result<()> {
        named(path, Tree::unlink(self, path))
    }

    fn rmdir(&mut self, path: &[u8]) -> Result<()> {
        named(path, Tree::rmdir(self, path))
    }

    fn rename(&mut self, from: &[u8], to: &[u8], if_taken: IfTaken) -> Result<()> {
        let renamed = Tree::rename(self, from, to, if_taken == IfTaken::Replace);
        match &renamed {
            Err(error) if error.errno() == "ENOENT" => named(from, renamed),
            _ => named(to, renamed),
        }
    }

    fn set(&mut self, path: &[u8], set: SetFields) -> Result<()> {
        // Mode, owner and times of a link would be set, not refused.
        let end = named(path, self.follow(path))?;
        named(path, self.set_attributes(&end, set).map(|_| ()))
    }

    fn stat(&mut self, path: &[u8]) -> Result<Stat> {
        let found = Space::lstat(self, path)?;
        if found.kind != Kind::Symlink {
            return Ok(found);
        }
        let end = named(path, self.follow(path))?;
        named(path, Tree::stat(self, &end))
    }

    fn lstat(&mut self, path: &[u8]) -> Result<Stat> {
        if has_name(path) {
            return named(path, Tree::stat(self, path));
        }
        let end = named(path, self.follow(path))?;
        named(path, Tree::stat(self, &end))
    }

    fn read_link(&mut self, path: &[u8]) -> Result<Vec<u8>> {
        named(path, Tree::read_link(self, path))
    }

    fn read(&mut self, path: &[u8], offset: u64, count: usize) -> Result<Vec<u8>> {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        at_end(self, path, Some("EINVAL"), |tree, path| tree.read(path, offset, count))
    }

    fn write(&mut self, path: &[u8], offset: u64, data: &[u8]) -> Result<()> {
        at_end(self, path, Some("EINVAL"), |tree, path| tree.write(path, offset, data).map(|_| ()))
    }

    fn open_dir(&mut self, path: &[u8]) -> Result<OpenDir> {
        let end = named(path, self.follow(path))?;
        named(path, self.open(&end))?;
        Ok(OpenDir::Servers(end))
    }

    fn page(&mut self, dir: &OpenDir, after: Option<&[u8]>, count: usize) -> Result<Page> {
        let OpenDir::Servers(path) = dir else { panic!("{FOREIGN_DIR}") };
        let dir = named(path, self.open(path))?;
        named(path, Tree::page(self, dir, after, count, true))
    }
}

/// A call on what a path names. If servers refuse it with `refused_link`, which they do for a link,
/// it is made once more on what the link leads to.
fn at_end<R>(
    tree: &mut Tree,
    path: &[u8],
    refused_link: Option<&str>,
    call: impl Fn(&mut Tree, &[u8]) -> rpc::Result<R>,
) -> Result<R> {
    let done = call(tree, path);
    match &done {
        Err(error) if Some(error.errno()) == refused_link => {}
        _ => return named(path, done),
    }
    let end = named(path, tree.follow(path))?;
    if end == path {
        return named(path, done);
    }
    named(path, call(tree, &end))
}

/// The name that a path ends with, slashes aside.
fn last_name(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let start = path[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    &path[start..end]
}

fn has_name(path: &[u8]) -> bool {
    !path.ends_with(b"/") && check_name(last_name(path)).is_ok()
}

/// The result of a call on servers, whose message has the whole path where servers know the name.
fn named<R>(path: &[u8], result: rpc::Result<R>) -> Result<R> {
    result.map_err(|error| {
        let (number, text) = (error.errno_number(), error.to_string());
        let name = String::from_utf8_lossy(last_name(path));
        let message = match text.strip_prefix(&*name) {
            Some(rest) if rest.starts_with(':') && !name.is_empty() => {
                format!("{}{rest}", String::from_utf8_lossy(path))
            }
            _ => text,
        };
        Failure::new(number, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_servers_gets_the_whole_path_of_a_name() {
        let told = |path: &[u8], text: &str| {
            let error = rpc::Error::Refused { errno: "EEXIST", text: text.to_owned() };
            let failure = named::<()>(path, Err(error)).unwrap_err();
            assert_eq!(failure.errno, libc::EEXIST);
            failure.message
        };
        assert_eq!(told(b"/a/b", "b: it exists already"), "/a/b: it exists already");
        assert_eq!(told(b"/a/b//", "b: it exists already"), "/a/b//: it exists already");
        for text in ["bc: it exists already", "/x/b: it exists already", "b is away"] {
            assert_eq!(told(b"/a/b", text), text);
        }
        assert_eq!(told(b"/", ": it exists already"), ": it exists already");
    }
}

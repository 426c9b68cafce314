//! A name space on several servers, by paths.
//!
//! ```text
//!   every server   all directories
//!   one server     each file, the one that `partition` says for (directory, name)
//! ```
//!
//! So a path is resolved where the file is, and a call on a file is one round trip. A directory is
//! made where its name belongs, which decides races, and then everywhere else under the same
//! number. It is removed in the reverse order: as long as one server has an entry in it, it stays,
//! and is made again where it was gone.
//!
//! What several servers cannot do as one step is refused with `EXDEV`: a rename of a file to a
//! name of another server, and of a directory.

use super::client::{Client, ClientOptions};
use super::codec::{HOW_FAIL, HOW_OPEN, HOW_UNCHECKED, Reply, Request, SetFields, kind_of};
use super::error::{Error, Result};
use crate::caller::{Kind, Stat};
use crate::make::IfExists;
use crate::partition::{Placement, hash_name};
use keyrack_net::Endpoint;
use std::collections::HashMap;

/// Directories that are kept open.
const DIRS_MAX: usize = 4096;
/// Entries of a page that is asked for.
const PAGE_ENTRIES: u32 = 1024;

/// An open directory: a number in the list of a [`Tree`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirNumber(usize);

#[derive(Debug)]
struct Opened {
    path: Vec<u8>,
    inode: u128,
    /// Its number at each server.
    at: Vec<Option<u32>>,
}

/// Servers as one name space.
#[derive(Debug)]
pub struct Tree {
    client: Client,
    placement: Placement,
    dirs: Vec<Opened>,
    by_path: HashMap<Vec<u8>, usize>,
}

fn unexpected(what: &str) -> Error {
    Error::Protocol { peer: "a server".to_owned(), what: what.to_owned() }
}

impl Tree {
    /// Asks one server where all are, and connects to them.
    ///
    /// # Errors
    /// [`Error::Peer`], [`Error::Protocol`], [`Error::Refused`].
    pub fn discover(server: Endpoint, options: ClientOptions) -> Result<Tree> {
        let stream = ClientOptions { transport: super::Transport::Stream, ..options.clone() };
        let mut first = Client::new(vec![server], stream);
        let addresses: Vec<String> = first.call(0, &Request::Map, |reply| match reply {
            Reply::Map(list) => {
                list.iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect()
            }
            _ => Vec::new(),
        })?;
        // For connections first, for datagrams behind it.
        let word = match options.transport {
            super::Transport::Stream => 0,
            super::Transport::Datagrams { .. } => 1,
        };
        let parse =
            |text: &String| text.split(' ').nth(word).unwrap_or_default().parse::<Endpoint>();
        let endpoints: std::result::Result<Vec<_>, _> = addresses.iter().map(parse).collect();
        match endpoints {
            Ok(endpoints) if !endpoints.is_empty() => Ok(Tree::new(endpoints, options)),
            _ if word == 1 => Err(Error::Usage(
                "the servers take no datagrams; start them with --udp=1, or use TCP".to_owned(),
            )),
            _ => Err(unexpected("map")),
        }
    }

    /// A tree of these servers, in their order.
    #[must_use]
    pub fn new(endpoints: Vec<Endpoint>, options: ClientOptions) -> Tree {
        let placement = Placement::new(u32::try_from(endpoints.len()).unwrap_or(u32::MAX));
        let root = Opened { path: b"/".to_vec(), inode: 1, at: vec![Some(0); endpoints.len()] };
        let by_path = HashMap::from([(b"/".to_vec(), 0)]);
        Tree { client: Client::new(endpoints, options), placement, dirs: vec![root], by_path }
    }

    /// The connections, for calls that are kept under way.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Opens a directory.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Peer`], [`Error::Protocol`].
    pub fn open(&mut self, path: &[u8]) -> Result<DirNumber> {
        if let Some(number) = self.by_path.get(path) {
            return Ok(DirNumber(*number));
        }
        let (dir, inode) = self.client.call(0, &Request::OpenDir { path }, dir_reply)??;
        Ok(self.remember(path, inode, dir))
    }

    fn remember(&mut self, path: &[u8], inode: u128, dir: u32) -> DirNumber {
        let mut at = vec![None; self.client.servers()];
        at[0] = Some(dir);
        let opened = Opened { path: path.to_vec(), inode, at };
        // One that was opened long ago gives up its place; its number at servers stays open until
        // the session ends, which is bounded there.
        let number = match self.dirs.len() < DIRS_MAX {
            true => {
                self.dirs.push(opened);
                self.dirs.len() - 1
            }
            false => {
                let number = 1 + usize::try_from(inode % (DIRS_MAX as u128 - 1)).unwrap_or(0);
                self.close(number);
                self.dirs[number] = opened;
                number
            }
        };
        self.by_path.insert(path.to_vec(), number);
        DirNumber(number)
    }

    /// Lets the servers forget a directory. It may be gone already, which is as good.
    fn close(&mut self, number: usize) {
        let opened = &mut self.dirs[number];
        self.by_path.remove(&opened.path);
        let at = std::mem::take(&mut opened.at);
        for (server, dir) in at.into_iter().enumerate() {
            if let Some(dir) = dir {
                let _ = self.client.call(server, &Request::CloseDir { dir }, |_| ());
            }
        }
    }

    /// The number of a directory, the same at all servers.
    pub(super) fn inode(&self, dir: DirNumber) -> u128 {
        self.dirs[dir.0].inode
    }

    /// The server of a name, and the number of the directory there.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn place(&mut self, dir: DirNumber, name: &[u8]) -> Result<(usize, u32)> {
        let hash = hash_name(self.dirs[dir.0].inode, name);
        let server = self.placement.server_of(hash) as usize;
        Ok((server, self.at(dir, server)?))
    }

    fn at(&mut self, dir: DirNumber, server: usize) -> Result<u32> {
        let opened = &self.dirs[dir.0];
        if let Some(number) = opened.at[server] {
            return Ok(number);
        }
        let request = Request::OpenDir { path: &opened.path };
        let (number, inode) = self.client.call(server, &request, dir_reply)??;
        if inode != opened.inode {
            return Err(Error::Refused {
                errno: "ESTALE",
                text: format!("{}: it is being made anew", opened.path.escape_ascii()),
            });
        }
        self.dirs[dir.0].at[server] = Some(number);
        Ok(number)
    }

    /// Directory and name of a path that ends with one.
    fn split<'p>(&mut self, path: &'p [u8]) -> Result<(DirNumber, &'p [u8])> {
        let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let path = &path[..end];
        let Some(slash) = path.iter().rposition(|byte| *byte == b'/') else {
            return Err(Error::Usage("a path begins with a slash and ends with a name".to_owned()));
        };
        let parent = if slash == 0 { &b"/"[..] } else { &path[..slash] };
        Ok((self.open(parent)?, &path[slash + 1..]))
    }

    /// Makes a directory on all servers.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn mkdir(&mut self, path: &[u8], mode: u32) -> Result<()> {
        let (parent, name) = self.split(path)?;
        let (owner, dir) = self.place(parent, name)?;
        let request = Request::Mkdir { dir, name, mode };
        let (opened, inode) = self.client.call(owner, &request, dir_reply)??;
        let facts = self.client.call(owner, &Request::StatDir { dir: opened }, facts_reply)??;
        self.client.call(owner, &Request::CloseDir { dir: opened }, |_| ())?;
        self.repeat(parent, name, &facts, inode, owner)
    }

    /// Makes a directory that `owner` has on all others.
    fn repeat(
        &mut self,
        parent: DirNumber,
        name: &[u8],
        facts: &Stat,
        inode: u128,
        owner: usize,
    ) -> Result<()> {
        for server in (0..self.client.servers()).filter(|server| *server != owner) {
            let dir = self.at(parent, server)?;
            let Stat { mode, uid, gid, .. } = *facts;
            let request = Request::MkdirAs { dir, name, mode, uid, gid, inode };
            let (opened, _) = self.client.call(server, &request, dir_reply)??;
            self.client.call(server, &Request::CloseDir { dir: opened }, |_| ())?;
        }
        Ok(())
    }

    /// Removes an empty directory from all servers.
    ///
    /// # Errors
    /// As for [`Tree::open`]; `ENOTEMPTY` while any server has an entry in it.
    pub fn rmdir(&mut self, path: &[u8]) -> Result<()> {
        let (parent, name) = self.split(path)?;
        let (owner, dir) = self.place(parent, name)?;
        let facts = self.client.call(owner, &Request::Stat { dir, name }, facts_reply)??;
        let others = (0..self.client.servers()).filter(|server| *server != owner);
        let order: Vec<usize> = others.chain([owner]).collect();
        for server in order {
            let dir = self.at(parent, server)?;
            let removed = self.client.call(server, &Request::Rmdir { dir, name }, |_| ());
            if let Err(error) = removed {
                if facts.kind == Kind::Dir {
                    self.repeat(parent, name, &facts, facts.inode.to_u128(), owner)?;
                }
                return Err(error);
            }
        }
        if let Some(number) = self.by_path.get(path).copied() {
            self.close(number);
        }
        Ok(())
    }

    /// Makes an empty file. Whether this call made it.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn create(&mut self, path: &[u8], mode: u32, if_exists: IfExists) -> Result<bool> {
        let (parent, name) = self.split(path)?;
        let (server, dir) = self.place(parent, name)?;
        let how = if if_exists == IfExists::Open { HOW_OPEN } else { HOW_FAIL };
        let request = Request::Create { dir, name, mode, how };
        self.client.call(server, &request, |reply| match reply {
            Reply::Made { is_new, .. } => Ok(is_new),
            _ => Err(unexpected("create")),
        })?
    }

    /// A request that makes a file, for [`Client::submit`].
    #[must_use]
    pub fn create_request(dir: u32, name: &[u8], mode: u32, is_checked: bool) -> Request<'_> {
        let how = if is_checked { HOW_FAIL } else { HOW_UNCHECKED };
        Request::Create { dir, name, mode, how }
    }

    /// A request that makes several files, for [`Client::submit`].
    #[must_use]
    pub fn create_many_request<'n>(
        dir: u32,
        names: Vec<&'n [u8]>,
        mode: u32,
        is_checked: bool,
    ) -> Request<'n> {
        let how = if is_checked { HOW_FAIL } else { HOW_UNCHECKED };
        Request::CreateMany { dir, mode, how, names }
    }

    /// Hard facts; links are not followed. The times of a directory are the latest of all servers.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn stat(&mut self, path: &[u8]) -> Result<Stat> {
        if path.iter().all(|byte| *byte == b'/') {
            return self.stat_dir(&[], DirNumber(0), 0);
        }
        let (parent, name) = self.split(path)?;
        let (server, dir) = self.place(parent, name)?;
        let found = self.client.call(server, &Request::Stat { dir, name }, facts_reply)??;
        match found.kind {
            Kind::Dir => self.stat_dir(name, parent, server),
            _ => Ok(found),
        }
    }

    fn stat_dir(&mut self, name: &[u8], parent: DirNumber, first: usize) -> Result<Stat> {
        let mut all: Option<Stat> = None;
        let others = (0..self.client.servers()).filter(|server| *server != first);
        for server in [first].into_iter().chain(others) {
            let dir = self.at(parent, server)?;
            let found = self.client.call(server, &Request::Stat { dir, name }, facts_reply)??;
            let all = all.get_or_insert(found);
            all.mtime_ns = all.mtime_ns.max(found.mtime_ns);
            all.ctime_ns = all.ctime_ns.max(found.ctime_ns);
        }
        all.ok_or_else(|| unexpected("stat"))
    }

    /// Changes attributes; of a directory on all servers.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn set_attributes(&mut self, path: &[u8], set: SetFields) -> Result<Stat> {
        let (parent, name) = match path.iter().all(|byte| *byte == b'/') {
            true => (DirNumber(0), &[][..]),
            false => self.split(path)?,
        };
        let (server, dir) = self.place(parent, name)?;
        let request = Request::SetAttributes { dir, name, set };
        let stat = self.client.call(server, &request, facts_reply)??;
        if stat.kind == Kind::Dir {
            for other in (0..self.client.servers()).filter(|other| *other != server) {
                let dir = self.at(parent, other)?;
                let request = Request::SetAttributes { dir, name, set };
                self.client.call(other, &request, |_| ())?;
            }
        }
        Ok(stat)
    }

    /// Removes a file or a link.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn unlink(&mut self, path: &[u8]) -> Result<()> {
        let (parent, name) = self.split(path)?;
        let (server, dir) = self.place(parent, name)?;
        self.client.call(server, &Request::Unlink { dir, name }, |_| ())
    }

    /// Renames a file, or anything where there is one server.
    ///
    /// # Errors
    /// As for [`Tree::open`]; `EXDEV` for what several servers cannot do as one step.
    pub fn rename(&mut self, from: &[u8], to: &[u8], replace: bool) -> Result<()> {
        let (old, name) = self.split(from)?;
        let (new, to_name) = self.split(to)?;
        let (server, dir) = self.place(old, name)?;
        let (to_server, to_dir) = self.place(new, to_name)?;
        let across = |what: &str| Error::Refused {
            errno: "EXDEV",
            text: format!("{}: {what}", from.escape_ascii()),
        };
        if self.client.servers() > 1 {
            let found = self.client.call(server, &Request::Stat { dir, name }, facts_reply)??;
            if found.kind == Kind::Dir {
                return Err(across(
                    "a directory on several servers cannot be renamed: make another",
                ));
            }
        }
        if server != to_server {
            return Err(across(
                "the new name is on another server: copy it and remove the old one",
            ));
        }
        let request = Request::Rename { dir, name, to_dir, to_name, replace };
        self.client.call(server, &request, |_| ())?;
        // A directory that was open by its old path would be found there still.
        if let Some(number) = self.by_path.get(from).copied() {
            self.close(number);
        }
        Ok(())
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn symlink(&mut self, target: &[u8], path: &[u8]) -> Result<()> {
        let (parent, name) = self.split(path)?;
        let (server, dir) = self.place(parent, name)?;
        self.client.call(server, &Request::Symlink { dir, name, target }, |_| ())
    }

    /// The target of a link.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn read_link(&mut self, path: &[u8]) -> Result<Vec<u8>> {
        let (parent, name) = self.split(path)?;
        let (server, dir) = self.place(parent, name)?;
        self.client.call(server, &Request::ReadLink { dir, name }, data_reply)?
    }

    /// The bytes of a small file.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn read(&mut self, path: &[u8], offset: u64, count: u32) -> Result<Vec<u8>> {
        let (parent, name) = self.split(path)?;
        let (server, dir) = self.place(parent, name)?;
        self.client.call(server, &Request::Read { dir, name, offset, count }, data_reply)?
    }

    /// Changes bytes of a small file.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn write(&mut self, path: &[u8], offset: u64, data: &[u8]) -> Result<Stat> {
        let (parent, name) = self.split(path)?;
        let (server, dir) = self.place(parent, name)?;
        self.client.call(server, &Request::Write { dir, name, offset, data }, facts_reply)?
    }

    /// All entries of a directory in the order of their names, from all servers.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn list(&mut self, path: &[u8]) -> Result<Vec<(Vec<u8>, Kind)>> {
        let dir = self.open(path)?;
        let mut all: Vec<(Vec<u8>, Kind)> = Vec::new();
        for server in 0..self.client.servers() {
            let number = self.at(dir, server)?;
            let mut after = Some(Vec::new());
            while let Some(name) = after {
                let request = Request::ReadDir {
                    dir: number,
                    after: &name,
                    count: PAGE_ENTRIES,
                    plus: false,
                };
                after = self.client.call(server, &request, |reply| {
                    let Reply::Page { entries, next } = reply else {
                        return Err(unexpected("readdir"));
                    };
                    for (name, kind, _) in entries {
                        let kind = kind_of(kind).ok_or_else(|| unexpected("readdir"))?;
                        all.push((name.to_vec(), kind));
                    }
                    Ok(next.map(<[u8]>::to_vec))
                })??;
            }
        }
        // Directories are everywhere.
        all.sort_unstable();
        all.dedup_by(|a, b| a.0 == b.0);
        Ok(all)
    }

    /// Makes everything on all servers durable.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn sync(&mut self) -> Result<()> {
        (0..self.client.servers())
            .try_for_each(|server| self.client.call(server, &Request::Flush, |_| ()))
    }
}

fn dir_reply(reply: Reply<'_>) -> Result<(u32, u128)> {
    match reply {
        Reply::Dir { dir, inode } => Ok((dir, inode)),
        _ => Err(unexpected("opendir")),
    }
}

fn facts_reply(reply: Reply<'_>) -> Result<Stat> {
    match reply {
        Reply::Facts(facts) => Ok(facts.0),
        _ => Err(unexpected("stat")),
    }
}

fn data_reply(reply: Reply<'_>) -> Result<Vec<u8>> {
    match reply {
        Reply::Data(data) => Ok(data.to_vec()),
        _ => Err(unexpected("read")),
    }
}

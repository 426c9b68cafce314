//! Calls on what a path names: a file at the one server that has it.

use super::directory::DirNumber;
use super::replies::{data_reply, done_reply, facts_reply, unexpected};
use super::tree::Tree;
use super::wire::Transport;
use crate::caller::{Kind, Stat};
use crate::make::IfExists;
use crate::rpc::codec::{How, Reply, Request, SetFields};
use crate::rpc::error::{Error, Result};

/// Bytes of a file that one call carries over a connection.
const CHUNK: usize = 512 << 10;
/// What stands around them in a datagram, at most: heads, a name, numbers.
const NAMED_BYTES: usize = 320;

impl Tree {
    /// Makes an empty file. Returns whether this call made it. With
    /// [`ClientOptions::write_behind`](super::connection::ClientOptions::write_behind) the file may
    /// be made later; the next other call reports a failure.
    ///
    /// # Errors
    /// As for [`Tree::open`]; [`Error::WriteBehind`].
    pub fn create(&mut self, path: &[u8], mode: u32, if_exists: IfExists) -> Result<bool> {
        if let Some(batch) = self.batch.filter(|_| if_exists == IfExists::Fail) {
            return self.write_behind(path, mode, batch);
        }
        let how = if if_exists == IfExists::Open { How::Open } else { How::Fail };
        let make = &|dir, name| Request::Create { dir, name, mode, how };
        self.on_path(path, make, |reply| match reply {
            Reply::Made { is_new, .. } => Ok(is_new),
            _ => Err(unexpected("create")),
        })
    }

    /// A request that makes a file, for
    /// [`Client::submit`](super::connection::Client::submit).
    #[must_use]
    pub fn create_request(dir: u32, name: &[u8], mode: u32, is_checked: bool) -> Request<'_> {
        let how = if is_checked { How::Fail } else { How::Unchecked };
        Request::Create { dir, name, mode, how }
    }

    /// A request that makes several files, for
    /// [`Client::submit`](super::connection::Client::submit).
    #[must_use]
    pub fn create_many_request<'n>(
        dir: u32,
        names: Vec<&'n [u8]>,
        mode: u32,
        is_checked: bool,
    ) -> Request<'n> {
        let how = if is_checked { How::Fail } else { How::Unchecked };
        Request::CreateMany { dir, mode, how, names }
    }

    /// Hard facts; links are not followed. The times of a directory are the latest of all servers.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn stat(&mut self, path: &[u8]) -> Result<Stat> {
        if path.iter().all(|byte| *byte == b'/') {
            self.flush_creates()?;
            return self.stat_dir(DirNumber(0));
        }
        let make = &|dir, name| Request::Stat { dir, name };
        let found = self.on_path(path, make, facts_reply)?;
        if found.kind != Kind::Dir || self.client.servers() == 1 {
            return Ok(found);
        }
        let dir = self.open(path)?;
        match self.stat_dir(dir) {
            Err(Error::Refused { errno: "ESTALE", .. }) => {
                self.forget(dir);
                let dir = self.open(path)?;
                self.stat_dir(dir)
            }
            done => done,
        }
    }

    /// Changes attributes; of a directory on all servers.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn set_attributes(&mut self, path: &[u8], set: SetFields) -> Result<Stat> {
        if path.iter().all(|byte| *byte == b'/') {
            self.flush_creates()?;
            return self.set_dir(DirNumber(0), set, None);
        }
        let make = &|dir, name| Request::SetAttributes { dir, name, set };
        let stat = self.on_path(path, make, facts_reply)?;
        if stat.kind == Kind::Dir && self.client.servers() > 1 {
            let (parent, name) = self.split(path)?;
            let owner = self.server_of(parent, name);
            let dir = self.open(path)?;
            self.set_dir(dir, set, Some(owner))?;
        }
        Ok(stat)
    }

    /// Removes a file or a link.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn unlink(&mut self, path: &[u8]) -> Result<()> {
        self.on_path(path, &|dir, name| Request::Unlink { dir, name }, done_reply)
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn symlink(&mut self, target: &[u8], path: &[u8]) -> Result<()> {
        let make = &|dir, name| Request::Symlink { dir, name, target };
        self.on_path(path, make, facts_reply).map(|_| ())
    }

    /// The target of a link.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn read_link(&mut self, path: &[u8]) -> Result<Vec<u8>> {
        self.on_path(path, &|dir, name| Request::ReadLink { dir, name }, data_reply)
    }

    /// Up to `count` bytes of a file from `offset` on; less only at its end. What others write
    /// meanwhile may come in part.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn read(&mut self, path: &[u8], offset: u64, count: u32) -> Result<Vec<u8>> {
        let (count, chunk) = (count as usize, self.chunk());
        let mut all = Vec::new();
        loop {
            let wanted = (count - all.len()).min(chunk) as u32;
            let offset = offset.saturating_add(all.len() as u64);
            let make = &|dir, name| Request::Read { dir, name, offset, count: wanted };
            let part = self.on_path(path, make, data_reply)?;
            all.extend_from_slice(&part);
            if part.len() < wanted as usize || all.len() >= count {
                return Ok(all);
            }
        }
    }

    /// Writes bytes into a file from `offset` on, of whatever size it is then. Many bytes take
    /// several calls, each of which is whole or not there.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn write(&mut self, path: &[u8], offset: u64, data: &[u8]) -> Result<Stat> {
        let chunk = self.chunk();
        let mut done = 0;
        loop {
            let part = &data[done..(done + chunk).min(data.len())];
            let offset = offset.saturating_add(done as u64);
            let make = &|dir, name| Request::Write { dir, name, offset, data: part };
            let stat = self.on_path(path, make, facts_reply)?;
            done += part.len();
            if done >= data.len() {
                return Ok(stat);
            }
        }
    }

    /// Bytes of a file that fit a call, with a name and all that goes around them.
    fn chunk(&self) -> usize {
        match self.client.transport() {
            Transport::Stream => CHUNK,
            Transport::Datagrams { bytes_max } => bytes_max.saturating_sub(NAMED_BYTES).max(1),
        }
    }
}

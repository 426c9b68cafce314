//! Directories on several servers: all have them.
//!
//! They are made and removed as directories are renamed: the first server asks all whether they
//! can, decides, and sees to it that all do. A client that goes away leaves nothing half done.

use super::backoff::Backoff;
use super::directory::DirNumber;
use super::replies::{dir_reply, done_reply, facts_reply, unexpected};
use super::tree::Tree;
use crate::caller::{Kind, Stat};
use crate::rpc::codec::{Request, SetFields};
use crate::rpc::error::{Error, Result};

impl Tree {
    /// Makes a directory on all servers, or on none, whoever fails meanwhile.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn mkdir(&mut self, path: &[u8], mode: u32) -> Result<()> {
        if self.client.servers() == 1 {
            let make = &|dir, name| Request::Mkdir { dir, name, mode };
            let (opened, ..) = self.on_path(path, make, dir_reply)?;
            return self.client.call(0, &Request::CloseDir { dir: opened }, |_| ());
        }
        self.together(path, &|dir, name| Request::MkdirAcross { dir, name, mode })
    }

    /// Removes an empty directory from all servers, or from none.
    ///
    /// # Errors
    /// As for [`Tree::open`]; `ENOTEMPTY` while any server has an entry in it.
    pub fn rmdir(&mut self, path: &[u8]) -> Result<()> {
        match self.client.servers() {
            1 => self.on_path(path, &|dir, name| Request::Rmdir { dir, name }, done_reply)?,
            _ => self.rmdir_together(path)?,
        }
        if let Some(number) = self.by_path.get(path).copied() {
            self.close_dir(number);
        }
        Ok(())
    }

    fn rmdir_together(&mut self, path: &[u8]) -> Result<()> {
        let done = self.together(path, &|dir, name| Request::RmdirAcross { dir, name });
        if !matches!(done, Err(Error::Refused { errno: "ENOENT", .. })) {
            return done;
        }
        // The first server has not the files of the others.
        let stat = &|dir, name| Request::Stat { dir, name };
        match self.on_path(path, stat, facts_reply) {
            Ok(found) if found.kind != Kind::Dir => {
                let text = format!("{}: not a directory", path.escape_ascii());
                Err(Error::Refused { errno: "ENOTDIR", text })
            }
            // Nobody knows what is there.
            Err(error @ (Error::Peer { .. } | Error::Protocol { .. })) => Err(error),
            _ => done,
        }
    }

    /// Asks the first server for what all do together. A path that was resolved long ago is
    /// resolved once more.
    fn together<'r>(
        &mut self,
        path: &'r [u8],
        make: &dyn Fn(u32, &'r [u8]) -> Request<'r>,
    ) -> Result<()> {
        self.flush_creates()?;
        let mut is_again = false;
        loop {
            let (parent, name) = self.split(path)?;
            match self.together_once(parent, name, make) {
                Err(Error::Refused { errno: "ESTALE", .. }) if !is_again => {
                    is_again = true;
                    self.forget(parent);
                }
                done => return done,
            }
        }
    }

    fn together_once<'r>(
        &mut self,
        parent: DirNumber,
        name: &'r [u8],
        make: &dyn Fn(u32, &'r [u8]) -> Request<'r>,
    ) -> Result<()> {
        let mut backoff = Backoff::default();
        loop {
            let dir = self.number_at(parent, 0)?;
            match self.run_operation(0, &make(dir, name)) {
                Ok(done) => return done,
                Err(error) => self.handle_redirect((parent, 0), error, &mut backoff)?,
            }
        }
    }

    /// Facts of a directory: its times are the latest of all servers.
    pub(crate) fn stat_dir(&mut self, dir: DirNumber) -> Result<Stat> {
        let mut all: Option<Stat> = None;
        for server in 0..self.client.servers() {
            let make = &|dir| Request::StatDir { dir };
            let found = self.on_server(dir, server, make, facts_reply)?;
            let all = all.get_or_insert(found);
            all.mtime_ns = all.mtime_ns.max(found.mtime_ns);
            all.ctime_ns = all.ctime_ns.max(found.ctime_ns);
        }
        all.ok_or_else(|| unexpected("stat"))
    }

    /// Changes it on all servers but the one that has done so.
    pub(crate) fn set_dir(
        &mut self,
        dir: DirNumber,
        set: SetFields,
        done: Option<usize>,
    ) -> Result<Stat> {
        let mut first = None;
        for server in (0..self.client.servers()).filter(|server| Some(*server) != done) {
            let make = &|dir| Request::SetAttributes { dir, name: b"", set };
            let stat = self.on_server(dir, server, make, facts_reply)?;
            first.get_or_insert(stat);
        }
        first.ok_or_else(|| unexpected("setattr"))
    }
}

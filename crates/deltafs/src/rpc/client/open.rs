//! Opening directories by paths: under leases, and through links that other servers have.

use super::backoff::Backoff;
use super::directory::{DirNumber, Opened};
use super::replies::{OpenReply, data_reply, facts_reply, open_reply};
use super::tree::Tree;
use crate::caller::Kind;
use crate::rpc::codec::{Reply, Request};
use crate::rpc::error::{Error, Result};
use std::collections::VecDeque;

/// Directories that are kept open.
const DIRS_MAX: usize = 4096;
/// Links that a path may lead through.
const LINKS_MAX: u32 = 40;

impl Tree {
    /// Opens a directory.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Peer`], [`Error::Protocol`].
    pub fn open(&mut self, path: &[u8]) -> Result<DirNumber> {
        match self.open_at_first(path) {
            // The first server has not the links of the others.
            Err(Error::Refused { errno: "ENOENT", .. }) if self.client.servers() > 1 => {
                let canonical = self.resolve(path)?;
                let dir = self.open_at_first(&canonical)?;
                Ok(dir)
            }
            opened => opened,
        }
    }

    /// Opens a directory at one server, which may wait for another to say what is there.
    pub(crate) fn open_at<R>(
        &mut self,
        server: usize,
        path: &[u8],
        take: impl Fn(Reply<'_>) -> R,
    ) -> Result<R> {
        let mut backoff = Backoff::default();
        loop {
            match self.client.call(server, &Request::OpenDir { path }, &take) {
                Err(error @ Error::Refused { errno: "EAGAIN", .. }) => {
                    self.drop_revoked_leases()?;
                    if !backoff.pause(&self.client) {
                        return Err(error);
                    }
                }
                opened => return opened,
            }
        }
    }

    fn open_at_first(&mut self, path: &[u8]) -> Result<DirNumber> {
        self.drop_revoked_leases()?;
        let began_ns = self.ticker.now_ns();
        let known = self.by_path.get(path).copied();
        if let Some(known) = known.filter(|known| self.dirs[*known].until_ns > began_ns) {
            return Ok(DirNumber(known));
        }
        let given = self.open_at(0, path, open_reply)??;
        // The server counts from later on, so it never takes a lease for older than it is here.
        let until_ns = began_ns.saturating_add(u64::from(given.lease_ms) * 1_000_000);
        match known {
            Some(known) if self.dirs[known].inode == given.inode => {
                let opened = &mut self.dirs[known];
                opened.until_ns = until_ns;
                opened.map.merge(&given.map);
                // The number that is in use stays; if it is of before a restart, it is found out.
                let unused = match opened.at[0] {
                    Some(_) => Some(given.dir),
                    None => opened.at[0].replace(given.dir),
                };
                if let Some(dir) = unused {
                    self.client.call(0, &Request::CloseDir { dir }, |_| ())?;
                }
                Ok(DirNumber(known))
            }
            Some(known) => {
                self.forget(DirNumber(known));
                Ok(self.remember(path, given, until_ns))
            }
            None => Ok(self.remember(path, given, until_ns)),
        }
    }

    /// Forgets the directories whose leases are revoked, and returns the leases.
    pub(crate) fn drop_revoked_leases(&mut self) -> Result<()> {
        if !self.client.poll_revoked(0) {
            return Ok(());
        }
        // They are few, and what was known is soon asked for again.
        self.dirs.iter_mut().skip(1).for_each(|opened| opened.until_ns = 0);
        self.client.call(0, &Request::Revoked, |_| ())
    }

    /// Follows a path name by name, each at the server that has it. The path without links.
    pub(crate) fn resolve(&mut self, path: &[u8]) -> Result<Vec<u8>> {
        let names = |path: &[u8]| -> Vec<Vec<u8>> {
            let all = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
            all.map(<[u8]>::to_vec).collect()
        };
        let refused = |errno, words: &str| {
            let text = format!("{}: {words}", path.escape_ascii());
            Err(Error::Refused { errno, text })
        };
        let mut done: Vec<Vec<u8>> = Vec::new();
        let mut rest: VecDeque<Vec<u8>> = names(path).into();
        let mut links = 0;
        while let Some(name) = rest.pop_front() {
            match &name[..] {
                b"." => continue,
                b".." => {
                    done.pop();
                    continue;
                }
                _ => {}
            }
            let parent = self.open_at_first(&joined(&done))?;
            let lookup = &|dir| Request::Lookup { dir, name: &name };
            match self.on_name(parent, &name, lookup, facts_reply)?.kind {
                Kind::Dir => done.push(name),
                Kind::File => return refused("ENOTDIR", "not a directory"),
                Kind::Symlink => {
                    links += 1;
                    if links > LINKS_MAX {
                        return refused("ELOOP", "too many symbolic links");
                    }
                    let read = &|dir| Request::ReadLink { dir, name: &name };
                    let target = self.on_name(parent, &name, read, data_reply)?;
                    if target.first() == Some(&b'/') {
                        done.clear();
                    }
                    names(&target).into_iter().rev().for_each(|name| rest.push_front(name));
                }
            }
        }
        Ok(joined(&done))
    }

    fn remember(&mut self, path: &[u8], given: OpenReply, until_ns: u64) -> DirNumber {
        let OpenReply { dir, inode, map, .. } = given;
        let mut at = vec![None; self.client.servers()];
        at[0] = Some(dir);
        let opened = Opened { path: path.to_vec(), inode, at, map, until_ns };
        // One that was opened long ago gives up its place; its number at servers stays open until
        // the session ends, which is bounded there.
        let number = if self.dirs.len() < DIRS_MAX {
            self.dirs.push(opened);
            self.dirs.len() - 1
        } else {
            let number = 1 + usize::try_from(inode % (DIRS_MAX as u128 - 1)).unwrap_or(0);
            self.close_dir(number);
            self.dirs[number] = opened;
            number
        };
        self.by_path.insert(path.to_vec(), number);
        DirNumber(number)
    }

    /// Resolves a path anew the next time.
    pub(crate) fn forget(&mut self, dir: DirNumber) {
        if dir.0 > 0 {
            self.by_path.retain(|_, number| *number != dir.0);
        }
    }

    /// Lets the servers forget a directory. It may be gone already, which is as good.
    pub(crate) fn close_dir(&mut self, number: usize) {
        let opened = &mut self.dirs[number];
        self.by_path.remove(&opened.path);
        let at = std::mem::take(&mut opened.at);
        for (server, dir) in at.into_iter().enumerate() {
            if let Some(dir) = dir {
                // A server forgets its directories with the session in any case.
                let _ = self.client.call(server, &Request::CloseDir { dir }, |_| ());
            }
        }
    }
}

fn joined(names: &[Vec<u8>]) -> Vec<u8> {
    if names.is_empty() {
        b"/".to_vec()
    } else {
        names.iter().flat_map(|name| [b"/", &name[..]].concat()).collect()
    }
}

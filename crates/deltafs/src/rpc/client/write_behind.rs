//! Creates that are sent behind: a client's `create` returns at once, and many go with one call.
//!
//! ```text
//!   create, create, create ...      names by directory, at the client
//!   the batch is full, or any       one call for each server; what failed is kept, by path
//!   other call comes
//!   that call, `sync`, `close`      is refused with what failed, once
//! ```
//!
//! The order of a client's calls stays as it is: whatever is not a create waits until all creates
//! before it are carried out. So it sees them, and others see them at the latest then.
//!
//! What differs from a create that is waited for: whether the name was there is told later, by the
//! path, with the call that comes next. That call is not carried out then.

use super::backoff::Backoff;
use super::directory::CreateBatch;
use super::replies::unexpected;
use super::tree::Tree;
use crate::rpc::codec::{How, Reply, Request};
use crate::rpc::errno::name_of;
use crate::rpc::error::{Error, Result};

fn codes_reply(reply: Reply<'_>) -> Result<Vec<u8>> {
    match reply {
        Reply::Codes(codes) => Ok(codes.to_vec()),
        _ => Err(unexpected("createmany")),
    }
}

impl Tree {
    /// Keeps a create for later; a batch that is full goes.
    pub(crate) fn write_behind(&mut self, path: &[u8], mode: u32, batch: usize) -> Result<bool> {
        let (dir, name) = self.split(path)?;
        crate::name::check_name(name).map_err(|error| Error::Usage(error.to_string()))?;
        let at =
            self.write_behind.iter().position(|behind| behind.dir == dir && behind.mode == mode);
        let at = match at {
            Some(at) => at,
            None => {
                let path = path[..path.len() - name.len()].to_vec();
                self.write_behind.push(CreateBatch { dir, mode, path, names: Vec::new() });
                self.write_behind.len() - 1
            }
        };
        let behind = &mut self.write_behind[at];
        behind.names.push(name.to_vec());
        if behind.names.len() >= batch {
            let full = self.write_behind.swap_remove(at);
            self.send_batch(full);
        }
        Ok(true)
    }

    /// Sends all creates that are kept, and waits for their answers. It makes nothing durable.
    ///
    /// # Errors
    /// [`Error::WriteBehind`] with those that failed since this was asked last.
    pub fn flush_creates(&mut self) -> Result<()> {
        if self.write_behind.is_empty() && self.failed.is_empty() {
            return Ok(());
        }
        for behind in std::mem::take(&mut self.write_behind) {
            self.send_batch(behind);
        }
        if self.failed.is_empty() {
            Ok(())
        } else {
            Err(Error::WriteBehind { failed: std::mem::take(&mut self.failed) })
        }
    }

    /// Makes files, wherever they belong by now, and keeps what fails.
    fn send_batch(&mut self, behind: CreateBatch) {
        let CreateBatch { dir, mode, path, names } = behind;
        let (mut rest, mut backoff) = (names, Backoff::default());
        while !rest.is_empty() {
            let mut groups: Vec<Vec<Vec<u8>>> = vec![Vec::new(); self.client.servers()];
            for name in rest.drain(..) {
                groups[self.server_of(dir, &name)].push(name);
            }
            for (server, names) in groups.into_iter().enumerate() {
                if names.is_empty() {
                    continue;
                }
                let make = |dir| {
                    let names = names.iter().map(|name| &name[..]).collect();
                    Request::CreateMany { dir, mode, how: How::Fail, names }
                };
                let codes = match self.on_server(dir, server, &make, codes_reply) {
                    Ok(codes) => codes.into_iter().map(name_of).collect(),
                    Err(error) => vec![error.errno(); names.len()],
                };
                for (errno, name) in codes.into_iter().zip(names) {
                    match errno {
                        "OK" => {}
                        "EAGAIN" | "EREMOTE" => rest.push(name),
                        errno => self.failed.push(([&path[..], &name].concat(), errno)),
                    }
                }
            }
            let goes_on =
                rest.is_empty() || (backoff.pause(&self.client) && self.learn_all(dir).is_ok());
            if !goes_on {
                let all = rest.drain(..);
                self.failed.extend(all.map(|name| ([&path[..], &name].concat(), "EAGAIN")));
            }
        }
    }

    /// Ends the use: what is kept is sent.
    ///
    /// # Errors
    /// [`Error::WriteBehind`] with the creates that failed.
    pub fn close(mut self) -> Result<()> {
        self.flush_creates()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // There is nobody to tell. `Tree::close` tells.
        let _ = self.flush_creates();
    }
}

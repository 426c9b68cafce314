//! Renames as a client asks for them: of one server, or of one that works with the others.

use super::backoff::Backoff;
use super::replies::{done_reply, facts_reply, unexpected};
use super::tree::Tree;
use crate::caller::Kind;
use crate::rpc::codec::{Reply, Request};
use crate::rpc::error::{Error, Result};

impl Tree {
    /// Renames anything. What several servers take part in they settle between them: it is done
    /// whole or not at all, whichever of them fails meanwhile.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn rename(&mut self, from: &[u8], to: &[u8], replace: bool) -> Result<()> {
        self.flush_creates()?;
        match self.rename_once(from, to, replace) {
            Err(Error::Refused { errno: "ESTALE", .. }) => {}
            done => return done,
        }
        for path in [from, to] {
            let (parent, _) = self.split(path)?;
            self.forget(parent);
        }
        self.rename_once(from, to, replace)
    }

    fn rename_once(&mut self, from: &[u8], to: &[u8], replace: bool) -> Result<()> {
        let (old, name) = self.split(from)?;
        let (new, to_name) = self.split(to)?;
        let stat = &|dir| Request::Stat { dir, name };
        let mut is_dir = self.client.servers() > 1
            && self.on_name(old, name, stat, facts_reply)?.kind == Kind::Dir;
        let mut backoff = Backoff::default();
        loop {
            let (source, target) = (self.server_of(old, name), self.server_of(new, to_name));
            let server = if is_dir { 0 } else { source };
            let (dir, to_dir) = (self.number_at(old, server)?, self.number_at(new, server)?);
            let done = if is_dir || source != target {
                let target = target as u32;
                let request = Request::RenameAcross { dir, name, to_dir, to_name, replace, target };
                self.run_operation(server, &request)
            } else {
                let request = Request::Rename { dir, name, to_dir, to_name, replace };
                self.client.call(server, &request, done_reply)
            };
            match done {
                Ok(done) => break done?,
                Err(error) => {
                    self.handle_redirect((old, server), error, &mut backoff)?;
                    // It may be something else by now, and be another server's to rename.
                    is_dir = self.client.servers() > 1
                        && self.on_name(old, name, stat, facts_reply)?.kind == Kind::Dir;
                }
            }
        }
        self.forget_below(from);
        self.forget_below(to);
        Ok(())
    }

    /// Starts what takes several servers, and waits for its end.
    pub(crate) fn run_operation(
        &mut self,
        server: usize,
        request: &Request<'_>,
    ) -> Result<Result<()>> {
        let number = self.client.call(server, request, |reply| match reply {
            Reply::Count(number) => Ok(number),
            _ => Err(unexpected("renameacross")),
        })??;
        let mut backoff = Backoff::default();
        loop {
            match self.client.call(server, &Request::Operation { number }, done_reply) {
                Err(Error::Refused { errno: "EAGAIN", .. }) if backoff.pause(&self.client) => {
                    self.drop_revoked_leases()?;
                }
                Err(Error::Refused { errno: "EAGAIN", text }) => {
                    // A second one would meet the first.
                    return Err(Error::Refused { errno: "EBUSY", text });
                }
                done => return done,
            }
        }
    }

    /// What was open by the path of a directory that moved, and by those below it, would be found
    /// there still.
    fn forget_below(&mut self, path: &[u8]) {
        let is_below = |known: &[u8]| {
            let rest = known.strip_prefix(path);
            rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        self.by_path.retain(|known, number| *number == 0 || !is_below(known));
    }
}

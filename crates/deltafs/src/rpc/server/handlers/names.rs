//! Requests that remove and rename entries on one server.

use super::context::{Context, admitted, check_is_alone};
use crate::caller::Kind;
use crate::id::DirId;
use crate::rename::IfTaken;
use crate::rpc::server::error::{RpcError, RpcResult};
use crate::rpc::server::parts::Access;
use crate::rpc::server::session::Opened;

/// How a rename treats a new name that is taken.
pub(crate) fn if_taken(replace: bool) -> IfTaken {
    if replace { IfTaken::Replace } else { IfTaken::Fail }
}

impl Context<'_> {
    pub(crate) fn unlink(&self, dir: u32, name: &[u8]) -> RpcResult {
        let at = self.at(dir)?;
        let _admitted = admitted(at, name, Access::Write)?;
        Ok(self.caller.unlink_at(&at.dir, name)?)
    }

    pub(crate) fn rmdir(&self, at: &Opened, name: &[u8]) -> RpcResult {
        check_is_alone(self.core)?;
        let child = self.dir_id(at, name)?;
        self.without_leases(child.as_slice(), || self.caller.rmdir_at(&at.dir, name))
    }

    pub(crate) fn rename(
        &self,
        (dir, name): (u32, &[u8]),
        (to_dir, to_name): (u32, &[u8]),
        replace: bool,
    ) -> RpcResult {
        let (from, to) = (self.at(dir)?, self.at(to_dir)?);
        // In one order, so that two renames do not wait for each other while a split waits.
        let is_one = from.part.dir == to.part.dir;
        let mut both = [(from, name), (to, to_name)];
        if from.part.dir > to.part.dir {
            both.reverse();
        }
        let first = admitted(both[0].0, both[0].1, Access::Write)?;
        let _second = if is_one {
            // The lock is held already.
            match first.admit(to.part.dir, both[1].1, Access::Write) {
                None => None,
                Some(redirect) => return Err(RpcError::redirect(to.part.dir, redirect)),
            }
        } else {
            Some(admitted(both[1].0, both[1].1, Access::Write)?)
        };
        if !self.core.parts.has_all {
            let found = self.caller.stat_at(&from.dir, name)?;
            if found.kind == Kind::Dir {
                let message = "a directory on several servers is renamed by all of them";
                return Err(RpcError::new("EXDEV", message));
            }
        }
        let moved = self.dir_id(from, name)?;
        let replaced = self.dir_id(to, to_name)?.filter(|_| moved.is_some());
        let mut dirs: Vec<DirId> = moved.into_iter().chain(replaced).collect();
        // A rename onto itself has one directory.
        dirs.dedup();
        self.without_leases(&dirs, || {
            self.caller.rename_at(&from.dir, name, &to.dir, to_name, if_taken(replace))
        })?;
        self.made(to, 1);
        Ok(())
    }
}

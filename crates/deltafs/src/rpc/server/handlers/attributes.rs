//! Requests that read and set attributes.

use super::context::{Context, admitted};
use crate::attributes::{SetAttributes, SetTime};
use crate::rpc::codec::{Reply, SetFields};
use crate::rpc::server::error::RpcResult;
use crate::rpc::server::parts::Access;

impl Context<'_> {
    /// The attributes of a name, or of the directory itself if the name is empty.
    pub(crate) fn stat(&mut self, dir: u32, name: &[u8]) -> RpcResult {
        let at = self.at(dir)?;
        let stat = if name.is_empty() {
            self.caller.stat_dir(&at.dir)?
        } else {
            let _admitted = admitted(at, name, Access::Read)?;
            self.caller.stat_at(&at.dir, name)?
        };
        self.reply(&Reply::Facts(stat))
    }

    pub(crate) fn set_attributes(
        &mut self,
        (dir, name): (u32, &[u8]),
        set: &SetFields,
    ) -> RpcResult {
        let (at, set) = (self.at(dir)?, attributes(set));
        let changes_rights = set.mode.is_some() || set.uid.is_some() || set.gid.is_some();
        let (admitted, dir) = if name.is_empty() {
            (None, Some(at.part.dir))
        } else {
            let admitted = admitted(at, name, Access::Write)?;
            (Some(admitted), self.dir_id(at, name)?)
        };
        let dir = dir.filter(|_| changes_rights);
        let stat = self.without_leases(dir.as_slice(), || {
            if name.is_empty() {
                self.caller.set_dir_attributes(&at.dir, &set)
            } else {
                self.caller.set_attributes_at(&at.dir, name, &set)
            }
        })?;
        drop(admitted);
        self.reply(&Reply::Facts(stat))
    }
}

fn attributes(set: &SetFields) -> SetAttributes {
    SetAttributes {
        mode: set.mode,
        uid: set.uid,
        gid: set.gid,
        size: set.size,
        mtime: set.mtime_ns.map(SetTime::Ns),
    }
}

//! Requests that read and write the bytes of files, and the targets of links.

use super::context::{Context, admitted};
use crate::rpc::codec::Reply;
use crate::rpc::server::error::RpcResult;
use crate::rpc::server::parts::Access;

/// Bytes of a file in an answer, at most.
const READ_BYTES_MAX: usize = 512 << 10;

impl Context<'_> {
    pub(crate) fn read_link(&mut self, dir: u32, name: &[u8]) -> RpcResult {
        let at = self.at(dir)?;
        let _admitted = admitted(at, name, Access::Read)?;
        self.reply(&Reply::Data(&self.caller.read_link_at(&at.dir, name)?))
    }

    pub(crate) fn read(&mut self, (dir, name): (u32, &[u8]), offset: u64, count: u32) -> RpcResult {
        let at = self.at(dir)?;
        let _admitted = admitted(at, name, Access::Read)?;
        let count = (count as usize).min(READ_BYTES_MAX);
        self.reply(&Reply::Data(&self.caller.read_at(&at.dir, name, offset, count)?))
    }

    pub(crate) fn write(
        &mut self,
        (dir, name): (u32, &[u8]),
        offset: u64,
        data: &[u8],
    ) -> RpcResult {
        let at = self.at(dir)?;
        let _admitted = admitted(at, name, Access::Write)?;
        let stat = self.caller.write_at(&at.dir, name, offset, data)?;
        self.reply(&Reply::Facts(stat))
    }
}

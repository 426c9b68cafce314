//! Requests that read and write the bytes of files, and the targets of links.

use super::context::{Context, admitted};
use crate::rpc::codec::{Facts, Reply};
use crate::rpc::server::error::RpcResult;
use crate::rpc::server::parts::Access;

/// Bytes of a file in an answer, at most.
const READ_BYTES_MAX: usize = 512 << 10;

impl Context<'_> {
    pub(crate) fn read_link(&self, dir: u32, name: &[u8], out: &mut Vec<u8>) -> RpcResult {
        let at = self.at(dir)?;
        let _admitted = admitted(at, name, Access::Read)?;
        Reply::Data(&self.caller.read_link_at(&at.dir, name)?).fields(out);
        Ok(())
    }

    pub(crate) fn read(
        &self,
        (dir, name): (u32, &[u8]),
        offset: u64,
        count: u32,
        out: &mut Vec<u8>,
    ) -> RpcResult {
        let at = self.at(dir)?;
        let _admitted = admitted(at, name, Access::Read)?;
        let count = (count as usize).min(READ_BYTES_MAX);
        Reply::Data(&self.caller.read_at(&at.dir, name, offset, count)?).fields(out);
        Ok(())
    }

    pub(crate) fn write(
        &self,
        (dir, name): (u32, &[u8]),
        offset: u64,
        data: &[u8],
        out: &mut Vec<u8>,
    ) -> RpcResult {
        let at = self.at(dir)?;
        let _admitted = admitted(at, name, Access::Write)?;
        let stat = self.caller.write_at(&at.dir, name, offset, data)?;
        Reply::Facts(Facts(stat)).fields(out);
        Ok(())
    }
}

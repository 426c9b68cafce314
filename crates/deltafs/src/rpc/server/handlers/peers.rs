//! What servers of one name space ask of each other.

use crate::namespace::Namespace;
use crate::rpc::codec::{Peer, Reply};
use crate::rpc::server::core::Core;
use crate::rpc::server::error::{RpcError, RpcResult};
use crate::rpc::server::session::Session;
use crate::rpc::txn::record::Phase;

/// What only another server may ask, which shows that it is user 0.
pub(crate) fn peer_request(
    core: &Core,
    space: &Namespace,
    session: &Session,
    peer: &Peer<'_>,
    out: &mut Vec<u8>,
) -> RpcResult {
    if session.user.uid != 0 || core.parts.has_all {
        return Err(RpcError::new(
            "EPERM",
            "only servers of one name space ask this of each other",
        ));
    }
    match peer {
        Peer::SplitBegin { dir, split, attempt } => {
            Reply::Count(core.split_begin(*dir, split, *attempt)?).fields(out);
        }
        Peer::SplitPut { dir, to, attempt, records } => {
            core.split_put(*dir, *to, *attempt, records)?;
        }
        Peer::SplitInstall { dir, split, attempt, count, spread, map } => {
            core.split_install(*dir, split, *attempt, *count, (*spread, map))?;
        }
        Peer::Prepare { id, coordinator, txn } => {
            let (phase, mut txn) = ((Phase::Prepared, *coordinator), txn.clone());
            core.prepare(space, *id, phase, &mut txn)?;
            Reply::Data(&[]).fields(out);
        }
        Peer::SplitContents { dir, to, attempt, inode, offset, data } => {
            core.split_contents((*dir, *to, *attempt), *inode, *offset, data)?;
        }
        Peer::RenameContents { id, offset, data } => {
            core.receive_contents(space, *id, *offset, data)?;
        }
        Peer::Decision { id, commits } => core.finish_txn(space, *id, *commits)?,
        Peer::Outcome { id } => {
            let phase = core.txns.pending().get(id).map(|held| held.phase);
            let known = match phase {
                Some(Phase::Decided) => 2,
                Some(_) => 1,
                None => 0,
            };
            Reply::Count(known).fields(out);
        }
    }
    Ok(())
}

//! What servers of one name space ask of each other.

use super::core::{Core, Executed, Refusal};
use super::session::Session;
use crate::namespace::Namespace;
use crate::rpc::codec::{Peer, Reply};
use crate::rpc::txn::record::{Order, Step};

/// What only another server may ask, which shows that it is user 0.
pub(crate) fn peer_request(
    core: &Core,
    space: &Namespace,
    session: &Session,
    peer: &Peer<'_>,
    out: &mut Vec<u8>,
) -> Executed {
    if session.user.uid != 0 || core.parts.has_all {
        return Err(Refusal::new("EPERM", "only servers of one name space ask this of each other"));
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
        Peer::Prepare { number, coordinator, rename } => {
            let (step, mut order) = ((Step::Prepared, *coordinator), Order::of(rename));
            core.prepare(space, *number, step, &mut order)?;
            Reply::Data(&[]).fields(out);
        }
        Peer::SplitContents { dir, to, attempt, inode, offset, data } => {
            core.split_contents((*dir, *to, *attempt), *inode, *offset, data)?;
        }
        Peer::RenameContents { number, offset, data } => {
            core.rename_contents(space, *number, *offset, data)?;
        }
        Peer::Settle { number, commits } => core.settle(space, *number, *commits)?,
        Peer::Outcome { number } => {
            let step = core.renames.held().get(number).map(|held| held.step);
            let known = match step {
                Some(Step::Decided) => 2,
                Some(_) => 1,
                None => 0,
            };
            Reply::Count(known).fields(out);
        }
    }
    Ok(())
}

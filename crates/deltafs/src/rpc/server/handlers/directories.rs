//! Requests that open, make and close directories, and that ask about their partitions.

use super::context::{Context, check_is_alone, not_open, opened};
use crate::id::DirId;
use crate::inner::Dir;
use crate::name::DEPTH_MAX;
use crate::namespace::Namespace;
use crate::rpc::codec::Reply;
use crate::rpc::server::core::Core;
use crate::rpc::server::error::{RpcError, RpcResult};
use crate::rpc::server::session::{Opened, Session};
use crate::rpc::server::worker::Work;

/// Opens a directory by its path, with a lease on it.
pub(crate) fn open_dir(
    core: &Core,
    space: &Namespace,
    session: &mut Session,
    path: &[u8],
    out: &mut Vec<u8>,
) -> RpcResult {
    core.txns.admit(path)?;
    let dir = space.by(&session.user).dir(path)?;
    let lease_ms = lease(core, space, session, (path, &dir))?;
    reply_opened(core, space, session, (dir, lease_ms), out)
}

/// Makes a directory and opens it.
pub(crate) fn mkdir(
    core: &Core,
    space: &Namespace,
    session: &mut Session,
    (dir, name, mode): (u32, &[u8], u32),
    out: &mut Vec<u8>,
) -> RpcResult {
    check_is_alone(core)?;
    let parent = opened(session, dir)?;
    let made = space.by(&session.user).mkdir_at(&parent.dir, name, mode)?;
    reply_opened(core, space, session, (made, 0), out)
}

pub(crate) fn close_dir(session: &mut Session, dir: u32) -> RpcResult {
    if session.close(dir) { Ok(()) } else { Err(not_open(dir)) }
}

fn reply_opened(
    core: &Core,
    space: &Namespace,
    session: &mut Session,
    (dir, lease_ms): (Dir, u32),
    out: &mut Vec<u8>,
) -> RpcResult {
    let part = core.parts.get(space, dir.state.id)?;
    let inode = dir.inode().to_u128();
    let map = core.map_of(&part);
    let Some(number) = session.open(Opened { dir, part }) else {
        return Err(RpcError::new("EMFILE", "too many directories are open: close some"));
    };
    Reply::Dir { dir: number, inode, lease_ms, map: &map }.fields(out);
    Ok(())
}

/// Grants a lease on all directories of a path, for how many milliseconds. A path through a
/// symbolic link gets none, as a link changes without a revocation.
fn lease(
    core: &Core,
    space: &Namespace,
    session: &Session,
    (path, dir): (&[u8], &Dir),
) -> RpcResult<u32> {
    if space.is_read_only() {
        return Ok(u32::MAX);
    }
    if core.parts.server != 0 {
        return Ok(0);
    }
    let (mut dirs, mut names, mut at) = (vec![DirId::ROOT], Vec::new(), dir.state.id);
    while at != DirId::ROOT && dirs.len() <= DEPTH_MAX {
        dirs.push(at);
        let state = space.inner.dir(at)?.state;
        let node = &state.read().node;
        names.push(node.name.clone());
        at = node.parent;
    }
    let wanted = path.split(|byte| *byte == b'/').rev().filter(|name| !name.is_empty());
    if !wanted.eq(names.iter().map(|name| &name[..])) {
        return Ok(0);
    }
    let lease_ms = core.leases.grant(session.client, &dirs);
    // From here on the path does not change; what changed a moment ago is seen by looking again.
    match space.by(&session.user).dir(path) {
        Ok(again) if again.state.id == dir.state.id => Ok(lease_ms),
        _ => Ok(0),
    }
}

impl Context<'_> {
    /// How far a directory has split.
    pub(crate) fn partitions(&mut self, dir: u32) -> RpcResult {
        self.reply(&Reply::Data(&self.core.map_of(&self.at(dir)?.part)))
    }

    /// Lets a directory split as far as it goes.
    pub(crate) fn spread(&self, dir: u32) -> RpcResult {
        let part = &self.at(dir)?.part;
        let mut state = part.write();
        if !self.core.parts.has_all && !state.shards.is_empty() {
            state.spreads = true;
            self.core.enqueue(Work::CheckSplit(part.dir));
        }
        Ok(())
    }
}

//! Carries requests out on a name space: which directories a session has open is settled here, what
//! is done in them by `call`, and what servers ask of each other by `peers`.

use super::call::Call;
use super::core::{Core, RpcError, RpcResult};
use super::session::{Opened, Session};
use crate::id::DirId;
use crate::inner::Dir;
use crate::name::DEPTH_MAX;
use crate::namespace::Namespace;
use crate::rpc::codec::{Reply, Request};

/// Carries one request out and appends the fields of its reply.
pub(crate) fn execute(
    core: &Core,
    space: &Namespace,
    session: &mut Session,
    request: &Request<'_>,
    out: &mut Vec<u8>,
) -> RpcResult {
    match request {
        // Directories are kept by the session, which the calls of the others only read.
        Request::OpenDir { path } => {
            core.txns.admit(path)?;
            let dir = space.by(&session.user).dir(path)?;
            let lease_ms = lease(core, space, session, (path, &dir))?;
            open_reply(core, space, session, (dir, lease_ms), out)
        }
        Request::Mkdir { dir, name, mode } => {
            alone(core)?;
            let parent = opened(session, *dir)?;
            let made = space.by(&session.user).mkdir_at(&parent.dir, name, *mode)?;
            open_reply(core, space, session, (made, 0), out)
        }
        Request::CloseDir { dir } => match session.close(*dir) {
            true => Ok(()),
            false => Err(not_open(*dir)),
        },
        Request::Peer(peer) => super::peers::peer_request(core, space, session, peer, out),
        _ => Call::new(core, space, session).run(space, request, out),
    }
}

/// Refuses what this server must not do to a directory that others have too.
pub(crate) fn alone(core: &Core) -> RpcResult {
    match core.parts.has_all {
        true => Ok(()),
        false => {
            let words = "a directory on several servers is changed by all of them together";
            Err(RpcError::new("EXDEV", words))
        }
    }
}

fn not_open(dir: u32) -> RpcError {
    RpcError::new("ESTALE", format!("directory {dir} is not open here: open it again"))
}

pub(crate) fn opened(session: &Session, dir: u32) -> RpcResult<&Opened> {
    session.dir(dir).ok_or_else(|| not_open(dir))
}

fn open_reply(
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

/// A lease on the way to a directory, if it is as the path says: links may be changed by anybody.
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
    let (mut way, mut names, mut at) = (vec![DirId::ROOT], Vec::new(), dir.state.id);
    while at != DirId::ROOT && way.len() <= DEPTH_MAX {
        way.push(at);
        let state = space.inner.dir(at)?.state;
        let node = &state.read().node;
        names.push(node.name.clone());
        at = node.parent;
    }
    let wanted = path.split(|byte| *byte == b'/').rev().filter(|name| !name.is_empty());
    if !wanted.eq(names.iter().map(|name| &name[..])) {
        return Ok(0);
    }
    let lease_ms = core.leases.grant(session.client, &way);
    // From here on nothing of it changes; what changed a moment ago is seen by looking again.
    match space.by(&session.user).dir(path) {
        Ok(again) if again.state.id == dir.state.id => Ok(lease_ms),
        _ => Ok(0),
    }
}

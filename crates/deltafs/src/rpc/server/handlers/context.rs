//! What the handler of a request has: the server, the caller and the session.

use crate::caller::{Caller, Found};
use crate::id::DirId;
use crate::name::check_name;
use crate::namespace::Namespace;
use crate::rpc::codec::Reply;
use crate::rpc::server::core::Core;
use crate::rpc::server::error::{RpcError, RpcResult};
use crate::rpc::server::parts::{Access, State};
use crate::rpc::server::session::{Opened, Session};
use crate::rpc::server::worker::Work;
use std::sync::RwLockReadGuard;

/// A request in progress.
pub(crate) struct Context<'a> {
    pub(crate) core: &'a Core,
    pub(crate) caller: Caller<'a>,
    pub(crate) session: &'a Session,
    /// Where the fields of the reply go.
    pub(crate) out: &'a mut Vec<u8>,
}

/// Locks the partition of a name shared, if this server has the name. The name stays as long as the
/// lock is held.
pub(crate) fn admitted<'a>(
    at: &'a Opened,
    name: &[u8],
    access: Access,
) -> RpcResult<RwLockReadGuard<'a, State>> {
    let state = at.part.read();
    match state.admit(at.part.dir, name, access) {
        None => Ok(state),
        Some(redirect) => Err(RpcError::redirect(at.part.dir, redirect)),
    }
}

pub(crate) fn not_open(dir: u32) -> RpcError {
    RpcError::new("ESTALE", format!("directory {dir} is not open here: open it again"))
}

pub(crate) fn opened(session: &Session, dir: u32) -> RpcResult<&Opened> {
    session.dir(dir).ok_or_else(|| not_open(dir))
}

/// Refuses a change of directories where several servers have them.
pub(crate) fn check_is_alone(core: &Core) -> RpcResult {
    if core.parts.has_all {
        Ok(())
    } else {
        let message = "a directory on several servers is changed by all of them together";
        Err(RpcError::new("EXDEV", message))
    }
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        core: &'a Core,
        space: &'a Namespace,
        session: &'a Session,
        out: &'a mut Vec<u8>,
    ) -> Context<'a> {
        Context { core, caller: space.by(&session.user), session, out }
    }

    /// An open directory by its number.
    pub(crate) fn at(&self, dir: u32) -> RpcResult<&'a Opened> {
        opened(self.session, dir)
    }

    /// Answers the request.
    pub(crate) fn reply(&mut self, reply: &Reply<'_>) -> RpcResult {
        reply.fields(self.out);
        Ok(())
    }

    /// Counts files that were made in a directory, which may have to split.
    pub(crate) fn made(&self, at: &Opened, files: usize) {
        if files > 0 && at.part.made(i64::try_from(files).unwrap_or(i64::MAX)) {
            self.core.enqueue(Work::CheckSplit(at.part.dir));
        }
    }

    /// The directory of that name, if it is one.
    pub(crate) fn dir_id(&self, at: &Opened, name: &[u8]) -> RpcResult<Option<DirId>> {
        check_name(name)?;
        Ok(match self.caller.lookup(at.part.dir, name)? {
            Some(Found::Dir(id)) => Some(id),
            _ => None,
        })
    }

    /// Changes directories while no other client has a lease on them.
    pub(crate) fn without_leases<R>(
        &self,
        dirs: &[DirId],
        change: impl FnOnce() -> crate::error::Result<R>,
    ) -> RpcResult<R> {
        let _revoked = self.core.revoke(dirs, Some(self.session.client))?;
        Ok(change()?)
    }
}

//! Calls the handler of each request.

use super::core::Core;
use super::error::{RpcError, RpcResult};
use super::handlers::context::Context;
use super::handlers::directories::{close_dir, mkdir, open_dir};
use super::handlers::peers::peer_request;
use super::session::Session;
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
        // These change the directories of the session, which the others only read.
        Request::OpenDir { path } => open_dir(core, space, session, path, out),
        Request::Mkdir { dir, name, mode } => mkdir(core, space, session, (*dir, name, *mode), out),
        Request::CloseDir { dir } => close_dir(session, *dir),
        Request::Peer(peer) => peer_request(core, space, session, peer, out),
        Request::Flush => Ok(space.flush()?),
        Request::Ping => Ok(()),
        Request::Operation { number } => core.operations.outcome(*number),
        Request::Revoked => {
            Reply::Inodes(core.leases.return_revoked(&session.client)).fields(out);
            Ok(())
        }
        _ => on_directory(&mut Context::new(core, space, session, out), request),
    }
}

/// A request on a directory that the session has open.
fn on_directory(call: &mut Context<'_>, request: &Request<'_>) -> RpcResult {
    match request {
        Request::Create { dir, name, mode, how } => call.create((*dir, name), *mode, *how),
        Request::CreateMany { dir, mode, how, names } => {
            call.create_many((*dir, names), *mode, *how)
        }
        Request::CreateWith { dir, name, mode, data } => {
            call.create_with((*dir, name), *mode, data)
        }
        Request::Symlink { dir, name, target } => call.symlink((*dir, name), target),
        Request::BulkIn { dir, entries, paths } => call.bulk_in(*dir, *entries, paths),
        Request::Lookup { dir, name } | Request::Stat { dir, name } => call.stat(*dir, name),
        Request::StatDir { dir } => call.stat(*dir, b""),
        Request::SetAttributes { dir, name, set } => call.set_attributes((*dir, name), set),
        Request::ReadDir { dir, after, count, plus } => call.page(*dir, after, *count, *plus),
        Request::Unlink { dir, name } => call.unlink(*dir, name),
        Request::Rmdir { dir, name } => call.rmdir(call.at(*dir)?, name),
        Request::Rename { dir, name, to_dir, to_name, replace } => {
            call.rename((*dir, name), (*to_dir, to_name), *replace)
        }
        Request::MkdirAcross { dir, name, mode } => call.mkdir_across((*dir, name), *mode),
        Request::RmdirAcross { dir, name } => call.rmdir_across(*dir, name),
        Request::RenameAcross { dir, name, to_dir, to_name, replace, target } => {
            let (from, to) = ((*dir, &name[..]), (*to_dir, &to_name[..]));
            call.rename_across(from, to, (*replace, *target))
        }
        Request::ReadLink { dir, name } => call.read_link(*dir, name),
        Request::Read { dir, name, offset, count } => call.read((*dir, name), *offset, *count),
        Request::Write { dir, name, offset, data } => call.write((*dir, name), *offset, data),
        Request::Partitions { dir } => call.partitions(*dir),
        Request::Spread { dir } => call.spread(*dir),
        // The service and `execute` handle these.
        Request::Hello { .. }
        | Request::Map
        | Request::Ping
        | Request::Flush
        | Request::Operation { .. }
        | Request::Revoked
        | Request::OpenDir { .. }
        | Request::CloseDir { .. }
        | Request::Mkdir { .. }
        | Request::Peer(_) => Err(RpcError::new("EPROTO", "out of place")),
    }
}

//! The answers of a dummy server, which measures the network and the event loops alone.

use crate::caller::{Kind, Stat};
use crate::id::Inode;
use crate::rpc::codec::{Reply, Request};

/// What a dummy answers: that all is well.
pub(crate) fn pretend(request: &Request<'_>, out: &mut Vec<u8>) {
    let stat = Stat {
        kind: Kind::File,
        inode: Inode(0),
        mode: 0o660,
        uid: 0,
        gid: 0,
        nlink: 1,
        size: 0,
        mtime_ns: 0,
        ctime_ns: 0,
        has_data: true,
    };
    // One partition, all of it here.
    let map = &[1, 0, 0, 0, 0, 0, 0, 0];
    // Every request is named: one that comes to be has to say what a dummy answers.
    let reply = match request {
        Request::OpenDir { .. } | Request::Mkdir { .. } => {
            Reply::Dir { dir: 0, inode: 1, lease_ms: 0, map }
        }
        Request::Create { .. } | Request::CreateWith { .. } => {
            Reply::Made { is_new: true, inode: 0 }
        }
        Request::CreateMany { names, .. } => {
            return Reply::Codes(&vec![0; names.len()]).fields(out);
        }
        Request::Lookup { .. }
        | Request::Stat { .. }
        | Request::StatDir { .. }
        | Request::SetAttributes { .. }
        | Request::Symlink { .. }
        | Request::Write { .. } => Reply::Facts(stat),
        Request::ReadDir { .. } => {
            Reply::Page { entries: Vec::new(), next: None, shards: vec![(0, 0)] }
        }
        Request::Partitions { .. } => Reply::Data(map),
        Request::ReadLink { .. } | Request::Read { .. } => Reply::Data(&[]),
        // How many, or the number of an operation, which is done when it is asked about.
        Request::BulkIn { .. }
        | Request::RenameAcross { .. }
        | Request::MkdirAcross { .. }
        | Request::RmdirAcross { .. } => Reply::Count(0),
        Request::Revoked => Reply::Inodes(Vec::new()),
        Request::CloseDir { .. }
        | Request::Unlink { .. }
        | Request::Rmdir { .. }
        | Request::Rename { .. }
        | Request::Flush
        | Request::Spread { .. }
        | Request::Operation { .. } => Reply::Done,
        // Answered before this, or by servers that have something.
        Request::Hello { .. } | Request::Map | Request::Ping | Request::Peer(_) => Reply::Done,
    };
    reply.fields(out);
}

//! Replies as the client takes them: each is of the kind that its request asks for.

use crate::caller::Stat;
use crate::partition::SplitMap;
use crate::rpc::codec::Reply;
use crate::rpc::error::{Error, Result};

/// The reply to opening a directory.
#[derive(Clone, Debug)]
pub(crate) struct OpenReply {
    pub(crate) dir: u32,
    pub(crate) inode: u128,
    pub(crate) lease_ms: u32,
    pub(crate) map: SplitMap,
}

/// The error of a reply of another kind.
pub(crate) fn unexpected(what: &str) -> Error {
    Error::Protocol { peer: "a server".to_owned(), what: what.to_owned() }
}

pub(crate) fn open_reply(reply: Reply<'_>) -> Result<OpenReply> {
    match reply {
        Reply::Dir { dir, inode, lease_ms, map } => {
            let map = SplitMap::from_bytes(map).ok_or_else(|| unexpected("opendir"))?;
            Ok(OpenReply { dir, inode, lease_ms, map })
        }
        _ => Err(unexpected("opendir")),
    }
}

pub(crate) fn dir_reply(reply: Reply<'_>) -> Result<(u32, u128, SplitMap)> {
    open_reply(reply).map(|opened| (opened.dir, opened.inode, opened.map))
}

pub(crate) fn done_reply(reply: Reply<'_>) -> Result<()> {
    match reply {
        Reply::Done => Ok(()),
        _ => Err(unexpected("a change")),
    }
}

pub(crate) fn facts_reply(reply: Reply<'_>) -> Result<Stat> {
    match reply {
        Reply::Facts(stat) => Ok(stat),
        _ => Err(unexpected("stat")),
    }
}

pub(crate) fn data_reply(reply: Reply<'_>) -> Result<Vec<u8>> {
    match reply {
        Reply::Data(data) => Ok(data.to_vec()),
        _ => Err(unexpected("read")),
    }
}

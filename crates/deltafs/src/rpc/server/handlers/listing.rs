//! Pages of a listing: what of a directory is at this server.

use crate::caller::{Caller, Kind};
use crate::error::{Error, shown};
use crate::rpc::codec::{FRAME_BYTES_MAX, Facts, Listed, Reply, kind_code};
use crate::rpc::server::core::Core;
use crate::rpc::server::error::{RpcError, RpcResult};
use crate::rpc::server::session::Opened;

/// Entries of a page, at most: with their facts they fit a frame.
const PAGE_ENTRIES_MAX: u32 = 2048;
/// Above this nothing is added to a page.
const PAGE_BYTES_MAX: usize = FRAME_BYTES_MAX - 1024;

/// A page of what is here: all directories, and the files of the partitions that are.
pub(crate) fn page(
    (core, caller): (&Core, &Caller<'_>),
    at: &Opened,
    after: &[u8],
    count: u32,
    plus: bool,
    out: &mut Vec<u8>,
) -> RpcResult {
    let state = at.part.read();
    if state.is_sealed {
        return Err(RpcError::new("EAGAIN", "a part of the directory is moving: ask again"));
    }
    let count = count.clamp(1, PAGE_ENTRIES_MAX) as usize;
    let after = (!after.is_empty()).then_some(after);
    let mut page = if plus {
        caller.list_plus_at(&at.dir, after, count)?
    } else {
        caller.list_at(&at.dir, after, count)?
    };
    let shards = state.shards();
    if !core.parts.has_all {
        let dir = at.part.dir;
        page.entries.retain(|entry| entry.kind == Kind::Dir || state.shows(dir, &entry.name));
    }
    drop(state);
    let mut bytes = 5 * shards.len();
    let mut entries: Vec<Listed<'_>> = Vec::with_capacity(page.entries.len());
    let mut next = page.next.as_deref();
    for entry in &page.entries {
        // The longest that an entry can be: its name, its kind, its facts.
        bytes += entry.name.len() + 80;
        if bytes > PAGE_BYTES_MAX {
            let words = || format!("'{}': no page has room for it", shown(&entry.name));
            let last = entries.last().map(|last| last.0);
            next = Some(last.ok_or_else(|| Error::Invalid(words()))?);
            break;
        }
        entries.push((&entry.name[..], kind_code(entry.kind), entry.stat.map(Facts)));
    }
    Reply::Page { entries, next, shards }.fields(out);
    Ok(())
}

//! Pages of a listing: what of a directory is at this server.

use super::context::Context;
use crate::caller::Kind;
use crate::error::{Error, shown};
use crate::list::Page;
use crate::rpc::codec::{FRAME_BYTES_MAX, Reply};
use crate::rpc::server::error::{RpcError, RpcResult};

/// Entries of a page, at most: with their facts they fit a frame.
const PAGE_ENTRIES_MAX: u32 = 2048;
/// Above this nothing is added to a page.
const PAGE_BYTES_MAX: usize = FRAME_BYTES_MAX - 1024;

impl Context<'_> {
    /// A page of what is here: all directories, and the files of the partitions that are.
    pub(crate) fn page(&mut self, dir: u32, after: &[u8], count: u32, plus: bool) -> RpcResult {
        let at = self.at(dir)?;
        let state = at.part.read();
        if state.is_sealed {
            return Err(RpcError::new("EAGAIN", "a part of the directory is moving: ask again"));
        }
        let count = count.clamp(1, PAGE_ENTRIES_MAX) as usize;
        let after = (!after.is_empty()).then_some(after);
        let mut page = if plus {
            self.caller.list_plus_at(&at.dir, after, count)?
        } else {
            self.caller.list_at(&at.dir, after, count)?
        };
        let shards = state.shards();
        if !self.core.parts.has_all {
            let dir = at.part.dir;
            page.entries.retain(|entry| entry.kind == Kind::Dir || state.shows(dir, &entry.name));
        }
        drop(state);
        let mut bytes = 5 * shards.len();
        let fits = page.entries.iter().take_while(|entry| {
            // The longest that an entry can be: its name, its kind, its facts.
            bytes += entry.name.len() + 80;
            bytes <= PAGE_BYTES_MAX
        });
        let count = fits.count();
        if let Some(first) = page.entries.get(count) {
            if count == 0 {
                let what = format!("'{}': no page has room for it", shown(&first.name));
                return Err(Error::Invalid(what).into());
            }
            page.entries.truncate(count);
            page.next = page.entries.last().map(|last| last.name.clone());
        }
        let Page { entries, next } = page;
        self.reply(&Reply::Page { entries, next: next.as_deref(), shards })
    }
}

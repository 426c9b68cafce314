//! Listings over all servers of a directory: pages in the order of names, and where to go on.
//!
//! ```text
//!   server 0   a d g ...        merged by name, up to the first name that a server with more
//!   server 2   b c f ...        entries has not come to; directories are all over, and shown once
//! ```
//!
//! A page goes on behind a name, wherever that is, or was. So a listing is not disturbed by files
//! that come and go, nor by partitions that move between its pages. Within a page each server says
//! which partitions it has read; if together they are not all, one moved meanwhile, and the page is
//! read once more.

use super::backoff::Backoff;
use super::directory::DirNumber;
use super::replies::unexpected;
use super::tree::Tree;
use crate::caller::{Kind, Stat};
use crate::list::{ListEntry, Page};
use crate::partition::is_whole;
use crate::rpc::codec::{Reply, Request};
use crate::rpc::error::{Error, Result};

/// Entries of a page that is asked for.
const PAGE_ENTRIES: usize = 1024;

/// A server's part of a page.
#[derive(Default)]
struct Part {
    entries: Vec<ListEntry>,
    next: Option<Vec<u8>>,
    shards: Vec<(u32, u8)>,
}

fn part_reply(reply: Reply<'_>) -> Result<Part> {
    let Reply::Page { entries, next, shards } = reply else { return Err(unexpected("readdir")) };
    Ok(Part { entries, next: next.map(<[u8]>::to_vec), shards })
}

impl Tree {
    /// A page of a directory: about `count` entries behind the name `after`, with their facts if
    /// `plus`. Those of directories are as the first server has them.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn page(
        &mut self,
        dir: DirNumber,
        after: Option<&[u8]>,
        count: usize,
        plus: bool,
    ) -> Result<Page> {
        self.flush_creates()?;
        let mut backoff = Backoff::default();
        loop {
            // Every name is behind the empty one.
            let parts = self.parts(dir, after.unwrap_or_default(), count, plus)?;
            let shards: Vec<(u32, u8)> =
                parts.iter().flat_map(|part| part.shards.iter().copied()).collect();
            if is_whole(&shards) {
                return Ok(merged(parts, count));
            }
            self.learn_all(dir)?;
            if !backoff.pause(&self.client) {
                let text = "partitions of the directory are away: is a server down?".to_owned();
                return Err(Error::Refused { errno: "EAGAIN", text });
            }
        }
    }

    /// What each server that has partitions of a directory has behind a name.
    fn parts(
        &mut self,
        dir: DirNumber,
        after: &[u8],
        count: usize,
        plus: bool,
    ) -> Result<Vec<Part>> {
        let opened = &self.dirs[dir.0];
        let inode = opened.inode;
        let mut servers: Vec<usize> = Vec::new();
        for partition in opened.map.partitions() {
            let server = self.placement.home(inode, partition) as usize;
            if !servers.contains(&server) {
                servers.push(server);
            }
        }
        // Servers that only read have everything each.
        let mut parts = Vec::with_capacity(servers.len());
        for server in servers {
            // A page may be shorter than what was asked for.
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            let make = &|dir| Request::ReadDir { dir, after, count, plus };
            let part = self.on_server(dir, server, make, part_reply)?;
            let has_all = part.shards.contains(&(0, 0));
            parts.push(part);
            if has_all {
                break;
            }
        }
        Ok(parts)
    }

    /// All entries of a directory in the order of their names, from all servers.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn list(&mut self, path: &[u8]) -> Result<Vec<(Vec<u8>, Kind)>> {
        let all = self.list_plus(path, false)?;
        Ok(all.into_iter().map(|(name, kind, _)| (name, kind)).collect())
    }

    /// The same with facts, where `plus` asks for them.
    ///
    /// # Errors
    /// As for [`Tree::open`].
    pub fn list_plus(
        &mut self,
        path: &[u8],
        plus: bool,
    ) -> Result<Vec<(Vec<u8>, Kind, Option<Stat>)>> {
        let dir = self.open(path)?;
        let mut all = Vec::new();
        let mut after = None;
        loop {
            let page = self.page(dir, after.as_deref(), PAGE_ENTRIES, plus)?;
            all.extend(page.entries.into_iter().map(|entry| (entry.name, entry.kind, entry.stat)));
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(all),
            }
        }
    }
}

/// One page of several.
fn merged(parts: Vec<Part>, count: usize) -> Page {
    let mut end = parts.iter().filter_map(|part| part.next.clone()).min();
    let mut entries: Vec<ListEntry> = parts.into_iter().flat_map(|part| part.entries).collect();
    if let Some(end) = &end {
        entries.retain(|entry| entry.name <= *end);
    }
    // By name alone: the sort keeps the order of servers.
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries.dedup_by(|a, b| a.name == b.name);
    if entries.len() > count.max(1) {
        entries.truncate(count.max(1));
        end = entries.last().map(|entry| entry.name.clone());
    }
    Page { entries, next: end }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(names: &[&str], next: Option<&str>) -> Part {
        let entry = |name: &&str| ListEntry {
            name: name.as_bytes().to_vec(),
            kind: Kind::File,
            stat: None,
        };
        let entries = names.iter().map(entry).collect();
        Part { entries, next: next.map(|name| name.as_bytes().to_vec()), shards: Vec::new() }
    }

    #[test]
    fn a_page_ends_where_the_first_server_with_more_has_ended() {
        let names = |page: &Page| -> Vec<String> {
            let all = page.entries.iter();
            all.map(|entry| String::from_utf8(entry.name.clone()).unwrap()).collect()
        };
        let page = merged(vec![part(&["a", "d", "g"], Some("g")), part(&["b", "d"], None)], 10);
        assert_eq!(names(&page), ["a", "b", "d", "g"]);
        assert_eq!(page.next.as_deref(), Some(&b"g"[..]));
        let page = merged(vec![part(&["a", "d"], Some("d")), part(&["b", "z"], None)], 10);
        assert_eq!(names(&page), ["a", "b", "d"], "there may be more before z");
        let page = merged(vec![part(&["a", "d"], None), part(&["b", "z"], None)], 3);
        assert_eq!(
            (names(&page), page.next),
            (vec!["a".into(), "b".into(), "d".into()], Some(b"d".to_vec()))
        );
        // All of a page may be files of others, hidden where they were read.
        let page = merged(vec![part(&[], Some("m")), part(&["n"], None)], 3);
        assert_eq!((names(&page), page.next), (Vec::new(), Some(b"m".to_vec())));
    }
}

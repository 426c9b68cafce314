//! What servers answer.

use super::fields::{Field, Fields};
use super::limits::{BATCH_NAMES_MAX, VERSION};
use crate::caller::{Kind, Stat};
use crate::id::Inode;
use crate::list::ListEntry;

/// What a server answers when it does not refuse.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the operations, and named after them")]
pub enum Reply<'a> {
    /// To a hello.
    Welcome { server: u32, servers: u32, is_read_only: bool },
    /// Done.
    Done,
    /// To a map: an address for each server.
    Map(Vec<&'a [u8]>),
    /// To opening and making a directory: for how long the way to it may be taken as known, and
    /// the partitions that the server has heard of.
    Dir { dir: u32, inode: u128, lease_ms: u32, map: &'a [u8] },
    /// To a create.
    Made { is_new: bool, inode: u128 },
    /// To many: a code for each name.
    Codes(&'a [u8]),
    /// To lookups.
    Facts(Stat),
    /// To a page of a listing: the next page begins behind `next`; and of which partitions, by
    /// number and depth, the entries are.
    Page { entries: Vec<ListEntry>, next: Option<&'a [u8]>, shards: Vec<(u32, u8)> },
    /// To reading.
    Data(&'a [u8]),
    /// How many.
    Count(u64),
    /// Directories by their numbers.
    Inodes(Vec<u128>),
}

const KINDS: [Kind; 3] = [Kind::File, Kind::Dir, Kind::Symlink];

fn kind_code(kind: Kind) -> u8 {
    match kind {
        Kind::File => 0,
        Kind::Dir => 1,
        Kind::Symlink => 2,
    }
}

/// The kind in a byte whose highest bit means something else.
fn kind_of(byte: u8) -> Option<Kind> {
    KINDS.get(usize::from(byte & 0x7f)).copied()
}

/// The highest bit of the kind says whether the bytes are here.
impl Field<'_> for Stat {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(kind_code(self.kind) | u8::from(self.has_data) << 7);
        self.inode.to_u128().put(out);
        [self.mode, self.uid, self.gid].iter().for_each(|number| number.put(out));
        let large = [self.nlink, self.size, self.mtime_ns, self.ctime_ns];
        large.iter().for_each(|number| number.put(out));
    }

    fn take(at: &mut Fields<'_>) -> Option<Stat> {
        let kind: u8 = at.take()?;
        Some(Stat {
            kind: kind_of(kind)?,
            has_data: kind >> 7 == 1,
            inode: Inode(at.take()?),
            mode: at.take()?,
            uid: at.take()?,
            gid: at.take()?,
            nlink: at.take()?,
            size: at.take()?,
            mtime_ns: at.take()?,
            ctime_ns: at.take()?,
        })
    }
}

/// The highest bit of the kind says that the facts follow.
impl Field<'_> for ListEntry {
    fn put(&self, out: &mut Vec<u8>) {
        self.name.put(out);
        out.push(kind_code(self.kind) | u8::from(self.stat.is_some()) << 7);
        self.stat.iter().for_each(|stat| stat.put(out));
    }

    fn take(at: &mut Fields<'_>) -> Option<ListEntry> {
        let (name, kind): (_, u8) = (at.take()?, at.take()?);
        let stat = if kind >> 7 == 1 { Some(at.take()?) } else { None };
        Some(ListEntry { name, kind: kind_of(kind)?, stat })
    }
}

/// Number and depth of a partition.
impl Field<'_> for (u32, u8) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(at: &mut Fields<'_>) -> Option<Self> {
        Some((at.take()?, at.take()?))
    }
}

impl Reply<'_> {
    /// Appends the fields.
    pub(crate) fn fields(&self, out: &mut Vec<u8>) {
        match self {
            Reply::Welcome { server, servers, is_read_only } => {
                VERSION.put(out);
                server.put(out);
                servers.put(out);
                is_read_only.put(out);
            }
            Reply::Done => {}
            Reply::Map(addresses) => addresses.put(out),
            Reply::Dir { dir, inode, lease_ms, map } => {
                dir.put(out);
                inode.put(out);
                lease_ms.put(out);
                map.put(out);
            }
            Reply::Made { is_new, inode } => {
                is_new.put(out);
                inode.put(out);
            }
            Reply::Codes(bytes) | Reply::Data(bytes) => bytes.put(out),
            Reply::Facts(facts) => facts.put(out),
            Reply::Page { entries, next, shards } => {
                next.is_some().put(out);
                next.unwrap_or(&[]).put(out);
                (shards.len() as u16).put(out);
                shards.iter().for_each(|shard| shard.put(out));
                (entries.len() as u32).put(out);
                entries.iter().for_each(|entry| entry.put(out));
            }
            Reply::Count(count) => count.put(out),
            Reply::Inodes(inodes) => inodes.put(out),
        }
    }

    /// Reads the fields of a reply to the operation `tag`. `None` if they are none.
    #[must_use]
    pub fn decode(tag: u8, fields: &[u8]) -> Option<Reply<'_>> {
        let mut at = Fields(fields);
        let reply = match tag {
            1 => {
                let _version: u16 = at.take()?;
                let (server, servers) = (at.take()?, at.take()?);
                Reply::Welcome { server, servers, is_read_only: at.take()? }
            }
            2 => Reply::Map(at.take()?),
            4 | 6 => {
                let (dir, inode, lease_ms) = (at.take()?, at.take()?, at.take()?);
                Reply::Dir { dir, inode, lease_ms, map: at.take()? }
            }
            8 | 10 => Reply::Made { is_new: at.take()?, inode: at.take()? },
            9 => Reply::Codes(at.bytes(BATCH_NAMES_MAX)?),
            11..=14 | 19 | 22 => Reply::Facts(at.take()?),
            15 => {
                let (has_next, next): (bool, _) = (at.take()?, at.take()?);
                let count = at.take::<u16>()?;
                let shards = at.items(usize::from(count), 5)?;
                let count = at.take::<u32>()?;
                let entries = at.items(count as usize, 4)?;
                Reply::Page { entries, next: has_next.then_some(next), shards }
            }
            20 | 21 | 25 | 35 => Reply::Data(at.take()?),
            23 | 27 | 30..=32 | 37 => Reply::Count(at.take()?),
            29 => Reply::Inodes(at.take()?),
            3 | 5 | 16..=18 | 24 | 26 | 28 | 33 | 34 | 36 | 38 | 39 => Reply::Done,
            _ => return None,
        };
        at.0.is_empty().then_some(reply)
    }
}

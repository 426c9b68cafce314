//! What servers answer.

use super::fields::{Fields, put_bytes, put_list, put_u16, put_u32, put_u64, put_u128};
use super::limits::{BATCH_NAMES_MAX, FRAME_BYTES_MAX, VERSION};
use crate::caller::{Kind, Stat};
use crate::id::Inode;

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
    Facts(Facts),
    /// To a page of a listing: the next page begins behind `next`; and of which partitions, by
    /// number and depth, the entries are.
    Page { entries: Vec<Listed<'a>>, next: Option<&'a [u8]>, shards: Vec<(u32, u8)> },
    /// To reading.
    Data(&'a [u8]),
    /// How many.
    Count(u64),
    /// Directories by their numbers.
    Inodes(Vec<u128>),
}

/// Name, kind and facts of an entry in a page.
pub type Listed<'a> = (&'a [u8], u8, Option<Facts>);

/// Hard facts, as they are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts(pub Stat);

const KINDS: [Kind; 3] = [Kind::File, Kind::Dir, Kind::Symlink];

pub(crate) fn kind_code(kind: Kind) -> u8 {
    match kind {
        Kind::File => 0,
        Kind::Dir => 1,
        Kind::Symlink => 2,
    }
}

impl Facts {
    fn encode(&self, out: &mut Vec<u8>) {
        let stat = &self.0;
        out.push(kind_code(stat.kind) | u8::from(stat.has_data) << 7);
        out.extend_from_slice(&stat.inode.to_u128().to_le_bytes());
        put_u32(out, stat.mode);
        put_u32(out, stat.uid);
        put_u32(out, stat.gid);
        put_u64(out, stat.nlink);
        put_u64(out, stat.size);
        put_u64(out, stat.mtime_ns);
        put_u64(out, stat.ctime_ns);
    }

    fn decode(at: &mut Fields<'_>) -> Option<Facts> {
        let first = at.u8()?;
        Some(Facts(Stat {
            kind: *KINDS.get(usize::from(first & 0x7f))?,
            has_data: first >> 7 == 1,
            inode: Inode(u128::from_le_bytes(at.array()?)),
            mode: at.u32()?,
            uid: at.u32()?,
            gid: at.u32()?,
            nlink: at.u64()?,
            size: at.u64()?,
            mtime_ns: at.u64()?,
            ctime_ns: at.u64()?,
        }))
    }
}

impl Reply<'_> {
    /// Appends the fields.
    pub(crate) fn fields(&self, out: &mut Vec<u8>) {
        match self {
            Reply::Welcome { server, servers, is_read_only } => {
                put_u16(out, VERSION);
                put_u32(out, *server);
                put_u32(out, *servers);
                out.push(u8::from(*is_read_only));
            }
            Reply::Done => {}
            Reply::Map(addresses) => put_list(out, addresses),
            Reply::Dir { dir, inode, lease_ms, map } => {
                put_u32(out, *dir);
                put_u128(out, *inode);
                put_u32(out, *lease_ms);
                put_bytes(out, map);
            }
            Reply::Made { is_new, inode } => {
                out.push(u8::from(*is_new));
                out.extend_from_slice(&inode.to_le_bytes());
            }
            Reply::Codes(codes) => put_bytes(out, codes),
            Reply::Facts(facts) => facts.encode(out),
            Reply::Page { entries, next, shards } => {
                out.push(u8::from(next.is_some()));
                put_bytes(out, next.unwrap_or(&[]));
                put_u16(out, shards.len() as u16);
                for (number, depth) in shards {
                    put_u32(out, *number);
                    out.push(*depth);
                }
                put_u32(out, entries.len() as u32);
                for (name, kind, facts) in entries {
                    put_bytes(out, name);
                    out.push(kind | u8::from(facts.is_some()) << 7);
                    if let Some(facts) = facts {
                        facts.encode(out);
                    }
                }
            }
            Reply::Data(data) => put_bytes(out, data),
            Reply::Count(count) => put_u64(out, *count),
            Reply::Inodes(inodes) => {
                put_u32(out, inodes.len() as u32);
                inodes.iter().for_each(|inode| put_u128(out, *inode));
            }
        }
    }

    /// Reads the fields of a reply to the operation `tag`. `None` if they are none.
    #[must_use]
    pub fn decode(tag: u8, fields: &[u8]) -> Option<Reply<'_>> {
        let mut at = Fields(fields);
        let reply = match tag {
            1 => {
                let _version = at.u16()?;
                let (server, servers) = (at.u32()?, at.u32()?);
                Reply::Welcome { server, servers, is_read_only: at.u8()? != 0 }
            }
            2 => Reply::Map(at.list()?),
            4 | 6 => Reply::Dir {
                dir: at.u32()?,
                inode: at.u128()?,
                lease_ms: at.u32()?,
                map: at.bytes(FRAME_BYTES_MAX)?,
            },
            8 | 10 => {
                Reply::Made { is_new: at.u8()? != 0, inode: u128::from_le_bytes(at.array()?) }
            }
            9 => Reply::Codes(at.bytes(BATCH_NAMES_MAX)?),
            11..=14 | 19 | 22 => Reply::Facts(Facts::decode(&mut at)?),
            15 => Reply::page(&mut at)?,
            20 | 21 | 25 | 35 => Reply::Data(at.bytes(FRAME_BYTES_MAX)?),
            23 | 27 | 30..=32 | 37 => Reply::Count(at.u64()?),
            29 => Reply::Inodes(at.inodes()?),
            3 | 5 | 16..=18 | 24 | 26 | 28 | 33 | 34 | 36 | 38 | 39 => Reply::Done,
            _ => return None,
        };
        at.0.is_empty().then_some(reply)
    }

    fn page<'a>(at: &mut Fields<'a>) -> Option<Reply<'a>> {
        let has_next = at.u8()? != 0;
        let next = at.bytes(FRAME_BYTES_MAX)?;
        let shards = usize::from(at.u16()?);
        if shards > at.0.len() / 5 {
            return None;
        }
        let shards = (0..shards).map(|_| Some((at.u32()?, at.u8()?))).collect::<Option<_>>()?;
        let count = at.u32()? as usize;
        // Memory is taken for what is there: an entry has at least four bytes.
        let mut entries = Vec::with_capacity(count.min(at.0.len() / 4));
        for _ in 0..count {
            let name = at.name()?;
            let kind = at.u8()?;
            let facts = if kind >> 7 == 1 { Some(Facts::decode(at)?) } else { None };
            entries.push((name, kind & 0x7f, facts));
        }
        Some(Reply::Page { entries, next: has_next.then_some(next), shards })
    }
}

/// The kind of a code in a page.
pub(crate) fn kind_of(code: u8) -> Option<Kind> {
    KINDS.get(usize::from(code)).copied()
}

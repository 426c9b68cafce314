//! What servers ask of each other: splits of directories, and renames that take several of them.

use super::fields::{Fields, put_bytes, put_list, put_u16, put_u32, put_u64, put_u128};
use super::limits::{FRAME_BYTES_MAX, GROUPS_MAX};
use crate::partition::Split;

/// A request of one server to another. Only user 0 may make it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the operations, and named after them")]
pub enum Peer<'a> {
    /// A partition is about to come; 1 if it has come already.
    SplitBegin { dir: u128, split: Split, attempt: u64 },
    /// Some of its records: names and values in turn.
    SplitPut { dir: u128, to: u32, attempt: u64, records: Vec<&'a [u8]> },
    /// That was all: from here on the partition is yours.
    SplitInstall { dir: u128, split: Split, attempt: u64, count: u64, spread: bool, map: &'a [u8] },
    /// Can you do your part of a rename? Whoever says yes holds the names until it is settled.
    Prepare { id: u128, coordinator: u32, rename: Rename<'a> },
    /// Do it, or do not.
    Decision { id: u128, commits: bool },
    /// What was decided: 0 nothing, 1 not yet, 2 to do it.
    Outcome { id: u128 },
    /// Bytes of a large file of a partition that is coming, in the order of their offsets.
    SplitContents { dir: u128, to: u32, attempt: u64, inode: u128, offset: u64, data: &'a [u8] },
    /// Bytes of the large file that a rename brings.
    RenameContents { id: u128, offset: u64, data: &'a [u8] },
}

/// What several servers do to a name together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Action {
    /// It becomes another name, which nothing has.
    Rename = 0,
    /// It becomes another name, whatever has that.
    Replace = 1,
    /// A directory is made.
    Mkdir = 2,
    /// A directory is removed.
    Rmdir = 3,
}

/// A rename as servers tell each other of it; or a directory that is made or removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename<'a> {
    /// On whose behalf.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its other groups.
    pub groups: Vec<u32>,
    /// The directory of the old name.
    pub from: u128,
    /// The old name.
    pub name: &'a [u8],
    /// The directory of the new name; the directory that is made or removed.
    pub to: u128,
    /// The new name; that of the directory again.
    pub to_name: &'a [u8],
    /// Which of them.
    pub action: Action,
    /// The server of the new name of a file.
    pub target: u32,
    /// The record of what is renamed or removed, or of the directory that is made.
    pub entry: &'a [u8],
}

fn put_split(out: &mut Vec<u8>, dir: u128, split: &Split, attempt: u64) {
    put_u128(out, dir);
    put_u32(out, split.from);
    put_u32(out, split.to);
    put_u32(out, split.depth);
    put_u64(out, attempt);
}

fn split(at: &mut Fields<'_>) -> Option<Split> {
    let split = Split { from: at.u32()?, to: at.u32()?, depth: at.u32()? };
    split.is_sane().then_some(split)
}

impl Rename<'_> {
    /// Appends the fields.
    pub(crate) fn fields(&self, out: &mut Vec<u8>) {
        put_u32(out, self.uid);
        put_u32(out, self.gid);
        put_u16(out, self.groups.len() as u16);
        self.groups.iter().for_each(|group| put_u32(out, *group));
        put_u128(out, self.from);
        put_bytes(out, self.name);
        put_u128(out, self.to);
        put_bytes(out, self.to_name);
        out.push(self.action as u8);
        put_u32(out, self.target);
        put_bytes(out, self.entry);
    }

    /// Reads what [`Rename::fields`] wrote, to the end.
    pub(crate) fn read(bytes: &[u8]) -> Option<Rename<'_>> {
        let mut at = Fields(bytes);
        let rename = Rename::decode(&mut at)?;
        at.0.is_empty().then_some(rename)
    }

    fn decode<'a>(at: &mut Fields<'a>) -> Option<Rename<'a>> {
        let (uid, gid) = (at.u32()?, at.u32()?);
        let count = usize::from(at.u16()?);
        if count > GROUPS_MAX {
            return None;
        }
        Some(Rename {
            uid,
            gid,
            groups: (0..count).map(|_| at.u32()).collect::<Option<_>>()?,
            from: at.u128()?,
            name: at.name()?,
            to: at.u128()?,
            to_name: at.name()?,
            action: match at.u8()? {
                0 => Action::Rename,
                1 => Action::Replace,
                2 => Action::Mkdir,
                3 => Action::Rmdir,
                _ => return None,
            },
            target: at.u32()?,
            entry: at.bytes(FRAME_BYTES_MAX)?,
        })
    }
}

impl<'a> Peer<'a> {
    pub(super) fn tag(&self) -> u8 {
        match self {
            Peer::SplitBegin { .. } => 32,
            Peer::SplitPut { .. } => 33,
            Peer::SplitInstall { .. } => 34,
            Peer::Prepare { .. } => 35,
            Peer::Decision { .. } => 36,
            Peer::Outcome { .. } => 37,
            Peer::SplitContents { .. } => 38,
            Peer::RenameContents { .. } => 39,
        }
    }

    pub(super) fn fields(&self, out: &mut Vec<u8>) {
        match self {
            Peer::SplitBegin { dir, split, attempt } => put_split(out, *dir, split, *attempt),
            Peer::SplitPut { dir, to, attempt, records } => {
                put_u128(out, *dir);
                put_u32(out, *to);
                put_u64(out, *attempt);
                put_list(out, records);
            }
            Peer::SplitInstall { dir, split, attempt, count, spread, map } => {
                put_split(out, *dir, split, *attempt);
                put_u64(out, *count);
                out.push(u8::from(*spread));
                put_bytes(out, map);
            }
            Peer::Prepare { id, coordinator, rename } => {
                put_u128(out, *id);
                put_u32(out, *coordinator);
                rename.fields(out);
            }
            Peer::Decision { id, commits } => {
                put_u128(out, *id);
                out.push(u8::from(*commits));
            }
            Peer::Outcome { id } => put_u128(out, *id),
            Peer::SplitContents { dir, to, attempt, inode, offset, data } => {
                put_u128(out, *dir);
                put_u32(out, *to);
                put_u64(out, *attempt);
                put_u128(out, *inode);
                put_u64(out, *offset);
                put_bytes(out, data);
            }
            Peer::RenameContents { id, offset, data } => {
                put_u128(out, *id);
                put_u64(out, *offset);
                put_bytes(out, data);
            }
        }
    }

    pub(super) fn decode(tag: u8, at: &mut Fields<'a>) -> Option<Peer<'a>> {
        Some(match tag {
            32 => Peer::SplitBegin { dir: at.u128()?, split: split(at)?, attempt: at.u64()? },
            33 => Peer::SplitPut {
                dir: at.u128()?,
                to: at.u32()?,
                attempt: at.u64()?,
                records: at.list()?,
            },
            34 => Peer::SplitInstall {
                dir: at.u128()?,
                split: split(at)?,
                attempt: at.u64()?,
                count: at.u64()?,
                spread: at.flag()?,
                map: at.bytes(FRAME_BYTES_MAX)?,
            },
            35 => Peer::Prepare {
                id: at.u128()?,
                coordinator: at.u32()?,
                rename: Rename::decode(at)?,
            },
            36 => Peer::Decision { id: at.u128()?, commits: at.flag()? },
            37 => Peer::Outcome { id: at.u128()? },
            38 => Peer::SplitContents {
                dir: at.u128()?,
                to: at.u32()?,
                attempt: at.u64()?,
                inode: at.u128()?,
                offset: at.u64()?,
                data: at.bytes(FRAME_BYTES_MAX)?,
            },
            39 => Peer::RenameContents {
                id: at.u128()?,
                offset: at.u64()?,
                data: at.bytes(FRAME_BYTES_MAX)?,
            },
            _ => return None,
        })
    }
}

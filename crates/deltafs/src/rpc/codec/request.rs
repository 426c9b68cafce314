//! What clients ask, and what servers ask of each other.

use super::fields::{Fields, put_at, put_bytes, put_list, put_u16, put_u32, put_u64};
use super::frame::put_frame;
use super::limits::{FRAME_BYTES_MAX, GROUPS_MAX, HELLO_TOKEN_BYTES_MAX, MAGIC, VERSION};
use super::peer::Peer;

/// What a client asks. A directory is the number that [`Request::OpenDir`] gave; 0 is the root.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the operations, and named after them")]
pub enum Request<'a> {
    /// Who calls. The first request of a connection.
    Hello {
        client: [u8; 16],
        uid: u32,
        gid: u32,
        groups: Vec<u32>,
        token: &'a [u8],
    },
    /// Where all servers are.
    Map,
    /// Answers nothing but that it answers.
    Ping,
    OpenDir {
        path: &'a [u8],
    },
    CloseDir {
        dir: u32,
    },
    Mkdir {
        dir: u32,
        name: &'a [u8],
        mode: u32,
    },
    Create {
        dir: u32,
        name: &'a [u8],
        mode: u32,
        how: u8,
    },
    CreateMany {
        dir: u32,
        mode: u32,
        how: u8,
        names: Vec<&'a [u8]>,
    },
    CreateWith {
        dir: u32,
        name: &'a [u8],
        mode: u32,
        data: &'a [u8],
    },
    Lookup {
        dir: u32,
        name: &'a [u8],
    },
    Stat {
        dir: u32,
        name: &'a [u8],
    },
    StatDir {
        dir: u32,
    },
    SetAttributes {
        dir: u32,
        name: &'a [u8],
        set: SetFields,
    },
    ReadDir {
        dir: u32,
        after: &'a [u8],
        count: u32,
        plus: bool,
    },
    Unlink {
        dir: u32,
        name: &'a [u8],
    },
    Rmdir {
        dir: u32,
        name: &'a [u8],
    },
    Rename {
        dir: u32,
        name: &'a [u8],
        to_dir: u32,
        to_name: &'a [u8],
        replace: bool,
    },
    Symlink {
        dir: u32,
        name: &'a [u8],
        target: &'a [u8],
    },
    ReadLink {
        dir: u32,
        name: &'a [u8],
    },
    Read {
        dir: u32,
        name: &'a [u8],
        offset: u64,
        count: u32,
    },
    Write {
        dir: u32,
        name: &'a [u8],
        offset: u64,
        data: &'a [u8],
    },
    /// Tables with entries of one directory, where the server can read them.
    BulkIn {
        dir: u32,
        entries: u64,
        paths: Vec<&'a [u8]>,
    },
    /// Makes everything durable.
    Flush,
    /// The partitions of a directory that the server has heard of.
    Partitions {
        dir: u32,
    },
    /// Splits a directory as far as it goes, before many files come.
    Spread {
        dir: u32,
    },
    /// A rename that several servers take part in: gives the number of an operation.
    RenameAcross {
        dir: u32,
        name: &'a [u8],
        to_dir: u32,
        to_name: &'a [u8],
        replace: bool,
        /// The server of the new name.
        target: u32,
    },
    /// A directory that several servers make: gives the number of an operation.
    MkdirAcross {
        dir: u32,
        name: &'a [u8],
        mode: u32,
    },
    /// A directory that several servers remove: gives the number of an operation.
    RmdirAcross {
        dir: u32,
        name: &'a [u8],
    },
    /// What an operation came to.
    Operation {
        number: u64,
    },
    /// Directories whose leases are called back; asking gives them up.
    Revoked,
    /// From another server.
    Peer(Peer<'a>),
}

/// Which attributes are set, and to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetFields {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Bytes.
    pub size: Option<u64>,
    /// Modification time, nanoseconds since 1970.
    pub mtime_ns: Option<u64>,
}

impl Request<'_> {
    /// The operation's number.
    #[must_use]
    pub fn tag(&self) -> u8 {
        match self {
            Request::Hello { .. } => 1,
            Request::Map => 2,
            Request::Ping => 3,
            Request::OpenDir { .. } => 4,
            Request::CloseDir { .. } => 5,
            Request::Mkdir { .. } => 6,
            Request::Create { .. } => 8,
            Request::CreateMany { .. } => 9,
            Request::CreateWith { .. } => 10,
            Request::Lookup { .. } => 11,
            Request::Stat { .. } => 12,
            Request::StatDir { .. } => 13,
            Request::SetAttributes { .. } => 14,
            Request::ReadDir { .. } => 15,
            Request::Unlink { .. } => 16,
            Request::Rmdir { .. } => 17,
            Request::Rename { .. } => 18,
            Request::Symlink { .. } => 19,
            Request::ReadLink { .. } => 20,
            Request::Read { .. } => 21,
            Request::Write { .. } => 22,
            Request::BulkIn { .. } => 23,
            Request::Flush => 24,
            Request::Partitions { .. } => 25,
            Request::Spread { .. } => 26,
            Request::RenameAcross { .. } => 27,
            Request::Operation { .. } => 28,
            Request::Revoked => 29,
            Request::MkdirAcross { .. } => 30,
            Request::RmdirAcross { .. } => 31,
            Request::Peer(peer) => peer.tag(),
        }
    }

    /// The operation's name, for messages.
    #[must_use]
    pub fn name(tag: u8) -> &'static str {
        const NAMES: [&str; 40] = [
            "reply",
            "hello",
            "map",
            "ping",
            "opendir",
            "closedir",
            "mkdir",
            "call",
            "create",
            "createmany",
            "createwith",
            "lookup",
            "stat",
            "statdir",
            "setattr",
            "readdir",
            "unlink",
            "rmdir",
            "rename",
            "symlink",
            "readlink",
            "read",
            "write",
            "bulkin",
            "flush",
            "partitions",
            "spread",
            "renameacross",
            "operation",
            "revoked",
            "mkdiracross",
            "rmdiracross",
            "splitbegin",
            "splitput",
            "splitinstall",
            "prepare",
            "decision",
            "outcome",
            "splitcontents",
            "renamecontents",
        ];
        NAMES.get(usize::from(tag)).copied().unwrap_or("call")
    }

    /// Whether doing it twice is more than doing it once, so that answers are kept.
    #[must_use]
    pub(crate) fn is_change(tag: u8) -> bool {
        matches!(tag, 4..=10 | 14 | 16..=19 | 22 | 23 | 27 | 30..=36 | 38 | 39)
    }

    /// Appends the request as a frame.
    pub fn encode(&self, call: u64, out: &mut Vec<u8>) {
        put_frame(out, call, self.tag(), |out| self.fields(out));
    }

    fn fields(&self, out: &mut Vec<u8>) {
        match self {
            Request::Hello { client, uid, gid, groups, token } => {
                put_hello(out, client, (*uid, *gid, groups), token);
            }
            Request::Map | Request::Ping | Request::Flush | Request::Revoked => {}
            Request::Operation { number } => put_u64(out, *number),
            Request::Peer(peer) => peer.fields(out),
            Request::OpenDir { path } => put_bytes(out, path),
            Request::CloseDir { dir }
            | Request::StatDir { dir }
            | Request::Partitions { dir }
            | Request::Spread { dir } => put_u32(out, *dir),
            Request::Mkdir { dir, name, mode } | Request::MkdirAcross { dir, name, mode } => {
                put_at(out, *dir, name);
                put_u32(out, *mode);
            }
            Request::Create { .. } | Request::CreateMany { .. } | Request::CreateWith { .. } => {
                self.create_fields(out);
            }
            Request::Lookup { dir, name }
            | Request::Stat { dir, name }
            | Request::Unlink { dir, name }
            | Request::Rmdir { dir, name }
            | Request::RmdirAcross { dir, name }
            | Request::ReadLink { dir, name } => put_at(out, *dir, name),
            Request::SetAttributes { dir, name, set } => {
                put_at(out, *dir, name);
                set.fields(out);
            }
            Request::ReadDir { dir, after, count, plus } => {
                put_at(out, *dir, after);
                put_u32(out, *count);
                out.push(u8::from(*plus));
            }
            Request::Rename { dir, name, to_dir, to_name, replace }
            | Request::RenameAcross { dir, name, to_dir, to_name, replace, .. } => {
                put_at(out, *dir, name);
                put_at(out, *to_dir, to_name);
                out.push(u8::from(*replace));
                if let Request::RenameAcross { target, .. } = self {
                    put_u32(out, *target);
                }
            }
            Request::Symlink { dir, name, target } => {
                put_at(out, *dir, name);
                put_bytes(out, target);
            }
            Request::Read { dir, name, offset, count } => {
                put_at(out, *dir, name);
                put_u64(out, *offset);
                put_u32(out, *count);
            }
            Request::Write { dir, name, offset, data } => {
                put_at(out, *dir, name);
                put_u64(out, *offset);
                put_bytes(out, data);
            }
            Request::BulkIn { dir, entries, paths } => {
                put_u32(out, *dir);
                put_u64(out, *entries);
                put_list(out, paths);
            }
        }
    }

    fn create_fields(&self, out: &mut Vec<u8>) {
        match self {
            Request::Create { dir, name, mode, how } => {
                put_at(out, *dir, name);
                put_u32(out, *mode);
                out.push(*how);
            }
            Request::CreateMany { dir, mode, how, names } => {
                put_u32(out, *dir);
                put_u32(out, *mode);
                out.push(*how);
                put_list(out, names);
            }
            Request::CreateWith { dir, name, mode, data } => {
                put_at(out, *dir, name);
                put_u32(out, *mode);
                put_bytes(out, data);
            }
            _ => unreachable!("the others are no creates"),
        }
    }

    /// Reads the fields of a request. `None` if they are none.
    #[must_use]
    pub fn decode(tag: u8, fields: &[u8]) -> Option<Request<'_>> {
        let mut at = Fields(fields);
        let request = match tag {
            1 => hello(&mut at)?,
            2 => Request::Map,
            3 => Request::Ping,
            4 => Request::OpenDir { path: at.bytes(FRAME_BYTES_MAX)? },
            5 => Request::CloseDir { dir: at.u32()? },
            6 => Request::Mkdir { dir: at.u32()?, name: at.name()?, mode: at.u32()? },
            8 => Request::Create {
                dir: at.u32()?,
                name: at.name()?,
                mode: at.u32()?,
                how: at.how()?,
            },
            9 => {
                let (dir, mode, how) = (at.u32()?, at.u32()?, at.how()?);
                Request::CreateMany { dir, mode, how, names: at.list()? }
            }
            10 => Request::CreateWith {
                dir: at.u32()?,
                name: at.name()?,
                mode: at.u32()?,
                data: at.bytes(FRAME_BYTES_MAX)?,
            },
            11 => Request::Lookup { dir: at.u32()?, name: at.name()? },
            12 => Request::Stat { dir: at.u32()?, name: at.name()? },
            13 => Request::StatDir { dir: at.u32()? },
            14 => Request::SetAttributes {
                dir: at.u32()?,
                name: at.name()?,
                set: SetFields::decode(&mut at)?,
            },
            15 => Request::ReadDir {
                dir: at.u32()?,
                after: at.name()?,
                count: at.u32()?,
                plus: at.u8()? != 0,
            },
            16 => Request::Unlink { dir: at.u32()?, name: at.name()? },
            17 => Request::Rmdir { dir: at.u32()?, name: at.name()? },
            18..=31 => Request::decode_contents(tag, &mut at)?,
            32..=39 => Request::Peer(Peer::decode(tag, &mut at)?),
            _ => return None,
        };
        at.0.is_empty().then_some(request)
    }

    /// Reads renames, requests about the bytes of files, and those that came after them.
    fn decode_contents<'a>(tag: u8, at: &mut Fields<'a>) -> Option<Request<'a>> {
        Some(match tag {
            18 => Request::Rename {
                dir: at.u32()?,
                name: at.name()?,
                to_dir: at.u32()?,
                to_name: at.name()?,
                replace: at.u8()? != 0,
            },
            19 => Request::Symlink {
                dir: at.u32()?,
                name: at.name()?,
                target: at.bytes(FRAME_BYTES_MAX)?,
            },
            20 => Request::ReadLink { dir: at.u32()?, name: at.name()? },
            21 => Request::Read {
                dir: at.u32()?,
                name: at.name()?,
                offset: at.u64()?,
                count: at.u32()?,
            },
            22 => Request::Write {
                dir: at.u32()?,
                name: at.name()?,
                offset: at.u64()?,
                data: at.bytes(FRAME_BYTES_MAX)?,
            },
            23 => Request::BulkIn { dir: at.u32()?, entries: at.u64()?, paths: at.list()? },
            24 => Request::Flush,
            25 => Request::Partitions { dir: at.u32()? },
            26 => Request::Spread { dir: at.u32()? },
            27 => Request::RenameAcross {
                dir: at.u32()?,
                name: at.name()?,
                to_dir: at.u32()?,
                to_name: at.name()?,
                replace: at.flag()?,
                target: at.u32()?,
            },
            28 => Request::Operation { number: at.u64()? },
            29 => Request::Revoked,
            30 => Request::MkdirAcross { dir: at.u32()?, name: at.name()?, mode: at.u32()? },
            31 => Request::RmdirAcross { dir: at.u32()?, name: at.name()? },
            _ => return None,
        })
    }
}

impl SetFields {
    fn fields(&self, out: &mut Vec<u8>) {
        let is_set = [
            self.mode.is_some(),
            self.uid.is_some(),
            self.gid.is_some(),
            self.size.is_some(),
            self.mtime_ns.is_some(),
        ];
        out.push((0..).zip(is_set).map(|(bit, is_set)| u8::from(is_set) << bit).sum());
        put_u32(out, self.mode.unwrap_or(0));
        put_u32(out, self.uid.unwrap_or(0));
        put_u32(out, self.gid.unwrap_or(0));
        put_u64(out, self.size.unwrap_or(0));
        put_u64(out, self.mtime_ns.unwrap_or(0));
    }

    fn decode(at: &mut Fields<'_>) -> Option<SetFields> {
        let bits = at.u8()?;
        let is_set = |bit: u8| bits >> bit & 1 == 1;
        let (mode, uid, gid) = (at.u32()?, at.u32()?, at.u32()?);
        let (size, mtime_ns) = (at.u64()?, at.u64()?);
        Some(SetFields {
            mode: is_set(0).then_some(mode),
            uid: is_set(1).then_some(uid),
            gid: is_set(2).then_some(gid),
            size: is_set(3).then_some(size),
            mtime_ns: is_set(4).then_some(mtime_ns),
        })
    }
}

fn put_hello(
    out: &mut Vec<u8>,
    client: &[u8; 16],
    (uid, gid, groups): (u32, u32, &[u32]),
    token: &[u8],
) {
    put_u32(out, MAGIC);
    put_u16(out, VERSION);
    out.extend_from_slice(client);
    put_u32(out, uid);
    put_u32(out, gid);
    put_u16(out, groups.len() as u16);
    groups.iter().for_each(|group| put_u32(out, *group));
    put_bytes(out, token);
}

fn hello<'a>(at: &mut Fields<'a>) -> Option<Request<'a>> {
    if at.u32()? != MAGIC || at.u16()? != VERSION {
        return None;
    }
    let client = at.array()?;
    let (uid, gid) = (at.u32()?, at.u32()?);
    let count = usize::from(at.u16()?);
    if count > GROUPS_MAX {
        return None;
    }
    let groups = (0..count).map(|_| at.u32()).collect::<Option<_>>()?;
    let token = at.bytes(HELLO_TOKEN_BYTES_MAX)?;
    Some(Request::Hello { client, uid, gid, groups, token })
}

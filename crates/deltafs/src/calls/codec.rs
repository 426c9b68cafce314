//! Requests and replies as bytes. `docs/protocols/fs.md` has the tables.
//!
//! ```text
//!   request   length: u32 | call: u64 | operation: u8 | fields
//!   reply     length: u32 | call: u64 | code: u8      | fields, or words
//! ```
//!
//! Little-endian. `length` counts what follows it. Names and paths stand behind their length.
//!
//! **Invariant:** a length is held against its limit before anything is taken for it, and every
//! field against the end of its frame; what is left over is an error too.

use crate::caller::{Kind, Stat};
use crate::id::Inode;

/// Bytes of a frame behind its length, at most.
pub const FRAME_BYTES_MAX: usize = 1 << 20;
/// Names of one batch, at most.
pub const BATCH_NAMES_MAX: usize = 4096;
/// Bytes of the token in a hello, at most.
pub const HELLO_TOKEN_BYTES_MAX: usize = 1024;
/// Groups of a user, at most.
const GROUPS_MAX: usize = 64;
/// Call and operation, or call and code.
pub(super) const FRAME_BYTES_MIN: usize = 9;
pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"KFS1");
/// The version of the protocol.
pub(super) const VERSION: u16 = 1;

/// What stands at the beginning of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// A frame: its call, its operation or code, its fields; and how many bytes it took.
    Whole {
        /// Number of the call.
        call: u64,
        /// Operation of a request, code of a reply.
        tag: u8,
        /// What follows.
        fields: &'a [u8],
        /// Bytes with the length.
        bytes: usize,
    },
    /// A beginning: so many bytes are needed before it makes sense to look again.
    Partial(usize),
    /// No frame can begin so.
    Broken,
}

/// Looks at the beginning of bytes.
#[must_use]
#[inline]
pub fn frame(input: &[u8]) -> Frame<'_> {
    let Some((length, rest)) = input.split_first_chunk::<4>() else { return Frame::Partial(4) };
    let length = u32::from_le_bytes(*length) as usize;
    if !(FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&length) {
        return Frame::Broken;
    }
    let Some(body) = rest.get(..length) else { return Frame::Partial(4 + length) };
    let (call, body) = (u64::from_le_bytes(body[..8].try_into().unwrap_or_default()), &body[8..]);
    Frame::Whole { call, tag: body[0], fields: &body[1..], bytes: 4 + length }
}

/// Appends a frame whose fields `fill` appends.
pub(super) fn put_frame(out: &mut Vec<u8>, call: u64, tag: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&call.to_le_bytes());
    out.push(tag);
    fill(out);
    let length = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

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
    /// A directory that another server has made.
    MkdirAs {
        dir: u32,
        name: &'a [u8],
        mode: u32,
        uid: u32,
        gid: u32,
        inode: u128,
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
}

/// How [`Request::Create`] treats what is there.
pub(super) const HOW_FAIL: u8 = 0;
pub(super) const HOW_OPEN: u8 = 1;
pub(super) const HOW_UNCHECKED: u8 = 2;

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
            Request::MkdirAs { .. } => 7,
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
        }
    }

    /// The operation's name, for messages.
    #[must_use]
    pub fn name(tag: u8) -> &'static str {
        const NAMES: [&str; 25] = [
            "reply",
            "hello",
            "map",
            "ping",
            "opendir",
            "closedir",
            "mkdir",
            "mkdiras",
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
        ];
        NAMES.get(usize::from(tag)).copied().unwrap_or("call")
    }

    /// Whether doing it twice is more than doing it once, so that answers are kept.
    #[must_use]
    pub(super) fn is_change(tag: u8) -> bool {
        matches!(tag, 4..=10 | 14 | 16..=19 | 22 | 23)
    }

    /// Appends the request as a frame.
    pub fn encode(&self, call: u64, out: &mut Vec<u8>) {
        put_frame(out, call, self.tag(), |out| self.fields(out));
    }

    fn fields(&self, out: &mut Vec<u8>) {
        match self {
            Request::Hello { client, uid, gid, groups, token } => {
                put_u32(out, MAGIC);
                put_u16(out, VERSION);
                out.extend_from_slice(client);
                put_u32(out, *uid);
                put_u32(out, *gid);
                put_u16(out, groups.len() as u16);
                groups.iter().for_each(|group| put_u32(out, *group));
                put_bytes(out, token);
            }
            Request::Map | Request::Ping | Request::Flush => {}
            Request::OpenDir { path } => put_bytes(out, path),
            Request::CloseDir { dir } | Request::StatDir { dir } => put_u32(out, *dir),
            Request::Mkdir { dir, name, mode } => {
                put_at(out, *dir, name);
                put_u32(out, *mode);
            }
            Request::MkdirAs { dir, name, mode, uid, gid, inode } => {
                put_at(out, *dir, name);
                put_u32(out, *mode);
                put_u32(out, *uid);
                put_u32(out, *gid);
                out.extend_from_slice(&inode.to_le_bytes());
            }
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
            Request::Lookup { dir, name }
            | Request::Stat { dir, name }
            | Request::Unlink { dir, name }
            | Request::Rmdir { dir, name }
            | Request::ReadLink { dir, name } => put_at(out, *dir, name),
            Request::SetAttributes { dir, name, set } => {
                put_at(out, *dir, name);
                let is_set = [
                    set.mode.is_some(),
                    set.uid.is_some(),
                    set.gid.is_some(),
                    set.size.is_some(),
                    set.mtime_ns.is_some(),
                ];
                out.push((0..).zip(is_set).map(|(bit, is_set)| u8::from(is_set) << bit).sum());
                put_u32(out, set.mode.unwrap_or(0));
                put_u32(out, set.uid.unwrap_or(0));
                put_u32(out, set.gid.unwrap_or(0));
                put_u64(out, set.size.unwrap_or(0));
                put_u64(out, set.mtime_ns.unwrap_or(0));
            }
            Request::ReadDir { dir, after, count, plus } => {
                put_at(out, *dir, after);
                put_u32(out, *count);
                out.push(u8::from(*plus));
            }
            Request::Rename { dir, name, to_dir, to_name, replace } => {
                put_at(out, *dir, name);
                put_at(out, *to_dir, to_name);
                out.push(u8::from(*replace));
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

    /// Reads the fields of a request. `None` if they are none.
    #[must_use]
    pub fn decode(tag: u8, fields: &[u8]) -> Option<Request<'_>> {
        let mut at = Fields(fields);
        let request = match tag {
            1 => {
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
                Request::Hello { client, uid, gid, groups, token }
            }
            2 => Request::Map,
            3 => Request::Ping,
            4 => Request::OpenDir { path: at.bytes(FRAME_BYTES_MAX)? },
            5 => Request::CloseDir { dir: at.u32()? },
            6 => Request::Mkdir { dir: at.u32()?, name: at.name()?, mode: at.u32()? },
            7 => Request::MkdirAs {
                dir: at.u32()?,
                name: at.name()?,
                mode: at.u32()?,
                uid: at.u32()?,
                gid: at.u32()?,
                inode: u128::from_le_bytes(at.array()?),
            },
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
            14 => {
                let (dir, name, bits) = (at.u32()?, at.name()?, at.u8()?);
                let given = |bit: u8| bits >> bit & 1 == 1;
                let (mode, uid, gid) = (at.u32()?, at.u32()?, at.u32()?);
                let (size, mtime_ns) = (at.u64()?, at.u64()?);
                let set = SetFields {
                    mode: given(0).then_some(mode),
                    uid: given(1).then_some(uid),
                    gid: given(2).then_some(gid),
                    size: given(3).then_some(size),
                    mtime_ns: given(4).then_some(mtime_ns),
                };
                Request::SetAttributes { dir, name, set }
            }
            15 => Request::ReadDir {
                dir: at.u32()?,
                after: at.name()?,
                count: at.u32()?,
                plus: at.u8()? != 0,
            },
            16 => Request::Unlink { dir: at.u32()?, name: at.name()? },
            17 => Request::Rmdir { dir: at.u32()?, name: at.name()? },
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
            _ => return None,
        };
        at.0.is_empty().then_some(request)
    }
}

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
    /// To opening and making a directory.
    Dir { dir: u32, inode: u128 },
    /// To a create.
    Made { is_new: bool, inode: u128 },
    /// To many: a code for each name.
    Codes(&'a [u8]),
    /// To lookups.
    Facts(Facts),
    /// To a page of a listing: the next page begins behind `next`.
    Page { entries: Vec<(&'a [u8], u8, Option<Facts>)>, next: Option<&'a [u8]> },
    /// To reading.
    Data(&'a [u8]),
    /// How many.
    Count(u64),
}

/// Hard facts, as they are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts(pub Stat);

const KINDS: [Kind; 3] = [Kind::File, Kind::Dir, Kind::Symlink];

pub(super) fn kind_code(kind: Kind) -> u8 {
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
    pub(super) fn fields(&self, out: &mut Vec<u8>) {
        match self {
            Reply::Welcome { server, servers, is_read_only } => {
                put_u16(out, VERSION);
                put_u32(out, *server);
                put_u32(out, *servers);
                out.push(u8::from(*is_read_only));
            }
            Reply::Done => {}
            Reply::Map(addresses) => put_list(out, addresses),
            Reply::Dir { dir, inode } => {
                put_u32(out, *dir);
                out.extend_from_slice(&inode.to_le_bytes());
            }
            Reply::Made { is_new, inode } => {
                out.push(u8::from(*is_new));
                out.extend_from_slice(&inode.to_le_bytes());
            }
            Reply::Codes(codes) => put_bytes(out, codes),
            Reply::Facts(facts) => facts.encode(out),
            Reply::Page { entries, next } => {
                out.push(u8::from(next.is_some()));
                put_bytes(out, next.unwrap_or(&[]));
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
            4 | 6 | 7 => Reply::Dir { dir: at.u32()?, inode: u128::from_le_bytes(at.array()?) },
            8 | 10 => {
                Reply::Made { is_new: at.u8()? != 0, inode: u128::from_le_bytes(at.array()?) }
            }
            9 => Reply::Codes(at.bytes(BATCH_NAMES_MAX)?),
            11..=14 | 19 | 22 => Reply::Facts(Facts::decode(&mut at)?),
            15 => Reply::page(&mut at)?,
            20 | 21 => Reply::Data(at.bytes(FRAME_BYTES_MAX)?),
            23 => Reply::Count(at.u64()?),
            3 | 5 | 16..=18 | 24 => Reply::Done,
            _ => return None,
        };
        at.0.is_empty().then_some(reply)
    }

    fn page<'a>(at: &mut Fields<'a>) -> Option<Reply<'a>> {
        let has_next = at.u8()? != 0;
        let next = at.bytes(FRAME_BYTES_MAX)?;
        let count = at.u32()? as usize;
        // Memory is taken for what is there: an entry has at least four bytes.
        let mut entries = Vec::with_capacity(count.min(at.0.len() / 4));
        for _ in 0..count {
            let name = at.name()?;
            let kind = at.u8()?;
            let facts = if kind >> 7 == 1 { Some(Facts::decode(at)?) } else { None };
            entries.push((name, kind & 0x7f, facts));
        }
        Some(Reply::Page { entries, next: has_next.then_some(next) })
    }
}

/// The kind of a code in a page.
pub(super) fn kind_of(code: u8) -> Option<Kind> {
    KINDS.get(usize::from(code)).copied()
}

/// Fields that were not read yet.
#[derive(Debug)]
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*array)
    }

    fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn how(&mut self) -> Option<u8> {
        self.u8().filter(|how| *how <= HOW_UNCHECKED)
    }

    /// Bytes behind their length of three bytes.
    fn bytes(&mut self, max: usize) -> Option<&'a [u8]> {
        let [a, b, c] = self.array()?;
        let length = u32::from_le_bytes([a, b, c, 0]) as usize;
        if length > max {
            return None;
        }
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// A name; one that is too long for any is left to whoever checks names, for its words.
    fn name(&mut self) -> Option<&'a [u8]> {
        self.bytes(FRAME_BYTES_MAX)
    }

    fn list(&mut self) -> Option<Vec<&'a [u8]>> {
        let count = usize::from(self.u16()?);
        if count > BATCH_NAMES_MAX {
            return None;
        }
        // Each has at least its length.
        let mut list = Vec::with_capacity(count.min(self.0.len() / 3));
        for _ in 0..count {
            list.push(self.name()?);
        }
        Some(list)
    }
}

fn put_u16(out: &mut Vec<u8>, number: u16) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    debug_assert!(bytes.len() < 1 << 24);
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes()[..3]);
    out.extend_from_slice(bytes);
}

fn put_at(out: &mut Vec<u8>, dir: u32, name: &[u8]) {
    put_u32(out, dir);
    put_bytes(out, name);
}

fn put_list(out: &mut Vec<u8>, list: &[&[u8]]) {
    put_u16(out, list.len() as u16);
    list.iter().for_each(|bytes| put_bytes(out, bytes));
}

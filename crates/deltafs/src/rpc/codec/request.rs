//! What clients ask, and what servers ask of each other.

use super::fields::{Field, Fields, operations};
use super::frame::put_frame;
use super::limits::{HELLO_TOKEN_BYTES_MAX, MAGIC, VERSION};
use super::peer::Peer;
use crate::user::User;

operations! {
    /// What a client asks. A directory is the number that [`Request::OpenDir`] gave; 0 is the root.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[expect(missing_docs, reason = "the fields are those of the operations, and named after them")]
    pub enum Request<'a> {
        /// Who calls. The first request of a connection.
        1 "hello" Hello {
            protocol: Protocol,
            client: [u8; 16],
            user: User,
            token: &'a [u8],
        };
        /// Where all servers are.
        2 "map" Map;
        /// Answers nothing but that it answers.
        3 "ping" Ping;
        4 "opendir" OpenDir { path: &'a [u8] };
        5 "closedir" CloseDir { dir: u32 };
        6 "mkdir" Mkdir { dir: u32, name: &'a [u8], mode: u32 };
        8 "create" Create { dir: u32, name: &'a [u8], mode: u32, how: How };
        9 "createmany" CreateMany { dir: u32, mode: u32, how: How, names: Vec<&'a [u8]> };
        10 "createwith" CreateWith { dir: u32, name: &'a [u8], mode: u32, data: &'a [u8] };
        11 "lookup" Lookup { dir: u32, name: &'a [u8] };
        12 "stat" Stat { dir: u32, name: &'a [u8] };
        13 "statdir" StatDir { dir: u32 };
        14 "setattr" SetAttributes { dir: u32, name: &'a [u8], set: SetFields };
        15 "readdir" ReadDir { dir: u32, after: &'a [u8], count: u32, plus: bool };
        16 "unlink" Unlink { dir: u32, name: &'a [u8] };
        17 "rmdir" Rmdir { dir: u32, name: &'a [u8] };
        18 "rename" Rename {
            dir: u32,
            name: &'a [u8],
            to_dir: u32,
            to_name: &'a [u8],
            replace: bool,
        };
        19 "symlink" Symlink { dir: u32, name: &'a [u8], target: &'a [u8] };
        20 "readlink" ReadLink { dir: u32, name: &'a [u8] };
        21 "read" Read { dir: u32, name: &'a [u8], offset: u64, count: u32 };
        22 "write" Write { dir: u32, name: &'a [u8], offset: u64, data: &'a [u8] };
        /// Tables with entries of one directory, where the server can read them.
        23 "bulkin" BulkIn { dir: u32, entries: u64, paths: Vec<&'a [u8]> };
        /// Makes everything durable.
        24 "flush" Flush;
        /// The partitions of a directory that the server has heard of.
        25 "partitions" Partitions { dir: u32 };
        /// Splits a directory as far as it goes, before many files come.
        26 "spread" Spread { dir: u32 };
        /// A rename that several servers take part in: gives the number of an operation.
        27 "renameacross" RenameAcross {
            dir: u32,
            name: &'a [u8],
            to_dir: u32,
            to_name: &'a [u8],
            replace: bool,
            /// The server of the new name.
            target: u32,
        };
        /// What an operation came to.
        28 "operation" Operation { number: u64 };
        /// Directories whose leases are called back; asking gives them up.
        29 "revoked" Revoked;
        /// A directory that several servers make: gives the number of an operation.
        30 "mkdiracross" MkdirAcross { dir: u32, name: &'a [u8], mode: u32 };
        /// A directory that several servers remove: gives the number of an operation.
        31 "rmdiracross" RmdirAcross { dir: u32, name: &'a [u8] };
    }
    and
    /// From another server.
    Peer(Peer<'a>);
}

impl Request<'_> {
    /// The operation's name, for messages.
    #[must_use]
    pub fn name(tag: u8) -> &'static str {
        if tag == 0 { "reply" } else { Request::find_name(tag).unwrap_or("call") }
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

    /// Reads the fields of a request. `None` if they are none.
    #[must_use]
    pub fn decode(tag: u8, fields: &[u8]) -> Option<Request<'_>> {
        let mut at = Fields(fields);
        let request = Request::take(tag, &mut at)?;
        let fits = match request {
            Request::Hello { token, .. } => token.len() <= HELLO_TOKEN_BYTES_MAX,
            _ => true,
        };
        (fits && at.0.is_empty()).then_some(request)
    }
}

/// The magic number and the version of the protocol, with which a hello begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocol;

impl Field<'_> for Protocol {
    fn put(&self, out: &mut Vec<u8>) {
        MAGIC.put(out);
        VERSION.put(out);
    }

    fn take(at: &mut Fields<'_>) -> Option<Protocol> {
        (at.take() == Some(MAGIC) && at.take() == Some(VERSION)).then_some(Protocol)
    }
}

/// What a create does with a name that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It fails.
    Fail,
    /// It opens a file that exists.
    Open,
    /// It does not look whether the name is taken.
    Unchecked,
}

impl Field<'_> for How {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }

    fn take(at: &mut Fields<'_>) -> Option<How> {
        [How::Fail, How::Open, How::Unchecked].get(usize::from(at.take::<u8>()?)).copied()
    }
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

/// A bit for each attribute that is set, the first the lowest; then all of them.
impl Field<'_> for SetFields {
    fn put(&self, out: &mut Vec<u8>) {
        let (small, large) = ([self.mode, self.uid, self.gid], [self.size, self.mtime_ns]);
        let is_set = small.iter().map(Option::is_some).chain(large.iter().map(Option::is_some));
        out.push((0..).zip(is_set).map(|(bit, is_set)| u8::from(is_set) << bit).sum());
        small.iter().for_each(|number| number.unwrap_or(0).put(out));
        large.iter().for_each(|number| number.unwrap_or(0).put(out));
    }

    fn take(at: &mut Fields<'_>) -> Option<SetFields> {
        let bits: u8 = at.take()?;
        let is_set = |bit: u8| bits >> bit & 1 == 1;
        let (mode, uid, gid) = (at.take()?, at.take()?, at.take()?);
        let (size, mtime_ns) = (at.take()?, at.take()?);
        Some(SetFields {
            mode: is_set(0).then_some(mode),
            uid: is_set(1).then_some(uid),
            gid: is_set(2).then_some(gid),
            size: is_set(3).then_some(size),
            mtime_ns: is_set(4).then_some(mtime_ns),
        })
    }
}

//! What a log says about a name or a directory, in bytes. `docs/formats/deltafs.md` has the tables.
//!
//! ```text
//!   key    directory: 16 bytes, big-endian | name                an entry
//!   key    directory: 16 bytes, big-endian                       the directory itself
//!   key    file: 16 bytes, big-endian                            a file with hard links
//!   value  kind: u8 | fields
//! ```
//!
//! So a directory is a run of keys: first what it is, then its entries in the order of their names.

use crate::error::{Error, Result, shown};
use crate::id::{COUNT_BITS, DirId, Inode};
use crate::name::{NAME_BYTES_MAX, PATH_BYTES_MAX, check_name};

/// Bytes that a file keeps in its record, at most: the size of the small files of IO500.
pub const INLINE_BYTES_MAX: usize = 3901;

/// The permission bits of a mode, with set-user, set-group and sticky.
pub const MODE_BITS: u32 = 0o7777;

pub(crate) const KIND_WHITEOUT: u8 = 0x11;
pub(crate) const KIND_ENTRY: u8 = 0x12;
pub(crate) const KIND_FILE: u8 = 0x23;
pub(crate) const KIND_SIZED: u8 = 0x24;
pub(crate) const KIND_SYMLINK: u8 = 0x25;
pub(crate) const KIND_DIR: u8 = 0x16;
pub(crate) const KIND_TOUCHED: u8 = 0x17;
pub(crate) const KIND_REMOVED: u8 = 0x18;
pub(crate) const KIND_LINK: u8 = 0x19;

/// The kinds of files and links in logs of the first format, which have their attributes in another
/// order. They are read, and not written any more.
const KIND_FILE_1: u8 = 0x13;
const KIND_SIZED_1: u8 = 0x14;
const KIND_SYMLINK_1: u8 = 0x15;

/// Whether a value is that of a file whose bytes are elsewhere.
pub(crate) fn is_sized(value: &[u8]) -> bool {
    matches!(value.first(), Some(&(KIND_SIZED | KIND_SIZED_1)))
}

/// What a file or a symbolic link has beside its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) inode: Inode,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) nlink: u32,
    pub(crate) size: u64,
    pub(crate) mtime_ns: u64,
    pub(crate) ctime_ns: u64,
}

/// What stands under the key of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry<'a> {
    /// Nothing, whatever lower logs have.
    Whiteout,
    /// A directory.
    Dir(DirId),
    /// A file with its bytes.
    File(Attributes, &'a [u8]),
    /// A file whose bytes are not here.
    Sized(Attributes),
    /// A symbolic link with its target.
    Symlink(Attributes, &'a [u8]),
    /// One of the names of a file: its record is under this number.
    Link(Inode),
}

/// What stands under the key of a directory itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// It was removed.
    Removed,
    /// Entries came and went, nothing else changed.
    Touched(Touched),
    /// All there is to know.
    Dir(DirNode, Touched),
}

/// What every log adds up for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Touched {
    /// Directories in it that this log has made, less those that it has removed.
    pub(crate) subdirs: i64,
    pub(crate) mtime_ns: u64,
    pub(crate) ctime_ns: u64,
}

/// What the highest log decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DirNode {
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) parent: DirId,
    pub(crate) name: Vec<u8>,
}

/// The key of an entry, on the stack.
pub(crate) struct Key {
    bytes: [u8; 16 + NAME_BYTES_MAX],
    len: usize,
}

impl Key {
    /// The name has at most 255 bytes: it was checked.
    pub(crate) fn entry(dir: DirId, name: &[u8]) -> Key {
        let mut bytes = [0; 16 + NAME_BYTES_MAX];
        bytes[..16].copy_from_slice(&dir.to_bytes());
        let len = 16 + name.len();
        bytes[16..len].copy_from_slice(name);
        Key { bytes, len }
    }

    pub(crate) fn node(dir: DirId) -> Key {
        Key::entry(dir, &[])
    }

    /// The key of the record of a file with hard links.
    pub(crate) fn number(number: Inode) -> Key {
        Key::entry(DirId(number.0), &[])
    }
}

impl std::ops::Deref for Key {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The directory and the name of a key; an empty name is the directory itself, or, under the number
/// of a file, the file.
pub(crate) fn parse_key(key: &[u8]) -> Option<(DirId, &[u8])> {
    let (dir, name) = key.split_first_chunk::<16>()?;
    Some((DirId(u128::from_be_bytes(*dir)), name))
}

impl Entry<'_> {
    /// The same entry, changed at that time. A directory has its times in a record of its own.
    pub(crate) fn at(self, ctime_ns: u64) -> Self {
        match self {
            Entry::File(attributes, data) => {
                Entry::File(Attributes { ctime_ns, ..attributes }, data)
            }
            Entry::Sized(attributes) => Entry::Sized(Attributes { ctime_ns, ..attributes }),
            Entry::Symlink(attributes, target) => {
                Entry::Symlink(Attributes { ctime_ns, ..attributes }, target)
            }
            Entry::Whiteout | Entry::Dir(_) | Entry::Link(_) => self,
        }
    }

    /// What a file or a symbolic link has beside its bytes.
    pub(crate) fn attributes(&self) -> Option<Attributes> {
        match self {
            Entry::File(attributes, _)
            | Entry::Sized(attributes)
            | Entry::Symlink(attributes, _) => Some(*attributes),
            Entry::Whiteout | Entry::Dir(_) | Entry::Link(_) => None,
        }
    }

    /// The same file with another count of names.
    pub(crate) fn with_nlink(self, nlink: u32) -> Self {
        match self {
            Entry::File(attributes, data) => Entry::File(Attributes { nlink, ..attributes }, data),
            Entry::Sized(attributes) => Entry::Sized(Attributes { nlink, ..attributes }),
            Entry::Symlink(attributes, target) => {
                Entry::Symlink(Attributes { nlink, ..attributes }, target)
            }
            Entry::Whiteout | Entry::Dir(_) | Entry::Link(_) => self,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Entry::Whiteout => vec![KIND_WHITEOUT],
            Entry::Dir(id) => numbered(KIND_ENTRY, id.0),
            Entry::Link(number) => numbered(KIND_LINK, number.0),
            Entry::File(attributes, data) => attributes.encode(KIND_FILE, data),
            Entry::Sized(attributes) => attributes.encode(KIND_SIZED, &[]),
            Entry::Symlink(attributes, target) => attributes.encode(KIND_SYMLINK, target),
        }
    }

    /// Reads a value. `None` if it is none.
    pub(crate) fn decode(value: &[u8]) -> Option<Entry<'_>> {
        let (&kind, fields) = value.split_first()?;
        let attributes = || match kind {
            KIND_FILE_1 | KIND_SIZED_1 | KIND_SYMLINK_1 => Attributes::decode_1(fields),
            _ => Attributes::decode(fields),
        };
        match kind {
            KIND_WHITEOUT if fields.is_empty() => Some(Entry::Whiteout),
            KIND_ENTRY => {
                let id: [u8; 16] = fields.try_into().ok()?;
                let id = DirId(u128::from_be_bytes(id));
                (!id.inode().is_file() && id.0 > 1).then_some(Entry::Dir(id))
            }
            KIND_LINK => {
                let number: [u8; 16] = fields.try_into().ok()?;
                let number = Inode(u128::from_be_bytes(number));
                number.is_file().then_some(Entry::Link(number))
            }
            KIND_FILE | KIND_FILE_1 => {
                let (attributes, data) = attributes()?;
                let fits = data.len() <= INLINE_BYTES_MAX && data.len() as u64 == attributes.size;
                fits.then_some(Entry::File(attributes, data))
            }
            KIND_SIZED | KIND_SIZED_1 => {
                let (attributes, rest) = attributes()?;
                rest.is_empty().then_some(Entry::Sized(attributes))
            }
            KIND_SYMLINK | KIND_SYMLINK_1 => {
                let (attributes, target) = attributes()?;
                let fits = !target.is_empty() && target.len() <= PATH_BYTES_MAX;
                fits.then_some(Entry::Symlink(attributes, target))
            }
            _ => None,
        }
    }

    /// As [`Entry::decode`], with an error that names the entry.
    pub(crate) fn read<'v>(
        store: &std::path::Path,
        dir: DirId,
        name: &[u8],
        value: &'v [u8],
    ) -> Result<Entry<'v>> {
        Entry::decode(value).ok_or_else(|| {
            let what = format!("the record of '{}' in directory {dir:?} is damaged", shown(name));
            Error::Corruption { path: store.to_owned(), what }
        })
    }

    /// Reads what stands under the number of a file.
    pub(crate) fn read_numbered<'v>(
        store: &std::path::Path,
        number: Inode,
        value: &'v [u8],
    ) -> Result<Entry<'v>> {
        let entry = Entry::decode(value);
        entry.filter(|entry| !matches!(entry, Entry::Dir(_) | Entry::Link(_))).ok_or_else(|| {
            let what = format!("the record of the file {number} is damaged");
            Error::Corruption { path: store.to_owned(), what }
        })
    }
}

/// A value that is a number alone.
fn numbered(kind: u8, number: u128) -> Vec<u8> {
    let mut out = Vec::with_capacity(17);
    out.push(kind);
    out.extend_from_slice(&number.to_be_bytes());
    out
}

/// The bits of a number that count the files of an epoch.
const COUNT_MASK: u128 = (1 << COUNT_BITS) - 1;

/// The lower half of a time is turned by so many bits, so that one in steps of 2^20 ns is short.
const TURNED_BITS: u32 = 12;

impl Attributes {
    /// First what neighbors have in common, then what differs: compression finds one long copy for
    /// each entry and not two or three.
    fn encode(&self, kind: u8, tail: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(48 + tail.len());
        out.push(kind);
        put_varint(&mut out, u64::from(self.mode));
        put_varint(&mut out, u64::from(self.uid));
        put_varint(&mut out, u64::from(self.gid));
        put_varint(&mut out, u64::from(self.nlink));
        put_varint(&mut out, self.size);
        out.extend_from_slice(&self.inode.0.to_be_bytes()[..11]);
        out.extend_from_slice(&((self.mtime_ns >> 32) as u32).to_be_bytes());
        put_varint(&mut out, zigzag(self.ctime_ns.wrapping_sub(self.mtime_ns).cast_signed()));
        put_varint(&mut out, (self.inode.0 & COUNT_MASK) as u64);
        put_varint(&mut out, u64::from((self.mtime_ns as u32).rotate_left(TURNED_BITS)));
        out.extend_from_slice(tail);
        out
    }

    fn decode(fields: &[u8]) -> Option<(Attributes, &[u8])> {
        let mut rest = fields;
        let mode = u32::try_from(varint(&mut rest)?).ok()?;
        let uid = u32::try_from(varint(&mut rest)?).ok()?;
        let gid = u32::try_from(varint(&mut rest)?).ok()?;
        let nlink = u32::try_from(varint(&mut rest)?).ok()?;
        let size = varint(&mut rest)?;
        let upper: [u8; 11] = take(&mut rest)?;
        let upper_time = u64::from(u32::from_be_bytes(take(&mut rest)?));
        let distance = unzigzag(varint(&mut rest)?);
        let count = u128::from(varint(&mut rest)?);
        let lower_time = u32::try_from(varint(&mut rest)?).ok()?.rotate_right(TURNED_BITS);
        let upper = upper.iter().fold(0_u128, |number, byte| number << 8 | u128::from(*byte));
        let inode = Inode(upper << COUNT_BITS | count);
        let mtime_ns = upper_time << 32 | u64::from(lower_time);
        let ctime_ns = mtime_ns.wrapping_add(distance.cast_unsigned());
        let attributes = Attributes { inode, mode, uid, gid, nlink, size, mtime_ns, ctime_ns };
        let is_sane = mode <= MODE_BITS && inode.is_file() && count <= COUNT_MASK;
        is_sane.then_some((attributes, rest))
    }

    /// As the first format had them.
    fn decode_1(fields: &[u8]) -> Option<(Attributes, &[u8])> {
        let mut rest = fields;
        let inode = Inode(u128::from_be_bytes(take(&mut rest)?));
        let mode = u32::try_from(varint(&mut rest)?).ok()?;
        let uid = u32::try_from(varint(&mut rest)?).ok()?;
        let gid = u32::try_from(varint(&mut rest)?).ok()?;
        let nlink = u32::try_from(varint(&mut rest)?).ok()?;
        let size = varint(&mut rest)?;
        let (mtime_ns, ctime_ns) = times(&mut rest)?;
        let attributes = Attributes { inode, mode, uid, gid, nlink, size, mtime_ns, ctime_ns };
        (mode <= MODE_BITS && inode.is_file()).then_some((attributes, rest))
    }
}

impl Node {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        let touched = match self {
            Node::Removed => return vec![KIND_REMOVED],
            Node::Touched(touched) => {
                out.push(KIND_TOUCHED);
                touched
            }
            Node::Dir(node, touched) => {
                out.push(KIND_DIR);
                out.extend_from_slice(&node.parent.to_bytes());
                put_varint(&mut out, u64::from(node.mode));
                put_varint(&mut out, u64::from(node.uid));
                put_varint(&mut out, u64::from(node.gid));
                put_varint(&mut out, node.name.len() as u64);
                out.extend_from_slice(&node.name);
                touched
            }
        };
        put_varint(&mut out, zigzag(touched.subdirs));
        put_times(&mut out, touched.mtime_ns, touched.ctime_ns);
        out
    }

    /// Reads a value. `None` if it is none.
    pub(crate) fn decode(value: &[u8]) -> Option<Node> {
        let (&kind, mut rest) = value.split_first()?;
        let node = match kind {
            KIND_REMOVED => return rest.is_empty().then_some(Node::Removed),
            KIND_TOUCHED => None,
            KIND_DIR => {
                let parent = DirId(u128::from_be_bytes(take(&mut rest)?));
                let mode = u32::try_from(varint(&mut rest)?).ok()?;
                let uid = u32::try_from(varint(&mut rest)?).ok()?;
                let gid = u32::try_from(varint(&mut rest)?).ok()?;
                let len = usize::try_from(varint(&mut rest)?).ok()?;
                let (name, behind) = rest.split_at_checked(len)?;
                rest = behind;
                // The root has no name.
                let is_sane = (len == 0 || check_name(name).is_ok()) && mode <= MODE_BITS;
                let node = DirNode { mode, uid, gid, parent, name: name.to_vec() };
                Some(is_sane.then_some(node)?)
            }
            _ => return None,
        };
        let subdirs = unzigzag(varint(&mut rest)?);
        let (mtime_ns, ctime_ns) = times(&mut rest)?;
        if !rest.is_empty() {
            return None;
        }
        let touched = Touched { subdirs, mtime_ns, ctime_ns };
        Some(match node {
            Some(node) => Node::Dir(node, touched),
            None => Node::Touched(touched),
        })
    }

    /// As [`Node::decode`], with an error that names the directory.
    pub(crate) fn read(store: &std::path::Path, dir: DirId, value: &[u8]) -> Result<Node> {
        Node::decode(value).ok_or_else(|| {
            let what = format!("the record of the directory {dir:?} is damaged");
            Error::Corruption { path: store.to_owned(), what }
        })
    }
}

/// The modification time whole, the change time as its distance: mostly one byte.
fn put_times(out: &mut Vec<u8>, mtime_ns: u64, ctime_ns: u64) {
    out.extend_from_slice(&mtime_ns.to_be_bytes());
    put_varint(out, zigzag(ctime_ns.wrapping_sub(mtime_ns).cast_signed()));
}

fn times(rest: &mut &[u8]) -> Option<(u64, u64)> {
    let mtime_ns = u64::from_be_bytes(take(rest)?);
    let distance = unzigzag(varint(rest)?);
    Some((mtime_ns, mtime_ns.wrapping_add(distance.cast_unsigned())))
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, behind) = rest.split_first_chunk::<N>()?;
    *rest = behind;
    Some(*taken)
}

/// Seven bits a byte, the lowest first; the highest bit says that more follow.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (&byte, behind) = rest.split_first()?;
        *rest = behind;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::LogId;

    fn attributes(size: u64) -> Attributes {
        Attributes {
            inode: Inode::file(LogId(9), 77),
            mode: 0o640,
            uid: 1000,
            gid: u32::MAX,
            nlink: 1,
            size,
            mtime_ns: 1_700_000_000_123_456_789,
            ctime_ns: 1_600_000_000_000_000_000,
        }
    }

    fn nodes() -> Vec<Node> {
        let touched = Touched { subdirs: -3, mtime_ns: u64::MAX, ctime_ns: 5 };
        let name = b"name".to_vec();
        let dir = DirNode { mode: 0o1777, uid: 0, gid: 1, parent: DirId::ROOT, name };
        vec![Node::Removed, Node::Touched(touched), Node::Dir(dir, touched)]
    }

    #[test]
    fn what_is_written_is_read() {
        let data = [7; INLINE_BYTES_MAX];
        let entries = [
            Entry::Whiteout,
            Entry::Dir(DirId::first(DirId::ROOT, b"a")),
            Entry::File(attributes(data.len() as u64), &data),
            Entry::File(attributes(0), &[]),
            Entry::Sized(attributes(u64::MAX)),
            Entry::Symlink(attributes(3), b"../x"),
            Entry::Link(Inode::file(LogId(9), 77)),
        ];
        for entry in entries {
            assert_eq!(Entry::decode(&entry.encode()), Some(entry));
        }
        for node in nodes() {
            assert_eq!(Node::decode(&node.encode()), Some(node));
        }
        // The empty file of a job, as benchmarks make them.
        let now = 1_700_000_000_000_000_000;
        let fresh = Attributes { gid: 1, mtime_ns: now, ctime_ns: now, ..attributes(0) };
        assert_eq!(Entry::File(fresh, &[]).encode().len(), 30);
        let step = 1 << 20;
        let coarse =
            Attributes { mtime_ns: now / step * step, ctime_ns: now / step * step, ..fresh };
        assert_eq!(Entry::File(coarse, &[]).encode().len(), 27);
    }

    /// The attributes in the order of logs that earlier versions wrote.
    #[test]
    fn values_of_the_first_format_are_read() {
        let attributes = attributes(2);
        let mut value = vec![KIND_FILE_1];
        value.extend_from_slice(&attributes.inode.0.to_be_bytes());
        for field in [attributes.mode, attributes.uid, attributes.gid, attributes.nlink] {
            put_varint(&mut value, u64::from(field));
        }
        put_varint(&mut value, attributes.size);
        put_times(&mut value, attributes.mtime_ns, attributes.ctime_ns);
        let sized = value.len();
        value.extend_from_slice(b"ab");
        assert_eq!(Entry::decode(&value), Some(Entry::File(attributes, b"ab")));
        value[0] = KIND_SYMLINK_1;
        assert_eq!(Entry::decode(&value), Some(Entry::Symlink(attributes, b"ab")));
        value[0] = KIND_SIZED_1;
        assert_eq!(Entry::decode(&value), None);
        assert_eq!(Entry::decode(&value[..sized]), Some(Entry::Sized(attributes)));
        assert!(is_sized(&value) && is_sized(&Entry::Sized(attributes).encode()));
    }

    #[test]
    fn what_is_cut_or_longer_is_refused() {
        let entry = Entry::Sized(attributes(1 << 40)).encode();
        for len in 0..entry.len() {
            assert_eq!(Entry::decode(&entry[..len]), None, "{len}");
        }
        assert_eq!(Entry::decode(&[&entry[..], &[0]].concat()), None);
        assert_eq!(Entry::decode(&Entry::File(attributes(2), b"x").encode()), None);
        let of_dir = [&[KIND_LINK][..], &DirId::ROOT.to_bytes()].concat();
        assert_eq!(Entry::decode(&of_dir), None, "the number of a directory");
        for node in nodes() {
            let bytes = node.encode();
            for len in 0..bytes.len() {
                assert_eq!(Node::decode(&bytes[..len]), None, "{len}");
            }
            assert_eq!(Node::decode(&[&bytes[..], &[0]].concat()), None);
        }
        let mut endless: &[u8] = &[0xff; 11];
        assert_eq!(varint(&mut endless), None);
    }

    #[test]
    fn keys_of_a_directory_are_in_the_order_of_names_behind_its_own() {
        let dir = DirId::first(DirId::ROOT, b"a");
        let keys = [Key::node(dir), Key::entry(dir, b"\x01"), Key::entry(dir, &[0xff; 255])];
        assert!(keys.windows(2).all(|pair| *pair[0] < *pair[1]));
        assert!(*keys[2] < *Key::node(DirId(dir.0 + 1)));
        assert_eq!(parse_key(&keys[1]), Some((dir, &b"\x01"[..])));
        assert_eq!(parse_key(b"short"), None);
    }
}

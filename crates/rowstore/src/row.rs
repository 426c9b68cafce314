//! A row as bytes: in memory, in logs and checkpoints, and as the value of another store.
//!
//! ```text
//!   +------+---------+---------+-----------+-------+---------------------------------------+
//!   | head | version | [flags] | [expires] | [cas] |  value                      kind 0    |
//!   | u8   | u64     |  u32    |  u64 ms   |  u64  |  count u32, ends u32, bytes kind 1, 2 |
//!   |      |         |         |           |       |  type u8, id u64            kind 3    |
//!   +------+---------+---------+-----------+-------+---------------------------------------+
//!   head: bits 0-1 kind (0 value, 1 columns, 2 fields, 3 collection), bit 2 has flags, bit 3 has
//!         expiry, bit 4 stale, bit 5 promised, bit 6 has a cas of its own
//! ```
//!
//! All numbers are little endian. An end is counted from the first of the bytes. Fields lie as
//! name, value, name, value; names ascend, so that one is found by bisection.

mod buf;

use crate::keys::ID_MAX;

pub use buf::RowBuf;

/// What a row holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One value, which is also its only column.
    Value,
    /// Columns numbered from 0; one that was skipped is empty.
    Columns,
    /// Named fields in the order of their names.
    Fields,
    /// The header of a collection, whose elements are rows of their own (see
    /// [`Collection`](crate::Collection)).
    Collection,
}

pub(crate) const KIND_MASK: u8 = 0b11;
const HAS_FLAGS: u8 = 0b100;
const HAS_EXPIRY: u8 = 0b1000;
const STALE: u8 = 0b1_0000;
const PROMISED: u8 = 0b10_0000;
const HAS_CAS: u8 = 0b100_0000;
const KNOWN: u8 = KIND_MASK | HAS_FLAGS | HAS_EXPIRY | STALE | PROMISED | HAS_CAS;
/// The kind of a header.
pub(crate) const COLLECTION: u8 = 3;
/// The type of a collection whose elements are the fields of a hash.
const HASH: u8 = 1;
/// Bytes of the body of a header: type and id.
const HEADER_BYTES: usize = 9;
/// Bytes of the head of a row without flags and expiry.
pub(crate) const HEAD_BYTES: usize = 9;

/// What a cache protocol notes on a row beside flags and expiry. Gone with the next plain write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Marks {
    /// The value is out of date; it may be shown until somebody brings a new one.
    pub stale: bool,
    /// Somebody was told to bring a new value.
    pub promised: bool,
    /// What to compare with instead of the version; 0 for the version itself.
    pub cas: u64,
}

/// A row, borrowed.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    bytes: &'a [u8],
    version: u64,
    flags: u32,
    expires_ms: u64,
    marks: Marks,
    kind: Kind,
    /// What follows the head.
    body: &'a [u8],
}

impl std::fmt::Debug for Row<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Row")
            .field("version", &self.version)
            .field("kind", &self.kind)
            .field("flags", &self.flags)
            .field("expires_ms", &self.expires_ms)
            .field("parts", &self.columns())
            .finish()
    }
}

impl<'a> Row<'a> {
    /// The row that `bytes` hold, or nothing when they hold none. Constant time for a value,
    /// linear in the number of parts otherwise: every end is checked.
    #[must_use]
    pub fn check(bytes: &'a [u8]) -> Option<Self> {
        let row = Self::parse(bytes)?;
        match row.kind {
            Kind::Value => return Some(row),
            Kind::Collection => return row.collection().is_some().then_some(row),
            Kind::Columns | Kind::Fields => {}
        }
        let count = row.count();
        let rest = row.body.len().checked_sub(4)?.checked_sub(count.checked_mul(4)?)?;
        let mut last = 0;
        for index in 0..count {
            let end = row.end(index);
            if end < last || end > rest {
                return None;
            }
            last = end;
        }
        let paired = row.kind != Kind::Fields || count.is_multiple_of(2);
        (paired && last == rest).then_some(row)
    }

    /// The row of bytes that passed [`Row::check`] or came from a [`RowBuf`]. Constant time.
    ///
    /// # Panics
    /// If the bytes do not begin as a row does: rows of other origin go through [`Row::check`].
    #[must_use]
    #[inline]
    pub fn of(bytes: &'a [u8]) -> Self {
        Row::parse(bytes).expect("the bytes are those of a checked row")
    }

    #[inline]
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (&head, mut body) = bytes.split_first()?;
        let kind = match head & KIND_MASK {
            0 => Kind::Value,
            1 => Kind::Columns,
            2 => Kind::Fields,
            _ => Kind::Collection,
        };
        if head & !KNOWN != 0 {
            return None;
        }
        let version = u64::from_le_bytes(take(&mut body)?);
        let flags = if head & HAS_FLAGS == 0 { 0 } else { u32::from_le_bytes(take(&mut body)?) };
        let expires_ms =
            if head & HAS_EXPIRY == 0 { 0 } else { u64::from_le_bytes(take(&mut body)?) };
        let cas = if head & HAS_CAS == 0 { 0 } else { u64::from_le_bytes(take(&mut body)?) };
        if kind != Kind::Value && body.len() < 4 {
            return None;
        }
        let marks = Marks { stale: head & STALE != 0, promised: head & PROMISED != 0, cas };
        Some(Row { bytes, version, flags, expires_ms, marks, kind, body })
    }

    /// The bytes of the whole row.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Grows with every write of the key, over removals and restarts too. Never 0.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// What the client of a cache protocol stored beside the value.
    #[must_use]
    pub fn flags(&self) -> u32 {
        self.flags
    }

    /// When the row expires, in milliseconds since 1970; 0 is never.
    #[must_use]
    pub fn expires_ms(&self) -> u64 {
        self.expires_ms
    }

    /// What a cache protocol noted.
    #[must_use]
    pub fn marks(&self) -> Marks {
        self.marks
    }

    /// What a client compares before it swaps: the version, unless the row has a number of its own.
    #[must_use]
    pub fn cas(&self) -> u64 {
        if self.marks.cas == 0 { self.version } else { self.marks.cas }
    }

    /// Whether the row has expired at `now_ms`.
    #[must_use]
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_ms != 0 && self.expires_ms <= now_ms
    }

    /// What the row holds.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The value; of columns the first; of fields nothing.
    #[must_use]
    pub fn value(&self) -> &'a [u8] {
        match self.kind {
            Kind::Value => self.body,
            // A row may have no columns.
            Kind::Columns => self.part(0).unwrap_or_default(),
            Kind::Fields | Kind::Collection => &[],
        }
    }

    /// How many columns there are; fields count as one column each. A header has none.
    #[must_use]
    pub fn columns(&self) -> usize {
        match self.kind {
            Kind::Value => 1,
            Kind::Columns => self.count(),
            Kind::Fields => self.count() / 2,
            Kind::Collection => 0,
        }
    }

    /// The id of the collection whose header this is.
    #[must_use]
    pub fn collection(&self) -> Option<u64> {
        if self.kind != Kind::Collection || self.body.len() != HEADER_BYTES {
            return None;
        }
        let (&kind, id) = self.body.split_first()?;
        let id = u64::from_le_bytes(*id.first_chunk()?);
        (kind == HASH && (1..=ID_MAX).contains(&id)).then_some(id)
    }

    /// Column `index`; of fields the value of the one at that place.
    #[must_use]
    pub fn column(&self, index: usize) -> Option<&'a [u8]> {
        match self.kind {
            Kind::Value => (index == 0).then_some(self.body),
            Kind::Columns => self.part(index),
            Kind::Fields => self.part(index.checked_mul(2)?.checked_add(1)?),
            Kind::Collection => None,
        }
    }

    /// The name and the value of field `index`, in the order of names. Rows of other kinds have no
    /// names.
    #[must_use]
    pub fn field(&self, index: usize) -> Option<(&'a [u8], &'a [u8])> {
        if self.kind != Kind::Fields {
            return None;
        }
        let name = index.checked_mul(2)?;
        Some((self.part(name)?, self.part(name + 1)?))
    }

    /// Where the field called `name` is, or where it would be. Logarithmic.
    ///
    /// # Errors
    /// The place where a field of that name belongs, when there is none.
    pub fn find(&self, name: &[u8]) -> Result<usize, usize> {
        self.find_from(0, name)
    }

    /// [`Row::find`] among the fields from `first` on.
    ///
    /// # Errors
    /// The place where a field of that name belongs, when there is none.
    pub fn find_from(&self, first: usize, name: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) =
            if self.kind == Kind::Fields { (first, self.columns()) } else { (0, 0) };
        while low < high {
            let middle = low.midpoint(high);
            match self.name(middle).cmp(name) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// The name of field `index`, which is there.
    fn name(&self, index: usize) -> &'a [u8] {
        self.part(2 * index).expect("a field has a name")
    }

    fn count(&self) -> usize {
        self.body.first_chunk().map_or(0, |count| u32::from_le_bytes(*count) as usize)
    }

    /// Where part `index` ends; 0 when it is not there.
    fn end(&self, index: usize) -> usize {
        let at = 4 + 4 * index;
        self.body
            .get(at..at + 4)
            .and_then(|end| end.first_chunk())
            .map_or(0, |end| u32::from_le_bytes(*end) as usize)
    }

    fn part(&self, index: usize) -> Option<&'a [u8]> {
        let count = self.count();
        if index >= count {
            return None;
        }
        let start = if index == 0 { 0 } else { self.end(index - 1) };
        self.body.get(4 + 4 * count..)?.get(start..self.end(index))
    }
}

/// Appends a row of one value to `out`, without a version as yet.
#[inline]
pub(crate) fn encode_value(value: &[u8], flags: u32, expires_ms: u64, out: &mut Vec<u8>) {
    let mut head = 0;
    if flags != 0 {
        head |= HAS_FLAGS;
    }
    if expires_ms != 0 {
        head |= HAS_EXPIRY;
    }
    out.reserve(HEAD_BYTES + 12 + value.len());
    out.push(head);
    out.extend_from_slice(&0_u64.to_le_bytes());
    if flags != 0 {
        out.extend_from_slice(&flags.to_le_bytes());
    }
    if expires_ms != 0 {
        out.extend_from_slice(&expires_ms.to_le_bytes());
    }
    out.extend_from_slice(value);
}

/// Gives the row in `bytes` its version.
#[inline]
pub(crate) fn set_version(bytes: &mut [u8], version: u64) {
    *bytes[1..].first_chunk_mut().expect("a row begins with its head") = version.to_le_bytes();
}

#[inline]
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_comes_out() {
        let mut buf = RowBuf::new();
        let mut bytes = Vec::new();
        buf.fields();
        buf.push_field(b"a", b"1");
        buf.push_field(b"b", b"");
        buf.push_field(b"d", b"333");
        buf.set_flags(7);
        buf.set_expires_ms(1000);
        buf.encode(9, &mut bytes);
        assert_eq!(bytes.len(), buf.encoded_bytes());
        let row = Row::check(&bytes).unwrap();
        assert_eq!((row.version(), row.flags(), row.expires_ms()), (9, 7, 1000));
        assert_eq!((row.kind(), row.columns()), (Kind::Fields, 3));
        assert_eq!(row.field(2), Some((&b"d"[..], &b"333"[..])));
        assert_eq!([row.find(b"b"), row.find(b"c"), row.find(b"e")], [Ok(1), Err(2), Err(3)]);
        assert!(row.is_expired(1000) && !row.is_expired(999));
        for cut in 0..bytes.len() {
            assert!(Row::check(&bytes[..cut]).is_none(), "cut at {cut}");
        }

        buf.clear();
        buf.columns();
        buf.push(b"");
        buf.push(b"xy");
        bytes.clear();
        buf.encode(1, &mut bytes);
        let row = Row::check(&bytes).unwrap();
        assert_eq!(
            [row.column(0), row.column(1), row.column(2)],
            [Some(&b""[..]), Some(b"xy"), None]
        );

        buf.clear();
        buf.set_value(b"v");
        bytes.clear();
        buf.encode(1, &mut bytes);
        let row = Row::check(&bytes).unwrap();
        assert_eq!((row.kind(), row.value(), row.columns()), (Kind::Value, &b"v"[..], 1));
    }

    #[test]
    fn marks_are_kept_and_a_cas_of_its_own_comes_before_the_version() {
        for marks in [
            Marks { stale: true, promised: false, cas: 0 },
            Marks { stale: false, promised: true, cas: 77 },
        ] {
            let mut buf = RowBuf::new();
            buf.set_value(b"v");
            buf.set_expires_ms(5);
            buf.set_marks(marks);
            let mut bytes = Vec::new();
            buf.encode(3, &mut bytes);
            assert_eq!(bytes.len(), buf.encoded_bytes());
            let row = Row::check(&bytes).unwrap();
            assert_eq!((row.marks(), row.value(), row.expires_ms()), (marks, &b"v"[..], 5));
            assert_eq!(row.cas(), if marks.cas == 0 { 3 } else { 77 });
        }
    }

    #[test]
    fn a_value_encoded_in_place_is_the_row_of_a_buffer() {
        for (value, flags, expires_ms) in
            [(&b""[..], 0, 0), (b"v", 7, 0), (b"value", 0, 9), (b"x", u32::MAX, u64::MAX)]
        {
            let (mut buf, mut long, mut short) = (RowBuf::new(), Vec::new(), Vec::new());
            buf.set_value(value);
            buf.set_flags(flags);
            buf.set_expires_ms(expires_ms);
            buf.encode(77, &mut long);
            encode_value(value, flags, expires_ms, &mut short);
            set_version(&mut short, 77);
            assert_eq!(short, long);
        }
    }

    #[test]
    fn a_header_has_a_known_type_and_an_id() {
        let mut buf = RowBuf::new();
        buf.collection(77);
        buf.set_expires_ms(5);
        let mut bytes = Vec::new();
        buf.encode(3, &mut bytes);
        assert_eq!(bytes.len(), buf.encoded_bytes());
        let row = Row::check(&bytes).unwrap();
        assert_eq!(
            (row.kind(), row.collection(), row.expires_ms()),
            (Kind::Collection, Some(77), 5)
        );
        assert_eq!((row.value(), row.columns(), row.column(0)), (&b""[..], 0, None));
        for cut in 0..bytes.len() {
            assert!(Row::check(&bytes[..cut]).is_none(), "cut at {cut}");
        }
        let at = bytes.len() - HEADER_BYTES;
        for (at, byte) in [(at, 0), (at, 9), (at + 1, 0), (at + 8, 1)] {
            let mut other = bytes.clone();
            other[at] = byte;
            assert!(Row::check(&other).is_none(), "{byte} at {at}");
        }
    }

    #[test]
    fn an_end_behind_the_bytes_is_no_row() {
        let mut buf = RowBuf::new();
        buf.columns();
        buf.push(b"abc");
        let mut bytes = Vec::new();
        buf.encode(1, &mut bytes);
        bytes[HEAD_BYTES + 4] = 4;
        assert!(Row::check(&bytes).is_none());
        bytes[HEAD_BYTES] = 0xff;
        assert!(Row::check(&bytes).is_none());
    }

    #[test]
    #[should_panic(expected = "the bytes are those of a checked row")]
    fn bytes_that_are_no_row_are_not_taken_for_an_absent_row() {
        let _ = Row::of(&[0xff; 16]);
    }
}

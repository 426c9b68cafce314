//! A row as bytes: in memory, in logs and checkpoints, and as the value of another store.
//!
//! ```text
//!   +------+---------+---------+-----------+-------+---------------------------------------+
//!   | head | version | [flags] | [expires] | [cas] |  value                      kind 0    |
//!   | u8   | u64     |  u32    |  u64 ms   |  u64  |  count u32, ends u32, bytes kind 1, 2 |
//!   +------+---------+---------+-----------+-------+---------------------------------------+
//!   head: bits 0-1 kind (0 value, 1 columns, 2 fields), bit 2 has flags, bit 3 has expiry,
//!         bit 4 stale, bit 5 promised, bit 6 has a cas of its own
//! ```
//!
//! All numbers are little endian. An end is counted from the first of the bytes. Fields lie as
//! name, value, name, value; names ascend, so that one is found by bisection.

use std::ops::Range;

/// What a row holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One value, which is also its only column.
    Value,
    /// Columns numbered from 0; one that was skipped is empty.
    Columns,
    /// Named fields in the order of their names.
    Fields,
}

const KIND_MASK: u8 = 0b11;
const HAS_FLAGS: u8 = 0b100;
const HAS_EXPIRY: u8 = 0b1000;
const STALE: u8 = 0b1_0000;
const PROMISED: u8 = 0b10_0000;
const HAS_CAS: u8 = 0b100_0000;
const KNOWN: u8 = KIND_MASK | HAS_FLAGS | HAS_EXPIRY | STALE | PROMISED | HAS_CAS;
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
        if row.kind == Kind::Value {
            return Some(row);
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
    pub fn of(bytes: &'a [u8]) -> Self {
        Row::parse(bytes).expect("the bytes are those of a checked row")
    }

    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (&head, mut body) = bytes.split_first()?;
        let kind = match head & KIND_MASK {
            0 => Kind::Value,
            1 => Kind::Columns,
            2 => Kind::Fields,
            _ => return None,
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
            Kind::Fields => &[],
        }
    }

    /// How many columns there are; fields count as one column each.
    #[must_use]
    pub fn columns(&self) -> usize {
        match self.kind {
            Kind::Value => 1,
            Kind::Columns => self.count(),
            Kind::Fields => self.count() / 2,
        }
    }

    /// Column `index`; of fields the value of the one at that place.
    #[must_use]
    pub fn column(&self, index: usize) -> Option<&'a [u8]> {
        match self.kind {
            Kind::Value => (index == 0).then_some(self.body),
            Kind::Columns => self.part(index),
            Kind::Fields => self.part(index.checked_mul(2)?.checked_add(1)?),
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
pub(crate) fn set_version(bytes: &mut [u8], version: u64) {
    bytes[1..HEAD_BYTES].copy_from_slice(&version.to_le_bytes());
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

/// Bytes that a [`RowBuf`] keeps from one turn of its session to the next.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// A row being made. What it holds is set by one of `set_value`, `columns`, `fields`.
#[derive(Debug, Default)]
pub struct RowBuf {
    kind: u8,
    flags: u32,
    expires_ms: u64,
    marks: Marks,
    ends: Vec<u32>,
    /// The bytes of the parts that were added.
    data: Vec<u8>,
    /// What comes from the row that is replaced, in the order of the new row.
    kept: Vec<Kept>,
    kept_bytes: usize,
}

/// Parts of the row that is replaced.
#[derive(Clone, Debug)]
struct Kept {
    /// How much of `RowBuf::data` comes before them.
    at: usize,
    /// Where they are among the bytes of the old row's parts.
    bytes: Range<usize>,
}

impl RowBuf {
    /// An empty value that never expires.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes it an empty value again, and keeps its memory.
    pub fn clear(&mut self) {
        self.kind = 0;
        self.flags = 0;
        self.expires_ms = 0;
        self.marks = Marks::default();
        self.clear_parts();
    }

    fn clear_parts(&mut self) {
        self.ends.clear();
        self.data.clear();
        self.kept.clear();
        self.kept_bytes = 0;
    }

    /// Bytes of all parts.
    fn data_bytes(&self) -> usize {
        self.data.len() + self.kept_bytes
    }

    /// Gives up memory that an unusually large row took.
    pub(crate) fn shrink(&mut self) {
        if self.data.capacity() > KEPT_BYTES_MAX {
            self.data = Vec::new();
        }
        if self.ends.capacity() > KEPT_BYTES_MAX / size_of::<u32>() {
            self.ends = Vec::new();
        }
    }

    /// Makes it a row of one value.
    pub fn set_value(&mut self, value: &[u8]) {
        self.value_mut().extend_from_slice(value);
    }

    /// Makes it a row of one value, empty as yet, to be written in place.
    pub fn value_mut(&mut self) -> &mut Vec<u8> {
        self.kind = 0;
        self.clear_parts();
        &mut self.data
    }

    /// Makes it a row of columns, none as yet; [`RowBuf::push`] adds them.
    pub fn columns(&mut self) {
        self.kind = 1;
        self.clear_parts();
    }

    /// Makes it a row of fields, none as yet; [`RowBuf::push_field`] adds them.
    pub fn fields(&mut self) {
        self.kind = 2;
        self.clear_parts();
    }

    /// Adds a column.
    pub fn push(&mut self, column: &[u8]) {
        debug_assert_eq!(self.kind, 1, "a row of columns");
        self.part(column);
    }

    /// Adds a field. Names ascend.
    pub fn push_field(&mut self, name: &[u8], value: &[u8]) {
        debug_assert_eq!(self.kind, 2, "a row of fields");
        self.part(name);
        self.part(value);
    }

    /// Adds the fields `range` of the row that this one replaces. Their names must lie between the
    /// last name added and the next. Their bytes are copied when the row is encoded: O(fields).
    ///
    /// # Panics
    /// If `old` has no such fields.
    pub fn keep_fields(&mut self, old: &Row<'_>, range: Range<usize>) {
        debug_assert_eq!(self.kind, 2, "a row of fields");
        assert!(
            old.kind == Kind::Fields && range.start <= range.end && range.end <= old.columns(),
            "the fields {range:?} of a row of {} columns",
            old.columns()
        );
        if range.is_empty() {
            return;
        }
        let (first, last) = (2 * range.start, 2 * range.end);
        let start = if first == 0 { 0 } else { old.end(first - 1) };
        let bytes = start..old.end(last - 1);
        // Where the kept bytes begin in the new row, less where they begin in the old one. Modulo
        // 2^32, like the sums below; the last of them is checked.
        let moved = (self.data_bytes() as u32).wrapping_sub(start as u32);
        self.kept_bytes += bytes.len();
        u32::try_from(self.data_bytes()).expect("a row is shorter than 4 GiB");
        let (ends, _) = old.body[4 + 4 * first..4 + 4 * last].as_chunks::<4>();
        self.ends.extend(ends.iter().map(|end| u32::from_le_bytes(*end).wrapping_add(moved)));
        self.kept.push(Kept { at: self.data.len(), bytes });
    }

    /// Sets the flags.
    pub fn set_flags(&mut self, flags: u32) {
        self.flags = flags;
    }

    /// Sets when it expires, in milliseconds since 1970; 0 is never.
    pub fn set_expires_ms(&mut self, expires_ms: u64) {
        self.expires_ms = expires_ms;
    }

    /// Sets what a cache protocol notes.
    pub fn set_marks(&mut self, marks: Marks) {
        self.marks = marks;
    }

    /// Takes flags and expiry of another row.
    pub fn keep_attributes(&mut self, of: &Row<'_>) {
        self.flags = of.flags();
        self.expires_ms = of.expires_ms();
    }

    /// Bytes that [`RowBuf::encode`] writes.
    #[must_use]
    pub fn encoded_bytes(&self) -> usize {
        let parts = if self.kind == 0 { 0 } else { 4 + 4 * self.ends.len() };
        let flags = if self.flags == 0 { 0 } else { 4 };
        let expiry = if self.expires_ms == 0 { 0 } else { 8 };
        let cas = if self.marks.cas == 0 { 0 } else { 8 };
        HEAD_BYTES + flags + expiry + cas + parts + self.data_bytes()
    }

    /// Appends the row's bytes to `out`.
    ///
    /// # Panics
    /// If the row has 2^32 parts or more, or keeps fields of a row that it replaces.
    pub fn encode(&self, version: u64, out: &mut Vec<u8>) {
        self.encode_over(None, version, out);
    }

    /// Appends the bytes of a row that replaces `old` to `out`.
    ///
    /// # Panics
    /// If the row has 2^32 parts or more, or keeps fields that `old` does not have.
    pub fn encode_over(&self, old: Option<&Row<'_>>, version: u64, out: &mut Vec<u8>) {
        out.reserve(self.encoded_bytes());
        let mut head = self.kind;
        if self.flags != 0 {
            head |= HAS_FLAGS;
        }
        if self.expires_ms != 0 {
            head |= HAS_EXPIRY;
        }
        if self.marks.stale {
            head |= STALE;
        }
        if self.marks.promised {
            head |= PROMISED;
        }
        if self.marks.cas != 0 {
            head |= HAS_CAS;
        }
        out.push(head);
        out.extend_from_slice(&version.to_le_bytes());
        if self.flags != 0 {
            out.extend_from_slice(&self.flags.to_le_bytes());
        }
        if self.expires_ms != 0 {
            out.extend_from_slice(&self.expires_ms.to_le_bytes());
        }
        if self.marks.cas != 0 {
            out.extend_from_slice(&self.marks.cas.to_le_bytes());
        }
        if self.kind != 0 {
            let count = u32::try_from(self.ends.len()).expect("a row has fewer than 2^32 parts");
            out.extend_from_slice(&count.to_le_bytes());
            for end in &self.ends {
                out.extend_from_slice(&end.to_le_bytes());
            }
        }
        let mut next = 0;
        for Kept { at, bytes } in &self.kept {
            let old = old.expect("the row whose fields are kept");
            out.extend_from_slice(&self.data[next..*at]);
            out.extend_from_slice(&old.body[4 + 4 * old.count()..][bytes.clone()]);
            next = *at;
        }
        out.extend_from_slice(&self.data[next..]);
    }

    fn part(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
        self.ends.push(u32::try_from(self.data_bytes()).expect("a row is shorter than 4 GiB"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_kept_the_memory_of_the_largest_before_it() {
        let mut row = RowBuf::new();
        row.set_value(&[b'v'; KEPT_BYTES_MAX + 1]);
        row.shrink();
        assert_eq!(row.data.capacity(), 0);
        row.set_value(b"small");
        row.shrink();
        assert!(row.data.capacity() > 0, "small memory is used again");
        row.fields();
        (0..300_000).for_each(|_| row.push_field(b"", b""));
        row.shrink();
        assert_eq!((row.ends.capacity(), row.data.capacity() > 0), (0, true));
    }

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
    fn kept_fields_are_those_of_the_old_row() {
        let (mut old, mut bytes) = (RowBuf::new(), Vec::new());
        old.fields();
        let names = ["a", "bb", "c", "dddd"];
        names.iter().for_each(|name| old.push_field(name.as_bytes(), name.repeat(3).as_bytes()));
        old.encode(1, &mut bytes);
        let row = Row::check(&bytes).unwrap();
        for (start, end) in (0..=4).flat_map(|start| (start..=4).map(move |end| (start, end))) {
            for before in [&b""[..], b"longer than what was before"] {
                let (mut by_run, mut by_field) = (RowBuf::new(), RowBuf::new());
                for buf in [&mut by_run, &mut by_field] {
                    buf.fields();
                    buf.push_field(b"", before);
                }
                by_run.keep_fields(&row, start..end);
                for (name, value) in (start..end).map(|index| row.field(index).unwrap()) {
                    by_field.push_field(name, value);
                }
                let (mut run, mut field) = (Vec::new(), Vec::new());
                [&mut by_run, &mut by_field].iter_mut().for_each(|buf| buf.push_field(b"x", b"y"));
                assert_eq!(by_run.encoded_bytes(), by_field.encoded_bytes());
                by_run.encode_over(Some(&row), 9, &mut run);
                by_field.encode(9, &mut field);
                assert_eq!(run, field, "fields {start}..{end} after {before:?}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "the fields 3..5 of a row of 4 columns")]
    fn fields_that_a_row_does_not_have_are_not_kept() {
        let (mut old, mut bytes) = (RowBuf::new(), Vec::new());
        old.fields();
        [b"a", b"b", b"c", b"d"].iter().for_each(|name| old.push_field(*name, b""));
        old.encode(1, &mut bytes);
        let mut buf = RowBuf::new();
        buf.fields();
        buf.keep_fields(&Row::of(&bytes), 3..5);
    }

    #[test]
    #[should_panic(expected = "the row whose fields are kept")]
    fn kept_fields_are_not_encoded_without_their_row() {
        let (mut old, mut bytes) = (RowBuf::new(), Vec::new());
        old.fields();
        old.push_field(b"a", b"1");
        old.encode(1, &mut bytes);
        let mut buf = RowBuf::new();
        buf.fields();
        buf.keep_fields(&Row::of(&bytes), 0..1);
        buf.encode(2, &mut Vec::new());
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

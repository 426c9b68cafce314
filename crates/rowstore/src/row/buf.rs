//! A row while it is built: parts that are added, and runs of fields that are kept from the row
//! that it replaces.

use std::ops::Range;

use super::{
    COLLECTION, HAS_CAS, HAS_EXPIRY, HAS_FLAGS, HASH, HEAD_BYTES, Kind, Marks, PROMISED, Row, STALE,
};

/// Bytes that a [`RowBuf`] keeps from one turn of its session to the next.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// A row being made. What it holds is set by one of `set_value`, `columns`, `fields`, `collection`.
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

    /// Whether it has columns or fields.
    fn has_parts(&self) -> bool {
        self.kind != 0 && self.kind != COLLECTION
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
        if self.kept.capacity() > KEPT_BYTES_MAX / size_of::<Kept>() {
            self.kept = Vec::new();
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

    /// Makes it the header of the collection with this id.
    pub fn collection(&mut self, id: u64) {
        self.kind = COLLECTION;
        self.clear_parts();
        self.data.push(HASH);
        self.data.extend_from_slice(&id.to_le_bytes());
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
        let parts = if self.has_parts() { 4 + 4 * self.ends.len() } else { 0 };
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
        if self.has_parts() {
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
        let mut bytes = Vec::new();
        row.fields();
        row.push_field(b"a", b"1");
        row.encode(1, &mut bytes);
        row.fields();
        (0..100_000).for_each(|_| row.keep_fields(&Row::of(&bytes), 0..1));
        row.shrink();
        assert_eq!(row.kept.capacity(), 0);
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
}

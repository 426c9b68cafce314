//! A row seen as a hash, and written as one.
//!
//! ```text
//!   Fields    a: 1, b: 2         the fields, in the order of their names
//!   Columns   [1, 2]             fields called 0, 1, ... in the order of their numbers
//!   Collection                   a large hash, whose fields are rows of their own: `large`
//!   Value     1                  no hash: WRONGTYPE
//! ```
//!
//! A write of a field merges the old fields with the new ones, both in order, into a new row. That
//! is linear in the size of the hash, which is small. A row of columns becomes one of fields
//! thereby.

use std::ops::Range;

use keyrack_decimal::Decimal;
use keyrack_rowstore::{Kind, Row, RowBuf};

use crate::redis::fault::Fault;
use crate::redis::number::natural;

/// A row seen as a hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hash<'r> {
    row: Row<'r>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Name<'r> {
    Text(&'r [u8]),
    Number(Decimal),
}

impl std::ops::Deref for Name<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Name::Text(text) => text,
            Name::Number(number) => number,
        }
    }
}

impl<'r> Hash<'r> {
    /// The hash that a row is, if there is a row. [`Fault::Large`] for a header.
    pub(crate) fn of(row: Option<Row<'r>>) -> Result<Option<Self>, Fault> {
        let Some(row) = row else { return Ok(None) };
        match (row.kind(), row.collection()) {
            (Kind::Value, _) => Err(Fault::WRONG_TYPE),
            (_, Some(id)) => Err(Fault::Large(id)),
            _ => Ok(Some(Hash { row })),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.row.columns()
    }

    pub(crate) fn field(&self, index: usize) -> (Name<'r>, &'r [u8]) {
        if self.row.kind() == Kind::Fields {
            let (name, value) = self.row.field(index).unwrap_or_default();
            return (Name::Text(name), value);
        }
        let value = self.row.column(index).unwrap_or_default();
        (Name::Number(Decimal::new(index as u64)), value)
    }

    pub(crate) fn fields(&self) -> impl Iterator<Item = (Name<'r>, &'r [u8])> + use<'r> {
        let hash = *self;
        (0..hash.len()).map(move |index| hash.field(index))
    }

    pub(crate) fn value(&self, name: &[u8]) -> Option<&'r [u8]> {
        if self.row.kind() == Kind::Fields {
            return self.row.field(self.row.find(name).ok()?).map(|(_, value)| value);
        }
        self.row.column(usize::try_from(natural(name)?).ok()?)
    }

    /// The index of the first field whose name is not below `name`, in the order of names; for
    /// columns in the order of their numbers.
    pub(crate) fn seek(&self, name: &[u8]) -> usize {
        if self.row.kind() == Kind::Fields {
            return match self.row.find(name) {
                Ok(index) | Err(index) => index,
            };
        }
        let number = natural(name).and_then(|number| usize::try_from(number).ok());
        number.unwrap_or(usize::MAX).min(self.len())
    }

    /// The bytes of a row of these fields in the order of their names, where that is not their own.
    fn in_name_order(&self) -> Option<Vec<u8>> {
        if self.row.kind() != Kind::Columns {
            return None;
        }
        let mut fields: Vec<_> = self.fields().collect();
        fields.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let (mut buf, mut bytes) = (RowBuf::new(), Vec::new());
        buf.fields();
        buf.keep_attributes(&self.row);
        fields.iter().for_each(|(name, value)| buf.push_field(name, value));
        buf.encode(self.row.version(), &mut bytes);
        Some(bytes)
    }
}

/// The outcome of a merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Merged {
    pub(crate) added: usize,
    pub(crate) removed: usize,
    /// Fields of the new row.
    pub(crate) left: usize,
}

/// Writes `old` with `count` changes into `buf`, attributes included. `change` gives the name of a
/// change and its value, or nothing to remove the field; names ascend, and none comes twice.
///
/// The fields between two changes are kept as one piece: O(changes * log(fields)) comparisons.
pub(crate) fn merge<'n>(
    old: Option<Hash<'_>>,
    count: usize,
    change: impl Fn(usize) -> (&'n [u8], Option<&'n [u8]>),
    buf: &mut RowBuf,
) -> Merged {
    let mut merged = Merged::default();
    let sorted = old.and_then(|old| old.in_name_order());
    let old = sorted.as_deref().map(Row::of).or(old.map(|old| old.row));
    // A row in another order is no part of the new one.
    let keep = |buf: &mut RowBuf, old: &Row<'_>, range: Range<usize>| match sorted {
        None => buf.keep_fields(old, range),
        Some(_) => range
            .filter_map(|index| old.field(index))
            .for_each(|(name, value)| buf.push_field(name, value)),
    };
    buf.fields();
    if let Some(old) = &old {
        buf.keep_attributes(old);
    }
    // The first field of the old row that is not in the new one yet.
    let mut next = 0;
    for (name, value) in (0..count).map(change) {
        let found = old.map_or(Err(0), |old| old.find_from(next, name));
        if let (Some(old), Ok(at) | Err(at)) = (&old, found) {
            keep(buf, old, next..at);
            next = at + usize::from(found.is_ok());
        }
        match value {
            Some(value) => {
                buf.push_field(name, value);
                merged.added += usize::from(found.is_err());
            }
            None => merged.removed += usize::from(found.is_ok()),
        }
    }
    let old_count = old.map_or(0, |old| old.columns());
    if let Some(old) = &old {
        keep(buf, old, next..old_count);
    }
    merged.left = old_count + merged.added - merged.removed;
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(old: Option<Hash<'_>>, buf: &RowBuf) -> String {
        let mut bytes = Vec::new();
        buf.encode_over(old.as_ref().map(|old| &old.row), 1, &mut bytes);
        let row = Row::check(&bytes).unwrap();
        let hash = Hash::of(Some(row)).unwrap().unwrap();
        let fields = hash.fields();
        fields
            .map(|(name, value)| {
                format!("{}={} ", String::from_utf8_lossy(&name), String::from_utf8_lossy(value))
            })
            .collect()
    }

    #[test]
    fn changes_are_merged_in_order() {
        let mut first = RowBuf::new();
        let changes: [(&[u8], Option<&[u8]>); 3] =
            [(b"b", Some(b"1")), (b"d", Some(b"2")), (b"x", None)];
        let merged = merge(None, 3, |index| changes[index], &mut first);
        assert_eq!(merged, Merged { added: 2, removed: 0, left: 2 });
        assert_eq!(text(None, &first), "b=1 d=2 ");
        first.set_expires_ms(9);
        let mut bytes = Vec::new();
        first.encode(1, &mut bytes);
        let old = Hash::of(Row::check(&bytes)).unwrap();
        let changes: [(&[u8], Option<&[u8]>); 4] =
            [(b"a", Some(b"0")), (b"b", None), (b"d", Some(b"3")), (b"e", Some(b"4"))];
        let mut second = RowBuf::new();
        let merged = merge(old, 4, |index| changes[index], &mut second);
        assert_eq!(merged, Merged { added: 2, removed: 1, left: 3 });
        assert_eq!(text(old, &second), "a=0 d=3 e=4 ");
    }

    #[test]
    fn columns_become_fields_in_the_order_of_names() {
        let mut columns = RowBuf::new();
        columns.columns();
        (0..12u8).for_each(|column| columns.push(&[b'a' + column]));
        let mut bytes = Vec::new();
        columns.encode(1, &mut bytes);
        let old = Hash::of(Row::check(&bytes)).unwrap();
        assert_eq!(old.unwrap().value(b"10"), Some(&b"k"[..]));
        assert_eq!(old.unwrap().value(b"010"), None);
        let mut buf = RowBuf::new();
        merge(old, 1, |_| (b"11", Some(b"new")), &mut buf);
        assert_eq!(text(old, &buf), "0=a 1=b 10=k 11=new 2=c 3=d 4=e 5=f 6=g 7=h 8=i 9=j ");
    }
}

//! Rows of columns as plain values, for stores that know keys and values alone.
//!
//! A row is its columns in ascending order, each as number, length and bytes:
//!
//! ```text
//!   +------------+-----------+-------+------------+-----------+-------+--
//!   | column u16 | bytes u32 | value | column u16 | bytes u32 | value | ..   little endian
//!   +------------+-----------+-------+------------+-----------+-------+--
//! ```
//!
//! Putting one column rewrites the row: a client does it inside one atomic update of the key, so
//! that columns put by different threads do not undo each other. A value that is not a row, such
//! as one that another job has put, has no columns.

use std::cmp::Ordering;

/// Bytes in front of each value.
const HEAD_BYTES: usize = 6;

/// The columns of a row, in their order; ends at the first bytes that are not a column.
struct Columns<'r>(&'r [u8]);

impl<'r> Iterator for Columns<'r> {
    type Item = (u16, &'r [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (head, rest) = self.0.split_first_chunk::<HEAD_BYTES>()?;
        let column = u16::from_le_bytes([head[0], head[1]]);
        let bytes = u32::from_le_bytes([head[2], head[3], head[4], head[5]]) as usize;
        let (value, rest) = rest.split_at_checked(bytes)?;
        self.0 = rest;
        Some((column, value))
    }
}

fn is_row(bytes: &[u8]) -> bool {
    let mut columns = Columns(bytes);
    let ascending = columns.by_ref().map(|(column, _)| column).is_sorted_by(|a, b| a < b);
    ascending && columns.0.is_empty()
}

/// The value of `column` in `row`. O(columns).
#[must_use]
pub fn column_of(row: &[u8], column: u16) -> Option<&[u8]> {
    if !is_row(row) {
        return None;
    }
    Columns(row).find(|(known, _)| *known == column).map(|(_, value)| value)
}

/// Appends to `new` the row `old` with `column` set to `value`. What is not a row counts as one
/// without columns. O(bytes of the row). A value of 4 GiB or more is cut to its length modulo
/// 2^32; no store takes one.
pub fn with_column(old: Option<&[u8]>, column: u16, value: &[u8], new: &mut Vec<u8>) {
    let old = old.filter(|old| is_row(old)).unwrap_or_default();
    let mut push = |column: u16, value: &[u8]| {
        let bytes = value.len() as u32;
        new.extend_from_slice(&column.to_le_bytes());
        new.extend_from_slice(&bytes.to_le_bytes());
        new.extend_from_slice(&value[..bytes as usize]);
    };
    let mut left = Some((column, value));
    for (known, present) in Columns(old) {
        match known.cmp(&column) {
            Ordering::Less => push(known, present),
            Ordering::Equal => {}
            Ordering::Greater => {
                if let Some((column, value)) = left.take() {
                    push(column, value);
                }
                push(known, present);
            }
        }
    }
    if let Some((column, value)) = left {
        push(column, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::mix64;
    use std::collections::BTreeMap;

    fn put(row: &mut Vec<u8>, column: u16, value: &[u8]) {
        let mut new = Vec::new();
        with_column(Some(row), column, value, &mut new);
        *row = new;
    }

    #[test]
    fn a_row_holds_what_was_put_last_in_each_column() {
        let (mut row, mut model) = (Vec::new(), BTreeMap::new());
        for i in 0..500 {
            let (column, bytes) = ((mix64(i) % 24) as u16, (mix64(i + 1000) % 9) as usize);
            let value = vec![i as u8; bytes];
            put(&mut row, column, &value);
            model.insert(column, value);
            for column in 0..25 {
                let expected = model.get(&column).map(Vec::as_slice);
                assert_eq!(column_of(&row, column), expected, "after {i} puts");
            }
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_page() {
        let mut row = Vec::new();
        put(&mut row, 0x0102, b"x");
        put(&mut row, 1, b"");
        assert_eq!(row, [1, 0, 0, 0, 0, 0, 2, 1, 1, 0, 0, 0, b'x']);
    }

    #[test]
    fn what_is_no_row_has_no_columns_and_is_replaced() {
        let twice: &[u8] = &[1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0];
        let too_long: &[u8] = &[0, 0, 9, 0, 0, 0, b'x'];
        for bad in [b"123".as_slice(), too_long, twice] {
            assert_eq!((column_of(bad, 0), column_of(bad, 1)), (None, None));
            let mut row = bad.to_vec();
            put(&mut row, 3, b"new");
            assert_eq!(column_of(&row, 3), Some(b"new".as_slice()));
            assert_eq!(row.len(), 9);
        }
    }
}

//! The lists within messages, read as they are walked through.
//!
//! Each is made from a message whose elements were checked one by one, so that walking is nothing
//! but reading again; `left` counts what is to come. A list that is not what it should be cannot be
//! made, see the functions `check`.

use crate::msgpack::Reader;

/// Numbers of columns.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a> {
    reader: Reader<'a>,
    left: u32,
}

impl<'a> Columns<'a> {
    /// The `count` columns behind `reader`, if they are numbers below `columns_max`.
    #[inline]
    pub(super) fn check(reader: &mut Reader<'a>, count: u32, columns_max: u32) -> Option<Self> {
        let list = Self { reader: *reader, left: count };
        for _ in 0..count {
            column(reader, columns_max)?;
        }
        Some(list)
    }
}

/// A column's number.
#[inline]
fn column(reader: &mut Reader<'_>, columns_max: u32) -> Option<u32> {
    u32::try_from(reader.unsigned()?).ok().filter(|&column| column < columns_max)
}

impl Iterator for Columns<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        column(&mut self.reader, u32::MAX)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Columns<'_> {}

/// Columns, ascending, each with its new value.
#[derive(Clone, Copy, Debug)]
pub struct Changes<'a> {
    reader: Reader<'a>,
    left: u32,
}

impl<'a> Changes<'a> {
    /// The `count` changes behind `reader`: columns ascend and are below `columns_max`.
    #[inline]
    pub(super) fn check(
        reader: &mut Reader<'a>,
        count: u32,
        columns_max: u32,
        value_bytes_max: usize,
    ) -> Option<Self> {
        let list = Self { reader: *reader, left: count };
        let mut column_min = 0;
        for _ in 0..count {
            let column = column(reader, columns_max)?;
            let value = reader.str()?;
            if column < column_min || value.len() > value_bytes_max {
                return None;
            }
            // Below `columns_max`, a u32: no overflow.
            column_min = column + 1;
        }
        Some(list)
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = (u32, &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some((column(&mut self.reader, u32::MAX)?, self.reader.str()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Changes<'_> {}

/// Values of columns; `None` for a column that a row has not.
#[derive(Clone, Copy, Debug)]
pub struct Values<'a> {
    reader: Reader<'a>,
    left: u32,
}

impl<'a> Values<'a> {
    pub(super) fn check(reader: &mut Reader<'a>, count: u32) -> Option<Self> {
        let list = Self { reader: *reader, left: count };
        for _ in 0..count {
            reader.optional_str()?;
        }
        Some(list)
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Option<&'a [u8]>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        self.reader.optional_str()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Values<'_> {}

/// Keys, ascending, each with what its row holds.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a> {
    reader: Reader<'a>,
    left: u32,
}

/// What a scan gives of a row.
#[derive(Clone, Copy, Debug)]
pub enum ScanValue<'a> {
    /// The only column, if the row has it.
    One(Option<&'a [u8]>),
    /// Several columns.
    Row(Values<'a>),
}

impl<'a> Pairs<'a> {
    pub(super) fn check(reader: &mut Reader<'a>, count: u32) -> Option<Self> {
        let list = Self { reader: *reader, left: count };
        for _ in 0..count {
            pair(reader)?;
        }
        Some(list)
    }
}

fn pair<'a>(reader: &mut Reader<'a>) -> Option<(&'a [u8], ScanValue<'a>)> {
    let key = reader.str()?;
    let value = match reader.array() {
        Some(count) => ScanValue::Row(Values::check(reader, count)?),
        None => ScanValue::One(reader.optional_str()?),
    };
    Some((key, value))
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], ScanValue<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        pair(&mut self.reader)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Pairs<'_> {}

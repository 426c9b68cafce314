//! A walk through a value that is whole.

use super::int::Int;
use super::item::{Item, item};

/// Elements in order, from bytes in which [`super::Scan`] has found an end. Behind the last one,
/// and at one that is not what was asked for, the answer is `None`, and the reader stays where it
/// is.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader at the first byte.
    #[inline]
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The bytes that were not read.
    #[inline]
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next element, whatever it is.
    #[inline]
    pub fn item(&mut self) -> Option<Item<'a>> {
        self.expect(Some)
    }

    /// The next element, a number.
    #[inline]
    pub fn int(&mut self) -> Option<Int> {
        self.expect(|item| if let Item::Int(int) = item { Some(int) } else { None })
    }

    /// The next element, a number not below zero.
    #[inline]
    pub fn unsigned(&mut self) -> Option<u64> {
        // Operations and columns are mostly small.
        if let [number @ 0..=0x7f, rest @ ..] = self.rest {
            self.rest = rest;
            return Some(u64::from(*number));
        }
        self.expect(|item| if let Item::Int(int) = item { int.as_u64() } else { None })
    }

    /// The next element, a string.
    #[inline]
    pub fn str(&mut self) -> Option<&'a [u8]> {
        // Keys and values are mostly short.
        if let [head @ 0xa0..=0xbf, behind @ ..] = self.rest {
            let (text, rest) = behind.split_at_checked(usize::from(head & 31))?;
            self.rest = rest;
            return Some(text);
        }
        self.expect(|item| if let Item::Str(bytes) = item { Some(bytes) } else { None })
    }

    /// The next element, true or false.
    pub fn bool(&mut self) -> Option<bool> {
        self.expect(|item| if let Item::Bool(truth) = item { Some(truth) } else { None })
    }

    /// The next element, a string or nil.
    #[inline]
    pub fn optional_str(&mut self) -> Option<Option<&'a [u8]>> {
        if let [0xa0..=0xbf, ..] = self.rest {
            return self.str().map(Some);
        }
        self.expect(|item| match item {
            Item::Str(bytes) => Some(Some(bytes)),
            Item::Nil => Some(None),
            _ => None,
        })
    }

    /// The head of an array: how many elements follow.
    #[inline]
    pub fn array(&mut self) -> Option<u32> {
        if let [head @ 0x90..=0x9f, rest @ ..] = self.rest {
            self.rest = rest;
            return Some(u32::from(head & 15));
        }
        self.expect(|item| if let Item::Array(count) = item { Some(count) } else { None })
    }

    /// The head of a map: how many pairs follow.
    pub fn map(&mut self) -> Option<u32> {
        self.expect(|item| if let Item::Map(count) = item { Some(count) } else { None })
    }

    /// Passes over one value and all that is in it. O(its bytes).
    pub fn skip(&mut self) -> Option<()> {
        let start = self.rest;
        let mut missing = 1_u64;
        while missing > 0 {
            let Some(item) = self.item() else {
                self.rest = start;
                return None;
            };
            missing += match item {
                Item::Array(count) => u64::from(count),
                Item::Map(count) => 2 * u64::from(count),
                _ => 0,
            };
            missing -= 1;
        }
        Some(())
    }

    #[inline]
    fn expect<T>(&mut self, convert: impl FnOnce(Item<'a>) -> Option<T>) -> Option<T> {
        let (item, bytes) = item(self.rest).ok()??;
        let converted = convert(item)?;
        self.rest = &self.rest[bytes..];
        Some(converted)
    }
}

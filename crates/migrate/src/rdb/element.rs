//! The elements of packed lists: text, or a number in fewer bytes.

use keyrack_wire::write_i64;

/// An element of a packed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element<'a> {
    Text(&'a [u8]),
    Integer(i64),
}

impl Element<'_> {
    /// Writes it as text.
    pub(super) fn write(self, into: &mut Vec<u8>) {
        into.clear();
        match self {
            Element::Text(text) => into.extend_from_slice(text),
            Element::Integer(number) => write_i64(into, number),
        }
    }
}

/// Takes `count` bytes from the front.
pub(super) fn take<'a>(rest: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, behind) = rest.split_at_checked(count)?;
    *rest = behind;
    Some(taken)
}

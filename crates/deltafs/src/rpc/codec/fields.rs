//! Fields of frames: numbers, bytes after their lengths, lists of such.
//!
//! **Invariant:** every field is held against the end of its frame before memory is taken for it.

use super::limits::{BATCH_NAMES_MAX, FRAME_BYTES_MAX, GROUPS_MAX};
use crate::id::DirId;
use crate::user::User;

/// A type that stands in frames. Its bytes are the same in both directions.
pub(super) trait Field<'a>: Sized {
    /// Appends it to a frame.
    fn put(&self, out: &mut Vec<u8>);

    /// Reads it. `None` if it is cut off or not valid.
    fn take(at: &mut Fields<'a>) -> Option<Self>;
}

/// Fields that were not read yet.
#[derive(Debug)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    #[inline]
    pub(super) fn take<T: Field<'a>>(&mut self) -> Option<T> {
        T::take(self)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*array)
    }

    /// Bytes after their length of three bytes.
    pub(super) fn bytes(&mut self, max: usize) -> Option<&'a [u8]> {
        let [a, b, c] = self.array()?;
        let length = u32::from_le_bytes([a, b, c, 0]) as usize;
        if length > max {
            return None;
        }
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// A list, each of whose items has at least `item_bytes`.
    pub(super) fn items<T: Field<'a>>(
        &mut self,
        count: usize,
        item_bytes: usize,
    ) -> Option<Vec<T>> {
        let mut items = Vec::with_capacity(count.min(self.0.len() / item_bytes));
        for _ in 0..count {
            items.push(self.take()?);
        }
        Some(items)
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Field<'_> for $number {
            #[inline]
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            #[inline]
            fn take(at: &mut Fields<'_>) -> Option<Self> {
                at.array().map(<$number>::from_le_bytes)
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, u128);

/// 0 or 1.
impl Field<'_> for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(at: &mut Fields<'_>) -> Option<bool> {
        at.take::<u8>().map(|byte| byte != 0)
    }
}

impl Field<'_> for [u8; 16] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn take(at: &mut Fields<'_>) -> Option<Self> {
        at.array()
    }
}

/// A name that is too long for any is left to the check of names, for its message.
impl<'a> Field<'a> for &'a [u8] {
    fn put(&self, out: &mut Vec<u8>) {
        debug_assert!(self.len() < 1 << 24);
        out.extend_from_slice(&(self.len() as u32).to_le_bytes()[..3]);
        out.extend_from_slice(self);
    }

    fn take(at: &mut Fields<'a>) -> Option<Self> {
        at.bytes(FRAME_BYTES_MAX)
    }
}

impl Field<'_> for Vec<u8> {
    fn put(&self, out: &mut Vec<u8>) {
        (&self[..]).put(out);
    }

    fn take(at: &mut Fields<'_>) -> Option<Self> {
        at.bytes(FRAME_BYTES_MAX).map(<[u8]>::to_vec)
    }
}

impl<'a> Field<'a> for Vec<&'a [u8]> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u16).put(out);
        self.iter().for_each(|bytes| bytes.put(out));
    }

    fn take(at: &mut Fields<'a>) -> Option<Self> {
        let count = usize::from(at.take::<u16>()?);
        if count > BATCH_NAMES_MAX { None } else { at.items(count, 3) }
    }
}

/// The groups of a user.
impl Field<'_> for Vec<u32> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u16).put(out);
        self.iter().for_each(|group| group.put(out));
    }

    fn take(at: &mut Fields<'_>) -> Option<Self> {
        let count = usize::from(at.take::<u16>()?);
        if count > GROUPS_MAX { None } else { at.items(count, 4) }
    }
}

impl Field<'_> for DirId {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }

    fn take(at: &mut Fields<'_>) -> Option<Self> {
        at.take().map(DirId)
    }
}

/// Numbers of directories.
impl Field<'_> for Vec<u128> {
    fn put(&self, out: &mut Vec<u8>) {
        (self.len() as u32).put(out);
        self.iter().for_each(|inode| inode.put(out));
    }

    fn take(at: &mut Fields<'_>) -> Option<Self> {
        let count = at.take::<u32>()? as usize;
        at.items(count, 16)
    }
}

/// Declares an enum of operations. Of each operation the table has the number, the name for
/// messages, and the fields in the order in which they stand in a frame.
macro_rules! operations {
    (
        $(#[$attribute:meta])*
        pub enum $Enum:ident<$life:lifetime> {
            $(
                $(#[$doc:meta])*
                $tag:literal $name:literal $Variant:ident
                $({ $($(#[$field_doc:meta])* $field:ident: $type:ty),* $(,)? })?;
            )*
        }
        $(and $(#[$others_doc:meta])* $Others:ident($others:ty);)?
    ) => {
        $(#[$attribute])*
        pub enum $Enum<$life> {
            $($(#[$doc])* $Variant $({ $($(#[$field_doc])* $field: $type),* })?,)*
            $($(#[$others_doc])* $Others($others),)?
        }

        impl<$life> $Enum<$life> {
            /// The operation's number.
            #[must_use]
            pub fn tag(&self) -> u8 {
                match self {
                    $($Enum::$Variant { .. } => $tag,)*
                    $($Enum::$Others(others) => others.tag(),)?
                }
            }

            /// The name of the operation with that number.
            pub(super) fn find_name(tag: u8) -> Option<&'static str> {
                match tag {
                    $($tag => Some($name),)*
                    _ => None$(.or_else(|| <$others>::find_name(tag)))?,
                }
            }

            /// Appends the fields.
            pub(super) fn fields(&self, out: &mut Vec<u8>) {
                match self {
                    $($Enum::$Variant $({ $($field),* })? => { $($($field.put(out);)*)? })*
                    $($Enum::$Others(others) => others.fields(out),)?
                }
            }

            /// Reads the fields of the operation with that number.
            pub(super) fn take(tag: u8, at: &mut Fields<$life>) -> Option<Self> {
                Some(match tag {
                    $($tag => $Enum::$Variant $({ $($field: at.take()?),* })?,)*
                    _ => return None$(.or_else(|| <$others>::take(tag, at).map($Enum::$Others)))?,
                })
            }
        }
    };
}

/// The fields of a struct stand in a frame in the order in which they are named here.
macro_rules! in_order {
    ($Struct:ident { $($field:ident),* $(,)? }) => {
        impl Field<'_> for $Struct {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }

            fn take(at: &mut Fields<'_>) -> Option<Self> {
                Some($Struct { $($field: at.take()?),* })
            }
        }
    };
}

pub(super) use {in_order, operations};

in_order!(User { uid, gid, groups });

//! A value as the maps hold it: a byte string of a fixed size in memory.
//!
//! ```text
//!   up to 22 bytes   | 1 | length | bytes ................ |   24 bytes, nothing else
//!   more             | 0 | ...    | pointer | length       |   and an allocation of the bytes
//! ```
//!
//! The values of an index are short, and a map that holds a machine word must not pay for two
//! allocations where one does.

/// Bytes that need no allocation.
const SHORT_BYTES_MAX: usize = 22;

/// A byte string.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Short(u8, [u8; SHORT_BYTES_MAX]),
    Long(Box<[u8]>),
}

const _: () = assert!(size_of::<Value>() == 24);

impl Value {
    pub(super) fn new(bytes: &[u8]) -> Value {
        let mut short = [0; SHORT_BYTES_MAX];
        match short.get_mut(..bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                Value::Short(bytes.len() as u8, short)
            }
            None => Value::Long(bytes.into()),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Value::Short(length, bytes) => &bytes[..usize::from(*length)],
            Value::Long(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_all_lengths_come_back() {
        for length in [0, 1, 8, SHORT_BYTES_MAX, SHORT_BYTES_MAX + 1, 300] {
            let bytes: Vec<u8> = (0..length).map(|i| i as u8 ^ 0x55).collect();
            let value = Value::new(&bytes);
            assert_eq!(value.bytes(), bytes);
            assert_eq!(matches!(value, Value::Short(..)), length <= SHORT_BYTES_MAX, "{length}");
        }
    }
}

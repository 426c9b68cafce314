//! A key of a space as the store has it. Short ones are put together without an allocation.

use super::order::Prefix;

/// Longer keys are put together on the heap.
const STACK_BYTES: usize = 160;

/// Lends prefix and key, one behind the other, to `act`.
#[inline]
pub(super) fn with_key<R>(prefix: &Prefix, key: &[u8], act: impl FnOnce(&[u8]) -> R) -> R {
    let prefix = prefix.bytes();
    let len = prefix.len() + key.len();
    if len > STACK_BYTES {
        return act(&[prefix, key].concat());
    }
    let mut buffer = [0; STACK_BYTES];
    buffer[..prefix.len()].copy_from_slice(prefix);
    buffer[prefix.len()..len].copy_from_slice(key);
    act(&buffer[..len])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_all_lengths_are_put_together() {
        for name in ["keyrack.bytewise", "another"] {
            let prefix = Prefix::new(300, name);
            for len in [0, 1, STACK_BYTES - 7, STACK_BYTES - 3, STACK_BYTES, 3 * STACK_BYTES] {
                let key: Vec<u8> = (0..len).map(|at| at as u8).collect();
                let whole = with_key(&prefix, &key, <[u8]>::to_vec);
                assert_eq!(whole.strip_prefix(prefix.bytes()), Some(&key[..]), "{len} bytes");
            }
        }
    }
}

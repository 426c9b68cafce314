//! The hash of libmemcached's default distribution: Jenkins' "one at a time".

/// Bytes are numbers with a sign, as they are for that library on x86.
pub(super) fn one_at_a_time(key: &[u8]) -> u32 {
    let mixed = key.iter().fold(0u32, |hash, byte| {
        let hash = hash.wrapping_add(i32::from(byte.cast_signed()).cast_unsigned());
        let hash = hash.wrapping_add(hash << 10);
        hash ^ (hash >> 6)
    });
    let hash = mixed.wrapping_add(mixed << 3);
    let hash = hash ^ (hash >> 11);
    hash.wrapping_add(hash << 15)
}

//! Which bucket a value falls into, and which values a bucket stands for.
//!
//! Log-linear: values below 256 have a bucket each; every octave above is cut into 128 equal
//! buckets; values of 2^40 (over 18 minutes in nanoseconds) and more share the last one.
//!
//! ```text
//! value   0  1 ... 255 | 256-257 258-259 ... 510-511 | 512-515 ... | ... | 2^40 and above
//! index   0  1 ... 255 | 256     257     ... 383     | 384     ... | ... | 4352
//! width   1            | 2                           | 4           |     |
//! ```
//!
//! With `s` the number of bits by which a value is longer than 8, the index is
//! `128 * s + (value >> s)`: the shifted value is 128..=255 in every octave (0..=255 when `s` is
//! 0). A bucket's width is at most 1/128 of its lowest value, its midpoint within 1/256 of any of
//! them. The original whose place this takes scaled small values up on insertion and not back on
//! reading, so that 31 ns read as 76; here small values are their own index.

/// Values below this are exact.
const EXACT_BITS: u32 = 8;
const SUB_BUCKETS_BITS: u32 = EXACT_BITS - 1;
/// The lowest value that is clamped.
pub(crate) const CLAMP_MIN: u64 = 1 << 40;
/// The bucket of clamped values.
pub(crate) const CLAMPED_INDEX: usize = index_of(CLAMP_MIN);
pub(crate) const BUCKETS: usize = CLAMPED_INDEX + 1;

const _: () = assert!(BUCKETS == 256 + (40 - 8) * 128 + 1);
const _: () = assert!(index_of(255) == 255 && index_of(256) == 256 && index_of(512) == 384);

/// The bucket of `value`. No branch: a bit-or, a count of leading zeros, two shifts and an add.
#[inline]
pub(crate) const fn index_of(value: u64) -> usize {
    let value = if value < CLAMP_MIN { value } else { CLAMP_MIN };
    // Or-ing in the top bit of the exact range makes `s` come out as 0 for all of it.
    let shift = 63 - (value | 1 << SUB_BUCKETS_BITS).leading_zeros() - SUB_BUCKETS_BITS;
    ((shift as usize) << SUB_BUCKETS_BITS) + (value >> shift) as usize
}

/// The lowest value of bucket `index`.
pub(crate) const fn low_of(index: usize) -> u64 {
    if index < 1 << EXACT_BITS {
        return index as u64;
    }
    let shift = (index >> SUB_BUCKETS_BITS) - 1;
    ((index - (shift << SUB_BUCKETS_BITS)) as u64) << shift
}

/// The highest value of bucket `index`; `u64::MAX` for the bucket of clamped values.
pub(crate) const fn high_of(index: usize) -> u64 {
    if index >= CLAMPED_INDEX { u64::MAX } else { low_of(index + 1) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_the_range_without_gap_or_overlap() {
        assert_eq!(low_of(0), 0);
        for index in 0..CLAMPED_INDEX {
            let (low, high) = (low_of(index), high_of(index));
            assert!(low <= high, "bucket {index}");
            assert_eq!(index_of(low), index);
            assert_eq!(index_of(high), index);
            assert_eq!(low_of(index + 1), high + 1);
        }
        assert_eq!(low_of(CLAMPED_INDEX), CLAMP_MIN);
        assert_eq!(high_of(CLAMPED_INDEX), u64::MAX);
        assert_eq!(index_of(u64::MAX), CLAMPED_INDEX);
    }

    #[test]
    fn width_is_one_up_to_256_and_at_most_a_128th_above() {
        for index in 0..CLAMPED_INDEX {
            let (low, width) = (low_of(index), high_of(index) - low_of(index) + 1);
            if low < 256 {
                assert_eq!(width, 1);
            } else {
                assert!(width * 128 <= low, "bucket {index}: width {width} at {low}");
            }
        }
    }
}

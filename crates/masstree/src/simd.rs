//! Comparing a number with all slices of a node at once.
//!
//! | processor | equal to one of 15 | how many of 24 are at most |
//! |---|---|---|
//! | x86-64 with AVX-512 | 2 compares into masks | 3 compares into masks |
//! | x86-64 with AVX2 | 4 compares | 6 compares, signs flipped |
//! | any other | 15 compares without branches | binary search |
//!
//! What is compared may be written by another thread meanwhile; the caller validates afterwards. So
//! the vectors are loaded by assembly: to the language such a load is one of a foreign function,
//! which may see any mixture of words, each of them whole. Miri knows no assembly and goes the
//! plain way.

use crate::node::INTERIOR_WIDTH;
use crate::permutation::WIDTH;
use keyrack_concurrent::atomic::{AtomicU64, Ordering::Relaxed};

/// One bit for each slot whose slice is `wanted`.
#[inline]
pub(crate) fn equal(slices: &[AtomicU64; WIDTH], wanted: u64) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    match x86::level() {
        // SAFETY: the processor has AVX-512F, and the array is 120 readable bytes.
        x86::AVX512 => return unsafe { x86::equal_avx512(slices.as_ptr(), wanted) },
        // SAFETY: the processor has AVX2, and the array is 120 readable bytes.
        x86::AVX2 => return unsafe { x86::equal_avx2(slices.as_ptr(), wanted) },
        _ => {}
    }
    equal_plain(slices, wanted)
}

/// How many of the first `count` separators, which ascend, are at most `wanted`.
#[inline]
pub(crate) fn at_most(
    separators: &[AtomicU64; INTERIOR_WIDTH],
    count: usize,
    wanted: u64,
) -> usize {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let mask = match x86::level() {
            // SAFETY: the processor has AVX-512F, and the array is 192 readable bytes.
            x86::AVX512 => Some(unsafe { x86::at_most_avx512(separators.as_ptr(), wanted) }),
            // SAFETY: the processor has AVX2, and the array is 192 readable bytes.
            x86::AVX2 => Some(unsafe { x86::at_most_avx2(separators.as_ptr(), wanted) }),
            _ => None,
        };
        if let Some(mask) = mask {
            // Separators ascend, so the ones come first.
            return (mask & ((1 << count) - 1)).trailing_ones() as usize;
        }
    }
    at_most_plain(separators, count, wanted)
}

fn equal_plain(slices: &[AtomicU64; WIDTH], wanted: u64) -> u32 {
    let bits = slices.iter().enumerate();
    bits.fold(0, |mask, (at, slice)| mask | u32::from(slice.load(Relaxed) == wanted) << at)
}

fn at_most_plain(separators: &[AtomicU64; INTERIOR_WIDTH], count: usize, wanted: u64) -> usize {
    separators[..count].partition_point(|separator| separator.load(Relaxed) <= wanted)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86 {
    use keyrack_concurrent::atomic::AtomicU64;
    use std::arch::asm;
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

    const UNKNOWN: u8 = 0;
    const PLAIN: u8 = 1;
    pub(super) const AVX2: u8 = 2;
    pub(super) const AVX512: u8 = 3;

    /// What the processor has. Every thread finds the same, so a race is none.
    static LEVEL: AtomicU8 = AtomicU8::new(UNKNOWN);

    #[inline]
    pub(super) fn level() -> u8 {
        match LEVEL.load(Relaxed) {
            UNKNOWN => detect(),
            level => level,
        }
    }

    #[cold]
    fn detect() -> u8 {
        let level = if is_x86_feature_detected!("avx512f") {
            AVX512
        } else if is_x86_feature_detected!("avx2") {
            AVX2
        } else {
            PLAIN
        };
        LEVEL.store(level, Relaxed);
        level
    }

    /// # Safety
    /// The processor has AVX-512F, and fifteen words are readable from `slices` on.
    #[inline]
    pub(super) unsafe fn equal_avx512(slices: *const AtomicU64, wanted: u64) -> u32 {
        let (low, high): (u32, u32);
        // SAFETY: as the caller promises; the second load begins at the seventh word, so both
        // are inside. Nothing is written.
        unsafe {
            asm!(
                "vpbroadcastq zmm16, {wanted}",
                "vpcmpeqq k1, zmm16, zmmword ptr [{at}]",
                "vpcmpeqq k2, zmm16, zmmword ptr [{at} + 56]",
                "kmovw {low:e}, k1",
                "kmovw {high:e}, k2",
                wanted = in(reg) wanted,
                at = in(reg) slices,
                low = lateout(reg) low,
                high = lateout(reg) high,
                out("zmm16") _, out("k1") _, out("k2") _,
                options(readonly, nostack, preserves_flags),
            );
        }
        low | high << 7
    }

    /// # Safety
    /// The processor has AVX-512F, and 24 words are readable from `separators` on.
    #[inline]
    pub(super) unsafe fn at_most_avx512(separators: *const AtomicU64, wanted: u64) -> u32 {
        let (first, second, third): (u32, u32, u32);
        // SAFETY: as the caller promises. Nothing is written. Predicate 5 is "not below".
        unsafe {
            asm!(
                "vpbroadcastq zmm16, {wanted}",
                "vpcmpuq k1, zmm16, zmmword ptr [{at}], 5",
                "vpcmpuq k2, zmm16, zmmword ptr [{at} + 64], 5",
                "vpcmpuq k3, zmm16, zmmword ptr [{at} + 128], 5",
                "kmovw {first:e}, k1",
                "kmovw {second:e}, k2",
                "kmovw {third:e}, k3",
                wanted = in(reg) wanted,
                at = in(reg) separators,
                first = lateout(reg) first,
                second = lateout(reg) second,
                third = lateout(reg) third,
                out("zmm16") _, out("k1") _, out("k2") _, out("k3") _,
                options(readonly, nostack, preserves_flags),
            );
        }
        first | second << 8 | third << 16
    }

    /// # Safety
    /// The processor has AVX2, and fifteen words are readable from `slices` on.
    #[inline]
    pub(super) unsafe fn equal_avx2(slices: *const AtomicU64, wanted: u64) -> u32 {
        let mut mask = 0;
        // The last four overlap the ones before, so that the end is inside.
        for at in [0, 4, 8, 11] {
            let bits: u32;
            // SAFETY: as the caller promises. Nothing is written.
            unsafe {
                asm!(
                    "vmovq xmm0, {wanted}",
                    "vpbroadcastq ymm0, xmm0",
                    "vpcmpeqq ymm0, ymm0, ymmword ptr [{at}]",
                    "vmovmskpd {bits:e}, ymm0",
                    wanted = in(reg) wanted,
                    at = in(reg) slices.wrapping_add(at),
                    bits = lateout(reg) bits,
                    out("ymm0") _,
                    options(readonly, nostack, preserves_flags),
                );
            }
            mask |= bits << at;
        }
        clear_upper_halves();
        mask
    }

    /// # Safety
    /// The processor has AVX2, and 24 words are readable from `separators` on.
    #[inline]
    pub(super) unsafe fn at_most_avx2(separators: *const AtomicU64, wanted: u64) -> u32 {
        const SIGN: u64 = 1 << 63;
        let mut above = 0;
        for at in (0..super::INTERIOR_WIDTH).step_by(4) {
            let bits: u32;
            // SAFETY: as above.
            unsafe {
                asm!(
                    "vmovq xmm0, {sign}",
                    "vmovq xmm1, {wanted}",
                    "vpbroadcastq ymm0, xmm0",
                    "vpbroadcastq ymm1, xmm1",
                    "vpxor ymm0, ymm0, ymmword ptr [{at}]",
                    "vpcmpgtq ymm0, ymm0, ymm1",
                    "vmovmskpd {bits:e}, ymm0",
                    sign = in(reg) SIGN,
                    wanted = in(reg) wanted ^ SIGN,
                    at = in(reg) separators.wrapping_add(at),
                    bits = lateout(reg) bits,
                    out("ymm0") _, out("ymm1") _,
                    options(readonly, nostack, preserves_flags),
                );
            }
            above |= bits << at;
        }
        clear_upper_halves();
        !above
    }

    /// Older vector instructions are slow, on some processors, until this was done. A compiler that
    /// uses AVX itself does it where it is due.
    #[inline]
    fn clear_upper_halves() {
        #[cfg(not(target_feature = "avx"))]
        // SAFETY: without AVX the compiler keeps nothing in the upper halves.
        unsafe {
            asm!("vzeroupper", options(nomem, nostack, preserves_flags));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers around every word of the pattern, and the extremes.
    fn probes(words: &[AtomicU64]) -> Vec<u64> {
        let around = |word: &AtomicU64| {
            let word = word.load(Relaxed);
            [word.wrapping_sub(1), word, word.wrapping_add(1)]
        };
        let mut probes: Vec<u64> = words.iter().flat_map(around).collect();
        probes.extend([0, 1 << 63, (1 << 63) - 1, u64::MAX]);
        probes
    }

    fn ascending<const N: usize>(step: u64, from: u64) -> [AtomicU64; N] {
        std::array::from_fn(|at| AtomicU64::new(from.wrapping_add(step * at as u64)))
    }

    #[test]
    fn every_way_finds_the_same_equals() {
        let mut some = ascending::<WIDTH>(3, u64::MAX - 20);
        some[4] = AtomicU64::new(u64::MAX - 20);
        for wanted in probes(&some) {
            let plain = equal_plain(&some, wanted);
            assert_eq!(equal(&some, wanted), plain, "{wanted:x}");
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            if is_x86_feature_detected!("avx2") {
                // SAFETY: the processor has it, and the array is long enough.
                assert_eq!(unsafe { x86::equal_avx2(some.as_ptr(), wanted) }, plain);
            }
        }
    }

    #[test]
    fn every_way_counts_the_same() {
        for (step, from) in [(1, 0), (1 << 59, 7), (u64::MAX / 24, 0), (2, (1 << 63) - 20)] {
            let some = ascending::<INTERIOR_WIDTH>(step, from);
            for wanted in probes(&some) {
                for count in 0..=INTERIOR_WIDTH {
                    let plain = at_most_plain(&some, count, wanted);
                    assert_eq!(at_most(&some, count, wanted), plain, "{count} of {wanted:x}");
                    #[cfg(all(target_arch = "x86_64", not(miri)))]
                    if is_x86_feature_detected!("avx2") {
                        // SAFETY: the processor has it, and the array is long enough.
                        let mask = unsafe { x86::at_most_avx2(some.as_ptr(), wanted) };
                        let kept = mask & ((1 << count) - 1);
                        assert_eq!(kept.count_ones() as usize, plain);
                    }
                }
            }
        }
    }
}

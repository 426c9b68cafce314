//! MD5, as RFC 1321 has it: what Ketama's clients agreed on long ago. It protects nothing here.

/// Rotations of the four rounds.
const ROTATIONS: [[u32; 4]; 4] =
    [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
/// The state before the first block.
const START: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
/// Bytes of a block, and of the length at the end of the last.
const BLOCK_BYTES: usize = 64;
const LENGTH_BYTES: usize = 8;

/// The whole part of 2^32 |sin(step + 1)|, as a test computes them.
#[rustfmt::skip]
const SINES: [u32; 64] = [
    0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee,
    0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501,
    0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be,
    0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821,
    0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa,
    0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8,
    0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed,
    0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a,
    0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c,
    0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70,
    0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05,
    0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665,
    0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039,
    0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1,
    0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1,
    0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391,
];

/// The digest of some bytes, as its four words, of which the first four bytes are the first.
pub(super) fn md5(bytes: &[u8]) -> [u32; 4] {
    let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
    let mut state = blocks.iter().fold(START, mix);
    // What is left, a bit that is set, zeros, and the length in bits: one block or two.
    let mut tail = [0; 2 * BLOCK_BYTES];
    tail[..rest.len()].copy_from_slice(rest);
    tail[rest.len()] = 0x80;
    let is_long = rest.len() + 1 + LENGTH_BYTES > BLOCK_BYTES;
    let tail_bytes = if is_long { 2 * BLOCK_BYTES } else { BLOCK_BYTES };
    let bits = (bytes.len() as u64).wrapping_mul(8);
    tail[tail_bytes - LENGTH_BYTES..tail_bytes].copy_from_slice(&bits.to_le_bytes());
    for block in tail[..tail_bytes].as_chunks::<BLOCK_BYTES>().0 {
        state = mix(state, block);
    }
    state
}

/// The state behind one more block.
fn mix(state: [u32; 4], block: &[u8; BLOCK_BYTES]) -> [u32; 4] {
    let mut words = [0; 16];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let [mut a, mut b, mut c, mut d] = state;
    for step in 0..64 {
        let (chosen, word) = match step / 16 {
            0 => ((b & c) | (!b & d), step),
            1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
            2 => (b ^ c ^ d, (3 * step + 5) % 16),
            _ => (c ^ (b | !d), (7 * step) % 16),
        };
        let sum = a.wrapping_add(chosen).wrapping_add(SINES[step]).wrapping_add(words[word]);
        let turned = sum.rotate_left(ROTATIONS[step / 16][step % 4]);
        (a, d, c, b) = (d, c, b, b.wrapping_add(turned));
    }
    let [a0, b0, c0, d0] = state;
    [a0.wrapping_add(a), b0.wrapping_add(b), c0.wrapping_add(c), d0.wrapping_add(d)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sines_are_those_of_the_standard() {
        for (step, sine) in (1..).zip(SINES) {
            assert_eq!((f64::from(step).sin().abs() * 2f64.powi(32)) as u32, sine, "step {step}");
        }
    }

    /// The suite of the RFC, and lengths around a block against md5sum of coreutils.
    #[test]
    fn digests_are_those_of_the_standard() {
        let hex = |text: &[u8]| {
            let bytes = md5(text).into_iter().flat_map(u32::to_le_bytes);
            bytes.map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        assert_eq!(hex(b""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex(b"abc"), "900150983cd24fb0d6963f7d28e17f72");
        let digits = b"1234567890".repeat(8);
        assert_eq!(hex(&digits), "57edf4a22be3c955ac49da2e2107b67a");
        for (length, expected) in [
            (55, "ef1772b6dff9a122358552954ad0df65"),
            (56, "3b0c8ac703f828b04c6c197006d17218"),
            (63, "b06521f39153d618550606be297466d5"),
            (64, "014842d480b571495a4a0363793f7367"),
            (65, "c743a45e0d2e6a95cb859adae0248435"),
        ] {
            assert_eq!(hex(&vec![b'a'; length]), expected, "{length} bytes");
        }
    }
}

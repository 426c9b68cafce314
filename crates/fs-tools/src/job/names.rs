//! Names of the benchmark: a number of 64 bits as 12 letters whose order is that of the numbers.

const LETTERS: &[u8; 64] = b"+-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Letters of a name.
pub(super) const NAME_BYTES: usize = 12;

/// The eight bytes of a number, the highest first, and one of zeros, six bits a letter.
pub(super) fn name(number: u64) -> [u8; NAME_BYTES] {
    let bits = u128::from(number) << 8;
    std::array::from_fn(|index| LETTERS[(bits >> (66 - 6 * index) & 63) as usize])
}

/// The number of file `id` of a rank: neighbours in a shared directory are of different ranks.
pub(super) fn number(is_shared: bool, rank: u32, id: u64) -> u64 {
    match is_shared {
        true => id << 32 | u64::from(rank),
        false => u64::from(rank) << 32 | id & 0xffff_ffff,
    }
}

/// The directory of a rank, or of all.
pub(super) fn directory(is_shared: bool, rank: u32) -> Vec<u8> {
    let number = if is_shared { 0 } else { u64::from(rank) };
    [&b"/"[..], &name(number)].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_original_and_in_the_order_of_numbers() {
        assert_eq!(&name(0), b"++++++++++++");
        assert_eq!(&name(number(true, 0, 1)), b"+++++E++++++");
        assert_eq!(directory(true, 3), b"/++++++++++++");
        let mut numbers: Vec<u64> = (0..500).map(|n| n * 0x0123_4567_89ab).collect();
        numbers.sort_unstable();
        let names: Vec<_> = numbers.iter().map(|number| name(*number)).collect();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]));
    }
}

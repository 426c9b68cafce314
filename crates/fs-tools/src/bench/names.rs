//! Names of the benchmark: a number of 64 bits as 12 letters whose order is that of the numbers.

use keyrack_workload::Rng;

const LETTERS: &[u8; 64] = b"+-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Letters of a name.
const NAME_BYTES: usize = 12;

/// The name of a file.
pub(super) type Name = [u8; NAME_BYTES];

/// The eight bytes of a number, the highest first, and one of zeros, six bits a letter.
pub(super) fn name(number: u64) -> Name {
    let bits = u128::from(number) << 8;
    std::array::from_fn(|index| LETTERS[(bits >> (66 - 6 * index) & 63) as usize])
}

/// The number of file `id` of a rank: neighbours in a shared directory are of different ranks.
pub(super) fn number(is_shared: bool, rank: u32, id: u64) -> u64 {
    if is_shared { id << 32 | u64::from(rank) } else { u64::from(rank) << 32 | id & 0xffff_ffff }
}

/// The first `count` of the numbers below `total`, which a seed shuffles first.
pub(super) fn ids(total: u64, count: u64, seed: Option<u64>) -> Vec<u64> {
    let mut ids: Vec<u64> = (0..total).collect();
    if let Some(seed) = seed {
        let mut random = Rng::from_seed(seed);
        for last in (1..ids.len()).rev() {
            ids.swap(last, random.below(last as u64 + 1) as usize);
        }
    }
    ids.truncate(usize::try_from(count).unwrap_or(usize::MAX));
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_original_and_in_the_order_of_numbers() {
        assert_eq!(&name(0), b"++++++++++++");
        // Seen in a table that the original wrote: id 1 of rank 0.
        assert_eq!(&name(number(true, 0, 1)), b"+++++E++++++");
        let mut numbers: Vec<u64> =
            (0..2000_u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
        numbers.sort_unstable();
        let names: Vec<_> = numbers.iter().map(|n| name(*n)).collect();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]));
    }
}

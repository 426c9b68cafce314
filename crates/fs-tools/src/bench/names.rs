//! Names of files: those of the original, and which of them a rank has in a phase.

use super::Plan;
use keyrack_workload::Rng;

/// The name of a number: its 64 bits and eight zeros, six bits a letter, the highest first.
pub(super) fn name_of(number: u64) -> [u8; 12] {
    const LETTERS: &[u8; 64] = b"+-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let bits = u128::from(number) << 8;
    std::array::from_fn(|at| LETTERS[(bits >> (66 - 6 * at) & 63) as usize])
}

/// Whether a phase is about the names of one phase of creates.
pub(super) fn is_write(name: &str) -> bool {
    matches!(name, "insert" | "remove")
}

/// The names of a rank in a phase: all have the rank in them, so that no two ranks have one.
pub(super) fn names(plan: &Plan, rank: u64, name: &str, phase: u64) -> Vec<[u8; 12]> {
    let mut ids: Vec<u64> = (0..plan.n).collect();
    if plan.shuffled {
        let seed = 1000 * rank + phase + if is_write(name) { 0 } else { 1 << 32 };
        let mut rng = Rng::from_seed(seed);
        for at in (1..ids.len()).rev() {
            ids.swap(at, rng.below(at as u64 + 1) as usize);
        }
    }
    let count = if is_write(name) { plan.writes } else { plan.reads };
    ids.truncate(usize::try_from(count).unwrap_or(usize::MAX));
    // From the second phase of creates on the names are new.
    let round = if is_write(name) { phase } else { 0 };
    let number = |id: u64| match plan.shared {
        true => (id + round * plan.n) << 32 | rank,
        false => rank << 32 | (id + round * plan.n),
    };
    ids.into_iter().map(|id| name_of(number(id))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_original() {
        assert_eq!(&name_of(0), b"++++++++++++");
        // Seen in a table that the original wrote: id 1 of rank 0.
        assert_eq!(&name_of(1 << 32), b"+++++E++++++");
        let mut numbers: Vec<u64> =
            (0..2000_u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
        numbers.sort_unstable();
        let names: Vec<_> = numbers.iter().map(|n| name_of(*n)).collect();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "in the order of numbers");
    }
}

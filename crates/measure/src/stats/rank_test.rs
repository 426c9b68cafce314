//! The Mann-Whitney test: could two groups of measurements come from one distribution?
//!
//! U counts the pairs in which a value of the first group exceeds one of the second; a tie counts
//! one half. If the groups are alike, every choice of which ranks belong to the first group is
//! equally likely, so U is near half the pairs.
//!
//! Up to 20 values in each group and without ties, those choices are counted: the number of ways
//! to choose n of the ranks 1..=n+m with a given sum, built up rank by rank. Otherwise U is taken
//! as normal, with its variance corrected for ties and one half for continuity. Exact matters:
//! three against three can never be significant at 5 %, and the normal curve would not know.

use super::distribution::normal_two_sided;

/// The largest group that is counted out.
const EXACT_MAX: usize = 20;

/// The two-sided p-value of the Mann-Whitney test; 1 when nothing tells the groups apart.
///
/// Exact for groups of up to 20 without ties, the normal approximation otherwise. `None` when a
/// group is empty or a value is not finite. O(N log N), and O(N n^2 m) when exact.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<f64> {
    let finite = a.iter().chain(b).all(|x| x.is_finite());
    if a.is_empty() || b.is_empty() || !finite {
        return None;
    }
    let ranks = Ranks::of(a, b);
    let pairs = a.len() as f64 * b.len() as f64;
    let u = ranks.sum_a - (a.len() as f64 * (a.len() as f64 + 1.0)) / 2.0;
    let exact = ranks.tie_term == 0.0 && a.len().max(b.len()) <= EXACT_MAX;
    Some(if exact {
        let least = u.min(pairs - u) as usize;
        (2.0 * share_up_to(a.len(), b.len(), least)).min(1.0)
    } else {
        approximate(u, a.len() as f64, b.len() as f64, ranks.tie_term)
    })
}

/// What the test needs of the joint ranking.
struct Ranks {
    /// The sum of the ranks of the first group; tied values share the mean of their ranks.
    sum_a: f64,
    /// The sum of t^3 - t over groups of t tied values.
    tie_term: f64,
}

impl Ranks {
    fn of(a: &[f64], b: &[f64]) -> Ranks {
        let tagged = |of_a| move |&value: &f64| (value, of_a);
        let mut all: Vec<(f64, bool)> =
            a.iter().map(tagged(true)).chain(b.iter().map(tagged(false))).collect();
        all.sort_unstable_by(|x, y| x.0.total_cmp(&y.0));
        let mut ranks = Ranks { sum_a: 0.0, tie_term: 0.0 };
        let mut before = 0.0;
        // By `==`, so that the two zeros tie.
        for tied in all.chunk_by(|x, y| x.0 == y.0) {
            let n = tied.len() as f64;
            let of_a = tied.iter().filter(|(_, of_a)| *of_a).count() as f64;
            ranks.sum_a += of_a * (before + (n + 1.0) / 2.0);
            ranks.tie_term += n * n * n - n;
            before += n;
        }
        ranks
    }
}

/// The share of all choices of `n` out of `n + m` ranks for which U is at most `u_max`.
fn share_up_to(n: usize, m: usize, u_max: usize) -> f64 {
    let u_count = n * m + 1;
    // ways[i][u]: choices of i of the ranks seen so far; u is their sum less its least value.
    // At most C(40, 20), about 1.4e11, so the counts are exact.
    let mut ways = vec![vec![0u64; u_count]; n + 1];
    ways[0][0] = 1;
    for rank in 1..=n + m {
        // From the top, so that a rank is chosen once.
        for chosen in (1..=n.min(rank)).rev() {
            // The choice's sum grows by `rank`, its least value from that of i-1 to that of i.
            let step = rank - chosen;
            for u in (step..u_count).rev() {
                ways[chosen][u] += ways[chosen - 1][u - step];
            }
        }
    }
    let up_to: u64 = ways[n].iter().take(u_max + 1).sum();
    let all: u64 = ways[n].iter().sum();
    up_to as f64 / all as f64
}

/// The two-sided p-value from the normal curve.
fn approximate(u: f64, n: f64, m: f64, tie_term: f64) -> f64 {
    let total = n + m;
    let variance = n * m / 12.0 * (total + 1.0 - tie_term / (total * (total - 1.0)));
    if variance <= 0.0 {
        // All values are equal.
        return 1.0;
    }
    let distance = ((u - n * m / 2.0).abs() - 0.5).max(0.0);
    normal_two_sided(distance / variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::seeded::{Distributions, seed};
    use keyrack_testkit::random::Draw;

    /// U by its definition.
    fn u_of(a: &[f64], b: &[f64]) -> f64 {
        let pairs = a.iter().flat_map(|x| b.iter().map(move |y| (x, y)));
        pairs
            .map(|(x, y)| {
                if x > y {
                    1.0
                } else if x == y {
                    0.5
                } else {
                    0.0
                }
            })
            .sum()
    }

    /// The exact p-value by trying every split of the values into groups of these sizes.
    fn by_enumeration(a: &[f64], b: &[f64]) -> f64 {
        let all = [a, b].concat();
        let centre = (a.len() * b.len()) as f64 / 2.0;
        let seen = (u_of(a, b) - centre).abs();
        let (mut extreme, mut splits) = (0u32, 0u32);
        for mask in 0u32..1 << all.len() {
            if mask.count_ones() as usize == a.len() {
                let of_a = |i: &usize| mask >> i & 1 == 1;
                let (x, y): (Vec<usize>, Vec<usize>) = (0..all.len()).partition(of_a);
                let pick = |places: Vec<usize>| -> Vec<f64> {
                    places.into_iter().map(|i| all[i]).collect()
                };
                splits += 1;
                extreme += u32::from((u_of(&pick(x), &pick(y)) - centre).abs() >= seen);
            }
        }
        f64::from(extreme) / f64::from(splits)
    }

    /// Groups of sizes `n` and `m` without ties whose U is `u`: the first group takes the lowest
    /// ranks, then values move up one place at a time.
    fn groups_with_u(n: usize, m: usize, u: usize) -> (Vec<f64>, Vec<f64>) {
        let mut places: Vec<usize> = (0..n).collect();
        let mut left = u;
        for place in places.iter_mut().rev() {
            let up = left.min(m);
            *place += up;
            left -= up;
        }
        let others = (0..n + m).filter(|place| !places.contains(place));
        (places.iter().map(|&p| p as f64).collect(), others.map(|p| p as f64).collect())
    }

    #[test]
    fn small_groups_agree_with_enumeration() {
        let seed = seed();
        let mut random = Draw::new(seed);
        for (n, m) in [(1, 1), (1, 5), (2, 3), (3, 3), (4, 4), (5, 3), (6, 6), (7, 4)] {
            for _ in 0..5 {
                let a: Vec<f64> = (0..n).map(|_| random.unit()).collect();
                let b: Vec<f64> = (0..m).map(|_| random.unit() + 0.3).collect();
                let (got, expected) = (mann_whitney(&a, &b).unwrap(), by_enumeration(&a, &b));
                assert!((got - expected).abs() < 1e-12, "SEED={seed}: {n} {m}: {got} {expected}");
            }
        }
    }

    #[test]
    fn critical_values_are_the_published_ones() {
        // The largest U that is significant at 5 %, two-sided.
        let table = [
            (4, 4, 0),
            (5, 5, 2),
            (6, 6, 5),
            (7, 5, 5),
            (8, 8, 13),
            (10, 10, 23),
            (12, 8, 22),
            (15, 15, 64),
            (20, 10, 55),
            (20, 20, 127),
        ];
        for (n, m, critical) in table {
            let (a, b) = groups_with_u(n, m, critical);
            assert_eq!(u_of(&a, &b), critical as f64);
            assert!(mann_whitney(&a, &b).unwrap() <= 0.05, "{n} {m}");
            let (a, b) = groups_with_u(n, m, critical + 1);
            assert!(mann_whitney(&a, &b).unwrap() > 0.05, "{n} {m}");
        }
    }

    #[test]
    fn three_against_three_is_never_significant() {
        let p = mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).unwrap();
        assert!((p - 0.1).abs() < 1e-12);
    }

    #[test]
    fn the_order_of_the_groups_does_not_matter() {
        let seed = seed();
        let mut random = Draw::new(seed);
        for size in [5, 20, 60] {
            let a: Vec<f64> = (0..size).map(|_| random.unit()).collect();
            let b: Vec<f64> = (0..size / 2).map(|_| random.unit() + 0.1).collect();
            let (ab, ba) = (mann_whitney(&a, &b).unwrap(), mann_whitney(&b, &a).unwrap());
            assert!((ab - ba).abs() < 1e-12, "SEED={seed}");
        }
    }

    #[test]
    fn the_approximation_joins_the_exact_values() {
        for u in [40, 100, 127, 160, 199] {
            let (a, b) = groups_with_u(20, 20, u);
            let exact = mann_whitney(&a, &b).unwrap();
            let close = approximate(u as f64, 20.0, 20.0, 0.0);
            assert!((exact - close).abs() < 0.005, "U = {u}: {exact} and {close}");
        }
        // One more value in each group changes the method, not the answer.
        let (a, b) = groups_with_u(21, 21, 140);
        let p = mann_whitney(&a, &b).unwrap();
        assert!((0.02..0.06).contains(&p), "{p}");
    }

    #[test]
    fn ties_count_half_and_shrink_the_variance() {
        // Ranks 1.5 1.5 3 5 5 | 5 7 8.5 8.5 10: U = 1, worked by hand.
        let a = [1.0, 1.0, 2.0, 3.0, 3.0];
        let b = [3.0, 4.0, 5.0, 5.0, 6.0];
        let ties = 6.0 + 24.0 + 6.0;
        let variance: f64 = 25.0 / 12.0 * (11.0 - ties / 90.0);
        let expected = normal_two_sided((12.5 - 1.0 - 0.5) / variance.sqrt());
        assert!((mann_whitney(&a, &b).unwrap() - expected).abs() < 1e-12);
        assert!(expected < 0.03);
    }

    #[test]
    fn groups_that_are_alike_have_p_1() {
        assert_eq!(mann_whitney(&[5.0; 4], &[5.0; 7]), Some(1.0));
        assert_eq!(mann_whitney(&[0.0], &[-0.0]), Some(1.0));
        assert_eq!(mann_whitney(&[1.0, 4.0], &[2.0, 3.0]), Some(1.0));
    }

    #[test]
    fn without_values_there_is_no_test() {
        assert_eq!(mann_whitney(&[], &[1.0]), None);
        assert_eq!(mann_whitney(&[1.0], &[]), None);
        assert_eq!(mann_whitney(&[1.0, f64::NAN], &[1.0]), None);
    }
}

//! Were requests sent as a Poisson process?
//!
//! The gaps of a thread are thinned before they are tested: each send stays with a probability that
//! leaves about a thousand. A thinned Poisson process is one again; what is gone is what does not
//! matter, that sends of one batch share a moment, and with it the power to find rounding.

use keyrack_measure::stats::anderson_darling;
use keyrack_workload::mix64;

/// Gaps of a thread that are tested.
const GAPS_MAX: usize = 1000;
/// Fewer say nothing.
const GAPS_MIN: usize = 20;

/// What the gaps say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GapTest {
    /// How probable such gaps are, of the worst thread, times the number of threads.
    pub p_value: f64,
    /// How many gaps of it were tested.
    pub gaps: usize,
}

/// Tests the gaps of each thread. `None` when no thread has enough.
#[must_use]
pub fn test_gaps(threads: &[Vec<u64>]) -> Option<GapTest> {
    let tested: Vec<GapTest> = threads.iter().filter_map(|gaps| test(gaps)).collect();
    let worst = tested.iter().min_by(|a, b| a.p_value.total_cmp(&b.p_value))?;
    Some(GapTest { p_value: (worst.p_value * tested.len() as f64).min(1.0), ..*worst })
}

fn test(gaps_ns: &[u64]) -> Option<GapTest> {
    let keep = GAPS_MAX as f64 / gaps_ns.len().max(1) as f64;
    let below = if keep >= 1.0 { u64::MAX } else { (keep * 2f64.powi(64)) as u64 };
    let mut thinned = Vec::with_capacity(GAPS_MAX + GAPS_MAX / 4);
    let mut sum_ns = 0u64;
    for (index, gap_ns) in gaps_ns.iter().enumerate() {
        sum_ns = sum_ns.saturating_add(*gap_ns);
        if mix64(index as u64) <= below {
            thinned.push(sum_ns as f64);
            sum_ns = 0;
        }
    }
    if thinned.len() < GAPS_MIN {
        return None;
    }
    let p_value = anderson_darling(&thinned)?.p_value;
    Some(GapTest { p_value, gaps: thinned.len() })
}

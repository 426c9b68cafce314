//! The report of a wrong answer: where it happened, what was expected, and how to see it again.

use keyrack_store::Store;

/// An answer of an engine that is not the model's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "SEED={seed} op={operation}: {what}\n  expected: {expected}\n  found:    {found}\n  \
     replay: keyrack bench --selftest --backend {engine} --seed {seed}"
)]
#[non_exhaustive]
pub struct Mismatch {
    /// The name of the engine: the first word of its version.
    pub engine: String,
    /// The seed that draws the same operations again. With several threads their interleaving is
    /// not part of it.
    pub seed: u64,
    /// The operation, from 0, in the thread that ran it.
    pub operation: u64,
    /// The operation in words, with its arguments.
    pub what: String,
    /// What the model answered.
    pub expected: String,
    /// What the engine answered.
    pub found: String,
}

impl Mismatch {
    pub(crate) fn new(
        store: &dyn Store,
        (seed, operation): (u64, u64),
        what: impl Into<String>,
        (expected, found): (String, String),
    ) -> Self {
        let version = store.info().version;
        let engine = version.split_whitespace().next().unwrap_or_default().to_owned();
        Mismatch { engine, seed, operation, what: what.into(), expected, found }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyrack_store::ModelStore;

    #[test]
    fn a_mismatch_says_how_to_replay_it() {
        let answers = ("1".to_owned(), "absent".to_owned());
        let text = Mismatch::new(&ModelStore::new(), (42, 7), "get a", answers).to_string();
        for part in ["SEED=42 op=7: get a", "expected: 1", "found:    absent"] {
            assert!(text.contains(part), "{text}");
        }
        assert!(text.contains("keyrack bench --selftest --backend btree --seed 42"), "{text}");
    }
}

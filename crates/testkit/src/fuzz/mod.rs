//! A fuzzer for readers of bytes that somebody else wrote: files, frames, requests, settings.
//!
//! ```text
//!   kept corpus  --\
//!   samples      ---+--> check, whole            then, until the budget is spent:
//!                                                 pool --draw, spoil--> check --new shape--> pool
//! ```
//!
//! A target is a name, some samples that are right, and a check. The check reads the bytes, asserts
//! what must hold of whatever came of it, and returns a **shape**: a number for what the reader
//! made of them (which error, how many entries). Inputs of a shape that was not seen before join
//! the pool that later ones are made from, so that a fault behind two others is reached in steps.
//!
//! The kept corpus of a target are the files of `tests/corpus/TARGET` of its crate. They are
//! replayed first, whatever the budget is. An input that fails a check is written under
//! `target/fuzz/TARGET`, and what is printed names it and how to see it again.
//!
//! ```text
//!   KEYRACK_FUZZ=N          N inputs each instead of the number that the target has
//!   KEYRACK_FUZZ_S=N        N seconds each instead
//!   KEYRACK_FUZZ_INPUT=F    the file F alone
//!   KEYRACK_SEED=N          another seed
//! ```
//!
//! No coverage is measured: that takes a compiler that few have. The shape stands in for it.

mod budget;
mod dice;
mod keep;

pub use budget::Budget;
pub use dice::Dice;
pub use keep::{corpus, kept};

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Inputs that the pool holds beside the samples and the corpus. Later ones replace others.
const POOL_MAX: usize = 512;

/// Longest input that joins the pool, in bytes.
const INPUT_BYTES_MAX: usize = 1 << 16;

/// The seed of a target that is given none.
const SEED: u64 = 20_261;

/// What a reader made of its input, as a number: inputs of a new one are worth spoiling further.
pub type Shape = u64;

/// The shape that a value stands for.
pub fn shape(of: impl Hash) -> Shape {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// A target that is being put together.
#[derive(Debug)]
pub struct Fuzzer {
    target: &'static str,
    folder: &'static str,
    rounds: u64,
    share: u64,
    samples: Vec<Vec<u8>>,
    words: Vec<Vec<u8>>,
    /// Instead of what the variables say, in tests of the fuzzer itself.
    budget: Option<Budget>,
}

impl Fuzzer {
    /// The target `target` of the crate in `folder` (`env!("CARGO_MANIFEST_DIR")`), which tries so
    /// many inputs when nobody says otherwise.
    #[must_use]
    pub fn new(target: &'static str, folder: &'static str, rounds: u64) -> Self {
        let (samples, words) = (Vec::new(), Vec::new());
        Fuzzer { target, folder, rounds, share: 1, samples, words, budget: None }
    }

    /// The target is one of `parts` tests of one format, which share its time.
    #[must_use]
    pub fn share(mut self, parts: u64) -> Self {
        self.share = parts;
        self
    }

    /// Adds an input that is right, or nearly.
    #[must_use]
    pub fn sample(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.samples.push(bytes.into());
        self
    }

    /// Adds bytes that mean something where they are put in.
    #[must_use]
    pub fn words(mut self, words: &[&[u8]]) -> Self {
        self.words.extend(words.iter().map(|word| word.to_vec()));
        self
    }

    /// Replays the corpus, checks the samples, then spoils both until the budget is spent. Returns
    /// how many inputs were checked, and how many shapes they had.
    ///
    /// # Panics
    /// When `check` does, after the input was kept and named; when a file of the corpus cannot be
    /// read.
    pub fn run(self, mut check: impl FnMut(&[u8], &mut Dice) -> Shape) -> (u64, usize) {
        if self.budget.is_none()
            && let Some(input) = keep::only()
        {
            let mut dice = Dice::new(SEED);
            check(&input, &mut dice);
            return (1, 1);
        }
        let seed = dice::seed(SEED);
        let mut dice = Dice::new(seed);
        let mut shapes = HashSet::new();
        let mut pool = corpus(self.target, self.folder);
        pool.extend(self.samples);
        if pool.is_empty() {
            pool.push(Vec::new());
        }
        let first = pool.len();
        for input in &pool {
            let checked = kept(self.target, seed, input, || check(input, &mut dice));
            shapes.insert(checked);
        }
        let mut budget = self.budget.unwrap_or_else(|| Budget::new(self.rounds, self.share));
        let mut rounds = first as u64;
        while budget.spend() {
            rounds += 1;
            let input = dice.spoiled(&pool, &self.words);
            let found = kept(self.target, seed, &input, || check(&input, &mut dice));
            if input.len() <= INPUT_BYTES_MAX && shapes.insert(found) {
                if pool.len() < first + POOL_MAX {
                    pool.push(input);
                } else {
                    let at = first + dice.below(POOL_MAX);
                    pool[at] = input;
                }
            }
        }
        if budget.is_time() {
            say(&format!(
                "fuzz {}: {rounds} inputs of {} shapes, KEYRACK_SEED={seed}",
                self.target,
                shapes.len()
            ));
        }
        (rounds, shapes.len())
    }
}

/// Says what a run by the clock did, which the next one will not repeat.
#[expect(clippy::print_stdout, reason = "the output of a test")]
fn say(line: &str) {
    println!("{line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// A reader with a fault two steps behind its entrance.
    fn reads(bytes: &[u8], fault: bool) -> Shape {
        let Some(rest) = bytes.strip_prefix(b"KEY") else { return 0 };
        let Some((&length, rest)) = rest.split_first() else { return 1 };
        let limit = rest.len() + usize::from(fault);
        if usize::from(length) > limit {
            return 2;
        }
        shape(rest[..usize::from(length)].iter().filter(|byte| **byte == b'R').count())
    }

    #[test]
    fn a_length_that_is_off_by_one_is_found_and_its_input_is_kept() {
        let folder = env!("CARGO_MANIFEST_DIR");
        let target = |fault| {
            let mut fuzzer = Fuzzer::new("testkit.planted", folder, 0).sample(*b"KEY\x02RA");
            fuzzer.budget = Some(Budget::rounds(20_000));
            catch_unwind(AssertUnwindSafe(|| fuzzer.run(|bytes, _| reads(bytes, fault))))
        };
        let (rounds, shapes) = target(false).expect("a sound reader passes");
        assert!(rounds > 1 && shapes > 3, "{rounds} {shapes}");
        let message = target(true).expect_err("found");
        let text = message.downcast_ref::<String>().expect("a line");
        let path = text.split_once("kept as ").and_then(|(_, rest)| rest.split_once(" (")).unwrap();
        let input = keep::read(path.0);
        assert!(input.starts_with(b"KEY") && usize::from(input[3]) == input.len() - 3, "{input:?}");
        keep::forget(path.0);
    }

    #[test]
    fn one_seed_makes_one_run() {
        let run = || {
            let mut all = Vec::new();
            let mut fuzzer = Fuzzer::new("testkit.same", env!("CARGO_MANIFEST_DIR"), 0);
            fuzzer.budget = Some(Budget::rounds(500));
            fuzzer.words(&[b"KEY"]).sample(*b"KEY\x02RA").run(|bytes, _| {
                all.push(bytes.to_vec());
                reads(bytes, false)
            });
            all
        };
        assert_eq!(run(), run());
    }
}

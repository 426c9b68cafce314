//! The tree against the model, its structure, its memory, its promises to many threads, and the
//! engine.
//!
//! `KEYRACK_SEED=n` replaces the seeds of the random tests; a failure prints the one that it had.
//! Sizes grow with `KEYRACK_STRESS=n`, a factor.

#[cfg(test)]
mod engine;
#[cfg(test)]
mod extras;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod model;
#[cfg(all(test, shuttle))]
mod shuttled;
#[cfg(test)]
mod stress;
#[cfg(test)]
mod structure;

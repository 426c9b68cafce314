//! The tree against the model, its structure, its memory, and its promises to many threads.
//!
//! `KEYRACK_SEED=n` replaces the seeds of the random tests; a failure prints the one that it had.
//! Sizes grow with `KEYRACK_STRESS=n`, a factor.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod cursors;
mod extras;
mod gaps;
mod lines;
mod memory;
mod model;
mod prefixes;
mod ranges;
#[cfg(shuttle)]
mod shuttled;
mod stress;
mod structure;

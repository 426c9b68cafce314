//! The store as a user has it: beside a model, opened again, through power losses, and as an
//! engine.
//!
//! `KEYRACK_SEED=n` replaces the seeds of the random tests; a failure prints the one that it had.
//! Sizes grow with `KEYRACK_STRESS=n`, a factor.

#[cfg(test)]
mod crash;
#[cfg(test)]
mod engine;
#[cfg(test)]
mod model;
#[cfg(test)]
mod reopen;
#[cfg(test)]
mod rng;

//! Rows as a user has them: beside a model, in many threads, through crashes, faults and damage,
//! with checkpoints, expiry and eviction, and as an engine.
//!
//! `KEYRACK_SEED=n` replaces the seeds of the random tests; a failure prints the one that it had.
//! Sizes grow with `KEYRACK_STRESS=n`, a factor.

#[cfg(test)]
mod at_rest;
#[cfg(test)]
mod checkpoint;
#[cfg(test)]
mod clear;
#[cfg(test)]
mod concurrent;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod engine;
#[cfg(test)]
mod expiry;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod groups;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod model;
#[cfg(test)]
mod original;
#[cfg(test)]
mod processes;
#[cfg(test)]
mod store_rows;
#[cfg(test)]
mod support;
#[cfg(test)]
mod watched;

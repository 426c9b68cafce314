//! Rows as a user has them: beside a model, in many threads, through crashes, faults and damage,
//! with checkpoints, expiry and eviction, and as an engine.
//!
//! `KEYRACK_SEED=n` replaces the seeds of the random tests; a failure prints the one that it had.
//! Sizes grow with `KEYRACK_STRESS=n`, a factor.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test stops at the first surprise, and says what it looked at"
)]

mod at_rest;
mod checkpoint;
mod clear;
mod collections;
mod concurrent;
mod crash;
mod damage;
mod engine;
mod expiry;
mod faults;
mod file_set;
mod fixture;
mod groups;
mod limits;
mod model;
mod original;
mod processes;
mod store_rows;
mod support;
mod watched;

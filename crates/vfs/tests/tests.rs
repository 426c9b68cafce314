//! Tests of the crate from outside: one behavioural suite for the real and the simulated file
//! system, a random comparison of the two, power losses told as stories, faults at every
//! operation, and files written past the page cache.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod agreement;
mod behaviour;
mod crash;
mod direct;
mod fault;
mod output;
mod real;

use std::path::Path;

/// A path, briefly.
fn at(path: &str) -> &Path {
    Path::new(path)
}

//! Tests of the crate from outside: one behavioural suite for the real and the simulated file
//! system, a random comparison of the two, power losses told as stories, and faults at every
//! operation.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod agreement;
mod behaviour;
mod crash;
mod fault;
mod output;
mod real;

use std::path::Path;

/// A path, briefly.
fn at(path: &str) -> &Path {
    Path::new(path)
}

//! The load generator against servers: one of our own that misbehaves on request, and those of
//! others where they are installed.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test says what went wrong by panicking"
)]

mod closed;
mod cluster;
mod edges;
mod memory;
mod open;
mod real;
mod sharded;
mod support;
mod theory;
mod tiers;
mod traces;

//! Moving from files that other servers wrote, and from running servers.
#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test says what went wrong by panicking, reads its own files, and talks to a person"
)]

mod damage;
mod fixtures;
mod moves;
mod rows;
mod servers;

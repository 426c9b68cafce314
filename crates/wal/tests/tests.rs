//! All tests of the log from outside, on disks in memory that lose power and that fail. Replay a
//! failure with `KEYRACK_SEED=n`. Loom explores the parts, not the whole.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![expect(clippy::print_stderr, reason = "a failed test prints its seed")]

mod basics;
mod crash;
mod damage;
mod fault;
mod real;
mod recycling;
mod salvage;
mod threads;
mod tool;

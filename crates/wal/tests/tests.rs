//! All tests of the log from outside, on disks in memory that lose power and that fail. Replay a
//! failure with `KEYRACK_SEED=n`. Loom explores the parts; shuttle the
//! whole, in random schedules (`shuttled`).
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod basics;
mod crash;
mod damage;
mod fault;
mod newest;
mod real;
mod recycling;
mod salvage;
#[cfg(shuttle)]
mod shuttled;
mod space;
mod tail;
mod threads;
mod tool;

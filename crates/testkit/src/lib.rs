//! # keyrack-testkit: one set of checks that every engine is run through
//!
//! An engine is right when it answers as [`keyrack_store::ModelStore`] does. Four drivers ask:
//!
//! ```text
//!   golden scripts      commands above a line, answers below it; one rule of the contract a file
//!   random comparison   seeded operations of every kind, each answer compared with the model's
//!   synced put          reads back, or is refused by a store that says that it has none
//!   concurrent check    threads with disjoint keys, a counter and batches that all of them write
//! ```
//!
//! Readers of bytes that come from outside have a fuzzer in [`fuzz`], and stores in directories a
//! sweep of damages in [`damage`]. [`camera`] takes images of a disk as a power loss would leave
//! it, and [`random`] has the random numbers and seeds of all tests. [`lines`] records the cache
//! lines that operations touch, and replays them for more threads than a machine has processors.
//! [`isolation`] checks histories of transactions. With the feature `c`, libraries for C are tested
//! by programs and headers.
//!
//! [`selftest`] runs all of it over an engine and is what a program calls. The tests of an engine
//! run [`Suite`], which checks two more promises. A failure names the seed and the operation, and
//! the same seed draws the same operations again.
//!
//! ```
//! use keyrack_store::{ModelStore, Store};
//!
//! let open = || Ok(Box::new(ModelStore::new()) as Box<dyn Store>);
//! let report = keyrack_testkit::check_scripts(&open);
//! assert!(report.failed.is_empty());
//! let stats = keyrack_testkit::compare_random(&ModelStore::new(), 7, 500).unwrap();
//! assert_eq!(stats.operations, 500);
//! ```
#![forbid(unsafe_code)]

#[cfg(feature = "c")]
pub mod c;
pub mod camera;
mod comparison;
mod concurrent;
pub mod damage;
mod error;
pub mod fuzz;
mod generator;
mod golden;
pub mod isolation;
pub mod lines;
mod mismatch;
mod operation;
pub mod random;
mod script;
mod selftest;
mod suite;
mod synced;
mod token;

#[cfg(test)]
mod broken;

/// The worked example of the documentation is compiled and passes the self-test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/adding-an-engine.md")]
struct AddingAnEngine;

pub use comparison::{Stats, compare_random};
pub use concurrent::{ConcurrentStats, compare_concurrent};
pub use error::Error;
pub use golden::{Report, ScriptFailure, check_scripts, scripts};
pub use mismatch::Mismatch;
pub use script::{ScriptRun, run_script};
pub use selftest::selftest;
pub use suite::Suite;

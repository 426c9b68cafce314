//! The harness driven as a program drives it: settings, plan, run, and the record that comes back.
//!
//! ```text
//!   Bench (support)  a script in a MemFs + settings --> Plan --> run --> keyrack_record::Run
//! ```
//!
//! Scripts assert inside Lua where the subject is what a verb answers; a failed assertion fails its
//! cell, and [`support::Bench::run_clean`] then shows the message. Where the subject is what was
//! counted, the tests read the record. Random tests print `KEYRACK_SEED=`; set the variable of that
//! name to replay one.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod accounting;
mod arguments;
mod batches;
mod dbbench;
mod failures;
mod golden;
mod kb;
mod kvtest;
mod loads;
mod mixes;
mod model;
mod notebook;
mod open_loop;
mod outputs;
mod phases;
mod replay;
mod roles;
mod sandbox;
mod scan;
mod streams;
mod support;
mod sweeps;
mod traces;

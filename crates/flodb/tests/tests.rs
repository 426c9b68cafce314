//! The store as a user has it: beside a model, opened again, through power losses, for reading
//! only, copied, with key spaces, and as an engine.
//!
//! `KEYRACK_SEED=n` replaces the seeds of the random tests; a failure prints the one that it had.
//! Sizes grow with `KEYRACK_STRESS=n`, a factor.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test stops at the first surprise, and says what it looked at"
)]

mod at_rest;
mod blob_faults;
mod blobs;
mod burdens;
mod bytes_on_disk;
mod changes;
mod check;
mod checkpoint;
mod compaction_filter;
mod conditional;
mod disk;
mod drop_filter;
mod dump;
mod engine;
mod events;
mod expiry;
mod faults;
mod file_set;
mod filter_policy;
mod fixture;
mod follow;
mod ingest;
mod journal;
mod leftovers;
mod linear;
mod merge;
mod model;
mod moments;
mod multi_get;
#[cfg(target_os = "linux")]
mod open_files;
mod paranoid;
mod parts;
mod power;
mod prefix_filters;
mod processes;
mod promises;
mod property;
mod range_tombstones;
mod ranges;
mod read_only;
mod read_options;
mod reopen;
mod repair;
mod semantics;
mod space_tools;
mod spaces;
mod stored_options;
mod support;
mod transactions;

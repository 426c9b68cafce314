//! # keyrack-concurrent: what structures with readers that take no locks are made of
//!
//! | part | what it is |
//! |---|---|
//! | [`VersionLock`] | one word that is a lock for writers and a sequence counter for readers |
//! | [`Guard`] | a pinned epoch: what was reachable when it was taken is not freed while it lives |
//! | [`Backoff`] | waiting for another thread, first by spinning, then by giving up the processor |
//! | [`Counter`] | a sum that many threads add to without sharing a cache line |
//!
//! Unsafe code of this crate is in the epochs alone. With `--cfg loom` the atomics are those of the
//! loom model checker, and `tests/tests.rs` explores every interleaving of the version protocol.

mod backoff;
mod counter;
mod epoch;
mod sync;
mod version;

pub use backoff::Backoff;
pub use counter::Counter;
pub use epoch::{Guard, pin};
pub use version::{Locked, Version, VersionLock};

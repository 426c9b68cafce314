//! Backups of stores: equal to the store of their moment, through power losses, faults and damage.
//!
//! `KEYRACK_SEED=n` replaces the seeds of the random tests; a failure prints the one that it had.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod calls;
mod damage;
mod failing;
mod faults;
mod incremental;
mod meanwhile;
mod power;
mod repository;
mod restore;
mod shipping;
mod shipping_calls;
mod shipping_damage;
mod spaces;
mod support;
mod writers;

//! The store as a user has it: beside a model, opened again, through power losses, for reading
//! only, copied, with key spaces, and as an engine.
//!
//! `KEYRACK_SEED=n` replaces the seeds of the random tests; a failure prints the one that it had.
//! Sizes grow with `KEYRACK_STRESS=n`, a factor.

#[cfg(test)]
mod at_rest;
#[cfg(test)]
mod burdens;
#[cfg(test)]
mod check;
#[cfg(test)]
mod checkpoint;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod disk;
#[cfg(test)]
mod drop_filter;
#[cfg(test)]
mod dump;
#[cfg(test)]
mod engine;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod hook;
#[cfg(test)]
mod ingest;
#[cfg(test)]
mod journal;
#[cfg(test)]
mod leftovers;
#[cfg(test)]
mod linear;
#[cfg(test)]
mod model;
#[cfg(test)]
mod moments;
#[cfg(test)]
mod paranoid;
#[cfg(test)]
mod power;
#[cfg(test)]
mod processes;
#[cfg(test)]
mod promises;
#[cfg(test)]
mod property;
#[cfg(test)]
mod range_tombstones;
#[cfg(test)]
mod read_only;
#[cfg(test)]
mod reopen;
#[cfg(test)]
mod repair;
#[cfg(test)]
mod semantics;
#[cfg(test)]
mod space_tools;
#[cfg(test)]
mod spaces;
#[cfg(test)]
mod support;

//! Seeded keys, values, sizes, arrivals and mixes, and the workloads known by name.
//!
//! This crate is the only source of randomness. It reads no clock, touches no file and knows no
//! store: it says which operation comes next, on which key, with which value, and when it is due.
//! Everything follows from a seed, so a run can be repeated exactly.
//!
//! ```text
//! seed, phase, thread, index --> Rng::stream
//!                                  |
//!   KeySpec   --> KeySource        |  which key:    distribution, permutation, format
//!   ValueSpec --> ValueSource      |  which value:  size, slice of a pool
//!   MixSpec   --> MixSource        |  which operation, from the above
//!   rate      --> ArrivalSchedule  |  when
//! ```
//!
//! Beside these stand the jobs of [`kvtest`] and [`dbbench`]: whole programs that run over a
//! client, those of the first with a generator of their own.
//!
//! A *spec* is plain data that can be compared, printed and stored. A *source* is a spec made ready
//! for one worker; building it checks everything, and drawing from it cannot fail, allocates
//! nothing and calls nothing through a pointer. Workers share only [`Counter`]s.
//!
//! ```
//! use keyrack_workload::{KeyDistribution, KeyFormat, KeySource, KeySpec, Phase, Rng};
//!
//! let spec = KeySpec {
//!     format: KeyFormat::parse("k:%012d")?,
//!     count: 1_000_000,
//!     first: 0,
//!     distribution: KeyDistribution::parse("zipf:0.99")?,
//!     scramble: true,
//! };
//! let mut keys = KeySource::new(&spec, Rng::stream(42, Phase::Run, 0, 0), None, None)?;
//! assert_eq!(keys.next_key().len(), 14);
//! assert!(keys.last_index() < 1_000_000);
//! # Ok::<(), keyrack_workload::Error>(())
//! ```

#![forbid(unsafe_code)]

mod alias;
mod arrivals;
#[cfg(test)]
mod check;
mod counter;
pub mod dbbench;
mod distribution;
mod error;
mod fb;
mod format;
mod index;
mod jobs;
mod key_distribution;
mod key_set;
mod keys;
pub mod kvtest;
mod mix;
mod native;
mod rng;
mod scramble;
mod sizes;
mod trace;
mod values;
mod zipf;

pub use {
    alias::Alias,
    arrivals::{ArrivalSchedule, Arrivals},
    counter::Counter,
    distribution::{Distribution, Points},
    error::Error,
    format::KeyFormat,
    jobs::{job, jobs, own_count},
    key_distribution::KeyDistribution,
    key_set::KeySet,
    keys::{KeySource, KeySpec},
    mix::{Counters, LoadSpec, MixKeys, MixSource, MixSpec, OpSpec, Verb},
    native::{native, native_count, native_names},
    rng::{Phase, Rng, fnv1a64, mix64},
    sizes::{SizeDistribution, SizeSampler},
    trace::TraceHash,
    values::{ValueSource, ValueSpec},
    zipf::{Zipf, ZipfYcsb, harmonic},
};

//! The only reader of time, and the arithmetic that turns readings into numbers to trust.
//!
//! * [`Clock`] reads ticks: the time-stamp counter where it is sound, `CLOCK_MONOTONIC` elsewhere,
//!   and a fake that makes whole runs reproducible to the byte.
//! * [`Histogram`] counts latencies in nanoseconds: exact below 256 ns, within 1/128 above.
//!   [`LiveHistogram`] and [`LiveCounter`] have one writer and may be sampled while it writes.
//! * [`stats`] holds medians, confidence intervals and the Mann-Whitney test.
//! * [`wall`] is the time since 1970, [`usage`] is what the process has consumed.
//!
//! ```
//! use keyrack_measure::{Clock, Histogram};
//!
//! let clock = Clock::fake(25);
//! let mut latency_ns = Histogram::new();
//! for _ in 0..1000 {
//!     let start = clock.ticks();
//!     let end = clock.ticks();
//!     latency_ns.record(clock.ns_between(start, end));
//! }
//! assert_eq!(latency_ns.percentile(99.0), Some(25));
//! ```
//!
//! **Invariant:** nothing here touches an engine, prints, or draws random numbers: the caller
//! hands in the source of randomness, so that an interval can be computed again from a seed.
//! Unsafe code is confined to one module of system calls.
#![deny(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod calibration;
mod clock;
mod cpu_times;
mod histogram;
mod layout;
mod live;
mod scale;
pub mod stats;
#[expect(unsafe_code, reason = "the counter instruction and the system calls of time and usage")]
mod sys;
pub mod usage;
pub mod wall;

pub use clock::{Clock, ClockSource, reduce_timer_slack};
pub use cpu_times::{CpuShare, CpuTimes};
pub use histogram::{Histogram, HistogramParts};
pub use live::{LiveCounter, LiveHistogram};

//! # keyrack-loadgen: load on servers of memcached and Redis, with true tail latencies
//!
//! ```text
//!   flags --> Settings --Plan::new--> Plan
//!                                      |
//!                 control (search, scan, until) --+--> run: connect, load, warm up, barrier
//!                                                 |          |
//!                                                 |     worker, one thread each: an epoll loop
//!                                                 |       arrival --due--> content --> target
//!                                                 |       server --replies--> target --> account
//!                                                 |          |
//!                                                 +<-- Outcome: histograms, series, counts
//!                                                            |
//!                                                         verdict
//! ```
//!
//! A request has three moments: when it was *intended*, when its bytes were *sent*, when its reply
//! was *received*. Response time counts from the first, service time from the second, and the
//! difference is the delay that this program added. Under an offered rate nothing is left out: what
//! cannot be sent waits in a queue without limit, and what is not answered is counted as such.
//!
//! **Invariant:** a thread owns its connections, its draws and its histograms. Between the start
//! and the end of a measurement threads share nothing but counters that one of them writes.
#![forbid(unsafe_code)]

pub mod account;
pub mod agents;
pub mod arrival;
pub mod content;
pub mod control;
mod durations;
mod error;
pub mod export;
mod named;
pub mod output;
pub mod plan;
pub mod respond;
mod ring;
pub mod route;
pub mod run;
mod server;
pub mod target;
pub mod trace;
pub mod verdict;
mod worker;

pub use error::{Error, Result};
pub use server::Server;
pub use worker::Sample;

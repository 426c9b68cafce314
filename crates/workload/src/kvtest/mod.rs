//! The workloads of the Masstree tester, `mttest`: each a program of its own.
//!
//! A mix is a unit that a harness calls in a loop. A *job* is the loop itself: every thread runs
//! it once, from its first put to its last check, and reports what it did. Jobs have phases, wait
//! for each other through the store, and check what they read.
//!
//! ```text
//!   jobs() --> Job { name, about, params, run }
//!                       |
//!   thread 0: run(Client 0, Lcg 0)      one store, one clock
//!   thread 1: run(Client 1, Lcg 1)
//!                  |
//!                  +--> operations, notices, a Row of results; or a Halt
//! ```
//!
//! Names, random numbers, keys, values and the order of operations are those of the tester, bit for
//! bit, so that figures can be set beside its own. Thread `t` draws from seed `31949 + t % 48`
//! unless said otherwise, and a loop bounded by the limit runs `limit + 1` times. What differs:
//!
//! * `rw1long` reads back in the order in which it drew. The original draws (number, name) and
//!   reads (name, number), and so never finds its keys.
//! * `rcol1` and its like, as the first job on a store, put what they are about to read. The
//!   original reads what nobody has put and aborts.
//! * `rscale` gets from as many parts as there are threads, up to the original's 16, and where it
//!   is the first job on a store, they are loaded before. The original gets keys that nobody has
//!   put, and aborts.
//! * `scan1` and `rscan1` check the values that they see too, and every scan has to be in order.
//! * `conflictscan1` detects a conflict by content: a scan and its repetition differ. The original
//!   compares the versions of the tree nodes that it touched, which changes more often: any write
//!   to such a node counts there, whether or not the scan would have seen it.
//! * `splitremove1` goes on when a thread has slept through the end of a round. The original's
//!   threads then wait for each other until the time is over.
//! * `wd1` and its like stop waiting for a key that a small limit keeps from ever being put.
//! * `rw1b` and `rw1fixedb` are `rw1` and `rw1fixed` in batches of 32. The original has none.
//!   Nothing else batches.
//! * A wrong answer is a [`Halt`] that names the key, what was expected and what was found. The
//!   original prints the tree and aborts the process.
//!
//! | job | keys | checks |
//! |---|---|---|
//! | `rw1`, `rw1puts`, `rw1fixed`, `rw1long` | random | every value, in random order |
//! | `rw2`, `rw2g90`, `rw2g98`, `rw2fixed`.. | multiples of a constant, modulo 2^32 | every value |
//! | `rw3`, `rw4`, `rw4fixed` | ascending, descending | every value |
//! | `same`, `rwsmall24`, `rwsep24` | a few | none |
//! | `wd1`, `wd1m1`, `wd1m2`, `wd3` | put and removed again | `wd3`: presence and values |
//! | `wscale`, `ruscale_init`, `rscale`, `uscale`, `bdb` | random | `rscale`, `bdb`: values |
//! | `wcol1`, `rcol1`, and with `o1`, `o2` | rows of columns | `rcol1`..: every value |
//! | `scan1`, `rscan1`, and with `q80` | every 1024th, others come and go | order, completeness |
//! | `splitremove1` | splits against removed layers | that one key stays |
//! | `conflictscan1` | a queue for each thread | inserts, removals, order |
//! | `url` | lines of a file | every value |

mod check;
mod churn;
mod client;
mod columns;
mod glibc;
mod layers;
mod mixed;
mod queues;
mod random;
mod readback;
mod row;
mod rowjobs;
mod scale;
mod scans;
mod table;
#[cfg(test)]
pub(crate) mod tests;
mod timed;
mod url;

pub use check::mismatch;
pub use client::{Client, Halt};
pub use columns::{column_of, with_column};
pub use glibc::GlibcRandom;
pub use random::Lcg;
pub use row::{Row, Value};
pub(crate) use table::limited;
pub use table::{End, Job, job, jobs};

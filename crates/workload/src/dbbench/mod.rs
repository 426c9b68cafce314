//! The workloads of two C++ stores: `db/fillseq` and its like, which are those of LevelDB's
//! `db_bench`, and `flodb/mixed`, which is the test of FloDB. Each is a
//! [`Job`](crate::kvtest::Job).
//!
//! ```text
//!   db/...   keys 0 .. num, 16 decimal digits each; values of 100 bytes, half of which compresses
//!            away. Every thread makes num writes or reads of its own.
//!
//!   before   nothing      fillseq fillrandom fillsync          the store has no rows
//!            every key    all others, in random order,         unless the store has rows already
//!                         by as many threads as will run       (`fill` says otherwise)
//! ```
//!
//! | job | a thread does |
//! |---|---|
//! | `db/fillseq` | put keys 0, 1, 2, .. |
//! | `db/fillrandom`, `db/overwrite` | put drawn keys; the store is empty, or has every key |
//! | `db/fillsync` | put num / 1000 drawn keys, each of them synced |
//! | `db/fillbatch` | put keys 0, 1, 2, .., a thousand a batch |
//! | `db/fill100K` | put num / 1000 drawn keys with values of 100,000 bytes |
//! | `db/readrandom`, `db/readhot` | get drawn keys, of the first hundredth |
//! | `db/readrandomsmall` | the same, a thousandth as often |
//! | `db/readmissing` | get drawn keys without their last digit |
//! | `db/readseq`, `db/readreverse` | walk over `reads` rows from the first, from the last |
//! | `db/seekrandom` | look for a drawn key and read it with `nexts` rows behind it |
//! | `db/seekordered` | the same, each key a drawn step of up to 99 above the last |
//! | `db/deleteseq`, `db/deleterandom` | remove keys 0, 1, 2, ..; drawn keys |
//! | `db/readwhilewriting` | `db/readrandom`, and one thread beside puts drawn keys meanwhile |
//! | `db/mixed` | put or get a drawn key, in the shares that `writes` says |
//! | `db/compact` | compact the whole store |
//! | `db/stats`, `db/sstables` | report what the store says about its levels, its tables |
//! | `db/crc32c` | compute the checksum of a block of 4 KiB, 500 MiB of them |
//! | `db/snappycomp`, `db/zstdcomp` | compress a block of 4 KiB, 1 GiB of them |
//! | `db/snappyuncomp`, `db/zstduncomp` | decompress a block of 4 KiB, 1 GiB of them |
//!
//! Where they differ from the original: keys and values come from our generators, by the seed of
//! the run; `nexts` is 10, not 0; `fill*` does not remove a store that is there, so it comes first;
//! what others work on is loaded without being counted, each key once, where the original finds
//! what an earlier benchmark has left.
//!
//! A thread reports `ops`, the seconds at which it began and ended, and `bytes` or `found` where
//! the original prints them.

mod flodb;
mod params;
mod reads;
mod table;
#[cfg(test)]
mod tests;
mod tools;
mod writes;

pub(crate) use table::NUM;
pub use table::jobs;

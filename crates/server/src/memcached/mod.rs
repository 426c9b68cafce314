//! memcached's three protocols on rows: a connection, and what it works with.
//!
//! ```text
//!   input --wire::parse--> text, meta, binary --> items (what the commands mean) --> RowSession
//!                             |
//!                             +--> output: replies in the order of the requests
//! ```
//!
//! The first byte of a connection says whether it speaks the binary protocol. Meta commands are
//! lines among the others.
//!
//! **Invariant:** one call of `serve` carries out whole requests alone, and stops when the output
//! of the iteration is full; what it leaves in the input it gets again.

mod binary;
mod binary_gets;
mod binary_replies;
mod connection;
mod counts;
mod cx;
mod detail;
mod dump;
mod gets;
mod items;
mod meta;
mod output;
mod reads;
mod serve;
mod shared;
mod stats;
mod text;

#[cfg(test)]
mod tests;

pub(crate) use connection::Connection;
pub(crate) use counts::Counts;
pub(crate) use cx::Cx;
pub(crate) use shared::{Facts, Shared};

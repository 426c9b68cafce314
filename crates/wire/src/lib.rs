//! # keyrack-wire: bytes to messages, messages to bytes
//!
//! The protocols that Keyrack speaks, without sockets and without a store: what a server reads and
//! writes, and what a client does.
#![forbid(unsafe_code)]

pub mod masstree;
pub mod memcached;
pub mod msgpack;
pub mod outcome;
pub mod resp;

mod error;
mod number;

pub use error::{Error, Result};
pub use number::{parse_i64, parse_i64_canonical, parse_u64, write_i64, write_u64};

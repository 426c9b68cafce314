//! The protocols of memcached: lines of text, the meta commands among them, and the binary one.
//!
//! ```text
//!   input buffer            parse                         what the server does
//!   get a\r\nset b 0 0 3    Complete(Get, 7 bytes)        runs it, drops 7 bytes
//!   set b 0 0 3\r\nxy       Incomplete(18 bytes)          reads on until 18 are there
//!   set b 0 0 9999999\r\n   Err(Refusal, skip 10000020)   replies, drops and skips
//! ```
//!
//! Reading is a function of the buffer alone: no state is kept between two calls, and a message is
//! borrowed from the buffer that it lies in. What is read from a message that is not all there yet
//! is bounded: lines by [`Limits`], and a value's bytes are not looked at before all are there.
//!
//! Everything comes in both directions, for a server and for its clients: [`text`] (with the meta
//! commands of [`meta`]) and [`binary`]. The documents are memcached's own: `doc/protocol.txt`, the
//! wiki's `BinaryProtocolRevamped` and `SASLAuthProtocol`. What differs on purpose is told in
//! `docs/protocols/memcached.md`.

pub mod binary;
pub mod meta;
pub mod text;

mod direction;
mod limits;
mod oversized;
mod parsed;
mod sniff;

pub use limits::{KEY_BYTES_MAX, Limits};
pub use oversized::oversized_key;
pub use parsed::Parsed;
pub use sniff::{Sniffed, sniff};

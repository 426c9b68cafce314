//! The text protocol: a line for a command, and after commands that store a block of data.
//!
//! ```text
//!   get KEY KEY...\r\n                          VALUE KEY FLAGS BYTES [CAS]\r\n
//!                                             DATA\r\n
//!                                             END\r\n
//!   set KEY FLAGS EXPTIME BYTES [noreply]\r\n   STORED\r\n
//!   DATA\r\n
//! ```
//!
//! A line ends with the first `\n`; a `\r` right before it belongs to the end. Words are separated
//! by blanks. A data block ends with `\r\n` at the place that its length says, and nowhere else.

pub(super) mod block;
mod keys;
mod parse;
mod parse_reply;
pub(super) mod refusal;
mod reply;
pub(super) mod request;

pub(super) mod line;

pub use crate::memcached::direction::Direction;
pub use keys::Keys;
pub use parse::parse;
pub use parse_reply::parse_reply;
pub use refusal::{Fault, Refusal};
pub use reply::{Reply, write_value};
pub use request::{Arithmetic, Get, Request, Store, StoreMode, write_get};

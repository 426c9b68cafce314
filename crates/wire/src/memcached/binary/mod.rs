//! The binary protocol: a header of 24 bytes, and a body of extras, key and value.
//!
//! ```text
//!     0        1        2                 4        5        6
//!   +--------+--------+-----------------+--------+--------+-----------------+
//!   | magic  | opcode | key bytes       | extras | 0      | vbucket, status |
//!   +--------+--------+-----------------+--------+--------+-----------------+ 8
//!   | body bytes: extras, key and value | opaque: comes back as it was      |
//!   +-----------------------------------+-----------------------------------+ 16
//!   | cas: version of the row                                               |
//!   +-----------------------------------------------------------------------+ 24
//!   | extras | key | value
//! ```
//!
//! Numbers have their highest byte first. Magic is 0x80 in requests and 0x81 in replies. What a
//! body must be is known from its opcode; a header is held against that before the body is waited
//! for.
//!
//! **Invariant:** of a message that is read, `extras + key + value = body`, with the extras that
//! its operation has, a key of at most 250 bytes, and a value within its limit.

pub(crate) mod header;
mod opcode;
mod parse;
mod parse_reply;
mod refusal;
mod reply;
mod request;

pub use header::HEADER_BYTES;
pub use opcode::Opcode;
pub use parse::parse;
pub use parse_reply::parse_reply;
pub use refusal::Refusal;
pub use reply::{Reply, Status, write_status, write_value};
pub use request::{Command, NO_INITIAL, Request, StoreMode};

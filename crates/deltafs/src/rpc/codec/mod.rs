//! Requests and replies as bytes. `docs/protocols/fs.md` has the tables.
//!
//! ```text
//!   request   length: u32 | call: u64 | operation: u8 | fields
//!   reply     length: u32 | call: u64 | code: u8      | fields, or words
//! ```
//!
//! Little-endian. `length` counts what follows it. Names and paths stand behind their length.
//! What is left over behind the fields of a frame is an error.

mod fields;
mod frame;
mod limits;
mod peer;
mod reply;
mod request;

pub(crate) use frame::{CODE_AT, REVOKED_BIT, put_frame};
pub use frame::{Frame, frame};
pub use limits::{BATCH_NAMES_MAX, FRAME_BYTES_MAX, HELLO_TOKEN_BYTES_MAX, WINDOW};
pub(crate) use limits::{DATAGRAM_HEAD_BYTES, DATAGRAM_MAGIC};
pub use peer::Peer;
pub(crate) use peer::{Action, Transaction};
pub use reply::Reply;
pub use request::{How, Protocol, Request, SetFields};

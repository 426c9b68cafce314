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
mod peer;
mod reply;
mod request;

pub(crate) use frame::{CODE_AT, REVOKED_BIT, put_frame};
pub use frame::{FRAME_BYTES_MAX, Frame, frame};
pub use peer::Peer;
pub(crate) use peer::{Action, Rename};
pub use reply::{Facts, Listed, Reply};
pub(crate) use reply::{kind_code, kind_of};
pub use request::{BATCH_NAMES_MAX, HELLO_TOKEN_BYTES_MAX, Request, SetFields};
pub(crate) use request::{HOW_FAIL, HOW_OPEN, HOW_UNCHECKED};

//! # Masstree's protocol: arrays of msgpack
//!
//! ```text
//!   [seq, 2, key, column...]      ->      [seq, 3, value...]
//!   [seq, 6, key, column, value]  ->      [seq, 7, 1]
//!        ^ operation, even                     ^ the operation and one
//! ```
//!
//! Client and server send arrays that begin with a number chosen by the client, which the answer
//! echoes, and the operation. Over TCP a connection begins with a handshake, many requests may be
//! under way, and answers come in the order of the requests. Over UDP a datagram is one request.
//!
//! A request that is whole and makes no sense is [`Request::Unknown`], whose answer is
//! `[seq, -1]`; bytes that are no request at all are an [`Error`]. After either a server closes the
//! connection.
//!
//! * **Invariant:** What was parsed was checked: the iterators over columns, values and pairs
//!   cannot fail, and give as many elements as they say.
//! * **Invariant:** What a message means does not depend on how it was cut into reads.
//!
//! ```
//! use keyrack_wire::masstree::{Command, Error, Limits, ReplyWriter, Request, RequestParser};
//! use keyrack_wire::msgpack::Int;
//!
//! # fn main() -> Result<(), Error> {
//! let mut bytes = Vec::new();
//! Command::Get { key: b"key", columns: &[0] }.write(&mut bytes, Int::from(7_u64));
//!
//! let (mut parser, mut input) = (RequestParser::new(), &bytes[..]);
//! let mut output = Vec::new();
//! while let Some(request) = parser.next(&mut input, &Limits::default())? {
//!     let mut reply = ReplyWriter::new(&mut output);
//!     match request {
//!         Request::Get { seq, key, columns } => {
//!             reply.row(seq, columns.len() as u32);
//!             columns.for_each(|column| reply.value((column == 0).then_some(key)));
//!         }
//!         other => reply.unknown(other.seq()),
//!     }
//! }
//! assert_eq!(output, b"\x93\x07\x03\xa3key");
//! # Ok(())
//! # }
//! ```
//!
//! The bytes stand in `docs/protocols/masstree.md`.

mod command;
mod datagram;
mod error;
mod limits;
mod lists;
mod op;
mod reply;
mod request;
mod writer;

pub use command::Command;
pub use datagram::{DATAGRAM_BYTES_MAX, datagram, datagram_reply_bytes_max};
pub use error::Error;
pub use limits::Limits;
pub use lists::{Changes, Columns, Pairs, ScanValue, Values};
pub use reply::{Reply, ReplyParser};
pub use request::{Handshake, Request, RequestParser};
pub use writer::{ROW_TYPE, ReplyWriter, ScanWriter};

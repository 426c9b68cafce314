//! # Redis' protocol, RESP2 and RESP3
//!
//! ```text
//!   server:   bytes -> RequestParser -> Request { args }      Writer -> bytes
//!   client:   command, CommandWriter -> bytes                 bytes -> ReplyParser -> Reply
//!                                                                      { tokens }
//! ```
//!
//! A request is a list of byte strings, as an array of bulk strings (`*2\r\n$3\r\nGET\r\n...`) or
//! as a line with spaces in it. A reply is a tree; the parser finds its end and hands it out as a
//! flat run of tokens, so that no depth of nesting takes stack or memory.
//!
//! Both parsers move their input forward over what they have taken, keep a small state for a
//! message of which a part is there, and go on where they stopped when more has come: a long value
//! or a long pipeline is looked at once. "Not enough bytes yet" is `Ok(None)`.
//!
//! * **Invariant:** What a message means does not depend on how it was cut into reads.
//! * **Invariant:** An announced length or count is held against [`Limits`] when it is read, and
//!   takes memory only as its bytes arrive.
//!
//! ```
//! use keyrack_wire::resp::{Limits, Protocol, ProtocolError, RequestParser, Writer, command};
//!
//! # fn main() -> Result<(), ProtocolError> {
//! let mut bytes = Vec::new();
//! command(&mut bytes, &[b"GET", b"key"]);
//! bytes.extend_from_slice(b"ping\r\n*1\r\n$4\r\nQU");
//!
//! let (mut parser, mut input) = (RequestParser::new(), &bytes[..]);
//! let mut output = Vec::new();
//! while let Some(request) = parser.next(&mut input, &Limits::default())? {
//!     let mut reply = Writer::new(&mut output, Protocol::Resp2);
//!     match (request.arg(0), request.len()) {
//!         (b"GET", 2) => reply.bulk(request.arg(1)),
//!         _ => reply.simple("PONG"),
//!     }
//! }
//! assert_eq!(output, b"$3\r\nkey\r\n+PONG\r\n");
//! assert_eq!(input, b"*1\r\n$4\r\nQU"); // stays until there is more
//! # Ok(())
//! # }
//! ```
//!
//! The public description is Redis' "RESP specification" with "RESP3" by the same authors; the
//! framing that is spoken here, and where it is stricter, stands in `docs/protocols/redis.md`.

mod command;
mod double;
mod error;
mod inline;
mod limits;
mod number;
mod reply;
mod request;
mod token;
mod writer;

pub use command::{CommandWriter, command};
pub use double::{DOUBLE_BYTES_MAX, put_double};
pub use error::ProtocolError;
pub use limits::Limits;
pub use reply::{DEPTH_MAX, Reply, ReplyParser, Tokens, reply_bytes};
pub use request::{Request, RequestParser};
pub use token::{Stream, Token};
pub use writer::{Protocol, Writer};
